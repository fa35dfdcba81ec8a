"""The guard rail's rules: when memory is low, who goes, and when a word is all there is to say."""

from __future__ import annotations

import pytest
from run.states import GIB, start, state_of

from ciguard.model import (
    LegPolicy,
    SampleLine,
    ShardLine,
)
from ciguard.model import Runner as Machine
from ciguard.run.policy.actions import Action, Reason, Stop, Wait, Warn
from ciguard.run.policy.guard_rail import kill_helps, memory_thresholds
from ciguard.run.policy.rules import next_action
from ciguard.run.policy.state import MIB


@pytest.mark.parametrize(
    ("rail", "headrooms_mib", "expected"),
    [
        ("auto", (9000, 9000), Wait),
        ("auto", (500, 9000), Wait),  # a hiccup
        ("auto", (590, 580), Warn),
        ("auto", (200, 100), Stop),
        ("auto", (100, 200), Warn),  # no longer falling
        ("auto", (100, 100), Warn),  # neither
        ("auto", (0, 0), Stop),  # there is nothing left that could fall
        ("auto", (31, 31), Stop),
        ("auto", (20, 30), Warn),
        ("observe", (0, 0), Warn),
        ("observe", (200, 100), Warn),
        ("enforce", (590, 580), Stop),
        ("off", (200, 100), Wait),
    ],
)
def test_action_when_memory_runs_out(
    rail: str, headrooms_mib: tuple[int, int], expected: type
) -> None:
    state = state_of("a", "b", processes=2, policy=LegPolicy(rail))  # type: ignore[arg-type]
    state.observe(ShardLine(runner=Machine(memory_bytes=8 * GIB)))
    start(state)
    start(state)
    for headroom in headrooms_mib:
        sizes = {"1": 10 * MIB, "2": 500 * MIB}
        state.observe(SampleLine(0.0, headroom_bytes=headroom * MIB, process_bytes=sizes))
    action = next_action(state, 0.0)
    assert isinstance(action, expected)
    if isinstance(action, Stop):
        assert (action.process, action.ending) == (2, "memory_guard"), "the largest goes"
        state.apply(action)
        assert not isinstance(next_action(state, 0.0), Stop), "one at a time"


@pytest.mark.parametrize(
    ("size", "missing", "memory", "expected"),
    [
        (100, 100, 10_000, True),
        (99, 100, 10_000, False),
        (500, 10_000, 10_000, True),  # a twentieth of the machine
        (499, 10_000, 10_000, False),
        (499, 500, 0, False),  # nobody knows how large the machine is
        (500, 500, 0, True),
    ],
)
def test_kill_helps_if_it_frees_enough_memory(
    size: int, missing: int, memory: int, expected: bool
) -> None:
    assert kill_helps(size, missing, memory) == expected


@pytest.mark.parametrize(
    ("memory_mib", "low_mib", "last_ditch_mib"),
    [
        (0, 600, 256),  # nobody knows
        (512, 128, 64),
        (1024, 256, 128),
        (2048, 512, 256),
        (7168, 600, 256),
        (16384, 819.2, 256),
        (32768, 1638.4, 491.52),
    ],
)
def test_thresholds_follow_the_machine_memory(
    memory_mib: int, low_mib: float, last_ditch_mib: float
) -> None:
    found = memory_thresholds(memory_mib * MIB)
    assert found == pytest.approx((low_mib * MIB, last_ditch_mib * MIB))


def test_fitting_test_in_a_small_container_is_not_stopped() -> None:
    state = state_of("a", policy=LegPolicy("enforce"))
    state.observe(ShardLine(runner=Machine(memory_bytes=512 * MIB)))
    start(state)
    for headroom in (210, 190):
        sizes = {"1": 300 * MIB}
        state.observe(SampleLine(0.0, headroom_bytes=headroom * MIB, process_bytes=sizes))
    assert isinstance(next_action(state, 0.0), Wait)


def test_small_process_is_not_killed_for_memory_of_others() -> None:
    state = state_of("a", policy=LegPolicy("auto"))
    state.observe(ShardLine(runner=Machine(memory_bytes=8 * GIB)))
    start(state)
    output = []
    for headroom in (500, 400, 200, 100, 50, 20):
        line = SampleLine(0.0, headroom_bytes=headroom * MIB, process_bytes={"1": 3 * MIB})
        state.observe(line)
        action = next_action(state, 0.0)
        if isinstance(action, Warn):
            output.append(action.reason)
            state.apply(action)
        else:
            assert isinstance(action, Wait)
    assert output == [
        Reason("memory_low", {"headroom_bytes": 400 * MIB, "limit_bytes": 600 * MIB}),
        Reason(
            "memory_not_reclaimable",
            {"headroom_bytes": 100 * MIB, "largest_process_bytes": 3 * MIB},
        ),
    ]


def test_a_process_that_is_being_stopped_is_not_killed_twice() -> None:
    state = state_of("a", policy=LegPolicy("enforce"))
    start(state)
    action: Action = Wait()
    for _ in range(2):
        for headroom in (200, 100):
            sizes = {"1": 900 * MIB}
            state.observe(SampleLine(0.0, headroom_bytes=headroom * MIB, process_bytes=sizes))
        action = next_action(state, 0.0)
        if isinstance(action, (Stop, Warn)):
            state.apply(action)
    assert isinstance(action, Warn)
    assert next_action(state, 0.0) == Wait(), "warned once"
