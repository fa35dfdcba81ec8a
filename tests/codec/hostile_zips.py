"""Archives as somebody makes them who means harm, each with what is said of it."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from collections.abc import Iterable, Mapping
from typing import Final

LINE: Final = b'{"type":"end","at_s":1.0,"ending":"completed","exit_code":0}\n'


def made(
    *entries: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    """An archive of these members, whatever they are called."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return stream.getvalue()


def of_kind(name: str, kind: int) -> zipfile.ZipInfo:
    """A member that says it is a link, a device, ..."""
    info = zipfile.ZipInfo(name)
    info.create_system = 3  # Unix
    info.external_attr = (kind | 0o644) << 16
    return info


def renamed(archive: bytes, before: bytes, after: bytes) -> bytes:
    """With a name that `zipfile` would not write; as long as the one before."""
    assert len(before) == len(after)
    return archive.replace(before, after)


def patched(archive: bytes, signature: bytes, offset: int, value: bytes) -> bytes:
    """With bytes changed behind each header of a kind."""
    found, at = bytearray(archive), archive.find(signature)
    while at >= 0:
        found[at + offset : at + offset + len(value)] = value
        at = archive.find(signature, at + 4)
    return bytes(found)


def overlapping() -> bytes:
    """Two members whose headers in the list of contents point to one and the same data."""
    archive = made(("a.jsonl", LINE), ("b.jsonl", LINE))
    first = archive.find(b"PK\x03\x04")
    second_entry = archive.rfind(b"PK\x01\x02")
    found = bytearray(archive)
    found[second_entry + 42 : second_entry + 46] = struct.pack("<I", first)
    return bytes(found)


def encrypted() -> bytes:
    archive = patched(made(("a.jsonl", LINE)), b"PK\x03\x04", 6, b"\x01\x00")
    return patched(archive, b"PK\x01\x02", 8, b"\x01\x00")


def bomb() -> bytes:
    """4 MiB of zeros in 4 KiB."""
    return made(("supervisor.jsonl", bytes(4 << 20)))


def lying_size() -> bytes:
    """Says that a bomb unpacks to 100 bytes."""
    archive = patched(bomb(), b"PK\x03\x04", 22, struct.pack("<I", 100))
    return patched(archive, b"PK\x01\x02", 24, struct.pack("<I", 100))


def invalid_crc() -> bytes:
    archive = patched(made(("a.jsonl", LINE)), b"PK\x03\x04", 14, b"\0\0\0\0")
    return patched(archive, b"PK\x01\x02", 16, b"\0\0\0\0")


def long_contents() -> bytes:
    """Has a list of contents of 17 MiB, and little else."""
    entry = made(("a.jsonl", b""))
    begin = entry.find(b"PK\x01\x02")
    one = entry[begin : entry.find(b"PK\x05\x06")]
    count = (17 << 20) // len(one)
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 65535, 65535, count * len(one), begin, 0)
    return entry[:begin] + one * count + end


def twice(name: str) -> bytes:
    archive = made((name, LINE), (f"{name[:-1]}~", LINE))
    return renamed(archive, f"{name[:-1]}~".encode(), name.encode())


def _hostile() -> Iterable[tuple[str, bytes, str]]:
    for name, output in (
        ("../supervisor.jsonl", "leads out of its folder"),
        ("a/../../b.jsonl", "leads out of its folder"),
        ("a/..", "leads out of its folder"),
        ("/etc/passwd.jsonl", "an absolute path"),
        ("//host/share.jsonl", "an absolute path"),
        ("C:/x.jsonl", "an absolute path"),
        ("c:x.jsonl", "an absolute path"),
        ("./a.jsonl", "no plain path"),
        ("a//b.jsonl", "no plain path"),
        ("a\nb.jsonl", "a control character"),
        ("a\x1b[2Jb.jsonl", "a control character"),
        ("a/" * 600 + "b.jsonl", "too long a name"),
        ("x" * 256 + ".jsonl", "too long a name"),
        ("ü" * 128 + ".jsonl", "too long a name"),
    ):
        yield name[:20], made((name, LINE)), output
    backslash = made(("..#supervisor.jsonl", LINE))
    yield "backslash", renamed(backslash, b"..#super", b"..\\super"), "a backslash"
    yield "nul", renamed(made(("a#.jsonl", LINE)), b"a#.jsonl", b"a\0.jsonl"), "a control character"
    for kind, output in (
        (stat.S_IFLNK, "a link"),
        (stat.S_IFCHR, "no file"),
        (stat.S_IFBLK, "no file"),
        (stat.S_IFIFO, "no file"),
        (stat.S_IFSOCK, "no file"),
        (stat.S_IFDIR, "a folder that is called like a file"),
    ):
        yield (
            output if kind == stat.S_IFLNK else f"kind {kind:o}",
            made((of_kind("a.jsonl", kind), b"/etc/passwd")),
            output,
        )
    yield "file/", made((of_kind("a/", stat.S_IFREG), b"")), "called like a file"
    yield "twice", twice("a.jsonl"), "there twice"
    yield "file and folder", made(("a", b""), ("a/b.jsonl", LINE)), "lies in a file"
    yield "encrypted", encrypted(), "encrypted"
    yield "bzip2", made(("a.jsonl", LINE), method=zipfile.ZIP_BZIP2), "packed by method 12"
    yield "lzma", made(("a.jsonl", LINE), method=zipfile.ZIP_LZMA), "packed by method 14"
    yield "bomb", bomb(), "packed 1,0"
    yield "bomb in a bomb", made(("a.zip", bomb()), ("b.jsonl", bytes(4 << 20))), "packed 1,0"
    yield "lying size", lying_size(), "damaged zip"
    yield "overlapping", overlapping(), "overlaps another"
    yield "wrong sum", invalid_crc(), "damaged zip: Bad CRC-32"
    yield "long contents", long_contents(), "its list of contents has 17,"
    yield "cut", made(("a.jsonl", LINE * 100))[:-40], "damaged zip"
    yield "empty", b"", "damaged zip"
    yield "no zip", b"<html>Sign in</html>", "damaged zip"


HOSTILE: Final[Mapping[str, tuple[bytes, str]]] = {
    name: (content, said) for name, content, said in _hostile()
}
