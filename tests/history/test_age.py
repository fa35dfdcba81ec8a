"""The age of a green: which tests have not run for days, by the history and by records."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest
from conftest import Ciguard
from history.test_merge import record

from ciguard.codec.record.lines import encode as encode_line
from ciguard.history.age import AgeOfGreen, StaleTests, age_of_green, listed_cases, sentence
from ciguard.history.file import History, decode, encode
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.history.merge import merge
from ciguard.history.query import BaseQuery, days_since_execution
from ciguard.model import CaseKey, EndLine, Outcome, Record, Result


def run(
    day: int, *, end: str | None = "completed", branch: str = "main", **ends: Outcome
) -> Record:
    """A run; `a__x="passed"` is test `a` in variant x."""
    results = []
    for name, outcome in ends.items():
        unit, _, variant = name.partition("__")
        message = "Skipped: needs gpu\nmore" if outcome == "skipped" else None
        results.append(Result(unit, outcome, variant=variant, message=message))
    return record(24 * day, *results, end=end, branch=branch)


def past(*records: Record) -> History:
    return decode(encode(reduce(merge, (history_of([one]) for one in records))), "x")


def age(history: History, here: Record) -> AgeOfGreen:
    assert here.started_at is not None
    return age_of_green(history, "main", listed_cases([here]), here.started_at)


def keys(unit: str, variant: str = "") -> tuple[CaseKey, ...]:
    return (CaseKey("", variant, unit, unit),)


OLD = (run(1, a="passed", g="passed"), run(3, a="passed", g="failed"))
SINCE = tuple(run(day, a="passed", g="skipped") for day in range(4, 12))
HERE = run(12, a="passed", g="skipped")


def test_skipped_test_is_stale_after_days() -> None:
    found = age(past(*OLD, *SINCE), HERE)
    assert found == AgeOfGreen("main", 2, 1, (StaleTests(9, None, "needs gpu", keys("g")),))
    said = "1 test did not run for 9 days (skipped: needs gpu); executed 50.0 % of 2 listed tests."
    assert sentence(found, "passed") == f"main is green; {said}"
    assert sentence(found, "failed") == f"main: {said}"
    assert "executed" not in sentence(found, "incomplete"), "some of its tests have no result"


def test_nightly_run_counts_if_it_is_complete_and_of_the_base() -> None:
    nightly = run(10, g="passed")
    found = age(past(*OLD, *SINCE[:-2], nightly, *SINCE[-1:]), HERE)
    assert found.stale == ()
    assert sentence(found, "passed") == "main is green; executed 50.0 % of 2 listed tests."
    for other in (run(10, g="passed", branch="topic"), run(10, g="passed", end=None)):
        assert age(past(*OLD, *SINCE[:-2], other, *SINCE[-1:]), HERE).stale


def test_variant_that_never_ran_a_test_is_named() -> None:
    ends: dict[str, Outcome] = {"a__x": "passed", "a__y": "skipped", "b__x": "skipped"}
    found = age(past(run(1, **ends), run(2, **ends)), run(3, **ends, b__y="skipped"))
    assert found.stale == (
        StaleTests(None, None, "needs gpu", keys("b")),
        StaleTests(None, "y", "needs gpu", keys("a", "y")),
    )
    assert "; 1 test never ran in variant y (skipped: needs gpu); " in sentence(found, "passed")


@pytest.mark.parametrize(("last", "days"), [("passed", 21), ("failed", 20), ("skipped", 22)])
def test_values_before_the_last_twenty_count(last: Outcome, days: int) -> None:
    runs = [run(1, g="skipped"), run(2, g="passed"), run(3, g=last)]
    history = past(*runs, *(run(day, g="skipped") for day in range(4, 24)))
    assert history.older is not None
    at = run(24).started_at
    assert at is not None
    assert days_since_execution(history, BaseQuery("main"), at).tolist() == [days]


def test_run_without_a_time_leaves_no_test_stale() -> None:
    result_files = Record("x", None, results=(Result("g", "passed"),), end=EndLine("completed"))
    undated = history_of([result_files], RunMetadata(run_id=1))
    assert age(undated, HERE).stale == ()


def test_fully_executed_run_and_expected_failure_say_nothing() -> None:
    xfail = Result("g", "skipped", message="xfail: issue 7")
    found = age(past(*OLD, *SINCE), record(12 * 24, Result("a", "passed"), xfail, branch="main"))
    assert (found.listed, found.executed, found.stale) == (2, 2, ())
    assert sentence(found, "passed") == ""


def test_new_tests_that_ran_nowhere_are_named_in_a_proposal() -> None:
    skipped: dict[str, Outcome] = {f"n{number}": "skipped" for number in range(5)}
    here = run(
        12, a="passed", g="skipped", m__x="skipped", m__y="passed", n0__x="skipped", **skipped
    )
    found = age(past(*OLD, *SINCE), here)
    assert found.new == tuple(key for number in range(5) for key in keys(f"n{number}"))
    text = sentence(replace(found, branch=None), "failed")
    assert text == "5 new tests ran nowhere: n0, n1, n2 and 2 more."
    assert sentence(replace(age(past(*OLD, *SINCE), HERE), branch=None), "passed") == ""


def test_share_is_never_rounded_up_to_all() -> None:
    text = sentence(AgeOfGreen("main", 10_000, 9_999, ()), "passed")
    assert "executed 99.9 % of 10,000 listed tests" in text


def test_stale_lists_groups_oldest_first(ciguard: Ciguard, tmp_path: Path) -> None:
    history = past(*OLD, *(run(day, a="passed", g="skipped", n="skipped") for day in range(4, 12)))
    (tmp_path / "h").write_bytes(encode(history))
    words = ("history", "stale", "--history", "h")
    shown = ciguard(*words, cwd=tmp_path).stdout
    assert shown == (
        "main: 1 test never ran; 1 test did not run for 8 days; executed 33.3 % of 3\n"
        "listed tests.\n\n- 1 test never ran: n\n- 1 test did not run for 8 days: g\n"
    )
    few = json.loads(ciguard(*words, "--days", "9", "--format", "json", cwd=tmp_path).stdout)
    assert (few["schema"], few["listed"], few["executed"]) == (1, 3, 1)
    never = {"days": None, "variant": None, "reason": "", "tests": [["", "", "n", "n"]]}
    assert few["stale"] == [never]
    last = run(11, a="passed", g="skipped", n="skipped")
    assert last.header is not None
    lines = encode_line(last.header) + b"".join(map(encode_line, last.results))
    (tmp_path / "r.jsonl").write_bytes(lines)
    reasons = ciguard(*words, "r.jsonl", "--format", "markdown", cwd=tmp_path).stdout
    assert "- 1 test did not run for 8 days (skipped: needs gpu): g" in reasons
    (tmp_path / "h").write_bytes(encode(past(run(1, g="passed", end=None))))
    assert "no complete run" in ciguard(*words, cwd=tmp_path, expect=3).stderr
