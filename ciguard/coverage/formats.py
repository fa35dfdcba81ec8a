"""Coverage reports of tools: bytes -> lines or statements, each executed or not. Pure.

Sources: man page of geninfo (lcov); `cmd/cover` of Go; reports of coverlet (Cobertura, OpenCover).
"""

from __future__ import annotations

import posixpath
import re
from functools import partial
from typing import IO, TYPE_CHECKING, Final

from ciguard.codec.results.xmlstream import XmlReader, read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from xml.parsers.expat import XMLParserType


# First and last line, number of statements; columns, where these do not fill the lines.
Block = tuple[int, int, int, str]
# By the paths of which one is that of the file: its blocks, and whether they were executed; of all
# parts that were written in one place.
Part = dict[tuple[str, ...], dict[Block, bool]]

_GO: Final = re.compile(r"(.+):((\d{1,7})\.\d{1,7},(\d{1,7})\.\d{1,7}) (\d{1,7}) (\d+)\n")


def add(part: Part, paths: tuple[str, ...], block: Block, covered: bool) -> None:
    """Add a block, which may be there already."""
    blocks = part.setdefault(paths, {})
    blocks[block] = covered or blocks.get(block, False)


def _add_line(part: Part, paths: tuple[str, ...], number: str, count: str) -> None:
    """Add a line. Some tools write a fraction or a negative number as its count."""
    if not all(paths) or not re.fullmatch(r"\d{1,7}", number):
        raise ValueError(f"line {number!r:.30} of file {paths[0]!r:.80}")
    add(part, paths, (int(number), int(number), 1, ""), float(count) > 0)


def _check_data_file(stream: IO[bytes], _: str, __: Part) -> None:
    """Check a data file of coverage.py, which takes an empty one as one without lines."""
    if stream.read(16) != b"SQLite format 3\0":
        raise ValueError("it is no data file")


def _read_lcov(stream: IO[bytes], _: str, part: Part) -> None:
    path = word = ""
    for line in stream:
        word, _, value = line.decode("utf-8", "replace").strip().partition(":")
        if word == "SF":
            path = value
        elif word == "DA":
            number, _, count = value.partition(",")
            _add_line(part, (path,), number, count.partition(",")[0])
    if word not in ("end_of_record", ""):
        raise ValueError("its last line is not end_of_record")


def _read_go(stream: IO[bytes], _: str, part: Part) -> None:
    if not stream.readline().startswith(b"mode: "):
        raise ValueError("its first line names no mode")
    for line in stream:
        if not (match := _GO.fullmatch(line.decode("utf-8", "replace"))):
            raise ValueError(f"line {line!r:.80}")
        path, columns, begin, end, statements, count = match.groups()
        block = (int(begin), int(end), int(statements), columns)
        add(part, (path,), block, count.strip("0") != "")


class _XmlReader(XmlReader):
    """Reader of Cobertura and of OpenCover, which have no element in common."""

    def __init__(self, source: str, part: Part, root: str) -> None:
        super().__init__(source)
        self.part = part
        self.root = root  # "" once it was found
        self.folders: list[str] = []  # of Cobertura, for all of its files
        self.paths: tuple[str, ...] = ()
        self.names: dict[str, str] = {}  # of OpenCover, by id

    def attach(self, parser: XMLParserType) -> None:
        super().attach(parser)
        # Istanbul and gcovr name Cobertura's document type, which expat does not load.
        parser.StartDoctypeDeclHandler = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if self.root and tag != self.root:
            self.reject_root(tag, "this format", self.root)
        self.root = ""
        if tag == "methods":  # Istanbul's are lines of another kind, coverlet's are there again
            self.skip((tag,))
        elif tag == "source":
            self.begin_text(tag)
        elif tag == "class":
            name = attributes["filename"].replace("\\", "/")
            folders = self.folders if name[1:2] != ":" else ()  # of another drive
            self.paths = tuple(posixpath.join(each, name) for each in folders) or (name,)
        elif tag == "line":
            _add_line(self.part, self.paths, attributes["number"], attributes["hits"])
        elif tag == "File":
            self.names[attributes["uid"]] = attributes["fullPath"]
        elif tag == "SequencePoint":
            path = self.names[attributes["fileid"]]
            _add_line(self.part, (path,), attributes["sl"], attributes["vc"])

    def end(self, tag: str) -> None:
        if tag == self.text_element:
            self.folders.append(self.text.strip().replace("\\", "/"))
            self.end_text()


def _read_xml(root: str, stream: IO[bytes], source: str, part: Part) -> None:
    list(read(stream, source, lambda name: _XmlReader(name, part, root)))


OWN_COMBINER: Final = "coverage.py"  # reads its data files itself
READERS: Final[Mapping[str, Callable[[IO[bytes], str, Part], None]]] = {
    OWN_COMBINER: _check_data_file,
    "lcov": _read_lcov,
    "go": _read_go,
    "cobertura": partial(_read_xml, "coverage"),
    "opencover": partial(_read_xml, "CoverageSession"),
}
