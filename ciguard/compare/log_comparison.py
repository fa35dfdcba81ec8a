"""Two text logs: which numbers differ, which failures are new, and what follows from it. Pure.

A value is compared with the one of equal identity: job, step, name, unit, key, and the ordinal
among those. Two compilation stages print the same words about different kernels: pairing by words
compares two programs, so any other pair has no verdict, and none is made of a value whose partner
is known.

An exact value, as a compiler's estimate is, differs or does not. Any other number is of one run
each, and is shown without a verdict. A log that is empty or cut, or has nothing in common with the
other, is no proof of anything better; nor is one that may have ended before what is gone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Final, Literal

from ciguard.logs.pattern_table import Direction, DirectionVerdict
from ciguard.logs.values import KeyField, LogValue, NotANumber, Place, distinct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ciguard.logs.log_reader import End, LogReading
    from ciguard.model import Ending, FailCondition

    Identity = tuple[str, str, str, str, tuple[KeyField, ...]]
    Log = tuple["LogSide", Sequence[LogValue]]
    Groups = Mapping[Identity, list[LogValue]]

MAX_NEAREST: Final = 100_000  # pairs of identities of one name that are looked at, 1 s


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A field of the key that differs; None where it is absent."""

    name: str
    before: str | None
    after: str | None
    printed_alike: str = ""  # what the log prints for people in both


@dataclass(frozen=True, slots=True)
class ValuePair:
    """Two values side by side.

    Attributes:
        ordinal: among values of equal identity, from 1.
        differing: why there is no verdict; () of a pair of equal identity.
    """

    before: LogValue
    after: LogValue
    ordinal: int = 1
    differing: tuple[KeyDifference, ...] = ()

    @property
    def difference(self) -> float:
        """After minus before; 0 below the last digit that both print."""
        resolution = max(self.before.resolution, self.after.resolution)
        return distinct(self.after.value - self.before.value, resolution)

    @property
    def ratio(self) -> float | None:
        """The difference as a share of the value before; None from 0."""
        return self.difference / self.before.value if self.before.value else None


@dataclass(frozen=True, slots=True)
class CountChange:
    """Values of equal identity of which one log has more: which belong together is not known."""

    example: LogValue
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Pairing:
    """What of two logs can be compared, and what cannot.

    Attributes:
        pairs: of equal identity.
        counts: identities whose number of values differs, with 0 where a log has none.
        nearest: values without an equal key, each beside the one that differs in the fewest fields.
        refused: values without an equal key, beside a value that has its partner.
    """

    pairs: tuple[ValuePair, ...]
    counts: tuple[CountChange, ...]
    nearest: tuple[ValuePair, ...]
    refused: tuple[ValuePair, ...]


def pair_values(before: Sequence[LogValue], after: Sequence[LogValue]) -> Pairing:
    """Pair the values of two logs, each in its order."""
    base, head = _group(before), _group(after)
    pairs: list[ValuePair] = []
    counts: list[CountChange] = []
    for identity in dict.fromkeys([*base, *head]):
        old, new = base.get(identity, []), head.get(identity, [])
        if len(old) == len(new):
            both = zip(old, new, strict=True)
            pairs += [ValuePair(*one, ordinal) for ordinal, one in enumerate(both, 1)]
        else:
            counts.append(CountChange((old or new)[0], len(old), len(new)))
    nearest, matched = _nearest(base, head)
    alone = [one for one in counts if _identity(one.example) not in matched]
    return Pairing(tuple(pairs), tuple(alone), tuple(nearest), tuple(_refused(alone, base, head)))


def key_differences(before: LogValue, after: LogValue) -> tuple[KeyDifference, ...]:
    """The fields in which two values of one name differ, with job and step."""
    old = {one.name: one for one in before.key}
    new = {one.name: one for one in after.key}
    found = [
        KeyDifference(name, one, two)
        for name, one, two in (
            ("job", before.place.job, after.place.job),
            ("step", before.place.step, after.place.step),
        )
        if one != two
    ]
    for name in dict.fromkeys([*old, *new]):
        first, second = old.get(name), new.get(name)
        if first is None or second is None or first.value != second.value:
            printed = first.printed if first and second and first.printed == second.printed else ""
            old_text, new_text = (one.value if one else None for one in (first, second))
            found.append(KeyDifference(name, old_text, new_text, printed))
    return tuple(found)


def _identity(value: LogValue) -> Identity:
    return (value.place.job, value.place.step, value.name, value.unit, value.key)


def _group(values: Sequence[LogValue]) -> dict[Identity, list[LogValue]]:
    found: dict[Identity, list[LogValue]] = {}
    for one in values:
        found.setdefault(_identity(one), []).append(one)
    return found


def _nearest(base: Groups, head: Groups) -> tuple[list[ValuePair], set[Identity]]:
    """Pairs of identities that only one log each has, of equal name, unit and number of values."""
    lonely: dict[tuple[str, str], tuple[list[Identity], list[Identity]]] = {}
    for side, (own, other) in enumerate(((base, head), (head, base))):
        for identity in own:
            if identity not in other:
                lonely.setdefault((identity[2], identity[3]), ([], []))[side].append(identity)
    pairs: list[ValuePair] = []
    matched: set[Identity] = set()
    for old, new in lonely.values():
        if len(old) * len(new) > MAX_NEAREST:
            continue
        for _, one, two in sorted(_distances(old, new, base, head), key=lambda found: found[0]):
            if one in matched or two in matched or len(base[one]) != len(head[two]):
                continue
            matched |= {one, two}
            differing = key_differences(base[one][0], head[two][0])
            both = zip(base[one], head[two], strict=True)
            pairs += [ValuePair(*values, n, differing) for n, values in enumerate(both, 1)]
    return sorted(pairs, key=lambda pair: pair.before.place.line), matched


def _distances(
    old: Sequence[Identity], new: Sequence[Identity], base: Groups, head: Groups
) -> Iterator[tuple[tuple[int, int, int], Identity, Identity]]:
    """Fields that differ, then how far apart the ordinals are, then the order in the log."""
    for (m, one), (n, two) in product(enumerate(old), enumerate(new)):
        fields = len(key_differences(base[one][0], head[two][0]))
        yield (fields, abs(m - n), m), one, two


def _refused(alone: Sequence[CountChange], base: Groups, head: Groups) -> Iterator[ValuePair]:
    """The pairs that people make of a value whose equal is missing, with another's partner."""
    partnered: dict[tuple[str, str], list[Identity]] = {}
    for identity in base:
        if identity in head:
            partnered.setdefault((identity[2], identity[3]), []).append(identity)
    left = MAX_NEAREST
    for one in alone:
        candidates = partnered.get((one.example.name, one.example.unit), [])
        left -= len(candidates)
        if not candidates or (one.before and one.after) or left < 0:
            continue
        pairs = [
            (one.example, head[other][0]) if one.before else (base[other][0], one.example)
            for other in candidates
        ]
        best = min(pairs, key=lambda pair: len(key_differences(*pair)))
        yield ValuePair(*best, 1, key_differences(*best))


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """A job of a log.

    Attributes:
        name: "" where the log does not say.
        steps: names of the steps that began; () where the log does not say.
        is_whole: from the first lines of GitHub's runner to its last ones.
    """

    name: str = ""
    steps: tuple[str, ...] = ()
    is_whole: bool = False


class Progress:
    """What of the base's log is also in the candidate's.

    Args:
        jobs, values: of the base and of the candidate, values in the order of their log.
    """

    def __init__(
        self,
        jobs: tuple[Sequence[LoggedJob], Sequence[LoggedJob]],
        values: tuple[Sequence[LogValue], Sequence[LogValue]],
    ) -> None:
        self._base, self._candidate = ({one.name: one for one in side} for side in jobs)
        self._shared = {
            name: {*job.steps} & {*self._candidate[name].steps}
            for name, job in self._base.items()
            if name in self._candidate
        }
        self._places: dict[tuple[object, ...], list[Place]] = {}
        for one in values[0]:
            self._places.setdefault((*self.where(one.place), one.name, one.key), []).append(
                one.place
            )
        self.missing = tuple(self._missing({(one.place.job, one.place.step) for one in values[0]}))
        self._furthest = self._find_furthest(*values)

    def where(self, place: Place) -> tuple[str, str]:
        """Job and step, each "" where only one of the logs knows it."""
        steps = self._shared.get(place.job)
        if steps is None:
            return "", ""
        return place.job, place.step if place.step in steps else ""

    def is_past(self, example: LogValue, *, ignore_missing: bool = False) -> bool:
        """Say whether the candidate came past all places where the base has a value.

        Its job's log is whole, or a value or failure that the base has after the place recurs.

        Args:
            ignore_missing: leave out places in jobs and steps that the candidate has no log of.
        """
        last: dict[str, Place] = {}
        for place in self._places.get((*self.where(example.place), example.name, example.key), ()):
            if not (ignore_missing and self.is_missing(place)):
                last[place.job] = max(last.get(place.job, place), place, key=_position)
        return all(self._is_past(place) for place in last.values())

    def is_missing(self, place: Place) -> bool:
        """Say whether the candidate has no log of the place's job or step."""
        return any(one.job == place.job and one.step in ("", place.step) for one in self.missing)

    def _is_past(self, place: Place) -> bool:
        if self.is_missing(place):
            return False
        own = self._candidate.get(place.job)
        jobs = [own] if own is not None else [*self._candidate.values()]
        if jobs and all(one.is_whole for one in jobs):
            return True
        return self._furthest.get(place.job, (0, 0)) > _position(place)

    def _missing(self, used: set[tuple[str, str]]) -> Iterator[Place]:
        """Jobs that only the base has, and steps with values or failures that only it has."""
        for job in self._base.values():
            other = self._candidate.get(job.name)
            if other is None:
                if job.name and self._candidate and "" not in self._candidate:
                    yield Place(job.name)
            elif other.steps:
                absent = [one for one in dict.fromkeys(job.steps) if one not in other.steps]
                yield from (Place(job.name, one) for one in absent if (job.name, one) in used)

    def _find_furthest(
        self, base: Sequence[LogValue], candidate: Sequence[LogValue]
    ) -> dict[str, tuple[int, int]]:
        """By job of the base: the last position whose value or failure recurs."""
        left: dict[Identity, int] = {}
        for one in candidate:
            identity = self._identity(one)
            left[identity] = left.get(identity, 0) + 1
        furthest: dict[str, tuple[int, int]] = {}
        for one in base:
            identity = self._identity(one)
            left[identity] = left.get(identity, 0) - 1
            if left[identity] >= 0:
                job = one.place.job
                furthest[job] = max(furthest.get(job, (0, 0)), _position(one.place))
        return furthest

    def _identity(self, value: LogValue) -> Identity:
        return (*self.where(value.place), value.name, value.unit, value.key)


def _position(place: Place) -> tuple[int, int]:
    return place.step_number, place.line


# `inconclusive`: something differs that is neither better nor worse.
LogState = Literal["worse", "mixed", "better", "same", "inconclusive", "unknown"]
Verdict = DirectionVerdict | Literal["not judged"]
# Why a state is unknown.
Doubt = Literal["base empty", "candidate empty", "base cut", "candidate cut", "base missing",
                "candidate missing", "jobs missing", "not reached",
                "nothing in common", "values missing", "nothing judged"]  # fmt: skip
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

    @property
    def conditions_met(self) -> Mapping[FailCondition, bool]:
        """The conditions of `--fail-on` that a log can meet, and whether something here does."""
        more = {one.ending for one in self.failures if one.after > one.before and not one.weak}
        return {
            "timeout": "timeout" in more,
            "oom": "out_of_memory" in more,
            "metric": self.count("worse") > 0
            or any(one.verdict == "worse" for one in self.warnings),
            "incomplete": any(one.end != "whole" for one in (self.base, self.candidate)),
        }

    def is_unjudged(self, fail_on: Collection[str]) -> bool:  # noqa: ARG002
        """Say that a value was not judged, or nothing follows."""
        return self.state in ("unknown", "inconclusive") or self.count("not judged") > 0

    def count(self, verdict: Verdict) -> int:
        """Count the pairs with a verdict."""
        return sum(one.verdict == verdict for one in self.pairs)


def log_of(name: str, reading: LogReading, url: str = "", jobs: tuple[LoggedJob, ...] = ()) -> Log:
    """Take a log apart into what is shown of it, and its values."""
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
        directions: how values are judged, by their name.
        endings: of failures by the name of their values, and whether they prove nothing alone.
    """
    (base, before), (candidate, after) = logs
    values = (before, after)
    progress = Progress((base.jobs, candidate.jobs), values)
    numbers = [[value for value in side if value.kind == "metric"] for side in values]
    pairing = pair_values(*numbers)
    found = LogComparison(
        "unknown",
        (),
        base,
        candidate,
        tuple(_judge(pair, directions) for pair in pairing.pairs),
        pairing,
        tuple(_count_failures(values, endings, progress)),
        tuple(_judge_warnings(pairing, directions, progress)),
        progress.missing,
    )
    doubts = (
        *_end_doubts(base, candidate),
        *_progress_doubts(found, progress),
        *_content_doubts(values, found, directions),
    )
    return replace(found, doubts=doubts, state=_state(found, doubts))


def _judge(pair: ValuePair, directions: Mapping[str, Direction]) -> ComparedPair:
    direction = directions.get(pair.before.name, _UNJUDGED)
    is_judged = direction.exact or pair.difference == 0
    return ComparedPair(pair, direction.judge(pair.difference) if is_judged else "not judged")


def _count_failures(
    values: tuple[Sequence[LogValue], Sequence[LogValue]],
    endings: Mapping[str, tuple[Ending | None, bool]],
    progress: Progress,
) -> Iterator[FailureCount]:
    """By job, step, name and key; those that differ first."""
    found: dict[tuple[object, ...], tuple[list[LogValue], list[LogValue]]] = {}
    for side in (1, 0):
        for one in values[side]:
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
        verdict: Verdict = direction.judge(one.after - one.before)
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
    values: tuple[Sequence[LogValue], Sequence[LogValue]],
    found: LogComparison,
    directions: Mapping[str, Direction],
) -> Iterator[Doubt]:
    def is_exact(value: LogValue) -> bool:
        return directions.get(value.name, _UNJUDGED).exact

    before, after = ({value.name for value in side} for side in values)
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
    if doubts:  # a worse value is worse in an incomplete log, too
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
