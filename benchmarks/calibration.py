"""How often the rule is wrong, and how often asleep: false alarms and power of `ciguard compare`.

    python benchmarks/calibration.py [--pulls 80] [--quiet-pulls 400] [--recordings FOLDER]

The simulation is `tests/compare/simulation.py`, which says its distributions: 2,000 tests in 8
shards, each pull request of two runs over 10 or 20 baseline runs. With a folder of recordings of
one suite that nobody changed in between (a folder of records each), two kinds of pull requests are
made of them besides: every choice of two of them as a pull request and the others as the baseline,
and drawn ones, in which each test deviates as it did in a run drawn for it alone.

Targets: confirmed false alarms a pull request <= 0.2 (durations, N=20) and <= 0.05 (memory, N=20);
power at +25 % >= 0.5 and >= 0.9. Intervals are of 95 %.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from compare.simulation import score
from intervals import rated, shared

from ciguard.compare.compare_runs import compare_run
from ciguard.compare.run_columns import runs_from_records
from ciguard.sources import local

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.compare.run_columns import Run

Floats = np.ndarray[Any, Any]
TESTS: Final = 2000
GROWTHS: Final = (0.10, 0.25, 0.50)
PACES: Final = (0.0, 0.05, 0.10)


def simulated(pulls: int, quiet_pulls: int) -> None:
    print(f"simulation, {TESTS:,} tests, 8 shards")
    print(f"  no change, {quiet_pulls} pull requests; confirmed a pull request (95 %)")
    for runs in (10, 20):
        found = score(quiet_pulls, TESTS, runs, 0.0, seed=10_000 * runs)
        grey = found.suspect_durations / found.pulls, found.suspect_memory / found.pulls
        print(
            f"    N={runs}  durations {rated(found.false_durations, found.pulls)}"
            f"  memory {rated(found.false_memory, found.pulls)}"
            f"  suspects {grey[0]:.1f} and {grey[1]:.1f}"
            f"  named unconfirmed {rated(found.named_durations, found.pulls)}"
            f"  sum doubled {rated(found.doubled, found.pulls)}"
            f"  whole suite {rated(found.slower, found.pulls)}",
            flush=True,
        )
    print(f"  5 changed tests a pull request, {pulls} of them; share that is confirmed (95 %)")
    for runs in (10, 20):
        for growth in GROWTHS:
            found = score(pulls, TESTS, runs, growth, seed=10_000 * runs + round(1e5 * growth))
            print(
                f"    N={runs}  +{growth:.0%}  durations"
                f" {shared(found.found_durations, found.changed)}"
                f"  memory {shared(found.found_memory, found.changed)}",
                flush=True,
            )
    print(f"  whole suite slower, {pulls} pull requests, N=20; share that is confirmed (95 %)")
    for pace in PACES[1:]:
        found = score(pulls, TESTS, 20, 0.0, seed=7_000_000 + round(1e5 * pace), pace=pace)
        print(f"    +{pace:.0%}  {shared(found.slower, found.pulls)}", flush=True)


def recordings(folder: Path) -> list[Run]:
    """The runs below a folder, one of each of its folders, by number."""
    places = sorted(folder.iterdir(), key=lambda place: int(place.name))
    return [runs_from_records(local.read_record_tree(place), place.name)[-1] for place in places]


def every_choice(runs: Sequence[Run]) -> None:
    """Each pair as a pull request, all others as its baseline."""
    pairs = list(combinations(range(len(runs)), 2))
    confirmed: dict[str, int] = {"durations": 0, "memory": 0, "leaks": 0, "whole suite": 0}
    named = doubled = 0
    noisy = evaluated = suspects = 0
    for pair in pairs:
        previous, candidate = (runs[at] for at in pair)
        bases = [run for at, run in enumerate(runs) if at not in pair]
        found = compare_run(candidate, None, bases, previous=previous)
        for name, verdict in (("durations", found.durations), ("memory", found.memory)):
            confirmed[name] += sum(
                one.tier == "confirmed" for one in (*verdict.losses, *verdict.gains)
            )
        confirmed["leaks"] += sum(one.tier == "confirmed" for one in found.leaks)
        confirmed["whole suite"] += found.suite_speed.verdict in ("slower", "faster")
        named += len(found.durations.unconfirmed)
        doubled += found.is_doubled
        noisy += found.durations.verdict == "too noisy to judge"
        evaluated += found.durations.judged_tests + found.memory.judged_tests
        suspects += found.durations.suspects + found.memory.suspects
    cases = len(runs[0].keys)
    print(f"{len(runs)} recordings of {cases:,} cases, every choice of 2 runs: {len(pairs)}")
    for name, count in confirmed.items():
        print(f"  {name}: {count} confirmed, {rated(count, len(pairs))} a choice (95 %)")
    print(f"  {evaluated / len(pairs):.0f} numbers a choice, {suspects / len(pairs):.1f} suspects")
    print(
        f"  named unconfirmed {rated(named, len(pairs))}, sum doubled {rated(doubled, len(pairs))}"
    )
    print(f"  durations withheld as too noisy in {noisy} of {len(pairs)}")


class Drawn:
    """Runs drawn from real ones: of each test the deviation of one of its own values."""

    def __init__(self, runs: Sequence[Run], seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.of = runs[0]
        keys = set(runs[0].keys).intersection(*(run.keys for run in runs))
        self.keys = tuple(sorted(keys))
        passed = np.isfinite(self._table(runs, "wall_s")).sum(axis=1).tolist()
        self.keys = tuple(key for key, count in zip(self.keys, passed, strict=True) if count)
        self.walls = self._table(runs, "wall_s")
        self.peaks = self._table(runs, "peak_delta_bytes")
        # A common speed of each recording is taken out: what is left is the tests' own.
        logs = np.log(self.walls)
        usual = np.nanmedian(logs, axis=1)
        steady = np.exp(usual) >= 0.05
        self.walls = np.exp(logs - np.nanmedian((logs - usual[:, None])[steady], axis=0))
        peaks = np.median(np.nan_to_num(self.peaks), axis=1)
        large = np.flatnonzero((np.exp(usual) >= 0.5) & (peaks >= 20 * 1024 * 1024))
        self.long = np.flatnonzero(np.exp(usual) >= 0.5)
        self.big = np.flatnonzero(peaks >= 20 * 1024 * 1024)
        self.both = large

    def _table(self, runs: Sequence[Run], name: str) -> Floats:
        columns = []
        for run in runs:
            at = {key: place for place, key in enumerate(run.keys)}
            good = run.outcome == self.of.outcome[0]
            column = np.where(good, getattr(run, name), np.nan)
            columns.append(column[[at[key] for key in self.keys]])
        return np.stack(columns, axis=1)

    def run(self, run_id: int, changed: Floats, growth: float) -> Run:
        """One run of two legs, of which one is slow in a quarter of the cases."""
        count = len(self.keys)
        rows = np.arange(count)
        leg = self.random.integers(0, 2, count).astype(np.int32)
        slow = np.where(self.random.random(2) < 0.25, 1.3, 1.0)
        pick = self.random.integers(0, self.walls.shape[1], count)
        walls, peaks = self.walls[rows, pick] * slow[leg], self.peaks[rows, pick].copy()
        walls[changed] *= 1 + growth
        peaks[changed] *= 1 + growth
        at = {key: place for place, key in enumerate(self.of.keys)}
        place = [at[key] for key in self.keys]
        legs = tuple(replace(self.of.legs[0], shard=f"{n:02}", complete=True) for n in (1, 2))
        return replace(
            self.of,
            name=f"drawn {run_id}",
            run_id=run_id,
            keys=self.keys,
            legs=legs,
            leg=leg,
            wall_s=walls,
            peak_delta_bytes=np.rint(peaks),
            outcome=self.of.outcome[place],
            ending=self.of.ending[place],
            measured_by=self.of.measured_by[place],
            retained_bytes=None,
            process=None,
            flaky=(),
            messages={},
            at=None,
            sha=None,
        )


def drawn(runs: Sequence[Run], pulls: int) -> None:
    suite = Drawn(runs, seed=1)
    print(f"drawn from these recordings, {len(suite.keys):,} tests, {pulls} pull requests, N=20")
    nothing = np.zeros(0, np.int64)
    alarms = {"durations": 0, "memory": 0}
    for _ in range(pulls):
        bases = [suite.run(n, nothing, 0.0) for n in range(1, 21)]
        heads = [suite.run(n, nothing, 0.0) for n in (100, 101)]
        found = compare_run(heads[1], None, bases, previous=heads[0])
        alarms["durations"] += len(found.durations.of_tier("confirmed"))
        alarms["memory"] += len(found.memory.of_tier("confirmed"))
    for name, count in alarms.items():
        print(f"  no change, {name}: {rated(count, pulls)} confirmed a pull request (95 %)")
    for name, pool in (("durations", suite.long), ("memory", suite.big)):
        if not len(pool):
            print(f"  {name}: no test is large enough for a quarter more to be above the floors")
            continue
        hits = trials = 0
        for _ in range(pulls):
            changed = suite.random.choice(pool, min(5, len(pool)), replace=False)
            bases = [suite.run(n, nothing, 0.0) for n in range(1, 21)]
            heads = [suite.run(n, changed, 0.25) for n in (100, 101)]
            found = compare_run(heads[1], None, bases, previous=heads[0])
            keys = {suite.keys[at] for at in changed}
            hits += len(keys & {one.key for one in getattr(found, name).of_tier("confirmed")})
            trials += len(changed)
        print(
            f"  +25 %, {name}: {shared(hits, trials)} confirmed, of {len(pool)} large tests (95 %)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pulls", type=int, default=80)
    parser.add_argument("--quiet-pulls", type=int, default=400)
    parser.add_argument("--recordings", type=Path, help="runs/1, runs/2, ...: records of one suite")
    options = parser.parse_args()
    if options.pulls:
        simulated(options.pulls, options.quiet_pulls)
    if options.recordings:
        runs = recordings(options.recordings)
        every_choice(runs)
        drawn(runs, max(options.pulls, 80))


if __name__ == "__main__":
    main()
