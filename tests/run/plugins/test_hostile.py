"""Tests that close descriptors, fork, exit, change folders or fill the disk lose no other line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from run.plugins.conftest import Project
from small_disk import small_disk

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors and fork of POSIX")


def test_record_survives_closed_file_descriptors(project: Project) -> None:
    project.write(
        "test_close.py",
        """
import os
opened = []
def test_closes(): os.closerange(3, 256)
def test_next(): pass
def test_closes_and_takes_the_numbers():
    os.closerange(3, 256)
    opened.extend(os.open("foreign", os.O_RDWR | os.O_CREAT) for _ in range(16))
def test_last(): pass
def test_foreign_files_are_untouched():
    assert os.path.getsize("foreign") == 0
    for descriptor in opened: os.fstat(descriptor)
""",
    )
    session = project.run("-s")
    assert set(session.outcomes.values()) == {"passed"}
    assert len(session.results) == len(session.of("start")) == 5
    assert all("peak_delta_bytes" in line for line in session.of("result"))


def test_capture_does_not_write_into_the_record(project: Project) -> None:
    """pytest gives output back through a number that a test closed: it must not be ours by then."""
    project.write(
        "test_close.py",
        """
import os
def test_closes(): os.closerange(3, 256)
def test_next(): pass
def test_last(): pass
""",
    )
    session = project.run()  # parses every line
    assert list(session.outcomes.values()) == ["failed", "errored", "errored"], session.output
    assert len(session.of("start")) == 3


def test_stack_dump_never_writes_into_the_record(project: Project, tmp_path: Path) -> None:
    """The handler writes to the number that it was given, whatever a test closed and who has it."""
    project.write(
        "test_close.py",
        """
import os, pathlib, signal
def files():
    there = pathlib.Path("/proc/self/fd").iterdir()
    return {int(one.name): os.readlink(one) for one in there if one.exists()}
numbers = []
def test_closes():
    numbers.extend(number for number, file in files().items() if "/stacks-" in file)
    os.closerange(3, 256)
def test_next(): pass
def test_last():
    assert numbers and numbers[0] >= 200 and numbers[0] not in files()
    os.kill(os.getpid(), signal.SIGRTMAX - 7)
""",
    )
    stacks = {"CIGUARD_STACKS_FILE": str(tmp_path / "stacks")}
    session = project.run("-s", **stacks)
    assert session.outcomes["test_close.py::test_last"] == "passed", session.output
    assert len(session.of("result")) == 3, "every line parses"


def test_removed_record_is_recreated(project: Project) -> None:
    project.write(
        "test_rm.py",
        """
import os
def test_removes(): os.unlink(os.environ["CIGUARD_RECORD_FILE"])
def test_next(): pass
""",
    )
    assert list(project.run().outcomes) == ["test_rm.py::test_removes", "test_rm.py::test_next"]


def test_forked_children_write_nothing(project: Project) -> None:
    project.write(
        "test_fork.py",
        """
import os
def test_child_exits():
    if os.fork() == 0: os._exit(0)
    os.wait()
def test_child_goes_on_as_its_parent():
    # The child leaves the test and runs the rest of the session as if it were the parent.
    pid = os.fork()
    if pid: os.waitpid(pid, 0)
def test_next(): pass
""",
    )
    session = project.run()
    assert len(session.of("result")) == len(session.of("start")) == 3
    assert len(session.events("session_end")) == 1


def test_process_death_leaves_a_start_without_a_result(project: Project) -> None:
    project.write(
        "test_die.py",
        "import os\ndef test_before(): pass\ndef test_dies(): os._exit(0)\n"
        "def test_after(): pass\n",
    )
    session = project.run()
    assert list(session.outcomes) == ["test_die.py::test_before"]
    assert session.of("start")[-1]["unit"] == "test_die.py::test_dies"
    assert not session.events("session_end")


def test_an_interrupted_test_has_no_result(project: Project) -> None:
    """Nor one that leaves by `pytest.exit`: test_exit_inside_a_unit_is_quoted."""
    project.write("test_int.py", "def test_a(): pass\ndef test_b(): raise KeyboardInterrupt\n")
    session = project.run()
    assert list(session.outcomes) == ["test_int.py::test_a"]
    assert [line["unit"] for line in session.events("interrupted")] == ["test_int.py::test_b"]
    assert session.events("session_end")[0]["detail"] == str(session.exit_code)


@pytest.mark.soak
def test_changed_folder_clock_and_os_module_do_not_affect_record(project: Project) -> None:
    project.write(
        "test_move.py",
        """
import os, time
import pytest
@pytest.fixture(scope="module", autouse=True)
def another_world(tmp_path_factory):
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    patch = pytest.MonkeyPatch()
    def broken(*args, **kwargs): raise AssertionError("a test's fake was called")
    for name in ("write", "open", "fstat", "pread", "fdatasync"):
        patch.setattr(os, name, broken)
    patch.setattr(time, "monotonic", lambda: -1.0)
    patch.setattr(time, "process_time", lambda: 1e9)
    patch.setattr(os, "getpid", lambda: 1)
    yield
    patch.undo()
    os.chdir(before)
def test_1(): os.closerange(3, 256)
def test_2(): pass
""",
    )
    relative = os.path.relpath(project.folder / "record-1" / "process-003.jsonl", project.folder)
    session = project.run("-s", CIGUARD_RECORD_FILE=relative)
    assert list(session.outcomes.values()) == ["passed", "passed"], session.output
    assert all(0 <= line["wall_s"] < 60 and line["cpu_s"] < 60 for line in session.of("result"))


FILLED = """
import os
import pytest
def test_1(): pass
def test_fills(): {fill}
def test_3(): pass
def test_frees(): {free}
def test_5(): pass
"""


def test_file_size_limit_fails_no_test(project: Project) -> None:
    """RLIMIT_FSIZE cuts a write in its middle, as a full disk does, for any user."""
    limit = "import resource as r; size = os.path.getsize(os.environ['CIGUARD_RECORD_FILE'])"
    fill = f"{limit}; r.setrlimit(r.RLIMIT_FSIZE, (size + 30, r.RLIM_INFINITY))"
    free = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (r.RLIM_INFINITY,) * 2)"
    project.write("test_full.py", FILLED.format(fill=fill, free=free))
    session = project.run("-s")
    assert session.exit_code == 0
    # Whole lines only (Project.run parses each), and those of the last test are there again.
    assert list(session.outcomes) == [f"test_full.py::test_{n}" for n in ("1", "frees", "5")]
    (dropped,) = session.events("dropped_lines")
    # A result, a start and a result, a start.
    assert dropped["detail"] == "lines that could not be written: 4"


def test_full_disk_fails_no_test(project: Project, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk, "64k") as is_mounted:
        if not is_mounted:
            pytest.skip("no small file system can be mounted")
        fill = f"open({str(disk / 'ballast')!r}, 'wb', 0).write(b'x' * (1 << 20))"
        free = f"os.unlink({str(disk / 'ballast')!r})"
        project.write("test_full.py", FILLED.format(fill=fill, free=free))
        record = disk / "process-003.jsonl"
        session = project.run(CIGUARD_RECORD_FILE=str(record))
        assert session.exit_code == 0
        lines = [json.loads(text) for text in record.read_text().splitlines()]
        assert [line["outcome"] for line in lines if line["type"] == "result"].count("passed") >= 3


def test_unwritable_folder_fails_no_test(project: Project) -> None:
    project.write("test_one.py", "def test_one(): pass")
    session = project.run(CIGUARD_RECORD_FILE=str(project.folder / "no" / "such" / "folder.jsonl"))
    assert session.exit_code == 0
    assert not session.files


def test_missing_ctypes_is_reported_and_the_record_complete(project: Project) -> None:
    project.write("hidden/ctypes.py", "raise ImportError('this Python was built without libffi')")
    project.write("test_one.py", "def test_one(): pass")
    # Imported before any test file, and only this one module is hidden.
    hidden = str(project.folder / "hidden")
    session = project.run("-p", "no:doctest", plugin_path=hidden)
    assert set(session.outcomes.values()) == {"passed"}
    (misses,) = session.events("unavailable")
    assert "malloc_trim" in misses["detail"]
    assert {line["measured_by"] for line in session.of("result")} == {"mark_untrimmed"}
