"""The page: what it shows, that it stands alone, and where its marks stand."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Golden
from guard.fixtures import MIB, World, make_plan

from ciguard.codec.record.reader import read_records
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.run_columns import runs_from_records
from ciguard.guard.verdict import Leg, Policy
from ciguard.model import ProcessEndLine, SampleLine
from ciguard.render.links import Links
from ciguard.render.markdown import SizeLimit, utf16_units
from ciguard.report import charts
from ciguard.report.view import Report, ReportData

SAMPLES = Path(__file__).parents[1] / "samples" / "report"
SCRUB = {r"\b[0-9a-f]{12}\b": "PLAN", r"sha256-[^']+": "sha256-HASH"}
STYLE = re.compile(r"<style>.*?</style>|<script>.*?</script>", re.DOTALL)


def hurt() -> ReportData:
    """A shard without a record, a failure at a known line, and a base to compare with."""
    world = World()
    base = world.ran_as(6)
    world.result("01", "a.t::two", outcome="failed", message="no: 1 != 2\nmore", file="a.t", line=3)
    world.result("03", "d.t::six", outcome="failed", ending="timeout", message="over its limit")
    del world.legs["02"]
    candidate, before = (
        runs_from_records(read_records(one.files().items()), name)[-1]
        for one, name in ((world, "this run"), (base, "base"))
    )
    compared = compare_run(candidate, None, [before], plan=world.plan)
    jobs = {"01": "https://github.com/octo-org/shop/actions/runs/7/job/1001"}
    return ReportData(
        world.plan,
        world.prove(),
        compared,
        links=Links("https://github.com/octo-org/shop", 7, 2, "a" * 40, jobs, world.plan.suites),
        policy=Policy(fail_on=("new-failure", "oom"), source="base", commit="b" * 40),
        from_fork=True,
        records=tuple(read_records(world.files().items())),
    )


def test_report_as_page_and_comment(golden: Golden) -> None:
    contents = hurt()
    text = Report(contents, 0).page()
    golden(STYLE.sub("", text), SAMPLES / "hurt.html", scrub=SCRUB)
    text = Report(contents, 0).text(SizeLimit(65_536, utf16_units))
    golden(text, SAMPLES / "hurt.md", scrub=SCRUB)


def test_page_is_accessible_and_self_contained() -> None:
    contents = hurt()
    text = Report(contents, 0).page()
    assert '<html lang="en">' in text
    assert text.count("<h1") == 1
    assert "<th>" not in text, "each head says what it is the head of"
    assert text.count('<svg class="') + text.count("<svg viewBox") == text.count('role="img"')
    for labels in re.findall(r'aria-labelledby="([^"]+)"', text):
        assert all(text.count(f'id="{label}"') == 1 for label in labels.split())
    assert "default-src 'none'" in text
    assert not re.search(r"\b(src|href)=\"(?!https://github.com/octo-org/shop/)", text)


def test_page_of_a_run_without_a_plan() -> None:
    assert "plan.json: &lt;gone&gt;" in Report(None, 13, "plan.json: <gone>").page()


def test_memory_curves_are_ordered_by_distance_to_their_limit() -> None:
    world = World()
    plan = replace(
        world.plan, shards=tuple(replace(one, budget_bytes=600 * MIB) for one in world.plan.shards)
    )
    for key, peak in (("01", 100), ("02", 590), ("03", 650)):
        leg = world.legs[key]
        leg.own = [line for line in leg.own if not isinstance(line, SampleLine)]
        leg.own[1:1] = [
            SampleLine(at / 100, tree_bytes=peak * MIB if at == 77 else 50 * MIB)
            for at in range(1000)
        ]
    found, left_out = charts.memory_chart(
        plan, world.prove().legs, read_records(world.files().items())
    )
    assert [one.shard for one in found] == ["03", "02", "01"]
    assert [one.exceeds_limit for one in found] == [True, False, False]
    assert left_out == 0
    for one in found:
        heights = [float(point.partition(",")[2]) for point in one.points.split()]
        assert len(heights) <= charts.POINTS
        assert min(heights) < charts.CURVE_HEIGHT / 4, "the one high sample is not lost"
        assert (one.limit_y is None) == (one.shard == "01"), "a limit far above is no line"
        assert one.limit_y is None or (min(heights) < one.limit_y) == one.exceeds_limit
    assert found[1].title == "shard 02: 590 MiB of 600 MiB budget"


def test_memory_chart_shows_the_peak_of_the_table_and_each_shard() -> None:
    world = World()
    world.legs["01"].own.insert(-1, ProcessEndLine(2, "completed", 0, 2.0, peak_bytes=700 * MIB))
    del world.legs["02"]
    leg = world.legs["03"]
    leg.own = [line for line in leg.own if not isinstance(line, SampleLine)]
    leg.own.insert(-1, ProcessEndLine(2, "completed", 0, 2.0, peak_bytes=300 * MIB))
    verdict, records = world.prove(), tuple(read_records(world.files().items()))
    found, left_out = charts.memory_chart(world.plan, verdict.legs, records)
    assert [one.title for one in found] == [
        "shard 01: 700 MiB; samples up to 480 MiB",
        "shard 02: no record",
        "shard 03: 300 MiB; no samples",
    ]
    assert left_out == 0
    marked, lost, unsampled = found
    assert marked.peak_y is not None
    (first, again) = marked.points.split()
    assert first == again, "one sample is a point"
    assert marked.peak_y < float(first.partition(",")[2]), "the mark is above the sample"
    assert (lost.points, lost.peak_y, lost.wall_label) == ("", None, "")
    assert (unsampled.points, unsampled.peak_y) == ("", marked.peak_y)
    page = Report(ReportData(world.plan, verdict, records=records), 0).page()
    assert page.count('class="curve peak"') == 2
    assert ">700 MiB</td>" in page


def test_bars() -> None:
    legs = [
        Leg("01", True, "completed", 3, 3, 50.0, None, wall_s=100.0),
        Leg("02", False, "unknown", 3, 0, 80.0, None),
        Leg("03", True, "timeout", 3, 3, None, None, wall_s=90.0),
    ]
    found = charts.wall_chart(legs)
    assert [one.label for one in found.bars] == ["01", "03", "02"]
    assert [one.width for one in found.bars] == [660.0, 594.0, 0.0]
    assert [one.mark_x for one in found.bars] == [96.0 + 330.0, None, 96.0 + 528.0]
    assert [one.is_bad for one in found.bars] == [False, True, True]
    many = charts.wall_chart([replace(legs[0], shard=str(n)) for n in range(256)])
    assert (len(many.bars), many.omitted) == (charts.MAX_LEGS, 256 - charts.MAX_LEGS)


def test_paths_outside_the_repository_have_no_link() -> None:
    contents = hurt()
    result = contents.verdict.failures[0].result
    for file, shown in (
        ("a.t", "a.t"),
        ("x/../a b.t", "a%20b.t"),
        ("a).t", "a%29.t"),
        ("../a.t", None),
        ("/etc/passwd", None),
        ("..\\a.t", None),
    ):
        expected = f"https://github.com/octo-org/shop/blob/{'a' * 40}/{shown}#L3" if shown else ""
        assert contents.links.line(replace(result, file=file)) == expected


@pytest.mark.parametrize(
    ("runs", "output"),
    [(2, ""), (9, ""), (12, "0.2 confirmed peaks"), (20, "0.05 confirmed peaks")],
)
def test_false_alarm_rate_is_shown_if_confirmation_is_possible(runs: int, output: str) -> None:
    contents = hurt()
    assert contents.comparison is not None
    name = contents.comparison.candidate
    facts = replace(contents.comparison.baseline, runs=(name,) * runs)
    found = replace(
        contents.comparison,
        baseline=facts,
        unjudged_reason=None if runs > 2 else "few baseline runs",
    )
    text = Report(replace(contents, comparison=found), 0).text(SizeLimit(65_536, utf16_units))
    assert output in text
    assert ("False alarms" in text) == bool(output)


def test_page_of_a_plan_with_110_shards() -> None:
    world = World(make_plan({f"{n:03}": (f"a{n}.t::one",) for n in range(110)}))
    records = tuple(read_records(world.files().items()))
    text = Report(ReportData(world.plan, world.prove(), records=records), 0).page()
    assert text.count("<polyline") == charts.MAX_CURVES
    assert "86 other shards not shown" in text
