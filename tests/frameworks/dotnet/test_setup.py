"""Run settings, the compiled extensions, and the assemblies of a `dotnet test` command.

`dotnet` is the player, which answers for msbuild and the compiler.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from frameworks.loop import PLAYER

from ciguard.run.plugins import ciguard_dotnet_setup as setup


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of `dotnet`, with a space in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARKS", str(tmp_path / "marks"))
    path = tmp_path / "an sdk/dotnet"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec {sys.executable} "{PLAYER}" "$@"\n')
    path.chmod(0o755)
    return path


def found_in(sdk: Path, words: str, **projects: dict[str, str]) -> list[setup.Assembly]:
    """The assemblies of a command, where msbuild tells these properties of projects."""
    environ = {**os.environ, "PROJECTS": json.dumps(projects)}
    return setup.assemblies([str(sdk), "test", *words.split()], environ)


def calls() -> list[list[str]]:
    lines = Path("notes").read_text().splitlines()
    return [json.loads(line.partition(" ")[2]) for line in lines]


def build(folder: Path, name: str, *packages: str) -> str:
    """Lay out the files of a build; return the path of the assembly."""
    folder.mkdir(parents=True, exist_ok=True)
    libraries: dict[str, object] = {f"{package}/1.2.3": {} for package in packages}
    (folder / f"{name}.deps.json").write_text(json.dumps({"libraries": libraries}))
    path = folder / f"{name}.dll"
    path.touch()
    return str(path)


VSTEST = "Microsoft.TestPlatform.TestHost"
MTP = "Microsoft.Testing.Platform"
# Packages in deps.json as SDK 10 writes it, without the adapters, and as older ones do.
HOSTS = {
    "xunit v2": (("xunit.extensibility.core", VSTEST), "", "vstest", "xunit"),
    "xunit v2, SDK 9": (("xunit.runner.visualstudio", "xunit", VSTEST), "", "vstest", "xunit"),
    "xunit v3 of both": (("xunit.v3.core.mtp-v1", VSTEST, MTP), "", "mtp", "xunit"),
    "NUnit with its bridge": (("NUnit", MTP, VSTEST), "", "vstest", "nunit"),
    "NUnit with its runner": (("NUnit", MTP, VSTEST), "true", "mtp", "nunit"),
    "MSTest": (("MSTest.TestFramework", MTP, VSTEST), "false", "vstest", "mstest"),
    "MSTest.Sdk without obj": (("MSTest.TestFramework", MTP), "", "mtp", "mstest"),
    "TUnit": (("TUnit.Engine", MTP), "true", "mtp", ""),
}


@pytest.mark.parametrize("case", HOSTS)
def test_host_and_adapter_are_known_by_the_packages(case: str, sdk: Path, tmp_path: Path) -> None:
    packages, is_application, host, adapter = HOSTS[case]
    path = build(tmp_path / "a b/net8.0", "Shop.Tests", *packages)
    properties = {"TargetPath": path, "IsTestingPlatformApplication": is_application}
    (found,) = found_in(sdk, "Shop.csproj", **{"Shop.csproj": properties})
    assert found[:-2] == (path, "net10.0", "", host, adapter)
    if not is_application:  # handed on by another job: msbuild is not asked
        Path("notes").unlink()
        command = [str(sdk), "test", path, "--no-build"]
        (found,) = setup.assemblies(command, os.environ)
        assert found == setup.Assembly(path, "net8.0", "", host, adapter)
        assert not Path("notes").exists()


def test_options_reach_msbuild_and_values_of_others_are_no_projects(
    sdk: Path, tmp_path: Path
) -> None:
    (tmp_path / "tests/Shop").mkdir(parents=True)
    (tmp_path / "tests/Shop/Shop.csproj").touch()
    path = build(tmp_path / "bin", "Shop", "MSTest.TestAdapter", VSTEST)
    words = "tests/Shop -c Release -f net8.0 -p:A=1;B=2 --logger trx -o:out --filter A=b -- A.X=1"
    properties = {"TargetPath": path, "RunSettingsFilePath": "/a/x"}
    (found,) = found_in(sdk, words, **{"Shop.csproj@net8.0": properties})
    assert (found.path, found.settings) == (path, "/a/x")
    given = ["-p:Configuration=Release", "-p:TargetFramework=net8.0", "-p:A=1;B=2"]
    given.append(f"-p:OutputPath={tmp_path}/out/")
    assert [call[:-1] for call in calls()] == [["msbuild", "tests/Shop/Shop.csproj", *given]]


def test_each_target_framework_is_an_assembly(sdk: Path, tmp_path: Path) -> None:
    names = ("net8.0", "net10.0")
    paths = [build(tmp_path / name, "Shop", "xunit.runner.visualstudio") for name in names]
    several = {"TargetFramework": "", "TargetFrameworks": "net8.0; net10.0;"}
    one = {f"Shop.csproj@{Path(path).parent.name}": {"TargetPath": path} for path in paths}
    found = found_in(sdk, "Shop.csproj", **{"Shop.csproj": several, **one})
    assert [one.path for one in found] == paths


@pytest.mark.parametrize("suffix", ["sln", "slnx"])
def test_solution_has_its_test_projects(suffix: str, sdk: Path, tmp_path: Path) -> None:
    """A project of tests that was not built is an error, as its tests would be lost."""
    names = ["src\\Shop.csproj", "tests\\A.csproj", "tests/B.fsproj"]
    line = 'Project("{1}") = "A", "%s", "{2}"\n' if suffix == "sln" else '<Project Path="%s"/>\n'
    (tmp_path / f"Shop.{suffix}").write_text("".join(line % name for name in names))
    adapter = ("xunit.extensibility.core", VSTEST)
    shop = {"TargetPath": build(tmp_path / "src", "Shop", "xunit.assert"), "IsTestProject": ""}
    a = {"TargetPath": build(tmp_path / "bin", "A", *adapter), "IsTestProject": ""}
    b = {"TargetPath": str(tmp_path / "bin/B.dll"), "IsTestProject": "true"}
    answers = {"Shop.csproj": shop, "A.csproj": a, "B.fsproj": b}
    words = f"Shop.{suffix} -c Release"
    with pytest.raises(ValueError, match=r"B\.dll does not exist: build it before the") as error:
        found_in(sdk, words, **answers)
    assert str(error.value).endswith(f"dotnet build Shop.{suffix} -p:Configuration=Release")
    build(tmp_path / "bin", "B", *adapter)
    found = [Path(one.path).name for one in found_in(sdk, words, **answers)]
    assert found == ["A.dll", "B.dll"]


ERRORS = {
    "Lost.csproj": r"dotnet msbuild Lost\.csproj ended with exit code 1:\nMSB1009",
    "Cover.csproj": r"Cover\.csproj: coverlet\.msbuild needs a build",
    "two": r"two: name one project or solution to test: it has A\.csproj, B\.sln",
    "empty": r"empty: name one project or solution to test: it has none",
    "None.csproj": r"test None\.csproj: build it before the tests: dotnet build None",
    "Odd.csproj": r"Odd\.dll: no package of xunit, NUnit or MSTest .*: run it as another framework",
    "Old.csproj": r"B\.sln: .*\(\.NET Framework has none, and was not tried: choose another one",
    "Shop.slnf": r"Shop\.slnf: solution filters are not read: name its solution or projects",
}


@pytest.mark.parametrize("target", ERRORS)
def test_error_says_what_to_do(target: str, sdk: Path, tmp_path: Path) -> None:
    for name in ("two/A.csproj", "two/B.sln", "empty/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    cover = {"TargetPath": build(tmp_path, "X", VSTEST), "CollectCoverage": "True"}
    odd = {"TargetPath": build(tmp_path, "Odd", "Expecto", VSTEST)}
    projects = {"Cover.csproj": cover, "None.csproj": {"TargetFramework": ""}, "Odd.csproj": odd}
    projects["Old.csproj"] = {"TargetPath": str(tmp_path / "two/B.sln"), "IsTestProject": "true"}
    with pytest.raises(ValueError, match=ERRORS[target]):
        found_in(sdk, target, **projects)


def test_what_ciguard_was_not_tried_with_is_named(sdk: Path, tmp_path: Path) -> None:
    path = build(tmp_path, "Shop", "xunit", VSTEST)
    properties = {"TargetPath": path, "SelfContained": "true", "PublishAot": "true"}
    for x86 in ({"PlatformTarget": "x86"}, {"RuntimeIdentifier": "win-x86"}):
        (found,) = found_in(sdk, "A.csproj", **{"A.csproj": {**properties, **x86}})
        assert found.untried == tuple(
            f"{one} (Shop.dll)" for one in ("x86", "self-contained", "AOT")
        )


def test_extensions_are_compiled_once_by_the_newest_sdk(sdk: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no \.NET SDK is installed: add one to the job"):
        setup.compiled(str(sdk), str(tmp_path), {**os.environ, "SDKS": ""})
    environ = {**os.environ, "SDKS": "8.0.100 [/usr/gone]\n10.0.401 [/an sdk]"}
    library = setup.compiled(str(sdk), str(tmp_path), environ)
    assert library == str(tmp_path / "CiguardDotnet.dll")
    compiler, *words = calls()[-1]
    assert compiler == "/an sdk/10.0.401/Roslyn/bincore/csc.dll"
    assert f"-r:/an sdk/10.0.401/{setup.OBJECT_MODEL}" in words
    assert Path(words[-1]).name == "ciguard_dotnet.cs"
    sdk.unlink()
    assert setup.compiled(str(sdk), str(tmp_path), environ) == library


def values(text: str) -> dict[str, str]:
    """Return the texts of run settings by path."""
    root = ElementTree.fromstring(text)
    return {
        f"{section.tag}/{item.tag}": item.text for section in root for item in section if item.text
    }


def merged(user: str | None = None, **arguments: Any) -> str:
    given = {"library": "/t/a b/C.dll", "results_folder": "/r", **arguments}
    return setup.settings(user, **given)


RUN = "RunConfiguration/"
OURS = {f"{RUN}ResultsDirectory": "/r", f"{RUN}BatchSize": "1", "xUnit/DiagnosticMessages": "false"}
FILTER = r'FullyQualifiedName=A.B|FullyQualifiedName=A.C\(1,"x\|y\&z"\)'
SEPARATE = {f"{RUN}CollectDataForEachTestSeparately": "true"}
ONE = {f"{RUN}DisableParallelization": "true", "xUnit/ParallelizeTestCollections": "false"}
WHERE = 'test =~ "^A.B.x.$"'
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "names": ({"names": ["A.B", 'A.C(1,"x|y&z")']}, {f"{RUN}TestCaseFilter": FILTER}),
    "one at a time": ({"parallel": False}, ONE),
    "NUnit": ({"adapter": "nunit"}, SEPARATE),
    "NUnit one at a time": ({"adapter": "nunit", "parallel": False}, {**SEPARATE, **ONE}),
    "NUnit in parallel": ({"adapter": "nunit", "parallel": True}, {}),
    "NUnit's Where": ({"adapter": "nunit", "where": WHERE}, {**SEPARATE, "NUnit/Where": WHERE}),
    "a listing": ({"listing": True}, {f"{RUN}CollectSourceInformation": "true"}),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_have_what_ciguard_needs(case: str) -> None:
    arguments, expected = SETTINGS[case]
    of_run = {} if "listing" in arguments else {f"{RUN}TreatNoTestsAsError": "true"}
    assert values(merged(**arguments)) == {**OURS, **of_run, **expected}


def test_settings_of_the_user_stay(tmp_path: Path) -> None:
    user = tmp_path / "a b.runsettings"
    shutil.copy(PLAYER.parent / "streams/user.runsettings", user)
    root = ElementTree.fromstring(merged(str(user), results_folder="p1", names=["A"]))
    found = {element.tag: element.text for element in root.iter()}
    assert found["ResultsDirectory"] == str(tmp_path / "out/p1")
    assert (found["TestCaseFilter"], found["BatchSize"]) == ("FullyQualifiedName=A", "1")
    assert (found["GREETING"], found["DiagnosticMessages"]) == ("gr\u00fc\u00df", "true")
    assert [element.get("kept") for element in root.iter("OfAnotherTool")] == ["yes"]
    named = [element.get("friendlyName") for element in root.iter() if element.get("friendlyName")]
    assert named == ["XPlat Code Coverage", "own", "ciguard", "trx", "ciguard"]
    paths = [element.get(name) for element in root.iter() for name in ("codebase", "codeBase")]
    assert [path for path in paths if path] == ["/t/a b/C.dll"] * 2
    listed = values(merged(str(user), listing=True))
    assert listed[f"{RUN}TestCaseFilter"] == "Category=Fast"
    user.write_text("<RunSettings>")
    with pytest.raises(ValueError, match=f"{user}: not readable as run settings"):
        merged(str(user))


ALLOWED = ("RunConfiguration.TreatNoTestsAsError=true", 'TestRunParameters.Parameter(name="a")')
REFUSED = (
    *("RunConfiguration.BatchSize=10", "runconfiguration.testcasefilter=A=b"),
    *("MSTest.Parallelize.Workers=4", "xUnit.MaxParallelThreads=1", "NUnit.NumberOfTestWorkers=2"),
)


def test_values_after_the_dashes_are_refused_by_name() -> None:
    setup.refuse_values(["dotnet", "test", *REFUSED])
    setup.refuse_values(["dotnet", "test", "--", *ALLOWED])
    for word in REFUSED:
        with pytest.raises(ValueError, match="after -- overrides what ciguard sets") as error:
            setup.refuse_values(["dotnet", "test", "--", "A.B=1", word])
        assert str(error.value).startswith(word)
