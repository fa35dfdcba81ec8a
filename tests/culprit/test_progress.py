"""Searches without processes: the tries of simulated commits, the answer and its words."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from conftest import Golden
from pydantic import TypeAdapter

from ciguard.culprit.answer import Answer, json_text, read_answer
from ciguard.culprit.progress import Line, Progress, Value, values_of
from ciguard.culprit.search import Measure
from ciguard.culprit.subjects import Subject
from ciguard.culprit.view import document, sentence
from ciguard.errors import InputError
from ciguard.model import EventLine, Record, Result, ShardLine, UnitKey
from ciguard.render.markdown import as_markdown
from ciguard.render.plaintext import as_text

SCHEMA = Path(__file__).parents[2] / "docs/reference/schemas/culprit.schema.json"
KEY = UnitKey("", "", "a.py::t")
COMMITS = [f"{n:040x}" for n in range(17)]
Measured = Callable[[int], float | None]  # the value of a try of a commit; None: no result


def value(measure: Measure, number: float | None) -> Value:
    return (*KEY, measure, number)


def search(
    measured: Measured,
    measure: Measure = "failure",
    broken: tuple[int, ...] = (),
    before: tuple[int, int] = (0, 20),
) -> tuple[Progress, Answer]:
    """Drive a search to its end as the work of the command does."""
    progress = Progress(COMMITS, [Subject(KEY, measure, before)], 0.95)
    while (at := progress.next_position()) is not None:
        assert len(progress.seconds["tried"]) < 60
        if at in broken:
            line = Line("unusable", COMMITS[at], 3.0, "exit code 1")
        elif at not in progress.prepared:
            line = Line("prepared", COMMITS[at], 2.0)
        else:
            number = measured(at)
            failed = None if number is None else number * (measure == "failure")
            values: tuple[Value, ...] = (value("failure", failed),)
            if number is not None and measure != "failure":
                values = (*values, value(measure, number))
            line = Line("tried", COMMITS[at], 1.0, values=values)
        progress.add(line)
    return progress, progress.answer({COMMITS[9]: "break <b>it</b>"}, "")


def fails_since(first: int, rate: float = 1.0, flaky: float = 0.0) -> Measured:
    choose = random.Random(first)
    return lambda at: float(choose.random() < (rate if at >= first else flaky))


def test_flaky_failure_is_named_with_its_evidence() -> None:
    _, answer = search(fails_since(9, 0.9, 0.1), before=(2, 18))
    (test,) = answer.tests
    assert test.verdict == "culprit"
    assert test.candidates[0].sha == COMMITS[9]
    assert test.candidates[0].probability >= 0.95
    said = sentence(test)
    assert said.startswith(f"since {'0' * 10} (9")
    assert " tries since, failed in " in said
    shown = as_markdown(document(answer))
    assert "<b>" not in shown


@pytest.mark.parametrize(
    ("measure", "sizes", "first", "text"),
    [
        ("memory", (20 << 20, 30 << 20), 9, "30.0 MiB (n="),
        ("duration", (1.0, 1.6), 3, "): 1.60 s (n="),
        ("duration", (1.0, 1.0), 0, "not reproduced: 1.00 s (n="),
    ],
)
def test_sizes(measure: Measure, sizes: tuple[float, float], first: int, text: str) -> None:
    _, answer = search(lambda at: sizes[at >= first], measure)
    assert text in sentence(answer.tests[0])
    assert [one.sha for one in answer.tests[0].candidates] == ([COMMITS[first]] if first else [])


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (lambda _: 0.0, "not reproduced: failed in 0 of "),
        (lambda _: 1.0, "bad before the range: failed in "),
        (fails_since(0, 0.4), "not reproduced: failed in "),
        (lambda _: None, "not tried: no result of this test"),
    ],
    ids=["passes", "fails", "flaky", "missing"],
)
def test_no_commit_is_blamed_without_a_change(measured: Measured, said: str) -> None:
    _, answer = search(measured, before=(8, 12) if "failed" in said else (0, 20))
    assert sentence(answer.tests[0]).startswith(said)
    assert answer.tests[0].candidates == ()


def test_commits_that_do_not_build_leave_a_set() -> None:
    """The first bad commit and the one before it have no result: any of three may be it."""
    _, answer = search(fails_since(9), broken=(8, 9))
    (test,) = answer.tests
    assert {one.sha for one in test.candidates} == {COMMITS[8], COMMITS[9], COMMITS[10]}
    assert sentence(test).startswith("since one of 3 commits: ")
    shown = as_text(document(answer))
    assert shown.count("not tried: exit code 1") == 2


def test_test_without_a_result_does_not_block_others() -> None:
    """Of two tests, one is newer than most commits; a failing test has no memory."""
    other = UnitKey("", "", "b.py::t")
    subjects = [Subject(KEY, "failure"), Subject(other, "failure"), Subject(KEY, "memory")]
    progress, at = Progress(COMMITS, subjects, 0.95), 0
    while (position := progress.next_position()) is not None:
        progress.prepared.add(at := position)
        rows = [value("failure", float(at >= 9)), (*other, "failure", 0.0 if at > 12 else None)]
        rows += [] if at >= 9 else [value("memory", 1e8)]
        progress.add(Line("tried", COMMITS[at], 1.0, values=rows))
    answers = progress.answer({}, "").tests
    assert [one.sha for one in answers[0].candidates] == [COMMITS[9]]
    assert answers[2].verdict == "one of"


def test_import_error_is_the_failure_only_if_it_is_so_at_the_bad_end() -> None:
    record = Record("01", ShardLine(plan_id="p", shard="01"))
    event = EventLine(kind="not_imported", at_s=1.0, unit=KEY.unit)
    rows = [*values_of(replace(record, events=(event,)), [KEY])]
    assert rows == [value("failure", None), (*KEY, "import", 1.0)]
    progress = Progress(COMMITS, [Subject(KEY, "failure")], 0.95)
    while (at := progress.next_position()) is not None:
        own = rows if at >= 5 else [value("failure", 0.0)]
        progress.prepared.add(at)
        progress.add(Line("tried", COMMITS[at], 1.0, values=own))
    (test,) = progress.answer({}, "").tests
    assert [one.sha for one in test.candidates] == [COMMITS[5]]


def test_many_tests_of_one_commit_are_one_answer() -> None:
    _, answer = search(fails_since(9))
    tests = tuple(replace(answer.tests[0], unit=f"a.py::{n}") for n in range(200))
    shown = as_text(document(replace(answer, tests=tests)))
    assert "a.py::0, a.py::1, a.py::2 and 197 more: since 0000000000" in " ".join(shown.split())
    assert len(shown.splitlines()) < 30


def test_values_of_a_record() -> None:
    results = (
        Result(KEY.unit, "passed", case="1", wall_s=1.0, peak_delta_bytes=5),
        Result(KEY.unit, "passed", case="2", wall_s=2.0, peak_delta_bytes=9),
        Result("b", "failed", case="b", wall_s=1.0),
        Result("b", "passed", case="b", try_number=2, wall_s=1.0),
        Result("c", "skipped", case="c"),
    )
    record = Record("01", ShardLine(plan_id="p", shard="01"), results=results)
    keys = [KEY, UnitKey("", "", "b"), UnitKey("", "", "c"), UnitKey("", "", "d")]
    assert [*values_of(record, keys)] == [
        value("failure", 0.0),
        value("duration", 3.0),
        value("memory", 9.0),
        ("", "", "b", "failure", 1.0),
        ("", "", "c", "failure", None),
        ("", "", "d", "failure", None),
    ]


def test_answer_is_read_as_it_was_written() -> None:
    _, answer = search(fails_since(9))
    text = json_text(answer)
    assert read_answer(text.encode(), "x") == answer
    with pytest.raises(InputError, match="no answer of `ciguard culprit`"):
        read_answer(text.replace('"culprit"', '"guilty"').encode(), "x")


def test_schema_of_the_answer(golden: Golden) -> None:
    schema = TypeAdapter(Answer).json_schema()
    golden(f"{json.dumps(schema, indent=2)}\n", SCHEMA)
    _, answer = search(fails_since(9))
    jsonschema.validate(json.loads(json_text(answer)), schema)
