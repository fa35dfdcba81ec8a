"""The table of result formats, and recognition of result files.

To add a format, write its module and its line in `FORMATS`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import IO, Final

from ciguard.codec import archive
from ciguard.codec.results import go_json, jest_json, junit, playwright_json, rspec_json, trx
from ciguard.codec.results.base import ResultFormat, peek, xml_root
from ciguard.codec.unpack_limits import gunzip
from ciguard.errors import InputError

FORMATS: Final[Mapping[str, ResultFormat]] = {
    "junit": junit,
    "trx": trx,
    "go-json": go_json,
    "jest-json": jest_json,
    "playwright-json": playwright_json,
    "rspec-json": rspec_json,
}
_NUNIT: Final = ("test-run", "test-suite")  # roots of XML that is refused, never passed over


def format_of(stream: IO[bytes], source: str) -> ResultFormat:
    """Return the first format that recognises an unpacked stream, which stays at its start.

    Raises:
        InputError: no format recognises the stream.
    """
    head = peek(stream, source)
    for format_ in FORMATS.values():
        if format_.sniff(head):
            return format_
    formats = ", ".join(f"{name} ({format_.NAME})" for name, format_ in FORMATS.items())
    root = xml_root(head)
    known_root = f"XML with the root <{root}>" if root else "no known XML or JSON"
    what = known_root if head.strip() else "it is empty"
    what = f"no format of results is recognised: {what}"
    fix = f"there are: {formats}"
    if root in _NUNIT:
        fix = "this is XML of NUnit: let `dotnet test --logger trx` write TRX instead"
    raise InputError(what, where=source, fix=fix)


def result_members(path: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield (`path/member`, content) of the result files in a zip archive; another file itself.

    Logs and pictures in the archive are skipped. A member that is named like a result file is
    yielded even if it cannot be read, as its results are not known.

    Raises:
        InputError: the archive is refused (see `archive`), or has no result file.
    """
    if not content.startswith(archive.SIGNATURE):
        yield path, content
        return
    count = 0
    for name, inner in archive.members(io.BytesIO(content), path):
        if has_results(name, inner):
            count += 1
            yield f"{path}/{name}", inner
    if not count:
        raise InputError("no result file in it", where=path, fix="name an archive that has some")


def has_results(name: str, content: bytes) -> bool:
    """Return whether a file has results, by its content; if empty or damaged, by its name."""
    try:
        head = peek(gunzip(io.BytesIO(content)), "")
    except InputError:
        return True  # the content of a damaged gzip file is not known
    if any(format_.sniff(head) for format_ in FORMATS.values()):
        return True
    plain_name = name.lower().removesuffix(".gz")
    # XML with another root is coverage or a page.
    is_xml = plain_name.endswith(".xml") and xml_root(head) in ("", *_NUNIT)
    return is_xml or plain_name.endswith(".trx")
