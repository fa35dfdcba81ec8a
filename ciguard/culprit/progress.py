"""The state of a search: the tries of each commit, the next try, and the answer. Pure.

Each try is a line of the search's journal, so that a search that was killed goes on by reading it.
A commit whose set-up fails, that lacks a test, or whose process the machine ended, is no evidence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log, sqrt
from statistics import fmean, median
from typing import Any, Final, Literal

import numpy as np

from ciguard.compare.statistics import OFFSET_BYTES, PRIOR
from ciguard.culprit.answer import Answer, Candidate, Stopped, TestAnswer, Tried, Verdict
from ciguard.culprit.search import (
    Belief,
    Floats,
    Measure,
    Model,
    believe,
    failure_model,
    has_converged,
    next_commit,
    size_model,
    smallest_set,
)
from ciguard.culprit.subjects import Subject
from ciguard.model import Record, UnitKey

# Of the logarithm, between processes on one machine; weighs as `PRIOR` tries, as in `compare`.
SCALES: Final[Mapping[Measure, float]] = {"failure": 0.0, "memory": 0.03, "duration": 0.1}
# Suite, variant and unit of a test, and what it had; a failure is None without a result, and
# "import" says that there is none as its file cannot be imported.
Value = tuple[str, str, str, Measure | Literal["import"], float | None]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the journal: a commit was prepared or tried, or cannot be (`reason`)."""

    state: Literal["prepared", "tried", "unusable"]
    commit: str
    seconds: float
    reason: str = ""
    values: Sequence[Value] = ()


def values_of(record: Record, keys: Sequence[UnitKey]) -> Iterator[Value]:
    """Yield whether each test failed; of a test that passed also its time and memory."""
    for key in keys:
        own = [result for result in record.results if result.key.unit_key == key]
        failed = any(result.is_failure for result in own)
        passed = [result for result in own if result.outcome == "passed" and not failed]
        yield *key, "failure", float(failed) if failed or passed else None
        if any(event.kind == "not_imported" and event.unit == key.unit for event in record.events):
            yield *key, "import", 1.0
        walls_s = [result.wall_s for result in passed if result.wall_s is not None]
        growths = [one.peak_delta_bytes for one in passed if one.peak_delta_bytes is not None]
        if walls_s:
            yield *key, "duration", sum(walls_s)
        if growths:
            yield *key, "memory", float(max(growths))


@dataclass
class Progress:
    """The state of a search.

    Attributes:
        commits: SHAs, the good one first, then those of the range up to the bad one.
        tries: by test, positions in `commits` and values.
        unusable: by position, why a commit cannot be tried.
        missing: by test, positions without a result of it.
    """

    commits: Sequence[str]
    subjects: Sequence[Subject]
    confidence: float
    tries: dict[Subject, list[tuple[int, float]]] = field(init=False)
    prepared: set[int] = field(default_factory=set)
    unusable: dict[int, str] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.tries = {subject: [] for subject in self.subjects}
        self.missing: dict[Subject, set[int]] = {subject: set() for subject in self.subjects}
        self._unimportable: set[Subject] = set()
        self._beliefs: dict[Subject, Belief] = {}

    @property
    def spent_s(self) -> float:
        return sum(map(sum, self.seconds.values()))

    def add(self, line: Line) -> None:
        """Take a line of the journal."""
        position = self.commits.index(line.commit)
        self.seconds[line.state].append(line.seconds)
        if line.state == "prepared":
            self.prepared.add(position)
        elif line.state == "unusable":
            self.unusable[position] = line.reason
        known = {(UnitKey(*row[:3]), row[3]): row[4] for row in line.values}
        for subject in self.subjects:
            if (subject.key, "failure") in known:  # it was tried
                self._add_value(subject, position, known)
        self._beliefs.clear()

    def _add_value(
        self, subject: Subject, position: int, known: Mapping[Any, float | None]
    ) -> None:
        value = known.get((subject.key, subject.measure))
        if value is None and subject.measure == "failure" and (subject.key, "import") in known:
            # A file that cannot be imported is the failure only if it is so at the bad end.
            if position == len(self.commits) - 1:
                self._unimportable.add(subject)
            value = 1.0 if subject in self._unimportable else None
        if value is None:
            self.missing[subject].add(position)
        else:
            self.tries[subject].append((position, value))

    def belief(self, subject: Subject) -> Belief:
        if subject not in self._beliefs:
            measured = [(at, _number(subject, value)) for at, value in self.tries[subject]]
            model = self._model(subject, measured)
            self._beliefs[subject] = believe(model, np.ones(len(self.commits) - 1), measured)
        return self._beliefs[subject]

    def _model(self, subject: Subject, measured: Sequence[tuple[int, float]]) -> Model:
        if subject.measure == "failure":
            return failure_model(subject.before, subject.since)
        by_commit: dict[int, list[float]] = defaultdict(list)
        for at, number in measured:
            by_commit[at].append(number)
        squares = PRIOR * SCALES[subject.measure] ** 2
        squares += sum((one - fmean(own)) ** 2 for own in by_commit.values() for one in own)
        degrees = PRIOR + len(measured) - len(by_commit)
        return size_model([number for _, number in measured], sqrt(squares / degrees))

    def open_subjects(self) -> list[Subject]:
        """Return the tests without an answer."""
        return [
            one for one in self.subjects if not has_converged(self._found(one), self._blocked(one))
        ]

    def _blocked(self, subject: Subject) -> set[int]:
        return {*self.unusable, *self.missing[subject]}

    def _found(self, subject: Subject) -> list[int]:
        return smallest_set(self.belief(subject), self.confidence)

    def next_position(self) -> int | None:
        """Return the position to try next, the bad end first; None if no try tells anything.

        The good end is second for times and sizes, whose levels no history knows.
        """
        bad = len(self.commits) - 1
        seen = {*self.unusable, *(at for tries in self.tries.values() for at, _ in tries)}
        seen = seen.union(*self.missing.values())
        for end in (bad, *(0 for one in self.subjects if one.measure != "failure")):
            if end not in seen:
                return end
        bits = np.zeros(len(self.commits))
        for subject in self.open_subjects():
            blocked = self._blocked(subject)
            if bad not in blocked or self.tries[subject]:  # else nothing is to be found
                own = self.belief(subject).bits.copy()
                own[[*blocked]] = 0.0
                bits += own
        return next_commit(bits, self.expected_s(), self.unusable)

    def expected_s(self) -> Floats:
        """Return for each commit the expected time of a try, with its set-up if it needs one."""
        try_s, prepare_s = (fmean(self.seconds[of] or [1.0]) for of in ("tried", "prepared"))
        seconds = np.full(len(self.commits), max(try_s, 0.001) + prepare_s)
        seconds[[*self.prepared]] -= prepare_s
        return seconds

    def answer(self, messages: Mapping[str, str], stopped: Stopped) -> Answer:
        """Return the answer so far; `messages` are the first lines of the commits' messages."""
        tests = tuple(self._answer(one, messages) for one in self.subjects)
        ends = self.commits[0], self.commits[-1], len(self.commits) - 1
        executions = len(self.seconds["tried"])
        return Answer(*ends, self.confidence, tests, executions, self.spent_s, stopped)

    def _answer(self, subject: Subject, messages: Mapping[str, str]) -> TestAnswer:
        belief, found = self.belief(subject), self._found(subject)
        verdict: Verdict = "one of"
        if not self.tries[subject]:
            verdict, found = "not tried", []
        elif len(found) == 1:
            verdict = "culprit" if found[0] else "unchanged"
        chances = ((self.commits[at], float(belief.first_bad[at - 1])) for at in found if at)
        known = tuple(Candidate(sha, chance, messages.get(sha, "")) for sha, chance in chances)
        tried = tuple(self._tried(subject))
        return TestAnswer(*subject.key, subject.measure, verdict, known, belief.unchanged, tried)

    def _tried(self, subject: Subject) -> Iterator[Tried]:
        by_commit: dict[int, list[float]] = defaultdict(list)
        for at, value in self.tries[subject]:
            by_commit[at].append(value)
        for at in sorted({*by_commit, *self._blocked(subject)}):
            own, sha = by_commit.get(at, []), self.commits[at]
            if not own:
                yield Tried(sha, reason=self.unusable.get(at, "no result of this test"))
            elif subject.measure == "failure":
                yield Tried(sha, len(own), failed=int(sum(own)))
            else:
                yield Tried(sha, len(own), median=median(own))


def _number(subject: Subject, value: float) -> float:
    """Return what the model of a test compares: the logarithm of a time or size."""
    if subject.measure == "failure":
        return value
    return log(max(value, 0.0) + OFFSET_BYTES if subject.measure == "memory" else value)
