"""The section on tests that moved between shards: a sentence and a table. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.document import Cell, Column, Details, Link, Paragraph, Row, Section, Table
from ciguard.text import count_of, duration

if TYPE_CHECKING:
    from ciguard.model.moved_units import MovedUnits, ShardMoves
    from ciguard.render.links import Links


def moved_text(moved: MovedUnits) -> str:
    """Word the moves: "120 tests moved between 14 shards; slowest shard 3 min 05 s"."""
    text = f"{count_of(moved.units, 'test')} moved between {count_of(moved.shards, 'shard')}"
    if moved.makespan_s is None:
        return text
    text += f"; slowest shard {duration(moved.makespan_s)}"
    if moved.static_makespan_s is None:
        return text
    return f"{text}, without moves {duration(moved.static_makespan_s)} (predicted)"


def cost_text(moved: MovedUnits) -> str:
    """Word the costs of claims, and the tests that ran twice."""
    text = (
        f"{count_of(moved.requests, 'request')} to the service; shards ran no test for "
        f"{duration(moved.waited_s)} while they waited for an answer, and for "
        f"{duration(moved.starts_s)} while further processes started (sums over all shards)"
    )
    if not moved.ran_twice:
        return f"{text}."
    return (
        f"{text}. {count_of(moved.ran_twice, 'test')} ran in two shards; the worst result counts."
    )


def moved_section(moved: MovedUnits | None, links: Links, *, drop: int) -> Section:
    """Return the sentence and the table; empty if no test moved."""
    if moved is None or not moved.units:
        return Section("moved", ())
    columns = (
        *(Column("shard"), Column("from others", "right"), Column("to others", "right")),
        *(Column("wall", "right"), Column("without moves", "right")),
        *(Column("requests", "right", 3), Column("waited", "right", 2)),
        Column("process starts", "right", 4),
    )
    table = Table(columns, tuple(_row(leg, links) for leg in moved.legs), "shard")
    explanation = (
        "Without moves: the wall time of the shard with the tests that the plan gives it, each as "
        "long as where it ran, and without waits and further process starts."
    )
    blocks = (
        Paragraph(f"{moved_text(moved)}."),
        Details(
            "Moved tests by shard", (table, Paragraph(cost_text(moved)), Paragraph(explanation))
        ),
    )
    return Section("moved", blocks, "Moved tests", (moved.units, "moved test"), drop)


def _row(leg: ShardMoves, links: Links) -> Row:
    return (
        Link(leg.shard, links.job(leg.shard)),
        Cell(_units(leg.units_in, leg.in_s), leg.units_in),
        Cell(_units(leg.units_out, leg.out_s), leg.units_out),
        *(Cell(duration(value_s), value_s) for value_s in (leg.wall_s, leg.static_s)),
        Cell(f"{leg.requests:,}", leg.requests),
        *(Cell(duration(value_s), value_s) for value_s in (leg.waited_s, leg.starts_s)),
    )


def _units(count: int, wall_s: float | None) -> str:
    return f"{count:,} ({duration(wall_s)})" if count else "0"
