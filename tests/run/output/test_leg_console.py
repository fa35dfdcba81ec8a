"""What a leg prints: progress, lines between those of tests, and closing lines."""

from __future__ import annotations

import io
import re
from contextlib import suppress
from pathlib import Path

import pytest

from ciguard.errors import ExitCode
from ciguard.model import Result, SampleLine
from ciguard.run.output.leg_console import BackgroundWriter, Console, Kind
from ciguard.run.output.view import describe_progress
from ciguard.run.policy.leg_verdict import LegVerdict
from ciguard.run.process.tail import Log

MIB = 1 << 20


def test_progress_line_has_only_known_values() -> None:
    sample = SampleLine(250.0, tree_bytes=1229 * MIB, headroom_bytes=512 * MIB)
    assert describe_progress(12, 40, bad=1, times_s=(250.4, 720.0), sample=sample, running=()) == (
        "12/40 tests, 1 failed, 1.20 GiB in use, 512 MiB free, 4 min 10 s of about 12 min 00 s"
    )
    text = describe_progress(0, 1, bad=0, times_s=(3.0, None), sample=None, running=())
    assert text == "0/1 test, 3.00 s"


def test_at_most_four_running_units_are_listed() -> None:
    names = [f"a.py::test_{number}" for number in range(6)]
    text = describe_progress(0, 6, bad=0, times_s=(3.0, None), sample=None, running=names)
    assert text == f"0/6 tests, 3.00 s: {', '.join(names[:4])} and 2 more"


def test_leg_output_starts_on_a_new_line() -> None:
    written = io.BytesIO()
    output = BackgroundWriter(written)
    pieces: list[tuple[Kind, bytes]] = [
        ("raw", b"a.py .."),
        ("line", b"one\n"),
        ("raw", b"x\n"),
        ("line", b"two\n"),
    ]
    for kind, piece in pieces:
        output.put(kind, piece)
    output.close(5.0)
    assert written.getvalue() == b"a.py ..\none\nx\ntwo\n"


def test_unreadable_log_does_not_affect_other_output(tmp_path: Path) -> None:
    """As when a network file system goes away: a folder opens, and each read of it fails."""
    written = io.BytesIO()
    output = BackgroundWriter(written)
    output.put("raw", b"before\n")
    output.put("log", Log(str(tmp_path)))
    output.put("raw", b"after\n")
    output.close(5.0)
    assert written.getvalue().startswith(b"before\n")
    assert written.getvalue().endswith(b"after\n")
    assert b"Is a directory" in written.getvalue()


def test_control_characters_in_names_are_escaped(capfd: pytest.CaptureFixture[str]) -> None:
    """Closing lines and annotations hold names and messages of tests, spelled out."""
    console = Console({"GITHUB_ACTIONS": "true"})
    bad = Result("a.py::\x1b[31m\u202et\x07", "failed", message="no \x1b[2J\u2066", file="a\x07.py")
    verdict = LegVerdict(ExitCode.TESTS_FAILED, "completed", {"failed": 1}, (bad,), ())
    console.print_summary("shard 01", verdict, (1.0, None), {}, {})
    console.close()
    text = capfd.readouterr().out
    assert "a.py::\\x1b[31m\\u202et\\x07" in text
    assert "::error file=a\\x07.py" in text
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e\u2066]", text)


def test_group_of_many_processes_ends_with_a_bug_as_well(capfd: pytest.CaptureFixture[str]) -> None:
    console = Console({"GITHUB_ACTIONS": "true"})
    with suppress(ZeroDivisionError), console.group_of_many("all"):
        console.begin("process 1")
        console.end("process 1 ended")
        raise ZeroDivisionError
    console.begin("process 2")
    console.close()
    lines = capfd.readouterr().out.splitlines()
    assert lines[:2] == ["::group::all", "--- process 1"]
    assert lines[2:] == ["process 1 ended", "::endgroup::", "::group::process 2"]
