"""A history in words: one JSON object a value, and a table of its runs. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ciguard.codec.results.base import ExternalName
from ciguard.history.file import BYTES, CODE_NAMES, SECONDS, History
from ciguard.history.runs import UNDATED, HistoryRun

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime


COLUMNS: Final = 80
GAP: Final = 2
NUMBERS: Final = frozenset({0, 5, 6, 7})  # columns of the table that are aligned to the right
TRUNCATABLE_COLUMNS: Final = (
    2,
    3,
)  # columns that may be cut, the wider one first: branch and event
MIN_WIDTH: Final = 6


def when(at: datetime) -> str | None:
    """As a record writes it; None where nobody said."""
    return None if at == UNDATED else at.isoformat().replace("+00:00", "Z")


def _of_run(run: HistoryRun) -> list[dict[str, Any]]:
    """What all values of a run's legs have in common, by leg."""
    return [
        {
            "run_id": run.run_id,
            "run_attempt": leg.run_attempt,
            "at": when(run.at),
            "sha": run.sha,
            "branch": run.branch,
            "event": run.event,
            "job": leg.job,
            "shard": leg.shard or None,
            "shard_ending": leg.ending,
        }
        for leg in run.legs
    ]


def lines(history: History) -> Iterator[str]:
    """One JSON object a value, by key and then oldest first, in the record's words.

    What is not known or was not measured is left out, never null.
    """
    values = history.values
    legs = [_of_run(run) for run in history.runs]
    words = {name: [word or None for word in known] for name, known in CODE_NAMES.items()}
    measures = {name: getattr(values, name) for name in (*SECONDS, *BYTES)}
    for row in range(len(values)):
        key = history.keys[values.key[row]]
        spelling = history.external_names.get(key, ExternalName())
        content: dict[str, Any] = {
            **legs[values.run[row]][values.leg[row]],
            **key._asdict(),
            **{name: known[getattr(values, name)[row]] for name, known in words.items()},
            "try": int(values.try_number[row]),
            **{name: _number(name, column[row]) for name, column in measures.items()},
            **spelling._asdict(),
        }
        content_lines = {name: item for name, item in content.items() if item is not None}
        yield json.dumps(content_lines, separators=(",", ":"), allow_nan=False)


def _number(name: str, value: np.float64) -> float | int | None:
    if np.isnan(value):
        return None
    return float(value) if name in SECONDS else int(value)


def table(history: History) -> list[tuple[str, ...]]:
    """The runs, oldest first, with a line of headings: at most `COLUMNS` wide.

    Branch and event give way to what must stay whole.
    """
    counts = np.bincount(history.values.run, minlength=len(history.runs)).tolist()
    rows: list[tuple[str, ...]] = [
        ("run", "at (UTC)", "branch", "event", "sha", "complete", "lost", "values")
    ]
    for run, count in zip(history.runs, counts, strict=True):
        attempt = f"/{run.run_attempt}" if run.run_attempt > 1 else ""
        rows.append(
            (
                f"{run.run_id}{attempt}",
                "-" if run.at == UNDATED else f"{run.at:%Y-%m-%d %H:%M}",
                run.branch or "-",
                run.event or "-",
                (run.sha or "-")[:7],
                f"{sum(leg.complete for leg in run.legs)}/{len(run.legs)}",
                str(sum(len(leg.lost_units) for leg in run.legs)),
                str(count),
            )
        )
    return _truncate_columns(rows)


def _truncate_columns(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    excess = sum(widths) + GAP * (len(widths) - 1) - COLUMNS
    for _ in range(excess):
        widest = max(TRUNCATABLE_COLUMNS, key=lambda place: widths[place])
        widths[widest] = max(MIN_WIDTH, widths[widest] - 1)
    return [
        tuple(
            f"{cell[: widths[at] - 3]}..." if len(cell) > widths[at] else cell
            for at, cell in enumerate(row)
        )
        for row in rows
    ]
