"""GPU memory of a test is what torch's allocator took during it."""

from __future__ import annotations

import pytest
from run.plugins.conftest import Project

# The surface of torch 2.11 that is read, over two devices of plain numbers.
TORCH = """
class _C:
    current, peak = [0, 0], [0, 0]
    @classmethod
    def _cuda_memoryStats(cls, device):
        if cuda.broken: raise RuntimeError("device-side assert")
        return {"allocated_bytes": {"all": {"current": cls.current[device],
                                            "peak": cls.peak[device]}},
                "reserved_bytes": {"all": {"peak": 9 << 30}}}
    @classmethod
    def _cuda_resetPeakMemoryStats(cls, device):
        cls.peak[device] = cls.current[device]
class cuda:
    initialized = broken = False
    is_initialized = staticmethod(lambda: cuda.initialized)
    device_count = staticmethod(lambda: 2)
def take(device, size):
    cuda.initialized = True
    _C.current[device] += size
    _C.peak[device] = max(_C.peak[device], _C.current[device])
def free(device, size): _C.current[device] -= size
"""
SUITE = """
import sys
def test_before(): assert "torch" not in sys.modules
def test_imports(): import torch
def test_two_devices():
    import torch
    for device in (0, 1):
        torch.take(device, 1000)
        torch.free(device, 900)
def test_holds(): pass
def test_more():
    sys.modules["torch"].take(1, 50)
def test_raises(): sys.modules["torch"].cuda.broken = True
def test_replaced():
    from unittest.mock import MagicMock
    sys.modules["torch"] = MagicMock()
"""


@pytest.mark.parametrize("keep", ["", "1"])
def test_gpu_peak_is_of_the_test_alone(project: Project, keep: str) -> None:
    project.write("lib/torch.py", TORCH)
    project.write("test_gpu.py", SUITE)
    session = project.run(plugin_path=str(project.folder / "lib"), CIGUARD_KEEP_PEAK=keep)
    assert set(session.outcomes.values()) == {"passed"}, session.output
    found = {
        unit.partition("::test_")[2]: line.get("gpu_peak_bytes")
        for unit, line in session.results.items()
    }
    expected = {"before": None, "imports": None, "two_devices": 2000, "holds": 200, "more": 250}
    if keep:
        expected = dict.fromkeys(expected)
    assert found == {**expected, "raises": None, "replaced": None}
