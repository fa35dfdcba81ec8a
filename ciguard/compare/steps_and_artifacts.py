"""Durations of steps and sizes of artifacts of two runs beside each other. Pure.

One value of each run: numbers, and no verdict. What one run does not have is missing, and not 0.
Names are paired that are equal, or differ in what each run has anew: a commit, a version, a date,
the number of the run. A name that both runs have is never paired with another one: `python-3.11`
and `python-3.12` of a matrix stay apart. Where a name stands for more things in one run than in the
other, only the counts are known.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ciguard.model.jobs import last_attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ciguard.model.jobs import Job, RunArtifact, Step


T = TypeVar("T")

COMMIT: Final = "<commit>"
_HEX: Final = re.compile(r"(?<![0-9A-Za-z])(?:git|g)?([0-9a-f]{7,40})(?![0-9A-Za-z])")
_FULL_COMMIT: Final = 40
# In this order: a version may look like a date. Commits go first, as one may look like a version.
_MARKS: Final = (
    (
        re.compile(
            r"(?:(?<![0-9A-Za-z])v[0-9]+(?:\.[0-9]+)*|(?<![0-9.])[0-9]+(?:\.[0-9]+)+)"
            # PEP 440, SemVer, `git describe`. What follows "+", such as "cpu", tells builds apart.
            r"(?:[-._]?(?:(?:alpha|beta|rc|preview|pre|dev|post|nightly|SNAPSHOT)[-._]?[0-9]*"
            r"|[abc][0-9]+)(?![0-9A-Za-z]))*"
            rf"(?:-[0-9]+(?=-{COMMIT}))?"
        ),
        "<version>",
    ),
    (
        re.compile(
            r"(?<![0-9])20[0-9]{2}[-_]?(?:0[1-9]|1[0-2])[-_]?(?:0[1-9]|[12][0-9]|3[01])"
            r"(?:[T_-]?[0-9]{2}[-:_]?[0-9]{2}(?:[-:_]?[0-9]{2})?Z?)?(?![0-9])"
        ),
        "<date>",
    ),
    (re.compile(r"(?<![0-9])[0-9]{9,}(?![0-9])"), "<run>"),  # of GitHub's ids, all since 2020
)
_DIGITS: Final = re.compile(r"([0-9]+)")


@dataclass(frozen=True, slots=True)
class NameCount:
    """A name of which one run has more than the other: which belong together is not known."""

    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Paired(Generic[T]):
    """Items of two runs: pairs, those that only one of them has, and counts."""

    pairs: tuple[tuple[T, T], ...]
    only_before: tuple[T, ...]
    only_after: tuple[T, ...]
    counts: tuple[NameCount, ...]


def normalize_name(name: str, own: Collection[str] = ()) -> str:
    """A name without what differs from run to run: `wheel-<version>+cpu-<commit>`.

    Args:
        own: commits of the runs. A start of one is a commit even without a letter or a digit, which
            other texts need to be one.
    """

    def without_commit(match: re.Match[str]) -> str:
        digits = match[1]
        is_mixed = not digits.isdigit() and not digits.isalpha()
        is_own = any(commit.startswith(digits) for commit in own)
        return COMMIT if is_mixed or is_own or len(digits) == _FULL_COMMIT else match[0]

    name = _HEX.sub(without_commit, name)
    for pattern, mark in _MARKS:
        name = pattern.sub(mark, name)
    return name


def pair_by_name(
    before: Sequence[tuple[str, T]], after: Sequence[tuple[str, T]], own: Collection[str] = ()
) -> Paired[T]:
    """Pair named items of two runs: equal names first, then those that are equal normalized.

    Items of one name are paired in their order, and those of one normalized name in the natural
    order of their names.
    """
    exact = _pair(_grouped(before, lambda name: name), _grouped(after, lambda name: name))
    rest = [
        _grouped(sorted(found, key=lambda one: _natural(one[0])), lambda n: normalize_name(n, own))
        for found in (exact.only_before, exact.only_after)
    ]
    alike = _pair(*rest)
    return Paired(
        tuple((old[1], new[1]) for old, new in (*exact.pairs, *alike.pairs)),
        tuple(one[1] for one in alike.only_before),
        tuple(one[1] for one in alike.only_after),
        (*exact.counts, *alike.counts),
    )


def _grouped(
    items: Sequence[tuple[str, T]], key: Callable[[str], str]
) -> dict[str, list[tuple[str, T]]]:
    found: dict[str, list[tuple[str, T]]] = {}
    for one in items:
        found.setdefault(key(one[0]), []).append(one)
    return found


def _pair(before: Mapping[str, list[T]], after: Mapping[str, list[T]]) -> Paired[T]:
    pairs: list[tuple[T, T]] = []
    only: tuple[list[T], list[T]] = [], []
    counts: list[NameCount] = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, []), after.get(name, [])
        if len(old) == len(new):
            pairs += zip(old, new, strict=True)
        elif old and new:
            counts.append(NameCount(name, len(old), len(new)))
        else:
            only[0].extend(old)
            only[1].extend(new)
    return Paired(tuple(pairs), tuple(only[0]), tuple(only[1]), tuple(counts))


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts `py3.9` before `py3.10`."""
    parts = [
        part.lstrip("0") if place % 2 else part for place, part in enumerate(_DIGITS.split(name))
    ]
    return [(len(part) if place % 2 else 0, part) for place, part in enumerate(parts)]


NOTABLE_S, NOTABLE_STEP_RATIO = 5.0, 0.1  # of a step, which GitHub times in whole seconds
NOTABLE_SIZE_RATIO: Final = 0.05


@dataclass(frozen=True, slots=True)
class StepChange:
    """A step of a job in both runs, or in one.

    Attributes:
        name: in the candidate; in the base, where that has another commit or version in it, `was`.
        before, after: conclusions; None where the run has no such step.
        wall_before_s, wall_after_s: None where it did not run to its end.
        ratio: None where a duration is missing, the one before is 0, or the conclusions differ:
            where a step fails it has not done its work.
    """

    job: str
    name: str
    was: str
    before: str | None
    after: str | None
    wall_before_s: float | None
    wall_after_s: float | None
    ratio: float | None

    @property
    def difference_s(self) -> float | None:
        """After minus before; None where one is missing, or the conclusions differ."""
        if self.before != self.after:
            return None
        return _difference(self.wall_before_s, self.wall_after_s)

    @property
    def is_notable(self) -> bool:
        """Say that it takes another time than before, and one that a person would notice."""
        difference_s = abs(self.difference_s or 0.0)
        return difference_s >= max(NOTABLE_S, NOTABLE_STEP_RATIO * (self.wall_before_s or 0.0))


@dataclass(frozen=True, slots=True)
class ArtifactChange:
    """An artifact in both runs, or in one; sizes are those of the archives.

    Attributes:
        name, was: as of `StepChange`.
        before_bytes, after_bytes: None where the run has no such artifact.
        ratio: None where one is missing, or the one before is empty.
    """

    name: str
    was: str
    before_bytes: int | None
    after_bytes: int | None
    ratio: float | None

    @property
    def difference_bytes(self) -> float | None:
        """After minus before; None where one is missing."""
        return _difference(self.before_bytes, self.after_bytes)

    @property
    def is_notable(self) -> bool:
        """Say that it has another size than before, by enough to be counted."""
        difference = abs(self.difference_bytes or 0.0)
        return difference > 0 and difference >= NOTABLE_SIZE_RATIO * (self.before_bytes or 0)


@dataclass(frozen=True, slots=True)
class AmbiguousName:
    """A name that stands for more things in one run than in the other; `job` is of a step."""

    job: str
    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class StepChanges:
    """Steps of jobs of both runs: those that changed notably first, then those that are missing."""

    changes: tuple[StepChange, ...] = ()
    counts: tuple[AmbiguousName, ...] = ()


@dataclass(frozen=True, slots=True)
class ArtifactChanges:
    """Artifacts of both runs, in the same order."""

    changes: tuple[ArtifactChange, ...] = ()
    counts: tuple[AmbiguousName, ...] = ()


NO_STEPS: Final = StepChanges()
NO_ARTIFACTS: Final = ArtifactChanges()


def compare_steps(
    before: Sequence[Job], after: Sequence[Job], own: Collection[str] = ()
) -> StepChanges:
    """Compare the steps of each job in the last attempt in which it ran, by name.

    Jobs that only one run has are left out with their steps.

    Args:
        before, after: of all attempts; without jobs of one run there is nothing to compare.
        own: commits of the runs.
    """
    jobs = pair_by_name(_last_jobs(before), _last_jobs(after), own)
    changes: list[StepChange] = []
    counts: list[AmbiguousName] = []
    for old, new in jobs.pairs:
        steps = [[(step.name, step) for step in job.steps] for job in (old, new)]
        found = pair_by_name(steps[0], steps[1], own)
        pairs: list[tuple[Step | None, Step | None]] = list(found.pairs)
        pairs += [(step, None) for step in found.only_before]
        pairs += [(None, step) for step in found.only_after]
        changes += [_step_change(new.name, *pair) for pair in pairs]
        counts += [AmbiguousName(new.name, one.name, one.before, one.after) for one in found.counts]
    timed = [one for one in changes if (one.wall_before_s, one.wall_after_s) != (None, None)]
    return StepChanges(tuple(sorted(timed, key=_step_order)), tuple(counts))


def _last_jobs(jobs: Sequence[Job]) -> list[tuple[str, Job]]:
    by_name: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        by_name[job.name].append(job)
    return [(name, job) for name, found in by_name.items() for job in last_attempt(found)]


def _step_change(job: str, old: Step | None, new: Step | None) -> StepChange:
    before_s, after_s = (step.wall_s if step is not None else None for step in (old, new))
    return StepChange(
        job,
        *_names(old.name if old is not None else "", new.name if new is not None else ""),
        _conclusion(old),
        _conclusion(new),
        before_s,
        after_s,
        _ratio(before_s, after_s) if _conclusion(old) == _conclusion(new) else None,
    )


def _conclusion(step: Step | None) -> str | None:
    return None if step is None else step.conclusion or "not ended"


def compare_artifacts(
    before: Sequence[RunArtifact] | None,
    after: Sequence[RunArtifact] | None,
    own: Collection[str] = (),
) -> ArtifactChanges:
    """Compare the sizes of artifacts by name.

    Args:
        before, after: of each run, by name; None where they are not known.
        own: commits of the runs.
    """
    if before is None or after is None:
        return NO_ARTIFACTS
    named = [[(one.name, one) for one in found] for found in (before, after)]
    found = pair_by_name(named[0], named[1], own)
    pairs: list[tuple[RunArtifact | None, RunArtifact | None]] = list(found.pairs)
    pairs += [(one, None) for one in found.only_before]
    pairs += [(None, one) for one in found.only_after]
    changes = sorted((_artifact_change(*pair) for pair in pairs), key=_artifact_order)
    counts = tuple(AmbiguousName("", one.name, one.before, one.after) for one in found.counts)
    return ArtifactChanges(tuple(changes), counts)


def _artifact_change(old: RunArtifact | None, new: RunArtifact | None) -> ArtifactChange:
    sizes = [one.size_bytes if one is not None else None for one in (old, new)]
    names = _names(old.name if old is not None else "", new.name if new is not None else "")
    return ArtifactChange(*names, sizes[0], sizes[1], _ratio(sizes[0], sizes[1]))


def _names(old: str, new: str) -> tuple[str, str]:
    return new or old, old if old and new and old != new else ""


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _ratio(before: float | None, after: float | None) -> float | None:
    return after / before - 1 if before and after is not None else None


def _step_order(one: StepChange) -> tuple[int, float, str, str]:
    rank = _rank(one.difference_s, is_notable=one.is_notable)
    longest_s = max(one.wall_before_s or 0.0, one.wall_after_s or 0.0)
    return rank, -(longest_s if rank else abs(one.difference_s or 0.0)), one.job, one.name


def _artifact_order(one: ArtifactChange) -> tuple[int, float, str]:
    rank = _rank(one.difference_bytes, is_notable=one.is_notable)
    largest = max(one.before_bytes or 0, one.after_bytes or 0)
    return rank, -(largest if rank else abs(one.difference_bytes or 0.0)), one.name


def _rank(difference: float | None, *, is_notable: bool) -> int:
    return 0 if is_notable else 1 if difference is None else 2
