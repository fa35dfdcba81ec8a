"""What the configuration, the environment and the flags of `ciguard plan` wish for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Ciguard
from plan.plan_requests import NONE, ids, plan_of

from ciguard.model import Pool, ShardCountOption
from ciguard.plan.allocation import cost_of, counts_to_try, run_wall_s, shard_count_option


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("--shards", "257"), "--shards: expected at most 256, found '257'"),
        (("--shards", "0"), "--shards: expected at least 1"),
        (("--shards", "four"), "--shards: "),
        (("--target-wall", "-1m"), "--target-wall: expected a time like"),
        (("--target-wall", "0s"), "--target-wall: "),
        (("--limit", "soon"), "--limit: expected a time like"),
        (("--risk", "1.5"), "--risk: "),
        (("--group", "module"), "--group: "),
        (("--group", "class"), "--group: "),
        (("--processes", "0"), "--processes: "),
        (("--shards", "2", "--target-wall", "5m"), "both --shards and --target-wall"),
        (("--pool", "nowhere"), "no pool 'nowhere'\n  fix: the configuration has: default"),
        (("--github",), "GITHUB_OUTPUT is not set"),
    ],
)
def test_invalid_option_is_a_usage_error(
    words: tuple[str, ...], output: str, listed: Path, ciguard: Ciguard
) -> None:
    done = ciguard("plan", "--inventory", "units.txt", *words, cwd=listed, expect=2)
    assert output in done.stderr
    assert "Traceback" not in done.stderr


def test_all_mistakes_are_reported_together(listed: Path, ciguard: Ciguard) -> None:
    done = ciguard(
        *("plan", "--inventory", "units.txt", "--shards", "0", "--risk", "2"), cwd=listed, expect=2
    )
    assert "--shards" in done.stderr
    assert "--risk" in done.stderr


def test_infeasible_limit_is_a_warning(listed: Path, ciguard: Ciguard) -> None:
    durations = {"tests/test_a.py::test_0": 600.0}
    (listed / "durations.json").write_text(json.dumps(durations), "utf-8")
    ciguard(*("history", "add", "durations.json", "--history", "past", "--run-id", "1"), cwd=listed)
    words = ("plan", "--inventory", "units.txt", "--history", "past", "--shards", "2")
    done = ciguard(*words, "--limit", "5m", "--format", "json", cwd=listed)
    plan = plan_of(done.stdout)
    assert len(ids(plan)) == 30
    assert "tests/test_a.py::test_0" in done.stderr
    kinds = {one["kind"]: one["facts"] for one in plan["warnings"]}
    assert kinds["deadline_exceeded"]["deadline_s"] == 210.0
    assert "predicted to exceed the deadline of 3 min 30 s" in done.stderr
    assert {shard["timeout_minutes"] for shard in plan["shards"]} == {5}
    assert plan["policy"]["deadline_s"] == 210.0


CONFIGURED = """
[plan]
shards = 4
processes = 2
limit = "20m"
setup = "2m"

[policy]
retries = 1
guard_rail = "observe"

[metrics]
conditions = ["XLA_COMMIT"]

[pool.small]
runs_on = "ubuntu-latest"

[pool.big]
runs_on = ["self-hosted", "big"]
memory = "32GiB"
reserve = "2GiB"
env = { POOL = "big" }

[suite.fast]
framework = "command"
command = ["sh", "run.sh", "{units_file}"]
list = ["sh", "-c", "printf 'f1\\nf2\\nskip-me\\n'"]
exclude = ["skip-*"]
timeout = "30s"

[suite.slow]
framework = "command"
command = ["sh", "run.sh", "{units_file}"]
list = ["sh", "-c", "echo s-$POOL-$WAY-{variant}"]
pool = "big"
[suite.slow.variant.one]
env = { WAY = "1" }
[suite.slow.variant.two]
env = { WAY = "2" }
"""


def test_suites_variants_and_pools_of_the_configuration(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "ciguard.toml").write_text(CONFIGURED, "utf-8")
    plan = plan_of(ciguard("plan", *NONE, "--format", "json", cwd=tmp_path).stdout)
    where = {
        (unit["suite"], unit["variant"], unit["unit"]): (shard["pool"], unit["timeout_s"])
        for shard in plan["shards"]
        for unit in shard["units"]
    }
    assert where == {
        ("fast", "", "f1"): ("small", 30.0),
        ("fast", "", "f2"): ("small", 30.0),
        ("slow", "one", "s-big-1-one"): ("big", None),
        ("slow", "two", "s-big-2-two"): ("big", None),
    }
    assert len(plan["shards"]) == 4
    (excluded,) = plan["inventory"]["excluded"]
    assert (excluded["unit"], excluded["rule"]) == ("skip-me", "suite.fast.exclude: skip-*")
    assert plan["policy"] == {
        "guard_rail": "observe",
        "max_tries": 2,
        "deadline_s": 1110.0,
        "lists": False,
        "conditions": ["XLA_COMMIT"],
        "probe_s": 20.0,
    }
    assert plan["pools"]["small"]["memory_bytes"] == 8 << 30
    big = next(shard for shard in plan["shards"] if shard["pool"] == "big")
    assert big["budget_bytes"] == 30 << 30
    assert plan["suites"]["slow"]["variants"]["two"]["env"] == {"WAY": "2"}


def test_pool_option_selects_one_pool_for_all_suites(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "ciguard.toml").write_text(CONFIGURED, "utf-8")
    words = ("plan", *NONE, "--pool", "small", "--shards", "1", "--format", "json")
    plan = plan_of(ciguard(*words, cwd=tmp_path).stdout)
    assert list(plan["pools"]) == ["small"]
    (shard,) = plan["shards"]
    assert len(shard["units"]) == 4


def test_errors_of_all_suites_are_reported_together(tmp_path: Path, ciguard: Ciguard) -> None:
    text = CONFIGURED.replace("printf 'f1\\nf2\\nskip-me\\n'", "exit 7").replace(
        "echo s-", "exit 8; echo s-"
    )
    (tmp_path / "ciguard.toml").write_text(text, "utf-8")
    done = ciguard("plan", *NONE, cwd=tmp_path, expect=3)
    assert "suite fast: the list command ended with exit code 7" in done.stderr
    assert "suite slow one: the list command ended with exit code 8" in done.stderr
    assert "suite slow two: the list command ended with exit code 8" in done.stderr


def test_environment_overrides_configuration_and_flags_override_both(
    listed: Path, ciguard: Ciguard
) -> None:
    words = ("plan", "--inventory", "units.txt", *NONE, "--format", "json")
    plan = plan_of(ciguard(*words, cwd=listed, CIGUARD_PLAN_SHARDS="5").stdout)
    assert len(plan["shards"]) == 5
    flagged = ciguard(*words, "--shards", "2", cwd=listed, CIGUARD_PLAN_SHARDS="5")
    assert len(plan_of(flagged.stdout)["shards"]) == 2
    timed = ciguard(*words, "--target-wall", "1h", cwd=listed, CIGUARD_PLAN_SHARDS="5")
    assert len(plan_of(timed.stdout)["shards"]) == 1


def test_unknown_environment_variable_is_rejected(listed: Path, ciguard: Ciguard) -> None:
    words = ("plan", "--inventory", "units.txt", *NONE)
    invalid = {"CIGUARD_PLAN_SHARD": "3", "CIGUARD_POLICY_RETRYS": "2"}
    done = ciguard(*words, cwd=listed, expect=2, **invalid)
    assert "environment: CIGUARD_PLAN_SHARD: sets no key of the configuration" in done.stderr
    assert "did you mean CIGUARD_PLAN_SHARDS?" in done.stderr
    assert "did you mean CIGUARD_POLICY_RETRIES?" in done.stderr


def test_bare_number_is_seconds_and_limit_is_exact(listed: Path, ciguard: Ciguard) -> None:
    words = ("plan", "--inventory", "units.txt", *NONE, "--format", "json", "--limit")
    for text in ("90", "90s", "1m30s"):
        plan = plan_of(ciguard(*words, text, cwd=listed).stdout)
        assert plan["policy"]["deadline_s"] == 72.0
        assert {shard["timeout_minutes"] for shard in plan["shards"]} == {2}


def test_patterns_that_match_no_file_are_reported(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "units.txt").write_text("a\n")
    (tmp_path / "ciguard.toml").write_text('[suite.x]\nfiles = ["nosuch_*.py"]\n')
    done = ciguard("plan", "--inventory", "units.txt", *NONE, cwd=tmp_path)
    assert "suite.x.files: nosuch_*.py matches no file" in done.stderr


def test_type_errors_use_toml_terms(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "ciguard.toml").write_text('[suite.x]\nfiles = "test_*.py"\n[plan]\nrisk = 2\n')
    done = ciguard("plan", *NONE, cwd=tmp_path, expect=2)
    assert "suite.x.files: expected a list, found 'test_*.py'" in done.stderr
    assert "plan.risk: expected less than 1, found 2" in done.stderr


def test_suites_without_configuration_come_from_the_inventory(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    suite_keys = [{"suite": "x", "variant": "v"}, {"suite": "y"}, {"suite": "y", "variant": "w"}]
    (tmp_path / "units.json").write_text(
        json.dumps([{"unit": "a", **suite_key} for suite_key in suite_keys])
    )
    done = ciguard(
        "plan", "--inventory", "units.json", "--shards", "3", "--format", "json", cwd=tmp_path
    )
    plan = json.loads(done.stdout)
    assert {name: sorted(suite["variants"]) for name, suite in plan["suites"].items()} == {
        "x": ["v"],
        "y": ["", "w"],
    }
    (tmp_path / "ciguard.toml").write_text("[suite.x]\n[suite.x.variant.v]\n")
    done = ciguard("plan", "--inventory", "units.json", cwd=tmp_path, expect=3)
    assert "no suite 'y'" in done.stderr


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
    assert shard_count_option(walls_s, pools, chosen=True) == ShardCountOption(
        3, 120.0, 4, 1.75, chosen=True
    )
    pools["b"] = Pool("b")
    assert shard_count_option(walls_s, pools, chosen=False) == ShardCountOption(
        3, 120.0, 4, None, chosen=False
    )


def test_numbers_around_the_chosen_one() -> None:
    assert counts_to_try(8, 256) == [2, 4, 6, 10, 12, 16, 32]
    assert counts_to_try(1, 3) == [2, 3]
    assert counts_to_try(100, 110) == [25, 50, 75, 110]
