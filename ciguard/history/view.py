"""What `ciguard history show` shows: a line for each run, oldest first. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.document import Column, Paragraph, Table
from ciguard.history.runs import UNDATED
from ciguard.text import count_of, size

if TYPE_CHECKING:
    from ciguard.document import Block
    from ciguard.history.file import History

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
    """The runs, and how much the history holds."""
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
    """How many runs, cases and values there are, and the size of the file."""
    counts = (
        count_of(len(history.runs), "run"),
        count_of(len(history.keys), "case"),
        count_of(len(history.values), "value"),
    )
    return f"{', '.join(counts)} ({size(size_bytes)})"
