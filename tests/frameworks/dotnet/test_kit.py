"""The kit for a machine with an SDK, as far as it can run without one.

Its comparisons run on recorded results, its jobs for real, with pytest in place of .NET.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import made_once
from real import dotnet, dotnet_kit

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def pack(folder: Path) -> None:
        dotnet_kit.pack(folder / "kit", "pytest", "")

    return made_once(tmp_path_factory, "dotnet-kit", pack) / "kit"


def test_kit_is_small_and_has_the_source_of_the_extensions(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    assert dotnet_kit.pack(folder) < dotnet_kit.LARGEST_BYTES
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["policy"]["lists"]
    assert plan["suites"]["tests"]["framework"] == "dotnet"
    assert b"ciguard_dotnet.cs" in (folder / "ciguard-run.pyz").read_bytes()
    argv = [sys.executable, "-I", "-S", str(folder / "dotnet.py")]
    done = subprocess.run(argv, capture_output=True, env={"PATH": str(tmp_path)}, check=False)
    assert done.returncode == 2
    assert b"where `dotnet` is installed" in done.stderr
    for variant, own in dotnet.VARIANTS.items():
        dotnet.write_project(variant, "net10.0", tmp_path / variant)
        code = (tmp_path / variant / f"{own['source']}.cs").read_text()
        assert all(f" {name}(" in code and f'Mark.Done("{name}")' in code for name in dotnet.TESTS)


# Situation and exit code, outcomes that differ ("": no result), bodies that ran less often or more,
# and what is found.
RUNS: dict[str, tuple[str, int, dict[str, str], dict[str, int], str]] = {
    "as expected": ("none", 0, {}, {}, ""),
    "passed without running": ("none", 0, {}, {"Rows": 2}, "Rows: 3 passed, and 2 ran to the end"),
    "lost": ("none", 0, {"Adds": ""}, {}, "Adds: 0 results"),
    "skipped": ("none", 0, {"Adds": "skipped"}, {}, "Adds: skipped"),
    "culprit": ("exit0", 10, {"B_Accident": "died"}, {"B_Accident": 0}, ""),
    "green": ("exit0", 0, {"B_Accident": "died"}, {"B_Accident": 0}, "exit code 0"),
    "no culprit": ("exit0", 10, {}, {}, "B_Accident: passed"),
    "hang called a crash": ("hang", 10, {"B_Accident": "died"}, {}, "B_Accident: died"),
    "innocent": (
        *("exit0", 10, {"B_Accident": "died", "C_After": "died"}, {"B_Accident": 0}),
        "C_After: died",
    ),
    "async void": ("asyncvoid", 10, {"Adds": "died"}, {"Adds": 0}, ""),
    "hangs": ("hang", dotnet.HANGS, {"B_Accident": "timeout"}, {"B_Accident": 0}, "hangs"),
}


@pytest.mark.parametrize("case", RUNS)
def test_run_is_compared_with_the_bodies_that_ran(case: str) -> None:
    situation, code, outcomes, marks, expected = RUNS[case]
    all_outcomes = {**dict.fromkeys(dotnet.TESTS, "passed"), "Skipped": "skipped", **outcomes}
    results = [
        (f"[A net8.0] Shop.Tests.Prices.{name}", f"{name}({row})", outcome)
        for name, outcome in all_outcomes.items()
        for row in range(dotnet.TESTS[name])
        if outcome
    ]
    bad = dotnet.SITUATIONS[situation]
    found = dotnet.differences(results, {**dotnet.TESTS, **marks}, bad, code)
    assert "; ".join(found) == expected


def test_results_are_compared_with_a_recorded_trx_file() -> None:
    truth = dotnet.read_trx(HERE / "streams")
    names = ("Adds", "Fails", 'Rows(2,"b, c")', "Twins(1)", "Twins(1)", "Skipped", "Unsure")
    skipped = ("Skipped", "Unsure")
    ours = [
        ("Rows", f"Shop.Tests.Prices.{name}", "skipped" if name in skipped else "passed")
        for name in names
    ]
    ours += [
        ("F", 'Shop.Tests.Fix("a, b").F', "passed"),
        ("Rows", 'Shop.Tests.Prices.Rows(5,"ü\N{GRINNING FACE}")', "passed"),
        ("Found", "[GET /] is found", "passed"),
    ]
    assert dotnet.compare_with_trx(ours, truth) == ([], [])
    labelled = [(f"[A net8.0] {unit}", f"[A net8.0] {case}", how) for unit, case, how in ours]
    assert dotnet.compare_with_trx(labelled, truth) == ([], [])
    renamed = [(*one[:1], one[1].replace("(1)", "(17)"), one[2]) for one in ours]
    assert dotnet.compare_with_trx(renamed, truth) == ([], []), "rows of random data"
    changed = [*ours[1:4], ("Adds", "Shop.Tests.Prices.Adds", "failed"), *ours[5:]]
    assert dotnet.compare_with_trx(changed, truth) == (
        ["Adds passed", "Twins(1) passed"],
        ["Shop.Tests.Prices.Adds failed"],
    )


@pytest.mark.parametrize("words", [["/a b/testhost.dll", "--port"], ["--dotnet-test-pipe", "/p"]])
def test_host_is_found_above_a_process_that_a_test_started(words: list[str]) -> None:
    job = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    argv = [sys.executable, "-c", job, "sh", "-c", "sleep 30; true", *words]
    process = subprocess.Popen(argv, start_new_session=True)
    try:
        host, children = 0, Path("/proc/none")
        while not children.exists() or not children.read_text():
            host = dotnet.host_of(process.pid)
            children = Path(f"/proc/{host}/task/{host}/children")
        assert dotnet.host_of(process.pid) == host
    finally:
        dotnet.kill_session(process)


def test_command_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dotnet, "LIMIT_S", 0.1)
    assert dotnet.call(["sleep", "30"], tmp_path) == dotnet.HANGS


TESTS = """
import time, pytest
@pytest.mark.parametrize("number", range(20))
def test_waits(number):
    time.sleep(0.1)
"""


@pytest.mark.soak
def test_suite_of_a_project_loses_nothing_when_its_job_is_killed(kit: Path, tmp_path: Path) -> None:
    """Only the test that the TRX file has in addition is missing."""
    ids = [*(f"test_a.py::test_waits[{number}]" for number in range(20)), "lost"]
    results = (f'<UnitTestResult testName="{one}" outcome="Passed" />' for one in ids)
    (tmp_path / "truth.trx").write_text(f'<TestRun xmlns="x">{"".join(results)}</TestRun>')
    (tmp_path / "test_a.py").write_text(TESTS)
    options = ("--seed", "1", "--kills", "1", "--work", str(tmp_path / "a b"))
    path = f"{HERE / 'kit'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, str(kit / "dotnet.py"), *options, "test_a.py", "-c", "Release"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    records, compared, *lines = done.stdout.splitlines()
    assert records == f"records in {tmp_path / 'a b'}, seed 1"
    assert compared == "21 results in TRX files, 20 in the record, exit code 0"
    assert [line for line in lines if " killed after " not in line] == [
        "DIFFERS missing lost passed",
        "  DIFFERS lost passed",
        "2 differ",
    ]
