"""The section on tests that moved between shards: sentence, table, chart of schedules. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.document import Cell, Chart, Column, Details, Link, Paragraph, Row, Section, Table
from ciguard.text import count_of, distinct_lines, duration, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.model.moved_units import MovedUnits, ShardMoves
    from ciguard.render.links import Links

MAX_PAIRS: Final = 40  # shards in a chart; of more, the longest ones
BAR_X: Final = 96.0
BAR_ROOM: Final = 600.0
PAIR_HEIGHT: Final = 30.0
LABEL: Final = 12  # characters of a shard's key


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a bar; `kind` is its CSS class in the page."""

    kind: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Pair:
    """The bar of a shard above its bar without moves, whose width is None if it is unknown."""

    label: str
    title: str
    y: float
    parts: tuple[Part, ...]
    static_width: float | None
    value_label: str


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of bars of a chart; `omitted` counts the shards without room."""

    pairs: tuple[Pair, ...]
    height: float
    omitted: int


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
    """Return the sentence, the table and, on a page, both schedules; empty if no test moved."""
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
        Chart("schedules", schedule_chart(moved.legs)),
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


def schedule_chart(legs: Sequence[ShardMoves]) -> Pairs:
    """Draw the schedules with and without moves, the shard with the longest bar first."""
    known = sorted(legs, key=lambda leg: (-_longest_s(leg), leg.shard))
    scale = BAR_ROOM / (max(map(_longest_s, known), default=0.0) or 1.0)
    shown = known[:MAX_PAIRS]
    labels = distinct_lines([leg.shard for leg in shown], LABEL)
    pairs = tuple(
        Pair(
            label=label,
            title=_title(leg),
            y=index * PAIR_HEIGHT,
            parts=tuple(_parts(leg, scale)),
            static_width=None if leg.static_s is None else round(leg.static_s * scale, 1),
            value_label=f"{duration(leg.wall_s)} / {duration(leg.static_s)}",
        )
        for index, (label, leg) in enumerate(zip(labels, shown, strict=True))
    )
    return Pairs(pairs, len(pairs) * PAIR_HEIGHT, len(known) - len(shown))


def _longest_s(leg: ShardMoves) -> float:
    ran_s = leg.own_s + leg.own_blocks_s + (leg.in_s or 0.0)
    return max(ran_s, leg.wall_s or 0.0, leg.static_s or 0.0)


def _parts(leg: ShardMoves, scale: float) -> Iterator[Part]:
    """Return the parts of a bar: own tests, own blocks, blocks of other shards, and no test."""
    x = BAR_X
    spans: list[tuple[str, float]] = [
        ("own", leg.own_s),
        ("own-block", leg.own_blocks_s),
        ("others-block", leg.in_s or 0.0),
    ]
    ran_s = sum(value_s for _, value_s in spans)
    # Concurrent tests may take more time in sum than the job; then the rest is 0.
    for kind, value_s in (*spans, ("rest", max(0.0, (leg.wall_s or 0.0) - ran_s))):
        width = round(value_s * scale, 1)
        if width > 0:
            yield Part(kind, round(x, 1), width)
        x += value_s * scale


def _title(leg: ShardMoves) -> str:
    return (
        f"shard {one_line(leg.shard, 40)}: {duration(leg.wall_s)}, "
        f"without moves {duration(leg.static_s)}\n"
        f"own part {duration(leg.own_s)}, own blocks {duration(leg.own_blocks_s)}, "
        f"blocks of others {duration(leg.in_s)}"
    )
