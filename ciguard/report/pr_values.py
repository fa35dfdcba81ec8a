"""The values that the next run of a pull request needs: records without all else. Pure.

A record again, read by the same reader: of each leg its first line, results and end, and of each
result what a number is judged by.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.codec.record.lines import encode
from ciguard.model import EndLine, Record, Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ciguard.guard.verdict import Verdict

# Of a run that a newer one took the place of, little is known that the one before does not tell.
INTERRUPTED: Final = frozenset({"cancelled", "superseded"})


def is_usable(verdict: Verdict) -> bool:
    """Return whether the run was not stopped: else an earlier run is the better witness."""
    return not any(leg.ending in INTERRUPTED for leg in verdict.legs)


def encode_values(records: Iterable[Record]) -> bytes:
    """Encode the lines of all legs, one leg after the other."""
    return b"".join(encoded for record in records for encoded in _lines(record))


def _lines(record: Record) -> Iterator[bytes]:
    if record.header is None:
        return
    yield encode(record.header)
    yield from map(encode, map(_compact, record.results))
    if record.end is not None and not record.damage:
        yield encode(replace(record.end, counts={}))
    else:
        yield encode(EndLine("unknown", at_s=record.wall_s))


def _compact(result: Result) -> Result:
    return Result(
        unit=result.unit,
        outcome=result.outcome,
        suite=result.suite,
        variant=result.variant,
        case=result.case if result.case != result.unit else "",
        ending=result.ending,
        wall_s=result.wall_s,
        peak_delta_bytes=result.peak_delta_bytes,
        retained_bytes=result.retained_bytes,
        measured_by=result.measured_by,
        concurrent=result.concurrent,
        try_number=result.try_number,
        reruns=result.reruns,
        process=result.process,
    )
