"""The live line: always the last one, and nothing that a test printed is lost by it."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from run.leg_runner import until
from run.terminal import Terminal

from ciguard.errors import ExitCode
from ciguard.model import Result
from ciguard.run.output.leg_console import Console
from ciguard.run.output.progress import Progress, terminal_line
from ciguard.run.output.writer import BackgroundWriter
from ciguard.run.policy.leg_verdict import LegVerdict
from ciguard.run.process.output_log import Log

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COLUMNS = 20
PROGRESS = Progress(done=1, total=8, bad=0, elapsed_s=1.0, running_units=("a.py::test_x",))
LINE = terminal_line(PROGRESS, COLUMNS)


def screens(pieces: Sequence[str | None]) -> list[list[str]]:
    """What is shown after each piece that a test printed; None is a moment to say progress."""
    found = []
    written = io.BytesIO()
    output = BackgroundWriter(written, COLUMNS)
    for piece in pieces:
        if piece is None:
            output.put("live", LINE.encode())
        else:
            output.put("raw", piece.encode())
        until(lambda: output.idle, what="it is passed on")
        terminal = Terminal(COLUMNS)
        terminal.write(written.getvalue().decode("utf-8"))
        found.append(terminal.shown())
    output.close(1.0)
    return found


def plain(pieces: Sequence[str | None]) -> list[str]:
    terminal = Terminal(COLUMNS)
    terminal.write("".join(piece or "" for piece in pieces))
    return terminal.shown()


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["a.py ..", None], ["a.py ..", LINE]),
        (["a.py ..", None, ".F", "."], ["a.py ...F.", LINE]),
        (["a.py ..", None, " 100%\n"], ["a.py .. 100%", LINE]),
        (["a.py ..", None, " 100%\nb.py ."], ["a.py .. 100%", "b.py .", LINE]),
        ([None, "x\n", "y"], ["x", "y", LINE]),
        ([None, "x" * (COLUMNS - 1)], ["x" * (COLUMNS - 1), LINE]),
        ([None, "x" * COLUMNS], ["x" * COLUMNS]),
        ([None, "x" * COLUMNS, "\n"], ["x" * COLUMNS, LINE]),
        (["\x1b[32m.\x1b[0m" * 5, None, "\x1b[31mF\x1b[0m"], [".....F", LINE]),
        (["\u6f22" * 9, None, "!"], ["\u6f22" * 9 + "!", LINE]),
        (["a\tb", None], ["a\tb"]),
        ([None, "." * 5000, "x"], plain(["." * 5000, "x"])),
        ([None, "." * 5000, "\nx"], [*plain(["." * 5000]), "x", LINE]),
    ],
)
def test_the_live_line_is_below_what_a_test_printed(
    pieces: list[str | None], shown: list[str]
) -> None:
    assert screens(pieces)[-1] == shown


@example([".", None, "\n", None, ".", "."])
@given(
    st.lists(
        st.none() | st.text(".F\n\u6f22\u00e9", max_size=12) | st.just("\x1b[32m.\x1b[0m"),
        max_size=12,
    )
)
def test_without_its_last_row_it_is_what_a_pipe_gets(pieces: list[str | None]) -> None:
    for count, shown in enumerate(screens(pieces), 1):
        expected = plain(pieces[:count])
        if shown and shown[-1] == LINE:
            shown = shown[:-1]  # noqa: PLW2901
            while shown and not shown[-1]:
                shown.pop()
        assert shown == expected


def test_a_log_that_cannot_be_read_costs_only_itself(tmp_path: Path) -> None:
    """As when a network file system goes away: a folder opens, and each read of it fails."""
    written = io.BytesIO()
    output = BackgroundWriter(written, COLUMNS)
    output.put("raw", b"before\n")
    output.put("log", Log(str(tmp_path)))
    output.put("raw", b"after\n")
    output.close(5.0)
    assert written.getvalue().startswith(b"before\n")
    assert written.getvalue().endswith(b"after\n")
    assert b"Is a directory" in written.getvalue()


def test_a_name_moves_no_cursor_and_turns_no_text_around(capfd: pytest.CaptureFixture[str]) -> None:
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
