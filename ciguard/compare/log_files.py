"""Finds and reads two text logs to compare: files, or unpacked archives of GitHub's logs.

In an archive, `3_tests (1).txt` is the log of a job, and `tests (1)/7_Run tests.txt` that of one of
its steps, if there are any.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ciguard.compare.log_comparison import compare_logs
from ciguard.errors import InputError, UsageError
from ciguard.logs.pattern_table import directions, endings
from ciguard.sources import local

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ciguard.compare.log_comparison import LogComparison
    from ciguard.logs.log_reader import LogReader, LogReading
    from ciguard.logs.pattern import LogPattern

_NUMBERED: Final = re.compile(r"(\d{1,6})_(.+)\.txt$")


def are_logs(folder: Path, arguments: tuple[str, str]) -> bool:
    """Say whether base and candidate are text logs.

    Raises:
        InputError: one is, and the other is not there.
        UsageError: one is, and the other is something else.
    """
    base, head = (_is_log(folder / argument) for argument in arguments)
    if base == head:
        return base
    log, other = arguments if base else reversed(arguments)
    where = f"{'HEAD' if base else 'BASE'}: {other}"
    if other.endswith(local.LOG_SUFFIXES) and not (folder / other).exists():
        raise InputError("not found", where=where, fix="name the other log")
    fix = f"compare two logs ({', '.join(local.LOG_SUFFIXES)}), or two runs"
    raise UsageError(f"{log} is a text log, and {other} is none", where=where, fix=fix)


def compare_log_files(
    folder: Path, names: tuple[str, str], table: Sequence[LogPattern]
) -> LogComparison:
    """Compare two logs by a table of patterns.

    Raises:
        InputError: a log cannot be read.
        UsageError: a pattern is none of RE2.
    """
    # Imported here: nobody else needs RE2.
    from ciguard.logs.log_reader import LogReader  # noqa: PLC0415

    reader = LogReader(table)
    base, head = (_read(folder / name, reader) for name in names)
    return compare_logs(names, (base, head), directions(table), endings(table))


def _is_log(path: Path) -> bool:
    return local.is_text_log(path) or next(_archived(path), None) is not None


def _read(path: Path, reader: LogReader) -> LogReading:
    from ciguard.logs.log_reader import combine  # noqa: PLC0415  # as above

    files = tuple(_archived(path)) or ((path, "", ""),)
    readings = []
    for file, job, step in files:
        with local.opened(file) as stream:
            readings.append(reader.read(stream, job, step))
    return combine(readings)


def _archived(path: Path) -> Iterator[tuple[Path, str, str]]:
    """The logs of an archive with their job and step; none of any other folder."""
    jobs = _numbered(path)
    steps = {job: _numbered(path / job) for job in jobs}
    for job, log in jobs.items():
        if steps[job]:
            yield from ((file, job, step) for step, file in steps[job].items())
        else:
            yield log, job, ""


def _numbered(folder: Path) -> dict[str, Path]:
    """Files such as `7_Run tests.txt` by their name, in the order of their numbers."""
    if not local.is_directory(folder):
        return {}
    try:
        files = tuple(folder.iterdir())
    except OSError:  # whoever reads it as records says what is wrong
        return {}
    found = [(named, file) for file in files if (named := _NUMBERED.match(file.name))]
    return {named[2]: file for named, file in sorted(found, key=lambda one: int(one[0][1]))}
