"""Results of tests as pages show them: words for codes, seconds for microseconds. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.serve.results.rows import ENDING_CODES, OUTCOME_CODES, STATUS_CODES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.serve.results.result_values import CasePage, CaseRow, UnitRun
    from ciguard.serve.state.run_key import RunKey

OUTCOMES: Final = {code: word for word, code in OUTCOME_CODES.items()}
ENDINGS: Final = {code: word for word, code in ENDING_CODES.items()}
STATUSES: Final = {code: word for word, code in STATUS_CODES.items()}
US: Final = 1e6
MOST_NAMED: Final = 20  # runs in a notice


@dataclass(frozen=True, slots=True)
class ResultLine:
    """A case of a run; `case` is None where it is the unit. None is not measured."""

    suite: str
    variant: str
    unit: str
    case: str | None
    shard: str
    outcome: str
    ending: str
    status: str
    is_flaky: bool
    tries: int
    wall_s: float | None
    cpu_s: float | None
    peak_bytes: int | None
    peak_delta_bytes: int | None
    message: str | None


@dataclass(frozen=True, slots=True)
class ResultSums:
    """Of the rows that meet the filters."""

    total: int
    outcomes: Mapping[str, int]
    flaky: int
    unfinished: int


@dataclass(frozen=True, slots=True)
class UnitRunLine:
    """A test in a run: of its cases the worst outcome, the sum of times, the largest peak."""

    run_id: int
    run_attempt: int
    at_ms: int
    cases: int
    outcome: str
    ending: str
    status: str
    is_flaky: bool
    tries: int
    wall_s: float | None
    peak_bytes: int | None
    peak_delta_bytes: int | None
    message: str | None


def result_line(row: CaseRow) -> ResultLine:
    """A row of the results in words."""
    return ResultLine(
        row.suite,
        row.variant,
        row.unit,
        row.case,
        row.shard,
        OUTCOMES[row.outcome],
        ENDINGS[row.ending],
        STATUSES[row.status],
        _is_flaky(row.status, row.tries),
        row.tries,
        seconds(row.wall_us),
        seconds(row.cpu_us),
        row.peak_bytes,
        row.peak_delta_bytes,
        row.message,
    )


def result_sums(page: CasePage) -> ResultSums:
    """The sums in words."""
    outcomes = {OUTCOMES[code]: number for code, number in sorted(page.outcomes.items())}
    return ResultSums(page.total, outcomes, page.flaky, page.unfinished)


def unit_run_line(row: UnitRun) -> UnitRunLine:
    """A run of a test in words."""
    return UnitRunLine(
        row.run_id,
        row.run_attempt,
        row.at_ms,
        row.cases,
        OUTCOMES[row.outcome],
        ENDINGS[row.ending],
        STATUSES[row.status],
        _is_flaky(row.status, row.tries),
        row.tries,
        seconds(row.wall_us),
        row.peak_bytes,
        row.peak_delta_bytes,
        row.message,
    )


def _is_flaky(status: int, tries: int) -> bool:
    """Say whether it passed after it had failed."""
    return status == STATUS_CODES["good"] and tries > 1


def seconds(value_us: int | None) -> float | None:
    """Of microseconds."""
    return None if value_us is None else value_us / US


def run_names(runs: tuple[RunKey, ...]) -> tuple[str, ...]:
    """Runs without results, as "19500000000/1"."""
    return tuple(f"{one.run_id}/{one.run_attempt}" for one in runs)


def damage_notices(runs: Sequence[str]) -> tuple[str, ...]:
    """What a page says of runs that none of its numbers is of; () where there are none."""
    if not runs:
        return ()
    named = ", ".join(runs[:MOST_NAMED])
    more = f" and {len(runs) - MOST_NAMED} more" if len(runs) > MOST_NAMED else ""
    these = "this run" if len(runs) == 1 else "these runs"
    return (
        f"Files of results are damaged or missing. No number here is of {these}: {named}{more}."
        " Run `ciguard serve check --repair`.",
    )
