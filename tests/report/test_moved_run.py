"""A run whose tests moved, by the real commands: what its report and comparison say."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from guard.moved_runs import MOVED, SHARDS, MovedRun, run_with_a_move

from ciguard.guard.moved_units_view import schedule_chart
from ciguard.model import DefaultsLine, Result
from ciguard.model.moved_units import ShardMoves
from ciguard.report.view import Report, ReportData

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Ciguard


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
    assert "1 block of tests moved between 2 shards during the candidate." in folded(done.stdout)
    again = ciguard("compare", past, past, cwd=tmp_path)
    assert "moved" not in again.stdout


def test_page_has_both_schedules(run: MovedRun) -> None:
    page = Report(ReportData(run.plan, run.world.prove()), 0).page()
    assert "1 test moved between 2 shards" in page
    chart = re.search(r'aria-labelledby="schedules-title.*?</svg>', page, re.DOTALL)
    assert chart is not None
    assert len(re.findall('class="static"', chart[0])) == 3
    assert len(re.findall('class="others-block"', chart[0])) == 1
    assert "schedules" not in Report(ReportData(run.plan, MovedRun().world.prove()), 0).page()


def test_bars_of_a_schedule_add_up() -> None:
    legs = (
        ShardMoves("02", 1, 0, 10.0, 5.0, 20.0, 0.0, 40.0, 20.0, 3, 1.0, 1.0),
        ShardMoves("01", 0, 1, 40.0, 5.0, 0.0, 20.0, 46.0, 60.0),
        ShardMoves("03", 0, 0, 6.6, 0.0, 0.0, 0.0, None, None),
    )
    first, second, third = schedule_chart(legs).pairs
    assert (first.label, second.label, third.label) == ("01", "02", "03")
    # 60 s are 600 units wide, from 96 on.
    assert [(one.kind, one.x, one.width) for one in second.parts] == [
        ("own", 96, 100),
        ("own-block", 196, 50),
        ("others-block", 246, 200),
        ("rest", 446, 50),
    ]
    assert (first.static_width, second.static_width, third.static_width) == (600, 200, None)
    assert [one.kind for one in third.parts] == ["own"]


def test_chart_of_many_shards_leaves_out_the_shortest() -> None:
    legs = tuple(ShardMoves(f"{n:03}", own_s=float(n), wall_s=float(n)) for n in range(1, 101))
    chart = schedule_chart(legs)
    assert (len(chart.pairs), chart.omitted, chart.pairs[0].label) == (40, 60, "100")
