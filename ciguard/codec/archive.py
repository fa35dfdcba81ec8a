"""Zip archives that anybody may have made: read in memory, member by member, or refused. Pure.

A pull request decides what its artifacts hold, so everything that an archive says of itself is
looked at before a byte of it is unpacked, and nothing of it becomes a path. An archive with one
member that no honest upload has is refused whole: what else it says is not worth believing.
Source: PKWARE APPNOTE 6.3.10; what `zipfile` checks itself is left to it.
"""

from __future__ import annotations

import io
import re
import stat
import struct
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Any, Final

from ciguard.codec.unpack_limits import ARCHIVE_LIMITS, ArchiveLimits
from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SIGNATURE: Final = b"PK\x03\x04"
CHUNK_BYTES: Final = 1 << 16
MAX_READ_BYTES: Final = 16 << 20  # a list of contents of 20,000 members has 3 MiB
MAX_NAME_CHARACTERS: Final = 1024
MAX_PART_BYTES: Final = 255  # what file systems take
LOCAL_HEADER_BYTES: Final = 30
MAX_END_BYTES: Final = (1 << 16) + 98  # the end record with its comment, the ZIP64 ones before it
IN_ZIP64: Final = 0xFFFF  # a count that stands in the ZIP64 end record
SMALL_BYTES: Final = 1 << 20  # packs as well as it likes
# Deflate packs zeros 1,032 times; what tests say of themselves packs 5 to 50 times.
MAX_RATIO: Final = 500
_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE: Final = re.compile(r"[A-Za-z]:")
# What `zipfile` lets through of an archive that is damaged on purpose.
_DAMAGED: Final = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError),
    *(NotImplementedError, ValueError, OverflowError, IndexError),
)


def members(
    stream: IO[bytes],
    source: str,
    limits: ArchiveLimits = ARCHIVE_LIMITS,
    *,
    is_wanted: Callable[[str], bool] = lambda _: True,
) -> Iterator[tuple[str, bytes]]:
    """Yield (name with "/", content) of the members that are wanted, in the archive's order.

    Args:
        stream: can seek.
        is_wanted: says by its name whether a member is read; all are looked at.

    Raises:
        InputError: at `source/member`; what came before it must not be believed either.
    """
    try:
        with zipfile.ZipFile(_Bounded(stream)) as archive:
            infos = archive.infolist()
            _check_count(len(infos), stream)
            _check_all(infos, archive.start_dir, source, limits)
            left = limits.bytes
            for info in infos:
                if info.is_dir() or not is_wanted(info.filename):
                    continue
                content = _content(archive, info, source)
                left -= len(content)
                if left < 0:
                    raise _unsafe_archive(f"more than {limits.bytes >> 20} MiB unpacked", source)
                yield info.filename, content
    except InputError:
        raise
    except _DAMAGED as error:
        what = f"damaged zip: {str(error) or type(error).__name__}"
        raise InputError(what, where=source, fix="was its upload cut? Run its job again") from error


def member_names(stream: IO[bytes], source: str, limits: ArchiveLimits) -> list[str]:
    """The names of all files, none of which is read.

    Raises:
        InputError: as of `members`.
    """
    names: list[str] = []

    def note(name: str) -> bool:
        names.append(name)
        return False

    for _ in members(stream, source, limits, is_wanted=note):
        pass
    return names


def _check_count(count: int, stream: IO[bytes]) -> None:
    """Raise BadZipFile where the end record counts more or fewer members than the list has.

    `zipfile` reads members until the list's size is used up, and a wrong size ends it early.
    """
    stream.seek(max(0, stream.seek(0, io.SEEK_END) - MAX_END_BYTES))
    end = stream.read(MAX_END_BYTES)
    (stored,) = struct.unpack_from("<H", end, end.rfind(b"PK\x05\x06") + 10)
    if stored == IN_ZIP64:
        (stored,) = struct.unpack_from("<Q", end, end.rfind(b"PK\x06\x06") + 32)
    if stored != count:
        raise zipfile.BadZipFile(f"its end record counts {stored:,} members, its list {count:,}")


class _Bounded:
    """A stream that refuses a huge read: `zipfile` takes the list of contents in one piece, and
    makes 600 bytes of each 46.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def read(self, size: int = -1) -> bytes:
        if size > MAX_READ_BYTES:
            what = f"its list of contents has {size:,} bytes"
            raise zipfile.BadZipFile(what)
        return self._stream.read(size)


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, source: str) -> bytes:
    """A member; of one that unpacks to more or less than it says, an error."""
    pieces, size = [], 0
    with archive.open(info) as stream:
        while piece := stream.read(CHUNK_BYTES):
            pieces.append(piece)
            size += len(piece)
    if size != info.file_size:
        what = f"unpacks to {size:,} bytes and says {info.file_size:,}"
        raise _unsafe_archive(what, source, info.filename)
    return b"".join(pieces)


def _check_all(
    infos: Sequence[zipfile.ZipInfo], end: int, source: str, limits: ArchiveLimits
) -> None:
    """Raise InputError for the first thing that no honest upload has.

    Args:
        end: where the list of contents begins.
    """
    if len(infos) > limits.members:
        raise _unsafe_archive(f"{len(infos):,} members, {limits.members:,} are allowed", source)
    names: set[str] = set()
    files: set[str] = set()
    for info in infos:
        problem = _problem(info, limits)
        name = info.filename.removesuffix("/")
        if not problem and name in names:
            problem = "there twice"
        if problem:
            raise _unsafe_archive(problem, source, info.orig_filename)
        names.add(name)
        if not info.is_dir():
            files.add(name)
    for name in sorted(names):
        above = name.rpartition("/")[0]
        while above:
            if above in files:
                raise _unsafe_archive("lies in a file", source, name)
            above = above.rpartition("/")[0]
    begins = sorted(infos, key=lambda info: info.header_offset)
    for info, next_at in zip(
        begins, [*(one.header_offset for one in begins[1:]), end], strict=True
    ):
        if info.header_offset + LOCAL_HEADER_BYTES + info.compress_size > next_at:
            raise _unsafe_archive("overlaps another", source, info.filename)


def _problem(info: zipfile.ZipInfo, limits: ArchiveLimits) -> str:
    """What is wrong with one member; "" for nothing."""
    kind = stat.S_IFMT(info.external_attr >> 16)
    if problem := _name_problem(info.orig_filename):
        return problem
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "a link" if kind == stat.S_IFLNK else "no file"
    if info.is_dir() != (kind == stat.S_IFDIR) and kind:
        return "a folder that is called like a file, or a file like a folder"
    if info.flag_bits & _ENCRYPTED:
        return "encrypted"
    if info.compress_type not in _METHODS:
        return f"packed by method {info.compress_type}; stored and deflated are read"
    if info.is_dir():
        return "a folder with content" if info.file_size else ""
    if info.file_size > limits.member_bytes:
        return f"{info.file_size:,} bytes, {limits.member_bytes >> 20} MiB are allowed"
    if info.file_size > SMALL_BYTES and info.file_size > MAX_RATIO * info.compress_size:
        return f"packed {info.file_size // max(1, info.compress_size):,} times"
    return ""


def _name_problem(name: str) -> str:
    """Why a name cannot be one below a folder; "" where it can."""
    parts = name.removesuffix("/").split("/")
    if len(name) > MAX_NAME_CHARACTERS or any(
        len(part.encode("utf-8", "surrogatepass")) > MAX_PART_BYTES for part in parts
    ):
        return "too long a name"
    if _CONTROL.search(name):
        return "a control character in its name"
    if "\\" in name:
        return "a backslash in its name"
    if name.startswith("/") or _DRIVE.match(name):
        return "an absolute path"
    if ".." in parts:
        return "leads out of its folder"
    if "." in parts or "" in parts:
        return "no plain path"
    return ""


def _unsafe_archive(problem: str, source: str, name: str = "") -> InputError:
    where = f"{source}/{name!r:.120}" if name else source
    fix = "nothing of this archive was read: no upload of ciguard or GitHub makes one like it"
    return InputError(problem, where=where, fix=fix)
