"""Whose CPU time it was: ours, or that of others."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ciguard.experiment.process import LoadMeter, parse_stat

NEVER = 10**9  # ticks, far more than this process has used


def stat(*ticks: int) -> bytes:
    return f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 2 3\nintr 5\n".encode()


def test_idle_and_waiting_for_disks_is_not_busy_and_stolen_time_is() -> None:
    assert parse_stat(stat(100, 5, 40, 1000, 30, 1, 2, 7, 50, 0)) == (155, 1185)


@pytest.mark.parametrize("content", [b"", b"cpu0 1 2 3", b"cpu  1 2 3 4 5 6 7\n", b"cpu  1 x\n"])
def test_other_content_is_not_measured(content: bytes) -> None:
    assert parse_stat(content) is None


def test_load_of_others_is_what_neither_we_nor_our_children_had(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_bytes(stat(0, 0, 0, 0, 0, 0, 0, 0))
    meter = LoadMeter(str(path))
    path.write_bytes(stat(NEVER, 0, 0, NEVER, 0, 0, 0, 0))
    assert meter.external_cpu_ratio() == pytest.approx(0.5, abs=0.001)
    path.write_bytes(stat(0, 0, 0, NEVER, 0, 0, 0, 0))
    assert meter.external_cpu_ratio() == 0.0
    assert LoadMeter(str(path)).external_cpu_ratio() is None, "no time has passed"
    assert LoadMeter(str(tmp_path / "none")).external_cpu_ratio() is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_our_own_work_is_no_load_of_others() -> None:
    """Of what the machine did in this time at least our own share is not that of others."""
    meter = LoadMeter()
    began = os.times()
    while os.times().user - began.user < 0.3:
        sum(range(100_000))
    took_s = os.times().elapsed - began.elapsed
    found = meter.external_cpu_ratio()
    assert found is not None
    assert found <= 1 - 0.3 / (took_s * (os.cpu_count() or 1)) + 0.1
