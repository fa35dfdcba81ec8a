"""Coverage reports of tools: bytes -> lines or statements, each executed or not. Pure.

Sources: man page of geninfo (lcov); `cmd/cover` of Go; reports of coverlet (Cobertura, OpenCover).
"""

from __future__ import annotations

import posixpath
import re
from typing import IO, TYPE_CHECKING, Final

from ciguard.codec.results.xmlstream import XmlReader, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from xml.parsers.expat import XMLParserType

    # First and last line, number of statements; columns, where these do not fill the lines.
    Block = tuple[int, int, int, str]
    Add = Callable[[str, Block, bool], None]  # path, block, whether it was executed

_GO: Final = re.compile(r"(.+):((\d{1,7})\.\d{1,7},(\d{1,7})\.\d{1,7}) (\d{1,7}) (\d+)\n")


def _add_line(add: Add, path: str, number: str, count: str) -> None:
    """Add a line. Some tools write a fraction or a negative number as its count."""
    if not path or not re.fullmatch(r"\d{1,7}", number):
        raise ValueError(f"line {number!r:.30} of file {path!r:.80}")
    add(path, (int(number), int(number), 1, ""), float(count) > 0)


def _check_data_file(stream: IO[bytes], _: str, add: Add) -> None:  # noqa: ARG001
    """Check a data file of coverage.py, which takes an empty one as one without lines."""
    if stream.read(16) != b"SQLite format 3\0":
        raise ValueError("it is no data file")


def _read_lcov(stream: IO[bytes], _: str, add: Add) -> None:
    path = word = ""
    for line in stream:
        word, _, value = line.decode("utf-8", "replace").strip().partition(":")
        if word == "SF":
            path = value
        elif word == "DA":
            number, _, count = value.partition(",")
            _add_line(add, path, number, count.partition(",")[0])
    if word not in ("end_of_record", ""):
        raise ValueError("its last line is not end_of_record")


def _read_go(stream: IO[bytes], _: str, add: Add) -> None:
    if not stream.readline().startswith(b"mode: "):
        raise ValueError("its first line names no mode")
    for line in stream:
        if not (block := _GO.fullmatch(line.decode("utf-8", "replace"))):
            raise ValueError(f"line {line!r:.80}")
        path, columns, begin, end, statements, count = block.groups()
        add(path, (int(begin), int(end), int(statements), columns), count.strip("0") != "")


class _XmlReader(XmlReader):
    """Reader of Cobertura and of OpenCover, which have no element in common."""

    def __init__(self, source: str, add: Add) -> None:
        super().__init__(source)
        self.add, self.folder, self.path = add, "", ""
        self.paths: dict[str, str] = {}

    def attach(self, parser: XMLParserType) -> None:
        super().attach(parser)
        # Istanbul and gcovr name Cobertura's document type, which expat does not load.
        parser.StartDoctypeDeclHandler = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "source" and not self.folder:
            self.begin_text(tag)
        elif tag == "class":
            self.path = posixpath.join(self.folder, attributes["filename"].replace("\\", "/"))
        elif tag == "line":
            _add_line(self.add, self.path, attributes["number"], attributes["hits"])
        elif tag == "File":
            self.paths[attributes["uid"]] = attributes["fullPath"]
        elif tag == "SequencePoint":
            path = self.paths[attributes["fileid"]]
            _add_line(self.add, path, attributes["sl"], attributes["vc"])

    def end(self, tag: str) -> None:
        if tag == self.text_element:
            self.folder = self.text.strip().replace("\\", "/")
            self.end_text()


def _read_xml(stream: IO[bytes], source: str, add: Add) -> None:
    list(read(stream, source, lambda name: _XmlReader(name, add)))


OWN_COMBINER: Final = "coverage.py"  # reads its data files itself
READERS: Final[dict[str, Callable[[IO[bytes], str, Add], None]]] = {
    OWN_COMBINER: _check_data_file,
    "lcov": _read_lcov,
    "go": _read_go,
    "cobertura": _read_xml,
    "opencover": _read_xml,
}
