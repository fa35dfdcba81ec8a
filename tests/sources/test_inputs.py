"""Which run is judged, and of which commits its event says it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ciguard.sources.inputs import open_subject_run

HEAD, MERGE, BASE = "1" * 40, "2" * 40, "3" * 40
PULL = {"number": 7, "head": {"sha": HEAD}, "base": {"ref": "main", "sha": BASE}}


@pytest.mark.parametrize("token", ["", "secret"])
@pytest.mark.parametrize(
    ("event", "heads"),
    [
        ({}, {MERGE}),
        ({"pull_request": PULL}, {HEAD, MERGE}),
        ({"workflow_run": {"id": 9, "head_sha": HEAD, "event": "pull_request"}}, {HEAD}),
        ({"workflow_run": {"id": 9}}, set()),
    ],
)
def test_subject_run_has_the_commits_of_the_event(
    tmp_path: Path, token: str, event: dict[str, object], heads: set[str]
) -> None:
    (tmp_path / "event.json").write_text(json.dumps(event))
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_REPOSITORY": "octo-org/shop",
        "GITHUB_RUN_ID": "7",
        "GITHUB_SHA": MERGE,
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_TOKEN": token,
    }
    with open_subject_run(environ) as verdict:
        assert verdict is not None
        assert verdict.run_id == (9 if "workflow_run" in event else 7)
        assert verdict.head_shas == heads
