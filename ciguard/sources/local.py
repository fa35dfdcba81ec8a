"""File access of all commands: plans, records and result files in, whole files out.

A file is written under a temporary name and then renamed: a reader sees the old or the new file,
and a full disk loses neither. A pull request decides the content of unpacked artifacts: links,
special files and oversized files are reported and not read.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Final

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.record.reader import OWN_FILE, read_records, result_file_location
from ciguard.codec.results import result_patterns
from ciguard.errors import InputError, UsageError
from ciguard.logs.process_logs import ProcessLogs, is_process_log

if TYPE_CHECKING:
    from ciguard.codec.coverage_file import Coverage
    from ciguard.model import Plan, Record

# Limits of one folder: records come from untrusted machines.
MAX_RECORD_BYTES: Final = 1 << 30
MAX_RECORD_FILES: Final = 20_000
MAX_FILE_BYTES: Final = 1 << 28
MAX_ENTRIES: Final = 200_000
LOG_SUFFIXES: Final = (".log", ".txt")


def _unreadable(path: Path | str, error: OSError) -> InputError:
    fix = "check the path" if isinstance(error, FileNotFoundError) else ""
    return InputError(f"cannot be read: {error.strerror or error}", where=str(path), fix=fix)


def read(path: Path | str) -> bytes:
    """Read a whole file; "-" is standard input.

    Raises:
        InputError: the file does not exist, is no file, or cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read it in parts.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise _unreadable(path, error) from error


def is_text_log(path: Path) -> bool:
    """Return whether a file has the name of a log, and not the beginning of a record or XML."""
    try:
        if path.suffix not in LOG_SUFFIXES or not path.is_file():
            return False
        with path.open("rb") as stream:
            return not stream.read(8).startswith((b'{"type"', b"<?xml"))
    except (OSError, ValueError):
        return False


def write(path: Path | str, content: bytes) -> None:
    """Write a file under a temporary name and rename it; "-" is standard output.

    Raises:
        InputError: the folder cannot be written, or the disk is full; the old file is unchanged.
    """
    if str(path) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            target.write_bytes(content)  # a device such as /dev/stdout cannot be replaced
            return
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o644)
        temporary.replace(target)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        what = f"cannot be written: {error.strerror or error}"
        raise InputError(what, where=str(path), fix="choose another place") from error


def append(path: Path | str, text: str) -> None:
    """Append to a file that other programs append to ($GITHUB_OUTPUT, $GITHUB_STEP_SUMMARY)."""
    try:
        with Path(path).open("ab") as stream:
            stream.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror or error}", where=str(path)
        ) from error


def append_output(environ: Mapping[str, str], text: str) -> None:
    """Append to the outputs of the step; outside of a workflow, do nothing."""
    if environ.get("GITHUB_OUTPUT"):
        append(environ["GITHUB_OUTPUT"], text)


def is_directory(path: Path) -> bool:
    """Return whether a path is a folder; False for an invalid or inaccessible path."""
    try:
        return path.is_dir()
    except OSError:
        return False


def read_argument(folder: Path, option: str, argument: str) -> tuple[bytes, str]:
    """Return the JSON of an argument (JSON itself, a file, or "-"), and its name for errors."""
    if argument.lstrip()[:1] in ("{", "[", ""):
        return argument.encode("utf-8", "surrogatepass"), option
    return read(folder / argument), f"{option} {argument}"


def path_below(folder: Path, path: str | None) -> str:
    """Return the path of a plan file relative to a folder; "" for one outside, or none."""
    if path is None or path == "-":
        return ""
    file = _plan_file((folder / path).resolve())
    root = folder.resolve()
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else ""


def read_plan(path: Path | str) -> Plan:
    """Read a plan from a file, or from the `plan.json` of a folder (a downloaded artifact)."""
    file = Path(path) if str(path) == "-" else _plan_file(Path(path))
    return plan_codec.decode(read(file), str(file))


def read_coverage(path: Path) -> Coverage:
    """Read `coverage.json`, which is of a job that may run foreign code.

    A missing or damaged file is incomplete coverage: the rest of the run is judged all the same.
    """
    from ciguard.codec import coverage_file  # noqa: PLC0415 - pydantic is only then loaded

    if not path.exists():
        return coverage_file.NO_COVERAGE
    try:
        return coverage_file.decode(read(path), str(path))
    except InputError as error:
        return replace(coverage_file.NO_COVERAGE, incomplete=(error.what,))


def _plan_file(path: Path) -> Path:
    return path / "plan.json" if is_directory(path) else path


@dataclass(frozen=True, slots=True)
class ReadInputs:
    """The records of a run by `ciguard run`, or its result files by other programs.

    `missing` is the message if the run has none of them; `problems` are messages about files that
    were not read; `left_out` names what matched and need not be of test results.
    """

    records: tuple[Record, ...] = ()
    results: tuple[result_patterns.ResultFile, ...] = ()
    missing: str = ""
    problems: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def read_inputs(
    folder: Path, records: str | None, results: Sequence[str], logs: ProcessLogs | None = None
) -> ReadInputs:
    """Read the files that `--records` or `--results` name.

    Args:
        logs: reads the logs of the records' processes.

    Raises:
        UsageError: neither or both options are given, or a pattern names no shard.
    """
    if (records is None) is not bool(results):
        fix = "pass --records DIR for jobs with `ciguard run`, or --results GLOB for other jobs"
        what = "both --records and --results" if results else "neither --records nor --results"
        raise UsageError(what, fix=fix)
    if records is None:
        return find_result_files(folder, results)
    if not records:
        fix = "name the folder; is a variable of the command empty?"
        raise UsageError("no folder", where="--records", fix=fix)
    root = folder / records
    reason = ""
    try:
        root.stat()
    except (FileNotFoundError, ValueError):  # ValueError: a name with a byte 0
        reason = "no such folder"
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
    if reason:
        return ReadInputs(missing=f"{records:.200}: {reason}, so there are no records")
    tree, problems = read_tree(root, logs)
    return ReadInputs(tree, problems=problems)


def read_result_files(
    folder: Path, patterns: Sequence[str]
) -> tuple[result_patterns.ResultFile, ...]:
    """Return the files of `find_result_files`.

    Raises:
        InputError: a file cannot be read.
    """
    found = find_result_files(folder, patterns)
    _raise_first(found.problems, f"--results {patterns[0]}")
    return found.results


def _raise_first(problems: Sequence[str], where: str) -> None:
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise InputError(f"{problems[0]}{more}", where=where, fix="remove it, or fix it")


def find_result_files(folder: Path, patterns: Sequence[str]) -> ReadInputs:
    """Read result files of other jobs, each once, with the facts of the first matching pattern.

    Links to files and folders are not followed.

    Raises:
        UsageError: a pattern names no shard.
    """
    sizes: dict[str, int] = {}
    matches: dict[str, tuple[Path, result_patterns.Location]] = {}
    problems: list[str] = []
    for pattern in map(result_patterns.pattern, patterns):
        root = folder / pattern.begin
        for inside, status in walk(root, problems) if is_directory(root) else ():
            item = root / inside
            path = item.as_posix()
            if not Path(pattern.text).is_absolute():
                path = item.relative_to(folder).as_posix()
            location = pattern.match(path)
            if location is None or path in matches:
                continue
            if stat.S_ISREG(status.st_mode):
                matches[path], sizes[path] = (item, location), status.st_size
            elif not stat.S_ISDIR(status.st_mode):
                problems.append(f"{printable(path)}: {kind_of(status)}")
    problems += drop_oversized(sizes)
    root_path = f"{folder.resolve().as_posix()}/"
    items = {path: matches[path][0] for path in sorted(sizes)}
    files = tuple(
        result_patterns.ResultFile(path, content, **matches[path][1], root=root_path)
        for path, content in contents_of(items, problems)
    )
    missing = "" if files or problems else _no_file(patterns)
    return ReadInputs(results=files, missing=missing, problems=tuple(sorted(set(problems))))


def _no_file(patterns: Sequence[str]) -> str:
    return f"--results: no file is called {', '.join(patterns):.200}"


def glob_result_files(folder: Path, patterns: Sequence[str]) -> ReadInputs:
    """Read the result files of jobs, each in a folder that the pattern leaves open, or of one."""
    shards = {
        name: result_patterns.shard_of(text, PurePath(name).as_posix())
        for text in patterns
        for name in glob(text, root_dir=folder, recursive=True)  # noqa: PTH207 - also absolute
        if (folder / name).is_file()
    }
    root = f"{folder.resolve().as_posix()}/"
    results = tuple(
        result_patterns.ResultFile(name, read(folder / name), shard, root=root)
        for name, shard in sorted(shards.items())
    )
    return ReadInputs(results=results, missing="" if results else _no_file(patterns))


def read_record_tree(path: Path | str, logs: ProcessLogs | None = None) -> tuple[Record, ...]:
    """Return the records of `read_tree`.

    Raises:
        InputError: the path does not exist, or a file cannot be read.
    """
    records, problems = read_tree(path, logs)
    _raise_first(problems, str(path))
    return records


def read_tree(
    path: Path | str, logs: ProcessLogs | None = None
) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """Read the records below a folder or in a file: all `*.jsonl`, and the result files beside.

    The file of a supervisor stands for its folder, which holds the results of the record. Links are
    not followed.

    Args:
        logs: reads the logs of the processes.

    Returns:
        The records, and messages about files that were not read.

    Raises:
        InputError: the path does not exist.
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
    log_names: list[str] = []
    for name, status in walk(root, problems):
        if stat.S_ISREG(status.st_mode) and is_process_log(name):
            log_names.append(name)
        is_line_file = name.endswith(".jsonl")
        if stat.S_ISREG(status.st_mode):
            if is_line_file or result_file_location(name) is not None:
                sizes[name] = status.st_size
        elif is_line_file or not stat.S_ISDIR(status.st_mode):
            problems.append(f"{printable(name)}: {kind_of(status)}")
    problems += drop_oversized(sizes)
    contents = list(contents_of({name: root / name for name in sorted(sizes)}, problems))
    files = [file for file in contents if file[0].endswith(".jsonl")]
    results = [file for file in contents if result_file_location(file[0]) is not None]
    records = read_records(files, results)
    if logs is not None:
        for name in sorted(log_names):
            with opened(root / name) as stream:
                logs.add(name, stream)
        records = logs.add_metrics(records)
    return records, tuple(sorted(problems))


def contents_of(items: Mapping[str, Path], problems: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the content of each file by name; add a problem for a file that cannot be read."""
    for name, item in items.items():
        try:
            yield name, item.read_bytes()
        except OSError as error:
            problems.append(f"{printable(name)}: cannot be read: {error.strerror or error}")


def walk(root: Path, problems: list[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each entry below a folder by its relative path; links to folders are not followed.

    Without recursion, so that deeply nested folders exceed no limit.
    """
    folders, count = [root], 0
    while folders:
        folder = folders.pop()
        try:
            items = sorted(folder.iterdir())
        except OSError as error:
            problems.append(
                f"{printable(_relative(root, folder))}: cannot be read: {error.strerror or error}"
            )
            continue
        for item in items:
            count += 1
            if count > MAX_ENTRIES:
                problems.append(f"more than {MAX_ENTRIES:,} files and folders: not all was read")
                return
            try:
                status = item.lstat()
            except OSError:
                continue  # deleted since
            yield _relative(root, item), status
            if stat.S_ISDIR(status.st_mode):
                folders.append(item)


def _relative(root: Path, item: Path) -> str:
    return item.relative_to(root).as_posix()


def printable(name: str) -> str:
    """Return a name for output; escape control characters."""
    return name if name.isprintable() else repr(name)


def kind_of(status: os.stat_result) -> str:
    if stat.S_ISDIR(status.st_mode):
        return "a folder that is called like a file of a record"
    return "a link" if stat.S_ISLNK(status.st_mode) else "no file"


def drop_oversized(sizes: dict[str, int]) -> Iterator[str]:
    """Remove files beyond the limits, the largest first; yield a message for each."""
    total = sum(sizes.values())
    for name, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        if size > MAX_FILE_BYTES:
            yield f"{printable(name)}: {size:,} bytes, {MAX_FILE_BYTES >> 20} MiB are allowed"
        elif total > MAX_RECORD_BYTES:
            yield f"{printable(name)}: records of more than {MAX_RECORD_BYTES >> 20} MiB in all"
        else:
            break
        total -= sizes.pop(name)
    for name in sorted(sizes)[MAX_RECORD_FILES:]:
        yield f"{printable(name)}: more than {MAX_RECORD_FILES:,} files in all"
        del sizes[name]
