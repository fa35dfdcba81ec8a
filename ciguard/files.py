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
from typing import TYPE_CHECKING, Final

from ciguard.codec import placing
from ciguard.codec import plan as plan_codec
from ciguard.codec.gathering import place_of, read_records
from ciguard.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.model import Plan, Record

MAX_RECORD_BYTES: Final = 1 << 30  # of one record tree; records come from machines nobody trusts
MAX_RECORD_FILES: Final = 20_000


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


def read_argument(folder: Path, option: str, word: str) -> tuple[bytes, str]:
    """What an option was given as JSON, or as a file that holds it, or as "-"; and its name."""
    if word.lstrip()[:1] in ("{", "[", ""):
        return word.encode("utf-8", "surrogatepass"), option
    return read(folder / word), f"{option} {word}"


def read_plan(path: Path | str) -> Plan:
    """The plan in a file, or the `plan.json` of a folder (a downloaded plan artifact)."""
    place = Path(path)
    if str(path) != "-" and place.is_dir():
        place = place / "plan.json"
    return plan_codec.decode(read(place), str(place))


def record_tree(path: Path | str) -> tuple[tuple[str, bytes], ...]:
    """All `*.jsonl` files below a folder, or the one file: (path below it, content), sorted.

    Links are not followed: a record says where its lines are, nothing else may.

    Raises:
        InputError: nothing is there, or it is larger than any honest record.
    """
    root = Path(path)
    if root.is_file():
        return ((root.name, read(root)),)
    if not root.is_dir():
        raise InputError("no such record", where=str(path), fix="name a folder or a file of it")
    found = sorted(
        item for item in root.rglob("*.jsonl") if item.is_file() and not item.is_symlink()
    )
    size = sum(item.stat().st_size for item in found)
    if len(found) > MAX_RECORD_FILES or size > MAX_RECORD_BYTES:
        raise InputError(
            f"{len(found)} files with {size} bytes: more than "
            f"{MAX_RECORD_FILES} files or {MAX_RECORD_BYTES} bytes",
            where=str(path),
            fix="name the folder of one run",
        )
    return tuple((item.relative_to(root).as_posix(), read(item)) for item in found)


def result_tree(path: Path | str) -> tuple[tuple[str, bytes], ...]:
    """What lies in the `results` folders of records: (path below the folder, content), sorted.

    Raises:
        InputError: it is larger than any honest record.
    """
    root = Path(path)
    found: list[Path] = []
    for place, folders, names in os.walk(root):  # which does not follow links
        inside = (Path(place).relative_to(root) / "x").as_posix()
        if place_of(inside) is not None:
            found += [item for name in names if _is_plain(item := Path(place) / name)]
        folders.sort()
    size = sum(item.stat().st_size for item in found)
    if len(found) > MAX_RECORD_FILES or size > MAX_RECORD_BYTES:
        what = f"{len(found)} result files with {size} bytes: more than honest records hold"
        raise InputError(what, where=str(path), fix="name the folder of one run")
    return tuple((item.relative_to(root).as_posix(), read(item)) for item in sorted(found))


@dataclass(frozen=True, slots=True)
class Arrived:
    """What there is of a run: records of our own legs, or result files of somebody else's.

    `missing` says that nothing is there.
    """

    records: tuple[Record, ...] = ()
    results: tuple[placing.Placed, ...] = ()
    missing: str = ""


def arrived(folder: Path, records: str | None, results: Sequence[str]) -> Arrived:
    """Read what `--records` or `--results` name.

    Raises:
        UsageError: neither or both are asked for, or a pattern says no shard.
        InputError: it is larger than any honest run.
    """
    if (records is None) is not bool(results):
        fix = "--records DIR for legs of `ciguard run`, --results GLOB for jobs of your own"
        what = "both --records and --results" if results else "neither --records nor --results"
        raise UsageError(what, fix=fix)
    if records is None:
        found = placed_results(folder, results)
        return Arrived(results=found, missing="" if found else "--results: no such file")
    place = folder / records
    if not place.exists():
        return Arrived(missing=f"{records}: no such folder, so there are no records")
    return Arrived(records=read_record_tree(place))


def placed_results(folder: Path, patterns: Sequence[str]) -> tuple[placing.Placed, ...]:
    """Result files of other jobs, each once, with what the pattern that found it says of it.

    Links are not followed, neither to files nor to folders.

    Raises:
        InputError: they are larger than any honest results.
        UsageError: a pattern that says no shard.
    """
    found: dict[str, tuple[Path, Mapping[str, str]]] = {}
    for pattern in map(placing.pattern, patterns):
        for place, folders, names in os.walk(folder / pattern.begin):
            folders.sort()
            for item in (Path(place) / name for name in names):
                path = item.as_posix()
                if not Path(pattern.text).is_absolute():
                    path = item.relative_to(folder).as_posix()
                said = pattern.names(path)
                if said is not None and path not in found and _is_plain(item):
                    found[path] = (item, said)
    size = sum(item.stat().st_size for item, _ in found.values())
    if len(found) > MAX_RECORD_FILES or size > MAX_RECORD_BYTES:
        what = f"{len(found)} result files with {size} bytes: more than honest results are"
        raise InputError(what, where=f"--results {patterns[0]}", fix="name those of one run")
    return tuple(
        placing.Placed(path, read(item), **said) for path, (item, said) in sorted(found.items())
    )


def _is_plain(item: Path) -> bool:
    return stat.S_ISREG(item.lstat().st_mode)


def read_record_tree(path: Path | str) -> tuple[Record, ...]:
    """The records below a folder or in a file; see `codec.gathering.read_records`."""
    return read_records(record_tree(path), result_tree(path))
