"""The pipe of Microsoft.Testing.Platform: recorded frames, played by an application."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ciguard.run.plugins import ciguard_mtp
from ciguard.run.plugins.ciguard_mtp import Line

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory and pids as Linux has them")

STREAMS = Path(__file__).parent / "streams/mtp"
ARGV = [sys.executable, str(Path(__file__).parent / "mtp_application.py")]
NUNIT, XUNIT = "nunit-4.6.1", "xunit3-4.0.2"
RECORDINGS = ("mstest-4.5.2", NUNIT, "tunit-1.81.10", "xunit3-3.2.2", XUNIT)
ACCIDENTS = ("A_Before", "B_Accident", "C_After")
UNITS = {
    *(f"Shop.Tests.Prices.{name}" for name in ("Adds", "Fails", "Rows", "Skipped", "Named")),
    *(f"Shop.Tests.Accidents.{name}" for name in ACCIDENTS),
}
MIB = 1 << 20


def environment(recording: str, folder: Path, **environ: str) -> dict[str, str]:
    own = {"RECORDING": str(STREAMS / f"{recording}.jsonl"), "MARKS": str(folder / "marks")}
    return {**os.environ, **own, **environ}


def listed(recording: str, folder: Path) -> list[Line]:
    environ = environment(recording, folder)
    return ciguard_mtp.list_tests(ARGV, environ, is_nunit=recording == NUNIT)


def played(
    recording: str,
    folder: Path,
    uids: list[str] | None = None,
    must_end: Callable[[list[Line]], bool] = lambda _: False,
    **environ: str,
) -> tuple[int, list[Line]]:
    """Exit code and lines of a start with some tests, else all that are listed."""
    lines: list[Line] = []
    cases = {test["uid"]: test["case"] for test in listed(recording, folder)}
    code = ciguard_mtp.run(
        ARGV,
        list(cases) if uids is None else uids,
        folder=str(folder),
        environ=environment(recording, folder, **environ),
        take=lambda line: lines.append({**line, "case": cases.get(line.get("uid", ""))}),
        must_end=lambda: must_end(lines),
        is_nunit=recording == NUNIT,
    )
    return code, lines


def names(lines: list[Line], kind: str) -> list[str]:
    """The last word of the name of each test with such a line."""
    return [str(one["case"].split(".")[-1]) for one in lines if one["type"] == kind]


def begun(folder: Path) -> list[str]:
    return (folder / "begun").read_text().splitlines()


@pytest.mark.parametrize("recording", RECORDINGS)
def test_recorded_run_has_each_result_after_its_start(recording: str, tmp_path: Path) -> None:
    tests = listed(recording, tmp_path)
    own_names = 2 if recording == NUNIT else 0  # full names, with arguments and a name of its own
    assert len({test["unit"] for test in tests} & UNITS) == len(UNITS) - own_names
    assert len({test["uid"] for test in tests}) == len(tests) == 10
    (adds,) = (test for test in tests if test["unit"] == "Shop.Tests.Prices.Adds")
    place = ("", None) if recording == NUNIT else ("Tests.cs", 6)
    assert (adds["file"].rpartition("/")[2], adds["line"]) == place
    code, lines = played(recording, tmp_path, HOLD_MIB="50")
    assert (code, lines.pop()["type"]) == (2, "complete")
    assert set(names(lines, "start")) == set(names(lines, "result"))
    is_serial = recording in ("mstest-4.5.2", "xunit3-3.2.2")
    for start, end in itertools.pairwise(lines) if is_serial else ():
        if start["type"] == "start":
            assert end["uid"] == start["uid"]
            assert 49 * MIB < end["peak_bytes"] - start["rss_bytes"] < 60 * MIB
            assert abs(end["rss_bytes"] - start["rss_bytes"]) < 10 * MIB
    by_outcome = {one["outcome"]: one for one in lines if one["type"] == "result"}
    assert set(by_outcome) == {"Passed", "Failed", "Skipped"}
    failure = by_outcome["Failed"]
    assert "Tests.cs:line 7" in failure["trace"]
    assert "Testing" not in failure["message"]
    assert failure["wall_s"] < 1
    assert by_outcome["Skipped"]["message"] == "not here"
    assert len(begun(tmp_path)) == len(set(begun(tmp_path))) == len(names(lines, "start"))
    if recording in (NUNIT, XUNIT):
        wanted = [test["uid"] for test in tests if ".Accidents." in test["unit"]]
        code, lines = played(recording, tmp_path, [*wanted, "No.Such.Test"])
        assert code == 0, "an unknown test is not even mentioned"
        assert set(names(lines, "result")) == set(ACCIDENTS)


def test_no_test_begins_once_the_application_must_end(tmp_path: Path) -> None:
    _, lines = played(XUNIT, tmp_path, must_end=lambda lines: bool(names(lines, "result")))
    assert len(names(lines, "result")) == 1
    assert begun(tmp_path) == [one["case"] for one in lines if one["type"] == "start"]


def test_selection_is_quoted_as_the_application_reads_it(tmp_path: Path) -> None:
    code, lines = played(XUNIT, tmp_path, ["a b (c).#1.\\d"])
    assert (code, [one["type"] for one in lines]) == (8, ["complete"])
    (file,) = tmp_path.glob("selection-*.rsp")
    assert file.read_text() == '--filter-uid\n"a b (c).#1.\\d"\n'
    played(NUNIT, tmp_path, ['N.C.Rows("a b",True)', "N.C.A|B"])
    terms = r'FullyQualifiedName=N.C.Rows\("a b",True\)|FullyQualifiedName=N.C.A\|B'
    words = json.loads((tmp_path / "arguments").read_text())
    assert words[words.index("--filter") + 1] == terms
    search = ciguard_mtp.UNSELECTABLE.search
    assert not any(map(search, ("a\\d#1.@", "Rows(System.Int32, System.String).1.1.0")))
    assert all(map(search, ('Rows("a")', "--x", "@x", "'x'", "", "a\nb", " a")))


@pytest.mark.parametrize(
    ("act", "code", "said"),
    [("refuses", 5, "it refuses an option"), ("damage", 1, "damaged frame: ")],
)
def test_a_protocol_that_fails_is_named_in_the_log(
    act: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uids = ["x"] if act == "refuses" else None
    assert played(XUNIT, tmp_path, uids, ACCIDENT=act) == (code, [])
    assert said in capsys.readouterr().err
    if act == "refuses":
        with pytest.raises(ValueError, match="exit code 5: it refuses an option"):
            ciguard_mtp.list_tests(ARGV, environment(XUNIT, tmp_path, ACCIDENT=act), is_nunit=False)


@pytest.mark.parametrize(
    ("package", "alone"),
    [
        ("xunit.v3.common/3.2.2", ["-parallel", "none"]),
        ("xunit.v3.common/4.0.2", ["-parallelMode", "none"]),
        ("TUnit.Engine/1.81.10", ["--maximum-parallel-tests", "1"]),
        ("MSTest.TestAdapter/4.5.2", []),
    ],
)
def test_application_starts_as_by_dotnet_test(
    package: str, alone: list[str], tmp_path: Path
) -> None:
    dll = tmp_path / "My Tests.dll"
    dll.with_suffix(".deps.json").write_text(json.dumps({"libraries": {package: {}}}))
    words = ["/sdk/dotnet", "test", "--project", "T.csproj", "-c", "Release", "--filter=x"]
    used = {"--filter": "x", "--results-directory": "out"}

    def start(*more: str, **how: bool) -> tuple[list[str], dict[str, str]]:
        how = {"listing": False, "is_alone": False, **how}
        command, environ = [*words, *more], {"PLACE": "job"}
        return ciguard_mtp.application(str(dll), str(tmp_path), command, used, environ, **how)

    argv, environ = start("--", "--crashdump", listing=True, is_alone=True)
    assert argv == ["/sdk/dotnet", "exec", str(dll), "--crashdump", "--filter", "x"]
    assert (environ["PLACE"], environ["DOTNET_ROOT"]) == ("job", "/sdk")
    dll.with_suffix("").touch(0o755)
    own = [str(dll.with_suffix("")), "--crashdump", "--results-directory", "out"]
    assert start("--", "--crashdump", is_alone=True)[0] == [*own, *alone]
    assert start("--", "--crashdump")[0] == own
    for refused in (["--report-trx"], ["--", "--filter-class=C"], ["--", "--treenode-filter"]):
        with pytest.raises(ValueError, match=refused[-1]):
            start(*refused)
    settings = tmp_path / "Properties" / "launchSettings.json"
    settings.parent.mkdir()
    profile = {"commandLineArgs": '--note "a b"', "environmentVariables": {"PLACE": "profile"}}
    profiles = {"IIS": {"commandName": "IISExpress"}, "T": {"commandName": "Project", **profile}}
    settings.write_text(json.dumps({"profiles": profiles}), "utf-8-sig")
    argv, environ = start()
    assert (argv[-2:], environ["PLACE"]) == (["--note", "a b"], "profile")
    assert start("--no-launch-profile")[1]["PLACE"] == "job"
    settings.write_text("{ // no JSON\n}", "utf-8")
    with pytest.raises(ValueError, match=r"launchSettings\.json: .*--no-launch-profile ignores it"):
        start()
