"""Metrics that programs printed: out of the logs of a record's processes, into the record.

A leg has no RE2 and reads no log; the judge of its record does. Failures of a log are none of
this: the record says how its tests ended.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from functools import cached_property
from typing import IO, TYPE_CHECKING, Final

from ciguard.model import LogMetric, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ciguard.logs.log_reader import LogReader
    from ciguard.logs.pattern import LogPattern
    from ciguard.logs.values import LogValue

MAX_METRICS: Final = 200_000  # of a run; about 80 MB
_LOG: Final = re.compile(r"(?:.*/)?process-(\d{3,})\.log")


def is_process_log(path: str) -> bool:
    """Say whether a file of a record is what one of its processes printed."""
    return _LOG.fullmatch(path) is not None


class ProcessLogs:
    """Reads logs one at a time and remembers their metrics, by the folder of the record.

    Args:
        patterns: rows of the table; failures among them are passed over.
    """

    def __init__(self, patterns: Sequence[LogPattern]) -> None:
        self._patterns = patterns
        self._metrics: dict[str, list[LogMetric]] = defaultdict(list)
        self._remaining = MAX_METRICS
        self.problems: list[str] = []

    @cached_property
    def _reader(self) -> LogReader:
        # Imported here: only logs need RE2.
        from ciguard.logs.log_reader import LogReader  # noqa: PLC0415

        return LogReader([row for row in self._patterns if row.kind != "failure"])

    def add(self, path: str, stream: IO[bytes]) -> None:
        """Read a log; `path` is its place beside the record's other files.

        Raises:
            UsageError: RE2 knows no such pattern.
        """
        reading = self._reader.read(stream)
        more = len(reading.unreadable) - 1
        self.problems += [
            f"a metric that is no number is absent: {path}:{one.place.line}: "
            f"{one.name} = {one.text:.40}{f' and {more} more' if more else ''}"
            for one in reading.unreadable[:1]
        ]
        found = [_metric(one, path) for one in reading.values[: self._remaining]]
        self._remaining -= len(found)
        if len(found) < len(reading.values):
            self.problems.append(f"{path}: more than {MAX_METRICS:,} metrics in all logs")
        self._metrics[path.rpartition("/")[0]] += found

    def added_to(self, records: Iterable[Record]) -> tuple[Record, ...]:
        """Return the records, each with the metrics of the logs beside it after its own."""
        found = []
        for record in records:
            folders = {one.rpartition("/")[0] for one in (record.source, *record.copies)}
            printed = [one for folder in sorted(folders) for one in self._metrics.get(folder, ())]
            found.append(replace(record, metrics=(*record.metrics, *printed)))
        return tuple(found)


def _metric(value: LogValue, path: str) -> LogMetric:
    return LogMetric(
        value.name,
        value.value,
        "bytes" if value.unit == "B" else value.unit,
        {one.name: one.value for one in value.key},
        value.place.line,
        process=_process_of(path),
        source=path,
        resolution=value.resolution,
        printed={one.name: one.printed for one in value.key if one.printed},
    )


def _process_of(path: str) -> int | None:
    found = _LOG.fullmatch(path)
    return int(found[1]) if found is not None else None
