"""GPU memory: an outside program of that name on PATH, well-behaved, broken and hanging."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from run.leg_runner import no_survivor, plan_of, start, start_shard

from ciguard.codec import plan_file as plan_codec
from ciguard.guard.prove import prove
from ciguard.guard.view import document
from ciguard.model.machine_use import leg_machine_use
from ciguard.render.plaintext import as_text
from ciguard.run.memory.gpus import Gpus, parse_rows, used_bytes

if TYPE_CHECKING:
    from pathlib import Path

APPS = """
if [ "$1" = --query-gpu=uuid,index ]; then
    printf 'GPU-a, 0\\nGPU-b, 1\\n'
else
    while [ ! -s pids ]; do sleep 0.02; done
    pid=$(cat pids)
    printf 'GPU-b, %s, 300\\nGPU-b, %s, 20\\nGPU-a, 1, 4000\\n' "$pid" "$pid"
fi
"""
CODE = "import os, time; open('pids', 'w').write(str(os.getpid())); time.sleep(1.5)"


def program(folder: Path, body: str) -> str:
    """Put it on PATH."""
    path = folder / "bin" / "nvidia-smi"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return f"{path.parent}:{os.environ['PATH']}"


def test_only_memory_of_tested_processes_counts() -> None:
    rows = parse_rows(b"GPU-a, 11, 100\nGPU-a, 12, 7\n\nGPU-b, 11, [N/A]\nGPU-c, 11, 5\nnothing\n")
    assert used_bytes(rows, {"GPU-a": "0", "GPU-b": "1"}, {11}) == {"0": 100 << 20}


def test_leg_records_gpu_memory_of_its_process_tree(tmp_path: Path) -> None:
    path = program(tmp_path, APPS)
    leg = start(tmp_path, "--record", "record", "--", sys.executable, "-c", CODE, PATH=path)
    leg.wait(0)
    found = [dict(sample.gpu_bytes) for sample in leg.record().samples if sample.gpu_bytes]
    assert found
    assert all(one == {"1": 320 << 20} for one in found)
    no_survivor(leg)


@pytest.mark.parametrize("body", ["exit 9", "sleep 60", "echo what"])
def test_broken_nvidia_smi_does_not_delay_the_leg(tmp_path: Path, body: str) -> None:
    path = program(tmp_path, body)
    leg = start(tmp_path, "--record", "record", "--", "sleep", "0.3", PATH=path).wait(0)
    assert not any(sample.gpu_bytes for sample in leg.record().samples)
    no_survivor(leg)


def test_hanging_nvidia_smi_is_abandoned(tmp_path: Path) -> None:
    gpus = Gpus(program(tmp_path, "exec sleep 60"))
    for now_s in (0.0, 10.0, 21.0, 100.0):
        assert gpus.poll(now_s, {1}) == {}


def test_guard_shows_the_memory_of_each_gpu(tmp_path: Path) -> None:
    """A real leg beside a made-up driver: two devices, and the test that had them."""
    rows = 'printf \'GPU-b, %s, 300\\nGPU-a, %s, 20\\nGPU-a, 1, 4000\\n\' "$pid" "$pid"'
    first, _, _ = APPS.partition("    printf 'GPU-b")
    path = program(tmp_path, f"{first}    {rows}\nfi")
    (tmp_path / "test_gpu.py").write_text(f"def test_trains():\n    exec({CODE!r})\n")
    plan = plan_of(["test_gpu.py::test_trains"])
    leg = start_shard(tmp_path, plan, PATH=path).wait(0)
    use = leg_machine_use(leg.record())
    assert dict(use.gpu_bytes) == {"0": 20 << 20, "1": 300 << 20}
    assert use.gpu_total is not None
    assert use.gpu_total.size_bytes == 320 << 20
    assert [key.unit for key in use.gpu_total.units] == ["test_gpu.py::test_trains"]
    read = plan_codec.decode((tmp_path / "plan.json").read_bytes(), "plan.json")
    shown = " ".join(as_text(document(prove(read, [leg.record()]))).split())
    assert "01 measure GPU memory, value GPU 0 20.0 MiB, GPU 1 300 MiB, together 320 MiB" in shown
    assert "running test_gpu.py::test_trains" in shown
    no_survivor(leg)
