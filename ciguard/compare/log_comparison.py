"""Two text logs: which numbers differ, which failures are new, and what follows from it. Pure.

An exact value, as a compiler's estimate is, differs or does not. Any other number is of one run
each, and is shown without a verdict. A log that is empty or cut, or has nothing in common with the
other, is no proof of anything better; nor is one that may have ended before what is gone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from ciguard.compare.log_pairing import CountChange, Pairing, ValuePair, pair_values
from ciguard.compare.log_progress import LoggedJob, Progress
from ciguard.errors import ExitCode
from ciguard.logs.pattern_table import Direction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ciguard.logs.log_reader import End, LogReading
    from ciguard.logs.values import LogValue, NotANumber, Place
    from ciguard.model import Ending, FailCondition

# `inconclusive`: something differs that is neither better nor worse.
LogState = Literal["worse", "mixed", "better", "same", "inconclusive", "unknown"]
Verdict = Literal["better", "worse", "same", "changed", "not judged"]
# Why a state is unknown.
Doubt = Literal["base empty", "candidate empty", "base cut", "candidate cut", "base missing",
                "candidate missing", "jobs missing", "not reached",
                "nothing in common", "values missing", "nothing judged"]  # fmt: skip
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
        jobs: one of a file.
    """

    name: str
    end: End
    lines: int
    unreadable: tuple[NotANumber, ...] = ()
    url: str = ""
    jobs: tuple[LoggedJob, ...] = ()


@dataclass(frozen=True, slots=True)
class LogInput:
    """A log that was read, its name, the page of its job, and what jobs it is of."""

    name: str
    reading: LogReading
    url: str = ""
    jobs: tuple[LoggedJob, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two values of equal identity."""

    pair: ValuePair
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class WarningChange:
    """A text of a row with a direction that only one of the logs has.

    Attributes:
        verdict: better, worse, or "not judged" if nothing shows that the candidate came so far.
    """

    change: CountChange
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class FailureCount:
    """How often a failure is in both logs.

    Attributes:
        example: the first of the candidate, else of the base.
        earlier: of the base, if the failure is as often in both and this one's amount differs from
            the example's.
        ending: of the process that prints it; None if the text does not say.
        weak: it proves nothing alone.
    """

    example: LogValue
    before: int
    after: int
    ending: Ending | None
    weak: bool
    earlier: LogValue | None = None


@dataclass(frozen=True, slots=True)
class LogComparison:
    """The answer.

    Attributes:
        doubts: why the state is unknown, or could be better than it is.
        pairs: values of equal identity, in the order of the base's log.
        pairing: everything that has no verdict.
        failures: those that differ first.
        warnings: those that appeared or disappeared.
        missing: jobs and steps of the base that the candidate has no log of.
    """

    state: LogState
    doubts: tuple[Doubt, ...]
    base: LogSide
    candidate: LogSide
    pairs: tuple[ComparedPair, ...]
    pairing: Pairing
    failures: tuple[FailureCount, ...]
    warnings: tuple[WarningChange, ...] = ()
    missing: tuple[Place, ...] = ()

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
    base, candidate = (_side(log) for log in logs)
    progress = Progress((base.jobs, candidate.jobs), (readings[0].values, readings[1].values))
    numbers = [[one for one in reading.values if one.kind == "metric"] for reading in readings]
    pairing = pair_values(*numbers)
    found = LogComparison(
        "unknown",
        (),
        base,
        candidate,
        tuple(_judge(pair, directions) for pair in pairing.pairs),
        pairing,
        tuple(_count_failures(readings, endings, progress)),
        tuple(_judge_warnings(pairing, directions, progress)),
        progress.missing,
    )
    doubts = (
        *_end_doubts(base, candidate),
        *_progress_doubts(found, progress),
        *_content_doubts(readings, found, directions),
    )
    return replace(found, doubts=doubts, state=_state(found, doubts))


def _side(log: LogInput) -> LogSide:
    reading = log.reading
    return LogSide(log.name, reading.end, reading.lines, reading.unreadable, log.url, log.jobs)


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
    readings: tuple[LogReading, LogReading],
    endings: Mapping[str, tuple[Ending | None, bool]],
    progress: Progress,
) -> Iterator[FailureCount]:
    """By job, step, name and key; those that differ first."""
    found: dict[tuple[object, ...], tuple[list[LogValue], list[LogValue]]] = {}
    for side in (1, 0):
        for one in readings[side].values:
            if one.kind == "failure":
                identity = (*progress.where(one.place), one.name, one.key)
                found.setdefault(identity, ([], []))[side].append(one)
    counts = [_count_failure(*both, endings) for both in found.values()]
    yield from sorted(counts, key=lambda one: one.before == one.after and one.earlier is None)


def _count_failure(
    before: list[LogValue], after: list[LogValue], endings: Mapping[str, tuple[Ending | None, bool]]
) -> FailureCount:
    example, earlier = (after or before)[0], None
    if len(before) == len(after):
        for old, new in zip(before, after, strict=True):
            if old.unit != new.unit or ValuePair(old, new).difference:
                example, earlier = new, old
                break
    ending, weak = endings.get(example.name, (None, True))
    return FailureCount(example, len(before), len(after), ending, weak, earlier)


def _judge_warnings(
    pairing: Pairing, directions: Mapping[str, Direction], progress: Progress
) -> Iterator[WarningChange]:
    for one in pairing.counts:
        direction = directions.get(one.example.name, _UNJUDGED)
        if not direction.is_occurrence or not direction.better or (one.before and one.after):
            continue
        is_better = (one.after < one.before) == (direction.better == "lower")
        verdict: Verdict = "better" if is_better else "worse"
        if one.before and not progress.is_past(one.example):
            verdict = "not judged"
        yield WarningChange(one, verdict)


def _end_doubts(base: LogSide, candidate: LogSide) -> Iterator[Doubt]:
    if base.end != "whole":
        yield _BASE_DOUBTS[base.end]
    if candidate.end != "whole":
        yield _CANDIDATE_DOUBTS[candidate.end]


def _progress_doubts(found: LogComparison, progress: Progress) -> Iterator[Doubt]:
    if progress.missing:
        yield "jobs missing"
    fewer = [one.example for one in found.failures if one.after < one.before]
    gone = [one.change.example for one in found.warnings if one.verdict == "not judged"]
    if not all(progress.is_past(example, ignore_missing=True) for example in (*fewer, *gone)):
        yield "not reached"


def _content_doubts(
    readings: tuple[LogReading, LogReading],
    found: LogComparison,
    directions: Mapping[str, Direction],
) -> Iterator[Doubt]:
    def is_exact(value: LogValue) -> bool:
        return directions.get(value.name, _UNJUDGED).exact

    before, after = ({one.name for one in reading.values} for reading in readings)
    if not before & after:
        yield "nothing in common"
    pairing, warnings = found.pairing, {one.change for one in found.warnings}
    fewer = any(
        one.after < one.before and is_exact(one.example) and one not in warnings
        for one in pairing.counts
    )
    if fewer or any(is_exact(one.before) for one in pairing.nearest):
        yield "values missing"
    is_judged = any(one.verdict not in ("not judged", "changed") for one in found.pairs)
    if not is_judged and not found.failures and not warnings:
        yield "nothing judged"


def _state(found: LogComparison, doubts: tuple[Doubt, ...]) -> LogState:
    verdicts = Counter(one.verdict for one in found.pairs)
    verdicts.update(one.verdict for one in found.warnings)
    failures = found.failures
    worse = verdicts["worse"] > 0 or any(one.after > one.before for one in failures)
    better = verdicts["better"] > 0 or any(one.after < one.before for one in failures)
    if doubts:  # what is worse is worse, whatever else the log should have
        return "worse" if worse else "unknown"
    if worse:
        return "mixed" if better else "worse"
    if better:
        return "better"
    return "same" if _is_same(found) else "inconclusive"


def _is_same(found: LogComparison) -> bool:
    pairing = found.pairing
    return not (
        any(one.verdict != "same" for one in found.pairs)
        or any(one.earlier for one in found.failures)
        or pairing.counts
        or pairing.nearest
        or pairing.refused
        or found.base.unreadable
        or found.candidate.unreadable
    )


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
    worse = comparison.count("worse") or any(one.verdict == "worse" for one in comparison.warnings)
    if "metric" in fail_on and worse:
        return ExitCode.REGRESSION
    unclear = comparison.state in ("unknown", "inconclusive")
    unjudged = unclear or comparison.count("not judged") > 0
    return ExitCode.INCONCLUSIVE if strict and unjudged else ExitCode.OK
