"""What a program that ran out of memory had asked for, and where: out of its own words. Pure."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from ciguard.logs.pattern_table import PATTERNS
from ciguard.logs.values import LogValue, Place
from ciguard.render.notes import Note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.model import Result

_DEVICE_KEYS: Final = ("allocator", "gpu")
_ROWS: Final = tuple(
    row
    for row in PATTERNS
    if row.ending == "out_of_memory" and {"requested", "requested_bytes"} & row.fields.keys()
)


def failed_allocation(text: str) -> Note | None:
    """The first request that a text says has failed; None where it says no number.

    Allocators print it twice: once with the device, once as the exception's exact number.

    Returns:
        Its facts are `requested_bytes`, and `device`: `GPU_2_bfc` or `GPU 0`; "" of the machine's
        own memory, or where it is not said.
    """
    first: tuple[int, str] | None = None
    for found in _allocations(text):
        first = first or found
        if found[1] and found[0] == first[0]:
            first = found
            break
    if first is None:
        return None
    return Note("failed_allocation", {"requested_bytes": first[0], "device": first[1]})


def allocation_of(result: Result) -> Note | None:
    """What a test had asked for that ran out of memory; None where its message does not say."""
    return failed_allocation(result.message or "") if result.ran_out_of_memory else None


def _allocations(text: str) -> Iterator[tuple[int, str]]:
    """Bytes and device of each request, in the order of the lines."""
    for line in text.splitlines():
        for row in _ROWS:
            if not any(trigger in line for trigger in row.triggers):
                continue
            match = _compiled(row.pattern).search(line)
            for one in row.values(match.groupdict(), Place()) if match else ():
                if isinstance(one, LogValue) and one.unit == "B":
                    yield round(one.value), _device(one)


def _device(value: LogValue) -> str:
    found = next(((one.name, one.value) for one in value.key if one.name in _DEVICE_KEYS), None)
    if found is None:
        return ""
    return f"GPU {found[1]}" if found[0] == "gpu" else found[1]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
