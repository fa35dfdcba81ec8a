"""What is said of a file that `history add` cannot take. Pure."""

from __future__ import annotations

from typing import Final

from ciguard.codec.base import root_of
from ciguard.codec.formats import FORMATS

TAKEN: Final = (
    f"give records (a folder, or *.jsonl), {', '.join(one.NAME for one in FORMATS.values())}, or "
    "durations as JSON ({id: seconds}); each may be gzipped"
)


def unknown(head: bytes) -> str:
    """What was found, by the first 4 KiB of a file."""
    if not head.strip():
        return "the file is empty"
    root = root_of(head)
    if not root:
        return "neither records, nor results, nor durations"
    known = " nor ".join(one.NAME for one in FORMATS.values())
    return f"XML with the root <{root}>: neither {known}"
