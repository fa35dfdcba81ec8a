"""A command that starts pytest twice for one batch is refused: nobody knows which one counts."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from run.leg_runner import PYTEST, no_survivor, plan_of, start_shard
from run.replay import replays

if TYPE_CHECKING:
    from pathlib import Path

ONE_AFTER_THE_OTHER = """#!/bin/sh
{python} -m pytest a "$@"
{python} -m pytest b "$@" || true
"""
TWICE = """#!{python}
import sys
import pytest
for _ in range(2):
    pytest.main(["a", *sys.argv[1:]])
"""
UNTIL_IT_PASSES = """#!/bin/sh
{python} -m pytest a "$@" || {python} -m pytest a "$@"
"""


@pytest.mark.parametrize(
    ("script", "folders", "body"),
    [
        (ONE_AFTER_THE_OTHER, "ab", "pass"),
        pytest.param(TWICE, "a", "pass", marks=pytest.mark.soak),
        (UNTIL_IT_PASSES, "a", "import os; os.mkdir('seen')\n    assert os.path.exists('twice')"),
    ],
    ids=["one after the other", "twice", "until it passes"],
)
def test_two_sessions_for_one_batch_are_rejected(
    tmp_path: Path, script: str, folders: str, body: str
) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"test_{folder}.py").write_text(f"def test_one():\n    {body}\n")
    (tmp_path / "test.sh").write_text(script.format(python=sys.executable))
    (tmp_path / "test.sh").chmod(0o755)
    plan = plan_of(
        [f"{folder}/test_{folder}.py::test_one" for folder in folders],
        suites={"": replace(PYTEST, command=("./test.sh",))},
    )
    leg = start_shard(tmp_path, plan).wait(13)

    end = leg.record().end
    assert end is not None
    assert end.ending == "setup_failed"
    assert "setup_failed: the suite's command started its framework twice" in leg.printed
    replays(leg.record_folder, plan)
    no_survivor(leg)
