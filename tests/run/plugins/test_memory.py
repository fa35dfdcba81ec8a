"""The memory and the times of a test are its own."""

from __future__ import annotations

import sys

import pytest
from run.plugins.conftest import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the mark is Linux's clear_refs")

SOAK = pytest.mark.soak
MEGABYTE = 1_000_000
SUITE = """
import gc, mmap, threading, time
kept = []
def touched(megabytes):
    block = mmap.mmap(-1, megabytes * 1_000_000)
    for place in range(0, len(block), 4096): block[place] = 1
    return block
def test_warm_up(): pass
def test_spike_64(): touched(64)
def test_nothing(): pass
def test_heap_8(): [b"x" * n for n in [991] * 7630]
def test_heap_8_again(): [b"x" * n for n in [991] * 7630]
def test_leak_20(): kept.append(touched(20))
def test_brief_512():
    with mmap.mmap(-1, 512_000_000) as block: block.write(bytes(512_000_000))
def test_in_a_thread_32():
    thread = threading.Thread(target=touched, args=(32,))
    thread.start()
    thread.join()
def test_cycle_30():
    class Node: pass
    node = Node()
    node.itself, node.block = node, touched(30)
def test_gives_back():
    kept.clear()
"""


def test_peak_delta_and_retained(project: Project) -> None:
    project.write("test_mem.py", SUITE)
    session = project.run()
    if session.events("unavailable"):
        pytest.skip(session.events("unavailable")[0]["detail"])
    found = {
        unit.partition("::test_")[2]: (
            line["peak_delta_bytes"] / MEGABYTE,
            line["retained_bytes"] / MEGABYTE,
        )
        for unit, line in session.results.items()
    }
    assert set(session.outcomes.values()) == {"passed"}
    expected = {
        "warm_up": (0, 0),
        "spike_64": (64, 0),
        "nothing": (0, 0),
        "heap_8": (8, 0),
        "heap_8_again": (8, 0),
        "leak_20": (20, 20),
        "brief_512": (512, 0),  # the zeros it is written from are never resident
        "in_a_thread_32": (32, 0),
        "cycle_30": (30, 0),  # a cycle is no leak: collected before resident memory is read
        "gives_back": (0, -20),
    }
    for name, (peak, retained) in expected.items():
        # The kernel counts in steps of up to 64 pages for each CPU and kind of memory, so that both
        # ends of a difference can be off by 0.25 MB on each of two CPUs.
        near = max(1.0, peak / 500)
        assert found[name] == (pytest.approx(peak, abs=near), pytest.approx(retained, abs=1.0)), (
            name
        )
    for line in session.of("result"):
        assert line["peak_bytes"] == line["rss_before_bytes"] + line["peak_delta_bytes"]
        assert line["measured_by"] == "mark"


def test_a_test_begins_with_the_memory_that_the_one_before_left(project: Project) -> None:
    """So that one reading serves both, and what is retained sums up to what the process has."""
    project.write("test_mem.py", SUITE)
    results = project.run().of("result")
    if "retained_bytes" not in results[0]:
        pytest.skip("nothing is measured here")
    left = [line["rss_before_bytes"] + line["retained_bytes"] for line in results]
    assert [line["rss_before_bytes"] for line in results[1:]] == left[:-1]


# Without Python's own collections, whose moments depend on the number of installed packages.
LEFT = """
import gc, socket
import pytest
gc.disable()
def test_leaves():
    class Node: pass
    node = Node()
    node.itself, node.socket, node.block = node, socket.socket(), bytearray(b"x" * 20_000_000)
{mark}
def test_innocent(): pass
"""
ERROR = "error::pytest.PytestUnraisableExceptionWarning"
RESOURCE = "error::ResourceWarning"


@pytest.mark.parametrize(
    ("words", "environment", "ini", "mark"),
    [
        ((), {}, "", ""),
        (("-W", "error"), {}, "", ""),
        ((), {}, f"filterwarnings = {RESOURCE}\n    {ERROR}", ""),
        pytest.param(("-W", "e"), {}, "", "", marks=SOAK),
        pytest.param((), {"PYTHONWARNINGS": ERROR.partition("::")[0]}, "", "", marks=SOAK),
        pytest.param(("-p", "no:warnings"), {}, "", "", marks=SOAK),
        pytest.param((), {}, "", f"@pytest.mark.filterwarnings('{ERROR}')", marks=SOAK),
    ],
    ids=["none", "option", "ini", "abbreviated", "variable", "none asked", "mark"],
)
def test_garbage_cycles_are_not_charged_to_the_next_test(
    project: Project, words: tuple[str, ...], environment: dict[str, str], ini: str, mark: str
) -> None:
    project.write("test_left.py", LEFT.format(mark=mark))
    project.write("pytest.ini", f"[pytest]\n{ini}\n")
    session = project.run(*words, **environment)
    assert list(session.outcomes.values()) == ["passed", "passed"]
    leaves = session.results["test_left.py::test_leaves"]
    if "retained_bytes" not in leaves:
        pytest.skip("nothing is measured here")
    raises = bool(ini or mark or environment or (words and "no:warnings" not in words))
    stored = pytest.approx(20 if raises else 0, abs=1)
    assert leaves["retained_bytes"] / MEGABYTE == stored
    output = [
        line["detail"] for line in session.events("unavailable") if "cycles" in line["detail"]
    ]
    assert len(output) == raises


def test_slow_malloc_trim_does_not_change_the_method(project: Project) -> None:
    """A malloc_trim as slow as under load; the C library is the one door."""
    project.write(
        "slow/ctypes.py",
        """
import time
class PyDLL:
    def __init__(self, name): pass
    def malloc_trim(self, pad):
        time.sleep(0.002)
        with open("trims", "a") as stream: stream.write(".")
""",
    )
    project.write(
        "test_slow.py",
        """
import pytest
kept = []
@pytest.mark.parametrize("n", range(40))
def test_before(n): pass
def test_grows(): kept.extend(b"x" * n for n in [991] * 4000)
@pytest.mark.parametrize("n", range(40))
def test_after(n): pass
""",
    )
    session = project.run(plugin_path=str(project.folder / "slow"))
    assert {line["measured_by"] for line in session.of("result")} == {"mark"}
    trims = len((project.folder / "trims").read_text())
    assert 2 <= trims < 20, "one behind collecting, one behind the test that grew"


def test_memory_freed_by_a_wider_fixture_hides_no_peak(project: Project) -> None:
    """Blocks of a fixture below one that stays: freed, they leave resident memory as it was."""
    project.write(
        "test_a.py",
        """
import pytest
kept = []
@pytest.fixture(scope="module")
def rows():
    yield [b"x" * n for n in [991] * 20_000]
def test_uses(rows): kept.extend(b"x" * n for n in [991] * 300)
def test_uses_again(rows): pass
""",
    )
    project.write("test_b.py", 'def test_heap_8(): [b"x" * n for n in [991] * 7630]\n')
    result = project.run().results["test_b.py::test_heap_8"]
    if "peak_delta_bytes" not in result:
        pytest.skip("nothing is measured here")
    assert result["peak_delta_bytes"] / MEGABYTE == pytest.approx(8, abs=0.5)


def test_setup_of_wider_fixtures_is_separate(project: Project) -> None:
    project.write(
        "test_wide.py",
        """
import time
import pytest
@pytest.fixture(scope="session")
def database(): time.sleep(0.2)
@pytest.fixture(scope="module")
def tables(request):
    time.sleep(0.1)
    request.getfixturevalue("database")
@pytest.fixture
def row(tables): time.sleep(0.15)
@pytest.fixture(scope="class")
def broken():
    time.sleep(0.1)
    raise ValueError
def test_first(row): time.sleep(0.05)
def test_second(row): time.sleep(0.05)
class TestBroken:
    def test_broken(self, broken): pass
""",
    )
    run = project.run()
    first, second, broken = run.results.values()
    # Lower bounds only: sleeping never ends early. The nested 0.2 s count once.
    assert first["setup_s"] >= 0.3
    assert first["setup_s"] + first["wall_s"] < 0.1 + first["at_s"] - run.of("start")[0]["at_s"]
    assert first["wall_s"] >= 0.2
    assert first["at_s"] >= first["wall_s"] + first["setup_s"]
    assert second["setup_s"] == 0
    assert second["wall_s"] >= 0.2
    assert broken["outcome"] == "errored"
    assert broken["setup_s"] >= 0.1


def test_cpu_time_counts_threads_but_not_waiting(project: Project) -> None:
    project.write(
        "test_cpu.py",
        """
import threading, time
def burn():
    end = time.thread_time() + 0.2
    while time.thread_time() < end: pass
def test_burns():
    thread = threading.Thread(target=burn)
    thread.start()
    thread.join()
def test_waits(): time.sleep(0.3)
""",
    )
    burns, waits = project.run().results.values()
    assert burns["cpu_s"] >= 0.2
    assert waits["cpu_s"] < waits["wall_s"]


def test_missing_clear_refs_leaves_memory_unmeasured(project: Project) -> None:
    """Python that may not write its own clear_refs, as under some sandboxes."""
    project.write(
        "refuses.py",
        """
import os
real = os.open
def refuse(path, *args):
    if str(path).endswith("clear_refs"): raise PermissionError(path)
    return real(path, *args)
os.open = refuse
""",
    )
    project.write("test_one.py", "def test_one(): pass")
    # The plugin keeps the os.open of its import: this one is imported before it.
    session = project.run(plugin_path=str(project.folder), PYTEST_ADDOPTS="-p refuses")
    (line,) = session.of("result")
    assert not {"peak_bytes", "peak_delta_bytes", "measured_by", "retained_bytes"} & set(line)
    assert "clear_refs" in session.events("unavailable")[0]["detail"]


@pytest.mark.soak
def test_high_water_mark_is_not_reset_on_request(project: Project) -> None:
    """For tests that read it themselves: it remembers what the test before them took."""
    project.write(
        "test_mem.py",
        "import pathlib, re\n"
        "def test_takes(): bytearray(200_000_000)\n"
        "def test_reads():\n"
        "    status = pathlib.Path('/proc/self/status').read_text()\n"
        "    assert int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]) > 190_000\n",
    )
    reset, kept = project.run(), project.run(CIGUARD_KEEP_PEAK="1")
    if reset.events("unavailable"):
        pytest.skip(reset.events("unavailable")[0]["detail"])
    outcomes = [[line["outcome"] for line in one.results.values()] for one in (reset, kept)]
    assert outcomes == [["passed", "failed"], ["passed", "passed"]]
    assert not any("peak_bytes" in line for line in kept.results.values())
    (limitation,) = [one["detail"] for one in kept.events("unavailable") if "KEEP" in one["detail"]]
    assert limitation == "CIGUARD_KEEP_PEAK is set: memory of tests is not measured"
