"""The leg needs nothing: other Pythons, no site-packages, no ctypes."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from run.leg_runner import PYTEST, build_pyz, plan_of, start, start_shard

from ciguard.model import Suite

TESTS = """
import os, sys, time
def test_passes():
    assert not [path for path in sys.path if path.endswith(".pyz")]
    try:
        import ciguard
    except ImportError:
        pass
    else:
        assert not ciguard.__file__.startswith(os.environ["PYZ"])
def test_fails(): assert 0
def test_dies(): os._exit(3)
def test_last(): time.sleep(0.2)
"""
UNITS = [f"test_any.py::test_{name}" for name in ("passes", "fails", "dies", "last")]
OUTCOMES = dict(zip(UNITS, ("passed", "failed", "died", "passed"), strict=True))


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_pyz(tmp_path_factory.mktemp("pyz") / "ciguard-run.pyz")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_any.py").write_text(TESTS)
    return tmp_path


def test_leg_and_tests_run_under_each_python_version(
    pyz: Path, folder: Path, foreign_python: Path
) -> None:
    python = str(foreign_python)
    suite = Suite("pytest", (python, "-m", "pytest", "-p", "no:cacheprovider"))
    program = (python, "-I", "-S", str(pyz))
    plan = plan_of(UNITS, suites={"": suite})
    leg = start_shard(folder, plan, program=program, PYZ=str(pyz)).wait(10)
    assert leg.outcomes() == OUTCOMES
    assert leg.record().damage == ()
    words = ("--plan", "plan.json", "--shard", "01", "--record", "again", "--for", "1h")
    rerun = start(folder, *words, "--resume-from", "record", program=program).wait(10)
    assert "resumed: 4 of 4 tests ended before" in rerun.printed


def test_bare_python_runs_tests_of_another_environment(pyz: Path, folder: Path) -> None:
    program = (sys.executable, "-I", "-S", str(pyz))
    bare = subprocess.run(
        [*program[:3], "-c", "import click, pytest"], capture_output=True, check=False
    )
    assert bare.returncode != 0, "this Python has nothing installed"
    (folder / "private").mkdir()
    environ = {"PYZ": str(pyz), "TMPDIR": str(folder / "private")}
    leg = start_shard(folder, plan_of(UNITS), program=program, **environ).wait(10)
    assert leg.outcomes() == OUTCOMES
    assert list((folder / "private").glob("ciguard-*")) == []


@pytest.mark.soak
def test_missing_ctypes_is_reported(pyz: Path, folder: Path, tmp_path: Path) -> None:
    """The program of the leg, with another name in the place of ctypes."""
    maimed = tmp_path / "maimed.pyz"
    with zipfile.ZipFile(pyz) as whole, zipfile.ZipFile(maimed, "w") as archive:
        for name in whole.namelist():
            archive.writestr(name, whole.read(name).replace(b"import ctypes", b"import no_ctypes"))
    program = (sys.executable, "-I", "-S", str(maimed))
    leg = start_shard(folder, plan_of(UNITS), program=program, PYZ=str(maimed)).wait(10)
    assert leg.outcomes() == OUTCOMES
    assert "not available in this job: a subreaper" in leg.printed
    assert [event.kind for event in leg.record().events].count("unavailable") == 1


@pytest.mark.soak
def test_removed_pyz_does_not_stop_the_leg(pyz: Path, folder: Path) -> None:
    """`git clean -fdx` takes the plan's folder along; TMPDIR is emptied beside it."""
    for name in ("plan", "temporary"):
        (folder / name).mkdir()
    program = folder / "plan" / pyz.name
    program.write_bytes(pyz.read_bytes())
    (folder / "test_any.py").write_text("""
import os, shutil
def test_removes():
    shutil.rmtree("plan")
    for name in os.listdir("temporary"): shutil.rmtree(os.path.join("temporary", name))
def test_dies(): os._exit(3)
def test_last(): pass
""")
    units = [f"test_any.py::test_{name}" for name in ("removes", "dies", "last")]
    leg = start_shard(
        folder,
        plan_of(units),
        program=(sys.executable, str(program)),
        TMPDIR=str(folder / "temporary"),
    ).wait(10)
    assert leg.outcomes() == dict(zip(units, ("passed", "died", "passed"), strict=True))


@pytest.mark.soak
def test_project_named_ciguard_tests_itself(pyz: Path, folder: Path) -> None:
    (folder / "ciguard.py").write_text("MINE = True\n")
    (folder / "test_any.py").write_text("import ciguard\ndef test_mine(): assert ciguard.MINE\n")
    program = (sys.executable, "-I", "-S", str(pyz))
    leg = start_shard(folder, plan_of(["test_any.py::test_mine"]), program=program).wait(0)
    assert leg.outcomes() == {"test_any.py::test_mine": "passed"}


@pytest.mark.soak
def test_a_rootdir_that_is_not_the_working_folder(pyz: Path, folder: Path) -> None:
    """Ids are relative to the folder with the ini-file, whatever folder the suite runs in."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "below").mkdir()
    (folder / "below" / "test_deep.py").write_text("def test_deep(): pass\n")
    suite = Suite("pytest", PYTEST.command, cwd="below")
    plan = plan_of(["below/test_deep.py::test_deep"], suites={"": suite})
    leg = start_shard(folder, plan, program=(sys.executable, "-I", "-S", str(pyz))).wait(0)
    assert leg.outcomes() == {"below/test_deep.py::test_deep": "passed"}
