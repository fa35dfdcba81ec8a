"""The range of a search by histories that the code's own writer made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce

import pytest
from compare.compare_factories import case, run_of

from ciguard.compare.compare_runs import compare_run
from ciguard.culprit.search import Measure
from ciguard.culprit.subjects import Range, Subject, range_of_comparison, range_of_history
from ciguard.errors import NothingToDo, UsageError
from ciguard.history.file import History, empty
from ciguard.history.ingest import history_of
from ciguard.history.merge import merge
from ciguard.model import EndLine, Record, Result, ShardLine, UnitKey

KEY = UnitKey("", "", "a.py::t")


def record(number: int, results: Sequence[Result], branch: str = "main") -> Record:
    at = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=number)
    line = ShardLine(
        plan_id="p",
        shard="01",
        run_id=100 + number,
        branch=branch,
        event="push",
        head_sha=f"{number:040x}",
        started_at=at.isoformat(),
    )
    return Record("01", line, results=tuple(results), end=EndLine("completed", at_s=60.0))


def history(outcomes: str, walls_s: Sequence[float] = (), unit: str = KEY.unit) -> History:
    """One run of the base a letter: passed, failed, retried, skipped, or a run without the test."""
    runs = []
    for number, letter in enumerate(outcomes):
        wall_s = walls_s[number] if walls_s else 0.1
        word = {"f": "failed", "s": "skipped"}.get(letter, "passed")
        number_of_tries = 1 + (letter == "r")
        result = Result(unit, word, case=unit, wall_s=wall_s, try_number=number_of_tries)  # type: ignore[arg-type]
        results = [result] if letter != "-" else []
        if letter == "r":
            results.insert(0, Result(unit, "failed", case=unit))
        runs.append(history_of([record(number, [*results, Result("other", "passed", case="o")])]))
    return reduce(merge, runs, empty())


@pytest.mark.parametrize(
    ("outcomes", "good", "bad", "before", "since"),
    [
        ("ppppff", 3, 4, (0, 4), (2, 0)),
        ("pfpprf", 4, 5, (2, 3), (1, 0)),  # a retried pass was red once, and is no new failure
        ("pps-ff", 1, 4, (0, 2), (2, 0)),  # skips and runs without the test say nothing
    ],
)
def test_range_of_a_failure(
    outcomes: str, good: int, bad: int, before: tuple[int, int], since: tuple[int, int]
) -> None:
    found = range_of_history(history(outcomes), "main", [KEY], "failure")
    subject = Subject(KEY, "failure", before, since)
    assert found == Range(f"{good:040x}", f"{bad:040x}", (subject,))


def test_range_of_two_tests_holds_both() -> None:
    other = KEY._replace(unit="b.py::t")
    both = merge(history("pppfff"), history("ppfffff", unit=other.unit))
    found = range_of_history(both, "main", [KEY, other], "failure")
    assert (int(found.good, 16), int(found.bad, 16)) == (1, 3)


@pytest.mark.parametrize("outcomes", ["pppp", "ffff", "", "ssss"])
def test_history_without_a_change_asks_for_commits(outcomes: str) -> None:
    with pytest.raises(UsageError, match="pass --good COMMIT"):
        range_of_history(history(outcomes), "main", [KEY], "failure")


def test_range_of_a_duration_is_its_change_point() -> None:
    walls_s = [1.0 + n % 3 / 100 for n in range(20)] + [1.6 + n % 2 / 100 for n in range(10)]
    found = range_of_history(history("p" * 30, walls_s), "main", [KEY], "duration")
    assert (int(found.good, 16), int(found.bad, 16)) == (19, 20)
    with pytest.raises(UsageError, match="no change in the history"):
        range_of_history(history("p" * 30, walls_s[::-1]), "main", [KEY], "duration")


def compared(outcome: str, mib: float = 20) -> Range:
    past = [
        run_of(
            {"01": [case("a", 0.1, 20 + n / 1e3), case("b", 0.1, 20)]},
            run_id=n,
            head_sha=f"{n:040x}",
        )
        for n in range(1, 13)
    ]
    head, again = (
        run_of(
            {"01": [case("a", 0.1, mib), case("b", 0.1, 20, outcome=outcome)]},
            run_id=run_id,
            head_sha=f"{20:040x}",
        )
        for run_id in (20, 21)
    )
    return range_of_comparison(compare_run(again, None, past, previous=head))


@pytest.mark.parametrize(
    ("outcome", "mib", "measures"),
    [
        ("failed", 20, ["failure"]),
        ("passed", 60, ["memory"]),
        ("failed", 60, ["failure", "memory"]),
    ],
)
def test_range_of_a_comparison(outcome: str, mib: float, measures: list[Measure]) -> None:
    found = compared(outcome, mib)
    assert (int(found.good, 16), int(found.bad, 16)) == (12, 20)
    assert [subject.measure for subject in found.subjects] == measures


def test_comparison_without_a_loss_has_nothing_to_search() -> None:
    with pytest.raises(NothingToDo, match="no test newly fails"):
        compared("passed")
