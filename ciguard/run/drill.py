"""A drill: a leg causes a fault by which real runs lose tests, and the run must end red.

A program takes the place of the process that would run the first test of the shard: it reports the
start of this test, then causes the fault. The supervisor treats it as any other process.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.codec.record.lines import encode
from ciguard.errors import UsageError
from ciguard.model import EventLine, Plan, StartLine, Suite
from ciguard.run.frameworks.base import Invocation, ProcessFiles
from ciguard.run.policy.guard_rail import memory_thresholds
from ciguard.text import unit_name

if TYPE_CHECKING:
    from ciguard.run.platforms.base import Headroom, MachineMemory
    from ciguard.run.supervisor import LegSpec

TIMEOUT_S: Final = 3.0  # of the test that hangs
FREE_BYTES: Final = 64 << 20  # until the guard rail stops the test, which takes 512 MiB at most
FAULT: Final = """
import os, shutil, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
drill, leg, folder, file, line = sys.argv[1:]
with open(file, "a") as stream:
    stream.write(line)
if drill == "cancelled":  # the first signal of a runner; it sends SIGTERM 7.5 s later
    os.kill(int(leg), signal.SIGINT)
if drill == "lost-shard":
    os.kill(int(leg), signal.SIGSTOP)  # it would report the removal
    shutil.rmtree(folder)
    os.kill(int(leg), signal.SIGKILL)
taken = []
while drill == "out-of-memory" and len(taken) < 64:
    taken.append(b"1" * (8 << 20))
    time.sleep(0.02)
time.sleep(10)
"""


def with_drill(job: LegSpec, plan: Plan, headroom: Headroom) -> LegSpec:
    """Return the task of a leg with the fault of the plan's drill, if its shard has to cause it.

    Raises:
        UsageError: this system does not have the signals of the fault.
    """
    drill, largest = plan.drill, max(plan.shards, key=lambda shard: len(shard.units))
    if drill is None or not job.shard.units or (largest.units and largest.key != job.shard.key):
        return job
    if os.name == "nt" and drill in ("lost-shard", "cancelled"):
        raise UsageError(f"no drill {drill} on Windows", fix="choose timeout or out-of-memory")
    first, *others = job.shard.units
    detail = f"this shard causes {drill}, by {unit_name(first.key)}"
    job = replace(job, initial_events=(*job.initial_events, EventLine("drill", 0.0, detail=detail)))
    if drill == "dropped-test":
        return replace(job, shard=replace(job.shard, units=tuple(others)))
    if drill == "timeout":
        first = replace(first, timeout_s=TIMEOUT_S)
    if drill == "out-of-memory":
        # It is to run alone: the guard rail stops the largest process.
        first = replace(first, peak_delta_bytes=headroom.memory_bytes())
        job = replace(job, policy=replace(job.policy, guard_rail="auto"))
    measure = headroom.headroom_bytes
    most_bytes: int | None = None
    _, critical = memory_thresholds(headroom.memory_bytes() or 0)

    def left_bytes(machine: MachineMemory) -> int | None:
        """Hide memory while the test runs: the guard rail acts long before the machine is short."""
        nonlocal most_bytes
        left = measure(machine)
        if left is None or most_bytes is None:
            return left
        most_bytes = max(left, most_bytes)  # other programs may free some
        return min(left, left - most_bytes + int(critical) + FREE_BYTES)

    def execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
        nonlocal most_bytes
        most_bytes = None
        with open(batch.units_file, encoding="ascii") as stream:
            units = json.load(stream)
        if (batch.suite, batch.variant) != first.key[:2] or first.unit not in units:
            return job.executor(batch.suite).execution(suite, variant, batch)
        most_bytes = 0 if drill == "out-of-memory" else None
        line = encode(StartLine(first.unit)).decode("ascii")
        words = (drill, str(os.getpid()), job.record_dir, batch.record_file, line)
        return Invocation((sys.executable, "-I", "-S", "-c", FAULT, *words))

    headroom.headroom_bytes = left_bytes  # type: ignore[method-assign]  # of this leg alone
    return replace(
        job,
        shard=replace(job.shard, units=(first, *others)),
        executor=lambda suite: replace(job.executor(suite), execution=execution),
    )
