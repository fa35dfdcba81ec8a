"""The section on the machines of shards: swap, stalls, free memory and GPUs, as blocks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ciguard.document import Cell, Column, Link, Row, Section, Table, identifier, join
from ciguard.model import UnitKey
from ciguard.model.machine_use import MachineUse, MemoryMoment
from ciguard.render.links import Links
from ciguard.run.policy.guard_rail import memory_thresholds
from ciguard.text import duration, peak_text, size, unit_name

FIRST: Final = 3  # shards of each measure that come before the others, the worst ones
MAX_ROWS: Final = 12  # of all shards; the JSON has all rows
MAX_RUNNING: Final = 3  # tests named in a row


@dataclass(frozen=True, slots=True)
class ShardMachine:
    """A shard with the use of its machine; None is unknown."""

    shard: str
    use: MachineUse
    wall_s: float | None = None
    memory_bytes: int | None = None


def slowdown_text(use: MachineUse | None, wall_s: float | None) -> str:
    """Return "swapped 1.20 GiB, stalled 42 s", the reasons for a longer time; "" for none."""
    parts = []
    if use is not None and use.has_swapped and use.swap_growth is not None:
        parts.append(f"swapped {size(use.swap_growth.size_bytes)}")
    if use is not None and use.has_stalled(wall_s) and use.stalls is not None:
        parts.append(f"stalled {duration(use.stalls.stalled_s)}")
    return ", ".join(parts)


def gpu_text(use: MachineUse) -> str:
    """Return "GPU 0 20.4 GiB, GPU 1 18.1 GiB, together 38.4 GiB"; "" without a GPU."""
    parts = [f"GPU {device} {size(most)}" for device, most in use.gpu_bytes.items()]
    if use.gpu_total is not None and len(parts) > 1:
        parts.append(f"together {size(use.gpu_total.size_bytes)}")
    return ", ".join(parts)


def machine_section(legs: Sequence[ShardMachine], links: Links) -> Section:
    """Return the notable measures with the running tests, the worst shards of each first."""
    by_rank: dict[int, list[tuple[float, str, Row]]] = {}
    for leg in legs:
        for rank, amount, row in _rows(leg, links):
            by_rank.setdefault(rank, []).append((-amount, leg.shard, row))
    ordered = sorted(
        (position // FIRST, rank, position, row)
        for rank, members in by_rank.items()
        for position, (*_, row) in enumerate(sorted(members, key=lambda member: member[:2]))
    )
    columns = (
        Column("shard"), Column("measure"), Column("value"), Column("at", "right", 1),
        Column("running"),
    )  # fmt: skip
    table = Table(columns, tuple(row for *_, row in ordered), "measure", max_rows=MAX_ROWS)
    size_ = (len(ordered), "measure of a machine")
    return Section("machine", (table,), "Swap, stalls, memory and GPUs", size_, 15, folded=True)


def _rows(leg: ShardMachine, links: Links) -> Iterator[tuple[int, float, Row]]:
    """Yield the rows of a shard, each with its rank and amount."""

    def row(measure: str, value: str, amount: float, at_s: float, units: Sequence[UnitKey]) -> Row:
        shard = Link(leg.shard, links.job(leg.shard))
        running = join([identifier(unit_name(key)) for key in units], most=MAX_RUNNING)
        return (shard, measure, Cell(value, amount), Cell(duration(at_s), at_s), running)

    swap, stalls, low, gpus = leg.use.swap_growth, leg.use.stalls, _low(leg), leg.use.gpu_total
    if swap is not None and leg.use.has_swapped:
        most = swap.size_bytes
        yield 0, most, row("swap growth", size(most), most, swap.at_s, swap.units)
    if stalls is not None and leg.use.has_stalled(leg.wall_s):
        stalled_s = stalls.stalled_s
        text = duration(stalled_s) + (f" of {duration(leg.wall_s)}" if leg.wall_s else "")
        yield 1, stalled_s, row("waiting for memory", text, stalled_s, stalls.at_s, stalls.units)
    if low is not None:
        least = low.size_bytes
        text = size(least) + (f" of {size(leg.memory_bytes)}" if leg.memory_bytes else "")
        yield 2, -least, row("least memory left", text, least, low.at_s, low.units)
    peak = leg.use.peak
    if peak is not None and peak.apart_bytes is not None:
        total = sum(peak.program_bytes.values())
        yield 4, total, row("peak of several programs", peak_text(peak), total, peak.at_s, ())
    if gpus is not None:
        most = gpus.size_bytes
        yield 3, most, row("GPU memory", gpu_text(leg.use), most, gpus.at_s, gpus.units)


def _low(leg: ShardMachine) -> MemoryMoment | None:
    """Return the moment with the least free memory, if that is little."""
    least = leg.use.least_headroom or leg.use.least_available
    if least is None or least.size_bytes >= memory_thresholds(leg.memory_bytes or 0)[0]:
        return None
    return least
