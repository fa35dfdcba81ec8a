"""What launchers share: they follow a real program to its end."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ciguard.run.plugins.ciguard_launcher import Leg, death, follow

LEAVES_A_SERVER = """
import subprocess, sys
server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(server.pid, flush=True)
sys.exit(3)
"""
MANY = 20_000  # lines, more than wait for us


def test_server_that_a_test_left_running_keeps_nobody_waiting() -> None:
    """It has the tool's own standard output, which therefore has no end."""
    lines: list[bytes] = []
    began_s = time.monotonic()
    try:
        code = follow([sys.executable, "-c", LEAVES_A_SERVER], os.environ, taken(lines))
        took_s = time.monotonic() - began_s
    finally:
        os.kill(int(lines[0]), signal.SIGTERM)
    assert code == 3
    assert took_s < 45, "the server runs for 60 s"


def test_death_after_a_signal_is_no_result_and_variables_are_hidden(tmp_path: Path) -> None:
    (tmp_path / "units").write_text("[]")
    files = {
        "CIGUARD_UNITS_FILE": str(tmp_path / "units"),
        "CIGUARD_RECORD_FILE": str(tmp_path / "r"),
    }
    leg = Leg({**files, "A": "1", "GTEST_FILTER": "x"}, hidden=("GTEST_",))
    leg.append([death("before", "it ended", "")])
    leg.is_interrupted = True
    leg.append([death("after", "it ended", ""), {"type": "start", "unit": "b"}])
    text = (tmp_path / "r").read_text()
    assert ('"before"' in text, '"after"' in text, '"start"' in text) == (True, False, True)
    assert leg.environ == {"A": "1"}


def test_every_line_is_taken_in_its_order() -> None:
    lines: list[bytes] = []
    program = f"for number in range({MANY}): print(number)\nprint('end', end='')"
    assert follow([sys.executable, "-c", program], os.environ, taken(lines)) == 0
    assert [line.split() for line in lines] == [
        *([str(number).encode()] for number in range(MANY)),
        [b"end"],
    ]


def test_tool_is_ended_where_nothing_more_may_begin() -> None:
    lines: list[bytes] = []
    program = "import itertools\nfor number in itertools.count(): print(number, flush=True)"
    code = follow([sys.executable, "-c", program], os.environ, taken(lines), lambda: True)
    assert code != 0
    assert len(lines) == 1


def taken(lines: list[bytes]) -> Callable[[bytes], bytes]:
    """Keeps each line, and shows none."""

    def take(line: bytes) -> bytes:
        lines.append(line)
        return b""

    return take
