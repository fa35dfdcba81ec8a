"""The runs of a history and their legs (one execution of a shard each), and their JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from pydantic import TypeAdapter

from ciguard.codec.coverage_file import Coverage
from ciguard.codec.record.lines import CHECKS, LineError, LineSchema, each, expect_list
from ciguard.model import ENDINGS, Ending, Runner, UnitCount, UnitKey

# Time of a run without one: before all dated runs, which are therefore kept longer.
UNDATED: Final = datetime.min.replace(tzinfo=UTC)
NO_RUNNER: Final = Runner()
# Events of unmerged changes: their results must not become the baseline of other runs.
UNMERGED_EVENTS: Final = ("pull_request", "pull_request_target", "merge_group")
MERGED_GROUP: Final = "merged_group"  # of a merge group's run whose commit is in the base branch


@dataclass(frozen=True, slots=True)
class SuiteOverhead:
    """Cost of a process of a suite beside its units, as measured in one leg.

    `base_bytes`: resident memory before the first unit, the least value; the rest are medians.
    `setup_s`, `teardown_s`: before the first unit and after the last one.
    `inter_test_s`: from the end of a unit to the start of the next one, the mean of a process.
    """

    suite: str = ""
    variant: str = ""
    base_bytes: int | None = None
    setup_s: float | None = None
    teardown_s: float | None = None
    inter_test_s: float | None = None


@dataclass(frozen=True, slots=True)
class HistoryLeg:
    """One leg of a run, in the newest attempt that executed it.

    `gpu_bytes` by device, `swap_growth_bytes` and `stalled_s`: as in `machine_use.py`.
    `cpu_s`: of all its processes. `used_bytes`: largest memory of the machine in use.
    `simulated_peak_bytes`: of the plan, for `peak_bytes`.
    `complete`: the leg ended by itself. `lost_units`: units without a result that an incomplete leg
    started or, if its plan is known, was to run. `planned` is None if the plan is not known.
    `suite` and `variant` are "" except for a file of another program, which has one of each.
    """

    shard: str = ""
    job: str | None = None
    suite: str = ""
    variant: str = ""
    run_attempt: int = 1
    ending: Ending = "unknown"
    complete: bool = False
    runner: Runner = NO_RUNNER
    wall_s: float | None = None  # a lower bound where not complete
    start_s: float | None = None  # until its first process
    end_s: float | None = None  # after the end of its last process
    cpu_s: float | None = None
    peak_bytes: int | None = None  # largest sample of the whole process tree
    process_peak_bytes: int | None = None  # largest high-water mark of one process
    gpu_bytes: Mapping[str, int] | None = None
    used_bytes: int | None = None
    swap_growth_bytes: int | None = None
    stalled_s: float | None = None
    simulated_peak_bytes: int | None = None
    plan_id: str = ""
    planned: tuple[UnitCount, ...] | None = None
    overheads: tuple[SuiteOverhead, ...] = ()
    lost_units: tuple[UnitKey, ...] = ()
    conditions: Mapping[str, str] | None = None  # variables that `[metrics] conditions` names

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Return the sort key of legs, which is the same in every attempt."""
        return (self.job or "", self.shard, self.suite, self.variant)


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """A workflow run; `run_attempt` is the newest one that was added, `at` its earliest start."""

    run_id: int
    run_attempt: int = 1
    at: datetime = UNDATED
    sha: str | None = None
    parents: tuple[str, ...] = ()
    branch: str | None = None
    event: str | None = None
    repository: str | None = None
    workflow: str | None = None
    legs: tuple[HistoryLeg, ...] = ()
    coverage: Coverage | None = None  # only of the newest run of a branch and workflow

    @property
    def order(self) -> tuple[datetime, int, int]:
        """Return the sort key of runs: oldest first; ties by id."""
        return (self.at, self.run_id, self.run_attempt)

    @property
    def is_unmerged(self) -> bool:
        """Return whether the run tested a change that is not merged."""
        return self.event in UNMERGED_EVENTS

    @property
    def complete(self) -> bool:
        """Return whether every known leg ended by itself."""
        return bool(self.legs) and all(leg.complete for leg in self.legs)


def _at(value: Any) -> datetime:
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise LineError(f"expected a time, found {value!r:.40}") from None
    if at.tzinfo is None:
        raise LineError(f"expected a time with its zone, found {value!r:.40}")
    return at.astimezone(UTC)


def _unit_key(value: Any) -> UnitKey:
    if len(expect_list(value)) != len(UnitKey._fields):
        raise LineError(f"expected suite, variant and test, found {value!r:.40}")
    return UnitKey(*map(CHECKS["str"], value))


def _ending(value: Any) -> str:
    """Return the ending; an unknown one, as another version may write it, is "unknown"."""
    text: str = CHECKS["str"](value)
    return text if text in ENDINGS else "unknown"


_CHECKS: Final = {
    **CHECKS,
    "Ending": _ending,
    "datetime": _at,
    "Coverage": TypeAdapter(Coverage).validate_python,
    "tuple[UnitKey, ...]": each(_unit_key),
}
_CHECKS["tuple[SuiteOverhead, ...]"] = each(LineSchema(SuiteOverhead, _CHECKS).build)
_CHECKS["tuple[UnitCount, ...]"] = each(LineSchema(UnitCount, _CHECKS).build)
_CHECKS["tuple[HistoryLeg, ...]"] = each(LineSchema(HistoryLeg, _CHECKS).build)
_RUN: Final = LineSchema(HistoryRun, _CHECKS)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        content = ((field, getattr(value, field.name)) for field in fields(value))
        # Defaults are left out: 20 runs of 110 legs consist mostly of defaults.
        return {field.name: _plain(item) for field, item in content if item != field.default}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value  # also a dict of texts


def runs_as_json(runs: tuple[HistoryRun, ...]) -> list[Any]:
    """Convert runs to JSON, which `runs_of_json` reads."""
    return [_plain(run) for run in runs]


def runs_of_json(content: Any) -> tuple[HistoryRun, ...]:
    """Read runs from JSON.

    Raises:
        LineError: a value has the wrong type, or the runs are not sorted or not unique.
    """
    runs: tuple[HistoryRun, ...] = each(_RUN.build)(content)
    if any(after.order < before.order for before, after in pairwise(runs)):
        raise LineError("runs out of order")
    if len({run.run_id for run in runs}) != len(runs):
        raise LineError("a run twice")
    for run in runs:
        identities = [leg.identity for leg in run.legs]
        if identities != sorted(set(identities)):
            raise LineError(f"run {run.run_id}: shards out of order, or a shard twice")
    return runs
