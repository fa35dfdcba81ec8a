"""What running units again on two commits comes to: rows, why others have none, a verdict. Pure."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ciguard.compare.experiment.conduct import pairs_of, series_of
from ciguard.compare.experiment.confirming import LEVEL, PAIRS, judged
from ciguard.compare.experiment.outcome import row_verdict, verdict_of
from ciguard.compare.experiment.units import key_of
from ciguard.compare.experiment.words import interval_words, value_words
from ciguard.compare.words import percent
from ciguard.text import case_name, counted, duration, one_line, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.compare.experiment.conduct import Why
    from ciguard.compare.experiment.design import Design, Side, Step
    from ciguard.compare.experiment.measured import Measured
    from ciguard.compare.experiment.outcome import Verdict
    from ciguard.compare.experiment.paired import Row
    from ciguard.compare.experiment.units import Wanted
    from ciguard.model import CaseKey

SCHEMA: Final = 1
COLUMNS: Final = 80
NAME_WIDTH: Final = 68
NAMES: Final[Mapping[Side, str]] = {"a": "base", "b": "head"}
HEADER: Final = ("", "base", "head", "change", "95 % CI", "n", "")
RIGHT: Final = frozenset({1, 2, 3, 4, 5})
RATE: Final = (
    "A paired test, its scale moderated over all tests; of what is called different at most "
    f"{100 * LEVEL:.0f} % is expected to be chance."
)


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The answer.

    Attributes:
        rows: of cases that passed in every run of both sides; those that differ come first.
        troubles: why a case is not among them.
        pairs: whole ones. why: with what it was over. failure: of the run with which it was.
        asked: whether each row was a suspect, or whatever its units gave.
    """

    verdict: Verdict
    rows: tuple[Row, ...]
    troubles: Mapping[CaseKey, str]
    commits: Mapping[Side, str]
    design: Design
    pairs: tuple[int, ...]
    why: Why
    wall_s: float
    units: int
    failure: str = ""
    stopped_by: int = 0

    @property
    def is_complete(self) -> bool:
        """Say that enough was run to judge by, and that nobody stopped it."""
        return not self.failure and not self.stopped_by and min(self.pairs) >= PAIRS


def concluded(
    design: Design,
    done: Sequence[Measured],
    why: Why,
    *,
    commits: Mapping[Side, str],
    wanted: Wanted,
    troubles: Mapping[CaseKey, str],
    wall_s: float,
    stopped_by: int = 0,
) -> Confirmation:
    """Judge the runs; a case that went wrong in one of them is compared with nothing."""
    series = [
        one
        for one in series_of(done)
        if key_of(one.metric) not in troubles and (wanted.rows is None or one.metric in wanted.rows)
    ]
    rows = sorted(judged(series), key=lambda row: (not row.differs, row.metric.name, row.metric))
    pairs = pairs_of(done, 1)
    failure = next((f"{words_of(one.step)}: {one.failure}" for one in done if one.failure), "")
    enough = min(pairs) >= PAIRS and not failure and any(row.p is not None for row in rows)
    return Confirmation(
        verdict=verdict_of(rows, pairs) if enough else "not enough data",
        rows=tuple(rows),
        troubles=dict(sorted(troubles.items())),
        commits=commits,
        design=design,
        pairs=pairs,
        why=why,
        wall_s=wall_s,
        units=len(wanted.units),
        failure=failure,
        stopped_by=stopped_by,
    )


def words_of(step: Step) -> str:
    """ "base, warm run 1", "head, run 3"."""
    return f"{NAMES[step.side]}{step.words.removeprefix(step.side)}"


def word_of(row: Row) -> str:
    """What a row says: "slower", "not judged", or "-" where nothing differs."""
    if row.p is None:
        return "too short" if row.n >= PAIRS else "not enough data"
    return row_verdict(row) if row.differs else "-"


def row_words(row: Row, width: int = 200) -> tuple[str, ...]:
    """The row's cells, by `HEADER`."""
    what = "" if row.is_time else " (memory)"
    return (
        case_name(key_of(row.metric), width - len(what)) + what,
        value_words(row.metric, row.before),
        value_words(row.metric, row.after),
        "-" if row.ratio is None else percent(row.ratio),
        interval_words(row),
        str(row.n),
        word_of(row),
    )


def why_words(found: Confirmation) -> str:
    """How much was run, and why not more."""
    warm = counted(found.design.warm, "warm run")
    said = (
        f"{counted(found.units, 'unit')}, {counted(min(found.pairs), 'run')} on each commit "
        f"({warm} before), in {duration(found.wall_s)}"
    )
    reasons = {
        "budget": f"; the budget was spent before all {found.design.runs} were made",
        "failed": "; ended by a run that failed",
        "interrupted": "; incomplete: interrupted",
    }
    return said + reasons.get(found.why, "")


def as_text(found: Confirmation) -> str:
    """80 columns; the last line is the verdict."""
    lines = [f"base  {found.commits['a']}", f"head  {found.commits['b']}"]
    lines += [_wrapped(why_words(found)), ""]
    if found.rows:
        lines += [*_fitting([HEADER, *map(row_words, found.rows)]), ""]
    if found.troubles:
        for key, why in found.troubles.items():
            lines += [f"not judged: {case_name(key, NAME_WIDTH)}", _wrapped(why, "  ")]
        lines.append("")
    if found.failure:
        first, *rest = found.failure.splitlines()
        lines += [_wrapped(first), *(f"    {line}" for line in rest), ""]
    return "\n".join([*lines, _wrapped(RATE), "", found.verdict]) + "\n"


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


def as_json(found: Confirmation) -> dict[str, Any]:
    """Every key is there; null is what is not known."""
    numbers = ("n", "before", "after", "ratio", "low", "high", "p")
    return {
        "schema": SCHEMA,
        "verdict": found.verdict,
        "complete": found.is_complete,
        "ended": found.why,
        "failure": found.failure or None,
        "base": found.commits["a"],
        "head": found.commits["b"],
        "pairs": list(found.pairs),
        "wall_s": found.wall_s,
        "rows": [
            {
                "key": key_of(row.metric)._asdict(),
                "measure": row.metric.name,
                **{name: getattr(row, name) for name in numbers},
                "verdict": word_of(row),
            }
            for row in found.rows
        ],
        "not_judged": [
            {"key": key._asdict(), "reason": reason} for key, reason in found.troubles.items()
        ],
    }
