"""Views of a history: a table of its runs, and sentences about them. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from ciguard.document import Block, Column, Paragraph, Table
from ciguard.history.file import History
from ciguard.history.runs import UNDATED, HistoryRun
from ciguard.text import count_of, one_line, size

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
