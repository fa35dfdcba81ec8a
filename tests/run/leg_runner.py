"""Real legs for tests: a plan written by hand, the leg as a process, its record, what is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import product
from pathlib import Path

from conftest import ADDOPTS, TEMPORARY
from run.replay import replays

from ciguard.codec import plan_file as plan_codec
from ciguard.guard.legs import contradictions
from ciguard.guard.prove import prove
from ciguard.guard.verdict import Verdict
from ciguard.model import (
    EndLine,
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
from ciguard.plan.outputs import members, zipped
from ciguard.sources.local import read_record_tree

PYTEST = Suite(
    "pytest", (sys.executable, "-m", "pytest", "-p", "no:cacheprovider"), variants={"": Variant()}
)
OF_MATRIX = replace(PYTEST, variants={"": Variant(matrix={})})
SCRUBBED = ("CI", "GITHUB_", "RUNNER_", "CIGUARD_", "PYTEST_", "NO_COLOR", "FORCE_COLOR", "COV_")
UNGUARDED = LegPolicy(guard_rail="off")
LISTS = LegPolicy(guard_rail="off", lists=True)
LEG = (sys.executable, "-m", "ciguard.run")
MARK = "LEG_UNDER_TEST"  # what the leg and all that it starts have in their environment


def plan_of(
    units: Iterable[str | PlannedUnit],
    *,
    suites: Mapping[str, Suite] | None = None,
    policy: LegPolicy = UNGUARDED,
    processes: int = 1,
    budget_bytes: int | None = None,
    timeout_s: float | None = None,
) -> Plan:
    planned = tuple(
        PlannedUnit(unit, timeout_s=timeout_s) if isinstance(unit, str) else unit for unit in units
    )
    shard = Shard(
        key="01",
        pool="linux",
        units=planned,
        predicted=Prediction(1.0, 1.0),
        processes=processes,
        budget_bytes=budget_bytes,
    )
    return Plan(
        id="",
        suites=suites or {"": PYTEST},
        pools={"linux": Pool("ubuntu-latest", env={"FROM_POOL": "yes"})},
        policy=policy,
        shards=(shard,),
        lower_bound_s=1.0,
        gap=0.0,
        inventory=InventorySummary(len(planned), {}, "0"),
    )


def listing_plan(
    *shards: Iterable[str],
    suite: Suite = PYTEST,
    variants: Iterable[str] = ("",),
    policy: LegPolicy = LISTS,
    processes: int = 1,
) -> Plan:
    """For each variant, a plan of shards 01, 02, ... with these units of a past run."""
    one = plan_of([], suites={"": suite}, policy=policy, processes=processes)
    return replace(
        one,
        shards=tuple(
            replace(
                one.shards[0],
                key=f"{number:02}",
                units=tuple(PlannedUnit(unit, variant=variant) for unit in units),
                variant=variant,
            )
            for number, (variant, units) in enumerate(product(variants, shards), 1)
        ),
    )


@dataclass
class Leg:
    """A leg that was started in `folder`, with its record in `folder/record`.

    Attributes:
        is_plain: it executes shard 01 as its plan says, and no line of its record is lost.
    """

    folder: Path
    process: subprocess.Popen[str]
    mark: str
    is_plain: bool = False
    printed: str = ""

    @property
    def said(self) -> str:
        """What it printed, on one line: long reasons are wrapped."""
        return " ".join(self.printed.split())

    @property
    def record_folder(self) -> Path:
        return self.folder / "record"

    def wait(
        self, expect: int | None = None, *, timeout_s: float = 60.0, leaves: bool = False
    ) -> Leg:
        """Wait for the end; with all that it printed when the exit code is another.

        Args:
            leaves: some process survives that is none of the leg's.
        """
        try:
            self.printed = self.process.communicate(timeout=timeout_s)[0]
        except subprocess.TimeoutExpired:
            stacks = self._stacks_of_what_hangs()
            self.process.kill()
            self.printed = self.process.communicate()[0] + stacks
            raise AssertionError(f"no end after {timeout_s} s\n{self.printed}") from None
        if expect is not None:
            assert self.process.returncode == expect, self.printed
        self.is_believed()
        if not leaves:
            no_survivor(self)
        return self

    def _stacks_of_what_hangs(self) -> str:
        """Abort every process of the leg that still runs: Python's say where they stood."""
        named: list[bytes] = []
        for pid in self.survivors():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").strip()
                named.append(words)
                if not words.endswith(b" reaper"):  # it would kill the others first
                    os.kill(pid, signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)  # it reports how they ended
        logs = sorted(self.folder.rglob("process-*.log"))
        told = [log.read_bytes()[-8000:] for log in logs]
        return b"\n".join([b"\n--- what still ran:", *named, *told]).decode("utf-8", "replace")

    def is_believed(self) -> None:
        """What a leg wrote that ended by itself is what the guard and the rules say it writes."""
        file = self.folder / "plan.json"
        if not file.exists() or not (self.record_folder / "supervisor.jsonl").exists():
            return
        plan = plan_codec.decode(file.read_bytes(), "plan")
        for record in read_record_tree(self.record_folder):
            if record.end is not None and record.end.ending == "completed":
                assert list(contradictions(record, plan.policy.max_tries)) == []
            if self.is_plain and record.end is not None and record.end.ending != "unknown":
                replays(self.record_folder, plan)

    def record(self) -> Record:
        """What it wrote down, as one record."""
        (record,) = read_record_tree(self.record_folder)
        return record

    def end(self) -> EndLine:
        end = self.record().end
        assert end is not None
        return end

    def count(self, outcome: str) -> int:
        """Results of this outcome until now."""
        if not self.record_folder.is_dir():
            return 0
        records = read_record_tree(self.record_folder)
        return sum(r.outcome == outcome for record in records for r in record.results)

    def verdict(self) -> Verdict:
        """What guard says of it, whose record is the whole run."""
        plan = plan_codec.decode((self.folder / "plan.json").read_bytes(), "plan")
        return prove(plan, [self.record()])

    def outcomes(self) -> dict[str, str]:
        """Outcome by case; every case has one result."""
        results = self.record().results
        assert len({result.key for result in results}) == len(results)
        return {result.case: result.outcome for result in results}

    def survivors(self) -> list[int]:
        """Live processes that came from it; the dead that nobody waited for (Z) are none."""
        return [pid for pid in pids_with(self.mark) if pid != self.process.pid]


def pids_with(mark: str) -> list[int]:
    """List live processes with this mark; none where there is no /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]
            environ = (folder / "environ").read_bytes()
        except (OSError, IndexError):
            continue
        if state not in (b"Z", b"X") and f"{MARK}={mark}".encode() in environ.split(b"\0"):
            found.append(int(folder.name))
    return found


def clean_environ(**added: str) -> dict[str, str]:
    stored = {name: value for name, value in os.environ.items() if not name.startswith(SCRUBBED)}
    ours = {TEMPORARY: os.environ[TEMPORARY], "PYTEST_ADDOPTS": ADDOPTS}
    return {**stored, **ours, "PYTHONDONTWRITEBYTECODE": "1", **added}


def start(folder: Path, *words: str, program: Sequence[str] = LEG, **environ: str) -> Leg:
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [*program, *words],
        cwd=folder,
        env=clean_environ(**{MARK: mark}, **environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return Leg(folder, process, mark)


def start_shard(folder: Path, plan: Plan, *, program: Sequence[str] = LEG, **environ: str) -> Leg:
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))
    words = ("--plan", "plan.json", "--shard", "01", "--record", "record")
    return replace(start(folder, *words, program=program, **environ), is_plain=True)


def leg_program(setup: str = "", **options: str) -> tuple[str, ...]:
    """Return a program that runs shard 01 into `record`.

    Args:
        setup: code that the program executes before.
        options: more arguments of `leg.run_shard`, as expressions.
    """
    more = "".join(f", {name}={expression}" for name, expression in options.items())
    code = f"""
import os, sys, time
from ciguard.run import leg
{setup}
plan = leg.read_plan("plan.json")
found = leg.run_shard(plan, "01", "record", dict(os.environ), origin_s=time.monotonic(){more})
sys.exit(int(found.exit_code))
"""
    return (sys.executable, "-c", code)


def until(condition: Callable[[], object], *, what: str, timeout_s: float = 20.0) -> None:
    """Poll until it holds."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, f"not within {timeout_s} s: {what}"
        time.sleep(0.01)


def no_survivor(leg: Leg) -> None:
    """Nothing that the leg started is alive, at the latest in a moment."""
    until(lambda: not leg.survivors(), what="every process of the leg is gone", timeout_s=5.0)


def build_pyz(target: Path) -> Path:
    """The zip file that legs are run from."""
    target.write_bytes(zipped(members(files("ciguard"))))
    return target


def kill_once_there(leg: Leg, started: Path) -> None:
    """Kill a leg once a test of it has made this file; nothing that it started survives."""
    try:
        until(started.exists, what=f"a test makes {started.name}")
        leg.process.send_signal(signal.SIGKILL)
        leg.process.communicate(timeout=10)
        no_survivor(leg)
    finally:
        leg.process.kill()
        leg.process.communicate()
