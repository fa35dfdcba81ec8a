"""A history in words: one JSON object a value, and a table of its runs. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ciguard.codec.history import BYTES, SECONDS, WORDS, History, Spelling
from ciguard.codec.history_runs import UNDATED, HistoryRun

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime


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
    words = {name: [word or None for word in known] for name, known in WORDS.items()}
    measures = {name: getattr(values, name) for name in (*SECONDS, *BYTES)}
    for row in range(len(values)):
        key = history.keys[values.key[row]]
        spelling = history.spellings.get(key, Spelling())
        content: dict[str, Any] = {
            **legs[values.run[row]][values.leg[row]],
            **key._asdict(),
            **{name: known[getattr(values, name)[row]] for name, known in words.items()},
            "try": int(values.try_number[row]),
            **{name: _number(name, column[row]) for name, column in measures.items()},
            **spelling._asdict(),
        }
        told = {name: item for name, item in content.items() if item is not None}
        yield json.dumps(told, separators=(",", ":"), allow_nan=False)


def _number(name: str, value: np.float64) -> float | int | None:
    if np.isnan(value):
        return None
    return float(value) if name in SECONDS else int(value)


def table(history: History) -> list[tuple[str, ...]]:
    """The runs, oldest first, with a line of headings."""
    counts = np.bincount(history.values.run, minlength=len(history.runs)).tolist()
    rows: list[tuple[str, ...]] = [
        ("run", "attempt", "at", "branch", "event", "sha", "legs", "complete", "lost", "values")
    ]
    for run, count in zip(history.runs, counts, strict=True):
        rows.append(
            (
                str(run.run_id),
                str(run.run_attempt),
                when(run.at) or "-",
                run.branch or "-",
                run.event or "-",
                (run.sha or "-")[:12],
                str(len(run.legs)),
                str(sum(leg.complete for leg in run.legs)),
                str(sum(len(leg.lost) for leg in run.legs)),
                str(count),
            )
        )
    return rows
