"""A run in columns, from its records or from the history: what a comparison is made of. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ciguard.history.file import CODE_NAMES
from ciguard.history.runs import UNMERGED_EVENTS
from ciguard.model import BAD_OUTCOMES, OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from numpy.typing import NDArray

    from ciguard.history.file import History
    from ciguard.history.runs import HistoryLeg
    from ciguard.model import CaseKey, Ending

    Codes = NDArray[np.uint8]
    Floats = NDArray[np.float64]
    MetricKey = tuple[str, str, tuple[tuple[str, str], ...]]  # name, unit, conditions

CODE: Final[Mapping[str, Mapping[str | None, int]]] = {
    name: {word or None: code for code, word in enumerate(words)}
    for name, words in CODE_NAMES.items()
}
_GOOD: Final = [CODE["outcome"][outcome] for outcome in OUTCOMES if outcome not in BAD_OUTCOMES]


@dataclass(frozen=True, slots=True)
class RunLeg:
    """One leg of a run; `complete` says that it ended by itself and its record is whole."""

    shard: str = ""
    job: str | None = None
    ending: Ending = "unknown"
    complete: bool = False
    wall_s: float | None = None
    peak_bytes: int | None = None
    memory_bytes: int | None = None  # of the runner
    probe_s: float | None = None  # a fixed piece of CPU work: how fast the runner is
    pool: str = ""
    units: int | None = None  # planned, where the history says so

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self.shard or self.job or ""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run's final results by case.

    Attributes:
        name: as it was asked for.
        legs: sorted by name.
        keys: sorted; all columns are of their length. NaN is not measured.
        outcome, ending, measured_by: positions in `codec.history.WORDS`.
        leg: position in `legs`.
        in_history: the history has this very run.
        retained_bytes: what stayed resident after each; None where nobody asks for it.
        process: the number of the process that ran each, -1 not known.
        sha: the tested commit, `parents` are its parents; `head_sha` is what was proposed.
        flaky: went wrong in a try and right in the last one.
        messages: of bad results, where they have one.
        metrics: numbers that programs gave; the history keeps none.
    """

    name: str
    keys: tuple[CaseKey, ...]
    outcome: Codes
    ending: Codes
    measured_by: Codes
    leg: NDArray[np.int32]
    wall_s: Floats
    peak_delta_bytes: Floats
    legs: tuple[RunLeg, ...] = ()
    planned_shards: int | None = None  # None where no leg said how many there are
    run_id: int | None = None
    run_attempt: int | None = None
    sha: str | None = None
    head_sha: str | None = None
    parents: tuple[str, ...] = ()
    repository: str | None = None
    branch: str | None = None
    event: str | None = None
    workflow: str | None = None
    at: datetime | None = None
    in_history: bool = False
    flaky: tuple[CaseKey, ...] = ()
    messages: Mapping[CaseKey, str] = field(default_factory=dict)
    metrics: Mapping[MetricKey, tuple[float, ...]] = field(default_factory=dict)
    retained_bytes: Floats | None = None
    process: NDArray[np.int32] | None = None

    @property
    def complete(self) -> bool:
        """Say that every leg that is known ended by itself."""
        return bool(self.legs) and all(leg.complete for leg in self.legs)

    @property
    def is_pull_request(self) -> bool:
        """Say that the run tested what is to be merged, and so is no baseline of anything."""
        return self.event in UNMERGED_EVENTS

    def is_same_as(self, other: Run) -> bool:
        """Say that both are the same measurement: comparing them would tell nothing."""
        if self is other:
            return True
        ids = (self.run_id, self.run_attempt), (other.run_id, other.run_attempt)
        if None not in (self.run_id, other.run_id) and ids[0] != ids[1]:
            return False
        if np.isnan(self.wall_s).all() or self.keys != other.keys:
            return False  # without a time two runs may be alike and yet be two
        return all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=True)
            for name in ("outcome", "ending", "wall_s", "peak_delta_bytes")
        )


def index_in(run: Run, other: Run) -> NDArray[np.int64]:
    """Where each case of a run is in another one; -1 where it is not."""
    if run.keys == other.keys:  # as in most pull requests: told in a fifth of the time
        return np.arange(len(run.keys), dtype=np.int64)
    at = {key: position for position, key in enumerate(other.keys)}
    return np.fromiter((at.get(key, -1) for key in run.keys), np.int64, len(run.keys))


def from_history(history: History, position: int, name: str = "") -> Run:
    """A run as the history remembers it: only values that it still keeps."""
    run = history.runs[position]
    values = history.values
    rows = np.flatnonzero(values.run == position)
    keys = values.key[rows].tolist()
    was_retried = values.try_number[rows] > 1
    completed = values.ending[rows] == CODE["ending"]["completed"]
    good = completed & np.isin(values.outcome[rows], _GOOD)
    columns: dict[str, Any] = {
        column: getattr(values, column)[rows]
        for column in (
            *("outcome", "ending", "measured_by", "leg"),
            *("wall_s", "peak_delta_bytes", "retained_bytes"),
        )
    }
    return Run(
        name=name or f"run {run.run_id}",
        keys=tuple(history.keys[key] for key in keys),
        legs=tuple(map(leg_from_history, run.legs)),
        run_id=run.run_id,
        run_attempt=run.run_attempt,
        sha=run.sha,
        parents=run.parents,
        repository=run.repository,
        branch=run.branch,
        event=run.event,
        workflow=run.workflow,
        at=run.at,
        in_history=True,
        flaky=tuple(history.keys[keys[row]] for row in np.flatnonzero(was_retried & good).tolist()),
        **columns,
    )


def leg_from_history(leg: HistoryLeg) -> RunLeg:
    """What the history knows of a leg."""
    return RunLeg(
        shard=leg.shard,
        job=leg.job,
        ending=leg.ending,
        complete=leg.complete,
        wall_s=leg.wall_s,
        peak_bytes=leg.peak_bytes if leg.peak_bytes is not None else leg.process_peak_bytes,
        memory_bytes=leg.runner.memory_bytes,
        probe_s=leg.runner.probe_s,
        pool=leg.runner.pool,
        units=leg.units_planned,
    )
