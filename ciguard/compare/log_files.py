"""Finds and reads two text logs to compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.compare.log_comparison import compare_logs
from ciguard.errors import InputError, UsageError
from ciguard.logs.pattern_table import directions, endings
from ciguard.sources import local

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ciguard.compare.log_comparison import LogComparison
    from ciguard.logs.pattern import LogPattern


def are_logs(folder: Path, arguments: tuple[str, str]) -> bool:
    """Say whether base and candidate are text logs.

    Raises:
        InputError: one is, and the other is not there.
        UsageError: one is, and the other is something else.
    """
    base, head = (local.is_text_log(folder / argument) for argument in arguments)
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
    readings = []
    for name in names:
        with local.opened(folder / name) as stream:
            readings.append(reader.read(stream))
    return compare_logs(names, (readings[0], readings[1]), directions(table), endings(table))
