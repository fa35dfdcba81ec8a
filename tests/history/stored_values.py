"""The values of a history as a test names them: by their words, without what is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ciguard.history.file import CODE_NAMES, MEASURES, SECONDS, History, decode
from ciguard.history.runs import UNDATED


def values_of(history: History) -> list[dict[str, Any]]:
    """All of them, by key and then the oldest first."""
    found, values = [], history.values
    for row in range(len(values)):
        run, key = history.runs[values.run[row]], history.keys[values.key[row]]
        leg, names = run.legs[values.leg[row]], history.external_names.get(key)
        content: dict[str, Any] = {
            **{name: getattr(run, name) for name in ("run_id", "sha", "branch", "event")},
            "at": None if run.at == UNDATED else run.at,
            "run_attempt": leg.run_attempt,
            "job": leg.job,
            "shard": leg.shard or None,
            "shard_ending": leg.ending,
            **key._asdict(),
            **{
                name: words[getattr(values, name)[row]] or None
                for name, words in CODE_NAMES.items()
            },
            "try": int(values.try_number[row]),
            **{name: _measure(name, getattr(values, name)[row]) for name in MEASURES},
            **(names._asdict() if names else {}),
        }
        found.append({name: item for name, item in content.items() if item is not None})
    return found


def values_in(path: Path) -> list[dict[str, Any]]:
    return values_of(decode(path.read_bytes(), str(path)))


def _measure(name: str, value: np.float64) -> float | int | None:
    if np.isnan(value):
        return None
    return float(value) if name in SECONDS else int(value)
