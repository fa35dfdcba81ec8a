"""What people see of a leg while it runs: plain lines in CI, a live one on a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from typing import TYPE_CHECKING

import pytest
from run.leg_runner import PYTEST, clean_environ, plan_of, start_shard
from run.terminal import Terminal

from ciguard.codec import plan_file as plan_codec
from ciguard.model import PlannedUnit, Suite

if TYPE_CHECKING:
    from pathlib import Path

    from ciguard.model import Plan

# The program itself, with lines as often as a test can wait for.
OFTEN = """
import sys
from ciguard.run.output import leg_console as console
console.PLAIN_EVERY_S = 0.3
from ciguard.run.__main__ import main
main(sys.argv[1:])
"""
PROGRAM = (sys.executable, "-c", OFTEN)
NAPS = """
import time, pytest
@pytest.mark.parametrize("n", range(8))
def test_nap(n):
    time.sleep(0.2)
    print(f"said by {n}")
    assert n != 2, "two: 100 %, really"
"""
UNITS = [f"test_naps.py::test_nap[{n}]" for n in range(8)]
SHOWING = Suite("pytest", (*PYTEST.command, "-p", "no:randomly", "-q"))


def naps(folder: Path, processes: int = 1) -> Plan:
    (folder / "test_naps.py").write_text(NAPS)
    return plan_of(UNITS, suites={"": SHOWING}, processes=processes)


@pytest.mark.parametrize("processes", [1, 2])
def test_plain_lines_in_ci_outside_of_folds(tmp_path: Path, processes: int) -> None:
    plan = naps(tmp_path, processes)
    leg = start_shard(tmp_path, plan, program=PROGRAM, CI="true", GITHUB_ACTIONS="true").wait(10)
    counts = r"progress: (\d)/8 units(?:, 1 failed)?, tests [\d.]+ MiB, headroom .*"
    reported = rf"{counts}, 0:0\d of about 0:01(?:: .*)?"
    lines = leg.printed.splitlines()
    done = [int(found[1]) for line in lines if (found := re.fullmatch(reported, line))]
    assert len(done) >= 2, leg.printed
    assert done == sorted(done)
    assert done[-1] > done[0]
    assert "\x1b" not in leg.printed
    depth = 0
    for line in lines:
        depth += line.startswith("::group::") - (line == "::endgroup::")
        assert depth in (0, 1)
        assert not (depth and line.startswith("progress: ")), "seen by nobody"
    assert depth == 0
    assert "two: 100 %, really" in leg.printed, "failing output is kept"
    logs = (tmp_path / "record").glob("process-*.log")
    assert any("said by 2" in path.read_text() for path in logs)


def test_without_ci_a_pipe_gets_none(tmp_path: Path) -> None:
    leg = start_shard(tmp_path, naps(tmp_path), program=PROGRAM).wait(10)
    assert "progress:" not in leg.printed


def test_failures_are_annotated_where_they_stand(tmp_path: Path) -> None:
    plan = naps(tmp_path)
    leg = start_shard(tmp_path, plan, GITHUB_ACTIONS="true").wait(10)
    errors = [line for line in leg.printed.splitlines() if line.startswith("::error")]
    assert errors == [
        "::error file=test_naps.py,line=3,title=test_naps.py%3A%3Atest_nap[2]::"
        "failed: test_naps.py:7: AssertionError: two: 100 %25, really"
    ]
    assert leg.printed.index("::error") > leg.printed.rindex("::endgroup::")


def test_the_file_of_a_suite_below_the_root_is_named_from_the_root(tmp_path: Path) -> None:
    (tmp_path / "backend").mkdir()
    (tmp_path / "backend" / "test_a.py").write_text("def test_a():\n    assert 0\n")
    suites = {"": Suite("pytest", PYTEST.command, cwd="backend")}
    plan = plan_of([PlannedUnit("test_a.py::test_a")], suites=suites)
    leg = start_shard(tmp_path, plan, GITHUB_ACTIONS="true").wait(10)
    assert "::error file=backend/test_a.py,line=1," in leg.printed


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_a_crash_and_a_timeout_are_annotated_where_the_test_stands(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "test_dies.py").write_text(
        "import os, time\n\ndef test_a(): os._exit(3)\n\n"
        "class TestB:\n    def test_b(self): time.sleep(600)\n"
    )
    units = [
        PlannedUnit("test_dies.py::test_a"),
        PlannedUnit("test_dies.py::TestB::test_b", timeout_s=1.0),
    ]
    suite = Suite("pytest", (*PYTEST.command, *words))
    leg = start_shard(tmp_path, plan_of(units, suites={"": suite}), GITHUB_ACTIONS="true").wait(10)
    errors = [line for line in leg.printed.splitlines() if line.startswith("::error")]
    assert [line.partition("::")[2].partition("::")[0] for line in sorted(errors)] == [
        "error file=test_dies.py,line=3,title=test_dies.py%3A%3Atest_a",
        "error file=test_dies.py,line=6,title=test_dies.py%3A%3ATestB%3A%3Atest_b",
    ]


def test_of_too_many_failures_ten_are_annotated(tmp_path: Path) -> None:
    code = """
import json, os, sys
for name in open(sys.argv[1]).read().splitlines():
    line = {"type": "result", "unit": name, "outcome": "failed", "message": "a%0A\\r\\n::error::b"}
    print(json.dumps(line), file=open(sys.argv[2], "a"))
sys.exit(1)
"""
    suite = Suite("command", (sys.executable, "-c", code, "{units_file}", "{results_file}"))
    plan = plan_of([PlannedUnit(f"u,{n}") for n in range(12)], suites={"": suite})
    leg = start_shard(tmp_path, plan, GITHUB_ACTIONS="true").wait(10)
    errors = [line for line in leg.printed.splitlines() if line.startswith("::error")]
    assert len(errors) == 10
    assert errors[0] == "::error title=u%2C0::failed: a%250A%0D"
    assert errors[-1] == "::error ::and 3 more: see the step's log"
    assert "::error" not in run_same_leg(tmp_path, plan)


def run_same_leg(folder: Path, plan: Plan) -> str:
    """What the same leg prints where nobody reads annotations."""
    (folder / "again").mkdir()
    return start_shard(folder / "again", plan).wait(10).printed


def everything(terminal: int) -> bytes:
    """All that is written to a terminal until its last writer has gone."""
    found = b""
    while select.select([terminal], [], [], 60.0)[0]:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            return found  # how Linux says it
        if not piece:
            return found
        found += piece
    raise AssertionError(f"no end\n{found.decode()}")


def rows_of(text: str) -> list[str]:
    """What a terminal of that test shows in the end."""
    terminal = Terminal(47)
    terminal.write(text.replace("\r\n", "\n"))
    return terminal.shown()


@pytest.mark.parametrize("processes", [1, 2])
def test_one_line_on_a_terminal_that_is_rewritten_and_never_wraps(
    tmp_path: Path, processes: int
) -> None:
    (tmp_path / "plan.json").write_bytes(plan_codec.encode(naps(tmp_path, processes)))
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 47, 0, 0))
    words = ("--plan", "plan.json", "--shard", "01", "--record", "record")
    process = subprocess.Popen(
        [sys.executable, "-m", "ciguard", "run", *words],
        cwd=tmp_path,
        env=clean_environ(TERM="xterm", COLUMNS=""),  # which some runners of tests set
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        text = everything(ours).decode()
    finally:
        process.kill()  # it has ended, or the terminal would not have
        os.close(ours)
    assert process.wait() in (10, -signal.SIGKILL), text
    erase = "\r\x1b[K"
    drawn = [piece for piece in text.split(erase)[1:] if re.match(r"\d/8 units", piece)]
    assert len(drawn) >= 2, text
    drawn = [line.partition("\x1b")[0] for line in drawn]  # how it goes back to half a line
    assert all(len(line) <= 46 for line in drawn)
    assert all("\n" not in line for line in drawn), "what follows erases it first"
    if processes == 1:
        assert f".\r\n{erase}" in text, "also below half a line"
    rows = rows_of(text)
    assert any(re.fullmatch(r"shard 01: 7 passed, 1 failed in [\d.]+ s", row) for row in rows)
    assert not any(re.match(r"\d/8 units", row) for row in rows), "in the end it is gone"
    for log in (tmp_path / "record").glob("*.log"):
        printed = rows_of(log.read_text())
        starts = range(len(rows) - len(printed) + 1)
        assert any(rows[start : start + len(printed)] == printed for start in starts), text
    assert "::" not in text.replace("test_naps.py::", "")
