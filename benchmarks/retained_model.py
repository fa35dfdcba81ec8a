"""How well a process's peak is predicted: its base, what stayed behind, each test's own delta.

    .venv/bin/python benchmarks/retained_model.py [--subsets 14] [--tests 60] [--seed 1]

A leaking suite runs in one process, once, or four times in random orders; base, peak deltas (the
largest) and retained bytes (the mean) are taken from those records, as the plan takes them from
history. Then random subsets of it, in random order, run in one process each, and the prediction
that stands in the leg's own record is compared with the peak that the process came to. What tests
need for a moment varies by 5 %. In the second suite a third of the tests also use one of three
caches, which the first of them fills: whose that is, no model knows. Target: 5 % mean error for
leaks. Beside it, what simpler models would have said.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from plugin_overhead import interval

from ciguard.codec import plan_file as plan_codec
from ciguard.model import (
    InventorySummary,
    LegPolicy,
    Plan,
    PlannedUnit,
    Pool,
    Prediction,
    Shard,
    Suite,
)
from ciguard.sources.local import read_record_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.model import Record, Result

MIB: Final = 1 << 20
COMMAND: Final = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
PEAKS_MIB, LEAKS_MIB = (0, 0, 1, 4, 16, 64, 150), (0, 0, 0, 1, 3, 8, 12)
CACHES_MIB: Final = (10, 20, 40)
START: Final = """
import functools, random
kept = []
@functools.cache
def cache(size_mib): return b"x" * (size_mib << 20)
"""
TEST: Final = """
def test_{number}():
    vary = random.uniform(0.95, 1.05)
    {cache}
    passing = {passing}
    kept.append({kept})
"""


class Answered(NamedTuple):
    """Of one subset: its tests, and in bytes what came and what each model said."""

    tests: int
    observed: int
    model: int
    largest_delta: int
    sum_of_deltas: int
    largest_mark: int


def block(size_mib: int, *, small: bool, vary: bool = False) -> str:
    """An expression that holds so much: one block, or many of 1 KiB, which a heap may reuse."""
    if small:
        return f"[b'x' * 991 for _ in range(int({size_mib * 1000}{' * vary' * vary}))]"
    return f"b'x' * int({size_mib * MIB}{' * vary' * vary})"


def suite_text(tests: int, chance: random.Random, *, caches: bool) -> str:
    """Tests that need and keep different sizes; some allocate in pieces."""
    parts = [START]
    for number in range(tests):
        passing = block(chance.choice(PEAKS_MIB), small=chance.random() < 0.3, vary=True)
        stored = block(chance.choice(LEAKS_MIB), small=chance.random() < 0.3)
        shares = caches and chance.random() < 1 / 3
        cache = f"cache({chance.choice(CACHES_MIB)})" if shares else "pass"
        parts.append(TEST.format(number=number, cache=cache, passing=passing, kept=stored))
    return "\n".join(parts)


def run(folder: Path, name: str, units: Sequence[PlannedUnit], base_bytes: int | None) -> Record:
    """One leg with these units in one process; its record."""
    plan = Plan(
        id="",
        suites={"": Suite("pytest", COMMAND, base_bytes=base_bytes)},
        pools={"p": Pool("ubuntu-latest")},
        policy=LegPolicy(guard_rail="off"),
        shards=(Shard("01", "p", tuple(units), Prediction(1.0, 1.0)),),
        lower_bound_s=1.0,
        gap=0.0,
        inventory=InventorySummary(len(units), {}, "0"),
    )
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))
    words = ("--plan", "plan.json", "--shard", "01", "--record", name)
    command = [sys.executable, "-m", "ciguard", "run", *words]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (record,) = read_record_tree(folder / name)
    assert len(record.processes) == 1
    assert len(record.results) == len(units)
    return record


def learned(records: Sequence[Record]) -> tuple[int, dict[str, PlannedUnit], dict[str, int]]:
    """Base, what is known of each test, and its largest absolute mark."""
    base = max(record.results[0].rss_before_bytes or 0 for record in records)
    by_unit: dict[str, list[Result]] = {}
    for record in records:
        for result in record.results:
            by_unit.setdefault(result.unit, []).append(result)
    known = {
        unit: PlannedUnit(
            unit,
            peak_delta_bytes=max(one.peak_delta_bytes or 0 for one in found),
            retained_bytes=round(statistics.mean(one.retained_bytes or 0 for one in found)),
        )
        for unit, found in by_unit.items()
    }
    return base, known, {unit: max(one.peak_bytes or 0 for one in by_unit[unit]) for unit in known}


def compared(
    record: Record, units: Sequence[PlannedUnit], base: int, marks: dict[str, int]
) -> Answered:
    deltas = [unit.peak_delta_bytes or 0 for unit in units]
    return Answered(
        tests=len(units),
        observed=record.process_ends[0].peak_bytes or 0,
        model=record.processes[0].predicted_peak_bytes or 0,
        largest_delta=base + max(deltas),
        sum_of_deltas=base + sum(deltas),
        largest_mark=max(marks[unit.unit] for unit in units),
    )


def measured(tests: int, subsets: int, seed: int, *, runs: int, caches: bool) -> list[Answered]:
    """Learn one suite from so many runs, and predict random subsets of it."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        (folder / "test_leaks.py").write_text(suite_text(tests, chance, caches=caches))
        every = [PlannedUnit(f"test_leaks.py::test_{number}") for number in range(tests)]
        orders = [every, *(chance.sample(every, tests) for _ in range(runs - 1))]
        records = [run(folder, f"all-{n}", order, None) for n, order in enumerate(orders)]
        base, known, marks = learned(records)
        found = []
        for number in range(subsets):
            units = chance.sample(list(known.values()), chance.randint(5, tests))
            record = run(folder, f"subset-{number}", units, base)
            found.append(compared(record, units, base, marks))
    return found


def print_table(found: Sequence[Answered]) -> None:
    """Print how far off each model was."""
    observed = [one.observed / MIB for one in found]
    print(
        f"  {len(found)} random subsets, "
        f"{min(one.tests for one in found)} to {max(one.tests for one in found)} tests; "
        f"observed peaks {min(observed):.0f} to {max(observed):.0f} MiB"
    )
    print(f"  {'model':32}{'mean error':>12}{'median (95 % interval)':>28}{'worst':>9}")
    for title, values in (
        ("base + retained + own delta", [one.model for one in found]),
        ("base + largest delta", [one.largest_delta for one in found]),
        ("base + sum of deltas", [one.sum_of_deltas for one in found]),
        ("largest absolute mark", [one.largest_mark for one in found]),
    ):
        errors = [value / one.observed - 1 for value, one in zip(values, found, strict=True)]
        sizes = [abs(error) for error in errors]
        low, high, _ = interval(sizes)
        middle = f"{statistics.median(sizes):.1%} ({low:.1%}..{high:.1%})"
        worst = max(errors, key=abs)
        print(f"  {title:32}{statistics.mean(sizes):12.1%}{middle:>28}{worst:+9.1%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subsets", type=int, default=14)
    parser.add_argument("--tests", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for caches, runs in ((False, 1), (True, 1), (True, 4)):
        shared = "leaks and shared caches" if caches else "leaks"
        print(f"{options.tests} tests, {shared}, learned from runs: {runs}; seed {options.seed}")
        tests, subsets, seed = options.tests, options.subsets, options.seed
        print_table(measured(tests, subsets, seed, runs=runs, caches=caches))


if __name__ == "__main__":
    main()
