"""The table of result formats: to add one, write its module and its line here; and which files are
results.
"""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING, Final

from ciguard.codec import archive
from ciguard.codec.results import (
    ctrf,
    go_json,
    jest_json,
    junit,
    nunit,
    playwright_json,
    rspec_json,
    trx,
    xunit,
)
from ciguard.codec.results.base import ResultFormat, peek, xml_root
from ciguard.codec.unpack_limits import gunzip
from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


FORMATS: Final[Mapping[str, ResultFormat]] = {
    "junit": junit,
    "trx": trx,
    "nunit": nunit,
    "xunit": xunit,
    "go-json": go_json,
    "jest-json": jest_json,
    "playwright-json": playwright_json,
    "rspec-json": rspec_json,
    "ctrf": ctrf,
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
    known_root = f"XML with the root <{root}>" if root else "no known XML or JSON"
    what = known_root if head.strip() else "it is empty"
    what = f"no format of results is recognised: {what}"
    raise InputError(what, where=source, fix=f"there are: {known}")


def result_members(path: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """The files in a zip archive that are results, by `path/member`; any other file as it is.

    Jobs upload logs and pictures as well: these are passed over. What is named like a result file
    and cannot be read as one is given: nobody knows what it would have said.

    Raises:
        InputError: it is refused (see `archive`), or has no results in it.
    """
    if not content.startswith(archive.SIGNATURE):
        yield path, content
        return
    found = 0
    for name, inner in archive.members(io.BytesIO(content), path):
        if _may_be_of_results(name, inner):
            found += 1
            yield f"{path}/{name}", inner
    if not found:
        raise InputError("no result file in it", where=path, fix="name an archive that has some")


def _may_be_of_results(name: str, content: bytes) -> bool:
    """By what it holds; where that does not say it (empty, cut, damaged), by its name."""
    try:
        head = peek(gunzip(io.BytesIO(content)), "")
    except InputError:
        return True  # of a gzip that is damaged nobody knows what is in it
    if any(one.sniff(head) for one in FORMATS.values()):
        return True
    named = name.lower().removesuffix(".gz")
    # XML with another root is of coverage, or a page.
    return named.endswith(".trx") or (named.endswith(".xml") and not xml_root(head))
