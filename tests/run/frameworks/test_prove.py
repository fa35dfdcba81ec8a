"""Prove's launcher by literals: how a command is divided, and what TAP comes to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

import pytest
from run.frameworks.test_registry import batch

from ciguard.errors import UsageError
from ciguard.model import Suite, Variant
from ciguard.run.frameworks.prove import PROVE
from ciguard.run.plugins.ciguard_prove import divide, judge, list_tests, read_tap

if TYPE_CHECKING:
    from pathlib import Path

    from ciguard.run.plugins.ciguard_launcher import Leg, Line

KILLED = "t/a.t (Wstat: 9 (Signal: KILL) Tests: 1 Failed: 0)\n"


def brief(tap: str, code: int = 0, log: str = "") -> tuple[str, str]:
    """Outcome and first line of the message of a file."""
    result, end = judge("t/a.t", tap.splitlines(), code, log)
    assert end == {"type": "event", "kind": "closed", "unit": "t/a.t"}
    return result["outcome"], result.get("message", "").partition("\n")[0]


@pytest.mark.parametrize(
    ("tap", "code", "log", "expected"),
    [
        ("1..2\nok 1\nok 2 # SKIP no disk", 0, "", ("passed", "")),
        ("not ok 1 - later # TODO not yet\n1..1", 0, "", ("passed", "")),
        ("1..0 # SKIP no disk", 0, "", ("skipped", "1..0 # SKIP no disk")),
        ("ok 1 # skip no disk\n1..1", 0, "", ("skipped", "ok 1 # skip no disk")),
        ("ok 1\nnot ok 2 - adds\n1..2", 1, "", ("failed", "not ok 2 - adds")),
        ("ok 1 - a \\# b\n1..2", 1, "Bad plan", ("errored", "last line of TAP: 1..2")),
        ("", 1, "no such module", ("errored", "no TAP")),
        (
            *("# Subtest: two\n    ok 1", 1, KILLED),
            ("died", "ended with signal 9; last line of TAP: # Subtest: two"),
        ),
    ],
)
def test_tap_of_a_file_is_one_result(
    tap: str, code: int, log: str, expected: tuple[str, str]
) -> None:
    assert brief(tap, code, log) == expected


def test_file_without_tap_did_not_run(tmp_path: Path) -> None:
    execution, paused = judge("t/a.t", read_tap(str(tmp_path / "none")), 0, "")
    assert (execution["kind"], execution["reason"]) == ("execution", "not_executed")
    assert (paused["kind"], paused["unit"]) == ("unit_paused", "t/a.t")


def test_command_is_divided() -> None:
    words = ["perl", "-S", "prove", "-I", "lib", "-r", "t", "--exec", "perl -w", "::", "x"]
    options = ["perl", "-S", "prove", "-I", "lib", "-r", "--exec", "perl -w"]
    assert divide(words) == (options, ["t"], ["::", "x"])
    assert divide(["./prove.sh", "-l", "xt/a.t"]) == (["./prove.sh", "-l"], ["xt/a.t"], [])


class Listing:
    """A leg that asks for the units."""

    def __init__(self) -> None:
        self.environ: dict[str, str] = {}
        self.units: list[str] = []
        self.errors: list[str] = []

    def answer(self, units: list[Line], errors: list[Line], rootdir: str) -> None:  # noqa: ARG002
        self.units = [unit["unit"] for unit in units]
        self.errors = [error["error"] for error in errors]


def test_listing_is_what_a_dry_run_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prove = tmp_path / "prove"
    prove.write_text('#!/bin/sh\nfor word; do case $word in -*) ;; *) echo "$word" ;; esac; done\n')
    prove.chmod(0o755)
    (tmp_path / "a.t").touch()
    (tmp_path / "b.t").touch()
    monkeypatch.chdir(tmp_path)
    leg = Listing()
    assert list_tests(["./prove", "./a.t", "b.t"], cast("Leg", leg)) == 0
    assert (leg.units, leg.errors) == (["a.t", "b.t"], [])
    assert list_tests(["./prove", "a.t", "../c.t", "gone.t"], cast("Leg", leg)) == 0
    assert leg.errors == ["../c.t", "gone.t"]
    prove.write_text("#!/bin/sh\necho a.t; echo b.t\n")  # as with paths in .proverc
    assert list_tests(["./prove"], cast("Leg", leg)) == 0
    assert leg.errors == ["paths in .proverc"]


def test_the_launcher_gets_the_command() -> None:
    suite = Suite("prove", ("prove",), args=("-l",), variants={"v": Variant(("t/v",))})
    argv = PROVE.execution(suite, "v", batch()).argv
    assert argv[0] == sys.executable
    assert argv[-3:] == ("prove", "-l", "t/v")
    assert "install Perl" in PROVE.advice("ciguard: prove cannot be started: No such file")


@pytest.mark.parametrize("word", ["--state=failed", "-D", "--archive=x.tgz", "-s"])
def test_flags_that_change_which_files_run_are_refused(word: str) -> None:
    suite = Suite("prove", ("prove",), args=(word,), variants={"": Variant()})
    with pytest.raises(UsageError, match=f"the flag {word.partition('=')[0]}"):
        PROVE.listing(suite, "", "answer", "inside")


def test_script_is_refused() -> None:
    with pytest.raises(UsageError, match="ciguard starts prove itself"):
        PROVE.listing(Suite("prove", ("./run.sh",), is_script=True), "", "answer", "inside")
