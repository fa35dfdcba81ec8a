"""The words of --fail-on, and what they come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from compare.compare_factories import case, died, run_of
from compare.past_runs import Past, factor
from compare.test_leaks import growing
from compare.test_legs import on_gpu
from compare.test_suite_speed import BASES, paced

from ciguard.compare.compare_runs import compare_run
from ciguard.compare.comparison import exit_code, triggered

if TYPE_CHECKING:
    from ciguard.compare.comparison import Comparison

from ciguard.model import FAIL_CONDITIONS

ALL = frozenset(FAIL_CONDITIONS)


def outcome(result: Any, **facts: Any) -> Comparison:
    base = run_of({"01": [case("a"), case("b")]})
    return compare_run(run_of({"01": [result, case("b")]}, run_id=2, **facts), None, [base])


def confirmed(measure: str) -> Comparison:
    past = Past(12)
    hurt = {measure: factor(50, 1.6)}
    return compare_run(past.run(99, **hurt), None, past.bases, previous=past.run(98, **hurt))


def leaking() -> Comparison:
    bases = [growing(0.01, n) for n in range(1, 13)]
    return compare_run(growing(2.0, 20), None, bases, previous=growing(2.1, 19))


def slower() -> Comparison:
    return compare_run(paced(20, 1.15, 1.0, 20), None, BASES, previous=paced(19, 1.15, 1.0, 19))


def grown(**more: Any) -> Comparison:
    bases = [on_gpu(n) for n in range(1, 13)]
    return compare_run(on_gpu(20, **more), None, bases, previous=on_gpu(19, **more))


FOUND = [
    (grown(gpu_mib={"0": 1000, "1": 53_248}), "gpu-memory", 11),
    (grown(swap_mib=13_000), "swap", 11),
    (outcome(case("a", outcome="failed")), "new-failure", 10),
    (outcome(died("a", "crash")), "new-failure", 10),
    (outcome(died("a", "timeout")), "timeout", 10),
    (outcome(died("a", "out_of_memory")), "oom", 10),
    (outcome(died("a", "memory_guard")), "oom", 10),
    (outcome(died("new", "crash")), "new-failure", 10),
    (outcome(died("new", "timeout")), "timeout", 10),
    (outcome(died("new", "memory_guard")), "oom", 10),
    (confirmed("peak"), "memory", 11),
    (confirmed("wall"), "duration", 11),
    (leaking(), "memory", 11),
    (slower(), "duration", 11),
    (outcome(case("a"), ending="cancelled"), "incomplete", 13),
]


@pytest.mark.parametrize(("comparison", "word", "code"), FOUND)
def test_each_fail_condition_has_an_exit_code_and_is_off_by_default(
    comparison: Comparison, word: str, code: int
) -> None:
    assert triggered(comparison, ALL) == (word,)
    assert exit_code(comparison, {word}) == code
    assert exit_code(comparison, ALL - {word}) == 0
    assert exit_code(comparison, ()) == 0


def test_leg_timeout_and_oom_trigger_their_conditions() -> None:
    assert triggered(outcome(case("a"), ending="deadline"), {"timeout"}) == ("timeout",)
    assert triggered(outcome(case("a"), ending="out_of_memory"), {"oom"}) == ("oom",)


def test_incomplete_outranks_failed_outranks_regressed_outranks_inconclusive() -> None:
    worse = outcome(case("a", outcome="failed"), ending="cancelled")
    assert exit_code(worse, ALL, strict=True) == 13
    assert exit_code(worse, ALL - {"incomplete"}, strict=True) == 10
    assert exit_code(worse, (), strict=True) == 12
    assert exit_code(confirmed("peak"), ALL, strict=True) == 11


def test_strict_passes_if_everything_was_judged() -> None:
    past = Past(12)
    assert exit_code(compare_run(past.run(99), None, past.bases), ALL, strict=True) == 0


def test_leak_or_slower_suite_in_one_run_triggers_no_condition() -> None:
    bases = [growing(0.01, n) for n in range(1, 13)]
    assert not triggered(compare_run(growing(2.0, 20), None, bases), ALL)
    assert not triggered(compare_run(paced(20, 1.15, 1.0, 20), None, BASES), ALL)


def test_suspect_triggers_no_condition() -> None:
    past = Past(12)
    found = compare_run(past.run(99, peak=factor(50, 1.6)), None, past.bases)
    assert found.memory.losses
    assert exit_code(found, ALL, strict=True) == 0
