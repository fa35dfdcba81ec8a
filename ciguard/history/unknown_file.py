"""What is said of a file that `history add` cannot take. Pure."""

from __future__ import annotations

from typing import Final

from ciguard.codec.results.base import xml_root
from ciguard.codec.results.formats import FORMATS

ACCEPTED_INPUTS: Final = (
    f"give records (a folder, or *.jsonl), {', '.join(one.NAME for one in FORMATS.values())}, or "
    "durations as JSON ({id: seconds}); each may be gzipped"
)


def describe_unknown_file(head: bytes) -> str:
    """What was found, by the first 4 KiB of a file."""
    if not head.strip():
        return "the file is empty"
    root = xml_root(head)
    if not root:
        return "neither records, nor results, nor durations"
    known = " nor ".join(one.NAME for one in FORMATS.values())
    return f"XML with the root <{root}>: neither {known}"
