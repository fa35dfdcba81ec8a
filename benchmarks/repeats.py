"""Whether repeats of new tests find flaky ones as often as is claimed, within their time.

    .venv/bin/python benchmarks/repeats.py [--runs 300] [--parallel 2] [--repeat-s 4]

Each run is a real `ciguard run` of a shard whose tests take a second: four tests are new and fail
at random, with 50, 20, 10 and 5 %, and one is new and never fails. Those that pass at first are
repeated until `repeat-s` have passed. By flake rate: in how many runs the test was repeated, and
how often on average; in how many a repeat failed; how many follow from 1 - (1 - rate)^repeats, with
a 95 % interval (sum of independent runs, normal approximation). Then the time after which each run
ended, beside its limit. The program ends with 1 if a number is outside its 99.9 % interval, or if
more than 1 % of the runs ended after their limit.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ciguard.codec import plan_file
from ciguard.model import (
    InventorySummary,
    LegPolicy,
    Plan,
    PlannedUnit,
    Pool,
    Prediction,
    Record,
    Shard,
    Suite,
    Variant,
)
from ciguard.model.probes import repeats_of
from ciguard.sources.local import read_record_tree

RATES = (50, 20, 10, 5, 0)
# The last two digits of a test are its flake rate in percent.
PROGRAM = r"""
while read -r test; do
  random=$(( $(od -An -N4 -tu4 /dev/urandom) % 100 )); outcome=passed
  [ "$random" -lt "$((10#${test#*_}))" ] && outcome=failed
  [ "$test" = slow_00 ] && sleep 1
  echo "{\"type\":\"result\",\"unit\":\"$test\",\"outcome\":\"$outcome\"}" >>"$CIGUARD_RECORD_FILE"
done <"$CIGUARD_UNITS_FILE"
"""


def plan_of(repeat_s: float) -> Plan:
    """Return the plan of a run."""
    units = [PlannedUnit("slow_00")]
    units += [PlannedUnit(f"new_{rate:02}", change="new") for rate in RATES]
    suite = Suite("command", ("bash", "-c", PROGRAM), variants={"": Variant()})
    return Plan(
        id="",
        suites={"": suite},
        pools={"linux": Pool("ubuntu-latest")},
        policy=LegPolicy(guard_rail="off", repeat_until_s=repeat_s),
        shards=(Shard("01", "linux", tuple(units), Prediction(1.0, 1.0)),),
        lower_bound_s=1.0,
        gap=0.0,
        inventory=InventorySummary(collected=len(units), files={}, hash=""),
        floor=units[0],
    )


def record_of(plan: bytes) -> Record:
    """Execute one run."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "plan.json").write_bytes(plan)
        words = ("--plan", "plan.json", "--shard", "01", "--record", "record")
        environ = {name: text for name, text in os.environ.items() if name != "CI"}
        done = subprocess.run(
            [sys.executable, "-m", "ciguard.run", *words],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 10):
            sys.exit(done.stdout + done.stderr)
        (record,) = read_record_tree(Path(folder) / "record")
        return record


def main() -> None:
    """Execute all runs and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--repeat-s", type=float, default=4.0)
    options = parser.parse_args()
    plan = plan_file.encode(plan_of(options.repeat_s))
    with ThreadPoolExecutor(options.parallel) as pool:
        records = list(pool.map(lambda _: record_of(plan), range(options.runs)))
    is_wrong = False
    print("rate   runs  repeats  found  expected (95 %)")
    for rate in RATES:
        found = expected = variance = 0.0
        counts = []
        for record in records:
            for key, repeats in repeats_of(record).items():
                if key.unit == f"new_{rate:02}" and (count := repeats.passed + repeats.failed):
                    counts.append(count)
                    chance = 1 - (1 - rate / 100) ** count
                    found += repeats.failed > 0
                    expected += chance
                    variance += chance * (1 - chance)
        half = 1.96 * math.sqrt(variance)
        mean = sum(counts) / max(1, len(counts))
        interval = f"{expected:.0f} ({expected - half:.0f}..{expected + half:.0f})"
        mark = "" if abs(found - expected) <= max(1.0, half) else "  outside"
        is_wrong |= abs(found - expected) > 3.29 * math.sqrt(variance)
        print(f"{rate:3} % {len(counts):6} {mean:8.1f} {found:6.0f}  {interval}{mark}")
    ends = sorted(
        max((getattr(line, "at_s", None) or 0.0 for line in record.probes), default=0.0)
        for record in records
    )
    late = sum(end > options.repeat_s for end in ends)
    print(f"ended after {ends[0]:.2f} to {ends[-1]:.2f} s, limit {options.repeat_s:g} s")
    print(f"{late} of {len(ends)} runs after it, by {max(0.0, ends[-1] - options.repeat_s):.2f} s")
    sys.exit(is_wrong or late > 0.01 * len(ends))


if __name__ == "__main__":
    main()
