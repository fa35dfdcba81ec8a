"""What is said of a file that `history add` cannot take. Pure."""

from __future__ import annotations

import re
from typing import Final

TAKEN: Final = (
    "give records (a folder, or *.jsonl), JUnit XML (.xml, .xml.gz), or durations as JSON "
    "(.json, .json.gz: {id: seconds})"
)
# Behind the declaration and comments; an element's name is what it is up to a space or its end.
_ROOT: Final = re.compile(
    rb"\s*(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*>|\s)*<([^\s/<>!?]{1,80})", re.S
)


def unknown(head: bytes) -> str:
    """What was found, by the first 4 KiB of a file."""
    if not head.strip():
        return "the file is empty"
    root = _ROOT.match(head.removeprefix(b"\xef\xbb\xbf"))
    if root is None:
        return "neither records, nor results, nor durations"
    return f"XML with the root <{root[1].decode('utf-8', 'replace')}>, which is not JUnit's"
