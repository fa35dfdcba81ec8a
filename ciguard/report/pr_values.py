"""The values that the next run of a pull request needs, as shortened records. Pure.

A shortened record has a leg's first line, its processes with the units that began them, results,
extreme samples and end; a result has only the keys that a comparison of numbers needs. The reader
of records reads it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.codec.record.lines import encode
from ciguard.model import EndLine, Record, Result, SampleLine, StartLine
from ciguard.model.machine_use import machine_use

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ciguard.guard.verdict import Verdict

# Endings of a run that a newer run replaced: its values are few.
INTERRUPTED: Final = frozenset({"cancelled", "superseded"})
_KEPT: Final = (
    *("unit", "outcome", "suite", "variant", "ending", "wall_s", "peak_delta_bytes"),
    *("rss_before_bytes", "peak_lower_bytes", "peak_upper_bytes", "gpu_peak_bytes"),
    *("retained_bytes", "measured_by", "concurrent", "try_number", "reruns", "process"),
)


def is_usable(verdict: Verdict) -> bool:
    """Return whether the run was not interrupted; else an earlier run confirms more."""
    return not any(leg.ending in INTERRUPTED for leg in verdict.legs)


def encode_values(records: Iterable[Record]) -> bytes:
    """Encode the lines of all legs, one leg after the other."""
    return b"".join(encoded for record in records for encoded in _lines(record))


def _lines(record: Record) -> Iterator[bytes]:
    if record.header is None:
        return
    yield encode(record.header)
    yield from map(encode, record.processes)
    yield from map(encode, record.process_ends)
    suites = {line.process: (line.suite, line.variant) for line in record.processes}
    for process, units in record.first_units.items():
        for unit in sorted(units):
            yield encode(StartLine(unit, *suites.get(process, ("", "")), process=process))
    yield from map(encode, map(_compact, record.results))
    use = machine_use(record.samples)
    growth = use.swap_growth.size_bytes if use.swap_growth is not None else None
    if use.gpu_bytes or growth is not None:  # two samples: growth is that since the first one
        yield encode(SampleLine(0.0, swap_used_bytes=None if growth is None else 0))
        yield encode(SampleLine(0.0, swap_used_bytes=growth, gpu_bytes=use.gpu_bytes))
    if record.end is not None and not record.damage:
        yield encode(replace(record.end, counts={}))
    else:
        yield encode(EndLine("unknown", at_s=record.wall_s))


def _compact(result: Result) -> Result:
    kept = {name: getattr(result, name) for name in _KEPT}
    return Result(**kept, case=result.case if result.case != result.unit else "")
