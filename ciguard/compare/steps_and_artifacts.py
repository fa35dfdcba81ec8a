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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ciguard.document import Cell, Code, Column, Details, Paragraph, Section, Table
from ciguard.model.jobs import Job, RunArtifact, Step, last_attempt
from ciguard.text import change_text, count_of, duration, size

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ciguard.document import Block, Content, Row


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
class AmbiguousName:
    """A name that stands for more things in one run than in the other; `job` is of a step."""

    job: str
    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Paired(Generic[T]):
    """Items of two runs: pairs, those that only one of them has, and counts."""

    pairs: tuple[tuple[T, T], ...]
    only_before: tuple[T, ...]
    only_after: tuple[T, ...]
    counts: tuple[AmbiguousName, ...]

    def with_lonely(self) -> Iterator[tuple[T | None, T | None]]:
        """The pairs, then what only one of the runs has."""
        yield from self.pairs
        yield from ((one, None) for one in self.only_before)
        yield from ((None, one) for one in self.only_after)


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
    counts: list[AmbiguousName] = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, []), after.get(name, [])
        if len(old) == len(new):
            pairs += zip(old, new, strict=True)
        elif old and new:
            counts.append(AmbiguousName("", name, len(old), len(new)))
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


MAX_ROWS: Final = 20
MISSING: Final = "missing"
_RAN: Final = "success"
_COLUMNS: Final = (Column("before", "right"), Column("after", "right"), Column("change", "right"))

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
    def difference(self) -> float | None:
        """After minus before, in seconds; None where one is missing, or the conclusions differ."""
        if self.before != self.after:
            return None
        return _difference(self.wall_before_s, self.wall_after_s)

    @property
    def is_notable(self) -> bool:
        """Say that it takes another time than before, and one that a person would notice."""
        difference_s = abs(self.difference or 0.0)
        return difference_s >= max(NOTABLE_S, NOTABLE_STEP_RATIO * (self.wall_before_s or 0.0))

    @property
    def largest(self) -> float:
        """The longer duration."""
        return max(self.wall_before_s or 0.0, self.wall_after_s or 0.0)


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
    def difference(self) -> float | None:
        """After minus before; None where one is missing."""
        return _difference(self.before_bytes, self.after_bytes)

    @property
    def is_notable(self) -> bool:
        """Say that it has another size than before, by enough to be counted."""
        difference = abs(self.difference or 0.0)
        return difference > 0 and difference >= NOTABLE_SIZE_RATIO * (self.before_bytes or 0)

    @property
    def largest(self) -> float:
        """The larger size."""
        return max(self.before_bytes or 0, self.after_bytes or 0)


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
    for old_job, new_job in jobs.pairs:
        steps = [[(step.name, step) for step in job.steps] for job in (old_job, new_job)]
        found = pair_by_name(steps[0], steps[1], own)
        changes += [_step_change(new_job.name, *pair) for pair in found.with_lonely()]
        counts += [replace(one, job=new_job.name) for one in found.counts]
    timed = [one for one in changes if (one.wall_before_s, one.wall_after_s) != (None, None)]
    return StepChanges(
        tuple(sorted(timed, key=lambda one: (*_rank(one), one.job, one.name))), tuple(counts)
    )


def _last_jobs(jobs: Sequence[Job]) -> list[tuple[str, Job]]:
    by_name: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        by_name[job.name].append(job)
    return [(name, job) for name, found in by_name.items() for job in last_attempt(found)]


def _step_change(job: str, old: Step | None, new: Step | None) -> StepChange:
    before, after = (None if one is None else one.conclusion or "not ended" for one in (old, new))
    before_s, after_s = (None if one is None else one.wall_s for one in (old, new))
    ratio = _ratio(before_s, after_s) if before == after else None
    return StepChange(job, *_names(old, new), before, after, before_s, after_s, ratio)


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
    named = [[(one.name, one) for one in artifacts] for artifacts in (before, after)]
    found = pair_by_name(named[0], named[1], own)
    changes = []
    for old, new in found.with_lonely():
        sizes = [None if one is None else one.size_bytes for one in (old, new)]
        change = ArtifactChange(*_names(old, new), sizes[0], sizes[1], _ratio(sizes[0], sizes[1]))
        changes.append(change)
    changes.sort(key=lambda one: (*_rank(one), one.name))
    return ArtifactChanges(tuple(changes), found.counts)


def _names(old: Step | RunArtifact | None, new: Step | RunArtifact | None) -> tuple[str, str]:
    """The name, and what it was where that differs."""
    if old is None or new is None:
        return next(one.name for one in (old, new) if one is not None), ""
    return new.name, old.name if old.name != new.name else ""


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _ratio(before: float | None, after: float | None) -> float | None:
    return after / before - 1 if before and after is not None else None


def _rank(one: StepChange | ArtifactChange) -> tuple[int, float]:
    """Notable changes first, then what is missing, the largest of each first."""
    rank = 0 if one.is_notable else 1 if one.difference is None else 2
    return rank, -(one.largest if rank else abs(one.difference or 0.0))


def steps_section(found: StepChanges) -> Section:
    """Durations of steps, by job and name."""
    least = f"{duration(NOTABLE_S)} or {100 * NOTABLE_STEP_RATIO:.0f} %"
    title = "Steps: one duration of each run, no verdict"
    return _section("steps", title, (Column("job"), Column("step")), found, least)


def artifacts_section(found: ArtifactChanges) -> Section:
    """Sizes of artifacts, by name."""
    least = f"{100 * NOTABLE_SIZE_RATIO:.0f} %"
    title = "Artifacts: one size of each run, no verdict"
    return _section("artifacts", title, (Column("artifact"),), found, least)


def _section(
    name: str,
    title: str,
    columns: tuple[Column, ...],
    found: StepChanges | ArtifactChanges,
    least: str,
) -> Section:
    """Notable changes and what is missing; all others are counted, and folded where possible."""
    noun = name[:-1]
    listed: list[Row] = []
    others: list[Row] = []
    for one in found.changes:
        row = _step(one) if isinstance(one, StepChange) else _artifact(one)
        (listed if one.is_notable or one.difference is None else others).append(row)
    table = Table((*columns, *_COLUMNS), tuple(listed), noun, MAX_ROWS)
    blocks: list[Block] = [table]
    if others:
        summary = f"{count_of(len(others), noun)} changed by less than {least}"
        folded = replace(table, rows=tuple(others))
        blocks += [
            Section(f"{name}_counted", (Paragraph(f"{summary}."),), formats=("text",)),
            Section(f"{name}_others", (Details(summary, (folded,)),), formats=("markdown", "html")),
        ]
    blocks.append(_counts(found.counts))
    return Section(name, tuple(blocks), title, (len(listed), noun), drop=12)


def _counts(counts: Sequence[AmbiguousName]) -> Table:
    columns = (
        Column("several of one name"), Column("before", "right"), Column("after", "right"),
    )  # fmt: skip
    rows: tuple[Row, ...] = tuple(
        (
            (f"{one.job}: " if one.job else "", Code(one.name)),
            Cell(f"{one.before:,}", one.before),
            Cell(f"{one.after:,}", one.after),
        )
        for one in counts
    )
    return Table(columns, rows, "name", MAX_ROWS)


def _step(one: StepChange) -> Row:
    return (
        one.job,
        _name(one.name, one.was),
        Cell(_duration(one.wall_before_s, one.before), one.wall_before_s),
        Cell(_duration(one.wall_after_s, one.after), one.wall_after_s),
        _change(one, duration),
    )


def _artifact(one: ArtifactChange) -> Row:
    sizes = (one.before_bytes, one.after_bytes)
    cells = (Cell(MISSING if value is None else size(value), value) for value in sizes)
    return (_name(one.name, one.was), *cells, _change(one, size))


def _change(one: StepChange | ArtifactChange, show: Callable[[float], str]) -> Cell:
    change = "" if one.difference is None else change_text(one.difference, one.ratio, show)
    return Cell(change, one.ratio)


def _name(name: str, was: str) -> Content:
    return (Code(name), ", was ", Code(was)) if was else Code(name)


def _duration(wall_s: float | None, conclusion: str | None) -> str:
    """ "16 min 00 s", "2.00 s (failure)", "skipped", "missing"."""
    if conclusion is None:
        return MISSING
    if wall_s is None:
        return conclusion if conclusion != _RAN else "-"
    return duration(wall_s) + (f" ({conclusion})" if conclusion != _RAN else "")
