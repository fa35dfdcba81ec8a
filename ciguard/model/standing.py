"""The standing of a unit in its process: first, restarted or later (`Standing`). Pure.

The first unit of a process also pays the costs that occur once in a process: imports, caches, the
first connection.
"""

from __future__ import annotations

import math
from collections import defaultdict
from operator import attrgetter
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

from ciguard.model.record import Line, Record, Result, StartLine
from ciguard.model.types import Standing

StandingOf = Callable[[Result], Optional[Standing]]


def find_first_units(files: Iterable[Sequence[Line]]) -> Mapping[int, frozenset[str]]:
    """Return by process the units that began before another unit of their file was executed.

    A file has the lines of one operating-system process that runs tests; several workers of a
    process have one file each. Units that begin together are all first. O(lines).
    """
    first: dict[int, set[str]] = defaultdict(set)
    line: Any
    for lines in files:
        over = {None}  # None, and processes in which a unit was executed
        for line in lines:
            kind = type(line)  # faster than isinstance for each of a million lines
            if (kind is not Result and kind is not StartLine) or line.process in over:
                continue
            # The leg's own file repeats starts and adds deaths, in an order without meaning.
            if not (line.received if kind is StartLine else line.outcome == "died"):
                first[line.process].add(line.unit)
            # A skipped unit does not pay these costs: the next unit pays them.
            if kind is Result and line.outcome != "skipped":
                over.add(line.process)
    return {process: frozenset(units) for process, units in first.items()}


def standing_of(record: Record) -> StandingOf:
    """Return a function from a result of the record to its standing, which is None if unknown."""
    ends = {line.process: line.at_s for line in record.process_ends}
    first_end_s: dict[tuple[str, str], float] = {}  # by suite and variant, over processes before
    words: dict[int | None, Standing] = {}
    for line in sorted(record.processes, key=attrgetter("process")):
        suite_key, end_s = (line.suite, line.variant), ends.get(line.process)
        earlier_s = first_end_s.get(suite_key, math.inf)
        words[line.process] = "first" if (line.at_s or 0.0) < earlier_s else "restarted"
        first_end_s[suite_key] = min(earlier_s, math.inf if end_s is None else end_s)

    def standing(result: Result) -> Standing | None:
        units = record.first_units.get(result.process or 0)
        if units is None:
            return None
        return words.get(result.process) if result.unit in units else "later"

    return standing
