from __future__ import annotations

import pytest

from ciguard.model import Pool, ShardCountOption
from ciguard.plan.allocation import cost_of, counts_to_try, option, run_wall_s


@pytest.mark.parametrize(
    ("walls_s", "concurrency", "expected"),
    [
        ([5.0, 3.0, 4.0], None, 5.0),
        ([5.0, 3.0, 4.0], 3, 5.0),
        ([5.0, 3.0, 4.0], 2, 7.0),  # the third waits for the second
        ([5.0, 3.0, 4.0], 1, 12.0),
    ],
)
def test_jobs_over_the_cap_wait(
    walls_s: list[float], concurrency: int | None, expected: float
) -> None:
    assert run_wall_s(walls_s, concurrency) == expected


def test_each_job_is_billed_in_whole_minutes_including_setup() -> None:
    pool = Pool("ubuntu-latest", usd_per_minute=0.5, setup_s=30.0, concurrency=1)
    assert cost_of([29.0, 31.0, 90.0], pool) == ShardCountOption(
        3, 29 + 31 + 90 + 90.0, 1 + 2 + 2, 2.5
    )
    assert cost_of([0.0], Pool("mine")) == ShardCountOption(1, 0.0, 1, None)


def test_pools_run_in_parallel_and_a_missing_price_gives_no_cost() -> None:
    pools = {"a": Pool("a", usd_per_minute=0.25), "b": Pool("b", usd_per_minute=1.0)}
    walls_s = {"a": [60.0, 120.0], "b": [30.0]}
    assert option(walls_s, pools, chosen=True) == ShardCountOption(3, 120.0, 4, 1.75, chosen=True)
    pools["b"] = Pool("b")
    assert option(walls_s, pools, chosen=False) == ShardCountOption(3, 120.0, 4, None, chosen=False)


def test_numbers_around_the_chosen_one() -> None:
    assert counts_to_try(8, 256) == [2, 4, 6, 10, 12, 16, 32]
    assert counts_to_try(1, 3) == [2, 3]
    assert counts_to_try(100, 110) == [25, 50, 75, 110]
