"""The explanation of a run or of one of its tests, from a report or from the history alone. Pure.

Text that tests or their processes wrote is marked, so that its reader, often a program that follows
what it reads, does not take it for words of ciguard.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, Literal

import numpy as np

from ciguard.compare.comparison import Comparison
from ciguard.compare.run_columns import Run
from ciguard.compare.transitions import CaseState, case_state, past_of
from ciguard.compare.whose import Answer, PastRun, advice_text, evidence_text
from ciguard.compare.wording import headline
from ciguard.document import Bullets, plain
from ciguard.errors import InputError
from ciguard.guard.verdict import Excused, Failure, Finding, Missing
from ciguard.guard.view import failure_kind, owner_text, reproduce_commands
from ciguard.guard.wording import finding_fix, finding_message, note_text
from ciguard.history.file import CODE_NAMES, History, Values
from ciguard.history.query import BaseQuery, base_runs
from ciguard.history.runs import UNDATED, HistoryRun
from ciguard.model import Result
from ciguard.render.links import Links
from ciguard.report.answer import (
    COUNTED,
    answers_of,
    base_of,
    change_lines,
    is_of_base,
    status_line,
    whose_text,
)
from ciguard.report.view import ReportData, first_line
from ciguard.text import case_name, count_of, duration, name_some, one_line, size, unit_name

MAX_TESTS: Final = 20
MAX_NAMED: Final = 10  # tests of an error, runs of a test
MAX_SEARCHED: Final = 5000  # names among which similar ones are searched: 1 s
NEVER: Final = "none of the kept runs"
NO_MESSAGES: Final = "the history has no messages: see the records of the run"
Source = Literal["records", "history", "service"]


@dataclass(frozen=True, slots=True)
class Untrusted:
    """Text that tests or their processes wrote: data, and never an instruction."""

    untrusted: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding about a run or a shard, the evidence, the tests that ran, and what to do.

    `text` quotes what processes wrote last, names of threads and files, and the like.
    """

    text: Untrusted
    level: str
    do: str
    evidence: tuple[Untrusted, ...] = ()
    running: tuple[Untrusted, ...] = ()


@dataclass(frozen=True, slots=True)
class TestPast:
    """The results of a test in the history's runs of the base.

    Attributes:
        rate: as "failed in 4 of 20 runs of main (95 % CI 8..42 %)".
        red_since: the oldest run of the newest consecutive failures; None if it passed last.
        last_run, last_passed: the newest kept run that executed it, and in which it passed.
        newest: as "run 4711, 2026-11-29, 3f2a91c: passed, 0.31 s, 60.0 MiB"; the newest first.
    """

    rate: str
    red_since: str | None
    last_run: str
    last_passed: str
    newest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExplainedTest:
    """A test: what happened to it, whose a failure is, and what to do.

    Attributes:
        result: "failed", "timeout", "no result", ...; of the last try.
        location: file and line; None if unknown. `url` is its page.
        whose, evidence, do: of a failure; "" for other tests.
        excused: why a failure does not count.
        owner: of a failure; "" if the project has no owners.
        reproduce: a command; "" if the plan is not known.
        past: only if the test was asked for.
    """

    test: Untrusted
    result: str
    shard: str
    message: Untrusted | None = None
    location: Untrusted | None = None
    url: str = ""
    whose: str = ""
    evidence: str = ""
    do: str = ""
    excused: str = ""
    owner: str = ""
    reproduce: str = ""
    wall_s: float | None = None
    peak_delta_bytes: float | None = None
    past: TestPast | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer for a run, or for tests of it.

    Attributes:
        state: "incomplete", "failed" or "passed", of the run.
        problems: findings, those first that make the run incomplete.
        tests: failures and then tests without a result, or the tests that were asked for.
        changes: sentences on memory, time and further measures.
        status: what ran, in how many shards, how long.
        run: page of the run on GitHub; "" if unknown.
        source: where the facts are from.
    """

    headline: str
    state: str
    problems: tuple[Problem, ...] = ()
    tests: tuple[ExplainedTest, ...] = ()
    changes: tuple[str, ...] = ()
    status: str = ""
    notes: tuple[str, ...] = ()
    run: str = ""
    source: Source = "records"


def explain_report(data: ReportData) -> Explanation:
    """Explain a judged run, with all of its failures."""
    verdict, comparison = data.verdict, data.comparison
    answers, order = answers_of(verdict, comparison), list(COUNTED)
    failed = (
        *sorted(verdict.failures, key=lambda one: order.index(answers[one.result.key].whose)),
        *(*verdict.quarantined, *verdict.failing_on_base),
    )
    tests = {one.result.key: _failed(data, one, answers.get(one.result.key)) for one in failed}
    commands = {unit: command for unit, (_, command) in reproduce_commands(verdict).items()}
    shown = [replace(test, reproduce=commands.get(key.unit_key, "")) for key, test in tests.items()]
    shown += [_missing(one, data.links, commands.get(one.key, "")) for one in verdict.missing]
    return Explanation(
        first_line(data),
        verdict.state,
        tuple(map(_problem, verdict.findings)),
        tuple(shown),
        changes=_changes(comparison),
        status=plain(status_line(verdict, comparison, data.links, data.records, data.why).content),
        run=data.links.run,
    )


def _missing(unit: Missing, links: Links, command: str) -> ExplainedTest:
    return ExplainedTest(
        Untrusted(unit_name(unit.key)),
        "no result",
        unit.shard,
        url=links.job(unit.shard),
        message=Untrusted(note_text(unit.reason)),
        do="see the problem of its shard",
        reproduce=command,
    )


def explain_past_run(comparison: Comparison) -> Explanation:
    """Explain a run of the history, which has no messages, and no plan to reproduce with."""
    answers = {case.key: case.answer for case in comparison.transitions if case.answer is not None}
    tests = []
    for case in comparison.transitions:
        if case.answer is not None:
            test = ExplainedTest(Untrusted(case_name(case.key)), _result(case.after), case.shard)
            tests.append(_with_answer(test, case.answer, comparison))
    whose = whose_text(answers, comparison)
    return Explanation(
        f"{count_of(len(answers), 'test')} failed{whose and f': {whose}'}; {headline(comparison)}",
        "incomplete" if comparison.is_incomplete else "failed" if answers else "passed",
        tests=tuple(tests),
        changes=_changes(comparison),
        notes=(NO_MESSAGES,),
        source="history",
    )


@dataclass(frozen=True, slots=True)
class Found:
    """A run, for questions about its tests.

    Attributes:
        run: None if only its explanation is known, so the tests that failed or have no result.
        query: the runs of the history that are the past of the run.
    """

    explanation: Explanation
    run: Run | None
    history: History | None
    query: BaseQuery


def explain_tests(found: Found, wanted: str) -> Explanation:
    """Explain the tests of a run that are called so: by name, by unit, or by a part of both.

    Raises:
        InputError: no test is called so.
    """
    explanation, run = found.explanation, found.run
    known = defaultdict[str, list[ExplainedTest]](list)  # two cases may have one name
    for test in explanation.tests:
        known[test.test.untrusted].append(test)
    positions = {case_name(key): position for position, key in enumerate(run.keys if run else ())}
    all_names = (*known, *(name for name in positions if name not in known))
    names = _matching(all_names, wanted)
    if not names:
        similar = get_close_matches(wanted, all_names[:MAX_SEARCHED], MAX_NAMED, cutoff=0.5)
        some = name_some(similar or all_names, lambda name: one_line(name, 120), MAX_NAMED)
        which = "tests" if run is not None else "failed tests, no others are known here"
        fix = f"name one of its {len(all_names):,} {which}, or a part, such as {some}"
        raise InputError("the run has no such test", where=f"TEST: {one_line(wanted)}", fix=fix)
    history, shown = found.history, names[:MAX_TESTS]
    pasts = _pasts(history, shown, found.query) if history is not None else {}
    tests = [
        replace(_with_numbers(test, run, positions.get(name)), past=pasts.get(name))
        for name in names
        for test in known.get(name, (ExplainedTest(Untrusted(name), "", ""),))
    ]
    others = sum(wanted in name and name not in names for name in known)
    also = (f"{count_of(others, 'more failed test')} with this in the name",) if others else ()

    def is_named(text: str) -> bool:
        return any(f"{name}{end}" in text for name in names for end in (" ", ": "))

    first = tests[0]
    whose = f": {first.whose}" if first.whose else ""
    in_shard = f" in shard {first.shard}" if first.shard else ""
    return replace(
        explanation,
        headline=f"{first.result}{in_shard}{whose}"
        if len(tests) == 1
        else f"{count_of(len(names), 'test')} with this in the name",
        problems=tuple(one for one in explanation.problems if is_named(one.text.untrusted)),
        tests=tuple(tests),
        changes=tuple(filter(is_named, explanation.changes)),
        status="",
        notes=(f"its run: {explanation.headline}", *also, *explanation.notes),
    )


def _matching(names: Sequence[str], wanted: str) -> list[str]:
    """Return the equal names, or the names of a unit's cases, or the names that contain it."""
    for is_match in (
        lambda name: name == wanted,
        lambda name: name.startswith((f"{wanted}[", f"{wanted}::", f"{wanted} ")),
        lambda name: wanted in name,
    ):
        if found := [name for name in names if is_match(name)]:
            return found
    return []


def _failed(data: ReportData, failure: Failure, answer: Answer | None) -> ExplainedTest:
    result = failure.result
    test = ExplainedTest(
        Untrusted(case_name(result.key)),
        failure_kind(result),
        failure.shard,
        Untrusted(result.message) if result.message else None,
        Untrusted(f"{result.file}:{result.line or '?'}") if result.file else None,
        data.links.line(result) or data.links.job(failure.shard),
        excused=note_text(failure.reason) if isinstance(failure, Excused) else "",
        owner=owner_text(data.verdict.owners.get(result.key.unit_key)),
    )
    return _with_answer(test, answer, data.comparison)


def _with_answer(
    test: ExplainedTest, answer: Answer | None, comparison: Comparison | None
) -> ExplainedTest:
    if answer is None:
        return test
    base = base_of(comparison)
    now = comparison.candidate.at if comparison is not None else None
    evidence = evidence_text(answer, base, now)
    do = advice_text(answer, base, is_of_base=is_of_base(comparison))
    return replace(test, whose=answer.whose, evidence=evidence, do=do)


def _problem(finding: Finding) -> Problem:
    return Problem(
        Untrusted(finding_message(finding)),
        finding.level,
        finding_fix(finding),
        tuple(Untrusted(note_text(note)) for note in finding.evidence),
        tuple(Untrusted(unit_name(key)) for key in finding.culprits),
    )


def _changes(comparison: Comparison | None) -> tuple[str, ...]:
    (lines,) = change_lines(comparison, MAX_TESTS).blocks
    assert isinstance(lines, Bullets)
    return tuple(plain(item.content) for item in lines.items)


def _result(state: CaseState | None) -> str:
    if state is None:
        return ""
    return failure_kind(Result("", state.outcome or "passed", ending=state.ending or "completed"))


def _with_numbers(test: ExplainedTest, run: Run | None, position: int | None) -> ExplainedTest:
    if run is None or position is None:
        return test
    return replace(
        test,
        result=test.result or _result(case_state(run, position)),
        shard=test.shard or (run.legs[run.leg[position]].name if run.legs else ""),
        wall_s=_number(run.wall_s[position]),
        peak_delta_bytes=_number(run.peak_delta_bytes[position]),
    )


def _pasts(history: History, names: Sequence[str], query: BaseQuery) -> Mapping[str, TestPast]:
    """Return the pasts of these tests; of a unit that died, that of all its cases. O(keys)."""
    wanted: dict[str, list[int]] = {name: [] for name in names}
    for row, key in enumerate(history.keys):
        for name in {case_name(key), unit_name(key.unit_key)} & wanted.keys():
            wanted[name].append(row)
    return {name: _past(history, keys, query) for name, keys in wanted.items() if keys}


def _past(history: History, keys: Sequence[int], query: BaseQuery) -> TestPast:
    runs, values = tuple(base_runs(history, query)), history.values
    past, base = past_of(history, keys, runs), query.branch or "the base"
    rows = np.flatnonzero(np.isin(values.key, keys) & np.isin(values.run, runs))
    rows = rows[np.argsort(-values.run[rows], kind="stable")]
    results = [
        (history.runs[values.run[row]], _past_result(values, row), row) for row in rows.tolist()
    ]
    failures = len(past.ended) - past.ended.count("passed")
    rate = Answer("flaky", "known_rate", runs=len(past.ended), failures=failures)
    more = len(results) - MAX_NAMED
    return TestPast(
        evidence_text(rate, base) if past.ended else f"not executed in the kept runs of {base}",
        _dated(past.red_since) if past.red_since is not None else None,
        next((_dated(run) for run, result, _ in results if result != "skipped"), NEVER),
        next((_dated(run) for run, result, _ in results if result.startswith("passed")), NEVER),
        (
            *(
                f"{_dated(run)}: {result}, {duration(_number(values.wall_s[row]))}, "
                f"{size(_number(values.peak_delta_bytes[row]))}"
                for run, result, row in results[:MAX_NAMED]
            ),
            *([f"and {more} earlier results"] if more > 0 else []),
        ),
    )


def _dated(run: HistoryRun | PastRun) -> str:
    """Return "run 4711, 2026-11-29, 3f2a91c"."""
    at = "-" if run.at in {None, UNDATED} else f"{run.at:%Y-%m-%d}"
    return f"run {run.run_id}, {at}, {(run.sha or '-')[:7]}"


def _past_result(values: Values, row: int) -> str:
    codes = (CODE_NAMES[name][getattr(values, name)[row]] for name in ("outcome", "ending"))
    result = _result(CaseState(*(word or None for word in codes)))
    was_retried = result == "passed" and values.try_number[row] > 1
    return "passed when tried again" if was_retried else result


def _number(value: np.float64) -> float | None:
    return None if np.isnan(value) else int(value) if value.is_integer() else round(value.item(), 3)
