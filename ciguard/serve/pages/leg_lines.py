"""The shards of a judged run, and what went wrong with it, out of the guard's JSON. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ciguard.guard.verdict import Finding
from ciguard.guard.wording import finding_fix, finding_message, note_text
from ciguard.model import BAD_OUTCOMES, UnitKey
from ciguard.render.notes import Note

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ciguard.serve.state.run_rows import RunRow

T = TypeVar("T", Finding, Note)

BAR: Final = 100.0  # width of a bar's room
MAX_RUN_MS: Final = 35 * 86_400_000  # GitHub ends a run after 35 days
MAX_SKEW_MS: Final = 300_000  # between the clocks of a runner and of GitHub
MAX_UNITS: Final = 5  # named in a finding; all are in the JSON of the guard


@dataclass(frozen=True, slots=True)
class LegLine:
    """A shard. Times and sizes are None where not measured, or not predicted.

    Attributes:
        ending: how it ended, or "no record".
        causes: what else is known of why it did not end well.
        run_attempt: in which it ran; None without a record.
        start_s: seconds after the start of the first shard of its attempt, by the runners' clocks.
        start_x, end_x, predicted_end_x: 0 to 100, of the shard that ends last; a bar starts at 0 if
            the start of its shard is unknown.
        peak_x, predicted_peak_x: 0 to 100, of the largest.
    """

    shard: str
    is_bad: bool
    ending: str
    causes: tuple[str, ...]
    planned: int
    with_result: int
    bad: int
    run_attempt: int | None
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


def leg_lines(verdict: Mapping[str, Any], run: RunRow) -> tuple[LegLine, ...]:
    """List the shards: the bad ones first, then the longest.

    Args:
        verdict: as `ciguard guard --format json`.
    """
    legs = verdict["legs"]
    starts_s = _starts_s(legs, run)
    most_s = max((_last_s(leg, starts_s.get(leg["shard"], 0.0)) for leg in legs), default=0.0)
    most_bytes = max((_largest(leg["peak_bytes"]) for leg in legs), default=0)
    causes = _causes(verdict)
    lines = [
        _leg_line(
            leg,
            causes.get(leg["shard"], ()),
            starts_s.get(leg["shard"]),
            most_s or 1.0,
            most_bytes or 1,
        )
        for leg in legs
    ]
    return tuple(
        sorted(lines, key=lambda line: (not line.is_bad, -(line.wall_s or 0.0), line.shard))
    )


def _starts_s(legs: list[dict[str, Any]], run: RunRow) -> dict[str, float]:
    """Start of each shard whose start is known, after the first shard of the same attempt.

    Each attempt has its own zero: "Re-run failed jobs" may come hours later. A start outside of the
    run is that of a wrong clock, which would leave no room to the other bars.
    """
    known = {}
    for leg in legs:
        # Verdicts of earlier versions have no `started_at`.
        if text := leg.get("started_at"):
            start_ms = 1000 * datetime.fromisoformat(text).timestamp()
            is_own = leg["run_attempt"] == run.key.run_attempt
            earliest_ms = run.started_at_ms if is_own else run.completed_at_ms - MAX_RUN_MS
            if earliest_ms - MAX_SKEW_MS <= start_ms <= run.completed_at_ms + MAX_SKEW_MS:
                known[leg["shard"]] = (leg["run_attempt"], start_ms / 1000)
    first_s: dict[int | None, float] = {}
    for attempt, start_s in known.values():
        first_s[attempt] = min(start_s, first_s.get(attempt, start_s))
    return {shard: start_s - first_s[attempt] for shard, (attempt, start_s) in known.items()}


def _last_s(leg: dict[str, Any], start_s: float) -> float:
    return start_s + float(_largest(leg["wall_s"]))


def _largest(measure: dict[str, Any]) -> float:
    return max(measure["actual"] or 0, measure["predicted"] or 0)


def _causes(verdict: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Map each shard to its findings, without warnings."""
    causes: dict[str, tuple[str, ...]] = {}
    for finding in verdict["findings"]:
        if finding["shard"] and finding["level"] != "warning":
            text = _words(finding_message, replace(_finding(finding), shard=""))
            causes[finding["shard"]] = (*causes.get(finding["shard"], ()), text)
    return causes


def _leg_line(
    leg: dict[str, Any],
    causes: tuple[str, ...],
    start_s: float | None,
    most_s: float,
    most_bytes: float,
) -> LegLine:
    wall, peak = leg["wall_s"], leg["peak_bytes"]
    is_known = leg["recorded"] or leg["ending"] != "unknown"
    bad = sum(leg["counts"].get(outcome, 0) for outcome in BAD_OUTCOMES)
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
        leg["run_attempt"],
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
    """List the findings: those that make the run incomplete or failed, then the warnings.

    Args:
        verdict: as `leg_lines`.
    """
    listed = [_problem(finding) for finding in verdict["findings"]]
    return tuple(sorted(listed, key=lambda finding: finding.level == "warning"))


def _finding(values: dict[str, Any]) -> Finding:
    cause = values["cause"]
    return Finding(
        values["kind"],
        values["shard"] or "",
        tuple(UnitKey(**value) for value in values["units"]),
        values["facts"],
        Note(cause["kind"], cause["facts"]) if cause else None,
        tuple(Note(value["kind"], value["facts"]) for value in values["evidence"]),
        tuple(UnitKey(**value) for value in values["culprits"]),
        stated_level=values["level"],
    )


def _problem(values: dict[str, Any]) -> Problem:
    finding = _finding(values)
    tests = [item.unit for item in (*finding.culprits, *finding.units)]
    return Problem(
        finding.level,
        _words(finding_message, finding),
        tuple(_words(note_text, item) for item in finding.evidence),
        tuple(tests[:MAX_UNITS]),
        max(0, len(tests) - MAX_UNITS),
        _words(finding_fix, finding, ""),
    )


def _words(word: Callable[[T], str], item: T, otherwise: str | None = None) -> str:
    """Word a finding; return its kind where another version of ciguard wrote other facts."""
    try:
        return word(item)
    except (KeyError, TypeError, ValueError):
        return item.kind.replace("_", " ") if otherwise is None else otherwise
