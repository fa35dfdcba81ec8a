"""A run whose tests moved, by the real commands: what its report and comparison say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Ciguard
from guard.moved_runs import MOVED, SHARDS, MovedRun, run_with_a_move

from ciguard.model import DefaultsLine, Result


@pytest.fixture
def run() -> MovedRun:
    return run_with_a_move()


def folded(text: str) -> str:
    return " ".join(text.split())


def test_report_and_comparison_name_the_shard_that_claimed(
    tmp_path: Path, ciguard: Ciguard, run: MovedRun
) -> None:
    before = MovedRun()
    for leg in before.world.legs.values():
        leg.header = replace(leg.header, run_id=6, started_at="2026-11-20T10:00:00Z")
        first = leg.inner[0]
        assert isinstance(first, DefaultsLine)
        leg.inner[0] = replace(first, run_id=6)
    (tmp_path / "past").mkdir()
    _, past = before.world.write(tmp_path / "past")
    add = ("history", "add", past, "--history", "history", "--event", "push", "--branch", "main")
    ciguard(*add, cwd=tmp_path)
    run.leg("03", (*SHARDS["03"], MOVED), claimed=["03.1", "03.2", "01.2"], dies=True)
    run.world.drop("03", Result, unit=MOVED)
    plan, records = run.world.write(tmp_path)
    words = ("report", "--plan", plan, "--records", records, "--history", "history")
    text = folded(ciguard(*words, cwd=tmp_path, expect=13).stdout)
    assert "claimed by shard 03 from shard 01" in text
    # It is lost with shard 03: nobody took it out of shard 01, whose job ended well.
    assert "gone" not in text
    done = ciguard("compare", past, records, cwd=tmp_path)
    assert "1 block of tests moved between 2 shards of the candidate." in folded(done.stdout)
    again = ciguard("compare", past, past, cwd=tmp_path)
    assert "moved" not in again.stdout
