"""How often `ciguard experiment` finds a real command that is 10 % slower, and one that is not.

    python benchmarks/experiments.py [--experiments 10] [--budget 90s]

The command is a fixed piece of CPU work of about 0.6 s; b does 10 % more of it, or the same. Each
experiment is the program as users start it, with its defaults but for the budget. Target: found in
most of 10 within the budget; of 10 without any difference, at most one is told.

`--confirm-suspects 80` simulates pull requests instead whose suspects are run again (no command is
run). Targets: at most 0.06 a pull request confirmed by mistake, 70 % of tests that are 25 % slower
found.

`--arms 2000` simulates experiments with 2, 3 and 5 arms: how often an arm that is the same as the
first has a verdict, and how many changed ones are found, by Holm's method and by Bonferroni's.
Targets: at most 4 % of the experiments, in wall time and in the other rows.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from experiment.pull_requests import confirmed
from experiment.simulated_programs import Program
from intervals import rated, shared

from ciguard.experiment.measurement import WALL

if TYPE_CHECKING:
    from ciguard.experiment.paired_test import Row

WORK: Final = "x = 0\nfor n in range({rounds}): x = (x * 31 + n) % 1000003"
TESTS: Final = 2000


def work(rounds: int) -> str:
    """The command that does so much."""
    return shlex.join([sys.executable, "-S", "-c", WORK.format(rounds=rounds)])


def rounds_for(seconds: float) -> int:
    """How much work that is here, without anybody beside."""
    rounds = 1_000_000
    begin = time.process_time()
    exec(WORK.format(rounds=rounds), {})
    return round(rounds * seconds / (time.process_time() - begin))


def experiment(folder: Path, a: str, b: str, budget: str) -> tuple[dict[str, Any], float]:
    """One experiment; its answer, and how long it took."""
    words = ("--a", a, "--b", b, "--budget", budget, "--format", "json", "-o", "answer.json")
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "ciguard", "experiment", *words],
        cwd=folder,
        capture_output=True,
        check=True,
    )
    found: dict[str, Any] = json.loads((folder / "answer.json").read_bytes())
    return found, time.perf_counter() - begin


def commands(experiments: int, budget: str) -> None:
    rounds = rounds_for(0.6)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{experiments} experiments each, budget {budget}; load {load:.1f} at the start")
    for name, factor in (("b does 10 % more", 1.1), ("b does the same", 1.0)):
        verdicts: Counter[str] = Counter()
        pairs, took = 0, 0.0
        changes = []
        with tempfile.TemporaryDirectory() as place:
            for _ in range(experiments):
                a, b = work(rounds), work(round(rounds * factor))
                found, seconds = experiment(Path(place), a, b, budget)
                verdicts[found["verdict"]] += 1
                pairs += found["pairs"][0]
                took += seconds
                times = {row["name"]: row["ratio"] for row in found["rows"]}
                changes.append(f"{100 * times['wall time']:+.0f}/{100 * times['CPU time']:+.0f}")
        print(f"  {name}: {dict(verdicts)}")
        print(f"    {pairs / experiments:.1f} pairs and {took / experiments:.0f} s on average")
        print(f"    change of wall/CPU time in %: {', '.join(changes)}", flush=True)


def confirm(pulls: int) -> None:
    print(f"{TESTS:,} tests, {pulls} pull requests, suspects run 5 times on both commits (95 %)")
    for growth in (0.0, 0.10, 0.25, 0.50):
        found = confirmed(pulls, TESTS, growth, seed=50_007 + round(1e5 * growth))
        print(
            f"  +{growth:.0%}: by mistake, a pull request,"
            f" durations {rated(found.false_durations, pulls)}"
            f" memory {rated(found.false_memory, pulls)};"
            f" {found.suspect_count / pulls:.0f} suspects"
        )
        if growth:
            print(
                f"    found: durations {shared(found.found_durations, found.changed)}"
                f" memory {shared(found.found_memory, found.changed)}",
                flush=True,
            )


def arms(experiments: int) -> None:
    """Wall time has 5 % noise with heavy tails; 10 runs of each arm, stopped early where clear."""
    print(f"{experiments:,} simulated experiments a row, 10 runs of each arm (95 %)")
    for number in (2, 3, 5):
        others = "bcdefgh"[: number - 1]
        for changed in ("", *dict.fromkeys((others[0], others))):
            for time_ in (1.05, 1.1) if changed else (1.0,):
                count: Counter[str] = Counter()
                for seed in range(experiments):
                    program = Program(seed, time=time_, arms=number, changed=changed)
                    count.update(outcomes(program))
                false = shared(count["false"], experiments) if others != changed else "-"
                rows, single = (shared(count[x], experiments) for x in ("false row", "single"))
                print(f"  {number} arms, {time_ - 1:+.0%} of {changed or 'none'!r}: false {false},")
                print(f"    without any correction {single}, in the other rows {rows}", flush=True)
                asked = experiments * len(changed)
                if changed:
                    holm, bonferroni = (shared(count[x], asked) for x in ("holm", "bonferroni"))
                    print(f"    found {holm}, by Bonferroni {bonferroni}", flush=True)


def outcomes(program: Program) -> Counter[str]:
    """Of one experiment: whether any verdict is false, and how many changed arms are found."""
    found = program.experiment()
    walls = [row for row in found.rows if row.metric == WALL]
    count: Counter[str] = Counter()
    count["false"] = any(row.differs and row.arm not in program.changed for row in walls)
    same = [row for row in found.rows if row.is_memory or row.arm not in program.changed]
    count["false row"] = any(row.differs and row.metric != WALL for row in same)
    count["single"] = any(is_found(row, found.level) for row in same if row.metric == WALL)
    slower = [row for row in walls if row.arm in program.changed and row.after > row.before]
    count["holm"] = sum(row.differs for row in slower)
    count["bonferroni"] = sum(is_found(row, found.level / len(walls)) for row in slower)
    return count


def is_found(row: Row, level: float) -> bool:
    return row.is_material and row.p is not None and row.p <= level


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=10)
    parser.add_argument("--budget", default="90s")
    parser.add_argument("--confirm-suspects", type=int, default=0, metavar="PULLS")
    parser.add_argument("--arms", type=int, default=0, metavar="EXPERIMENTS")
    options = parser.parse_args()
    if options.confirm_suspects:
        confirm(options.confirm_suspects)
    elif options.arms:
        arms(options.arms)
    else:
        commands(options.experiments, options.budget)


if __name__ == "__main__":
    main()
