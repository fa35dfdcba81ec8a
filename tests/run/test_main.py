"""The program of a leg, called in this process: its words, its exit codes, its closing lines."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from conftest import TEMPORARY
from run.leg_runner import SCRUBBED, plan_of

from ciguard.codec import plan_file as plan_codec
from ciguard.model import PlannedUnit, Suite
from ciguard.run.__main__ import run
from ciguard.sources.local import read_record_tree

SHARD = ("--plan", "plan.json", "--shard", "01", "--record", "record")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in os.environ:
        if name.startswith(SCRUBBED) and name != TEMPORARY:
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_a.py").write_text("""
import os
def test_passes(): print("seen live")
def test_fails(): assert 0, "for this reason"
def test_dies(): os._exit(9)
""")
    return tmp_path


def units(*names: str) -> list[str]:
    return [f"test_a.py::test_{name}" for name in names]


@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_failures_are_listed_at_the_end(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    plan = plan_of(units("passes", "fails", "dies", "gone"), processes=processes)
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))
    assert run(SHARD) == 13
    printed = capfd.readouterr().out
    assert printed.count("::group::") == printed.count("\n::endgroup::\n")
    *_, last = printed.rpartition("shard 01: ")
    assert "1 passed, 1 failed, 1 died" in last
    assert "1 test did not run" in last
    assert "  failed test_a.py::test_fails: test_a.py:4: AssertionError: for this reason" in last
    assert "  died (crash) test_a.py::test_dies: the process died (exit code 9)" in last
    assert "  did not run test_a.py::test_gone" in last
    (record,) = read_record_tree(folder / "record")
    assert record.end is not None
    assert record.end.exit_code == 13


def test_many_failures_are_counted_and_partly_listed(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = """
import json, sys
for name in open(sys.argv[1]).read().splitlines():
    line = {"type": "result", "unit": name, "case": "row", "outcome": "failed"}
    print(json.dumps(line), file=open(sys.argv[2], "a"))
sys.exit(1)
"""
    suite = Suite("command", (sys.executable, "-c", code, "{units_file}", "{results_file}"))
    planned = [PlannedUnit(f"u{number}", variant="v") for number in range(25)]
    plan = plan_of(planned, suites={"": suite})
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))
    assert run(SHARD) == 10
    printed = capfd.readouterr().out
    assert "  failed [v] u19 row\n" in printed
    assert "u20" not in printed
    assert "  and 5 more: see the record" in printed


@pytest.mark.parametrize(
    ("words", "code", "output"),
    [
        (("--help",), 0, "--record DIR"),
        (("--record", "r"), 2, "nothing to run"),
        (("--record", "r", "--"), 2, "nothing to run"),
        (("--record", "r", "--plan", "plan.json"), 2, "--shard"),
        (SHARD[:4], 2, "--record"),
        (("--record", "r", "--plan", "p", "--", "true"), 2, "one of them"),
        (("--record", "r", "--until", "u", "--", "true"), 2, "no tests to choose from"),
        (("--record", "r", "--results", "../*", "--", "true"), 2, "no pattern of files: '../*'"),
        (("--record", "r", "--limit", "9m", "--", "true"), 2, "an option for plans"),
        (("--record", "r", "--args", "-x y", "--", "true"), 2, "an option for plans"),
        ((*SHARD, "--unless-ended"), 2, "--unless-ended is valid only with --resume-from"),
        (("--record", "r", "--", "no-such-program"), 2, "no program 'no-such-program'"),
        (SHARD, 3, "plan.json: cannot be read: No such file or directory"),
        ((), 2, "the following arguments are required"),
    ],
)
def test_usage_errors(
    folder: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, output: str
) -> None:
    assert run(words) == code
    assert output in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("--results", "r/*.xml"), "--results: framework pytest tells its results by itself"),
        (("--results", "../*.xml"), "no pattern of files: '../*.xml'"),
        (("--limit", "soon"), "--limit: no time: 'soon'"),
    ],
)
def test_words_that_the_plan_refuses(
    folder: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], output: str
) -> None:
    (folder / "plan.json").write_bytes(plan_codec.encode(plan_of(units("passes"))))
    assert run((*SHARD, *words)) == 2
    assert output in "".join(capfd.readouterr())
    assert not (folder / "record").exists()


def test_limit_of_the_step_replaces_that_of_the_plan(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "test_a.py").write_text("import time\ndef test_hangs(): time.sleep(600)\n")
    (folder / "plan.json").write_bytes(plan_codec.encode(plan_of(units("hangs"))))
    assert run((*SHARD, "--limit", "2s")) == 13
    (record,) = read_record_tree(folder / "record")
    assert record.end is not None
    assert record.end.ending == "deadline"
    assert "deadline: 1.6 s have passed" in capfd.readouterr().out
