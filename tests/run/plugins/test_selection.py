"""Exactly the units asked for run, in the order asked for, out of files that alone are imported."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from run.leg_runner import plan_of, start_shard
from run.plugins.conftest import Project

from ciguard.model import Suite

STRANGE = [
    "\U0001f600 smile",
    "two\nlines",
    "x" * 5000,
    """both "quotes" and 'quotes'""",
    "a[b]c]",
    "tab\tand\\backslash",
    "\u00e9::colons",
    "\ud800 lone",
    "",
]


def test_unit_ids_are_verbatim_node_ids(project: Project) -> None:
    """Expected: what pytest hands to any plugin as the node id, written by one of the project."""
    project.write(
        "conftest.py",
        """
import json
def pytest_collection_finish(session):
    with open("ids.json", "w") as stream:
        json.dump([item.nodeid for item in session.items], stream)
""",
    )
    body = f"""
import pytest
@pytest.mark.parametrize("n", range({len(STRANGE)}), ids={STRANGE!a})
def test_id(n): pass
"""
    project.write("dir \U0001f600/test_a.py", body)
    ids: list[str] = []
    setting = "disable_test_id_escaping_and_forfeit_all_rights_to_community_support"
    for ini in ("[pytest]\n", f"[pytest]\n{setting} = true\n"):
        project.write("pytest.ini", ini)
        session = project.run()
        ids = json.loads((project.folder / "ids.json").read_text())
        assert list(session.outcomes) == ids
        assert [line["unit"] for line in session.of("start")] == ids
        assert all(line["case"] == line["unit"] for line in session.of("result"))
        # Asked for in reverse, they are found again.
        rerun = project.run(units=ids[::-1])
        assert list(rerun.outcomes) == ids[::-1]
        assert not rerun.events("not_collected")
    assert any("\U0001f600 smile" in unit for unit in ids)


ORDERED = """
import pytest
@pytest.fixture(scope="module", params=["p", "q"])
def wide(request): return request.param
def test_a(wide): pass
def test_b(wide): pass
def test_c(): pass
def test_d(): pass
"""
# Another plugin with an opinion on the order, as pytest-randomly or pytest-order have.
OPINION = """
import pytest
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.nodeid)
"""


@pytest.mark.parametrize("opinion", ["", OPINION])
def test_requested_order_is_preserved(project: Project, opinion: str) -> None:
    project.write("conftest.py", opinion)
    project.write("test_o.py", ORDERED)
    requested = ["d", "b[q]", "a[p]", "b[p]", "a[q]"]
    units = [f"test_o.py::test_{name}" for name in requested]
    session = project.run(units=[*units, units[0]])
    assert list(session.outcomes) == units
    assert "1 deselected" in session.output


def test_missing_units_are_reported_once(project: Project) -> None:
    project.write("test_o.py", ORDERED)
    units = ["test_o.py::test_gone\n", "test_o.py::test_c", "gone.py::test_x"]
    session = project.run(units=units)
    assert list(session.outcomes) == ["test_o.py::test_c"]
    vanished = session.events("not_collected")
    assert [line["unit"] for line in vanished] == [units[0], units[2]]
    assert {(line["suite"], line["variant"], line["process"]) for line in vanished} == {
        ("unit", "py", 3)
    }


def test_no_selected_unit_gives_the_pytest_exit_code(project: Project) -> None:
    project.write("test_o.py", ORDERED)
    session = project.run(units=["test_o.py::gone"])
    assert session.exit_code == pytest.ExitCode.NO_TESTS_COLLECTED
    assert not session.results


def test_unreadable_unit_list_stops_the_session(project: Project) -> None:
    project.write("test_o.py", ORDERED)
    broken = project.write("broken.json", "[")
    session = project.run(CIGUARD_UNITS_FILE=str(broken))
    assert session.exit_code == pytest.ExitCode.USAGE_ERROR
    assert "broken.json" in session.output


def test_the_stop_file_ends_the_session_after_the_current_test(project: Project) -> None:
    project.write(
        "test_stop.py",
        """
import pathlib
import time
import pytest
@pytest.fixture(scope="session")
def wide():
    yield
    pathlib.Path("torn-down").touch()
def test_1(wide): pass
def test_2(wide):
    pathlib.Path("stop").touch()
    time.sleep(0.03)
def test_3(wide): pass
""",
    )
    session = project.run(CIGUARD_STOP_FILE="stop")
    assert list(session.outcomes) == ["test_stop.py::test_1", "test_stop.py::test_2"]
    assert set(session.outcomes.values()) == {"passed"}
    assert session.exit_code == pytest.ExitCode.INTERRUPTED
    assert [line["detail"] for line in session.events("session_end")] == ["2"]
    assert (project.folder / "torn-down").exists()


def test_tries_and_origin_come_from_the_supervisor(project: Project) -> None:
    project.write("test_o.py", ORDERED)
    session = project.run(
        units=["test_o.py::test_c", "test_o.py::test_d"],
        CIGUARD_TRIES_FILE=str(project.write("tries.json", '{"test_o.py::test_d": 2}')),
        CIGUARD_ORIGIN_S=repr(time.monotonic() - 1000),
    )
    assert [line["try"] for line in session.of("result")] == [1, 3]
    assert all(1000 < line["at_s"] < 1100 for line in session.lines)


def test_unknown_origin_clock_falls_back_to_the_wall_clock(project: Project) -> None:
    project.write("test_o.py", ORDERED)
    session = project.run(
        units=["test_o.py::test_c"],
        CIGUARD_ORIGIN_S="1000000000.0",
        CIGUARD_ORIGIN_CLOCK="GetTickCount64()",
        CIGUARD_ORIGIN_AT=repr(time.time() - 1000),
    )
    assert all(1000 < line["at_s"] < 1100 for line in session.lines)


def test_collection_writes_the_inventory(project: Project) -> None:
    project.write(
        "sub/test_c.py",
        """
import pytest
pytestmark = pytest.mark.slow
@pytest.mark.gpu
def test_plain(): pass
@pytest.mark.xdist_group("database")
class TestOuter:
    @pytest.mark.xdist_group(name="inner")
    class TestInner:
        def test_in(self): pass
def test_deselected(): pass
""",
    )
    project.write("pytest.ini", "[pytest]\nmarkers =\n  slow\n  gpu\n  xdist_group\n")
    lines, done = project.collect("-k", "not deselected")
    assert done.returncode == 0
    assert lines[:-1] == [
        {"unit": "sub/test_c.py::test_plain", "file": "sub/test_c.py", "group": None},
        {
            "unit": "sub/test_c.py::TestOuter::TestInner::test_in",
            "file": "sub/test_c.py",
            "group": "inner",
        },
    ]
    assert lines[-1]["done"] is True
    assert lines[-1]["rootdir"] == str(project.folder)


def test_collection_errors_are_in_the_inventory(project: Project) -> None:
    project.write("test_bad.py", "raise RuntimeError('x' * 9000 + ' the end')")
    project.write("test_syntax.py", "def (")
    project.write("test_o.py", "def test_o(): pass")
    lines, done = project.collect()
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    errors = {line["error"]: line["message"] for line in lines if "error" in line}
    assert set(errors) == {"test_bad.py", "test_syntax.py"}
    assert errors["test_bad.py"].endswith("the end")
    assert len(errors["test_bad.py"].encode()) <= 4096
    assert [line["unit"] for line in lines if "unit" in line] == ["test_o.py::test_o"]
    assert "done" in lines[-1]


@pytest.mark.parametrize(
    ("argument", "word"), [("missing_folder", "missing_folder"), ("test_stops.py", "Keyboard")]
)
def test_unfinished_collection_has_no_done_line(project: Project, argument: str, word: str) -> None:
    project.write("test_stops.py", "raise KeyboardInterrupt")
    lines, done = project.collect(argument)
    assert done.returncode != 0
    assert not any("done" in line for line in lines)
    assert any(word in line.get("message", "") for line in lines)


def test_only_selected_files_are_imported(tmp_path: Path, foreign_python: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "package").mkdir()
    reports = "import pathlib\npathlib.Path('imported').touch()\n"
    for name, text in (
        ("package/__init__.py", ""),
        ("package/test_a.py", "from package import shared\ndef test_a(): assert shared.X == 1\n"),
        ("package/shared.py", "X = 1\n"),
        ("package/test_b.py", f"{reports}def test_b(): pass\n"),
        ("test_c.py", f"{reports}def test_c(): pass\n"),
        ("test_broken.py", "import no_such_module\n"),
    ):
        (tmp_path / name).write_text(text)
    suite = Suite("pytest", (str(foreign_python), "-m", "pytest", "-p", "no:cacheprovider"))
    leg = start_shard(tmp_path, plan_of(["package/test_a.py::test_a"], suites={"": suite})).wait(0)
    assert leg.outcomes() == {"package/test_a.py::test_a": "passed"}
    assert not (tmp_path / "imported").exists()
