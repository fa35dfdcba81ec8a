"""The door to the file system that the verbs share: whole files in, records in, files out.

What is written is written aside and moved into place, so that a reader sees the old file or the
new one and a full disk loses neither.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.results import result_patterns
from ciguard.errors import InputError, UsageError
from ciguard.sources.record_tree import (
    contents_of,
    drop_oversized,
    kind_of,
    printable,
    read_tree,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.model import Plan, Record


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


def read_plan(path: Path | str) -> Plan:
    """The plan in a file, or the `plan.json` of a folder (a downloaded plan artifact)."""
    place = Path(path)
    if str(path) != "-" and is_directory(place):
        place = place / "plan.json"
    return plan_codec.decode(read(place), str(place))


@dataclass(frozen=True, slots=True)
class ReadInputs:
    """What there is of a run: records of our own legs, or result files of somebody else's.

    `missing` says that nothing is there, `problems` what was there and is not among these, and why.
    """

    records: tuple[Record, ...] = ()
    results: tuple[result_patterns.ResultFile, ...] = ()
    missing: str = ""
    problems: tuple[str, ...] = ()


def read_inputs(folder: Path, records: str | None, results: Sequence[str]) -> ReadInputs:
    """Read what `--records` or `--results` name.

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
    found, problems = read_tree(place)
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
    found: dict[str, tuple[Path, Mapping[str, str]]] = {}
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


def read_record_tree(path: Path | str) -> tuple[Record, ...]:
    """The records below a folder or in a file.

    Raises:
        InputError: nothing is there, or a file of them is none that can be read.
    """
    records, problems = read_tree(path)
    _raise_first(problems, str(path))
    return records
