"""Which looks at memory are written: the two that a decision was made on, and one pair a second."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from run.leg_runner import until

from ciguard.run.memory.headroom import LinuxHeadroom
from ciguard.run.memory.process_tree import Pressure, TreeMemory, program_name
from ciguard.run.memory.sampler import CALM_EVERY_S, MemorySampler
from ciguard.run.platforms.base import Headroom, MemoryInstruments

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux only")


def test_tree_memory_includes_descendants(holder: int) -> None:
    tree = TreeMemory(holder)
    size = tree.read_bytes(0.0)
    assert size is not None
    assert 50 << 20 < size < 100 << 20


PYTHON = Path(sys.executable).name


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("sleep", "9"), "sleep"),
        ((sys.executable, "-u", "hold.py", "token"), "hold.py"),
        ((sys.executable, "-m", "timeit", "-n1", "import time; time.sleep(9)"), "timeit"),
        (("sh", "-c", "sleep 9; echo token"), "sh"),
        (("bash", "-lc", "A=token; sleep 9; true"), "bash"),
        (("bash", "--norc", "-x", "-u", "-c", "sleep 9; echo token"), "bash"),
        (("bash", "--noprofile", "--norc", "-eo", "pipefail", "step.sh"), "step.sh"),
        ((sys.executable, "-Ic", "import time; time.sleep(9)", "-m", "token"), PYTHON),
        (("perl", "-ne", "token", "/dev/zero"), "perl"),
    ],
)
def test_process_is_named_without_its_arguments(
    tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    (tmp_path / "hold.py").write_text("import time; time.sleep(9)")
    (tmp_path / "step.sh").write_text("sleep 9; true")
    with subprocess.Popen(words, cwd=tmp_path, start_new_session=True) as process:
        until(lambda: program_name(process.pid) == name, what=name, timeout_s=5)
        os.killpg(process.pid, signal.SIGKILL)


def test_ended_tree_is_not_measured() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        pass
    assert TreeMemory(process.pid).read_bytes(0.0) is None


def test_to_measure_a_tree_holds_no_descriptor(holder: int) -> None:
    def held_by_us() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    tree, before = TreeMemory(holder), held_by_us()
    size = tree.read_bytes(0.0)
    assert held_by_us() == before
    assert len(tree.pids()) == 1
    assert size is not None
    assert 50 << 20 < size < 100 << 20


def test_ended_child_is_removed_from_the_tree(holder: int) -> None:
    tree = TreeMemory(os.getpid())
    first = tree.read_bytes(0.0)
    assert first is not None
    until(lambda: (tree.read_bytes(0.0) or 0) > 50 << 20, what="the child is found", timeout_s=5)


def test_samples_are_taken_on_schedule_and_written_in_pairs(holder: int) -> None:
    watch = MemorySampler(LinuxHeadroom(), MemoryInstruments({}), guarded=False)
    trees = {1: TreeMemory(holder)}
    assert watch.sample(0.0, {}) is None, "nothing runs"
    assert watch.sample(0.0, trees) is not None
    assert watch.sample(0.01, trees) is None, "not yet"
    assert [sample.at_s for sample in watch.due(0.01)] == [0.0], "50 MiB more than nothing"
    for tick in range(1, 11):
        assert watch.sample(tick * 0.06, trees) is not None
        assert watch.due(tick * 0.06) == ()
    assert [sample.at_s for sample in watch.flush()] == [0.54, 0.6]
    assert watch.flush() == ()
    last = watch.sample(1.7, trees)
    assert last is not None
    assert watch.due(1.7) == (last,)
    assert last.process_bytes == {"1": last.tree_bytes}
    assert watch.peak_bytes[1] >= 50 << 20


@pytest.mark.parametrize(
    ("available_mib", "guarded", "every_s"),
    [(9000, True, 0.05), (100, True, 0.02), (100, False, 0.05)],
)
def test_sampling_is_faster_with_less_headroom(
    tmp_path: Path, holder: int, available_mib: int, guarded: bool, every_s: float
) -> None:
    output = tmp_path / "meminfo"
    output.write_text(f"MemTotal: 16000000 kB\nMemAvailable: {available_mib << 10} kB\n")
    watch = MemorySampler(LinuxHeadroom(str(output)), MemoryInstruments({}), guarded=guarded)
    watch.sample(0.0, {1: TreeMemory(holder)})
    assert watch.every_s == every_s


def test_empty_sample_does_not_replace_a_measured_one(tmp_path: Path, holder: int) -> None:
    """What the rules decided on is written: they look at the last two numbers, not looks."""
    output, trees = tmp_path / "meminfo", {1: TreeMemory(holder)}
    looks = {0.0: "300", 0.1: "200", 0.2: "", 0.3: "100", 0.4: "", 0.5: ""}
    watch = None
    for at_s, mib in looks.items():
        output.write_text(f"MemAvailable: {int(mib) << 10} kB\n" if mib else "")
        watch = watch or MemorySampler(
            LinuxHeadroom(str(output)), MemoryInstruments({}), guarded=True
        )
        assert watch.sample(at_s, trees) is not None
        if at_s == 0.3:
            found = [one.headroom_bytes for one in watch.flush()]
            assert found == [200 << 20, 100 << 20]
    assert watch is not None
    assert [one.at_s for one in watch.flush()] == [0.5]


def test_pressure_is_relative_to_its_start(tmp_path: Path) -> None:
    file = tmp_path / "memory"
    some, full = "some avg10=0.00 avg60=0.00 avg300=0.00 total=", "full avg10=0.00 total="
    file.write_text(f"{some}5000000\n{full}1000000\n")
    pressure = Pressure(str(file))
    assert pressure.stalled_s() == {"stalled_s": 0.0, "fully_stalled_s": 0.0}
    file.write_text(f"{some}7500000\n{full}1250000\n")
    assert pressure.stalled_s() == {"stalled_s": 2.5, "fully_stalled_s": 0.25}
    assert Pressure(str(tmp_path / "nothing")).stalled_s() == {}


def test_tree_of_zombies_has_no_size() -> None:
    """Between its end and the moment at which somebody waits for it, a process reads as 0."""
    code = "import subprocess; child = subprocess.Popen(['true']); print(child.pid); input()"
    words = (sys.executable, "-S", "-c", code)
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, bufsize=1) as parent:
        assert parent.stdout is not None
        stat = Path(f"/proc/{int(parent.stdout.readline())}/stat")
        until(lambda: stat.read_bytes().rpartition(b")")[2].split()[0] == b"Z", what="it is dead")
        tree = TreeMemory(parent.pid)
        assert tree.read_bytes(0.0) is None
        parent.communicate("\n")


def test_unknown_headroom_does_not_speed_up_sampling() -> None:
    sampler = MemorySampler(Headroom(), MemoryInstruments({}), guarded=True)
    assert sampler.sample(1.0, {}, awaited=True) is not None
    assert sampler.every_s == CALM_EVERY_S
