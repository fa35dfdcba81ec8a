"""The text of a comment: it fits, sheds rows before it sheds anything else, and holds no markup."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from guard.fixtures import SHARDS, World, make_leg, make_plan, passed

from ciguard.codec.record.reader import read_records
from ciguard.compare.compare_runs import NO_CONTEXT, Context, compare_run
from ciguard.compare.comparison import Comparison, triggered
from ciguard.compare.run_columns import runs_from_records
from ciguard.compare.wording import headline as compare_headline
from ciguard.guard.verdict import Excused, Verdict
from ciguard.model import Plan, Result
from ciguard.render.markdown import SizeLimit, utf16_units
from ciguard.render.notes import Note
from ciguard.report.publish import MAX_CHARS
from ciguard.report.view import Report, ReportData, excuses_of

LATE_MAIL = Note("quarantined", {"reason": "late mail", "issue": "#7", "until": "2026-12-01"})


def comment(plan: Plan, verdict: Verdict, limit: int = 65_000, **more: Any) -> str:
    return Report(ReportData(plan, verdict, **more), 0).text(SizeLimit(limit, utf16_units))


ROOT = Path(__file__).parents[2]


@cache
def many_failures() -> tuple[Plan, Verdict]:
    """3,000 of them, made once."""
    world = World(
        make_plan({"01": tuple(f"pkg/test_module_{n}.py::test_case" for n in range(3000))})
    )
    leg = world.legs["01"]
    leg.inner = [
        passed(line.unit, outcome="failed", message=f"assert left == right in {line.unit}\nmore")
        if isinstance(line, Result)
        else line
        for line in leg.inner
    ]
    world.end("01", exit_code=10, counts={"failed": 3000})
    return world.plan, world.prove()


def failing_world(count: int, name: str = "pkg/test_module_{}.py::test_case") -> World:
    units = tuple(name.format(number) for number in range(count))
    world = World(make_plan({"01": units}))
    for unit in units:
        world.result("01", unit, outcome="failed", message=f"assert left == right in {unit}\nmore")
    return world


def test_short_comment_is_complete() -> None:
    world = failing_world(3)
    text = comment(world.plan, world.prove(), why="there is no history")
    assert text.startswith("### :x: 3 of 3 tests failed\n")
    assert text.count("> | <code>assert left") == 3
    assert "not compared: there is no history" in text
    assert "more" not in text
    assert "\n\n\n" not in text


@pytest.mark.parametrize("limit", [65_536, 20_000, 5_000, 1_000, 200])
def test_long_comment_fits_and_counts_omitted_rows(limit: int) -> None:
    plan, verdict = many_failures()
    text = comment(plan, verdict, limit)
    assert len(text) <= limit
    assert text.startswith("### :x: 3,000 of 3,000 tests failed")
    open_rows = text.partition("<details>")[0].count("> | <code>assert left")
    folded = text.count("| failed | <code>")
    if folded:
        assert (open_rows, f"...and {2994 - folded:,} more failures in the report." in text) == (
            6,
            True,
        )
    elif limit > 1000:
        assert "2,994 failures" in text.partition("Left out")[2]


def comparison_of(world: World, base: World, context: Context = NO_CONTEXT) -> Comparison:
    """A run against one before it."""
    candidate, before = (
        runs_from_records(read_records(one.files().items()), name)[-1]
        for one, name in ((world, "this run"), (base, "base"))
    )
    return compare_run(candidate, None, [before], plan=world.plan, context=context)


def compared(world: World, base: World) -> str:
    found = comparison_of(world, base)
    return comment(world.plan, world.prove(), comparison=found)


def test_excused_failures_do_not_fail_the_comparison() -> None:
    world = failing_world(2)
    base = World(world.plan, {"01": make_leg(world.plan, "01", run=6)})
    verdict = world.prove()
    first, second = (Excused("01", one.result, LATE_MAIL) for one in verdict.failures)
    half = replace(verdict, quarantined=(first,))
    found = comparison_of(world, base, Context(excused=excuses_of(half)))
    assert triggered(found, {"new-failure"}) == ("new-failure",)
    assert found.state == "worse"
    assert "1 newly failing; 1 quarantined" in compare_headline(found)
    assert [one.kind for one in found.transitions] == ["newly_failing", "quarantined"]
    both = replace(half, failing_on_base=(second,))
    found = comparison_of(world, base, Context(excused=excuses_of(both)))
    assert triggered(found, {"new-failure"}) == ()
    assert found.state == "inconclusive"
    assert not Report(ReportData(world.plan, both, found), 0).needs_attention
    text = comment(world.plan, both, comparison=found)
    assert "\n| newly failing |" not in text
    assert text.count("late mail") == 2


def test_first_comment_has_one_heading_and_one_data_note() -> None:
    world = World()
    base = world.ran_as(6)
    world.result("01", "a.t::one", wall_s=0.7)
    text = compared(world, base)
    assert [line for line in text.partition("<details>")[0].splitlines() if line] == [
        "### :white_check_mark: PASSED: all 8 tests of 3 shards have a result",
        "8 of 8 tests ran &#183; 3 shards &#183; 3.10 s (main: 3.10 s, n=1) &#183; "
        "comparison begins after 3 runs of main; 1 so far",
    ]
    assert text.count("3 runs of main") == 1
    assert "\n\n\n" not in text
    found = comparison_of(world, base)
    cancelled = replace(found.baseline.runs[0], complete=False, values=0)
    runs = (*found.baseline.runs, cancelled, cancelled)
    found = replace(found, baseline=replace(found.baseline, runs=runs))
    text = comment(world.plan, world.prove(), comparison=found)
    assert "; 1 so far (2 incomplete: check cancel-in-progress on its pushes)" in text


@pytest.mark.parametrize("slow", [1, 6])
def test_large_slowdowns_are_listed_without_confirmation(slow: int) -> None:
    plan = make_plan({"01": tuple(f"a.t::test_{number}" for number in range(8))})
    world, base = World(plan), World(plan, {"01": make_leg(plan, "01", run=6)})
    for number in range(slow):
        world.result("01", f"a.t::test_{number}", wall_s=30.0)
    text = compared(world, base)
    verb = "takes" if slow == 1 else "take"
    assert f"- **{slow} test{'s' * (slow > 1)} {verb} longer** (no verdict, 1 run): " in text
    folded = f"{slow} unjudged changes</summary>" in text
    assert folded == (slow > 5)
    for number in range(slow):
        assert f"<code>a.t::test&#95;{number}</code>" in text.replace("_", "&#95;")


def test_comment_names_a_test_once() -> None:
    world, base = World(make_plan({**SHARDS, "04": ("e.t::new",)})), World()
    base.legs = {key: make_leg(base.plan, key, run=6) for key in base.legs}
    leg = world.legs["04"]
    leg.inner.insert(2, passed("e.t::new", outcome="failed", try_number=1))
    leg.inner[3] = passed("e.t::new", wall_s=0.9, try_number=2)
    del world.legs["02"]
    text = compared(world, base)
    assert text.count("e.t::new") == 1
    assert text.count("c.t::four") == 1
    assert text.count("INCOMPLETE") == 1


def test_comment_of_a_run_without_a_plan() -> None:
    answer = Report(None, 13, "cannot be read. Fix: @somebody")
    text = answer.text(SizeLimit(1000, utf16_units))
    assert text.startswith("### :warning: INCOMPLETE: this run has no plan\n")
    assert "@somebody" not in text


def test_worst_of_3000_changes_come_first_and_the_rest_is_counted() -> None:
    units = tuple(
        f"pkg/test_module_{number:04}.py::test_with_a_long_name" for number in range(3000)
    )
    plan = make_plan({"01": units})
    world, base = World(plan), World(plan, {"01": make_leg(plan, "01", run=6)})
    endings = {0: "timeout", 1: "out_of_memory"}
    leg = world.legs["01"]
    leg.inner = [
        passed(
            line.unit,
            outcome="failed",
            ending=endings.get(number % 3, "completed"),
            message=f"assert {line.unit!r} == 1 " + "x" * 150,
        )
        if isinstance(line, Result)
        else line
        for number, line in enumerate(leg.inner)
    ]
    world.end("01", exit_code=10, counts={"failed": 3000})
    contents = ReportData(plan, world.prove(), comparison_of(world, base))
    text = Report(contents, 0).text(SizeLimit(MAX_CHARS, utf16_units))
    assert len(text) < MAX_CHARS
    places = [
        text.index(words)
        for words in ("3,000 of 3,000 tests failed", "3 causes", ">2,994 more failures: ")
    ]
    assert places == sorted(places)
    assert "newly timed out |" not in text, "the table of failures says it"
    assert "...and 2,944 more failures in the report." in text


STACK = """\
stopped: over its limit of 3 s
Current thread 0x00007f41 (most recent call first):
  File "/home/runner/shop/shop/prices.py", line 18 in settle
  File "/home/runner/shop/tests/test_prices.py", line 13 in test_settles
  File "/usr/lib/python3/site-packages/_pytest/python.py", line 187 in pytest_pyfunc_call
"""


def test_hung_test_shows_its_stack_down_to_its_file() -> None:
    unit = "tests/test_prices.py::test_settles"
    world = World(make_plan({"01": (unit,)}))
    world.result(
        *("01", unit), outcome="died", ending="timeout", message=STACK, file="tests/test_prices.py"
    )
    text = unescape(comment(world.plan, world.prove()))
    fold = text.partition("#### Stack of the test that hung or crashed")[2]
    frames = [line for line in fold.partition("####")[0].splitlines() if "  - " in line]
    assert frames == [
        "  - <code>shop/prices.py:18 settle</code>",
        "  - <code>tests/test_prices.py:13 test_settles</code>",
    ]


def test_five_failures_are_one_table() -> None:
    world = failing_world(5)
    text = comment(world.plan, world.prove()).partition("<details>")[0]
    assert text.count("|---") == 2, "of one table with two columns"
    assert text.count("> | <code>assert left") == 5
