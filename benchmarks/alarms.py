"""Alarms a run on real recordings, beside "> 10 % against the last run".

    python benchmarks/alarms.py

Durations: the last 12 recordings of five suites, of different commits, so that not every alarm is
false; memory: 15 runs of 178 benchmarks, GiBs of a cluster. Each recording is a candidate that the
one before it may confirm, and the rest before it are its baseline: from three on there are
suspects, and from ten on some may be confirmed.
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from intervals import rated
from recordings import FOLDER

from ciguard.compare.compare_runs import compare_run
from ciguard.compare.run_columns import Run, RunLeg
from ciguard.history.file import CODE
from ciguard.model import CaseKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.compare.measure_changes import MeasureVerdict

FEW = 3  # baseline runs, before there are suspects
LEAST = 10  # and before any is confirmed
TENTH = 1.1


def run_of(number: int, walls: Mapping[str, float], peaks: Mapping[str, float]) -> Run:
    """A run of one leg; every test passed."""
    names = sorted({*walls, *peaks})
    count = len(names)

    def column(values: Mapping[str, float]) -> np.ndarray[Any, Any]:
        return np.array([values.get(name, np.nan) for name in names], np.float64)

    def code(name: str, word: str) -> np.ndarray[Any, Any]:
        return np.full(count, CODE[name][word], np.uint8)

    return Run(
        name=f"recording {number}",
        keys=tuple(CaseKey("", "", name, name) for name in names),
        outcome=code("outcome", "passed"),
        ending=code("ending", "completed"),
        measured_by=code("measured_by", "mark"),
        leg=np.zeros(count, np.int32),
        wall_s=column(walls),
        peak_delta_bytes=column(peaks),
        legs=(RunLeg("01", ending="completed", complete=True),),
        run_id=number + 1,
    )


def over_a_tenth(before: Mapping[str, float], after: Mapping[str, float]) -> int:
    return sum(after[name] > TENTH * value for name, value in before.items() if name in after)


def confirmed(verdict: MeasureVerdict) -> int:
    return len(verdict.of_tier("confirmed"))


def print_rates(what: str, series: Sequence[Mapping[str, float]], *, memory: bool) -> None:
    nothing: dict[str, float] = {}
    runs = [
        run_of(n, nothing if memory else values, values if memory else nothing)
        for n, values in enumerate(series)
    ]
    candidates = range(FEW + 1, len(runs))
    naive = alarms = suspects = named = doubled = confirmable = 0
    for at in candidates:
        found = compare_run(runs[at], None, runs[: at - 1], previous=runs[at - 1])
        verdict = found.memory if memory else found.durations
        confirmable += at - 1 >= LEAST
        alarms += confirmed(verdict)
        suspects += verdict.suspects
        named += 0 if memory else len(verdict.unconfirmed)
        doubled += found.is_doubled
        naive += over_a_tenth(series[at - 1], series[at])
    count, tests = len(candidates), max(map(len, series))
    print(
        f"{what:<22}{tests:>6} tests {count:>2} runs   > 10 %: {naive / count:7.1f} a run"
        f"   suspects {suspects / count:6.1f}   named unconfirmed {named / count:5.1f}"
        f"   sum doubled {doubled}   confirmed {rated(alarms, confirmable)}"
        f" in {confirmable}",
        flush=True,
    )


def main() -> None:
    if not FOLDER.is_dir():
        print(f"{FOLDER} is not there: nothing measured")
        return
    for path in sorted((FOLDER / "duration-history").glob("*.json.gz")):
        series = [one["durations"] for one in json.loads(gzip.decompress(path.read_bytes()))]
        print_rates(path.name.removesuffix(".json.gz"), series, memory=False)
    content = gzip.decompress((FOLDER / "memory" / "coiled-benchmarks.json.gz").read_bytes())
    tests = json.loads(content)["tests"]
    longest = max(map(len, tests.values()))
    peaks: list[dict[str, float]] = [{} for _ in range(longest)]
    for name, values in tests.items():
        for at, one in enumerate(sorted(values, key=lambda one: one["start"])):
            if one["outcome"] == "passed" and one["peak_memory_bytes"]:
                peaks[at][name] = one["peak_memory_bytes"]
    print_rates("coiled, memory", peaks, memory=True)


if __name__ == "__main__":
    main()
