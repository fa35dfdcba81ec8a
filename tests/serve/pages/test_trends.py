"""Charts of the base branch, its changes and movers, and the limits that shards come near."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from scipy import stats
from serve.pages.conftest import INSIDERS, client_of, opened_site
from serve.pages.filled import HOSTILE, MINUTE_MS, Site, make_run
from stored_results import compact_all, row

from ciguard.render.charts import HEADROOM, draw_runs
from ciguard.render.pages import RunRow, RunSuiteRow, charted_runs, find_trends
from ciguard.serve.pages import repository_page
from ciguard.serve.pages.repository_page import MIN_SPREAD, ShardUse, overrun_risk, shard_uses
from ciguard.serve.results.rows import RunResults
from ciguard.serve.state import repositories, run_rows
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey

SLOW: Final = Repository(15, "octo-org/slow", is_private=False, default_branch="main")
RUNS, FLAT = 45, 20  # after the flat ones, each run takes 3 % longer
DAY_MS: Final = 24 * 60 * MINUTE_MS


def slow_run(number: int, now_ms: int, **changes: Any) -> RunRow:
    """Run `number` of the default branch, 0 is the oldest; two of a day, with 5 % of noise."""
    noise = float(np.exp(0.05 * np.random.default_rng(number).standard_normal()))
    makespan_s = 400 * noise * 1.03 ** max(0, number - FLAT + 1)
    started_at_ms = now_ms - (RUNS - number) * DAY_MS // 2
    shards = [
        {"shard": "01", "pool": "default", "wall_s": makespan_s, "limit_s": 1000.0}
        | {"peak_bytes": 1000, "budget_bytes": 4000},
        {"shard": HOSTILE, "pool": "default", "wall_s": 100.0, "limit_s": 1000.0}
        | {"peak_bytes": 900 if number % 2 else 980, "budget_bytes": 1000},
    ]
    values: dict[str, Any] = {
        **{"workflow": "tests.yml", "is_base_branch": True, "verdict": "passed", "answer": ""},
        **{"started_at_ms": started_at_ms, "completed_at_ms": started_at_ms + 9 * MINUTE_MS},
        **{"makespan_s": makespan_s, "bound_s": 300.0, "price_usd": 0.5 * noise},
        **{"cells": (RunSuiteRow("unit", "", 9, 0, {"passed": 9}, 2 * makespan_s, 1000, None),)},
        "facts": {"red_since": None, "shards": shards, "probe_s": 0.1 * noise} if number else None,
    }
    return replace(make_run(SLOW, RUNS - number, now_ms), **{**values, **changes})


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service with runs that creep, one incomplete, one of another workflow, one of a branch."""
    with opened_site(tmp_path_factory.mktemp("slow"), runs=0) as site:
        now_ms = round(time.time() * 1000)
        others = [
            slow_run(RUNS, now_ms, verdict="incomplete", makespan_s=9.0, facts={"shards": []}),
            slow_run(RUNS + 1, now_ms, workflow="nightly.yml", makespan_s=9000.0, facts=None),
            slow_run(RUNS + 2, now_ms, is_base_branch=False, makespan_s=9000.0),
            replace(slow_run(3, now_ms, workflow="nightly.yml"), key=RunKey(SLOW.id, 9, 1)),
        ]
        with site.service.database.write() as connection:
            repositories.upsert(connection, [SLOW])
            for run in (*(slow_run(number, now_ms) for number in range(RUNS)), *others):
                run_rows.record_run(connection, run)
        yield site


def test_creep_is_named_with_its_commits_and_its_run(slow: Site) -> None:
    client = client_of(slow, INSIDERS["local"])
    page = client.get("/octo-org/slow.json").json()
    charted = page["charted"]
    assert (len(charted), page["days"]) == (RUNS, 30)
    trends = {trend["measure"]: trend for trend in page["trends"]}
    assert list(trends) == [
        *("makespan_s", "bound_s", "tests_s", "probe_s", "peak_bytes", "price_usd")
    ]
    changed = [name for name, trend in trends.items() if trend["change"]]
    assert changed == ["makespan_s", "tests_s"]
    change = trends["makespan_s"]["change"]
    assert abs(change["first"] - FLAT) <= 2
    assert abs(change["values"] - (RUNS - FLAT)) <= 3
    assert change["ratio"] == pytest.approx(1.03 ** (RUNS - FLAT) - 1, abs=0.15)
    assert trends["probe_s"]["values"][0] is None  # the row of an older ciguard
    first, before = charted[change["first"]], charted[change["before"]]
    html = client.get("/octo-org/slow").text
    assert f"grew {100 * change['ratio']:.0f} % over {change['values']} runs, since" in html
    assert f'href="/octo-org/slow/runs/{first["run_id"]}/{first["run_attempt"]}"' in html
    assert f"/compare/{before['head_sha']}...{first['head_sha']}" in html
    assert html.count("<polyline") == 6


def test_window_of_a_week_has_too_few_runs_for_a_change(slow: Site) -> None:
    page = client_of(slow, INSIDERS["local"]).get("/octo-org/slow.json?days=7").json()
    assert len(page["charted"]) == 13
    assert not any(trend["change"] for trend in page["trends"])
    assert charted_runs([], 0) == []
    assert all(trend.chart() is None for trend in find_trends([]))


def test_shards_are_ranked_by_the_risk_of_their_next_run(slow: Site) -> None:
    client = client_of(slow, INSIDERS["local"])
    every = client.get("/octo-org/slow/shards.json").json()["shards"]
    shards = [shard for shard in every if shard["workflow"] == "tests.yml"]
    names = [(shard["shard"], shard["limit"]) for shard in shards]
    assert names == [
        *((HOSTILE, "memory"), ("01", "wall time"), ("01", "memory"), (HOSTILE, "wall time"))
    ]
    assert [shard["n"] for shard in shards] == [RUNS - 1] * 4
    assert shards[0]["largest_ratio"] == 0.98
    assert 0.05 < shards[0]["risk"] < 0.2
    html = client.get("/octo-org/slow/shards").text
    assert '<td data-label="Largest" class="number">98 %</td>' in html
    assert "<script>alert" not in html
    assert client.get("/octo-org/slow/shards.json?days=1").json()["shards"][0]["n"] == 1


def test_rare_workflow_is_not_hidden(slow: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository_page, "SEARCHED", 20)
    get = client_of(slow, INSIDERS["local"]).get
    shards = get("/octo-org/slow/shards.json").json()["shards"]
    assert {use["workflow"]: use["n"] for use in shards} == {"nightly.yml": 1, "tests.yml": 19}
    page = get("/octo-org/slow.json").json()
    assert (len(page["charted"]), page["workflows"]) == (19, ["tests.yml", "nightly.yml"])
    nightly = get("/octo-org/slow.json?workflow=nightly.yml").json()
    assert (len(nightly["charted"]), nightly["workflows"]) == (2, ["nightly.yml", "tests.yml"])
    assert get("/octo-org/slow/movers.json?workflow=nightly.yml").json()["n"] == 1
    for path in ("/octo-org/slow", "/octo-org/slow/movers"):
        assert f'<a href="{path}?workflow=nightly.yml">nightly.yml</a>' in get(path).text
    assert "No shard with a limit" in get("/octo-org/empty/shards").text


def test_risk_is_that_of_students_t() -> None:
    shares = [0.6, 0.7, 0.75, 0.65, 0.9]
    logs = np.log(shares)
    t = -logs.mean() / (logs.std(ddof=1) * (1 + 1 / 5) ** 0.5)
    assert overrun_risk(shares) == pytest.approx(stats.t.sf(t, 4))
    above = overrun_risk([1 / share for share in shares])
    assert above == pytest.approx(stats.t.cdf(t, 4))
    assert overrun_risk(shares[:4]) is None
    equal = overrun_risk([0.99] * 20)
    assert equal == pytest.approx(stats.t.sf(-np.log(0.99) / MIN_SPREAD / 1.05**0.5, 19))


def test_stated_risk_is_the_rate_of_overruns() -> None:
    """Of 4,000 shards with 10 runs, the next one exceeds what it exceeds with a risk of 5 %."""
    shares = np.exp(0.1 * np.random.default_rng(3).standard_normal((4000, 11)))
    risks = [overrun_risk(row) for row in (shares[:, :-1] / shares[:, -1:]).tolist()]
    for level in (0.01, 0.05, 0.5):
        rate = np.mean([risk is not None and risk <= level for risk in risks])
        assert rate == pytest.approx(level, abs=4 * (level / 4000) ** 0.5)


def test_only_shards_of_the_newest_plan_are_ranked() -> None:
    now_ms = 50 * DAY_MS
    runs = [slow_run(number, now_ms) for number in (3, 2, 1, 0)]
    gone = {
        **(runs[1].facts or {}),
        "shards": [{**(runs[1].facts or {})["shards"][0], "shard": "x"}],
    }
    uses = shard_uses([runs[0], replace(runs[1], facts=gone), *runs[2:]])
    assert {(use.shard, use.n) for use in uses} == {("01", 2), (HOSTILE, 2)}
    assert all(isinstance(use, ShardUse) and use.risk is None for use in uses)
    assert shard_uses([runs[3]]) == ()


def test_runs_without_a_value_interrupt_the_line() -> None:
    drawn = draw_runs([(1.0, "good"), (2.0, "bad"), (None, "bad"), (0.0, "good"), (1.0, "good")])
    assert drawn is not None
    assert drawn.most == 2.0 * HEADROOM
    assert drawn.bad == (250.0, 500.0)
    assert drawn.lines == ("0.0,52.4 250.0,4.8", "750.0,100.0 1000.0,52.4")


def test_single_run_is_a_line_of_no_length_and_nothing_measured_is_none() -> None:
    drawn = draw_runs([(0.0, "good")])
    assert drawn is not None
    assert drawn.lines == ("0.0,100.0 0.0,100.0",)
    assert [draw_runs([(None, "good")]), draw_runs([])] == [None, None]


def test_movers_are_ranked_and_noise_is_left_out(tmp_path: Path) -> None:
    now_ms = round(time.time() * 1000)
    with opened_site(tmp_path, runs=0) as site:
        runs = [slow_run(number, now_ms) for number in range(1, 13)]
        runs.append(replace(make_run(SLOW, 60, now_ms), is_base_branch=False))
        with site.service.database.write() as connection:
            repositories.upsert(connection, [SLOW])
            for run in runs:
                run_rows.record_run(connection, run)
        for at, run in enumerate(runs):
            tests = [
                row(HOSTILE, wall_s=1.0 + 0.1 * at, peak_bytes=100),
                row("noisy", wall_s=5.0 + 4 * (at % 2), peak_bytes=100 + at % 2),
                row("faster", case="a", wall_s=3.0 if at < 6 else 1.0, peak_bytes=10),
                row("faster", case="b", wall_s=1.0, peak_bytes=1000 if at < 6 else 3000),
                row("red", "failed" if at > 6 else "passed", wall_s=1.0 + at),
            ]
            site.results.writer.write([RunResults(run.key, run.started_at_ms, tuple(tests))])
            if at == 5:
                compact_all(site.results)
        client = client_of(site, INSIDERS["local"])
        page = client.get("/octo-org/slow/movers.json").json()
        changes = [(test["unit"], test["before"], test["after"]) for test in page["tests"]]
        assert [(unit, round(a, 3), round(b, 3)) for unit, a, b in changes] == [
            *(("faster", 4.0, 2.0), (HOSTILE, 1.2, 1.9))
        ]
        assert (page["n"], page["before_sha"]) == (5, runs[4].head_sha)
        assert page["after_sha"] == runs[7].head_sha
        peaks = client.get("/octo-org/slow/movers.json?by=peak").json()["tests"]
        assert [(test["unit"], test["after"]) for test in peaks] == [("faster", 3000)]
        html = client.get("/octo-org/slow/movers").text
        assert f"/compare/{runs[4].head_sha}...{runs[7].head_sha}" in html
        assert "-50 %" in html
        assert "<script>alert" not in html
        assert "No test changed" in client.get("/octo-org/empty/movers").text
