"""The coverage of a run: code is covered if the part of any shard covers it. Pure.

Sources of the formats: man page of geninfo (lcov); `cmd/cover` of Go; reports of coverlet
(Cobertura, OpenCover).
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import IO, Final, NamedTuple
from xml.parsers.expat import XMLParserType

from ciguard.codec.coverage_file import Coverage, Share
from ciguard.codec.results.xmlstream import XmlReader, read

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


def share_of(covered: int, total: int, format_: str = "") -> Share:
    """Return a share. Go rounds its percentage to a tenth, other tools cut it to a hundredth."""
    if format_ == "go":
        return Share(covered, total, float(f"{100 * covered / (total or 1):.1f}"))
    return Share(covered, total, covered * 10_000 // total / 100 if total else None)


class Place(NamedTuple):
    """The place in which parts were written.

    Attributes:
        folder: working folder of their suite, in the repository.
        roots: beginning of the paths of files, without a slash, and its folder in the repository:
            the path of the checkout in the job, and "."; or Go's modules, longest names first.
        is_named: paths begin with the name of a module, as in Go.
    """

    folder: str
    roots: tuple[tuple[str, str], ...]
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class Files:
    """The blocks of all parts, by path in the repository."""

    is_file: Callable[[str], bool]
    blocks: dict[str, dict[Block, bool]] = field(default_factory=dict)

    def add(self, place: Place, part: Part) -> None:
        """Add the blocks of all parts of a place.

        Raises:
            ValueError: several of a file's paths are files of the repository.
        """
        part = {tuple(map(_with_slashes, paths)): blocks for paths, blocks in part.items()}
        place = self._with_root(place, [path for paths in part for path in paths])
        for paths, blocks in part.items():
            names = list(dict.fromkeys(self._repository_path(place, path) for path in paths))
            existing = list(filter(self.is_file, names))
            if len(existing) > 1:
                raise ValueError(f"{paths[0]!r:.80} may be {' or '.join(existing):.300}")
            merged = self.blocks.setdefault((existing or names)[0], {})
            for block, covered in blocks.items():
                merged[block] = covered or merged.get(block, False)

    def _with_root(self, place: Place, paths: Sequence[str]) -> Place:
        """Return the place; if no path fits it, with the root that most files would have.

        A tool in a container has another root. A bare name proves none: it may be any file's.
        """
        absolute = [path for path in paths if _is_absolute(path)]
        if place.is_named or any(_inner(path, *root) for path in absolute for root in place.roots):
            return place
        roots = Counter[tuple[str, str]]()
        for path in absolute:
            roots.update(islice(self._likely_roots(place, path), 1))
        return place._replace(roots=(roots.most_common(1)[0][0],)) if roots else place

    def _likely_roots(self, place: Place, path: str) -> Iterator[tuple[str, str]]:
        """Yield the roots with which a path is that of a file, the shortest first."""
        for at in [match.start() for match in re.finditer("(?!^)/", path)][:-1]:
            for base in (place.folder, "."):
                if self.is_file(_normal(f"{base}{path[at:]}")):
                    yield path[:at], base

    def _repository_path(self, place: Place, path: str) -> str:
        inner = next(filter(None, (_inner(path, *root) for root in place.roots)), "")
        if inner or place.is_named or _is_absolute(path):
            return _normal(inner or path)
        below = _normal(posixpath.join(place.folder, path))
        return next(filter(self.is_file, (below, _normal(path))), below)

    def measure(
        self, coverage: Coverage, total: Share | None, diff: Mapping[str, Sequence[int]] | None
    ) -> Coverage:
        """Return the coverage with its numbers, that of the diff included.

        Args:
            total: that of the tool; None: the sum of the files.
            diff: by path of a measured file, its added and changed lines; None if not known.
        """
        counts = {
            path: (sum(key[2] for key in blocks if blocks[key]), sum(key[2] for key in blocks))
            for path, blocks in sorted(self.blocks.items())
        }
        covered, every = (sum(count[at] for count in counts.values()) for at in (0, 1))
        total = total or share_of(covered, every, coverage.format)
        lines = dict[tuple[str, int], bool]()
        for path, changed in sorted((diff or {}).items()):
            for (begin, end, *_), is_covered in sorted(self.blocks[path].items()):
                for line in changed[bisect_left(changed, begin) : bisect_right(changed, end)]:
                    lines[path, line] = is_covered or lines.get((path, line), False)
        uncovered: dict[str, list[int]] = {}
        for path, line in (key for key, is_covered in lines.items() if not is_covered):
            uncovered.setdefault(path, []).append(line)
        share = share_of(sum(lines.values()), len(lines)) if diff is not None else None
        return replace(coverage, total=total, files=counts, diff=share, uncovered=uncovered)

    def find_unmapped(self, paths: Iterable[str]) -> str:
        """Return "X may be Y" of a measured file that may be one of these by its last two names."""
        ends = {f"/{'/'.join(path.split('/')[-2:])}": path for path in paths}
        for name in self.blocks if ends else ():
            path = ends.get(f"/{'/'.join(name.split('/')[-2:])}")
            if path is not None and not self.is_file(name):
                return f"{name!r:.200} may be {path!r:.200}"
        return ""


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or path[1:2] == ":"


def _with_slashes(path: str) -> str:
    path = path[:4096].replace("\\", "/").removeprefix("file://")
    return path[:1].upper() + path[1:] if path[1:2] == ":" else path


def _inner(path: str, prefix: str, base: str) -> str:
    """Return the path in the repository of a file below a root; "" for another one."""
    prefix = f"{_with_slashes(prefix)}/"
    return f"{base}/{path[len(prefix) :]}" if prefix != "/" and path.startswith(prefix) else ""


def _normal(path: str) -> str:
    """Return the normalised form of a path below the repository's root, without "/" and ".."."""
    names = posixpath.normpath(path).split("/")
    return "/".join(name for name in names if name not in ("", ".", "..")) or path
