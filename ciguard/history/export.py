"""A history as JSON Lines: one object a value. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ciguard.codec.results.base import ExternalName
from ciguard.history.file import BYTES, CODE_NAMES, SECONDS, History
from ciguard.history.runs import UNDATED, HistoryRun

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
