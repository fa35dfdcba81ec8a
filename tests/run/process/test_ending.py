"""What is said of a process that died."""

from __future__ import annotations

import signal

import pytest

from ciguard.model import LegPolicy as Policy
from ciguard.model import PlannedUnit, Prediction, SampleLine, Shard, StartLine, Suite
from ciguard.run.output.view import describe_culprit, describe_exit, signal_name
from ciguard.run.policy.actions import Start
from ciguard.run.policy.rules import next_action
from ciguard.run.policy.state import State
from ciguard.run.process.ending import OUTPUT_BYTES, culprit_results, last_output


def running_state() -> State:
    shard = Shard("01", "p", (PlannedUnit("a"), PlannedUnit("b")), Prediction(1, 1))
    state = State(shard, {"": Suite("any", ("any",))}, Policy())
    action = next_action(state, 0.0)
    assert isinstance(action, Start)
    state.apply(action)
    return state


def test_open_unit_died_with_a_lower_bound_of_its_time() -> None:
    state = running_state()
    state.observe(StartLine("b", process=1, at_s=2.0))
    state.observe(SampleLine(2.5, process_bytes={"1": 1000}))
    (result,) = culprit_results(state, 1, "crash", 5.0)
    assert (result.unit, result.outcome, result.ending) == ("b", "died", "crash")
    assert (result.wall_s, result.peak_lower_bytes, result.process) == (3.0, 1000, 1)
    message = describe_culprit(result, None, state.running[1], exit_code=-11, output="the end")
    assert message == "the process died (killed by SIGSEGV)\nthe end"


@pytest.mark.parametrize(("own", "before"), [(None, 900), (800, 900), (0, 0)])
def test_memory_before_a_unit_is_0_in_a_process_of_its_own(own: int | None, before: int) -> None:
    state = running_state()
    state.observe(SampleLine(1.5, process_bytes={"1": 900}))
    state.observe(StartLine("b", process=1, at_s=2.0, rss_before_bytes=own))
    (result,) = culprit_results(state, 1, "timeout", 5.0)
    state.observe(result)
    assert result.rss_before_bytes == before
    assert state.running[1].resident_bytes == (before or None)


def test_several_open_units_are_candidate_culprits() -> None:
    state = running_state()
    for unit in "ab":
        state.observe(StartLine(unit, process=1, at_s=2.0))
    results = culprit_results(state, 1, "out_of_memory", 5.0)
    assert [result.unit for result in results] == ["a", "b"]
    expected = "killed by the kernel: out of memory (killed by SIGKILL); one of 2 tests that ran"
    message = describe_culprit(results[0], None, state.running[1], exit_code=-9, output="")
    assert message.startswith(expected)
    assert {result.concurrent for result in results} == {2}


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [
        (0, "exit code 0"),
        (130, "exit code 130"),
        (139, "killed by SIGSEGV (exit code 139)"),
        (-9, "killed by SIGKILL"),
        (245, "exit code 245, perhaps SIGSEGV (256 - 11)"),
        (247, "exit code 247, perhaps SIGKILL (256 - 9)"),
        (241, "exit code 241"),  # SIGTERM: whoever sent that knows
        (255, "exit code 255"),  # -1, which is a usual code of an error
    ],
)
def test_exit_code_description(exit_code: int, words: str) -> None:
    assert describe_exit(exit_code) == words


def test_no_open_unit_gives_no_culprit() -> None:
    assert culprit_results(running_state(), 1, "crash", 1.0) == ()


def test_fatal_error_dump_takes_precedence_over_the_last_lines() -> None:
    dump = "Fatal Python error: Aborted\n" + "  File x\n" * 1000
    assert last_output(f"noise\n{dump}".encode()).startswith("Fatal Python error: Aborted\n")
    assert len(last_output(dump.encode())) <= OUTPUT_BYTES
    lines = "\n".join(str(number) for number in range(100))
    assert last_output(lines.encode()).splitlines() == [str(number) for number in range(90, 100)]
    assert last_output(b"\xff") == "\ufffd"


def test_death_that_surefire_names_takes_precedence_over_the_stack_of_maven() -> None:
    ending = "The forked VM terminated without properly saying goodbye. VM crash or System.exit?"
    stack = "[ERROR]   at org.apache.maven.Main.main (Main.java:1)\n" * 20
    assert last_output(f"noise\n[ERROR] {ending}\n{stack}".encode()).startswith(f"[ERROR] {ending}")


def test_exit_codes_and_signal_names() -> None:
    assert describe_exit(3) == "exit code 3"
    assert describe_exit(-signal.SIGTERM) == "killed by SIGTERM"
    assert signal_name(250) == "signal 250"
