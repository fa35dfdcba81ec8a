"""What is printed is obeyed by nobody: no terminal, no runner of GitHub."""

from __future__ import annotations

import io
import json

import pytest

from ciguard import console

OBEYED = [
    ("::error::x", r"\::error::x"),
    ("a\n   ::stop-commands::x", "a\n   \\::stop-commands::x"),
    ("a.py::t", "a.py::t"),
    ("t[##[set-output name=verdict;]passed]", r"t[##\u005bset-output name=verdict;]passed]"),
    ("### ##[add-mask]e ##[group]", r"### ##\u005badd-mask]e ##\u005bgroup]"),
    ("\x1b[31mred", r"\x1b[31mred"),
]


@pytest.mark.parametrize(("text", "message"), OBEYED)
def test_no_output_line_is_a_workflow_command(
    text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    console.out(text)
    console.err(text)
    assert capsys.readouterr() == (f"{message}\n", f"{message}\n")


def test_json_stays_the_same_value(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"unit": "t[##[add-mask]x]", "case": "::error::"}
    console.out(json.dumps(value, indent=1))
    printed = capsys.readouterr().out
    assert "##[" not in printed
    assert json.loads(printed) == value


def test_workflow_commands_go_to_stderr_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    console.workflow_command("::error::x")
    assert capsys.readouterr().err == "::error::x\n"


def test_progress_is_one_line_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress("runs", 1_000) as advance:
        advance()
    assert capsys.readouterr() == ("", "reading runs: 1,000\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with console.progress("runs", 3) as advance:
        for _ in range(3):
            advance()
    assert "3/3" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")  # the bar is gone
