"""A suite that does all that suites do to runners: one right result each, and nothing is left."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from run.hostile_suite import Shape, differences, finals, run_hostile

from ciguard.guard.headline import headline
from ciguard.guard.prove import prove
from ciguard.sources.local import read_record_tree

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="what is measured and guarded is Linux's"
)


@pytest.mark.soak
@pytest.mark.parametrize("processes", [1, 2, 4])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("tries", [1, 2])
def test_each_unit_has_the_expected_ending(
    tmp_path: Path, processes: int, workers: int, tries: int
) -> None:
    shape = Shape(processes, workers, tries)
    leg, plan = run_hostile(tmp_path, shape)
    record = leg.record()
    assert differences(record, shape) == {}, leg.printed[-4000:]
    assert leg.process.returncode == 10
    assert (leg.end().ending, leg.end().exit_code) == ("completed", 10)
    last = finals(record.results)
    assert leg.end().counts == Counter(one.outcome for one in last.values())
    died = [one for one in last.values() if one.outcome == "died"]
    assert all((one.concurrent or 1) == 1 for one in died), "each is the one to blame"
    spike = last["test_hostile.py::test_spike"]
    assert abs((spike.peak_delta_bytes or 0) - (512 << 20)) < 500_000
    verdict = prove(plan, read_record_tree(leg.record_folder))
    assert (verdict.state, verdict.with_result) == ("failed", verdict.planned), headline(verdict)
    assert record.damage == ()
    if shape.processes < 4:  # a fourth of the leaks is too little to recycle for
        assert "recycled" in {event.kind for event in record.events}
    shutil.rmtree(leg.record_folder)  # 200 MB each, which pytest would keep three times
