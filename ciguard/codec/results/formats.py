"""The table of result formats: to add one, write its module and its line here."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from ciguard.codec.results import junit, trx
from ciguard.codec.results.base import peek, xml_root
from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.codec.results.base import ResultFormat

FORMATS: Final[Mapping[str, ResultFormat]] = {
    "junit": junit,
    "trx": trx,
}


def format_of(stream: IO[bytes], source: str) -> ResultFormat:
    """The first format to recognise an unpacked stream, which stays at its start.

    Raises:
        InputError: none does.
    """
    head = peek(stream, source)
    for found in FORMATS.values():
        if found.sniff(head):
            return found
    known = ", ".join(f"{name} ({found.NAME})" for name, found in FORMATS.items())
    root = xml_root(head)
    what = f"XML with the root <{root}>" if root else "no XML" if head.strip() else "it is empty"
    what = f"no format of results is recognised: {what}"
    raise InputError(what, where=source, fix=f"there are: {known}")
