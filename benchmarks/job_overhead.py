"""The seconds that ciguard adds to a workflow run, before its first test and after its last.

    .venv/bin/python benchmarks/job_overhead.py [--rounds 3] [--tests 200]

Executes what the steps of the generated workflow execute, one after the other, as fresh machines
do: install ciguard and plan (the plan job), start one shard (a test job), end it, install again and
report (the report job). The same shard under pytest alone is taken off. The queue, the checkout,
the project's own set-up and the transfer of two artifacts of some kB are GitHub's part and not in
it. Beside it, in turn: the same libraries installed by `python -m venv` and pip. Seconds of wall
and, where the machine is busy, of CPU (of all processes of a step); medians of the rounds, with
their range. Needs an index of packages.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[1]
INSTALL = ROOT / ".github" / "install"
TEST = """
import pathlib, time
import pytest

@pytest.mark.parametrize("n", range({count}))
def test_nothing(n):
    with pathlib.Path({times!r}).open("a") as file:
        print(time.time(), file=file)
"""


class Cost(NamedTuple):
    """Seconds of a step."""

    wall_s: float
    cpu_s: float

    def __add__(self, other: object) -> Cost:
        assert isinstance(other, Cost)
        return Cost(self.wall_s + other.wall_s, self.cpu_s + other.cpu_s)


def step(command: list[str], folder: Path, environ: Mapping[str, str] = os.environ) -> Cost:
    """Execute one step, and measure it with all its processes."""
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, cwd=folder, env=dict(environ), capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.monotonic() - start, cpu_s)


def shard(command: list[str], folder: Path, times: Path) -> tuple[float, float]:
    """Run the tests; return the seconds before the first and after the last of them."""
    times.unlink(missing_ok=True)
    start = time.time()
    step(command, folder)
    first, *_, last = map(float, times.read_text("utf-8").split())
    return first - start, time.time() - last


def one_round(folder: Path, count: int) -> dict[str, Cost]:
    """Execute the steps once, in new folders."""
    times, project, output = folder / "times", folder / "project", folder / "output"
    project.mkdir()
    (project / "test_all.py").write_text(TEST.format(count=count, times=str(times)), "utf-8")
    step(["git", "init", "-q", "."], project)
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environ |= {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(folder / "summary")}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    costs = {}
    for job in ("plan", "report"):
        place = folder / f"ciguard-{job}"
        command = ["bash", str(INSTALL / "install.sh"), sys.executable, str(place)]
        costs[f"install ({job} job)"] = step(command, project, environ)
    pip = f"""
        {sys.executable} -I -m venv by-pip && by-pip/bin/python -I -m pip install --quiet \
        --require-hashes --only-binary :all: -r {INSTALL / "requirements.txt"}"""
    costs["the same by venv and pip"] = step(["bash", "-c", pip], folder, environ)
    ciguard = [str(folder / "ciguard-{}" / "bin" / "python"), "-I", "-m", "ciguard"]
    plan = [ciguard[0].format("plan"), *ciguard[1:], "plan", "--shards", "1"]
    plan += ["--github", "--artifact", "../plan"]
    costs["plan"] = step(plan, project, environ)
    program = [sys.executable, "-I", "../plan/ciguard-run.pyz", "--plan", "../plan/plan.json"]
    supervised = shard([*program, "--shard", "01", "--record", "../records/01"], project, times)
    alone = shard([sys.executable, "-m", "pytest", "-q"], project, times)
    costs["start of the tests"] = Cost(supervised[0] - alone[0], 0.0)
    costs["end of the tests"] = Cost(supervised[1] - alone[1], 0.0)
    report = [ciguard[0].format("report"), *ciguard[1:], "report", "--plan", "../plan/plan.json"]
    costs["report"] = step([*report, "--records", "../records", "--github"], project, environ)
    before = ("install (plan job)", "plan", "start of the tests")
    after = ("end of the tests", "install (report job)", "report")
    costs["BEFORE THE FIRST TEST"] = sum((costs[name] for name in before), Cost(0.0, 0.0))
    costs["AFTER THE LAST TEST"] = sum((costs[name] for name in after), Cost(0.0, 0.0))
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tests", type=int, default=200)
    options = parser.parse_args()
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(one_round(Path(folder), options.tests))
    print(
        f"{'':26}  wall s  (range)          CPU s   {options.rounds} rounds, {options.tests} tests"
    )
    for name in rounds[0]:
        walls = [costs[name].wall_s for costs in rounds]
        cpu_s = statistics.median(costs[name].cpu_s for costs in rounds)
        spread = f"({min(walls):.2f} to {max(walls):.2f})"
        print(f"{name:26}  {statistics.median(walls):6.2f}  {spread:16} {cpu_s:6.2f}")


if __name__ == "__main__":
    main()
