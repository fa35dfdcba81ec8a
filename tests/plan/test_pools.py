from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plan.plan_factories import GIB, planned, suite

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.config.file import parse
from ciguard.config.suites import pools_of
from ciguard.errors import UsageError
from ciguard.history.file import History, of_columns
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import PlanNote, Pool, Runner
from ciguard.plan.history_inputs import with_observed_capacity

SMALL = Pool("small", memory_bytes=8 * GIB, reserve_bytes=GIB, usd_per_minute=0.01)
LARGE = Pool("large", memory_bytes=64 * GIB, reserve_bytes=GIB, usd_per_minute=0.08)
POOLS = {"small": SMALL, "large": LARGE}
FIRST = {"": "small"}


def test_oversized_unit_goes_to_the_smallest_sufficient_pool() -> None:
    pools = {"small": SMALL, "huge": replace(LARGE, memory_bytes=99 * GIB), "large": LARGE}
    made = planned({"a": 1.0, "b": 1.0}, peaks={"b": 9 * GIB}, pools=pools, pool_of={"": "small"})
    assert [(shard.pool, len(shard.units)) for shard in made.plan.shards] == [
        ("large", 1),
        ("small", 1),
    ]
    assert made.plan.warnings == ()


def test_unit_too_large_for_all_pools_is_a_warning() -> None:
    made = planned({"a": 1.0}, peaks={"a": 90 * GIB}, pools=POOLS, pool_of={"": "small"})
    assert [shard.pool for shard in made.plan.shards] == ["small"]
    (warning,) = made.plan.warnings
    assert (warning.kind, warning.facts["pool"]) == ("memory_exceeded", "small")


def test_shard_count_is_limited_to_the_concurrency() -> None:
    units = {f"t{number}": 60.0 for number in range(12)}
    pools = {"small": replace(SMALL, concurrency=3)}
    made = planned(units, pools=pools, pool_of=FIRST, target_wall_s=60.0).plan
    assert len(made.shards) == 3
    assert made.shard_count_limited_by == (PlanNote("concurrency", {"pool": "small", "jobs": 3}),)
    (taken,) = (one for one in made.alternatives if one.chosen)
    assert (taken.shards, taken.wall_s, taken.minutes) == (3, 240.0, 12)
    assert taken.price_usd == pytest.approx(0.12)
    twice = next(one for one in made.alternatives if one.shards == 6)
    assert twice.wall_s == 240.0, "two waves of 120 s"


def test_concurrency_is_exceeded_only_to_meet_the_limit() -> None:
    units = {f"t{number}": 60.0 for number in range(12)}
    pools = {"small": replace(SMALL, concurrency=1)}
    made = planned(units, pools=pools, pool_of=FIRST, target_wall_s=60.0, limit_s=400.0).plan
    assert len(made.shards) > 1
    assert max(shard.predicted.wall_s for shard in made.shards) <= (made.policy.deadline_s or 0)


def test_each_pool_meets_the_target_including_its_setup() -> None:
    """12 units of a minute one after another; the set-up of the other pool takes none off."""
    units = [(InventoryUnit(f"t{n}", "one"), 60.0) for n in range(12)]
    units.append((InventoryUnit("t", "two"), 60.0))
    pools = {"small": replace(SMALL, concurrency=1), "slow": replace(LARGE, setup_s=700.0)}
    made = planned(
        units,
        suites={"one": suite(), "two": suite()},
        pools=pools,
        pool_of={"one": "small", "two": "slow"},
        target_wall_s=120.0,
        limit_s=400.0,
    ).plan
    (warning,) = made.warnings
    facts = {"target_s": 120.0, "shards": len(made.shards), "wall_s": 720.0}
    assert warning == PlanNote("target_missed", facts)


def test_shard_has_units_of_one_command_only() -> None:
    other = replace(suite(), command=("other", "{units_file}"))
    suites = {"one": suite(), "two": suite(), "three": other}
    units = [(InventoryUnit(f"u{n}", name), 1.0) for name in suites for n in range(2)]
    pool_of = dict.fromkeys(suites, "linux")
    made = planned(units, suites=suites, pool_of=pool_of).plan
    assert [{unit.suite for unit in shard.units} for shard in made.shards] == [
        {"three"},
        {"one", "two"},
    ]
    output = "1 shard for 2 pools and commands: three in linux, one in linux"
    with pytest.raises(UsageError, match=output):
        planned(units, suites=suites, pool_of=pool_of, shards=1)


def test_fewer_shards_than_pools_is_a_usage_error() -> None:
    suites = {"one": suite(), "two": suite()}
    units = [(InventoryUnit("u", name), 1.0) for name in suites]
    with pytest.raises(UsageError, match="1 shard for 2 pools and commands"):
        planned(units, suites=suites, pool_of={"one": "linux", "two": "large"}, shards=1)


def test_pool_size_is_learned_from_its_runners() -> None:
    runners = (Runner("small", cpus=4, memory_bytes=16), Runner("small", cpus=2, memory_bytes=8))
    legs = tuple(HistoryLeg(f"0{n}", runner=runner) for n, runner in enumerate(runners))
    columns = {name: np.zeros(0, np.int32) for name in ("key", "run", "leg")}
    codes = ("outcome", "ending", "measured_by", "try_number")
    columns |= {name: np.zeros(0, np.uint8) for name in codes}
    history = History(of_columns(columns), (HistoryRun(1, legs=legs),))
    found = with_observed_capacity(
        {"small": Pool("x"), "said": Pool("y", cpus=1, memory_bytes=5)}, history
    )
    assert found["small"] == Pool("x", cpus=2, memory_bytes=8)
    assert found["said"] == Pool("y", cpus=1, memory_bytes=5)


def test_only_the_oversized_unit_moves_to_the_larger_pool() -> None:
    units = {f"t{number:03}": 60.0 for number in range(60)}
    made = planned(
        units, peaks={"t007": 20 * GIB}, pools=POOLS, pool_of=FIRST, target_wall_s=600.0
    ).plan
    assert {shard.pool: len(shard.units) for shard in made.shards if shard.pool == "large"} == {
        "large": 1
    }


def test_commands_of_one_pool_share_its_concurrency() -> None:
    suites = {"one": suite(), "two": replace(suite(), command=("other", "{units_file}"))}
    units = [(InventoryUnit(f"u{n}", name), 300.0) for name in suites for n in range(20)]
    made = planned(
        units,
        suites=suites,
        pools={"small": replace(SMALL, concurrency=4)},
        pool_of=dict.fromkeys(suites, "small"),
        target_wall_s=1200.0,
        limit_s=7200.0,
        group="none",
    ).plan
    (taken,) = (one for one in made.alternatives if one.chosen)
    assert taken.shards == 4
    assert taken.wall_s == 3000.0
    assert made.warnings[-1].kind == "target_missed"
    assert made.warnings[-1].facts["wall_s"] == pytest.approx(3000.0)
    assert made.shard_count_limited_by == (PlanNote("concurrency", {"pool": "small", "jobs": 2}),)


@pytest.mark.parametrize(
    ("keys", "mistake"),
    [
        ('memory = "600MiB"', "memory 600 MiB is not above reserve 1.00 GiB"),
        ('reserve = "8GiB"', "memory 8.00 GiB is not above reserve 8.00 GiB"),  # of a known runner
        ('memory = "600MiB"\nreserve = "100MiB"', ""),
        ('runs_on = "own"', ""),  # of unknown memory
    ],
)
def test_pool_without_memory_for_tests_is_a_mistake(keys: str, mistake: str) -> None:
    config = parse({"ciguard.toml": f"[pool.one]\n{keys}\n".encode()}, {})
    if not mistake:
        assert pools_of(config, ())["one"].reserve_bytes in (100 << 20, GIB)
        return
    with pytest.raises(UsageError, match=rf"^pool\.one: {mistake}"):
        pools_of(config, ())
