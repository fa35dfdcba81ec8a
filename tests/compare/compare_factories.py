"""Runs made of lines, as legs write them, and of columns, as a simulation draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ciguard.codec.record.lines import encode
from ciguard.codec.record.reader import read_records
from ciguard.compare.run_columns import Run, RunLeg, runs_from_records
from ciguard.history.file import CODE
from ciguard.model import (
    CaseKey,
    Ending,
    EndLine,
    EventLine,
    Line,
    ProcessEndLine,
    Result,
    Runner,
    SampleLine,
    ShardLine,
    StartLine,
)

MIB = 1024 * 1024


def case(unit: str, wall_s: float | None = 0.2, mib: float | None = 20.0, **more: Any) -> Result:
    """A result that passed, unless `more` says something else."""
    peak = None if mib is None else round(mib * MIB)
    values: dict[str, Any] = {
        "outcome": "passed",
        "case": unit,
        "wall_s": wall_s,
        "peak_delta_bytes": peak,
        "measured_by": None if mib is None else "mark",
        "process": 1,
    }
    return Result(unit=unit, **{**values, **more})


def died(unit: str, ending: str, **more: Any) -> Result:
    """A result of a unit that did not survive."""
    return case(unit, None, None, outcome="died", ending=ending, **more)


def leg_lines(shard: str, results: Sequence[Result], **facts: Any) -> list[Line]:
    """What a leg writes; `facts` are of its shard line, and `ending`, `wall_s`, `peak_mib`,
    `swap_mib`, `gpu_mib` by device, and the `execution` that its framework announced.
    """
    ending, execution = facts.pop("ending", "completed"), facts.pop("execution", None)
    wall_s, peak = facts.pop("wall_s", 10.0), facts.pop("peak_mib", 500)
    facts_of_gpus, swap = facts.pop("gpu_mib", {}), facts.pop("swap_mib", None)
    values: dict[str, Any] = {"plan_id": "p", "run_id": 1, "run_attempt": 1, "branch": "main"}
    runner = Runner("default", 4, 16384 * MIB, probe_s=0.3)
    header = ShardLine(**{**values, "shard": shard, "runner": runner, **facts})
    gpus = {device: mib * MIB for device, mib in facts_of_gpus.items()}
    lines: list[Line] = [
        header,
        SampleLine(0.5, swap_used_bytes=None if swap is None else 7 * MIB),
        SampleLine(1.0, peak * MIB, None, None, swap and (7 + swap) * MIB, gpu_bytes=gpus),
    ]
    for result in results:
        lines += [StartLine(result.unit, result.suite, result.variant, 1), result]
    if execution is not None:
        lines.append(EventLine("execution", reason=execution))
    lines.append(ProcessEndLine(1, "completed", 0, wall_s))
    if ending is not None:
        lines.append(EndLine(ending, wall_s, 0))
    return lines


def files_of(legs: Mapping[str, Sequence[Result]], **facts: Any) -> dict[str, bytes]:
    """The record files of a run, by path."""
    folder = f"{facts.get('run_id', 1)}-{facts.get('run_attempt', 1)}"
    return {
        f"{folder}/{shard}/supervisor.jsonl": b"".join(
            map(encode, leg_lines(shard, results, **facts))
        )
        for shard, results in legs.items()
    }


def run_of(legs: Mapping[str, Sequence[Result]], name: str = "run", **facts: Any) -> Run:
    """A run, read from its files."""
    return runs_from_records(read_records(files_of(legs, **facts).items()), name)[-1]


def column_run(
    wall_s: Sequence[float] | np.ndarray[Any, Any],
    peaks: Sequence[float] | np.ndarray[Any, Any] | None = None,
    *,
    run_id: int = 1,
    leg: np.ndarray[Any, Any] | None = None,
    complete: bool = True,
) -> Run:
    """A run of cases t00000, t00001, ... that all passed; NaN is not measured."""
    count = len(wall_s)
    keys = tuple(CaseKey("", "", f"t{n:05}", f"t{n:05}") for n in range(count))
    legs = leg if leg is not None else np.zeros(count, np.int32)
    number = int(legs.max()) + 1 if count else 1
    ending: Ending = "completed" if complete else "unknown"
    return Run(
        name=f"run {run_id}",
        keys=keys,
        outcome=np.full(count, CODE["outcome"]["passed"], np.uint8),
        ending=np.full(count, CODE["ending"]["completed"], np.uint8),
        measured_by=np.full(count, CODE["measured_by"]["mark"], np.uint8),
        leg=legs.astype(np.int32),
        wall_s=np.asarray(wall_s, np.float64),
        peak_delta_bytes=np.asarray(
            peaks if peaks is not None else np.full(count, np.nan), np.float64
        ),
        legs=tuple(
            RunLeg(f"{n + 1:02}", ending=ending, complete=complete, wall_s=100.0)
            for n in range(number)
        ),
        run_id=run_id,
    )
