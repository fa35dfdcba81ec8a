"""The words of decisions: each kind of reason has some, and each number its unit."""

from __future__ import annotations

from typing import get_args

import pytest

from ciguard.model import EventLine, PlannedUnit, Result, SampleLine
from ciguard.model.machine_use import machine_use
from ciguard.run.output.view import (
    _REASONS,
    describe_action,
    describe_machine,
    describe_reason,
    describe_workers,
)
from ciguard.run.policy.actions import Reason, ReasonKind, Recycle, Stop, Warn

MIB = 1 << 20


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (Reason("first"), "first"),
        (
            Reason("search", {"units": 3, "later_units": 1, "limit_bytes": 400 * MIB}),
            "search: one of 3 tests ended a process without a result; 1 test later, the limit is "
            "400 MiB",
        ),
        (Reason("unit_timeout", {"limit_s": 0.5}), "over its limit of 0.5 s"),
        (
            Reason("checkpoint", {"limit_s": 5400.0, "units": 1}),
            "5400 s have passed; 1 test left for another step",
        ),
        (
            Reason(
                "incomplete",
                {"without_result_units": 1, "import_crashed_units": 2, "planned_units": 9},
            ),
            "1 of 9 tests got no result from a process that completed; 2 of 9 tests did not run: "
            "their file ends its process before its first test",
        ),
    ],
)
def test_a_reason_in_words(reason: Reason, expected: str) -> None:
    assert describe_reason(reason) == expected


SAMPLES = [
    SampleLine(6.0, 1304002560, swap_used_bytes=0, stalled_s=0.0, gpu_bytes={"0": 9869197312}),
    SampleLine(18.6, 16216064, swap_used_bytes=70 * MIB, stalled_s=1.25),
]
ON_GPU = Result("python3 ./two.py", "passed", wall_s=18.143199, cpu_s=10.268957)


@pytest.mark.parametrize(
    ("samples", "peak_bytes", "result", "cpus", "expected"),
    [
        (SAMPLES, 1318711296, ON_GPU, 16,
         ["  peak 1.23 GiB",
          "  GPU 0 9.19 GiB, CPU 4 % of 16 cores, swap +70.0 MiB, waited 1.25 s for memory"]),
        (SAMPLES[1:], 0, None, 16, ["  waited 1.25 s for memory"]),
        ([], 5 * MIB, ON_GPU, None, ["  peak 5.00 MiB"]),
        ([], 0, None, 2, []),
    ],
)  # fmt: skip
def test_last_lines_of_a_command_have_what_was_measured(
    samples: list[SampleLine],
    peak_bytes: int,
    result: Result | None,
    cpus: int | None,
    expected: list[str],
) -> None:
    assert list(describe_machine(machine_use(samples), peak_bytes, result, cpus)) == expected


def test_every_kind_of_reason_has_words() -> None:
    assert {*_REASONS, "incomplete"} == set(get_args(ReasonKind))


def test_workers_are_not_limited_without_a_budget() -> None:
    facts = {"workers": 2, "tool_workers": 2}
    event = EventLine("workers", 0, 1, reason="not_measured", facts=facts)
    said = "2 workers, not limited: no memory budget"
    assert describe_workers(event, float("inf"), 0) == said


def test_an_action_names_its_process_and_the_test_to_blame() -> None:
    units = (PlannedUnit("a.py::t"),)
    stop = Stop(1, "timeout", Reason("unit_timeout", {"limit_s": 2.0}), 0)
    assert describe_action(stop, units) == "process 1: timeout: over its limit of 2 s: a.py::t"
    sizes = {"resident_bytes": 210 * MIB, "next_bytes": 200 * MIB, "limit_bytes": 400 * MIB}
    recycle = Recycle(2, Reason("retained_memory", sizes))
    assert describe_action(recycle, units) == (
        "process 2: recycled: resident 210 MiB, the next test needs 200 MiB, limit 400 MiB"
    )
    low = Warn(Reason("memory_low", {"headroom_bytes": 400 * MIB, "limit_bytes": 600 * MIB}))
    assert describe_action(low, units) == "memory_low: headroom 400 MiB is below 600 MiB"
