"""What running units again on two commits comes to: rows, why others have none, a verdict. Pure."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ciguard.compare.wording import percent
from ciguard.experiment.commit_test import ALPHA, MIN_PAIRS, evaluate_rows
from ciguard.experiment.loop import pairs_of, series_of
from ciguard.experiment.result import row_verdict, verdict_of
from ciguard.experiment.unit_plan import key_of
from ciguard.experiment.view import interval_text, value_text
from ciguard.text import case_name, count_of, duration, one_line, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.experiment.loop import StopReason
    from ciguard.experiment.measurement import Measurement
    from ciguard.experiment.paired_test import Row
    from ciguard.experiment.result import Verdict
    from ciguard.experiment.schedule import Design, Side, Step
    from ciguard.experiment.unit_plan import Request
    from ciguard.model import CaseKey

SCHEMA: Final = 1
COLUMNS: Final = 80
NAME_WIDTH: Final = 68
NAMES: Final[Mapping[Side, str]] = {"a": "base", "b": "head"}
HEADER: Final = ("", "base", "head", "change", "95 % CI", "n", "")
RIGHT: Final = frozenset({1, 2, 3, 4, 5})
ERROR_RATE_NOTE: Final = (
    "A paired test, its scale moderated over all tests; of what is called different at most "
    f"{100 * ALPHA:.0f} % is expected to be chance."
)


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The answer.

    Attributes:
        rows: of cases that passed in every run of both sides; those that differ come first.
        troubles: why a case is not among them.
        pairs: whole ones. why: with what it was over. failure: of the run with which it was.
        asked: whether each row was a suspect, or whatever its units gave.
    """

    verdict: Verdict
    rows: tuple[Row, ...]
    exclusions: Mapping[CaseKey, str]
    commits: Mapping[Side, str]
    design: Design
    pairs: tuple[int, ...]
    stopped_because: StopReason
    wall_s: float
    units: int
    failure: str = ""
    stopped_by: int = 0

    @property
    def is_complete(self) -> bool:
        """Say that enough was run to judge by, and that nobody stopped it."""
        return not self.failure and not self.stopped_by and min(self.pairs) >= MIN_PAIRS


def conclude(
    design: Design,
    done: Sequence[Measurement],
    why: StopReason,
    *,
    commits: Mapping[Side, str],
    request: Request,
    exclusions: Mapping[CaseKey, str],
    wall_s: float,
    stopped_by: int = 0,
) -> CommitResult:
    """Judge the runs; a case that went wrong in one of them is compared with nothing."""
    series = [
        one
        for one in series_of(done)
        if key_of(one.metric) not in exclusions
        and (request.rows is None or one.metric in request.rows)
    ]
    rows = sorted(
        evaluate_rows(series), key=lambda row: (not row.differs, row.metric.name, row.metric)
    )
    pairs = pairs_of(done, 1)
    failure = next((f"{step_text(one.step)}: {one.failure}" for one in done if one.failure), "")
    enough = min(pairs) >= MIN_PAIRS and not failure and any(row.p is not None for row in rows)
    return CommitResult(
        verdict=verdict_of(rows, pairs) if enough else "not enough data",
        rows=tuple(rows),
        exclusions=dict(sorted(exclusions.items())),
        commits=commits,
        design=design,
        pairs=pairs,
        stopped_because=why,
        wall_s=wall_s,
        units=len(request.units),
        failure=failure,
        stopped_by=stopped_by,
    )


def step_text(step: Step) -> str:
    """ "base, warm run 1", "head, run 3"."""
    return f"{NAMES[step.side]}{step.text.removeprefix(step.side)}"


def row_verdict_text(row: Row) -> str:
    """What a row says: "slower", "not judged", or "-" where nothing differs."""
    if row.p is None:
        return "too short" if row.n >= MIN_PAIRS else "not enough data"
    return row_verdict(row) if row.differs else "-"


def row_cells(row: Row, width: int = 200) -> tuple[str, ...]:
    """The row's cells, by `HEADER`."""
    what = "" if row.is_time else " (memory)"
    return (
        case_name(key_of(row.metric), width - len(what)) + what,
        value_text(row.metric, row.before),
        value_text(row.metric, row.after),
        "-" if row.ratio is None else percent(row.ratio),
        interval_text(row),
        str(row.n),
        row_verdict_text(row),
    )


def coverage_text(result: CommitResult) -> str:
    """How much was run, and why not more."""
    warm = count_of(result.design.warm, "warm run")
    text = (
        f"{count_of(result.units, 'unit')}, {count_of(min(result.pairs), 'run')} on each commit "
        f"({warm} before), in {duration(result.wall_s)}"
    )
    reasons = {
        "budget": f"; the budget was spent before all {result.design.runs} were made",
        "failed": "; ended by a run that failed",
        "interrupted": "; incomplete: interrupted",
    }
    return text + reasons.get(result.stopped_because, "")


def as_text(result: CommitResult) -> str:
    """80 columns; the last line is the verdict."""
    lines = [f"base  {result.commits['a']}", f"head  {result.commits['b']}"]
    lines += [_wrapped(coverage_text(result)), ""]
    if result.rows:
        lines += [*_fitting([HEADER, *map(row_cells, result.rows)]), ""]
    if result.exclusions:
        for key, why in result.exclusions.items():
            lines += [f"not judged: {case_name(key, NAME_WIDTH)}", _wrapped(why, "  ")]
        lines.append("")
    if result.failure:
        first, *rest = result.failure.splitlines()
        lines += [_wrapped(first), *(f"    {line}" for line in rest), ""]
    return "\n".join([*lines, _wrapped(ERROR_RATE_NOTE), "", result.verdict]) + "\n"


def _fitting(cells: list[tuple[str, ...]]) -> list[str]:
    """The table; where names make it too wide, each has a line of its own."""
    lines = table(cells, right=RIGHT).splitlines()
    if max(map(len, lines)) <= COLUMNS:
        return lines
    numbers = table([("  ", *row[1:]) for row in cells], right=RIGHT).splitlines()
    found = [numbers[0]]
    for row, line in zip(cells[1:], numbers[1:], strict=True):
        found += [one_line(row[0], COLUMNS), line.rstrip()]
    return found


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text,
        COLUMNS,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def as_json(result: CommitResult) -> dict[str, Any]:
    """Every key is there; null is what is not known."""
    numbers = ("n", "before", "after", "ratio", "low", "high", "p")
    return {
        "schema": SCHEMA,
        "verdict": result.verdict,
        "complete": result.is_complete,
        "ended": result.stopped_because,
        "failure": result.failure or None,
        "base": result.commits["a"],
        "head": result.commits["b"],
        "pairs": list(result.pairs),
        "wall_s": result.wall_s,
        "rows": [
            {
                "key": key_of(row.metric)._asdict(),
                "measure": row.metric.name,
                **{name: getattr(row, name) for name in numbers},
                "verdict": row_verdict_text(row),
            }
            for row in result.rows
        ],
        "not_judged": [
            {"key": key._asdict(), "reason": reason} for key, reason in result.exclusions.items()
        ],
    }
