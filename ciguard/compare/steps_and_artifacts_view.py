"""What `ciguard compare` shows of steps and artifacts: values -> blocks. Pure.

Those that changed notably are listed, and what is missing; all others are counted, and folded where
a format can fold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.compare.steps_and_artifacts import (
    NOTABLE_S,
    NOTABLE_SIZE_RATIO,
    NOTABLE_STEP_RATIO,
)
from ciguard.document import Cell, Code, Column, Details, Paragraph, Section, Table
from ciguard.text import change_text, count_of, duration, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.compare.steps_and_artifacts import (
        AmbiguousName,
        ArtifactChange,
        ArtifactChanges,
        StepChange,
        StepChanges,
    )
    from ciguard.document import Block, Content, Row

MAX_ROWS: Final = 20
MISSING: Final = "missing"
_RAN: Final = "success"
_COLUMNS: Final = (Column("before", "right"), Column("after", "right"), Column("change", "right"))


def steps_section(found: StepChanges) -> Section:
    """Durations of steps, by job and name."""
    columns = (Column("job"), Column("step"), *_COLUMNS)
    listed = [one for one in found.changes if one.is_notable or one.difference_s is None]
    others = found.changes[len(listed) :]
    least = f"{duration(NOTABLE_S)} or {100 * NOTABLE_STEP_RATIO:.0f} %"
    summary = f"{count_of(len(others), 'step')} changed by less than {least}"
    return _section(
        "steps",
        "Steps: one duration of each run, no verdict",
        listed=Table(columns, tuple(map(_step, listed)), "step", MAX_ROWS),
        others=Table(columns, tuple(map(_step, others)), "step", MAX_ROWS),
        summary=summary,
        counts=found.counts,
    )


def artifacts_section(found: ArtifactChanges) -> Section:
    """Sizes of artifacts, by name."""
    columns = (Column("artifact"), *_COLUMNS)
    listed = [one for one in found.changes if one.is_notable or one.difference_bytes is None]
    others = found.changes[len(listed) :]
    least = f"{100 * NOTABLE_SIZE_RATIO:.0f} %"
    summary = f"{count_of(len(others), 'artifact')} changed by less than {least}"
    return _section(
        "artifacts",
        "Artifacts: one size of each run, no verdict",
        listed=Table(columns, tuple(map(_artifact, listed)), "artifact", MAX_ROWS),
        others=Table(columns, tuple(map(_artifact, others)), "artifact", MAX_ROWS),
        summary=summary,
        counts=found.counts,
    )


def _section(
    name: str,
    title: str,
    *,
    listed: Table,
    others: Table,
    summary: str,
    counts: Sequence[AmbiguousName],
) -> Section:
    blocks: list[Block] = [listed]
    if others.rows:
        blocks += [
            Section(f"{name}_counted", (Paragraph(f"{summary}."),), formats=("text",)),
            Section(f"{name}_others", (Details(summary, (others,)),), formats=("markdown", "html")),
        ]
    blocks.append(_counts(counts))
    return Section(name, tuple(blocks), title, (len(listed.rows), name[:-1]), drop=12)


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
    change = ""
    if one.difference_s is not None:
        change = change_text(one.difference_s, one.ratio, duration)
    return (
        one.job,
        _name(one.name, one.was),
        Cell(_duration(one.wall_before_s, one.before), one.wall_before_s),
        Cell(_duration(one.wall_after_s, one.after), one.wall_after_s),
        Cell(change, one.ratio),
    )


def _duration(wall_s: float | None, conclusion: str | None) -> str:
    """ "16 min 00 s", "2.00 s (failure)", "skipped", "missing"."""
    if conclusion is None:
        return MISSING
    if wall_s is None:
        return conclusion if conclusion != _RAN else "-"
    return duration(wall_s) + (f" ({conclusion})" if conclusion != _RAN else "")


def _artifact(one: ArtifactChange) -> Row:
    sizes = (one.before_bytes, one.after_bytes)
    before, after = (MISSING if value is None else size(value) for value in sizes)
    change = ""
    if one.difference_bytes is not None:
        change = change_text(one.difference_bytes, one.ratio, size)
    return (
        _name(one.name, one.was),
        Cell(before, one.before_bytes),
        Cell(after, one.after_bytes),
        Cell(change, one.ratio),
    )


def _name(name: str, was: str) -> Content:
    return (Code(name), ", was ", Code(was)) if was else Code(name)
