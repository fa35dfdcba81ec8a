"""Finds and reads two text logs to compare: files, GitHub's archives of logs, logs of jobs.

In an archive, packed or not, `3_tests (1).txt` is the log of a job, and `tests (1)/7_Run tests.txt`
that of one of its steps, if there are any.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

from ciguard.codec.archive import member_names, members
from ciguard.codec.unpack_limits import ArchiveLimits
from ciguard.compare.log_comparison import LoggedJob, compare_logs, log_of
from ciguard.errors import InputError, UsageError
from ciguard.logs.job_steps import find_steps, with_steps
from ciguard.logs.pattern_table import directions, endings
from ciguard.sources import local
from ciguard.sources.references import parse_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ciguard.compare.log_comparison import Log, LogComparison
    from ciguard.logs.log_reader import LogReader, LogReading
    from ciguard.logs.pattern import LogPattern
    from ciguard.sources.job_logs import JobLog
    from ciguard.sources.record_finder import RecordFinder

LIMITS: Final = ArchiveLimits(member_bytes=1 << 30, bytes=1 << 32)
_NUMBERED: Final = re.compile(r"(\d{1,6})_(.+)\.txt$")


@dataclass(frozen=True, slots=True)
class _ArchivedLog:
    """A log in an archive; `step` is "" and its number 0 of a whole job."""

    path: str
    job: str
    step: str = ""
    step_number: int = 0


def are_logs(folder: Path, arguments: tuple[str, str]) -> bool:
    """Say whether base and candidate are text logs.

    Raises:
        InputError: one is, and the other is not there, or no zip archive that can be read.
        UsageError: one is, and the other is something else.
    """
    base, head = (_is_log(folder, argument) for argument in arguments)
    if base == head:
        return base
    log, other = arguments if base else reversed(arguments)
    where = f"{'HEAD' if base else 'BASE'}: {other}"
    if other.endswith(local.LOG_SUFFIXES) and not (folder / other).exists():
        raise InputError("not found", where=where, fix="name the other log")
    other_path = folder / other
    is_zip = other_path.suffix == ".zip" and other_path.is_file()
    if is_zip:
        try:
            _zip_names(other_path)
        except (OSError, InputError) as error:
            detail = error.what if isinstance(error, InputError) else error
            what = f"{other} is no readable zip archive: {detail}"
            raise InputError(what, where=where, fix="download it again") from None
    kinds = f"two logs ({', '.join(local.LOG_SUFFIXES)}, archives, addresses of jobs)"
    fix = f"compare {kinds}, or two runs"
    is_archive = is_zip or local.is_directory(other_path)
    kind = "has logs of jobs" if _archived(folder / log) else "is a text log"
    problem = "has no logs of jobs (N_name.txt)" if is_archive else "is none"
    raise UsageError(f"{log} {kind}, and {other} {problem}", where=where, fix=fix)


def compare_log_inputs(
    folder: Path, names: tuple[str, str], table: Sequence[LogPattern], finder: RecordFinder
) -> LogComparison:
    """Compare two logs by a table of patterns.

    Args:
        finder: asks GitHub for the log of a job.

    Raises:
        InputError: a log cannot be read.
        UsageError: a pattern is none of RE2, or there is no token for a job's log.
        GitHubError: GitHub does not know a job, or did not answer.
    """
    # Imported here: only logs need RE2.
    from ciguard.logs.log_reader import LogReader  # noqa: PLC0415

    reader = LogReader(table)
    # The name of a step is no part of what is compared where the other log knows no steps.
    named = all(parse_job(name) is not None for name in names)
    base, head = (
        _read(folder, name, side, reader, finder, named=named)
        for name, side in zip(names, ("BASE", "HEAD"), strict=True)
    )
    return compare_logs((base, head), directions(table), endings(table))


def _is_log(folder: Path, argument: str) -> bool:
    path = folder / argument
    return parse_job(argument) is not None or local.is_text_log(path) or bool(_archived(path))


def _read(
    folder: Path, name: str, side: str, reader: LogReader, finder: RecordFinder, *, named: bool
) -> Log:
    from ciguard.logs.log_reader import MISSING, combine  # noqa: PLC0415  # as above

    job = parse_job(name)
    if job is not None:

        def read(stream: IO[bytes] | None, log: JobLog) -> Log:
            if stream is None:
                return log_of(log.title, MISSING, log.url)
            reading = reader.read(stream)
            stream.seek(0)
            placed = with_steps(reading, find_steps(stream, log.steps), named=named)
            steps = tuple(one.name for one in log.steps) if named else ()
            return log_of(log.title, placed, log.url, (LoggedJob("", steps, reading.is_whole_job),))

        return finder.job_log(job, f"{side}: {name}", read)
    path = folder / name
    archived = _archived(path)
    if not archived:
        with local.opened(path) as stream:
            reading = reader.read(stream)
        return log_of(name, reading, jobs=(LoggedJob(is_whole=reading.is_whole_job),))
    by_job: dict[str, list[tuple[str, LogReading]]] = {}
    for one, reading in zip(archived, _readings(path, archived, reader), strict=True):
        by_job.setdefault(one.job, []).append((one.step, reading))
    jobs = {job: combine([reading for _, reading in parts]) for job, parts in by_job.items()}
    logged = tuple(
        LoggedJob(job, tuple(step for step, _ in by_job[job] if step), reading.is_whole_job)
        for job, reading in jobs.items()
    )
    return log_of(name, combine([*jobs.values()]), jobs=logged)


def _readings(
    path: Path, archived: Sequence[_ArchivedLog], reader: LogReader
) -> Iterator[LogReading]:
    """The logs of an archive, in their order."""
    if local.is_directory(path):
        for one in archived:
            with local.opened(path / one.path) as stream:
                yield reader.read(stream, one.job, one.step, one.step_number)
        return
    wanted = {one.path: one for one in archived}
    found = {}
    with local.opened(path) as stream:
        for name, content in members(stream, path.name, LIMITS, is_wanted=wanted.__contains__):
            one = wanted[name]
            found[name] = reader.read(io.BytesIO(content), one.job, one.step, one.step_number)
    yield from (found[one.path] for one in archived)


def _archived(path: Path) -> tuple[_ArchivedLog, ...]:
    """The logs of an archive with their job and step; none of anything else."""
    files = _files_of(path)
    jobs = sorted(
        (int(found[1]), found[2], name)
        for name in files
        if "/" not in name and (found := _NUMBERED.fullmatch(name))
    )
    steps: dict[str, list[_ArchivedLog]] = {}
    for name in files:
        job, _, file = name.rpartition("/")
        if job and "/" not in job and (found := _NUMBERED.fullmatch(file)):
            steps.setdefault(job, []).append(_ArchivedLog(name, job, found[2], int(found[1])))
    return tuple(
        one
        for _, job, name in jobs
        for one in sorted(steps.get(job, ()), key=lambda step: step.step_number)
        or [_ArchivedLog(name, job)]
    )


def _files_of(path: Path) -> list[str]:
    """The names of an archive's files, and of those in its folders; none of what is no archive."""
    try:
        if local.is_directory(path):
            found = [*path.glob("*.txt"), *path.glob("*/*.txt")]
            return [item.relative_to(path).as_posix() for item in found]
        if path.suffix == ".zip" and path.is_file():
            return _zip_names(path)
    except (OSError, InputError):  # reading it as records or results reports the error
        pass
    return []


def _zip_names(path: Path) -> list[str]:
    with path.open("rb") as stream:
        return member_names(stream, path.name, LIMITS)
