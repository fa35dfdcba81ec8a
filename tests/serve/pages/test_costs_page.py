"""What runs cost by day, workflow and pool, and what was in vain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from serve.pages.conftest import INSIDERS, client_of, opened_site
from serve.pages.filled import MINUTE_MS, SHOP, make_run

from ciguard.render.pages import RunRow
from ciguard.serve.pages import costs_page
from ciguard.serve.pages.costs_page import sum_costs
from ciguard.serve.state import run_rows
from ciguard.serve.state.run_key import RunKey

DAY_MS: Final = 24 * 60 * MINUTE_MS
AT_MS: Final = 20_000 * DAY_MS
FACTS: Final = {"failed": 0, "flaky_ratio": 0.0, "pools": {"a": 10, "b": 5}}
RATES: Final = {"rates": {"a": 0.1, "b": 0.6}}


def run(run_id: int, attempt: int = 1, day: int = 0, **changes: Any) -> RunRow:
    values: dict[str, Any] = {
        **{"verdict": "passed", "price_usd": 8.0, "workflow": "a.yml", "facts": {**FACTS, **RATES}},
        **{"started_at_ms": AT_MS, "completed_at_ms": AT_MS + day * DAY_MS, "answer": ""},
    }
    return replace(make_run(SHOP, 1, AT_MS), key=RunKey(11, run_id, attempt), **values | changes)


def sums(*runs: RunRow) -> dict[tuple[str, str], tuple[int, int, float]]:
    costs = sum_costs(runs)
    return {(c.by, c.name): (c.runs, c.unpriced, round(c.price_usd, 6)) for c in costs}


def test_groups_have_the_same_sum_and_count_what_has_no_price() -> None:
    old = run(2, workflow="b.yml", facts=None, day=1)
    assert sums(run(1), old, run(3, price_usd=None)) == {
        ("total", "all runs"): (3, 1, 16.0),
        ("day", "2024-10-04"): (2, 1, 8.0),
        ("day", "2024-10-05"): (1, 0, 8.0),
        **{("workflow", "a.yml"): (2, 1, 8.0), ("workflow", "b.yml"): (1, 0, 8.0)},
        **{
            ("pool", "a"): (2, 1, 2.0),
            ("pool", "b"): (2, 1, 6.0),
            ("pool", "unknown"): (1, 0, 8.0),
        },
    }
    assert sum_costs([]) == ()
    assert ("waste", "red without a failed test") in sums(run(1, exit_code=11))
    without_rate = {**FACTS, "rates": {"a": None, "b": 0.6}}
    assert sums(run(1, facts=without_rate))["pool", "a"] == (1, 1, 0.0)


def test_later_attempt_has_the_price_of_all() -> None:
    costs = sums(run(1, price_usd=6.0), run(1, 2, price_usd=8.0), run(2))
    assert costs["total", "all runs"] == (2, 0, 16.0)
    assert costs["waste", "attempts after the first"] == (1, 0, 2.0)


@pytest.mark.parametrize(
    ("verdict", "facts", "name", "price_usd"),
    [
        ("incomplete", FACTS, "red without a failed test", 8.0),
        ("incomplete", None, "red without a failed test", 8.0),
        ("failed", FACTS, "red without a failed test", 8.0),
        ("failed", {**FACTS, "failed": 2}, "", 0),
        ("failed", None, "", 0),
        ("passed", {**FACTS, "flaky_ratio": 0.25}, "failed tries of flaky tests", 2.0),
    ],
)
def test_waste(verdict: Any, facts: Any, name: str, price_usd: float) -> None:
    costs = sums(run(1, verdict=verdict, facts=facts))
    waste = {key[1]: cost[2] for key, cost in costs.items() if key[0] == "waste"}
    assert waste == ({name: price_usd} if name else {})


def test_page_has_the_runs_of_all_branches_in_the_window(tmp_path: Path) -> None:
    with opened_site(tmp_path, runs=34) as site:
        client = client_of(site, INSIDERS["local"])
        page = client.get("/octo-org/shop/costs.json?days=1").json()
        costs = {cost["name"]: cost for cost in page["costs"]}
        with site.service.database.read() as connection:
            runs = run_rows.newest(connection, SHOP.id, limit=19)  # 77 minutes apart
        priced = [row for row in runs if row.price_usd is not None]
        assert costs["all runs"]["runs"] == len(runs) == costs["tests.yml"]["runs"]
        assert costs["all runs"]["unpriced"] == len(runs) - len(priced)
        assert costs["all runs"]["price_usd"] == pytest.approx(0.43 * len(priced))
        html = client.get("/octo-org/shop/costs?days=1").text
        assert f"{0.43 * len(priced):.2f} USD" in html
        assert "No run was judged" in client.get("/octo-org/empty/costs").text
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(costs_page, "MAX_RUNS", 5)
            assert client.get("/octo-org/shop/costs.json").json()["is_partial"]
            assert "Partial" in client.get("/octo-org/shop/costs").text
