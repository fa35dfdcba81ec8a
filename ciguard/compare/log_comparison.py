"""The comparison of two text logs: changed values, changed failures, and the state. Pure.

Values are compared if their identities are equal: job, step, name, unit and key; several of one
identity smallest with smallest. Two compilation stages print the same words about different
kernels: pairs by words alone would compare two programs, so other pairs have no verdict, and a
value with a partner is in none.

An exact value, such as a compiler's estimate, differs or does not. Any other number is of one run
each, and has no verdict. A log that is empty or cut, or has nothing in common with the other, does
not prove an improvement; nor does a log that may have ended before the missing value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, Literal, cast

from ciguard.compare.series import SeriesChange, compare_series, summarize_values
from ciguard.logs.log_reader import End, LogReading
from ciguard.logs.pattern_table import BoundViolation, Direction, DirectionVerdict, find_violations
from ciguard.logs.values import KeyField, LogValue, NotANumber, Place, distinct
from ciguard.model import Ending, FailCondition

Identity = tuple[str, str, str, str, tuple[KeyField, ...]]
Log = tuple["LogSide", Sequence[LogValue]]
Groups = Mapping[Identity, list[LogValue]]

_VALUE: Final = attrgetter("value")
MAX_NEAREST: Final = 100_000  # pairs of identities of one name that are compared, 1 s


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A field of the key that differs; None if a log does not have the field."""

    name: str
    before: str | None
    after: str | None
    printed_alike: str = ""  # the text that both logs print for people


@dataclass(frozen=True, slots=True)
class ValuePair:
    """Two values side by side.

    Attributes:
        ordinal: position among values of equal identity, from 1, the smallest.
        differing: differences of the keys, for which there is no verdict; () for equal identities.
    """

    before: LogValue
    after: LogValue
    ordinal: int = 1
    differing: tuple[KeyDifference, ...] = ()

    @property
    def difference(self) -> float:
        """The change of the value; 0 if it is smaller than the last printed digit."""
        resolution = max(self.before.resolution, self.after.resolution)
        return distinct(self.after.value - self.before.value, resolution)

    @property
    def ratio(self) -> float | None:
        """The relative change; None if the value before is 0."""
        return self.difference / self.before.value if self.before.value else None


@dataclass(frozen=True, slots=True)
class CountChange:
    """Values of equal identity that cannot be paired, because one log has more of them."""

    example: LogValue
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Pairing:
    """The values of two logs in pairs, and those that cannot be compared.

    Attributes:
        pairs: values of equal identity.
        counts: identities whose number of values differs; 0 if a log has none.
        nearest: values without an equal key, with the value that differs in the fewest fields.
        refused: values without an equal key, with a value that has a partner of equal identity.
    """

    pairs: tuple[ValuePair, ...]
    counts: tuple[CountChange, ...]
    nearest: tuple[ValuePair, ...]
    refused: tuple[ValuePair, ...]


def pair_values(before: Sequence[LogValue], after: Sequence[LogValue]) -> Pairing:
    base, head = _group(before), _group(after)
    pairs: list[ValuePair] = []
    counts: list[CountChange] = []
    for identity in dict.fromkeys([*base, *head]):
        old, new = base.get(identity, []), head.get(identity, [])
        if len(old) == len(new):
            # A log may print its parts in another order, as tests of a run may run in any shard.
            both = zip(sorted(old, key=_VALUE), sorted(new, key=_VALUE), strict=True)
            pairs += [ValuePair(*values, ordinal) for ordinal, values in enumerate(both, 1)]
        else:
            counts.append(CountChange((old or new)[0], len(old), len(new)))
    nearest, matched = _nearest(base, head)
    alone = [count for count in counts if _identity(count.example) not in matched]
    return Pairing(tuple(pairs), tuple(alone), tuple(nearest), tuple(_refused(alone, base, head)))


def key_differences(before: LogValue, after: LogValue) -> tuple[KeyDifference, ...]:
    """Return the fields in which two values of one name differ, with job and step."""
    old = {field.name: field for field in before.key}
    new = {field.name: field for field in after.key}
    differences = [
        KeyDifference(name, getattr(before.place, name), getattr(after.place, name))
        for name in ("job", "step")
        if getattr(before.place, name) != getattr(after.place, name)
    ]
    for name in dict.fromkeys([*old, *new]):
        first, second = old.get(name), new.get(name)
        if first is None or second is None or first.value != second.value:
            printed = first.printed if first and second and first.printed == second.printed else ""
            old_text, new_text = (field.value if field else None for field in (first, second))
            differences.append(KeyDifference(name, old_text, new_text, printed))
    return tuple(differences)


def _identity(value: LogValue) -> Identity:
    return (value.place.job, value.place.step, value.name, value.unit, value.key)


def _group(values: Sequence[LogValue]) -> dict[Identity, list[LogValue]]:
    groups: dict[Identity, list[LogValue]] = {}
    for value in values:
        groups.setdefault(_identity(value), []).append(value)
    return groups


def _nearest(base: Groups, head: Groups) -> tuple[list[ValuePair], set[Identity]]:
    """Pair single values that only one log has, of equal name and unit, with the nearest one.

    Of several values that are equally near, none is paired: only their order could choose.
    """
    unpaired: dict[tuple[str, str], tuple[list[LogValue], list[LogValue]]] = {}
    for side, (own, others) in enumerate(((base, head), (head, base))):
        for identity in own:
            if identity not in others and len(own[identity]) == 1:
                unpaired.setdefault(identity[2:4], ([], []))[side].extend(own[identity])
    pairs = [
        ValuePair(value, other, 1, key_differences(value, other))
        for old, new in unpaired.values()
        if len(old) * len(new) <= MAX_NEAREST
        for value in old
        if (other := _most_similar(value, new)) and _most_similar(other, old) is value
    ]
    matched = {_identity(value) for pair in pairs for value in (pair.before, pair.after)}
    return sorted(pairs, key=lambda pair: pair.before.place.line), matched


def _most_similar(value: LogValue, others: Sequence[LogValue]) -> LogValue | None:
    """Return the value whose key differs in the fewest fields; None if several do."""
    fields = [len(key_differences(value, other)) for other in others]
    is_unique = fields.count(min(fields, default=0)) == 1
    return others[fields.index(min(fields))] if is_unique else None


def _refused(alone: Sequence[CountChange], base: Groups, head: Groups) -> Iterator[ValuePair]:
    """Pair a value without an equal with the most similar value that has one, as people do."""
    partnered: dict[tuple[str, str], list[Identity]] = {}
    for identity in base:
        if identity in head:
            partnered.setdefault((identity[2], identity[3]), []).append(identity)
    remaining = MAX_NEAREST
    for count in alone:
        candidates = partnered.get((count.example.name, count.example.unit), [])
        remaining -= len(candidates)
        if not candidates or (count.before and count.after) or remaining < 0:
            continue
        others = [(head if count.before else base)[identity][0] for identity in candidates]
        if (other := _most_similar(count.example, others)) is not None:
            both = (count.example, other) if count.before else (other, count.example)
            yield ValuePair(*both, 1, key_differences(*both))


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """A job of a log.

    Attributes:
        name: "" if unknown.
        steps: names of the steps that began; () if unknown.
        is_whole: the log has the first and the last lines of GitHub's runner.
        url: page of the job; "" for a file.
    """

    name: str = ""
    steps: tuple[str, ...] = ()
    is_whole: bool = False
    url: str = ""


class Progress:
    """The progress of the candidate: how far in the base's log the candidate's log reaches.

    Args:
        jobs, values: those of base and candidate, values in the order of their log.
    """

    def __init__(
        self,
        jobs: tuple[Sequence[LoggedJob], Sequence[LoggedJob]],
        values: tuple[Sequence[LogValue], Sequence[LogValue]],
    ) -> None:
        self._base, self._candidate = ({job.name: job for job in side} for side in jobs)
        self._shared = {
            name: {*job.steps} & {*self._candidate[name].steps}
            for name, job in self._base.items()
            if name in self._candidate
        }
        self.seen = {field for value in values[1] for field in value.key}
        self._places: dict[tuple[object, ...], list[Place]] = {}
        for value in values[0]:
            key = (*self.shared_place(value.place), value.name, value.key)
            self._places.setdefault(key, []).append(value.place)
        used = {(value.place.job, value.place.step) for value in values[0]}
        self.missing = tuple(self._missing(used))
        self._furthest = self._find_furthest(*values)

    def shared_place(self, place: Place) -> tuple[str, str]:
        """Return job and step of a place, each "" if only one of the logs has it."""
        steps = self._shared.get(place.job)
        if steps is None:
            return "", ""
        return place.job, place.step if place.step in steps else ""

    def is_past(self, example: LogValue, *, ignore_missing: bool = False) -> bool:
        """Return whether the candidate passed all places where the base has a value.

        It did if its job's log is whole, or has a value or failure that the base has afterwards.

        Args:
            ignore_missing: leave out places in jobs and steps without a log of the candidate.
        """
        last: dict[str, Place] = {}
        key = (*self.shared_place(example.place), example.name, example.key)
        for place in self._places.get(key, ()):
            if not (ignore_missing and self.is_missing(place)):
                last[place.job] = max(last.get(place.job, place), place, key=_position)
        return all(self._is_past(place) for place in last.values())

    def is_missing(self, place: Place) -> bool:
        """Return whether the candidate has no log of the place's job or step."""
        steps = [missing.step for missing in self.missing if missing.job == place.job]
        return "" in steps or place.step in steps

    def _is_past(self, place: Place) -> bool:
        if self.is_missing(place):
            return False
        own = self._candidate.get(place.job)
        jobs = [own] if own is not None else [*self._candidate.values()]
        if jobs and all(job.is_whole for job in jobs):
            return True
        return self._furthest.get(place.job, (0, 0)) > _position(place)

    def _missing(self, used: set[tuple[str, str]]) -> Iterator[Place]:
        """Yield the jobs, and the `used` steps with values or failures, that only the base has."""
        for job in self._base.values():
            other = self._candidate.get(job.name)
            if other is None:
                if job.name and self._candidate and "" not in self._candidate:
                    yield Place(job.name)
            elif other.steps:
                absent = [step for step in dict.fromkeys(job.steps) if step not in other.steps]
                yield from (Place(job.name, step) for step in absent if (job.name, step) in used)

    def _find_furthest(
        self, base: Sequence[LogValue], candidate: Sequence[LogValue]
    ) -> dict[str, tuple[int, int]]:
        """Return by job of the base the last position whose value or failure the candidate has."""
        remaining = Counter(map(self._identity, candidate))
        furthest: dict[str, tuple[int, int]] = {}
        for value in base:
            identity = self._identity(value)
            remaining[identity] -= 1
            if remaining[identity] >= 0:
                job = value.place.job
                furthest[job] = max(furthest.get(job, (0, 0)), _position(value.place))
        return furthest

    def _identity(self, value: LogValue) -> Identity:
        return (*self.shared_place(value.place), value.name, value.unit, value.key)


def _position(place: Place) -> tuple[int, int]:
    return place.step_number, place.line


# `inconclusive`: something differs that is neither better nor worse.
LogState = Literal["worse", "mixed", "better", "same", "inconclusive", "unknown"]
Verdict = DirectionVerdict | Literal["not judged"]
# Reasons why a state is unknown.
Caveat = Literal["base empty", "candidate empty", "base cut", "candidate cut", "base missing",
                 "candidate missing", "jobs missing", "not reached",
                 "nothing in common", "values missing", "nothing judged"]  # fmt: skip
_UNJUDGED: Final = Direction()


@dataclass(frozen=True, slots=True)
class LogSide:
    """One log.

    Attributes:
        name: the argument that named the log.
        unreadable: texts in the place of a number.
        url: page of its job; "" for a file.
        jobs: the jobs of the log; a file has one job without a name.
    """

    name: str
    end: End
    lines: int
    unreadable: tuple[NotANumber, ...] = ()
    url: str = ""
    jobs: tuple[LoggedJob, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two values of equal identity."""

    pair: ValuePair
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class WarningChange:
    """A warning (a text with a better direction) whose number differs between the logs.

    Attributes:
        verdict: better, worse, or "not judged" if the candidate may have ended before the last
            warning, or has no value of its kernel.
    """

    change: CountChange
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class FailureCount:
    """The counts of a failure in both logs.

    Attributes:
        example: the first failure of the candidate, or of the base if the candidate has none.
        earlier: the failure of the base, if the counts are equal and its amount differs.
        ending: ending of the process that printed the failure; None if unknown.
        weak: inconclusive, as the text alone proves no failure.
    """

    example: LogValue
    before: int
    after: int
    ending: Ending | None
    weak: bool
    earlier: LogValue | None = None


@dataclass(frozen=True, slots=True)
class LogComparison:
    """The comparison of two logs.

    Attributes:
        doubts: caveats: reasons why the state is unknown, or not better.
        pairs: values of equal identity, in the order of the base's log.
        pairing: the values without a verdict.
        failures: failures, those with different counts first.
        warnings: warnings whose number differs.
        missing: jobs and steps of the base without a log of the candidate.
        violations: metrics of the candidate beyond an absolute bound.
        series: values of one identity over each log.
        unmatched: keys of [metrics] that match no line of the logs.
    """

    state: LogState
    doubts: tuple[Caveat, ...]
    base: LogSide
    candidate: LogSide
    pairs: tuple[ComparedPair, ...]
    pairing: Pairing
    failures: tuple[FailureCount, ...]
    warnings: tuple[WarningChange, ...] = ()
    missing: tuple[Place, ...] = ()
    violations: tuple[BoundViolation, ...] = ()
    series: tuple[SeriesChange, ...] = ()
    unmatched: tuple[str, ...] = ()

    @property
    def conditions_met(self) -> Mapping[FailCondition, bool]:
        """By condition of `--fail-on` that a log can meet, whether a finding meets it."""
        more = {
            failure.ending
            for failure in self.failures
            if failure.after > failure.before and not failure.weak
        }
        return {
            "timeout": "timeout" in more,
            "oom": "out_of_memory" in more,
            "metric": self.count("worse") > 0
            or bool(self.violations)
            or any(warning.verdict == "worse" for warning in self.warnings),
            "incomplete": any(side.end != "whole" for side in (self.base, self.candidate)),
        }

    def is_unjudged(self, fail_on: Collection[str]) -> bool:  # noqa: ARG002
        """Return whether anything is not judged, or the state is unknown or inconclusive."""
        unjudged = self.count("not judged") > 0 or bool(self.unmatched)
        return unjudged or self.state in ("unknown", "inconclusive")

    def count(self, verdict: Verdict) -> int:
        return sum(pair.verdict == verdict for pair in self.pairs)


def log_of(name: str, reading: LogReading, url: str = "", jobs: tuple[LoggedJob, ...] = ()) -> Log:
    """Return the facts about a log, and its values."""
    side = LogSide(name, reading.end, reading.lines, reading.unreadable, url, jobs)
    return side, reading.values


def compare_logs(
    logs: tuple[Log, Log],
    directions: Mapping[str, Direction],
    endings: Mapping[str, tuple[Ending | None, bool]],
) -> LogComparison:
    """Compare the values and failures of two logs.

    Args:
        logs: the base and the candidate.
        directions: by name of a value, the better direction.
        endings: by name of a failure, the ending, and whether the text alone proves no failure.
    """
    (base, before), (candidate, after) = logs
    values = (before, after)
    progress = Progress((base.jobs, candidate.jobs), values)
    numbers = [[value for value in side if value.kind == "metric"] for side in values]
    pairing = pair_values(*numbers)
    comparison = LogComparison(
        "unknown",
        (),
        base,
        candidate,
        tuple(_judge(pair, directions) for pair in pairing.pairs),
        pairing,
        _count_failures(values, endings, progress),
        tuple(_judge_warnings(pairing, directions, progress)),
        progress.missing,
        tuple(find_violations(((one.name, one.unit, one.value) for one in after), directions)),
        compare_series(*map(summarize_values, numbers)),
    )
    sides = (("base", base), ("candidate", candidate))
    caveats = (
        *(cast("Caveat", f"{side} {log.end}") for side, log in sides if log.end != "whole"),
        *_progress_caveats(comparison, progress),
        *_content_caveats(values, comparison, directions),
    )
    return replace(comparison, doubts=caveats, state=_state(comparison, caveats))


def _judge(pair: ValuePair, directions: Mapping[str, Direction]) -> ComparedPair:
    direction = directions.get(pair.before.name, _UNJUDGED)
    if direction.exact or pair.difference == 0:
        return ComparedPair(pair, direction.judge(pair.difference))
    return ComparedPair(pair, "not judged" if direction.allows(pair.after.value) else "worse")


def _count_failures(
    values: tuple[Sequence[LogValue], Sequence[LogValue]],
    endings: Mapping[str, tuple[Ending | None, bool]],
    progress: Progress,
) -> tuple[FailureCount, ...]:
    """Count the failures by job, step, name and key; those with a difference first."""
    groups: dict[tuple[object, ...], tuple[list[LogValue], list[LogValue]]] = {}
    for side in (1, 0):
        for value in values[side]:
            if value.kind == "failure":
                identity = (*progress.shared_place(value.place), value.name, value.key)
                groups.setdefault(identity, ([], []))[side].append(value)
    counts = []
    for before, after in groups.values():
        pairs = zip(before, after, strict=True) if len(before) == len(after) else ()
        unequal = (p for p in pairs if p[0].unit != p[1].unit or ValuePair(*p).difference)
        earlier, example = next(unequal, (None, (after or before)[0]))
        ending, is_inconclusive = endings.get(example.name, (None, True))
        count = FailureCount(example, len(before), len(after), ending, is_inconclusive, earlier)
        counts.append(count)
    counts.sort(key=lambda count: count.before == count.after and not count.earlier)
    return tuple(counts)


def _judge_warnings(
    pairing: Pairing, directions: Mapping[str, Direction], progress: Progress
) -> Iterator[WarningChange]:
    for count in pairing.counts:
        direction = directions.get(count.example.name, _UNJUDGED)
        if not direction.is_occurrence or not direction.better:
            continue
        verdict: Verdict = direction.judge(count.after - count.before)
        around = {field for field in count.example.key if field.name in direction.within}
        is_there = around <= progress.seen and progress.is_past(count.example)
        if count.after < count.before and not is_there:
            verdict = "not judged"
        yield WarningChange(count, verdict)


def _progress_caveats(comparison: LogComparison, progress: Progress) -> Iterator[Caveat]:
    if progress.missing:
        yield "jobs missing"
    failures, warnings = comparison.failures, comparison.warnings
    fewer = [failure.example for failure in failures if failure.after < failure.before]
    gone = [warning.change.example for warning in warnings if warning.verdict == "not judged"]
    if not all(progress.is_past(example, ignore_missing=True) for example in (*fewer, *gone)):
        yield "not reached"


def _content_caveats(
    values: tuple[Sequence[LogValue], Sequence[LogValue]],
    comparison: LogComparison,
    directions: Mapping[str, Direction],
) -> Iterator[Caveat]:
    def is_exact(value: LogValue) -> bool:
        return directions.get(value.name, _UNJUDGED).exact

    before, after = ({value.name for value in side} for side in values)
    if not before & after:
        yield "nothing in common"
    pairing, warnings = comparison.pairing, {warning.change for warning in comparison.warnings}
    fewer = any(
        count.after < count.before and is_exact(count.example) and count not in warnings
        for count in pairing.counts
    )
    is_gone = any(warning.verdict == "not judged" for warning in comparison.warnings)
    if fewer or is_gone or any(is_exact(pair.before) for pair in pairing.nearest):
        yield "values missing"
    is_judged = any(pair.verdict not in ("not judged", "changed") for pair in comparison.pairs)
    if not is_judged and not comparison.failures and not warnings:
        yield "nothing judged"


def _state(comparison: LogComparison, caveats: tuple[Caveat, ...]) -> LogState:
    verdicts = Counter(pair.verdict for pair in comparison.pairs)
    verdicts.update(warning.verdict for warning in comparison.warnings)
    failures = comparison.failures
    worse = bool(comparison.violations) or verdicts["worse"] > 0
    worse |= any(count.after > count.before for count in failures)
    better = verdicts["better"] > 0 or any(count.after < count.before for count in failures)
    if caveats:  # a worse value is worse also in an incomplete log
        return "worse" if worse else "unknown"
    if worse:
        return "mixed" if better else "worse"
    if better:
        return "better"
    return "same" if _is_same(comparison) else "inconclusive"


def _is_same(comparison: LogComparison) -> bool:
    pairing = comparison.pairing
    return not (
        any(pair.verdict != "same" for pair in comparison.pairs)
        or any(failure.earlier for failure in comparison.failures)
        or pairing.counts
        or pairing.nearest
        or pairing.refused
        or comparison.base.unreadable
        or comparison.candidate.unreadable
    )
