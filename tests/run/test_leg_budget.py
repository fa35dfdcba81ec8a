"""Units that together need six times the memory: admitted by bytes, and none lost for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from run.leg_runner import PYTEST, plan_of, start_shard

from ciguard.model import PlannedUnit, Record, Suite

MIB = 1 << 20
BASE, BUDGET = 50 * MIB, 8192 * MIB
LARGE, SMALL = 4506 * MIB, 769 * MIB  # 10 of each: 52 GiB
SCRIPT = """
while read -r unit; do
    echo "{\\"type\\":\\"start\\",\\"unit\\":\\"$unit\\"}" >> "$2"
    sleep 0.02
    case $unit in
        large-3) kill -9 $$ ;;
        small-7) outcome=failed ;;
        *) outcome=passed ;;
    esac
    echo "{\\"type\\":\\"result\\",\\"unit\\":\\"$unit\\",\\"outcome\\":\\"$outcome\\"}" >> "$2"
done < "$1"
"""
UNITS = [
    PlannedUnit(f"{size}-{n}", peak_delta_bytes=need - BASE, wall_s=1.0)
    for n in range(10)
    for size, need in (("large", LARGE), ("small", SMALL))
]


def admitted(record: Record) -> list[tuple[int, int]]:
    """After each process that was started: how many ran then, and what they need by prediction."""
    end_s = {line.process: line.at_s or 0.0 for line in record.process_ends}
    found = []
    for line in record.processes:
        now_s = line.at_s or 0.0
        running = [one for one in record.processes if (one.at_s or 0.0) <= now_s]
        running = [one for one in running if end_s[one.process] > now_s]
        found.append((len(running), sum(one.predicted_peak_bytes or 0 for one in running)))
    return found


def test_admitted_units_fit_the_budget_and_none_is_lost(tmp_path: Path) -> None:
    assert sum(unit.peak_delta_bytes or 0 for unit in UNITS) + 20 * BASE > 51 << 30
    outcomes = {}
    for name, budget in (("budget", BUDGET), ("free", None)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "suite.sh").write_text(SCRIPT)
        command = ("sh", "suite.sh", "{units_file}", "{results_file}")
        suite = Suite("command", command, base_bytes=BASE)
        plan = plan_of(UNITS, suites={"": suite}, processes=4, budget_bytes=budget)
        leg = start_shard(folder, plan).wait(10)
        outcomes[name] = leg.outcomes()
        found = admitted(leg.record())
        if budget:
            assert max(size for _, size in found) <= BUDGET
            assert max(count for count, _ in found) >= 2, "what fits beside another runs beside it"
        else:
            assert max(count for count, _ in found) == 4
    assert outcomes["budget"] == outcomes["free"]
    assert outcomes["free"] == {
        unit.unit: {"large-3": "died", "small-7": "failed"}.get(unit.unit, "passed")
        for unit in UNITS
    }


HOLD = """
import time
import pytest
@pytest.mark.parametrize("n", range(6))
def test_hold(n):
    held = bytearray(b"x") * (100 << 20)
    time.sleep(0.3)
"""
CPUS = """
import pytest
@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config): return 4
"""


@pytest.mark.parametrize(
    ("delta", "workers", "said"),
    [
        pytest.param(None, "auto", "4 workers, not limited: no measured peaks", id="first"),
        pytest.param(
            100 * MIB, "auto", "2 of 4 workers: no more fit into 360 MiB, at up to", id="measured"
        ),
        pytest.param(100 * MIB, "tool", "", id="left-to-the-tool"),
    ],
)
def test_workers_of_xdist_fit_into_the_budget(
    tmp_path: Path, delta: int | None, workers: str, said: str
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(CPUS)
    (tmp_path / "test_hold.py").write_text(HOLD)
    suite = replace(PYTEST, args=("-n", "auto"), base_bytes=BASE, workers=workers)
    units = [PlannedUnit(f"test_hold.py::test_hold[{n}]", "", "", 1, delta) for n in range(6)]
    leg = start_shard(tmp_path, plan_of(units, suites={"": suite}, budget_bytes=460 * MIB)).wait(0)
    assert set(leg.outcomes().values()) == {"passed"}
    assert said in leg.printed
    assert ("process 1: 4 w" in leg.printed) == (delta is None)
    assert ((leg.record().peak_bytes or 0) < 460 * MIB) == (said.startswith("2"))
