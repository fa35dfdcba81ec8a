"""The input of a comparison of logs: files, GitHub's archives of logs, logs of jobs.

In an archive, packed or not, `3_tests (1).txt` is the log of a job, and `tests (1)/7_Run tests.txt`
that of one of its steps, if the archive has steps.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Final

from ciguard.codec.archive import member_names, members
from ciguard.codec.unpack_limits import ArchiveLimits
from ciguard.compare.log_comparison import Log, LogComparison, LoggedJob, compare_logs, log_of
from ciguard.errors import InputError, UsageError
from ciguard.logs.job_steps import find_steps, started_steps, with_steps
from ciguard.logs.log_reader import MISSING, LogReader, LogReading, combine
from ciguard.logs.pattern import LogPattern
from ciguard.logs.pattern_table import Direction, endings
from ciguard.logs.values import Place
from ciguard.model.jobs import Job
from ciguard.sources import local
from ciguard.sources.record_finder import FoundRecords, RecordFinder
from ciguard.sources.references import parse_job

Rules = tuple[Sequence[LogPattern], Mapping[str, Direction]]

LIMITS: Final = ArchiveLimits(member_bytes=1 << 30, bytes=1 << 32)
MAX_LOGS: Final = 300  # of two runs: each is a call
_NUMBERED: Final = re.compile(r"(\d{1,6})_(.+)\.txt$")


def are_logs(folder: Path, arguments: tuple[str, str]) -> bool:
    """Return whether base and candidate are text logs.

    Raises:
        InputError: one is a log, and the other is missing.
        UsageError: one is a log, and the other is something else.
    """
    base, head = (_is_log(folder, argument) for argument in arguments)
    if base == head:
        return base
    log, other = arguments if base else reversed(arguments)
    where = f"{'HEAD' if base else 'BASE'}: {other}"
    if other.endswith(local.LOG_SUFFIXES) and not (folder / other).exists():
        raise InputError("not found", where=where, fix="name the other log")
    kinds = (
        f"two logs ({', '.join(local.LOG_SUFFIXES)}, archives with N_name.txt, addresses of jobs)"
    )
    fix = f"compare {kinds}, or two runs"
    raise UsageError(f"{log} is a text log, and {other} is not one", where=where, fix=fix)


def compare_log_inputs(
    folder: Path, names: tuple[str, str], rules: Rules, finder: RecordFinder
) -> LogComparison:
    """Compare two logs by a table of patterns.

    Args:
        rules: the table, and by name of a value how it is judged.
        finder: asks GitHub for the log of a job.

    Raises:
        InputError: a log cannot be read.
        UsageError: a pattern is not valid in RE2, or there is no token for a job's log.
        GitHubError: GitHub has no such job, or did not answer.
    """
    table, judged = rules
    reader = LogReader(table)
    # Names of steps are compared only if both logs have them.
    named = all(parse_job(name) is not None for name in names)
    base, head = (
        _read(folder, name, side, reader, finder, named=named)
        for name, side in zip(names, ("BASE", "HEAD"), strict=True)
    )
    comparison = compare_logs((base, head), judged, endings(table))
    return replace(comparison, unmatched=reader.unmatched)


def compare_run_logs(
    runs: tuple[FoundRecords, FoundRecords],
    names: tuple[str, str],
    pairs: Sequence[tuple[Job | None, Job | None]],
    rules: Rules,
    finder: RecordFinder,
) -> LogComparison | None:
    """Compare the logs of the jobs of two runs.

    A job's values count if GitHub has both logs, a run has no such job, or the base skipped it.

    Returns:
        None if a run has not ended, or no job of it is known to have been executed.

    Raises:
        GitHubError: GitHub refused, or did not answer.
        InputError: the runs have too many logs.
        UsageError: a pattern is not valid in RE2.
    """
    executed = [
        [job for pair in pairs if (job := pair[side]) and started_steps(job.steps)]
        for side in (0, 1)
    ]
    if not all(executed) or any(job.status != "completed" for run in runs for job in run.jobs):
        return None
    if (count := sum(map(len, executed))) > MAX_LOGS:
        raise InputError(f"both runs have {count:,} logs, more than {MAX_LOGS}")
    table, judged = rules
    # The conclusions of the jobs have the cancellations.
    reader = LogReader([row for row in table if row.ending != "cancelled"])
    read = partial(_read_job, reader)
    sides = [finder.job_logs(run, jobs, read) for run, jobs in zip(runs, executed, strict=True)]
    lost = {new.name for old, new in pairs if new and old in executed[0] and new not in executed[1]}
    lost |= {job.name for side in sides for reading, job in side if reading.end == "missing"}
    base, head = (_log_of_jobs(name, side, lost) for name, side in zip(names, sides, strict=True))
    comparison = compare_logs((base, head), judged, endings(table))
    comparison = replace(comparison, unmatched=reader.unmatched)
    if not (lost or comparison.violations) and all(
        log.end == "whole" and not values for log, values in (base, head)
    ):
        return replace(comparison, state="same", doubts=())
    return comparison


def _read_job(
    reader: LogReader, stream: IO[bytes] | None, job: Job, *, named: bool = True
) -> tuple[LogReading, LoggedJob]:
    """Read the log of a job; `named`: its values are only compared within their steps."""
    if stream is None:
        return MISSING, LoggedJob(job.name)
    reading = reader.read(stream, Place(job.name))
    stream.seek(0)
    placed = with_steps(reading, find_steps(stream, job.steps), named=named)
    steps = tuple(step.name for step in started_steps(job.steps)) if named else ()
    return placed, LoggedJob(job.name, steps, reading.is_whole_job, job.url)


def _log_of_jobs(
    name: str,
    jobs: Sequence[tuple[LogReading, LoggedJob]],
    lost: Collection[str] = (),
    url: str = "",
) -> Log:
    """Combine the logs of jobs, without the values of `lost` jobs."""
    reading = combine([
        replace(reading, values=(), unreadable=()) if job.name in lost else reading
        for reading, job in jobs
    ])  # fmt: skip
    logged = tuple(job for reading, job in jobs if reading.end != "missing")
    return log_of(name, reading, url, logged)


def _is_log(folder: Path, argument: str) -> bool:
    path = folder / argument
    return parse_job(argument) is not None or local.is_text_log(path) or bool(_archived(path))


def _read(
    folder: Path, name: str, side: str, reader: LogReader, finder: RecordFinder, *, named: bool
) -> Log:
    job_id = parse_job(name)
    if job_id is not None:

        def read(stream: IO[bytes] | None, job: Job) -> Log:
            attempt = f", attempt {job.run_attempt}" if job.run_attempt > 1 else ""
            reading = _read_job(reader, stream, replace(job, name=""), named=named)
            return _log_of_jobs(f"{job.name}{attempt}", [reading], url=job.url)

        return finder.job_log(job_id, f"{side}: {name}", read)
    path = folder / name
    archived = _archived(path)
    if not archived:
        with local.opened(path) as stream:
            reading = reader.read(stream)
        return log_of(name, reading, jobs=(LoggedJob(is_whole=reading.is_whole_job),))
    by_job: dict[str, list[tuple[str, LogReading]]] = {}
    for place, reading in zip(archived.values(), _readings(path, archived, reader), strict=True):
        by_job.setdefault(place.job, []).append((place.step, reading))
    jobs = []
    for job, parts in by_job.items():
        reading = combine([reading for _, reading in parts])
        steps = tuple(step for step, _ in parts if step)
        jobs.append((reading, LoggedJob(job, steps, reading.is_whole_job)))
    return _log_of_jobs(name, jobs)


def _readings(path: Path, archived: Mapping[str, Place], reader: LogReader) -> Iterator[LogReading]:
    """Read the logs of an archive, in their order."""
    if local.is_directory(path):
        for name, place in archived.items():
            with local.opened(path / name) as stream:
                yield reader.read(stream, place)
        return
    readings = {}
    with local.opened(path) as stream:
        for name, content in members(stream, path.name, LIMITS, is_wanted=archived.__contains__):
            readings[name] = reader.read(io.BytesIO(content), archived[name])
    yield from (readings[name] for name in archived)


def _archived(path: Path) -> dict[str, Place]:
    """Return by name the job and step of an archive's logs, in order; none for any other path."""
    files = _files_of(path)
    jobs = sorted(
        (int(match[1]), match[2], name)
        for name in files
        if "/" not in name and (match := _NUMBERED.fullmatch(name))
    )
    steps: dict[str, list[tuple[int, str, str]]] = {}
    for name in files:
        job, _, file = name.rpartition("/")
        if job and "/" not in job and (match := _NUMBERED.fullmatch(file)):
            steps.setdefault(job, []).append((int(match[1]), match[2], name))
    return {
        file: Place(job, step, step_number=number)
        for _, job, name in jobs
        for number, step, file in sorted(steps.get(job, ())) or [(0, "", name)]
    }


def _files_of(path: Path) -> list[str]:
    """Return the names of an archive's files and of those in its folders; otherwise none."""
    try:
        if local.is_directory(path):
            files = [*path.glob("*.txt"), *path.glob("*/*.txt")]
            return [file.relative_to(path).as_posix() for file in files]
        if path.suffix == ".zip" and path.is_file():
            with path.open("rb") as stream:
                return member_names(stream, path.name, LIMITS)
    except (OSError, InputError):  # reading it as records or results reports the error
        pass
    return []
