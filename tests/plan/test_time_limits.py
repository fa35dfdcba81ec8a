"""Limits of units: as configured, or so many times what they took before."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Ciguard

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.plan.estimates import Observations, no_observations
from ciguard.plan.inventory import Inventory, inventory
from ciguard.plan.time_limits import TimeoutRule, unit_timeouts

UNITS = ("quick", "slow", "stopped", "new")


def found() -> Inventory:
    units = [*map(InventoryUnit, UNITS), InventoryUnit("quick", suite="other")]
    return inventory(units, exclude={}, ordered=True)


def past() -> Observations:
    """quick took 2 and 3 s; slow 20 and 30 s; stopped, which is known only to take over 99 s."""
    wall_s = np.array([2.0, 3.0, 20.0, 30.0, 99.0, 50.0])
    nothing = np.full(6, np.nan)
    stopped = np.array([False] * 4 + [True, False])
    return Observations(np.array([0, 0, 1, 1, 2, 4], np.int32), wall_s, nothing, nothing, stopped)


@pytest.mark.parametrize(
    ("rule", "setup_s", "expected"),
    [
        (TimeoutRule(600.0), 0.0, (600.0, 600.0, 600.0, 600.0, None)),
        (TimeoutRule(None, 10.0), 0.0, (60.0, 300.0, None, None, None)),
        (TimeoutRule(None, 10.0), 45.5, (105.5, 345.5, None, None, None)),
        (TimeoutRule(100.0, 10.0), 0.0, (60.0, 100.0, 100.0, 100.0, None)),
    ],
)
def test_unit_timeouts_follow_the_rule(
    rule: TimeoutRule, setup_s: float, expected: tuple[float | None, ...]
) -> None:
    assert unit_timeouts(found(), past(), {"": rule}, {"": setup_s, "other": 9.0}) == expected


def test_no_rule_gives_no_timeout_and_no_history_the_configured_one() -> None:
    assert unit_timeouts(found(), past(), {"": TimeoutRule(), "other": TimeoutRule()}, {}) == ()
    both = {"": TimeoutRule(5.0, 3.0), "other": TimeoutRule(None, 3.0)}
    assert unit_timeouts(found(), no_observations(), both, {}) == (5.0, 5.0, 5.0, 5.0, None)


@pytest.mark.parametrize("rule", [TimeoutRule(), TimeoutRule(5.0)])
def test_listed_limit_replaces_the_rule(rule: TimeoutRule) -> None:
    units = [InventoryUnit("a", timeout_ms=1500), InventoryUnit("b", timeout_ms=0)]
    known = inventory([*units, InventoryUnit("c")], exclude={}, ordered=True)
    limits_s = unit_timeouts(known, no_observations(), {"": rule}, {})
    assert limits_s == (1.5, rule.max_s, rule.max_s)


@pytest.mark.parametrize("flags", [("--inventory", "units.jsonl"), ()], ids=["file", "command"])
def test_limits_of_a_listing_are_in_the_plan(
    flags: tuple[str, ...], tmp_path: Path, ciguard: Ciguard
) -> None:
    (tmp_path / "units.jsonl").write_text('{"unit":"a","timeout_ms":1500}\nb\n')
    (tmp_path / "ciguard.toml").write_text(
        '[suite.s]\nframework = "command"\nlist = ["cat", "units.jsonl"]\ncommand = ["true"]\n'
        'timeout = "5m"\n'
    )
    planned = ciguard("plan", *flags, "--shards", "1", "--format", "json", cwd=tmp_path)
    (shard,) = json.loads(planned.stdout)["shards"]
    limits = {unit["unit"]: unit["timeout_s"] for unit in shard["units"]}
    assert limits == {"a": 1.5, "b": 300.0}


def test_timeouts_from_a_real_history_with_shared_setups(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "units.txt").write_text("a.py::one\na.py::two\na.py::new\n")
    (tmp_path / "ciguard.toml").write_text("[suite.s]\ntimeout_ratio = 20\ntimeout = '5m'\n")
    lines = [
        {"type": "shard", "plan_id": "p", "shard": "1", "run_id": 7, "run_attempt": 1, "schema": 1},
        {"type": "result", "unit": "a.py::one", "suite": "s", "outcome": "passed", "wall_s": 4.0},
        {"type": "result", "unit": "a.py::two", "suite": "s", "outcome": "passed", "wall_s": 0.1},
        {"type": "end", "ending": "completed", "exit_code": 0, "at_s": 50.0},
    ]
    lines[1]["setup_s"] = 12.5
    (tmp_path / "record").mkdir()
    (tmp_path / "record/supervisor.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    ciguard("history", "add", "record", "--history", "past", cwd=tmp_path)
    words = (
        "plan",
        "--inventory",
        "units.txt",
        "--history",
        "past",
        "--shards",
        "1",
        "--format",
        "json",
    )
    (shard,) = json.loads(ciguard(*words, cwd=tmp_path).stdout)["shards"]
    limits = {unit["unit"]: unit["timeout_s"] for unit in shard["units"]}
    assert limits == {"a.py::one": 92.5, "a.py::two": 72.5, "a.py::new": 300.0}
