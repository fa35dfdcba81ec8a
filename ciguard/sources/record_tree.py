"""What lies in a folder that somebody downloaded: the files of records in it, and what is none.

Whoever proposes a change decides what its artifacts hold, and another program unpacked them: what
is no plain file of an honest size is named and not read.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ciguard.codec.record.reader import read_records, result_file_location
from ciguard.errors import InputError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from ciguard.model import Record

# Of one folder; records come from machines nobody trusts.
MAX_RECORD_BYTES: Final = 1 << 30
MAX_RECORD_FILES: Final = 20_000
MAX_FILE_BYTES: Final = 1 << 28
MAX_ENTRIES: Final = 200_000


def read_tree(path: Path | str) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """The records below a folder, or in one file: all `*.jsonl`, and result files beside them.

    Links are not followed: a record says where its lines are, nothing else may.

    Returns:
        The records, and of each file that was not read which it is, and why.

    Raises:
        InputError: nothing is there.
    """
    root = Path(path)
    try:
        if root.is_file():
            return read_records([(root.name, root.read_bytes())]), ()
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}"
        raise InputError(what, where=str(path)) from error
    if not root.is_dir():
        raise InputError("no such record", where=str(path), fix="name a folder or a file of it")
    sizes: dict[str, int] = {}
    problems: list[str] = []
    for inside, status in walk(root, problems):
        is_line_file = inside.endswith(".jsonl")
        if stat.S_ISREG(status.st_mode):
            if is_line_file or result_file_location(inside) is not None:
                sizes[inside] = status.st_size
        elif is_line_file or not stat.S_ISDIR(status.st_mode):
            problems.append(f"{printable(inside)}: {kind_of(status)}")
    problems += drop_oversized(sizes)
    contents = list(contents_of({name: root / name for name in sorted(sizes)}, problems))
    files = [one for one in contents if one[0].endswith(".jsonl")]
    results = [one for one in contents if result_file_location(one[0]) is not None]
    return read_records(files, results), tuple(sorted(problems))


def contents_of(items: Mapping[str, Path], problems: list[str]) -> Iterator[tuple[str, bytes]]:
    """Whole files by name; of one that cannot be read, a problem."""
    for name, item in items.items():
        try:
            yield name, item.read_bytes()
        except OSError as error:
            problems.append(f"{printable(name)}: cannot be read: {error.strerror or error}")


def walk(root: Path, problems: list[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below a folder by its path there; of folders that are links nothing.

    One folder after the other: a thousand in each other are no reason to fall over.
    """
    waiting, seen = [root], 0
    while waiting:
        place = waiting.pop()
        try:
            items = sorted(place.iterdir())
        except OSError as error:
            problems.append(
                f"{printable(_inside(root, place))}: cannot be read: {error.strerror or error}"
            )
            continue
        for item in items:
            seen += 1
            if seen > MAX_ENTRIES:
                problems.append(f"more than {MAX_ENTRIES:,} files and folders: not all was read")
                return
            try:
                status = item.lstat()
            except OSError:
                continue  # gone since
            yield _inside(root, item), status
            if stat.S_ISDIR(status.st_mode):
                waiting.append(item)


def _inside(root: Path, item: Path) -> str:
    return item.relative_to(root).as_posix()


def printable(name: str) -> str:
    """A name as it may be printed: its own control characters do nothing."""
    return name if name.isprintable() else repr(name)


def kind_of(status: os.stat_result) -> str:
    if stat.S_ISDIR(status.st_mode):
        return "a folder that is called like a file of a record"
    return "a link" if stat.S_ISLNK(status.st_mode) else "no file"


def drop_oversized(sizes: dict[str, int]) -> Iterator[str]:
    """Take out what is more than honest records have, the largest files first, and say so."""
    total = sum(sizes.values())
    for inside, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        if size > MAX_FILE_BYTES:
            yield f"{printable(inside)}: {size:,} bytes, {MAX_FILE_BYTES >> 20} MiB are allowed"
        elif total > MAX_RECORD_BYTES:
            yield f"{printable(inside)}: records of more than {MAX_RECORD_BYTES >> 20} MiB in all"
        else:
            break
        total -= sizes.pop(inside)
    for inside in sorted(sizes)[MAX_RECORD_FILES:]:
        yield f"{printable(inside)}: more than {MAX_RECORD_FILES:,} files in all"
        del sizes[inside]
