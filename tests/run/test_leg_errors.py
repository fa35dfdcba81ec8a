"""A mistake of a user, a test or ours, or a full disk: a sentence, an exit code, an end line."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from run.leg_runner import PYTEST, Leg, clean_environ, leg_program, plan_of, start, start_shard
from small_disk import full, small_disk

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.plan_file import decode
from ciguard.guard.prove import prove
from ciguard.guard.verdict import Verdict
from ciguard.guard.wording import finding_message
from ciguard.model import Suite, Variant
from ciguard.run.__main__ import run
from ciguard.sources.local import read_record_tree

WORDS = ("--plan", "plan.json", "--shard", "01", "--record", "record")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    (tmp_path / "plan.json").write_bytes(plan_codec.encode(plan_of(["test_a.py::test_a"])))
    return tmp_path


def run_and_read_error(folder: Path, *words: str, expect: int, **environ: str) -> str:
    """Call the program in this process: no leg starts."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with (
        patch.dict(os.environ, clean_environ(**environ), clear=True),
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        code = run(words)
    out.seek(0)
    printed = out.read()
    assert code == expect, printed
    return printed


def test_unknown_shard_is_an_error(folder: Path) -> None:
    printed = run_and_read_error(
        folder, "--plan", "plan.json", "--shard", "7", "--record", "record", expect=3
    )
    assert "no shard '7' in the plan" in printed
    assert "there are 01" in printed
    assert not (folder / "record").exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"schema": 99}'])
def test_invalid_plan_is_an_error(folder: Path, content: bytes) -> None:
    (folder / "plan.json").write_bytes(content)
    assert "plan.json" in run_and_read_error(folder, *WORDS, expect=3)


def test_missing_plan_is_an_error(folder: Path) -> None:
    (folder / "plan.json").unlink()
    assert "download the plan's artifact" in run_and_read_error(folder, *WORDS, expect=3)


def test_existing_record_is_not_overwritten(folder: Path) -> None:
    """The plan is named by the folder of its artifact, too."""
    start(folder, "--plan", ".", *WORDS[2:]).wait(0)
    before = {path.name: path.read_bytes() for path in (folder / "record").iterdir()}
    assert "a record is written once" in run_and_read_error(folder, *WORDS, expect=3)
    assert before == {path.name: path.read_bytes() for path in (folder / "record").iterdir()}


def test_unwritable_record_is_an_error(folder: Path) -> None:
    words = (*WORDS[:4], "--record", "plan.json/record")
    assert "pass another folder to --record" in run_and_read_error(folder, *words, expect=3)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission_is_an_error(folder: Path) -> None:
    (folder / "closed").mkdir(mode=0o500)
    words = (*WORDS[:4], "--record", "closed")
    assert "Permission denied" in run_and_read_error(folder, *words, expect=3)


def test_missing_suite_folder_is_an_error(folder: Path) -> None:
    plan = plan_of(["test_a.py::test_a"], suites={"": Suite("pytest", PYTEST.command, cwd="gone")})
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))
    assert "no folder 'gone' here" in run_and_read_error(folder, *WORDS, expect=3)


def test_unknown_framework_in_the_plan_is_an_error(folder: Path) -> None:
    plan = plan_of(["test_a.py::test_a"], suites={"": Suite("abacus", ("abacus",))})
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))
    printed = run_and_read_error(folder, *WORDS, expect=2)
    assert "no framework 'abacus'" in printed
    assert "there are command, " in printed


def test_plan_of_another_commit_is_an_error(folder: Path) -> None:
    plan = replace(plan_of(["test_a.py::test_a"]), head_sha="a" * 40)
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))
    github = {"GITHUB_ACTIONS": "true", "GITHUB_SHA": "b" * 40}
    printed = run_and_read_error(folder, *WORDS, expect=3, **github)
    assert f"plan: is for commit {'a' * 40}, and this run is of {'b' * 40}" in printed
    assert "  fix: download the plan" in printed
    assert not (folder / "record").exists()


def test_unknown_option_is_a_usage_error(folder: Path) -> None:
    words = ("--plan", "plan.json", "--shrad", "01", "--record", "record")
    printed = run_and_read_error(folder, *words, expect=2)
    assert printed.startswith("usage: ciguard run --plan")
    assert printed.endswith("unrecognized arguments: --shrad 01\n")


@pytest.mark.soak
def test_closed_output_pipe_does_not_stop_the_leg(folder: Path) -> None:
    program = [sys.executable, "-m", "ciguard", "run", *WORDS]
    with subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE, bufsize=0) as leg:
        assert leg.stdout is not None
        leg.stdout.close()
    assert leg.returncode == 0


@pytest.mark.parametrize(
    "closed",
    [
        "<&- >&- 2>&-",
        *(pytest.param(one, marks=pytest.mark.soak) for one in ("<&-", ">&-", "2>&-")),
    ],
)
def test_closed_standard_stream_does_not_stop_the_leg(folder: Path, closed: str) -> None:
    """Also where the record's own file would get the number of one."""
    line = f'exec "$0" -m ciguard run "$@" {closed}'
    program = ("bash", "-c", line, sys.executable)
    leg = start(folder, *WORDS, program=program).wait(0)
    assert leg.outcomes() == {"test_a.py::test_a": "passed"}
    assert leg.record().damage == ()
    assert ("1 passed" in leg.printed) == (" >&-" not in f" {closed}")


def test_usage_error_with_closed_streams_gives_the_exit_code(folder: Path) -> None:
    program = ("bash", "-c", 'exec "$0" -m ciguard run "$@" >&- 2>&-', sys.executable)
    start(folder, "--unknown", program=program).wait(2)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    with small_disk(tmp_path / "small", "1m,nr_inodes=500") as is_mounted:
        if not is_mounted:
            pytest.skip("no small file system can be mounted")
        yield tmp_path / "small"


def test_full_disk_is_reported_and_the_leg_completes(disk: Path) -> None:
    (disk / "test_full.py").write_text("""
import os, pytest
def test_before(): pass
def test_fills():
    ballast = os.open("ballast", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError):
        while True:
            os.write(ballast, b"x" * 4096)
    os.close(ballast)
@pytest.mark.parametrize("n", range(100), ids=lambda n: str(n) + "x" * 2500)
def test_after(n): pass
""")
    # So long that the result of the one that dies fits into no block of 4 KiB.
    names = ["before", "fills", *(f"after[{n}{'x' * 2500}]" for n in range(100))]
    units = [f"test_full.py::test_{name}" for name in names]
    leg = replace(start_shard(disk, plan_of(units)), is_plain=False).wait(13)
    assert "No space left on device" in leg.printed
    assert "lines of the record could not be written" in leg.printed
    assert "ciguard/run" not in leg.printed, "no traceback of ours"
    assert leg.outcomes()[units[0]] == "passed"


def test_full_disk_is_an_error_before_the_first_test(disk: Path) -> None:
    (disk / "plan.json").write_bytes(plan_codec.encode(plan_of(["test_a.py::test_a"])))
    with full(disk):
        leg = start(disk, *WORDS).wait(3)
    assert "No space left on device" in leg.printed
    assert "free some space" in leg.printed


def test_long_id_is_truncated_in_the_log(tmp_path: Path) -> None:
    body = f"""
import pytest
@pytest.mark.parametrize("n", [pytest.param(1, id={"x" * 5000!r})])
def test_a(n): assert not n
def test_b(): pass
"""
    (tmp_path / "test_a.py").write_text(body)
    unit = f"test_a.py::test_a[{'x' * 5000}]"
    plan = plan_of([unit, "test_a.py::test_gone[" + "y" * 5000])
    leg = start_shard(tmp_path, plan, GITHUB_ACTIONS="true").wait(13)
    lines = leg.printed.splitlines()
    ours = [line for line in lines if line.startswith(("  failed", "  did not run", "::error"))]
    assert len(ours) == 3
    assert max(map(len, ours)) < 1100
    assert leg.outcomes() == {unit: "failed"}


@pytest.mark.soak
@pytest.mark.parametrize("option", ["-I", "-E"])
def test_an_interpreter_that_ignores_pythonpath_is_named(tmp_path: Path, option: str) -> None:
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    suite = replace(PYTEST, command=(sys.executable, option, "-m", "pytest"))
    leg = start_shard(tmp_path, plan_of(["test_a.py::test_a"], suites={"": suite})).wait(13)
    assert leg.printed.count("Remove -I or -E from the suite's command") == 1


def test_unstarted_units_name_the_start_error(tmp_path: Path) -> None:
    """A test takes the suite's folder along, and its process."""
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "test_a.py").write_text(
        "import os, shutil\n"
        "def test_removes():\n    shutil.rmtree(os.getcwd())\n    os._exit(1)\n"
        "def test_behind(): pass\n"
    )
    units = ["test_a.py::test_removes", "test_a.py::test_behind"]
    suites = {"": replace(PYTEST, cwd="web", args=("--rootdir", "."))}
    leg = start_shard(tmp_path, plan_of(units, suites=suites)).wait(13)
    why = "its process could not be started: [Errno 2] No such file or directory"
    assert f"did not run {units[1]} {why}" in leg.said
    assert leg.outcomes() == {units[0]: "died"}


def units_of(*names: str) -> list[str]:
    return [f"test_takes.py::test_{name}" for name in names]


def verdict_of(leg: Leg) -> Verdict:
    plan = decode((leg.folder / "plan.json").read_bytes(), "plan.json")
    return prove(plan, read_record_tree(leg.record_folder))


def detail_of(leg: Leg, kind: str) -> str:
    (found,) = [event.detail for event in leg.record().events if event.kind == kind]
    return found


@pytest.mark.soak
def test_emptied_temporary_folder_does_not_stop_the_leg(tmp_path: Path) -> None:
    (tmp_path / "test_takes.py").write_text("""
import os, pathlib, shutil
def test_empties():
    for path in pathlib.Path(os.environ["TMPDIR"]).iterdir(): shutil.rmtree(path)
def test_leaves(): os._exit(3)
def test_takes_the_folder(): shutil.rmtree(os.environ["TMPDIR"])
def test_leaves_again(): os._exit(3)
def test_last(): pass
""")
    (tmp_path / "temporary").mkdir()
    names = ("empties", "leaves", "takes_the_folder", "leaves_again", "last")
    units = units_of(*names)
    leg = start_shard(tmp_path, plan_of(units), TMPDIR=str(tmp_path / "temporary")).wait(10)
    died = {unit for unit in units if "leaves" in unit}
    assert leg.outcomes() == {unit: "died" if unit in died else "passed" for unit in units}
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    "removal", ['shutil.rmtree("record")', 'os.remove("record/process-001.jsonl")']
)
def test_a_removed_record_ends_the_leg(tmp_path: Path, removal: str) -> None:
    (tmp_path / "test_takes.py").write_text(f"""
import os, shutil, time
def test_first(): pass
def test_removes():
    {removal}
    time.sleep(600)
def test_last(): pass
""")
    leg = start_shard(tmp_path, plan_of(units_of("first", "removes", "last"))).wait(13)
    output = (
        "unknown: the record was removed while tests ran: pass a folder outside of the checkout"
    )
    assert leg.printed.count(output) == 1


def test_record_removed_by_the_last_test_fails_the_leg(tmp_path: Path) -> None:
    (tmp_path / "test_takes.py").write_text("""
import shutil
def test_removes(): shutil.rmtree("record")
""")
    leg = start_shard(tmp_path, plan_of(units_of("removes"))).wait(13)
    assert "the record was removed while tests ran" in leg.printed
    assert not leg.record_folder.exists()


FAILS = """
import types
from ciguard.run.platforms.current import CURRENT
rounds = []
def wait(*words):
    rounds.extend([1] if os.path.exists("started") else [])
    if len(rounds) > 5: raise ZeroDivisionError("not foreseen")  # the start line was read
    return CURRENT.wait(*words)
platform = types.SimpleNamespace(**{**vars(CURRENT), "wait": wait})
"""


# The pid is known late, as on a busy machine.
STARTS_LATE = """
import types
from ciguard.run.platforms.current import CURRENT
def start(*words, **more):
    process, begun_s = CURRENT.start(*words, **more), time.monotonic()
    poll = process.poll
    process.poll = lambda: poll() if time.monotonic() - begun_s > 0.5 else None
    return process
platform = types.SimpleNamespace(**{**vars(CURRENT), "start": start})
"""


def test_result_that_precedes_an_assumed_start_counts(tmp_path: Path) -> None:
    line = '{"type":"result","unit":"a","outcome":"passed"}'
    script = f"echo '{line}' >>\"$CIGUARD_RECORD_FILE\"; sleep 1"
    suite = Suite("command", ("sh", "-c", script), variants={"": Variant()})
    program = leg_program(STARTS_LATE, platform="platform")
    leg = start_shard(tmp_path, plan_of(["a"], suites={"": suite}), program=program).wait(0)
    assert leg.outcomes() == {"a": "passed"}


FAILS_LAST = """
from ciguard.run import supervisor
def judge_leg(*words, **more): raise ZeroDivisionError("not foreseen")
supervisor.judge_leg = judge_leg
"""


def test_internal_error_at_the_end_writes_an_end_line(tmp_path: Path) -> None:
    (tmp_path / "test_takes.py").write_text("def test_first(): pass\n")
    plan = plan_of(units_of("first"))
    leg = start_shard(tmp_path, plan, program=leg_program(FAILS_LAST)).wait(13)
    assert "ciguard itself failed, please report it: ZeroDivisionError" in leg.printed
    assert "ZeroDivisionError: not foreseen" in detail_of(leg, "internal_error")
    assert leg.outcomes() == {units_of("first")[0]: "passed"}
    assert (leg.end().ending, leg.end().exit_code) == ("unknown", 13)


def test_internal_error_writes_an_end_line_and_names_missing_units(tmp_path: Path) -> None:
    (tmp_path / "test_takes.py").write_text("""
import pathlib, time
def test_first(): pass
def test_slow():
    pathlib.Path("started").touch()
    time.sleep(600)
def test_last(): pass
""")
    plan = plan_of(units_of("first", "slow", "last"))
    leg = start_shard(tmp_path, plan, program=leg_program(FAILS, platform="platform")).wait(13)
    output = "ciguard itself failed, please report it: ZeroDivisionError: not foreseen\n"
    assert output in leg.printed
    assert "did not run test_takes.py::test_slow: ciguard failed while it ran\n" in leg.printed
    assert "ZeroDivisionError: not foreseen" in detail_of(leg, "internal_error")
    assert leg.outcomes() == {units_of("first")[0]: "passed"}
    record = leg.record()
    assert (leg.end().ending, leg.end().exit_code) == ("unknown", 13)
    assert [one.unit for one in record.events if one.kind == "not_run" and one.unit] == [
        units_of("last")[0]
    ]
    verdict = verdict_of(leg)
    assert verdict.state == "incomplete"
    assert "ciguard itself failed" in "\n".join(
        finding_message(finding) for finding in verdict.findings
    )
