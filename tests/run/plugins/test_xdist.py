"""Under pytest-xdist each worker writes a file of its own, and nothing is said twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from run.plugins.conftest import Project

MANY = """
import pytest
@pytest.mark.parametrize("n", range(20))
def test_many(n): assert n != 7
@pytest.mark.xdist_group("g")
def test_grouped(): pass
"""


def test_two_workers_write_separate_records(project: Project) -> None:
    project.write("test_bad.py", "import no_such_module_anywhere")
    project.write("test_many.py", MANY)
    units = [f"test_many.py::test_many[{n}]" for n in range(20)]
    missing = ["test_many.py::test_gone", "test_bad.py::test_x"]
    session = project.run("-n", "2", "--continue-on-collection-errors", units=units + missing)
    assert set(session.files) == {
        "process-003.jsonl",
        "process-003-gw0.jsonl",
        "process-003-gw1.jsonl",
    }
    assert set(session.outcomes) == set(units)
    assert [unit for unit, outcome in session.outcomes.items() if outcome != "passed"] == [units[7]]
    assert {(line["concurrent"], line["process"]) for line in session.of("result")} == {(2, 3)}
    assert [line["unit"] for line in session.events("not_collected")] == missing
    assert [line["unit"] for line in session.events("collection_error")] == ["test_bad.py"]
    assert len(session.events("session_end")) == 3
    for name, lines in session.files.items():
        starts = [line["unit"] for line in lines if line["type"] == "start"]
        assert starts == [line["unit"] for line in lines if line["type"] == "result"]
        assert bool(starts) == ("gw" in name)


@pytest.mark.soak
def test_xdist_group_is_not_part_of_the_unit_id(project: Project, foreign_python: Path) -> None:
    """With older versions of pytest, xdist appends "@g" to the node id."""
    project.python = foreign_python
    project.write("test_many.py", MANY)
    session = project.run("-n", "1", "--dist", "loadgroup", units=["test_many.py::test_grouped"])
    assert session.outcomes == {"test_many.py::test_grouped": "passed"}


@pytest.mark.soak
def test_the_stop_file_stops_all_workers(project: Project) -> None:
    project.write(
        "test_stop.py",
        """
import pathlib
import pytest
@pytest.mark.parametrize("n", range(200))
def test_n(n):
    if n == 20: pathlib.Path("stop").touch()
""",
    )
    session = project.run("-n", "2", CIGUARD_STOP_FILE="stop")
    assert 2 <= len(session.results) < 150
    assert len(session.of("start")) == len(session.results)
    assert len(session.events("session_end")) == 3
    assert "INTERNALERROR" not in session.output


@pytest.mark.soak
def test_controller_records_the_victim_of_a_dead_worker(project: Project) -> None:
    """Written by the controller when it happens: xdist goes on, and may die of something else."""
    tests = "\n".join(f"def test_{n}(): pass" for n in range(6))
    text = "import os, ctypes\ndef test_leaves(): os._exit(1)\ndef test_segfault(): {}\n{}"
    project.write("test_die.py", text.format("ctypes.string_at(0)", tests))
    session = project.run("-n", "2")
    assert len(session.results) == len(session.of("start")) == 8
    died = {line["unit"]: line for line in session.results.values() if line["outcome"] == "died"}
    assert set(died) == {"test_die.py::test_leaves", "test_die.py::test_segfault"}
    assert {line["ending"] for line in died.values()} == {"crash"}
    assert all(line["process"] == 3 and line["wall_s"] >= 0 for line in died.values())
    for lines in session.files.values():
        starts = [line["unit"] for line in lines if line["type"] == "start"]
        assert starts == [line["unit"] for line in lines if line["type"] == "result"]


@pytest.mark.soak
def test_worker_killed_by_the_kernel_is_out_of_memory(project: Project) -> None:
    project.write(
        "test_die.py",
        """
import os, pathlib
def test_takes_all():
    pathlib.Path("events").write_text("oom 1\\noom_kill 1\\n")
    os.kill(os.getpid(), 9)
def test_other(): pass
""",
    )
    (project.folder / "events").write_text("oom 0\noom_kill 0\n")
    session = project.run("-n", "2", CIGUARD_OOM_FILE="events")
    endings = {line["unit"].partition("::")[2]: line["ending"] for line in session.results.values()}
    assert endings == {"test_takes_all": "out_of_memory", "test_other": "completed"}


@pytest.mark.soak
def test_an_interrupted_worker_has_no_victim(project: Project) -> None:
    """The leg told them to stop: whatever they were at gets another turn."""
    project.write(
        "test_int.py",
        """
import signal
# A shell's background job ignores it, and so would this interpreter.
signal.signal(signal.SIGINT, signal.default_int_handler)
def test_interrupted(): signal.raise_signal(signal.SIGINT)
def test_other(): signal.raise_signal(signal.SIGINT)
""",
    )
    session = project.run("-n", "2")
    assert session.results == {}
    assert session.events("interrupted")


CPUS = """
import pytest
@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config): return 3
"""
INNER = """
import subprocess, sys
def test_inner():
    words = [sys.executable, "-m", "pytest", "-p", "xdist.plugin", "-nauto", "inner.py"]
    assert "created: 3/3" in subprocess.run(words, capture_output=True, text=True).stdout
"""


@pytest.mark.parametrize(
    ("words", "limit", "number", "reason"),
    [
        pytest.param("-nauto", "2", 2, "memory", id="auto"),
        pytest.param("-nlogical", "2", 2, "memory", id="logical"),
        pytest.param("-nauto", "3", 3, "fitting", id="never-more-than-the-tool"),
        pytest.param("-nauto --maxprocesses=1", "2", 1, "fitting", id="maximum-of-the-user"),
        pytest.param("-nauto", "", 3, "not_measured", id="not-measured"),
        pytest.param("-nauto", None, 3, None, id="left-to-the-tool"),
        pytest.param("-n3", "2", 3, None, id="number-of-the-user"),
    ],
)
def test_no_more_workers_than_fit(
    project: Project, words: str, limit: str | None, number: int, reason: str | None
) -> None:
    project.write("conftest.py", CPUS)
    project.write("test_a.py", "def test_a(): pass")
    limits = {} if limit is None else {"CIGUARD_WORKERS": limit}
    session = project.run(*words.split(), **limits)
    assert f"created: {number}/{number} worker" in session.output
    events = [(line["reason"], line["facts"]["workers"]) for line in session.events("workers")]
    assert events == ([] if reason is None else [(reason, number)])


def test_limit_is_not_of_a_session_in_a_test_nor_of_the_users_own_number(project: Project) -> None:
    project.write("conftest.py", CPUS)
    project.write("inner.py", "def test_x(): pass")
    project.write("test_a.py", INNER)
    session = project.run("-nauto", CIGUARD_WORKERS="1")
    assert session.outcomes == {"test_a.py::test_inner": "passed"}, session.output
    assert len(session.events("workers")) == 1
    session = project.run("-nauto", CIGUARD_WORKERS="1", PYTEST_XDIST_AUTO_NUM_WORKERS="2")
    assert not session.events("workers")
