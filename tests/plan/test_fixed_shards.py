"""Plans whose shards a listing names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError
from ciguard.plan.fixed_shards import fixed_assignment


def test_listing_assigns_shards_to_all_units_or_none() -> None:
    units = [InventoryUnit("a", shard="1"), InventoryUnit("b", shard="1")]
    assert fixed_assignment([InventoryUnit("a"), InventoryUnit("b")], (), "x") is None
    given = fixed_assignment([*units, InventoryUnit("a", shard="2")], ("3",), "x")
    assert given is not None
    assert given.units == tuple(units)
    assert list(given.shards.values()) == [("1", "2"), ("1",)]
    with pytest.raises(InputError, match="1 test without a shard: c"):
        fixed_assignment([*units, InventoryUnit("c")], (), "x")


def test_plan_retains_the_listed_shards(tmp_path: Path, ciguard: Ciguard) -> None:
    listed = {"slow": [f"x.py::t{number}" for number in range(3)], "B 2": ["x.py::t0", "y.py::t"]}
    plans: list[Any] = []
    for shards in (listed, dict(reversed(listed.items()))):
        (tmp_path / "units.json").write_text(json.dumps({**shards, "idle": []}))
        done = ciguard("plan", "--inventory", "units.json", "--format", "json", cwd=tmp_path)
        plans.append(json.loads(done.stdout))
    assert plans[0]["id"] == plans[1]["id"]
    held = {one["key"]: [unit["unit"] for unit in one["units"]] for one in plans[0]["shards"]}
    assert {key: sorted(units) for key, units in held.items()} == listed
    assert plans[0]["inventory"]["collected"] == 4
    note = {"kind": "tests_in_several_shards", "facts": {"tests": ["x.py::t0"]}}
    assert note in plans[0]["warnings"]
    words = ("plan", "--inventory", "units.json", "--shards", "2")
    done = ciguard(*words, cwd=tmp_path, expect=2)
    assert "--shards: the inventory names the shard of each test" in done.stderr


def test_listed_shards_with_history_have_risk_and_warnings(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    """Two suites, each in a pool of its own: the bound is the later one's."""
    (tmp_path / "ciguard.toml").write_text(
        "[suite.web]\npool = 'a'\n[suite.api]\npool = 'b'\n"
        "[pool.a]\nruns_on = 'a'\n[pool.b]\nruns_on = 'b'\n"
    )
    walls_s = {"web": {"w.py::t0": 3000.0, "w.py::t1": 1000.0}, "api": {"a.py::t": 10.0}}
    for number, (suite, durations) in enumerate(walls_s.items(), 1):
        (tmp_path / "durations.json").write_text(json.dumps(durations))
        added = ("history", "add", "durations.json", "--history", "past", "--suite", suite)
        ciguard(*added, "--run-id", str(number), cwd=tmp_path)
    listed = [
        {"unit": unit, "suite": suite, "shard": f"{suite}{number}"}
        for suite, durations in walls_s.items()
        for number, unit in enumerate(durations)
    ]
    (tmp_path / "units.json").write_text(json.dumps(listed))
    words = ("plan", "--inventory", "units.json", "--history", "past", "--format", "json")
    done = ciguard(*words, cwd=tmp_path)
    plan = json.loads(done.stdout)
    assert plan["risk"] > 0.5
    assert "exceed the deadline of 43 min 30 s: shard web0 (50 min 00 s)" in done.stderr
    assert plan["lower_bound_s"] == 3000.0
    assert plan["gap"] == 0.0
    assert plan["floor"]["unit"] == "w.py::t0"
