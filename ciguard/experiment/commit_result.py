"""What running units again on two commits comes to: rows, why others have none, a verdict. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.experiment.commit_test import MIN_PAIRS, evaluate_rows
from ciguard.experiment.loop import pairs_of, series_of
from ciguard.experiment.result import row_verdict, verdict_of
from ciguard.experiment.unit_plan import key_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.experiment.loop import StopReason
    from ciguard.experiment.measurement import Measurement
    from ciguard.experiment.paired_test import Row
    from ciguard.experiment.result import Verdict
    from ciguard.experiment.schedule import Design, Side
    from ciguard.experiment.unit_plan import Exclusion, Request
    from ciguard.model import CaseKey

SIDES: Final[Mapping[Side, str]] = {"a": "base", "b": "head"}


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The answer.

    Attributes:
        rows: of cases that passed in every run of both sides; those that differ come first.
        exclusions: why a case is not among them.
        pairs: whole ones.
        failed: the run that stopped it.
    """

    verdict: Verdict
    rows: tuple[Row, ...]
    exclusions: Mapping[CaseKey, Exclusion]
    commits: Mapping[Side, str]
    design: Design
    pairs: tuple[int, ...]
    stopped_because: StopReason
    wall_s: float
    units: int
    failed: Measurement | None = None
    stopped_by: int = 0

    @property
    def is_complete(self) -> bool:
        """Say that enough was run to judge by, and that nobody stopped it."""
        return self.failed is None and not self.stopped_by and min(self.pairs) >= MIN_PAIRS


def conclude(
    design: Design,
    done: Sequence[Measurement],
    why: StopReason,
    *,
    commits: Mapping[Side, str],
    request: Request,
    exclusions: Mapping[CaseKey, Exclusion],
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
    failed = next((one for one in done if one.failure), None)
    enough = min(pairs) >= MIN_PAIRS and failed is None and any(row.p is not None for row in rows)
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
        failed=failed,
        stopped_by=stopped_by,
    )


def row_verdict_of(row: Row) -> str:
    """ "slower", "too short", "not enough data"; "-" where nothing differs."""
    if row.p is None:
        return "too short" if row.n >= MIN_PAIRS else "not enough data"
    return row_verdict(row) if row.differs else "-"
