"""Limits of a test id: an id is refused if no line of the record could hold its result. Pure.

A line of a result holds the id twice, as the unit and as the case.
"""

from __future__ import annotations

import json
from typing import Final

from ciguard.codec.record.lines import MAX_LINE_BYTES
from ciguard.text import one_line

ESCAPED_BYTES: Final = 12  # of one character in JSON at most: two halves of a pair
ROOM_BYTES: Final = 64 << 10  # of a line, for all but ids: 4 KiB of message, escaped, and more


def is_too_long(unit: str) -> bool:
    """Return whether a reader of the record refuses a result of this unit."""
    if len(unit) * 2 * ESCAPED_BYTES + ROOM_BYTES < MAX_LINE_BYTES:
        return False
    return 2 * len(json.dumps(unit)) + ROOM_BYTES >= MAX_LINE_BYTES


def too_long(unit: str) -> str:
    return (
        f"the id {one_line(unit)} has {len(unit)} characters, too many for a line of the record: "
        "give it a short one (ids= of its parameters)"
    )


def multiline(unit: str) -> str:
    """Return the error for an id that `Framework.takes_id` refuses."""
    return (
        f"the id {one_line(unit)} has a line feed, and its framework reads ids one a line: "
        "rename the test, or exclude it"
    )
