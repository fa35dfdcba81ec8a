"""What the plugin says of each test is what pytest's own JUnit XML says without it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from run.plugins.conftest import Project

from ciguard.codec.record.reader import read_records

SUITE = '''
import time, unittest
import pytest

def test_passes(): pass
def test_fails(): assert 1 == 2, "not equal"
def test_skips(): pytest.skip("not today")
@pytest.mark.skipif(True, reason="never here")
def test_skipped_by_mark(): pass

@pytest.fixture
def breaks_before():
    raise ValueError("before")
@pytest.fixture
def breaks_after():
    yield
    raise ValueError("after")
@pytest.fixture
def skips_before():
    pytest.skip("no database")

def test_errors_before(breaks_before): pass
def test_errors_after(breaks_after): pass
def test_fails_then_errors(breaks_after): assert False
def test_skips_before(skips_before): pass
def test_skips_then_errors(breaks_after): pytest.skip("and yet")

@pytest.mark.xfail(reason="known")
def test_xfails(): assert False
@pytest.mark.xfail
def test_xpasses(): pass
@pytest.mark.xfail(strict=True, reason="strict")
def test_xpasses_strictly(): pass
@pytest.mark.xfail(run=False, reason="hangs")
def test_xfails_unrun(): time.sleep(1000)
def test_xfails_inside(): pytest.xfail("found out late")
@pytest.mark.xfail
def test_xfails_before(breaks_before): pass

@pytest.mark.parametrize("n", [1, 2, 3])
def test_rows(n): assert n != 2

class TestClass:
    def test_method(self): pass
    class TestInner:
        def test_method(self): raise KeyError("k")

class Case(unittest.TestCase):
    def test_passes(self): pass
    def test_fails(self): self.fail("unit")
    def test_skips(self): self.skipTest("unit")
    @unittest.expectedFailure
    def test_expected(self): self.fail("expected")

class BrokenClass(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise OSError("class")
    def test_one(self): pass
    def test_two(self): pass

def documented():
    """
    >>> 1 + 1
    2
    >>> 1 + 1
    3
    """
def documented_well():
    """
    >>> 1 + 1
    2
    """
def test_exits(): raise SystemExit(3)
'''
RANK = {"errored": 0, "failed": 1, "skipped": 2, "passed": 3}


def junit_outcomes(path: Path) -> dict[tuple[str, str], str]:
    """(classname, name) -> outcome; a failed call with a failed teardown has two entries."""
    found: dict[tuple[str, str], str] = {}
    kinds = {"failure": "failed", "error": "errored", "skipped": "skipped"}
    for case in ET.parse(path).iter("testcase"):
        key = (case.get("classname", ""), case.get("name", ""))
        both = {kinds[child.tag] for child in case if child.tag in kinds} or {"passed"}
        both |= {found[key]} if key in found else set()
        # A failure stays one when the teardown breaks as well; a skip with an error is an error.
        found[key] = "failed" if "failed" in both else min(both, key=RANK.__getitem__)
    return found


def as_junit(unit: str) -> tuple[str, str]:
    file, _, rest = unit.partition("::")
    parts = rest.split("::")
    return ".".join([file.removesuffix(".py").replace("/", "."), *parts[:-1]]), parts[-1]


def check_against_junit(project: Project) -> None:
    project.write("pkg/test_all.py", SUITE)
    project.pytest("--doctest-modules", "--junitxml=own.xml")
    expected = junit_outcomes(project.folder / "own.xml")
    session = project.run("--doctest-modules")
    # A doctest's id repeats its module in its name, JUnit the same.
    assert {as_junit(unit): outcome for unit, outcome in session.outcomes.items()} == expected
    assert len(expected) == 29
    assert session.exit_code == 1
    assert [line["detail"] for line in session.events("session_end")] == ["1"]


def test_outcomes_match_junit(project: Project) -> None:
    check_against_junit(project)


@pytest.mark.soak
def test_outcomes_under_every_python_version(project: Project, foreign_python: Path) -> None:
    project.python = foreign_python
    check_against_junit(project)
    spread = project.run("--doctest-modules", "-n", "2")
    assert {key: line["outcome"] for key, line in spread.results.items()} == project.run(
        "--doctest-modules"
    ).outcomes
    assert {line["concurrent"] for line in spread.of("result")} == {2}


THREADS = """
import threading
def begin(name, target=threading.main_thread().join, **more):
    thread = threading.Thread(target=target, name=name, **more)
    thread.start()
    return thread
begin("at import")
go_on = threading.Event()
def test_brief():
    global brief
    brief = begin("brief", go_on.wait)
def test_swaps():
    go_on.set()
    brief.join()
    begin("kept")
def test_none():
    begin("a daemon", daemon=True)
"""


def test_threads_left_over_are_named_with_the_tests_that_began_them(project: Project) -> None:
    project.write("test_threads.py", THREADS)
    session = project.run()
    left = [(line["detail"], line.get("unit")) for line in session.events("thread_left")]
    assert left == [("at import", None), ("kept", "test_threads.py::test_swaps")]
    assert set(session.outcomes.values()) == {"passed"}


@pytest.mark.soak
def test_thread_left_over_in_a_worker_is_not_named(project: Project) -> None:
    """pytest-xdist waits ten seconds for it."""
    project.write("test_threads.py", THREADS)
    assert project.run("-n", "2").events("thread_left") == []


def test_record_lines_conform_to_schema_1(project: Project) -> None:
    project.write("test_all.py", SUITE)
    project.run("--doctest-modules")
    (read,) = read_records([("r/process-003.jsonl", project.record.read_bytes())])
    assert not read.damage
    assert len(read.results) == len(read.starts) == 29
    for start, result in zip(read.starts, read.results, strict=True):
        assert result.key == (start.suite, start.variant, start.unit, start.unit)
        assert (result.suite, result.variant, result.process) == ("unit", "py", 3)
        assert result.try_number == result.concurrent == 1
        assert start.at_s is not None
        assert result.at_s is not None
        assert result.wall_s is not None
        assert start.at_s + result.wall_s <= result.at_s
        assert (result.message is None) == (result.outcome == "passed")


def test_messages_name_the_crash(project: Project) -> None:
    project.write("test_all.py", SUITE + "\ndef test_long(): raise ValueError('\\u00e9' * 9000)\n")
    results = project.run().results
    failed = results["test_all.py::test_fails"]
    assert failed["message"].splitlines()[0] == "test_all.py:6: AssertionError: not equal"
    assert (failed["file"], failed["line"]) == ("test_all.py", 6)
    assert results["test_all.py::test_errors_after"]["message"].endswith("ValueError: after")
    assert results["test_all.py::test_skips"]["message"] == "Skipped: not today"
    assert results["test_all.py::test_xfails"]["message"] == "xfail: known"
    assert "strict" in results["test_all.py::test_xpasses_strictly"]["message"]
    assert 4090 <= len(results["test_all.py::test_long"]["message"].encode()) <= 4096


CASES = """
import unittest, helper
class TestCase(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(1, 2)
    def test_library(self):
        helper.parse("{")
"""


@pytest.mark.parametrize("style", ["auto", pytest.param("short", marks=pytest.mark.soak)])
def test_message_names_the_last_frame_of_the_project(project: Project, style: str) -> None:
    project.write("helper.py", "import json\ndef parse(text):\n    return json.loads(text)\n")
    project.write("test_unit.py", CASES)
    results = project.run(f"--tb={style}").results
    equal = results["test_unit.py::TestCase::test_equal"]["message"]
    assert equal.splitlines()[0] == "test_unit.py:5: AssertionError: 1 != 2"
    library = results["test_unit.py::TestCase::test_library"]["message"]
    assert library.startswith("helper.py:3: json.decoder.JSONDecodeError: Expecting")


def test_message_has_the_path_from_where_pytest_was_started(project: Project) -> None:
    project.write("tests/pytest.ini", "[pytest]\n")
    project.write("tests/test_below.py", "def test_fails():\n    assert not 1\n")
    (result,) = project.run("tests").results.values()
    assert (result["unit"], result["file"]) == ("test_below.py::test_fails", "tests/test_below.py")
    assert result["message"].startswith("tests/test_below.py:2: ")


def test_subtests_fail_their_test(project: Project) -> None:
    project.write(
        "test_sub.py",
        """
import unittest
def test_one_fails(subtests):
    for n in range(3):
        with subtests.test(n=n): assert n != 1
def test_all_pass(subtests):
    with subtests.test("fine"): pass
class Case(unittest.TestCase):
    def test_fails(self):
        with self.subTest("bad"): self.fail("sub")
        with self.subTest("good"): pass
    def test_skips_one(self):
        with self.subTest("skipped"): self.skipTest("s")
""",
    )
    session = project.run()
    assert session.outcomes == {
        "test_sub.py::test_one_fails": "failed",
        "test_sub.py::test_all_pass": "passed",
        "test_sub.py::Case::test_fails": "failed",
        "test_sub.py::Case::test_skips_one": "passed",
    }
    assert "assert 1 != 1" in session.results["test_sub.py::test_one_fails"]["message"]


def test_endings_of_timeouts_and_exhausted_memory(project: Project) -> None:
    project.write(
        "test_end.py",
        """
import time
import pytest
@pytest.mark.timeout(0.2)
def test_hangs(): time.sleep(60)
def test_says_timeout(): pytest.fail("Timeout (>0.2s) from pytest-timeout.")
def test_no_memory(): raise MemoryError
def test_handles_it():
    with pytest.raises(MemoryError): raise MemoryError
@pytest.fixture
def greedy(): raise MemoryError("arrays")
def test_no_memory_before(greedy): pass
""",
    )
    results = project.run().results
    assert {
        unit.partition("::")[2]: (r["outcome"], r["ending"]) for unit, r in results.items()
    } == {
        "test_hangs": ("failed", "timeout"),
        "test_says_timeout": ("failed", "completed"),
        "test_no_memory": ("failed", "out_of_memory"),
        "test_handles_it": ("passed", "completed"),
        "test_no_memory_before": ("errored", "out_of_memory"),
    }


def test_failed_doctest_has_file_and_line(project: Project) -> None:
    text = '"""\n>>> 1 + 1\n3\n"""\n'
    project.write("module.py", text)
    (result,) = project.run("--doctest-modules").results.values()
    first, *rest = result["message"].splitlines()
    assert (result["outcome"], first) == ("failed", "module.py:2: DocTestFailure")
    assert [line.strip() for line in rest][-6:-1] == ["Expected:", "3", "Got:", "2", ""]


# pytest-rerunfailures reports an attempt that is to be repeated with the outcome "rerun".
RERUNS = """
import pytest
from _pytest.runner import runtestprotocol

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for last in (False, True):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        bad = any(report.failed for report in reports) and not last
        for report in reports:
            if report.failed and bad:
                report.outcome = "rerun"
            item.ihook.pytest_runtest_logreport(report=report)
        if not bad:
            break
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
"""


def test_plugin_reruns_are_counted_in_the_result(project: Project) -> None:
    project.write("conftest.py", RERUNS)
    project.write(
        "test_flaky.py",
        """
turns = []
def test_flaky():
    turns.append(1)
    if len(turns) == 1: raise MemoryError
def test_bad(): assert False
def test_good(): pass
""",
    )
    results = project.run().results
    assert {
        u.partition("::")[2]: (r["outcome"], r["ending"], r.get("reruns"))
        for u, r in results.items()
    } == {
        "test_flaky": ("passed", "completed", 1),
        "test_bad": ("failed", "completed", 1),
        "test_good": ("passed", "completed", None),
    }
    flaky = next(line for unit, line in results.items() if unit.endswith("test_flaky"))
    assert flaky["message"] == "test_flaky.py:5: MemoryError", "why it went wrong the first time"


def test_maxfail_still_works(project: Project) -> None:
    project.write("test_many.py", "\n".join(f"def test_{n}(): assert 0" for n in range(5)))
    assert len(project.run("--maxfail=2").results) == 2


def test_plugin_does_nothing_without_its_variables(project: Project) -> None:
    body = """
def test_one(pytestconfig):
    names = [name for name, _ in pytestconfig.pluginmanager.list_name_plugin()]
    assert not [name for name in names if name.startswith("ciguard-")]
"""
    project.write("test_one.py", body)
    session = project.run(CIGUARD_RECORD_FILE="")
    assert session.exit_code == 0
    assert not session.files


def test_a_pytest_started_by_a_test_is_not_recorded(project: Project) -> None:
    project.write("inner/test_inner.py", "def test_inner(): assert False")
    project.write(
        "test_outer.py",
        """
import subprocess, sys
def test_outer():
    command = [sys.executable, "-m", "pytest", "-p", "ciguard_pytest", "inner"]
    assert subprocess.run(command).returncode == 1
""",
    )
    assert project.run("test_outer.py").outcomes == {"test_outer.py::test_outer": "passed"}


def test_malformed_variable_is_an_error(project: Project) -> None:
    project.write("test_one.py", "def test_one(): pass")
    session = project.run(CIGUARD_PROCESS="three")
    assert session.exit_code == 4
    assert "CIGUARD_ variable is malformed" in session.output


NEVER_CALLED = """
import pytest
from _pytest.runner import call_and_report

def pytest_runtest_protocol(item, nextitem):
    item._initrequest()
    for when in ("setup", "teardown"):
        more = {"nextitem": nextitem} if when == "teardown" else {}
        call_and_report(item, when, **more)
    return True
"""


def test_never_called_test_is_errored(project: Project) -> None:
    project.write("conftest.py", NEVER_CALLED)
    project.write("test_bad.py", "def test_bad(): assert 0")
    (result,) = project.run().results.values()
    assert (result["outcome"], "never called" in result["message"]) == ("errored", True)


# pytest-randomly resolves its option to the seed before the first test is collected.
RANDOMLY = """
def pytest_addoption(parser):
    parser.addoption("--randomly-seed", dest="randomly_seed", type=int, default=5)
"""


@pytest.mark.parametrize(("options", "seed"), [((), 5), (("--randomly-seed=7",), 7)])
def test_session_reports_that_it_executes_tests_and_with_which_seed(
    project: Project, options: tuple[str, ...], seed: int
) -> None:
    project.write("conftest.py", RANDOMLY)
    project.write("test_one.py", "def test_one(): pass")
    session = project.run(*options)
    assert [line["reason"] for line in session.events("execution")] == ["executed"]
    assert [line["detail"] for line in session.events("seed")] == [f"--randomly-seed={seed}"]
