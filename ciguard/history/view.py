"""Views of a history: a table of its runs, and JSON Lines with an object for each value. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ciguard.codec.results.base import ExternalName
from ciguard.document import Block, Column, Paragraph, Table
from ciguard.history.file import BYTES, CODE_NAMES, SECONDS, History
from ciguard.history.runs import UNDATED, HistoryRun
from ciguard.text import count_of, one_line, size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime


_COLUMNS: Final = (
    Column("run", "right"),
    Column("at (UTC)"),
    Column("branch", drop=2),
    Column("event", drop=3),
    Column("sha", drop=1),
    Column("complete", "right"),
    Column("lost", "right"),
    Column("values", "right"),
)


def document(history: History, size_bytes: int) -> tuple[Block, ...]:
    """Return the table of runs, and the size of the history."""
    counts = np.bincount(history.values.run, minlength=len(history.runs)).tolist()
    rows = tuple(
        (
            f"{run.run_id}" + (f"/{run.run_attempt}" if run.run_attempt > 1 else ""),
            "-" if run.at == UNDATED else f"{run.at:%Y-%m-%d %H:%M}",
            run.branch or "-",
            run.event or "-",
            (run.sha or "-")[:7],
            f"{sum(leg.complete for leg in run.legs)}/{len(run.legs)}",
            f"{sum(len(leg.lost_units) for leg in run.legs):,}",
            f"{count:,}",
        )
        for run, count in zip(history.runs, counts, strict=True)
    )
    return Table(_COLUMNS, rows, noun="run"), Paragraph(contents(history, size_bytes))


def contents(history: History, size_bytes: int) -> str:
    """Return the numbers of runs, cases and values, and the size of the file."""
    counts = (
        count_of(len(history.runs), "run"),
        count_of(len(history.keys), "case"),
        count_of(len(history.values), "value"),
        *([count_of(len(history.metrics), "metric")] if history.metrics else []),
    )
    return f"{', '.join(counts)} ({size(size_bytes)})"


def incomplete_run(run: HistoryRun) -> str:
    """Return a sentence with the lost shards of a run and the number of their tests."""
    lost = [leg for leg in run.legs if not leg.complete]
    names = one_line(", ".join(leg.shard or leg.job or "-" for leg in lost), 300)
    units = count_of(sum(len(leg.lost_units) for leg in lost), "test")
    of_all = f"{len(lost):,} of {count_of(len(run.legs), 'shard')}"
    return f"run {run.run_id} is incomplete: {of_all} and {units} lost: {names}"


def when(at: datetime) -> str | None:
    """Return a time as a record writes it; None if unknown."""
    return None if at == UNDATED else at.isoformat().replace("+00:00", "Z")


def _leg_facts(run: HistoryRun) -> list[dict[str, Any]]:
    """Return for each leg the facts that its values share."""
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


def json_lines(history: History) -> Iterator[str]:
    """Yield a JSON object for each value, by key and then oldest first, with a record's words.

    Unknown and unmeasured facts are left out, never null.
    """
    values = history.values
    legs = [_leg_facts(run) for run in history.runs]
    words = {name: [word or None for word in listed] for name, listed in CODE_NAMES.items()}
    measures = {name: getattr(values, name) for name in (*SECONDS, *BYTES)}
    for row in range(len(values)):
        key = history.keys[values.key[row]]
        spelling = history.external_names.get(key, ExternalName())
        content: dict[str, Any] = {
            **legs[values.run[row]][values.leg[row]],
            **key._asdict(),
            **{name: word_of[getattr(values, name)[row]] for name, word_of in words.items()},
            "try": int(values.try_number[row]),
            **{name: _number(name, column[row]) for name, column in measures.items()},
            **spelling._asdict(),
        }
        known_content = {name: item for name, item in content.items() if item is not None}
        yield json.dumps(known_content, separators=(",", ":"), allow_nan=False)


def _number(name: str, value: np.float64) -> float | int | None:
    if np.isnan(value):
        return None
    return float(value) if name in SECONDS else int(value)
