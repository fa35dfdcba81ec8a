"""A first plan by the result files of the base's last run, which `history fetch` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from act.events import pull_request_event
from conftest import Ciguard
from fakegithub.actions import REPOSITORY, TIP, add_artifact, add_job, add_run
from fakegithub.state import FakeGitHub, Fault

DOCS = {"path": ".github/workflows/docs.yml"}
OF_TAG = {"head_sha": "c" * 40}  # whose name is that of the base
OF_FORK = {"event": "pull_request", "head_repository": {"full_name": "other/shop"}}


def junit(*times_s: float) -> dict[str, bytes]:
    cases = "".join(
        f'<testcase classname="tests.test_a" name="test_{number}" time="{time_s}"/>'
        for number, time_s in enumerate(times_s)
    )
    return {"r.xml": f"<testsuite>{cases}</testsuite>".encode(), "c.xml": b"<coverage/>"}


def fetch(ciguard: Ciguard, folder: Path, environ: dict[str, str]) -> str:
    """Run `history fetch` in the plan job of pull request 7."""
    (folder / "event.json").write_text(json.dumps(pull_request_event("a" * 40, "b" * 40)))
    variables = {
        **environ,
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_RUN_ID": "90",
        "GITHUB_WORKFLOW_REF": f"{REPOSITORY}/.github/workflows/tests.yml@refs/pull/7/merge",
    }
    words = ("history", "fetch", "copy", "--history", "none.ciguard")
    return ciguard(*words, cwd=folder, **cast("Any", variables)).stdout


@pytest.mark.parametrize(
    ("runs", "used"),
    [
        ({81: {}, 82: {"conclusion": "failure"}}, 82),
        ({81: {}, 82: {"conclusion": "cancelled"}, 83: OF_FORK, 84: DOCS}, 81),
        ({81: DOCS, 82: DOCS}, 82),
        ({81: {}, 82: OF_TAG}, 81),
        ({81: {}, 85: {}}, 81),  # with damaged files
    ],
)
def test_first_plan_has_the_times_of_the_bases_last_run(  # noqa: PLR0917
    ciguard: Ciguard,
    tmp_path: Path,
    server: FakeGitHub,
    environ: dict[str, str],
    runs: dict[int, dict[str, Any]],
    used: int,
) -> None:
    server.merge_bases[f"{TIP}...{OF_TAG['head_sha']}"] = "0" * 40
    for run, facts in runs.items():
        add_run(server, run, **facts)
        add_job(server, "test", run=run)
        files = {"r.xml": b"<testsuite><testcase"} if run == 85 else junit(100.0, 3.0 + run)
        add_artifact(server, "linux", files, run)
        add_artifact(server, "macos", files if run == 85 else junit(200.0), run)
        add_artifact(server, "build", b"no archive", run, size_in_bytes=9 << 20)
    source = f"result files of run {used} of main"
    assert f"{source}: times of 2 tests copied\n" in fetch(ciguard, tmp_path, environ)
    downloads = [one for one in server.request_log() if one.endswith("/zip")]
    assert len(downloads) == 2 + 2 * (85 in runs)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").touch()
    (tmp_path / "matrix.yml").write_text("v: [1]")
    words = ("plan", "--matrix", "matrix.yml", "--collect", "history", "--history", "copy:copy")
    printed = ciguard(*words, "-o", "plan.json", cwd=tmp_path).stdout
    assert f"; timings of 2 of 2 tests are from {source}" in " ".join(printed.split())
    plan = json.loads((tmp_path / "plan.json").read_text())
    times_s = {unit["unit"]: unit["wall_s"] for each in plan["shards"] for unit in each["units"]}
    assert times_s["tests/test_a.py::test_0"] == pytest.approx(166.7, abs=0.1), (
        "newer ones weigh more"
    )
    assert times_s["tests/test_a.py::test_1"] == 3.0 + used
    (tmp_path / ".test_durations").write_text('{"tests/test_a.py::test_0": 1}')
    printed = ciguard(*words, "--dry-run", cwd=tmp_path).stdout
    assert "1 of 1 test are from .test_durations" in " ".join(printed.split())


def test_plan_goes_on_without_times_of_the_base(
    ciguard: Ciguard, tmp_path: Path, server: FakeGitHub, environ: dict[str, str]
) -> None:
    none = "no times for a plan without a history: "
    add_run(server, 81)
    text = fetch(ciguard, tmp_path, environ)
    assert f"{none}no result files in the artifacts of the last runs of main" in text
    server.faults.append(Fault(path="/actions/runs", status=403, times=9))
    text = fetch(ciguard, tmp_path, environ)
    assert none in text
    assert "fix: give the job, or the App, `permissions:` actions: read" in text
