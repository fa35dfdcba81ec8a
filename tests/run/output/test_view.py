"""The words of decisions: each kind of reason has some, and each number its unit."""

from __future__ import annotations

from typing import get_args

import pytest

from ciguard.model import PlannedUnit
from ciguard.run.output.view import _REASONS, describe_action, describe_reason
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


def test_every_kind_of_reason_has_words() -> None:
    assert {*_REASONS, "incomplete"} == set(get_args(ReasonKind))


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
