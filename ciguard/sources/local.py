"""The door to the file system that the verbs share: whole files in, records in, files out.

What is written is written aside and moved into place, so that a reader sees the old file or the
new one and a full disk loses neither. Whoever proposes a change decides what its artifacts hold,
and another program unpacked them: what is no plain file of an honest size is named and not read.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.record.reader import OWN_FILE, read_records, result_file_location
from ciguard.codec.results import result_patterns
from ciguard.errors import InputError, UsageError
from ciguard.logs.process_logs import ProcessLogs, is_process_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.model import Plan, Record

# Of one folder; records come from machines nobody trusts.
MAX_RECORD_BYTES: Final = 1 << 30
MAX_RECORD_FILES: Final = 20_000
MAX_FILE_BYTES: Final = 1 << 28
MAX_ENTRIES: Final = 200_000
LOG_SUFFIXES: Final = (".log", ".txt")


def _unreadable(path: Path | str, error: OSError) -> InputError:
    fix = "check the path" if isinstance(error, FileNotFoundError) else ""
    return InputError(f"cannot be read: {error.strerror or error}", where=str(path), fix=fix)


def read(path: Path | str) -> bytes:
    """The whole file; "-" is standard input.

    Raises:
        InputError: it is not there, is no file, or may not be read.
    """
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file to read in parts.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise _unreadable(path, error) from error


def is_text_log(path: Path) -> bool:
    """Say whether a file has the name of a log, and does not begin as a record or XML does."""
    try:
        if path.suffix not in LOG_SUFFIXES or not path.is_file():
            return False
        with path.open("rb") as stream:
            return not stream.read(8).startswith((b'{"type"', b"<?xml"))
    except (OSError, ValueError):
        return False


def write(path: Path | str, content: bytes) -> None:
    """Write aside and move into place; "-" is standard output.

    Raises:
        InputError: the folder cannot be written, or the disk is full; the old file is untouched.
    """
    if str(path) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    aside: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            target.write_bytes(content)  # /dev/stdout and the like cannot be moved onto
            return
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        aside = Path(name)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        aside.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o644)
        aside.replace(target)
    except OSError as error:
        if aside is not None:
            aside.unlink(missing_ok=True)
        what = f"cannot be written: {error.strerror or error}"
        raise InputError(what, where=str(path), fix="choose another place") from error


def append(path: Path | str, text: str) -> None:
    """Append to a file that others append to as well ($GITHUB_OUTPUT, $GITHUB_STEP_SUMMARY)."""
    try:
        with Path(path).open("ab") as stream:
            stream.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror or error}", where=str(path)
        ) from error


def append_output(environ: Mapping[str, str], text: str) -> None:
    """Append to the step's outputs, where a workflow has said where they are."""
    if environ.get("GITHUB_OUTPUT"):
        append(environ["GITHUB_OUTPUT"], text)


def is_directory(path: Path) -> bool:
    """Say so; of what nobody may look at, or no file can be called, it is not said."""
    try:
        return path.is_dir()
    except OSError:
        return False


def why_missing(path: Path) -> str:
    """Why nothing can be read there; "" where something is."""
    try:
        path.stat()
    except (FileNotFoundError, ValueError):  # no name has a byte 0
        return "no such folder"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return ""


def read_argument(folder: Path, option: str, argument: str) -> tuple[bytes, str]:
    """What an option was given as JSON, or as a file that holds it, or as "-"; and its name."""
    if argument.lstrip()[:1] in ("{", "[", ""):
        return argument.encode("utf-8", "surrogatepass"), option
    return read(folder / argument), f"{option} {argument}"


def path_below(folder: Path, path: str | None) -> str:
    """The path of a plan below a folder; "" for one that lies elsewhere, or none."""
    if path is None or path == "-":
        return ""
    place = _plan_place((folder / path).resolve())
    root = folder.resolve()
    return place.relative_to(root).as_posix() if place.is_relative_to(root) else ""


def read_plan(path: Path | str) -> Plan:
    """The plan in a file, or the `plan.json` of a folder (a downloaded plan artifact)."""
    place = Path(path) if str(path) == "-" else _plan_place(Path(path))
    return plan_codec.decode(read(place), str(place))


def _plan_place(path: Path) -> Path:
    return path / "plan.json" if is_directory(path) else path


@dataclass(frozen=True, slots=True)
class ReadInputs:
    """What there is of a run: records of our own legs, or result files of somebody else's.

    `missing` says that nothing is there, `problems` what was there and is not among these, and why.
    """

    records: tuple[Record, ...] = ()
    results: tuple[result_patterns.ResultFile, ...] = ()
    missing: str = ""
    problems: tuple[str, ...] = ()


def read_inputs(
    folder: Path, records: str | None, results: Sequence[str], logs: ProcessLogs | None = None
) -> ReadInputs:
    """Read what `--records` or `--results` name.

    Args:
        logs: reads what the processes of records printed.

    Raises:
        UsageError: neither or both are asked for, or a pattern says no shard.
    """
    if (records is None) is not bool(results):
        fix = "--records DIR for legs of `ciguard run`, --results GLOB for jobs of your own"
        what = "both --records and --results" if results else "neither --records nor --results"
        raise UsageError(what, fix=fix)
    if records is None:
        placed, problems = find_result_files(folder, results)
        named = ", ".join(results)
        missing = "" if placed or problems else f"--results: no file is called {named:.200}"
        return ReadInputs(results=placed, missing=missing, problems=problems)
    if not records:
        fix = "name the folder; is the variable empty that should say it?"
        raise UsageError("no folder", where="--records", fix=fix)
    place = folder / records
    if why := why_missing(place):
        return ReadInputs(missing=f"{records:.200}: {why}, so there are no records")
    found, problems = read_tree(place, logs)
    return ReadInputs(found, problems=problems)


def read_result_files(
    folder: Path, patterns: Sequence[str]
) -> tuple[result_patterns.ResultFile, ...]:
    """As `find_result_files`.

    Raises:
        InputError: one of them was not read.
    """
    found, problems = find_result_files(folder, patterns)
    _raise_first(problems, f"--results {patterns[0]}")
    return found


def _raise_first(problems: Sequence[str], where: str) -> None:
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise InputError(f"{problems[0]}{more}", where=where, fix="remove it, or fix it")


def find_result_files(
    folder: Path, patterns: Sequence[str]
) -> tuple[tuple[result_patterns.ResultFile, ...], tuple[str, ...]]:
    """Result files of other jobs, each once, with what the pattern that found it says of it.

    Links are not followed, neither to files nor to folders.

    Returns:
        The files, and which of them were not read, and why.

    Raises:
        UsageError: a pattern that says no shard.
    """
    sizes: dict[str, int] = {}
    found: dict[str, tuple[Path, result_patterns.Location]] = {}
    problems: list[str] = []
    for pattern in map(result_patterns.pattern, patterns):
        root = folder / pattern.begin
        for inside, status in walk(root, problems) if is_directory(root) else ():
            item = root / inside
            path = item.as_posix()
            if not Path(pattern.text).is_absolute():
                path = item.relative_to(folder).as_posix()
            location = pattern.match(path)
            if location is None or path in found:
                continue
            if stat.S_ISREG(status.st_mode):
                found[path], sizes[path] = (item, location), status.st_size
            elif not stat.S_ISDIR(status.st_mode):
                problems.append(f"{printable(path)}: {kind_of(status)}")
    problems += drop_oversized(sizes)
    items = {path: found[path][0] for path in sorted(sizes)}
    placed = tuple(
        result_patterns.ResultFile(path, content, **found[path][1])
        for path, content in contents_of(items, problems)
    )
    return placed, tuple(sorted(set(problems)))


def read_record_tree(path: Path | str, logs: ProcessLogs | None = None) -> tuple[Record, ...]:
    """The records below a folder or in a file.

    Args:
        logs: reads what the processes printed.

    Raises:
        InputError: nothing is there, or a file of them is none that can be read.
    """
    records, problems = read_tree(path, logs)
    _raise_first(problems, str(path))
    return records


def read_tree(
    path: Path | str, logs: ProcessLogs | None = None
) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """The records below a folder, or in one file: all `*.jsonl`, and result files beside them.

    The file of a supervisor stands for its record, the results of which are in files beside it.
    Links are not followed: a record says where its lines are, nothing else may.

    Args:
        logs: reads what the processes printed.

    Returns:
        The records, and of each file that was not read which it is, and why.

    Raises:
        InputError: nothing is there.
    """
    root = Path(path)
    if root.name == OWN_FILE:
        root = root.parent
    try:
        if root.is_file():
            return read_records([(root.name, root.read_bytes())]), ()
    except OSError as error:
        raise _unreadable(path, error) from error
    if not root.is_dir():
        raise InputError("no such record", where=str(path), fix="name a folder or a file of it")
    sizes: dict[str, int] = {}
    problems: list[str] = []
    printed: list[str] = []
    for inside, status in walk(root, problems):
        if stat.S_ISREG(status.st_mode) and is_process_log(inside):
            printed.append(inside)
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
    records = read_records(files, results)
    if logs is not None:
        for inside in sorted(printed):
            with opened(root / inside) as stream:
                logs.add(inside, stream)
        records = logs.add_metrics(records)
    return records, tuple(sorted(problems))


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
