"""Transient memory of an allocator: peak minus memory in use, of its printed statistics. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.logs.accelerator_patterns import ALLOCATOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ciguard.logs.values import LogValue

TRANSIENT: Final = f"{ALLOCATOR}.peak_minus_in_use"
SHARE: Final = f"{TRANSIENT}.share_of_limit"


def transient_memory(values: Iterable[LogValue]) -> Iterator[LogValue]:
    """Yield peak minus memory in use of each block, in bytes and in percent of its limit.

    Args:
        values: of one log, in its order; values on consecutive lines are of one block.
    """
    block: dict[str, LogValue] = {}
    line = 0
    for value in values:
        if not value.name.startswith(f"{ALLOCATOR}.") or value.kind != "metric":
            continue
        if value.place.line > line + 1 or value.name in block:
            yield from _transient_of(block)
            block = {}
        block[value.name] = value
        line = value.place.line
    yield from _transient_of(block)


def _transient_of(block: dict[str, LogValue]) -> Iterator[LogValue]:
    peak, used = (
        block.get(f"{ALLOCATOR}.{name}") for name in ("peak_bytes_in_use", "bytes_in_use")
    )
    if peak is None or used is None:
        return
    resolution = max(peak.resolution, used.resolution)
    amount = replace(
        peak, name=TRANSIENT, value=peak.value - used.value, resolution=resolution, facts=()
    )
    yield amount
    limit = block.get(f"{ALLOCATOR}.bytes_limit")
    if limit is not None and limit.value > 0:
        percent = 100 / limit.value
        yield replace(
            amount, name=SHARE, unit="%",
            value=amount.value * percent, resolution=resolution * percent,
        )  # fmt: skip
