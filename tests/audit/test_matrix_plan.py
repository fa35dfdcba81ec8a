"""The plan of a matrix as it is: `ciguard audit -o`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Ciguard

from ciguard.codec import plan_file
from ciguard.model import Plan

TESTS = [
    {"id": "Shop.Cart.Adds", "file": "tests/a.cs", "categories": []},
    {"id": "Shop.Cart.Removes", "file": "tests/a.cs", "categories": ["Slow"]},
    {"id": "Shop.Order.Pays", "file": "tests/b.cs", "categories": ["Never"]},
    {"id": "Shop.User.Logs", "file": "tests/c.cs", "categories": []},
    {"id": "Shop.User.Waits", "file": "tests/c.cs", "categories": ["Slow"]},
    {"id": "Shop.Word.Counts", "file": "other/d.cs", "categories": []},
]
SHARDS: list[dict[str, object]] = [
    {"name": "Cart / A-M", "filter": "Cart", "timeout_minutes": 44.5, "runner": "windows"},
    {"name": "Cart - A-M", "filter": "Shop.Cart&Category!=Slow"},
    {"name": "Users", "filter": "Order|User.W&Category!=Slow"},
]
MATRIX = {
    "global_filter": "(<shard filter>)&Category!=Never",
    "shards": [{**shard, "project": "tests/"} for shard in SHARDS],
}
WORKFLOW = """
jobs:
  test:
    timeout-minutes: 45
    strategy:
      matrix:
        part: [Cart, User]
    steps:
      - run: dotnet test --filter "$MADE"
"""
WORDS = ("audit", "--matrix", "shards.json", "--tests", "tests.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tests.json").write_text(json.dumps(TESTS), "utf-8")
    (tmp_path / "shards.json").write_text(json.dumps(MATRIX), "utf-8")
    return tmp_path


def plan_at(path: Path) -> Plan:
    return plan_file.decode(path.read_bytes(), str(path))


def test_plan_has_each_test_where_the_matrix_has_it(folder: Path, ciguard: Ciguard) -> None:
    done = ciguard(*WORDS, "-o", "plan.json", cwd=folder)
    assert done.stdout == ciguard(*WORDS, cwd=folder).stdout
    plan = plan_at(folder / "plan.json")
    assert done.stderr == f"plan {plan.id}: 3 shards, written to plan.json\n"
    units = {shard.key: [unit.unit for unit in shard.units] for shard in plan.shards}
    assert units == {
        "Cart-A-M": ["Shop.Cart.Adds", "Shop.Cart.Removes"],
        "Cart-A-M-2": ["Shop.Cart.Adds"],
        "Users": [],
    }
    jobs = [(one.job, one.timeout_minutes, one.pool) for one in plan.shards]
    assert jobs == [
        ("Cart / A-M", 45, "windows"),
        ("Cart - A-M", 360, "default"),
        ("Users", 360, "default"),
    ]
    assert [plan.job_name(shard) for shard in plan.shards] == [job for job, *_ in jobs]
    assert plan.pools.keys() == {"default", "windows"}
    assert plan.pools["windows"].runs_on == "windows"
    inventory = plan.inventory
    assert {one.unit: one.rule for one in inventory.excluded} == {
        "Shop.Word.Counts": "outside of the projects",
        "Shop.Order.Pays": "filter of all shards: Category!=Never",
    }
    assert {one.unit: one.reason for one in inventory.orphans} == {
        "Shop.User.Waits": "label",
        "Shop.User.Logs": "not_requested",
    }
    assert inventory.collected == len(TESTS)
    assert (plan.suites[""].framework, plan.suites[""].command) == ("command", ("dotnet", "test"))
    assert [note.kind for note in plan.warnings] == ["tests_in_several_shards"]


UPLOAD = """
      - uses: actions/upload-artifact@v7
        with: { name: "ARTIFACT", path: out/junit.xml }
"""


@pytest.mark.parametrize(
    ("artifact", "keys"),
    [
        ("results-${{ matrix.part }}", ["results-Cart", "results-User-A"]),
        ("r-${{ strategy.job-index }}", ["r-0", "r-1"]),
        # Two folders, and one key: no artifact can tell the shards apart.
        ("results", ["test-Cart", "test-User-A"]),
        ("results-${{ github.run_id }}", ["test-Cart", "test-User-A"]),
    ],
)
def test_shards_are_called_after_their_artifacts(
    artifact: str, keys: list[str], folder: Path, ciguard: Ciguard
) -> None:
    named = WORKFLOW.replace("$MADE", "${{ matrix.part }}").replace("User", "User A")
    (folder / "ci.yml").write_text(named.rstrip() + UPLOAD.replace("ARTIFACT", artifact), "utf-8")
    words = ("--matrix", "ci.yml", "--tests", "tests.json", "-o", "plan.json")
    ciguard("audit", *words, cwd=folder)
    assert [shard.key for shard in plan_at(folder / "plan.json").shards] == keys


def test_same_plan_for_any_order_of_the_tests(folder: Path, ciguard: Ciguard) -> None:
    first = ciguard(*WORDS, "-o", "-", cwd=folder).stdout
    (folder / "tests.json").write_text(json.dumps(TESTS[::-1]), "utf-8")
    assert ciguard(*WORDS, "-o", "-", cwd=folder).stdout == first


def test_plan_takes_suites_and_times_from_where_they_are(folder: Path, ciguard: Ciguard) -> None:
    (folder / "ciguard.toml").write_text("[suite.unit]\nframework = 'command'\ncommand = ['x']\n")
    (folder / "times.json").write_text('{"Shop.Cart.Adds": 90, "Shop.Cart.Removes": 30}')
    words = ("history", "add", "times.json", "--history", "past", "--suite", "unit")
    ciguard(*words, "--run-id", "1", cwd=folder)
    ciguard(*WORDS, "--history", "past", "-o", "plan.json", cwd=folder)
    plan = plan_at(folder / "plan.json")
    assert plan.suites.keys() == {"unit"}
    walls_s = {shard.key: shard.predicted.wall_s for shard in plan.shards}
    assert walls_s == {"Cart-A-M": 120.0, "Cart-A-M-2": 90.0, "Users": 0.0}
    assert {one.suite for one in plan.inventory.orphans} == {"unit"}


def test_no_plan_where_the_tests_of_a_shard_are_not_known(folder: Path, ciguard: Ciguard) -> None:
    (folder / "ci.yml").write_text(WORKFLOW, "utf-8")
    words = ("audit", "--matrix", "ci.yml", "--tests", "tests.json", "-o", "plan.json")
    done = ciguard(*words, cwd=folder, expect=3)
    assert "ci.yml:7: no plan: it is not known which tests shard 'test (Cart)' (and 1 more)" in (
        done.stderr
    )
    assert "name the matrix key that holds the filter: --filter-key shard.filter" in done.stderr
    assert not (folder / "plan.json").exists()
    done = ciguard(*words, "--filter-key", "part", cwd=folder)
    assert [shard.job for shard in plan_at(folder / "plan.json").shards] == [
        "test (Cart)",
        "test (User)",
    ]


def test_no_plan_of_categories_that_the_list_lacks(folder: Path, ciguard: Ciguard) -> None:
    names = [{key: one[key] for key in ("id", "file")} for one in TESTS]
    (folder / "tests.json").write_text(json.dumps(names), "utf-8")
    done = ciguard(*WORDS, "-o", "plan.json", cwd=folder, expect=3)
    assert "list the tests as JSON with their files and categories" in done.stderr


def test_nothing_in_any_shard_is_no_plan(folder: Path, ciguard: Ciguard) -> None:
    (folder / "shards.json").write_text('[{"name": "a", "filter": "Gone"}]', "utf-8")
    ciguard(*WORDS, "-o", "plan.json", cwd=folder, expect=5)
