"""`dotnet test` through the whole loop, with a `dotnet` that plays recorded streams and frames.

The table of situations has the same program with tests that write files; see `dotnet/player.py`.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import call_in_process
from frameworks.dotnet.player import Line, read_recording
from frameworks.loop import Loop, bad, is_whole
from frameworks.situations import MTP, NUNIT, XUNIT, Row
from frameworks.test_table import Suite

from ciguard.run.plugins.ciguard_dotnet import NO_RESULT, HostStream

CULPRIT = "Shop.Tests.Accidents.B_Accident"
TOML = '[suite.s]\nframework = "dotnet"\ncommand = ["dotnet", "test"]\ntimeout = "5s"\n'
PLAIN, MTP_FAILS = "Shop.Tests.Outer+Inner`1.Plain", "Shop.Tests.Prices.Fails"
# What fails in each recorded run.
FAILING = {
    **dict.fromkeys(("xunit2-serial", "xunit2-parallel"), PLAIN),
    "nunit4-sync": "Shop.Tests.Slow.TimesOut",
    **dict.fromkeys(
        ("xunit3-4.0.2", "xunit3-3.2.2", "nunit-4.6.1", "tunit-1.81.10", "mstest-4.5.2"), MTP_FAILS
    ),
}
# Of an application of NUnit: its filter cannot select a name with spaces.
UNSELECTED = "Shop.Tests.Prices.a name of its own, with commas | pipes & ampersands"


def lay_out(folder: Path, build: str, *, toml: str = TOML, row: Row = XUNIT) -> Loop:
    """Plan an assembly that the player builds, in one shard: all recorded tests run in one host."""
    folder /= "a b"
    folder.mkdir(parents=True)
    suite = Suite(replace(row, build=f"chmod +x dotnet && ./dotnet {build}"), folder, folder)
    suite.lay_out()
    (folder / "ciguard.toml").write_text(toml)
    suite.loop.shards = ("01",)
    suite.loop.plan()
    (folder / "notes").unlink(missing_ok=True)
    return suite.loop


def notes(loop: Loop, first: str) -> list[str]:
    """What the player noted, by its first word."""
    lines = (loop.folder / "notes").read_text().splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{first} ")]


# In `make test`: each host's accident that needs most of the launcher.
QUICK = [
    *(("xunit2-parallel", "exit0"), ("nunit4-sync", "hang")),
    *(("mstest4-parallel", "kill"), ("xunit3-4.0.2", "kill")),
]
ACCIDENTS = [
    *QUICK,
    ("mstest4-parallel", "blame"),  # --blame-hang ends the host
    *(("xunit2-parallel", run) for run in ("kill", "thread")),
    *(
        (name, run)
        for name in ("xunit2-serial", "nunit4-sync", "mstest4-parallel")
        for run in ("none", "exit0", "exit3", "failfast", "stackoverflow", "kill", "thread", "hang")
        if (name, run) not in QUICK
    ),
    # Killed at once, an application leaves no test or an innocent one open; so does NUnit.
    *(("xunit3-4.0.2", run) for run in ("exit0", "failfast", "hang")),
    *(("nunit-4.6.1", run) for run in ("exit0", "kill")),
    *(("tunit-1.81.10", run) for run in ("exit0", "kill")),
    *(("mstest-4.5.2", "exit0"), ("xunit3-3.2.2", "exit0")),
]


@pytest.mark.parametrize(
    ("name", "run"),
    [pytest.param(*one, marks=() if one in QUICK else pytest.mark.soak) for one in ACCIDENTS],
)
def test_recorded_accident_has_one_culprit_and_no_loss(tmp_path: Path, name: str, run: str) -> None:
    toml = TOML
    if run == "blame":
        words = '"test", "--blame-hang-timeout", "2s"'
        toml = TOML.replace('"test"', words).replace('"5s"', '"60s"')
    loop = lay_out(tmp_path, f"recording {name}", toml=toml)
    verdict = loop.run(ACCIDENT=run.replace("blame", "hang"))
    if name == "nunit-4.6.1":
        assert [one["unit"] for one in verdict["missing"]] == [UNSELECTED]
        assert f"did not run [s] {UNSELECTED}"[:60] in loop.printed
    else:
        is_whole(verdict, loop)
    expected = {(FAILING[name], ""): "failed"} if name in FAILING else {}
    if run != "none":
        expected[CULPRIT, ""] = "timeout" if run in ("hang", "blame") else "crash"
    assert bad(verdict) == expected, loop.printed
    assert verdict["flaky"] == []
    assert ("--blame-hang ended the test host" in loop.printed) == (run == "blame")
    if run == "exit0" and name == "xunit2-parallel":
        # After the first process, the rest runs one at a time until the culprit is known.
        assert notes(loop, "parallel") == ["names"]
        assert notes(loop, "serial") == ["names", "names", "names"]
        assert "the test host died (exit code 0)" in loop.printed


SERIAL = """
needs = [{{ units = "*", memory = "1GiB" }}]
[pool]
small = {{ runs_on = "ubuntu-latest", cpus = 4, memory = "{}GiB" }}
"""


def test_shard_whose_tests_do_not_fit_together_runs_one_at_a_time(tmp_path: Path) -> None:
    for memory, how in ((8, "parallel"), (4, "serial")):
        toml = TOML + SERIAL.format(memory)
        loop = lay_out(tmp_path / how, "recording xunit2-parallel", toml=toml)
        is_whole(loop.run(), loop)
        assert notes(loop, how) == ["names"]
        assert ("serial: one test at a time: several do not" in loop.printed) == (memory == 4)


@pytest.mark.soak
def test_exception_from_elsewhere_has_no_culprit_and_is_not_green(tmp_path: Path) -> None:
    loop = lay_out(tmp_path, "recording mstest4-parallel")
    verdict = loop.run(ACCIDENT="asyncvoid")
    assert verdict["missing"] == []
    assert bad(verdict) == {}
    assert verdict["verdict"] == "failed"
    assert "async void in `Mark.Fire`; P1 was open" in loop.printed
    assert {one["kind"] for one in verdict["findings"]} == {"unexplained_exit"}


# What a suite builds and how it runs -> words in the log.
UNRUN = {
    "died in discovery": ("build xunit", {"ACT": "kill", "AT": "discovery"}, "(6 cases, 0.0 GiB)"),
    "all explicit": ("build nunit", {"SILENT": "yes"}, ""),
    "application without tests": ("recording xunit3-4.0.2", {"RUN": "nothing"}, "no test ran"),
}


@pytest.mark.parametrize(
    "case", [pytest.param(one, marks=pytest.mark.soak if "died" in one else ()) for one in UNRUN]
)
def test_tests_without_a_result_are_never_a_pass(case: str, tmp_path: Path) -> None:
    build, environ, said = UNRUN[case]
    loop = lay_out(tmp_path, build, row=NUNIT if "nunit" in build else XUNIT)
    verdict = loop.run(**environ)
    assert verdict["verdict"] == "incomplete", loop.printed
    assert len(verdict["missing"]) == len(loop.planned())
    assert said in loop.printed
    assert ("fix: make the assembly smaller" in loop.printed) == ("discovery" in case)


@pytest.mark.soak
def test_names_that_nunit_cannot_read_run_in_a_host_of_their_own(tmp_path: Path) -> None:
    loop = lay_out(tmp_path, "build nunit", row=NUNIT)
    path = loop.folder / "bin/Shop.Tests.dll"
    content = json.loads(path.read_text())
    names = ("Shop.A.adds two", 'Shop.Fix("\\"").F', "Shop.A.Rows(1)", 'Shop.A.Rows(2,"x y")')
    for case, name in zip(content["cases"], names, strict=False):
        case["unit"] = name
    content["cases"][3]["explicit"] = content["cases"][4]["explicit"] = True
    content["cases"][5].update(unit="Shop.A.Sum(\U0001f600)", TestName=True)
    path.write_text(json.dumps(content))
    loop.plan()
    assert [unit for unit in loop.planned() if "Tests" not in unit] == [
        *("Shop.A.Rows", "Shop.A.Sum", "Shop.A.adds two", 'Shop.Fix("\\"").F')
    ]
    verdict = loop.run()
    assert verdict["verdict"] == "passed", loop.printed
    is_whole(verdict, loop)
    assert set(notes(loop, "parallel")) == {"names", "where"}
    rows = [line["case"] for line in loop.record_lines() if "Rows" in line.get("case", "")]
    assert sorted(rows) == ["Shop.A.Rows(1)", 'Shop.A.Rows(2,"x y")']
    (skipped,) = (line for line in loop.record_lines() if line.get("outcome") == "skipped")
    assert (skipped["unit"], skipped["message"]) == (content["cases"][4]["unit"], "[Explicit]")


@pytest.mark.soak
@pytest.mark.parametrize("row", [XUNIT, MTP], ids=lambda row: row.name)
def test_filter_of_the_command_acts_at_listing_alone(tmp_path: Path, row: Row) -> None:
    words = '"dotnet", "test", "--filter", "FullyQualifiedName~First"'
    toml = TOML.replace('"dotnet", "test"', words)
    loop = lay_out(tmp_path, row.build.partition("/dotnet ")[2], row=row, toml=toml)
    assert loop.planned() == [f"Shop.FirstTests.{name}" for name in ("One", "Three", "Two")]
    assert loop.run()["verdict"] == "passed", loop.printed
    starts = [line for line in loop.record_lines() if line["type"] == "start"]
    assert {(line["file"], line["line"]) for line in starts} >= {("FirstTests.cs", 4)}


@pytest.mark.soak
def test_each_assembly_runs_by_itself(tmp_path: Path) -> None:
    """One of VSTest and an application; both have tests of the same names."""
    other = lay_out(tmp_path / "other", "build xunit3", row=MTP)
    loop = lay_out(tmp_path, "build xunit")
    for path in (other.folder / "bin").iterdir():
        shutil.copy(path, loop.folder / "bin" / path.name.replace("Shop", "Cart"))
    loop.configure(TOML.replace('"test"]', '"test", "bin/Shop.Tests.dll", "bin/Cart.Tests.dll"]'))
    names = [f"[{one}.Tests bin] {name}" for one in ("Cart", "Shop") for name in other.planned()]
    assert loop.planned() == names
    verdict = loop.run(ACT="exit", AT="two")
    is_whole(verdict, loop)
    two = "Shop.FirstTests.Two"
    assert bad(verdict) == {(f"[{one}.Tests bin] {two}", ""): "crash" for one in ("Cart", "Shop")}


@pytest.mark.soak
@pytest.mark.parametrize("name", ["nunit4-sync", "mstest-4.5.2"])
def test_stopped_process_has_no_culprit(tmp_path: Path, name: str) -> None:
    """A leg that is to stop ends the host after a test; the next one goes on."""
    loop = lay_out(tmp_path, f"recording {name}")
    attempt = {"GITHUB_RUN_ID": "1", "GITHUB_RUN_ATTEMPT": "1", "PAUSE_S": "0.5"}
    for for_s in (2.0, 3.0, 4.0):
        shutil.rmtree(loop.folder / "records", ignore_errors=True)
        printed = loop.run_shard("01", "first", "--for", f"{for_s}s", **attempt)
        assert "died" not in {line.get("outcome") for line in loop.record_lines()}, printed
        attempt["GITHUB_RUN_ATTEMPT"] = "2"
        loop.run_shard("01", "second", "--resume-from", "records", **attempt)
        verdict = loop.guard()
        assert bad(verdict) == {(FAILING[name], ""): "failed"}, printed
        is_whole(verdict, loop)


def test_job_that_lists_records_what_was_not_tried_and_why_it_refuses(tmp_path: Path) -> None:
    loop = lay_out(tmp_path, "build xunit")
    built = {"TargetPath": str(loop.folder / "bin/Shop.Tests.dll"), "SelfContained": "true"}
    loop.environ = {**loop.environ, "PROJECTS": json.dumps({"Shop.Tests.csproj": built})}
    (loop.folder / "matrix.yml").touch()
    words = ("plan", "--shards", "1", "-o", "plan.json")
    what = "self-contained (Shop.Tests.dll)"
    done = call_in_process(*words, cwd=loop.folder, **loop.environ)
    assert f"\n- not tried with ciguard: {what}\n" in done.stdout, done.stderr
    lists = (*words, "--collect", "history", "--matrix", "matrix.yml")
    call_in_process(*lists, cwd=loop.folder, **loop.environ)
    assert f"\nuntried: {what}\n" in loop.run_shard("01", "01")
    shutil.rmtree(loop.folder / "bin")
    (finding,) = (one for one in loop.run()["findings"] if one["shard"] == "01")
    why = "dotnet: no tests in dotnet test: build it before the tests: dotnet build"
    assert (finding["kind"], finding["facts"]) == ("setup_failed", {"output": why})


def test_key_parallel_is_refused_for_other_frameworks(tmp_path: Path) -> None:
    (tmp_path / "ciguard.toml").write_text("[suite.s]\nparallel = false\n")
    done = call_in_process("plan", "--shards", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert "framework pytest has no key `parallel`" in done.stderr


# Display names of the listed rows, those of the results, and those that fail for lack of one.
ROWS: dict[str, tuple[tuple[str, ...], tuple[str, ...], list[str]]] = {
    "each row": (("A(1)", "A(2)"), ("A(2)", "A(1)"), []),
    "rows that cannot be listed": (("A",), ("A(1)", "A(2)"), []),
    "rows with changing names": (("A(1)", "A(2)"), ("A(1)", "A(3)"), []),
    "a row without a result": (("A(1)", "A(2)"), ("A(1)",), ["S.A(2)"]),
    "fewer rows": (("A(1)", "A(2)", "A(3)"), ("A(1)", "A(4)"), ["S.A(3)"]),
}


@pytest.mark.parametrize("case", ROWS)
def test_row_without_a_result_in_a_complete_run_fails(case: str) -> None:
    listed, ran, missed = ROWS[case]
    rows = [{"case": name, "file": None, "line": 0} for name in listed]
    stream = HostStream({"S.A": "S.A"}, {"S.A": rows}, ".", 1.0)
    for name in ran:
        line = {"unit": "S.A", "case": name, "outcome": "Passed", "at_s": 1.0, "wall_s": 0.0}
        stream.read({"type": "result", **line})
    stream.read({"type": "complete", "at_s": 2.0, "aborted": False, "canceled": False})
    lines, blamed = stream.end(was_stopped=False)
    assert (stream.closed, blamed) == ({"S.A"}, set())
    failed = [line for line in lines if line["type"] == "result"]
    assert [(line["outcome"], line["case"]) for line in failed] == [
        ("failed", one) for one in missed
    ]
    assert {line["message"] for line in failed} <= {NO_RESULT}


def test_recorded_test_that_ran_alone_has_a_metric_of_allocated_bytes() -> None:
    cases: dict[str, list[Line]] = {}
    for line in read_recording("mstest4-parallel", "list"):
        if line["type"] == "test":
            cases.setdefault(line["unit"], []).append({"file": None, "line": 0, **line})
    stream = HostStream({name: f"[A net8.0] {name}" for name in cases}, cases, ".", 1.0)
    lines = sorted(read_recording("mstest4-parallel", "none"), key=lambda line: line["at_s"])
    found = [one for line in lines for one in stream.read({"wall_s": 0.0, **line})]
    metrics = [line for line in found if line["type"] == "metric"]
    assert {(line["name"], line["unit"]) for line in metrics} == {("allocated_bytes", "bytes")}
    allocated = {line["key"]["test"]: line["value"] >> 20 for line in metrics}
    assert allocated["[A net8.0] Shop.Tests.Memory.M100"] == 100
    assert allocated["[A net8.0] Shop.Tests.Accidents.A_Before"] == 0
    alone = {line.get("case", line["unit"]) for line in found if "peak_delta_bytes" in line}
    assert allocated.keys() == alone


@pytest.mark.soak
def test_equal_rows_of_xunit_are_one_case(tmp_path: Path) -> None:
    loop = lay_out(tmp_path, "build xunit")
    path = loop.folder / "bin/Shop.Tests.dll"
    content = json.loads(path.read_text())
    content["cases"][0]["id"] = "twin"
    path.write_text(json.dumps(content))
    listed = [*content["cases"], content["cases"][0]]
    (loop.folder / "listed.json").write_text(json.dumps(listed))
    verdict = loop.run(LISTED=str(loop.folder / "listed.json"))
    assert verdict["verdict"] == "passed", loop.printed
    is_whole(verdict, loop)
