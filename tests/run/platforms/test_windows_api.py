"""What of Windows can be told anywhere: sizes of structures, words of statuses, spellings."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from ciguard.codec.record.lines import decode
from ciguard.model import LegPolicy as Policy
from ciguard.model import PlannedUnit, Prediction, Result, Shard, Suite
from ciguard.run.output.view import describe_exit
from ciguard.run.platforms import windows_api as api
from ciguard.run.platforms.base import UNKNOWN
from ciguard.run.platforms.windows_api import case_folded_env, resolve_program
from ciguard.run.policy.actions import Start
from ciguard.run.policy.rules import next_action
from ciguard.run.policy.state import State
from ciguard.run.process.ending import classify_exit, fatal_signal


@pytest.mark.parametrize(
    ("structure", "size"),
    [
        (api.BasicLimits, 64),
        (api.IoCounters, 48),
        (api.ExtendedLimits, 144),
        (api.Accounting, 48),
        (api.MemoryCounters, 72),
        (api.MemoryStatus, 64),
    ],
)
@pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != 8, reason="sizes of 64-bit Windows")
def test_structure_sizes_match_windows(structure: type[ctypes.Structure], size: int) -> None:
    assert ctypes.sizeof(structure) == size


@pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != 8, reason="sizes of 64-bit Windows")
def test_field_offsets_match_windows() -> None:
    assert api.BasicLimits.limit_flags.offset == 16
    assert api.ExtendedLimits.peak_process_memory_used.offset == 128
    assert api.ExtendedLimits.peak_job_memory_used.offset == 136
    assert api.MemoryCounters.pagefile_usage.offset == 56
    assert api.MemoryStatus.available_page_file.offset == 32
    assert api.ProcessIds.ids.offset == 8


@pytest.mark.parametrize(
    ("physical", "committable", "left"),
    [
        (4, 10, 7),  # half of the page file's room
        (4, 4, 4),
        (4, 1, 1),  # free memory that was promised to others
    ],
)
def test_headroom_is_the_committable_memory(physical: int, committable: int, left: int) -> None:
    gib = 1 << 30
    status = api.MemoryStatus(
        total_physical=16 * gib,
        available_physical=physical * gib,
        available_page_file=committable * gib,
    )
    machine = api.memory_of(status)
    assert machine.total_bytes == 16 * gib
    assert machine.available_bytes == physical * gib
    assert api.headroom_bytes_of(machine) == left * gib


def test_unknown_memory_gives_no_headroom() -> None:
    assert api.headroom_bytes_of(UNKNOWN) is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0xC0000005, "access violation (exit code 0xC0000005)"),
        (0xC00000FD, "stack overflow (exit code 0xC00000FD)"),
        (0xC000013A, "Ctrl-C or Ctrl-Break (exit code 0xC000013A)"),
        (0xC0FFEE00, "ended by Windows (exit code 0xC0FFEE00)"),
        (0x40010004, "terminated (exit code 0x40010004)"),
    ],
)
def test_ntstatus_is_described_in_words(code: int, words: str) -> None:
    assert describe_exit(code) == words
    assert fatal_signal(code) == code


def test_negative_exit_code_is_no_ntstatus() -> None:
    """`exit(-1)` is 0xFFFFFFFF there."""
    assert fatal_signal(0xFFFFFFFF) is None
    assert describe_exit(0xFFFFFFFF) == "exit code 4294967295"


@pytest.mark.parametrize(
    ("code", "ending"),
    [(0xC0000005, "crash"), (0xC0000017, "out_of_memory"), (0xC000012D, "out_of_memory")],
)
def test_ntstatus_gives_the_ending_of_a_signal(code: int, ending: str) -> None:
    shard = Shard("01", "p", (PlannedUnit("a"),), Prediction(1, 1))
    state = State(shard, {"": Suite("any", ("any",))}, Policy())
    action = next_action(state, 0.0)
    assert isinstance(action, Start)
    state.apply(action)
    assert classify_exit(state.running[1], code, clean=False, out_of_memory=False) == ending


def test_later_spelling_of_a_variable_wins() -> None:
    env = case_folded_env({"PATH": "inherited", "Home": "h", "Path": "the suite's"})
    assert env == {"HOME": "h", "PATH": "the suite's"}
    assert list(env) == ["HOME", "PATH"]


def test_program_is_resolved_on_its_path(tmp_path: Path) -> None:
    program = tmp_path / "lint"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    env = {"PATH": str(tmp_path)}
    assert resolve_program(["lint", "-x"], env, "/") == [str(program), "-x"], "on its own PATH"
    assert resolve_program(["./lint"], {}, str(tmp_path)) == [f"{tmp_path}/./lint"], (
        "in its own folder"
    )
    assert resolve_program(["gone", "a"], env, "/") == ["gone", "a"], (
        "starting it says that it is not"
    )


def test_line_with_a_carriage_return_is_decoded() -> None:
    line = decode(b'{"type":"result","unit":"a","outcome":"passed"}\r')
    assert isinstance(line, Result)
    assert line.unit == "a"
