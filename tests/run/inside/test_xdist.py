"""Under pytest-xdist each worker writes a file of its own, and nothing is said twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from run.inside.conftest import Project

MANY = """
import pytest
@pytest.mark.parametrize("n", range(20))
def test_many(n): assert n != 7
@pytest.mark.xdist_group("g")
def test_grouped(): pass
"""


def test_two_workers(project: Project) -> None:
    project.write("test_bad.py", "import no_such_module_anywhere")
    project.write("test_many.py", MANY)
    units = [f"test_many.py::test_many[{n}]" for n in range(20)]
    session = project.run(
        "-n", "2", "--continue-on-collection-errors", units=[*units, "test_many.py::test_gone"]
    )
    assert set(session.files) == {
        "process-003.jsonl",
        "process-003-gw0.jsonl",
        "process-003-gw1.jsonl",
    }
    assert set(session.outcomes) == set(units)
    assert [unit for unit, outcome in session.outcomes.items() if outcome != "passed"] == [units[7]]
    assert {(line["concurrent"], line["process"]) for line in session.of("result")} == {(2, 3)}
    assert [line["unit"] for line in session.events("vanished")] == ["test_many.py::test_gone"]
    assert [line["unit"] for line in session.events("collection_error")] == ["test_bad.py"]
    assert len(session.events("session_end")) == 3
    for name, lines in session.files.items():
        starts = [line["unit"] for line in lines if line["type"] == "start"]
        assert starts == [line["unit"] for line in lines if line["type"] == "result"]
        assert bool(starts) == ("gw" in name)


def test_a_group_is_no_part_of_the_id(project: Project, foreign_python: Path) -> None:
    """With older versions of pytest, xdist appends "@g" to the node id."""
    project.python = foreign_python
    project.write("test_many.py", MANY)
    session = project.run("-n", "1", "--dist", "loadgroup", units=["test_many.py::test_grouped"])
    assert session.outcomes == {"test_many.py::test_grouped": "passed"}


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


def test_a_dying_worker_leaves_its_victims_name(project: Project) -> None:
    project.write(
        "test_die.py",
        "import os\ndef test_dies(): os._exit(1)\n"
        + "\n".join(f"def test_{n}(): pass" for n in range(6)),
    )
    session = project.run("-n", "2")
    started = {line["unit"] for line in session.of("start")}
    assert started - set(session.outcomes) == {"test_die.py::test_dies"}
    assert len(session.outcomes) == 6
