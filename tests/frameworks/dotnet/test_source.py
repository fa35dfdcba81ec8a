"""The extensions of VSTest, compiled by Mono against stubs of the types they use, and called."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import made_once
from frameworks.loop import needs_program

HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "ciguard/run/plugins/ciguard_dotnet.cs"
MIB = 1 << 20
NO_ID = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="session")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of Drive.cs."""
    needs_program("mcs", "Debian's mono-mcs")

    def compile_sources(folder: Path) -> None:
        # CS0436: a stub in place of one of Mono's own types.
        options = ("-nologo", "-langversion:7", "-warnaserror+", "-nowarn:436", "-d:EVENTS")
        sources = (HERE / "Stubs.cs", HERE / "Drive.cs", SOURCE)
        argv = ["mcs", *options, "-out:drive.exe", *map(str, sources)]
        subprocess.run(argv, cwd=folder, check=True)

    return made_once(tmp_path_factory, "drive", compile_sources) / "drive.exe"


def play(drive: Path, folder: Path, scene: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the lines of a scene, in a folder with a space in its path."""
    needs_program("mono", "Debian's mono-mcs")
    folder = folder / "a b"
    folder.mkdir()
    done = subprocess.run(
        ["mono", str(drive), scene],
        env={"CIGUARD_DOTNET_FOLDER": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    (file,) = folder.iterdir()
    return done.returncode, [json.loads(line) for line in file.read_text("ascii").splitlines()]


SCENES = {
    "mstest": (0, "start end start start end end session_end exit"),
    # A late start opens nothing, and the end of a test without a stop closes it.
    "xunit": (
        *(0, "running ran start running start end ran end running start end session_end exit"),
    ),
    "exit": (3, "exit"),
    "thread": (1, "start unhandled"),
}


@pytest.mark.parametrize("scene", SCENES)
def test_collector_writes_the_lines_of_a_host(scene: str, drive: Path, tmp_path: Path) -> None:
    expected_code, types = SCENES[scene]
    code, lines = play(drive, tmp_path, scene)
    written = ["host", "session_start", *types.split()]
    assert (code, [line["type"] for line in lines]) == (expected_code, written)
    assert all(abs(line["at_s"] - lines[0]["at_s"]) < 60 for line in lines)
    by_type = {line["type"]: line for line in lines}
    assert by_type.get("exit", {"code": code})["code"] == code
    measured = [f"{line['type']} {line['case']}" for line in lines if "peak_bytes" in line]
    ended = [line["unit"] for line in lines if line["type"] == "end"]
    if scene == "thread":
        assert by_type["unhandled"]["message"].startswith("System.InvalidOperationException: on a ")
        assert "Drive.<ThreadScene>" in by_type["unhandled"]["message"]
    elif scene == "xunit":
        assert measured == ["ran Quick", "ran Slow", "end Late"]
        assert ended == ["Shop.Quick", "Shop.Slow", "Shop.Late"]
    elif scene == "mstest":
        first, second, third, *_ = (line for line in lines if line.get("case", "")[:1] == "A")
        assert (first["unit"], first["case"]) == ("Shop.A", 'A (1,"ü \\ \N{GRINNING FACE}\n")')
        assert 63 * MIB < second["peak_bytes"] - first["rss_bytes"] < 70 * MIB
        assert third["rss_bytes"] > 63 * MIB  # still held: no part of the second run
        assert {"allocated_bytes"} <= first.keys() & second.keys()  # null in Mono


def test_logger_writes_the_lines_of_a_console(drive: Path, tmp_path: Path) -> None:
    code, lines = play(drive, tmp_path, "logger")
    written = [{key: line[key] for key in line if key != "at_s"} for line in lines]
    case = {"unit": "Shop.Rows", "case": "Rows (1)"}
    passed = {**case, "outcome": "Passed", "wall_s": 0, "message": None, "trace": None}
    failed = {"case": "Rows (2)", "outcome": "Failed", "wall_s": 1.25, "message": "expected 5"}
    assert (code, written) == (
        0,
        [
            {
                "type": "test",
                "id": NO_ID,
                **case,
                "file": "/a b/Tests.cs",
                "line": 17,
                "explicit": True,
            },
            {"type": "discovered", "aborted": False},
            {"type": "result", **passed},
            {"type": "result", **passed, **failed, "trace": "   at Shop.Rows()\r\n"},
            {"type": "complete", "aborted": True, "canceled": False},
        ],
    )
