"""Zip archives of unknown origin: read in memory, member by member, or refused. Pure.

A pull request decides the content of its artifacts. So the headers of an archive are checked before
a byte is unpacked, and no name becomes a path. An archive with one member that no honest upload has
is refused completely: its other members are not trustworthy.
Source: PKWARE APPNOTE 6.3.10; checks of `zipfile` itself are not repeated.
"""

from __future__ import annotations

import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, Final

from ciguard.codec.unpack_limits import ARCHIVE_LIMITS, ArchiveLimits
from ciguard.errors import InputError

SIGNATURE: Final = b"PK\x03\x04"
CHUNK_BYTES: Final = 1 << 16
MAX_READ_BYTES: Final = 16 << 20  # a list of contents of 20,000 members has 3 MiB
MAX_NAME_CHARACTERS: Final = 1024
MAX_PART_BYTES: Final = 255  # the limit of file systems
LOCAL_HEADER_BYTES: Final = 30
MAX_END_BYTES: Final = (1 << 16) + 98  # the end record with its comment, the ZIP64 ones before it
IN_ZIP64: Final = 0xFFFF  # the count is in the ZIP64 end record
SMALL_BYTES: Final = 1 << 20  # up to this size, any ratio is allowed
# Deflate packs zeros 1,032 times; results of tests pack 5 to 50 times.
MAX_RATIO: Final = 500
_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE: Final = re.compile(r"[A-Za-z]:")
# Errors that `zipfile` raises for an archive that is damaged on purpose.
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
    """Yield (name with "/", content) of the wanted members, in the archive's order.

    Args:
        stream: can seek.
        is_wanted: predicate on the name; members that are not wanted are checked, too.

    Raises:
        InputError: at `source/member`; the members before it are not trustworthy either.
    """
    try:
        with zipfile.ZipFile(_Bounded(stream)) as archive:
            infos = archive.infolist()
            _check_count(len(infos), stream)
            _check_all(infos, archive.start_dir, source, limits)
            remaining_bytes = limits.bytes
            for info in infos:
                if info.is_dir() or not is_wanted(info.filename):
                    continue
                content = _content(archive, info, source)
                remaining_bytes -= len(content)
                if remaining_bytes < 0:
                    raise _unsafe_archive(f"more than {limits.bytes >> 20} MiB unpacked", source)
                yield info.filename, content
    except _DAMAGED as error:
        what = f"damaged zip: {str(error) or type(error).__name__}"
        raise InputError(what, where=source, fix="was its upload cut? Run its job again") from error


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return a zip of files by their names; equal files give equal bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in sorted(files.items()):
            # A ZipInfo has a fixed date.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def member_names(stream: IO[bytes], source: str, limits: ArchiveLimits) -> list[str]:
    """Return the names of all files without reading them.

    Raises:
        InputError: as in `members`.
    """
    names: list[str] = []

    def note(name: str) -> bool:
        names.append(name)
        return False

    for _ in members(stream, source, limits, is_wanted=note):
        pass
    return names


def _check_count(count: int, stream: IO[bytes]) -> None:
    """Raise BadZipFile if the end record counts more or fewer members than the list has.

    `zipfile` reads members up to the declared size of the list, and a wrong size ends it early.
    """
    stream.seek(max(0, stream.seek(0, io.SEEK_END) - MAX_END_BYTES))
    end = stream.read(MAX_END_BYTES)
    (stored,) = struct.unpack_from("<H", end, end.rfind(b"PK\x05\x06") + 10)
    if stored == IN_ZIP64:
        (stored,) = struct.unpack_from("<Q", end, end.rfind(b"PK\x06\x06") + 32)
    if stored != count:
        raise zipfile.BadZipFile(f"its end record counts {stored:,} members, its list {count:,}")


class _Bounded:
    """A stream that refuses a huge read.

    `zipfile` reads the list of contents in one piece, and needs 600 bytes for each 46 of it.
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
    """Read a member; raise InputError if its size differs from the declared one."""
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
    """Raise InputError for the first member that no honest upload has.

    Args:
        end: position at which the list of contents begins.
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
        begins, [*(info.header_offset for info in begins[1:]), end], strict=True
    ):
        if info.header_offset + LOCAL_HEADER_BYTES + info.compress_size > next_at:
            raise _unsafe_archive("overlaps another", source, info.filename)


def _problem(info: zipfile.ZipInfo, limits: ArchiveLimits) -> str:
    """Return the problem of a member; "" for none."""
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
    """Return the reason why a name is no path below a folder; "" for none."""
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
