"""What a Go test prints: the message of its failure, and how its process ended. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ciguard.codec.results.base import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from ciguard.model import Ending

# What the testing package writes around a test's own output.
_FRAME: Final = re.compile(r"=== (RUN|PAUSE|CONT|NAME|ATTR) |\s*--- (PASS|FAIL|SKIP|BENCH): ")
# A line with which the process ended, by its own doing.
_LAST_WORDS: Final[tuple[tuple[Ending, re.Pattern[str]], ...]] = (
    ("timeout", re.compile(r"panic: test timed out after |\*\*\* Test killed.*ran too long")),
    (
        "out_of_memory",
        re.compile(r"(fatal error: )?(runtime: )?(out of memory|cannot allocate memory)"),
    ),
    (
        "crash",
        re.compile(
            r"panic: |fatal error: |SIG(SEGV|ABRT|BUS|FPE|ILL)\b"
            r"|signal: (segmentation|abort|bus|floating|illegal)"
        ),
    ),
)


class GoLog:
    """What a test, a package or a build printed: the start, and the ending that it names."""

    __slots__ = ("ending", "text")

    def __init__(self) -> None:
        self.text = ""
        self.ending: Ending | None = None

    def add(self, line: str) -> None:
        """As much as a message may have."""
        if _FRAME.match(line):
            return
        if len(self.text) < MAX_MESSAGE_BYTES:
            self.text += line[:MAX_MESSAGE_BYTES]
        if self.ending is None:
            self.ending = next((one for one, text in _LAST_WORDS if text.match(line)), None)
