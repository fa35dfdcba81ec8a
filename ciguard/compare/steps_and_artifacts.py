"""Durations of steps and sizes of artifacts of two runs side by side, without a verdict. Pure.

Each run has one value; an item that one run does not have is missing, and not 0. Names are paired
if they are equal, or differ only in parts that are new in each run: a commit, a version, a date, a
run number. Equal names are paired first, so that `python-3.11` and `python-3.12` of a matrix stay
apart. If a name has more items in one run than in the other, none of them is paired.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from ciguard.document import (
    Block,
    Cell,
    Code,
    Column,
    Content,
    Details,
    Paragraph,
    Row,
    Section,
    Table,
)
from ciguard.model.jobs import Job, RunArtifact, Step, last_attempts
from ciguard.render.changes import exact_change
from ciguard.text import count_of, duration, size

T = TypeVar("T")

COMMIT: Final = "<commit>"
_HEX: Final = re.compile(r"(?<![0-9A-Za-z])(?:git|g)?([0-9a-f]{7,40})(?![0-9A-Za-z])")
_FULL_COMMIT: Final = 40
# The order matters, as a version may look like a date. `_HEX` replaces commits before.
_MARKS: Final = (
    (
        re.compile(
            r"(?:(?<![0-9A-Za-z])v[0-9]+(?:\.[0-9]+)*|(?<![0-9.])[0-9]+(?:\.[0-9]+)+)"
            # PEP 440, SemVer, `git describe`. A suffix after "+", such as "cpu", names a build.
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
    (re.compile(r"(?<![0-9])[0-9]{9,}(?![0-9])"), "<run>"),  # all ids of GitHub since 2020
)
_DIGITS: Final = re.compile(r"([0-9]+)")


def normalize_name(name: str, own: Collection[str] = ()) -> str:
    """Return a name without the parts that differ between runs: `wheel-<version>+cpu-<commit>`.

    Args:
        own: commits of the runs. A prefix of one is a commit even if it is all digits or all
            letters; any other text needs both.
    """
    name = replace_commits(name, own, only_own=False)
    for pattern, mark in _MARKS:
        name = pattern.sub(mark, name)
    return name


def replace_commits(name: str, own: Collection[str], *, only_own: bool = True) -> str:
    """Return a name without full commits, and without shortened ones of `own` or of any text."""

    def without_commit(match: re.Match[str]) -> str:
        digits = match[1]
        is_mixed = not only_own and not digits.isdigit() and not digits.isalpha()
        is_own = any(commit.startswith(digits) for commit in own)
        return COMMIT if is_mixed or is_own or len(digits) == _FULL_COMMIT else match[0]

    return _HEX.sub(without_commit, name)


def pair_by_name(
    before: Sequence[tuple[str, T]],
    after: Sequence[tuple[str, T]],
    own: Collection[str] = (),
    normalize: Callable[[str, Collection[str]], str] = normalize_name,
    only_unique: bool = False,
) -> list[tuple[T | None, T | None]]:
    """Pair named items of two runs: equal names first, then equal normalized names.

    Items of one name are paired in their order. Items of one normalized name are paired in the
    natural order of their names, or only if single. Items without a partner come last.
    """
    exact, *rest = _pair(_grouped(before, str), _grouped(after, str))
    olds, news = (
        _grouped(sorted(items, key=lambda item: _natural(item[0])), lambda n: normalize(n, own))
        for items in rest
    )
    alike, *alone = _pair(olds, news, only_unique)
    return [
        *((old[1], new[1]) for old, new in (*exact, *alike)),
        *((item, None) for _, item in alone[0]),
        *((None, item) for _, item in alone[1]),
    ]


def _grouped(
    items: Sequence[tuple[str, T]], key: Callable[[str], str]
) -> dict[str, list[tuple[str, T]]]:
    groups: dict[str, list[tuple[str, T]]] = {}
    for name, item in items:
        groups.setdefault(key(name), []).append((name, item))
    return groups


def _pair(
    before: Mapping[str, list[T]], after: Mapping[str, list[T]], only_unique: bool = False
) -> tuple[list[tuple[T, T]], list[T], list[T]]:
    """Return the pairs, and the items of each run without a partner."""
    pairs: list[tuple[T, T]] = []
    only_before: list[T] = []
    only_after: list[T] = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, []), after.get(name, [])
        if len(old) == len(new) and not (only_unique and len(old) > 1):
            pairs += zip(old, new, strict=True)
        else:
            only_before += old
            only_after += new
    return pairs, only_before, only_after


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key with `py3.9` before `py3.10`."""
    parts = [
        part.lstrip("0") if index % 2 else part for index, part in enumerate(_DIGITS.split(name))
    ]
    return [(len(part) if index % 2 else 0, part) for index, part in enumerate(parts)]


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
        name, was: name in the candidate; name in the base if it differs, otherwise "".
        before, after: conclusions; None if the run has no such step.
        wall_before_s, wall_after_s: None if the step did not run to its end.
        ratio: None if a duration is missing, if the duration before is 0, or if the conclusions
            differ, because a failed step did not do its work.
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
        """The change of the duration in seconds; None without two durations of one conclusion."""
        if self.before != self.after:
            return None
        return _difference(self.wall_before_s, self.wall_after_s)

    @property
    def is_notable(self) -> bool:
        """Return whether the duration changed by an amount that a person notices."""
        difference_s = abs(self.difference or 0.0)
        return difference_s >= max(NOTABLE_S, NOTABLE_STEP_RATIO * (self.wall_before_s or 0.0))

    @property
    def largest(self) -> float:
        return max(self.wall_before_s or 0.0, self.wall_after_s or 0.0)


@dataclass(frozen=True, slots=True)
class ArtifactChange:
    """An artifact in both runs, or in one; sizes are those of the archives.

    Attributes:
        name, was: as in `StepChange`.
        before_bytes, after_bytes: None if the run has no such artifact.
        ratio: None if an artifact is missing, or if that of the base is empty.
    """

    name: str
    was: str
    before_bytes: int | None
    after_bytes: int | None
    ratio: float | None

    @property
    def difference(self) -> float | None:
        """The change of the size; None if one is missing."""
        return _difference(self.before_bytes, self.after_bytes)

    @property
    def is_notable(self) -> bool:
        """Return whether the size changed by enough to be listed."""
        difference = abs(self.difference or 0.0)
        return difference > 0 and difference >= NOTABLE_SIZE_RATIO * (self.before_bytes or 0)

    @property
    def largest(self) -> float:
        return max(self.before_bytes or 0, self.after_bytes or 0)


@dataclass(frozen=True, slots=True)
class StepChanges:
    """The steps of both runs: notable changes first, then missing steps."""

    changes: tuple[StepChange, ...] = ()


@dataclass(frozen=True, slots=True)
class ArtifactChanges:
    """The artifacts of both runs: notable changes first, then missing artifacts."""

    changes: tuple[ArtifactChange, ...] = ()


NO_STEPS: Final = StepChanges()
NO_ARTIFACTS: Final = ArtifactChanges()


def last_jobs(jobs: Sequence[Job]) -> list[tuple[str, Job]]:
    """Return each job in the last attempt in which it ran, with its name; names may repeat."""
    return [(name, job) for name, last in last_attempts(jobs).items() for job in last]


def compare_steps(
    before: Sequence[Job], after: Sequence[Job], own: Collection[str] = ()
) -> StepChanges:
    """Compare the steps of each job in the last attempt in which the job ran, by name.

    Jobs that only one run has are omitted.

    Args:
        before, after: jobs of all attempts of each run.
        own: commits of the runs.
    """
    changes: list[StepChange] = []
    for old_job, new_job in pair_by_name(last_jobs(before), last_jobs(after), own):
        if old_job is not None and new_job is not None:
            steps = [[(step.name, step) for step in job.steps] for job in (old_job, new_job)]
            pairs = pair_by_name(steps[0], steps[1], own)
            changes += [_step_change(new_job.name, *pair) for pair in pairs]
    timed = [step for step in changes if (step.wall_before_s, step.wall_after_s) != (None, None)]
    timed.sort(key=lambda step: (*_rank(step), step.job, step.name))
    return StepChanges(tuple(timed))


def _step_change(job: str, old: Step | None, new: Step | None) -> StepChange:
    sides = (old, new)
    before, after = (None if step is None else step.conclusion or "not ended" for step in sides)
    before_s, after_s = (None if step is None else step.wall_s for step in sides)
    ratio = _ratio(before_s, after_s) if before == after else None
    return StepChange(job, *_names(old, new), before, after, before_s, after_s, ratio)


def compare_artifacts(
    before: Sequence[RunArtifact] | None,
    after: Sequence[RunArtifact] | None,
    own: Collection[str] = (),
) -> ArtifactChanges:
    """Compare the sizes of artifacts by name.

    Args:
        before, after: artifacts of each run; None if they are unknown.
        own: commits of the runs.
    """
    if before is None or after is None:
        return NO_ARTIFACTS
    named = [[(artifact.name, artifact) for artifact in side] for side in (before, after)]
    changes = []
    for old, new in pair_by_name(named[0], named[1], own):
        sizes = [None if artifact is None else artifact.size_bytes for artifact in (old, new)]
        change = ArtifactChange(*_names(old, new), sizes[0], sizes[1], _ratio(sizes[0], sizes[1]))
        changes.append(change)
    changes.sort(key=lambda artifact: (*_rank(artifact), artifact.name))
    return ArtifactChanges(tuple(changes))


def _names(old: Step | RunArtifact | None, new: Step | RunArtifact | None) -> tuple[str, str]:
    """Return the name in the candidate, and the name in the base if that differs."""
    if old is None or new is None:
        return next(item.name for item in (old, new) if item is not None), ""
    return new.name, old.name if old.name != new.name else ""


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _ratio(before: float | None, after: float | None) -> float | None:
    return after / before - 1 if before and after is not None else None


def _rank(change: StepChange | ArtifactChange) -> tuple[int, float]:
    """Return a sort key: notable changes first, then missing items, each with the largest first."""
    rank = 0 if change.is_notable else 1 if change.difference is None else 2
    return rank, -(change.largest if rank else abs(change.difference or 0.0))


def steps_section(changes: StepChanges) -> Section:
    least = f"{duration(NOTABLE_S)} or {100 * NOTABLE_STEP_RATIO:.0f} %"
    title = "Steps: one duration of each run, no verdict"
    return _section("steps", title, (Column("job"), Column("step")), changes, least)


def artifacts_section(changes: ArtifactChanges) -> Section:
    least = f"{100 * NOTABLE_SIZE_RATIO:.0f} %"
    title = "Artifacts: one size of each run, no verdict"
    return _section("artifacts", title, (Column("artifact"),), changes, least)


def _section(
    name: str,
    title: str,
    columns: tuple[Column, ...],
    changes: StepChanges | ArtifactChanges,
    least: str,
) -> Section:
    """Return notable changes and missing items; others are counted, and folded if possible."""
    noun = name[:-1]
    listed: list[Row] = []
    others: list[Row] = []
    for change in changes.changes:
        row = _step(change) if isinstance(change, StepChange) else _artifact(change)
        (listed if change.is_notable or change.difference is None else others).append(row)
    table = Table((*columns, *_COLUMNS), tuple(listed), noun, MAX_ROWS)
    blocks: list[Block] = [table]
    if others:
        summary = f"{count_of(len(others), noun)} changed by less than {least}"
        folded = replace(table, rows=tuple(others))
        blocks += [
            Section(f"{name}_counted", (Paragraph(f"{summary}."),), formats=("text",)),
            Section(f"{name}_others", (Details(summary, (folded,)),), formats=("markdown", "html")),
        ]
    return Section(name, tuple(blocks), title, (len(listed), noun), drop=12)


def _step(step: StepChange) -> Row:
    return (
        step.job,
        _name(step.name, step.was),
        Cell(_duration(step.wall_before_s, step.before), step.wall_before_s),
        Cell(_duration(step.wall_after_s, step.after), step.wall_after_s),
        _change(step, "s"),
    )


def _artifact(artifact: ArtifactChange) -> Row:
    sizes = (artifact.before_bytes, artifact.after_bytes)
    cells = (Cell(MISSING if value is None else size(value), value) for value in sizes)
    return (_name(artifact.name, artifact.was), *cells, _change(artifact, "bytes"))


def _change(item: StepChange | ArtifactChange, unit: str) -> Cell:
    text = "" if item.difference is None else exact_change(item.difference, item.ratio, unit)
    return Cell(text, item.ratio)


def _name(name: str, was: str) -> Content:
    return (Code(name), ", was ", Code(was)) if was else Code(name)


def _duration(wall_s: float | None, conclusion: str | None) -> str:
    """Return "16 min 00 s", "2.00 s (failure)", "skipped" or "missing"."""
    if conclusion is None:
        return MISSING
    if wall_s is None:
        return conclusion if conclusion != _RAN else "-"
    return duration(wall_s) + (f" ({conclusion})" if conclusion != _RAN else "")
