"""How well plans predict the memory and the time of shards: real suites, run after run.

    .venv/bin/python benchmarks/memory_prediction.py CHECKOUT --work FOLDER [--shards 4] [--runs 5]

CHECKOUT has a `ciguard.toml`, or gets that of `--config`. Each run is planned with the history of
the runs before, as `ciguard plan` does it, all shards run one after another, and the run is added.
For each shard of run 2 and later: predicted and measured peak of the process tree, predicted and
measured wall time, and the parts of the peak by which the simulation was wrong: base (resident
memory before the first test), kept (what a process retained when it came to its peak), test (what
the test at the peak needed), tree (other processes beside the one with the peak). Existing runs in
FOLDER are not run again. A summary says how many shards were within 10 % of their memory and 15 %
of their time, and the longest over the mean shard of each run. The parts of suites with children
overlap: a test's planned peak has its children, which are in the tree as well.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ciguard.model.record import newest_by_shard
from ciguard.sources import local

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.model import Plan, Record, Shard

MIB: Final = 1 << 20
CIGUARD: Final = Path(sys.executable).with_name("ciguard")
MEMORY_WITHIN, TIME_WITHIN = 0.10, 0.15
FAR_ABOVE: Final = 0.20


@dataclass(frozen=True, slots=True)
class Row:
    """One shard of one run; sizes in bytes, None where not known."""

    run: int
    shard: str
    predicted: int | None
    measured: int | None
    predicted_s: float
    measured_s: float | None
    parts: dict[str, int]

    @property
    def memory_error(self) -> float | None:
        """Measured over predicted, minus 1."""
        return self.measured / self.predicted - 1 if self.measured and self.predicted else None

    @property
    def time_error(self) -> float | None:
        """Measured over predicted, minus 1."""
        return self.measured_s / self.predicted_s - 1 if self.measured_s else None


def call(checkout: Path, *words: str | Path, expect: Sequence[int] = (0,)) -> None:
    """Run a command of ciguard in the checkout; stop where it ends otherwise."""
    done = subprocess.run(
        [CIGUARD, *map(str, words)], cwd=checkout, capture_output=True, text=True, check=False
    )
    if done.returncode not in expect:
        print(done.stdout[-2000:], done.stderr[-2000:])
        sys.exit(f"{words[0]}: exit code {done.returncode}")


def execute(checkout: Path, work: Path, run: int, shards: int) -> None:
    """Plan, run and remember one run."""
    history, artifact, records = work / "history", work / f"plan-{run}", work / f"run-{run}"
    known = ("--history", history) if run > 1 else ()
    call(checkout, "plan", "--shards", str(shards), *known, "--artifact", artifact)
    for shard in read_plan(work, run).shards:
        folder = records / shard.key
        options = ("--plan", artifact, "--shard", shard.key, "--record", folder)
        call(checkout, "run", *options, expect=(0, 10))
    call(
        checkout,
        *("history", "add", records, "--plan", artifact, "--history", history),
        *("--run-id", str(run), "--run-attempt", "1", "--sha", f"{run:040x}"),
        *("--branch", "main", "--event", "push", "--at", f"2026-11-{run:02}T10:00:00Z"),
    )
    (records / "done").touch()


def read_plan(work: Path, run: int) -> Plan:
    """Read the plan of a run."""
    return local.read_plan(work / f"plan-{run}")


def rows(work: Path, run: int) -> Iterator[Row]:
    """Compare a run with its plan."""
    plan = read_plan(work, run)
    records = newest_by_shard(local.read_record_tree(work / f"run-{run}"))
    for shard in plan.shards:
        record, predicted = records[shard.key], shard.predicted
        yield Row(
            *(run, shard.key, predicted.peak_bytes, record.peak_bytes),
            *(predicted.wall_s, record.wall_s, parts(plan, shard, record)),
        )


def parts(plan: Plan, shard: Shard, record: Record) -> dict[str, int]:
    """Return by how much the simulation was too low, by part, in bytes.

    Of the process with the largest mark of a test; its test with that mark splits the rest.
    """
    measured = [line for line in record.results if line.peak_bytes and line.rss_before_bytes]
    if not measured:
        return {}
    top = max(measured, key=lambda line: line.peak_bytes or 0)
    own = [line for line in measured if line.process == top.process]
    position = own.index(top)
    planned = {unit.key: unit for unit in shard.units}
    base = plan.suites[top.suite].base_bytes or 0
    first = own[0].rss_before_bytes or 0
    expected_kept = sum(
        max(0, planned[line.unit_key].retained_bytes or 0)
        for line in own[:position]
        if line.unit_key in planned
    )
    unit = planned.get(top.unit_key)
    expected_test = (unit.peak_delta_bytes or 0) if unit else 0
    return {
        "base": first - base,
        "kept": (top.rss_before_bytes or 0) - first - expected_kept,
        "test": (top.peak_bytes or 0) - (top.rss_before_bytes or 0) - expected_test,
        "tree": (record.peak_bytes or 0) - (top.peak_bytes or 0),
    }


def shown(row: Row) -> str:
    """Return a row of the table."""
    error = "-" if row.memory_error is None else f"{100 * row.memory_error:+.1f} %"
    late = "-" if row.time_error is None else f"{100 * row.time_error:+.1f} %"
    sizes = [
        ("-" if size is None else f"{size / MIB:.1f}") for size in (row.predicted, row.measured)
    ]
    errors = " ".join(f"{name} {size / MIB:+.1f}" for name, size in row.parts.items())
    return (
        f"{row.run:>3} {row.shard:>5} {sizes[0]:>9} {sizes[1]:>9} {error:>9}  "
        f"{row.predicted_s:>7.2f} {row.measured_s or 0:>7.2f} {late:>9}  {errors}"
    )


def summary(table: Sequence[Row]) -> str:
    """Return the summary over all rows with a prediction."""
    memory = [row.memory_error for row in table if row.memory_error is not None]
    times = [row.time_error for row in table if row.time_error is not None]
    within = sum(abs(error) <= MEMORY_WITHIN for error in memory)
    above = sum(error > FAR_ABOVE for error in memory)
    on_time = sum(abs(error) <= TIME_WITHIN for error in times)
    gaps = []
    for run in sorted({row.run for row in table}):
        makespan_s = max(row.measured_s or 0.0 for row in table if row.run == run)
        work_s = sum(row.measured_s or 0.0 for row in table if row.run == run)
        shards = sum(row.run == run for row in table)
        gaps.append(f"{makespan_s / (work_s / shards):.2f}")
    return (
        f"memory: {within} of {len(memory)} within 10 %, {above} more than 20 % above; "
        f"time: {on_time} of {len(times)} within 15 %; longest / mean by run: {' '.join(gaps)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--from-run", type=int, default=3, help="first run of the summary")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    if options.config:
        shutil.copy(options.config, options.checkout / "ciguard.toml")
    print("run shard predicted  measured     error  pred. s meas. s     error  too low by, MiB")
    table: list[Row] = []
    for run in range(1, options.runs + 1):
        if not (work / f"run-{run}" / "done").exists():
            shutil.rmtree(work / f"run-{run}", ignore_errors=True)
            execute(options.checkout.resolve(), work, run, options.shards)
        if run > 1:
            table += rows(work, run)
            print(*(shown(row) for row in table if row.run == run), sep="\n", flush=True)
    judged = [row for row in table if row.run >= options.from_run]
    print(f"runs {options.from_run} to {options.runs}: {summary(judged)}")


if __name__ == "__main__":
    main()
