"""The shards of a judged run, and what went wrong with it, out of the guard's JSON. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ciguard.guard.verdict import Evidence, Finding, Reason
from ciguard.guard.wording import finding_fix, finding_message, reason_text
from ciguard.model import BAD_OUTCOMES, UnitKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T", Finding, Evidence)

BAR: Final = 100.0  # width of a bar's room
MAX_UNITS: Final = 5  # named in a finding; all are in the JSON of the guard


@dataclass(frozen=True, slots=True)
class LegLine:
    """A shard. Times and sizes are None where not measured, or not predicted.

    Attributes:
        ending: how it ended, or "no record".
        causes: what else is known of why it did not end well.
        start_s: after the first shard of its run attempt began, by the clocks of the runners.
        start_x, end_x, predicted_end_x: 0 to 100, of the shard that ends last; from 0 where nobody
            knows when it began.
        peak_x, predicted_peak_x: 0 to 100, of the largest.
    """

    shard: str
    is_bad: bool
    ending: str
    causes: tuple[str, ...]
    planned: int
    with_result: int
    bad: int
    start_s: float | None
    wall_s: float | None
    predicted_wall_s: float | None
    peak_bytes: int | None
    predicted_peak_bytes: int | None
    peak_measured_by: str | None
    start_x: float
    end_x: float | None
    predicted_end_x: float | None
    peak_x: float | None
    predicted_peak_x: float | None


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding in words, with what was seen of it and what to do about it."""

    level: str
    text: str
    evidence: tuple[str, ...]
    tests: tuple[str, ...]
    more_tests: int
    fix: str


def leg_lines(verdict: Mapping[str, Any]) -> tuple[LegLine, ...]:
    """Those that went wrong first, then the longest.

    Args:
        verdict: as `ciguard guard --format json`.
    """
    legs = verdict["legs"]
    starts_s = _starts_s(legs)
    most_s = max((_last_s(leg, starts_s.get(leg["shard"], 0.0)) for leg in legs), default=0.0)
    most_bytes = max((_largest(leg["peak_bytes"]) for leg in legs), default=0)
    causes = _causes(verdict)
    found = [
        _leg_line(
            leg,
            causes.get(leg["shard"], ()),
            starts_s.get(leg["shard"]),
            most_s or 1.0,
            most_bytes or 1,
        )
        for leg in legs
    ]
    return tuple(sorted(found, key=lambda one: (not one.is_bad, -(one.wall_s or 0.0), one.shard)))


def _starts_s(legs: list[dict[str, Any]]) -> dict[str, float]:
    """By shard: when it began, after the first shard of the same attempt; without those unknown.

    Shards that were run again begin hours later, after somebody's decision: of their own attempt.
    """
    known = {}
    for leg in legs:
        # What was judged by an earlier version does not say it.
        began_s = _unix_s(leg.get("started_at"))
        if began_s is not None:
            known[leg["shard"]] = (leg["run_attempt"], began_s)
    first_s: dict[int | None, float] = {}
    for attempt, began_s in known.values():
        first_s[attempt] = min(began_s, first_s.get(attempt, began_s))
    return {shard: began_s - first_s[attempt] for shard, (attempt, began_s) in known.items()}


def _unix_s(moment: str | None) -> float | None:
    """Of a time as a record has it, which anybody may have written; None where it is none."""
    try:
        found = datetime.fromisoformat(moment or "")
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _last_s(leg: dict[str, Any], start_s: float) -> float:
    return start_s + float(_largest(leg["wall_s"]))


def _largest(measure: dict[str, Any]) -> float:
    return max(measure["actual"] or 0, measure["predicted"] or 0)


def _causes(verdict: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """By shard, its findings that are no mere warnings."""
    found: dict[str, tuple[str, ...]] = {}
    for one in verdict["findings"]:
        if one["shard"] and one["level"] != "warning":
            text = _words(finding_message, replace(_finding(one), shard=""))
            found[one["shard"]] = (*found.get(one["shard"], ()), text)
    return found


def _leg_line(
    leg: dict[str, Any],
    causes: tuple[str, ...],
    start_s: float | None,
    most_s: float,
    most_bytes: float,
) -> LegLine:
    wall, peak = leg["wall_s"], leg["peak_bytes"]
    is_known = leg["recorded"] or leg["ending"] != "unknown"
    bad = sum(leg["counts"].get(one, 0) for one in BAD_OUTCOMES)
    ending = leg["ending"].replace("_", " ") if is_known else "no record"
    units, begin_s = leg["units"], start_s or 0.0
    return LegLine(
        leg["shard"],
        leg["ending"] != "completed" or units["with_result"] < units["planned"],
        ending,
        tuple(cause for cause in causes if cause != ending),
        units["planned"],
        units["with_result"],
        bad,
        start_s,
        wall["actual"],
        wall["predicted"],
        peak["actual"],
        peak["predicted"],
        peak["measured_by"],
        _place(begin_s, most_s) or 0.0,
        _place(wall["actual"], most_s, begin_s),
        _place(wall["predicted"], most_s, begin_s),
        _place(peak["actual"], most_bytes),
        _place(peak["predicted"], most_bytes),
    )


def _place(value: float | None, most: float, begin: float = 0.0) -> float | None:
    return None if value is None else round(BAR * (begin + value) / most, 2)


def problems(verdict: Mapping[str, Any]) -> tuple[Problem, ...]:
    """What makes the run incomplete or failed first, then the warnings.

    Args:
        verdict: as `leg_lines`.
    """
    found = [_problem(one) for one in verdict["findings"]]
    return tuple(sorted(found, key=lambda one: one.level == "warning"))


def _finding(found: dict[str, Any]) -> Finding:
    cause = found["cause"]
    return Finding(
        found["level"],
        found["kind"],
        found["shard"] or "",
        tuple(UnitKey(**one) for one in found["units"]),
        found["facts"],
        Reason(cause["kind"], cause["facts"]) if cause else None,
        tuple(Evidence(one["kind"], one["facts"]) for one in found["evidence"]),
        tuple(UnitKey(**one) for one in found["culprits"]),
    )


def _problem(found: dict[str, Any]) -> Problem:
    finding = _finding(found)
    tests = [one.unit for one in (*finding.culprits, *finding.units)]
    return Problem(
        finding.level,
        _words(finding_message, finding),
        tuple(_words(reason_text, one) for one in finding.evidence),
        tuple(tests[:MAX_UNITS]),
        max(0, len(tests) - MAX_UNITS),
        _words(finding_fix, finding, ""),
    )


def _words(tell: Callable[[T], str], found: T, otherwise: str | None = None) -> str:
    """The words of a finding; its kind where another version of ciguard wrote other facts."""
    try:
        return tell(found)
    except (KeyError, TypeError, ValueError):
        return found.kind.replace("_", " ") if otherwise is None else otherwise
