"""Metrics in the logs of test processes: they are read beside a record and added to it.

Commands that read a record read its logs, because jobs have no RE2. Failures in a log are ignored,
as the record has the endings of its tests, unless `at_most` bounds their number.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import IO, TYPE_CHECKING, Final

from ciguard.model import MetricLine, Record

if TYPE_CHECKING:
    from ciguard.logs.log_reader import LogReader
    from ciguard.logs.pattern import LogPattern
    from ciguard.logs.values import LogValue

MAX_METRICS: Final = 200_000  # of a run; about 80 MB
SOURCE: Final = "source"  # the fact with the path of a value's log
_LOG: Final = re.compile(r"(?:.*/)?process-(\d{3,})\.log")


def is_process_log(path: str) -> bool:
    """Return whether a file of a record is the output of one of its processes."""
    return _LOG.fullmatch(path) is not None


@dataclass(frozen=True, slots=True)
class LogMetric(MetricLine):
    """A metric that a process printed to its log, not to the record; its only fact is `SOURCE`."""

    log_value: LogValue = field(kw_only=True)


class ProcessLogs:
    """Reads logs one at a time and collects their metrics, by the folder of the record.

    Args:
        patterns: rows of the table; failures among them need `at_most`.
    """

    def __init__(self, patterns: Sequence[LogPattern]) -> None:
        self._patterns = patterns
        self._metrics: dict[str, list[LogMetric]] = defaultdict(list)
        self._remaining = MAX_METRICS
        self.problems: list[str] = []

    @cached_property
    def _reader(self) -> LogReader:
        # Imported here: most commands read no log, and so need no RE2.
        from ciguard.logs.log_reader import LogReader  # noqa: PLC0415

        rows = [one for one in self._patterns if one.kind != "failure" or one.at_most is not None]
        return LogReader(rows)

    def add(self, path: str, stream: IO[bytes]) -> None:
        """Read a log; `path` is its path in the folder of the records.

        Raises:
            UsageError: RE2 refuses a pattern.
        """
        reading = self._reader.read(stream)
        more = len(reading.unreadable) - 1
        self.problems += [
            f"a metric that is no number is absent: {path}:{first.place.line}: "
            f"{first.name} = {first.text:.40}{f' and {more} more' if more else ''}"
            for first in reading.unreadable[:1]
        ]
        metrics = [_metric(value, path) for value in reading.values[: self._remaining]]
        self._remaining -= len(metrics)
        if len(metrics) < len(reading.values):
            self.problems.append(f"{path}: more than {MAX_METRICS:,} metrics in all logs")
        self._metrics[path.rpartition("/")[0]] += metrics

    def add_metrics(self, records: Iterable[Record]) -> tuple[Record, ...]:
        """Return the records, each with the metrics of the logs in its folders appended."""
        extended = []
        for record in records:
            folders = {path.rpartition("/")[0] for path in (record.source, *record.copies)}
            metrics = [item for folder in sorted(folders) for item in self._metrics.get(folder, ())]
            extended.append(replace(record, metrics=(*record.metrics, *metrics)))
        return tuple(extended)


def _metric(value: LogValue, path: str) -> LogMetric:
    match = _LOG.fullmatch(path)
    if value.kind == "failure":  # a line that is counted
        value = replace(value, value=1.0, unit="")
    return LogMetric(
        value.name,
        value.value,
        "bytes" if value.unit == "B" else value.unit,
        {part.name: part.value for part in value.key},
        value.place.line,
        process=int(match[1]) if match is not None else None,
        log_value=replace(value, facts=((SOURCE, path),)),
    )
