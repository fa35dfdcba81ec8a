"""GPU memory: NVML as a real library, well-behaved, broken and hanging; else `nvidia-smi`."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from run.leg_runner import kill_once_there, plan_of, start, start_shard, until

from ciguard.codec import plan_file as plan_codec
from ciguard.guard.prove import prove
from ciguard.guard.view import document
from ciguard.model.machine_use import leg_machine_use
from ciguard.render.plaintext import as_text
from ciguard.run.memory.gpus import TIMEOUT_S, Gpus, used_bytes
from ciguard.run.memory.process_tree import TreeMemory

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="Linux only")

MIB, GIB = 1 << 20, 1 << 30
COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
NAME = "nvmlDeviceGetComputeRunningProcesses_v2"
APPS = """
if [ "$1" = --query-gpu=uuid,index ]; then
    printf 'GPU-a, 0\\nGPU-b, 1\\n'
else
    while [ ! -s pids ]; do sleep 0.02; done
    pid=$(cat pids)
    printf 'GPU-b, %s, 300\\nGPU-b, %s, 20\\nGPU-a, 1, 4000\\nGPU-a, %s, [N/A]\\n' $pid $pid $pid
fi
"""
CODE = "import os, time; open('pids', 'w').write(str(os.getpid())); time.sleep(1.5)"


def program(folder: Path, body: str) -> str:
    path = folder / "bin" / "nvidia-smi"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return f"{path.parent}:{os.environ['PATH']}"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of the library, which gives the list of processes by this function."""

    def compiled(name: str) -> Path:
        folder = tmp_path_factory.getbasetemp() / name
        if not folder.exists():
            folder.mkdir()
            source = Path(__file__).with_name("nvml.c")
            words = (f"-DLIST={name}", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1")
            subprocess.run([str(COMPILER), *words, source], check=True)
        return folder

    return compiled


@pytest.fixture
def driver(tmp_path: Path, library: Callable[[str], Path]) -> Mapping[str, str]:
    """Variables of a leg with the library; its `nvidia-smi` says when it is called."""
    return {
        "PATH": program(tmp_path, f"touch {tmp_path}/called"),
        "LD_LIBRARY_PATH": str(library(NAME)),
        "NVML_ANSWERS": str(tmp_path / "answers"),
    }


def test_only_memory_of_tested_processes_counts() -> None:
    assert used_bytes([[0, 11, 100], [0, 12, 7], [1, 12, 5]], {11}) == {"0": 100}


BURSTS = """
import os, subprocess, time
own = f"devices 2\\nprocess 1 {os.getpid()} {1 << 30}\\n"
for gib in (12, 1, 20):
    open("new", "w").write(own)
    os.replace("new", "answers")
    time.sleep(1.2)
    child = subprocess.Popen(["sleep", "0.7"])
    open("new", "w").write(f"{own}process 1 {child.pid} {gib << 30}\\n")
    os.replace("new", "answers")
    child.wait()
"""


@needs_compiler
def test_short_bursts_of_children_are_in_the_record(
    tmp_path: Path, driver: Mapping[str, str]
) -> None:
    """Asked every 5 s, the leg saw none of them."""
    (tmp_path / "answers").write_text("devices 2\n")
    leg = start(tmp_path, "--record", "record", "--", sys.executable, "-c", BURSTS, **driver)
    leg.wait(0)
    found = [dict(sample.gpu_bytes) for sample in leg.record().samples if sample.gpu_bytes]
    assert {frozenset(one) for one in found} == {frozenset("1")}
    sizes = [size for size, _ in itertools.groupby(one["1"] / GIB for one in found)]
    assert [size for size in sizes if size > 1] == [13, 2, 21]
    *_, peak, machine = leg.printed.splitlines()
    assert re.match(r"  peak [\d.]+ MiB", peak)
    assert machine.startswith("  GPU 1 21.0 GiB, CPU ")
    assert not (tmp_path / "called").exists()


@needs_compiler
@pytest.mark.parametrize("name", [NAME, NAME.replace("_v2", "_v3")])
def test_processes_of_a_device_are_summed(
    tmp_path: Path, driver: Mapping[str, str], library: Callable[[str], Path], name: str
) -> None:
    """More than the first list has room for; memory that the driver does not know is none."""
    tree, (a, b) = TreeMemory(os.getpid()), (subprocess.Popen(["sleep", "60"]) for _ in "ab")
    rows = [(0, pid, 3 * GIB) for pid in (*range(-40, 0), a.pid)]
    rows += [(1, a.pid, 5 * GIB), (1, b.pid, GIB), (1, b.pid, (1 << 64) - 1), (1, 1, 9 * GIB)]
    lines = [f"process {gpu} {pid} {size}\n" for gpu, pid, size in rows]
    (tmp_path / "answers").write_text("devices 2\n" + "".join(lines))
    gpus = Gpus({**os.environ, **driver, "LD_LIBRARY_PATH": str(library(name))})
    with a, b:
        tree.read_bytes(0.0)
        used: dict[str, int] = {}

        def is_measured() -> bool:
            used.update(gpus.poll(0.0, (tree,)))
            return bool(used)

        until(is_measured, what="an answer")
        assert used == {"0": 3 * GIB, "1": 6 * GIB}
        gpus.close()
        a.kill()
        b.kill()


@needs_compiler
def test_hanging_library_is_killed(tmp_path: Path, driver: Mapping[str, str]) -> None:
    (tmp_path / "answers").write_text("devices 1\nhang 1\n")
    gpus = Gpus({**os.environ, **driver})
    for now_s in (0.0, 10.0, TIMEOUT_S):
        assert gpus.poll(now_s, ()) == {}
        assert gpus.limitation == ""
    assert gpus.poll(TIMEOUT_S + 0.1, ()) == {}
    assert gpus.limitation == "GPU memory: no answer of the driver in 20 s"


@needs_compiler
def test_crashing_library_leaves_the_leg_alone(tmp_path: Path, driver: Mapping[str, str]) -> None:
    (tmp_path / "answers").write_text("devices 1\nabort 1\n")
    leg = start(tmp_path, "--record", "record", "--", "sleep", "0.5", **driver).wait(0)
    detail = "GPU memory: its query ended with exit code -6"
    assert [one.detail for one in leg.record().events if one.kind == "unavailable"] == [detail]
    assert f"not available in this job: {detail}" in leg.said


@needs_compiler
@pytest.mark.parametrize(
    "answers", ["devices 1\nhang 1\n", pytest.param("devices 1\n", marks=pytest.mark.soak)]
)
def test_query_ends_with_a_killed_leg(
    tmp_path: Path, driver: Mapping[str, str], answers: str
) -> None:
    (tmp_path / "answers").write_text(answers)
    code = "import time; time.sleep(1); open('there', 'w').close(); time.sleep(60)"
    words = ("--record", "record", "--", sys.executable, "-c", code)
    kill_once_there(start(tmp_path, *words, **driver), tmp_path / "there")


@needs_compiler
@pytest.mark.parametrize("answers", ["init 9\ndevices 2\n", "devices 0\n"])
def test_program_is_queried_without_a_driver(
    tmp_path: Path, driver: Mapping[str, str], answers: str
) -> None:
    """As where there is no library."""
    (tmp_path / "answers").write_text(answers)
    leg = start(tmp_path, "--record", "record", "--", "sleep", "0.5", **driver).wait(0)
    assert (tmp_path / "called").exists()
    assert not any(event.kind == "unavailable" for event in leg.record().events)


def test_leg_records_gpu_memory_of_its_process_tree(tmp_path: Path) -> None:
    path = program(tmp_path, APPS)
    leg = start(tmp_path, "--record", "record", "--", sys.executable, "-c", CODE, PATH=path)
    leg.wait(0)
    found = [dict(sample.gpu_bytes) for sample in leg.record().samples if sample.gpu_bytes]
    assert found
    assert all(one == {"1": 320 * MIB} for one in found)


@pytest.mark.parametrize("body", ["exit 9", "sleep 60", "echo what"])
def test_broken_nvidia_smi_does_not_delay_the_leg(tmp_path: Path, body: str) -> None:
    path = program(tmp_path, body)
    leg = start(tmp_path, "--record", "record", "--", "sleep", "0.3", PATH=path).wait(0)
    assert not any(sample.gpu_bytes for sample in leg.record().samples)
    assert not any(event.kind == "unavailable" for event in leg.record().events)


def test_guard_shows_the_memory_of_each_gpu(tmp_path: Path) -> None:
    """A real leg beside a made-up driver: two devices, and the test that had them."""
    rows = 'printf \'GPU-b, %s, 300\\nGPU-a, %s, 20\\nGPU-a, 1, 4000\\n\' "$pid" "$pid"'
    first, _, _ = APPS.partition("    printf 'GPU-b")
    path = program(tmp_path, f"{first}    {rows}\nfi")
    (tmp_path / "test_gpu.py").write_text(f"def test_trains():\n    exec({CODE!r})\n")
    plan = plan_of(["test_gpu.py::test_trains"])
    leg = start_shard(tmp_path, plan, PATH=path).wait(0)
    assert leg.said.endswith(" MiB; GPU 0 20.0 MiB, GPU 1 300 MiB")
    use = leg_machine_use(leg.record())
    assert dict(use.gpu_bytes) == {"0": 20 << 20, "1": 300 << 20}
    assert use.gpu_total is not None
    assert use.gpu_total.size_bytes == 320 << 20
    assert [key.unit for key in use.gpu_total.units] == ["test_gpu.py::test_trains"]
    read = plan_codec.decode((tmp_path / "plan.json").read_bytes(), "plan.json")
    shown = " ".join(as_text(document(prove(read, [leg.record()]))).split())
    assert "01 measure GPU memory, value GPU 0 20.0 MiB, GPU 1 300 MiB, together 320 MiB" in shown
    assert "running test_gpu.py::test_trains" in shown
