"""Two text logs: which numbers differ, which failures are new, and what follows from it. Pure.

An exact value, as a compiler's estimate is, differs or does not. Any other number is of one run
each, and is shown without a verdict. A log that is empty or cut, or has nothing in common with the
other, is no proof of anything better.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ciguard.compare.log_pairing import Pairing, ValuePair, pair_values
from ciguard.errors import ExitCode
from ciguard.logs.pattern_table import Direction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ciguard.logs.log_reader import End, LogReading
    from ciguard.logs.values import KeyField, LogValue, NotANumber
    from ciguard.model import Ending, FailCondition

LogState = Literal["worse", "mixed", "better", "same", "unknown"]
Verdict = Literal["better", "worse", "same", "changed", "not judged"]
# Why a state is unknown.
Doubt = Literal["base empty", "candidate empty", "base cut", "candidate cut", "base missing",
                "candidate missing", "nothing in common", "values missing",
                "nothing judged"]  # fmt: skip
# Of `FAIL_CONDITIONS` those that a log can give a reason for, each with its ending if it has one.
LOG_CONDITIONS: Final[dict[FailCondition, Ending | None]] = {
    "timeout": "timeout",
    "oom": "out_of_memory",
    "metric": None,
    "incomplete": None,
}
_UNJUDGED: Final = Direction()
_BASE_DOUBTS: Final[Mapping[End, Doubt]] = {
    "empty": "base empty",
    "cut": "base cut",
    "missing": "base missing",
}
_CANDIDATE_DOUBTS: Final[Mapping[End, Doubt]] = {
    "empty": "candidate empty",
    "cut": "candidate cut",
    "missing": "candidate missing",
}


@dataclass(frozen=True, slots=True)
class LogSide:
    """One log.

    Attributes:
        name: as it was called.
        unreadable: what stands in the place of a number.
        url: of the page of its job; "" of a file.
    """

    name: str
    end: End
    lines: int
    unreadable: tuple[NotANumber, ...] = ()
    url: str = ""


@dataclass(frozen=True, slots=True)
class LogInput:
    """A log that was read, its name, and the page of its job."""

    name: str
    reading: LogReading
    url: str = ""


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two values of equal identity."""

    pair: ValuePair
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class FailureCount:
    """How often a failure is in both logs.

    Attributes:
        example: the first of the candidate, else of the base.
        ending: of the process that prints it; None if the text does not say.
        weak: it proves nothing alone.
    """

    example: LogValue
    before: int
    after: int
    ending: Ending | None
    weak: bool


@dataclass(frozen=True, slots=True)
class LogComparison:
    """The answer.

    Attributes:
        doubts: why the state is unknown, or could be better than it is.
        pairs: values of equal identity, in the order of the base's log.
        pairing: everything that has no verdict.
        failures: those whose number differs first.
    """

    state: LogState
    doubts: tuple[Doubt, ...]
    base: LogSide
    candidate: LogSide
    pairs: tuple[ComparedPair, ...]
    pairing: Pairing
    failures: tuple[FailureCount, ...]

    def count(self, verdict: Verdict) -> int:
        """How many pairs have a verdict."""
        return sum(one.verdict == verdict for one in self.pairs)


def compare_logs(
    logs: tuple[LogInput, LogInput],
    directions: Mapping[str, Direction],
    endings: Mapping[str, tuple[Ending | None, bool]],
) -> LogComparison:
    """Compare the values and failures of two logs.

    Args:
        logs: the base and the candidate.
        directions: how values are judged, by their name.
        endings: of failures by the name of their values, and whether they prove nothing alone.
    """
    readings = (logs[0].reading, logs[1].reading)
    base, candidate = (
        LogSide(log.name, log.reading.end, log.reading.lines, log.reading.unreadable, log.url)
        for log in logs
    )
    numbers = [[one for one in reading.values if one.kind == "metric"] for reading in readings]
    pairing = pair_values(*numbers)
    pairs = tuple(_judge(pair, directions) for pair in pairing.pairs)
    failures = tuple(_count_failures(readings, endings))
    doubts = (*_end_doubts(base, candidate), *_content_doubts(readings, pairs, pairing, directions))
    state = _state(pairs, failures, doubts)
    return LogComparison(state, doubts, base, candidate, pairs, pairing, failures)


def _judge(pair: ValuePair, directions: Mapping[str, Direction]) -> ComparedPair:
    direction = directions.get(pair.before.name, _UNJUDGED)
    if pair.difference == 0:
        return ComparedPair(pair, "same")
    if not direction.exact:
        return ComparedPair(pair, "not judged")
    if not direction.better:
        return ComparedPair(pair, "changed")
    is_better = (pair.difference < 0) == (direction.better == "lower")
    return ComparedPair(pair, "better" if is_better else "worse")


def _count_failures(
    readings: tuple[LogReading, LogReading], endings: Mapping[str, tuple[Ending | None, bool]]
) -> Iterator[FailureCount]:
    """By name and key; those whose number differs first."""
    counts: dict[tuple[str, tuple[KeyField, ...]], list[int]] = {}
    examples: dict[tuple[str, tuple[KeyField, ...]], LogValue] = {}
    for side in (1, 0):
        for one in readings[side].values:
            if one.kind == "failure":
                counts.setdefault((one.name, one.key), [0, 0])[side] += 1
                examples.setdefault((one.name, one.key), one)
    found = sorted(counts.items(), key=lambda item: item[1][0] == item[1][1])
    for identity, (before, after) in found:
        ending, weak = endings.get(identity[0], (None, True))
        yield FailureCount(examples[identity], before, after, ending, weak)


def _end_doubts(base: LogSide, candidate: LogSide) -> Iterator[Doubt]:
    if base.end != "whole":
        yield _BASE_DOUBTS[base.end]
    if candidate.end != "whole":
        yield _CANDIDATE_DOUBTS[candidate.end]


def _content_doubts(
    readings: tuple[LogReading, LogReading],
    pairs: tuple[ComparedPair, ...],
    pairing: Pairing,
    directions: Mapping[str, Direction],
) -> Iterator[Doubt]:
    def is_exact(value: LogValue) -> bool:
        return directions.get(value.name, _UNJUDGED).exact

    before, after = ({one.name for one in reading.values} for reading in readings)
    if not before & after:
        yield "nothing in common"
    fewer = any(one.after < one.before and is_exact(one.example) for one in pairing.counts)
    if fewer or any(is_exact(one.before) for one in pairing.nearest):
        yield "values missing"
    has_failures = any(one.kind == "failure" for reading in readings for one in reading.values)
    if not has_failures and all(one.verdict in ("not judged", "changed") for one in pairs):
        yield "nothing judged"


def _state(
    pairs: tuple[ComparedPair, ...], failures: tuple[FailureCount, ...], doubts: tuple[Doubt, ...]
) -> LogState:
    verdicts = Counter(one.verdict for one in pairs)
    worse = verdicts["worse"] > 0 or any(one.after > one.before for one in failures)
    better = verdicts["better"] > 0 or any(one.after < one.before for one in failures)
    if doubts:  # what is worse is worse, whatever else the log should have
        return "worse" if worse else "unknown"
    if worse:
        return "mixed" if better else "worse"
    return "better" if better else "same"


def log_exit_code(
    comparison: LogComparison, fail_on: Collection[str], *, strict: bool = False
) -> ExitCode:
    """As `comparison.exit_code` orders the findings."""
    sides = (comparison.base, comparison.candidate)
    if "incomplete" in fail_on and any(one.end != "whole" for one in sides):
        return ExitCode.INCOMPLETE
    wanted = {ending for word, ending in LOG_CONDITIONS.items() if word in fail_on and ending}
    if any(
        one.after > one.before and not one.weak and one.ending in wanted
        for one in comparison.failures
    ):
        return ExitCode.TESTS_FAILED
    if "metric" in fail_on and comparison.count("worse"):
        return ExitCode.REGRESSION
    unjudged = comparison.state == "unknown" or comparison.count("not judged") > 0
    return ExitCode.INCONCLUSIVE if strict and unjudged else ExitCode.OK
