"""`ciguard plan --matrix`: shards for each combination of a job's matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard
from plan.plan_requests import LISTED, NONE, ids, plan_of

from ciguard.codec import plan_file
from ciguard.plan.outputs import matrix

MATRIX = """
os: [ubuntu-latest, windows-latest]
python: ["3.12", "3.13"]
include:
  - os: ubuntu-latest
    python: "3.14"
    experimental: true
"""


def planned(
    ciguard: Ciguard, folder: Path, text: str, *arguments: str, units: str = LISTED
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The plan, and the entries of its matrix."""
    (folder / "matrix.yml").write_text(text, "utf-8")
    done = ciguard(
        *("plan", "--inventory", "-", "--matrix", "matrix.yml", "--format", "json", *NONE),
        *arguments,
        cwd=folder,
        stdin=units,
    )
    entries = matrix(plan_file.decode(done.stdout.encode(), "stdout"))["include"]
    return plan_of(done.stdout), entries


def test_each_combination_has_all_tests_in_its_own_shards(tmp_path: Path, ciguard: Ciguard) -> None:
    plan, entries = planned(ciguard, tmp_path, MATRIX, "--shards", "2")
    assert len(plan["shards"]) == 10
    by_variant: dict[str, list[str]] = {}
    for shard in plan["shards"]:
        (variant,) = {unit["variant"] for unit in shard["units"]}
        by_variant.setdefault(variant, []).extend(unit["unit"] for unit in shard["units"])
    assert sorted(by_variant) == [
        *("ubuntu-latest, 3.12", "ubuntu-latest, 3.13", "ubuntu-latest, 3.14, true"),
        *("windows-latest, 3.12", "windows-latest, 3.13"),
    ]
    assert all(sorted(units) == sorted(LISTED.split()) for units in by_variant.values())
    assert len({entry["ciguard"] for entry in entries}) == 10


def test_entry_of_the_matrix_has_the_keys_of_the_user_and_the_shard(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    _, entries = planned(ciguard, tmp_path, MATRIX, "--shards", "1")
    assert entries == [
        {"os": "ubuntu-latest", "python": "3.12", "ciguard": "01"},
        {"os": "ubuntu-latest", "python": "3.13", "ciguard": "02"},
        {"os": "ubuntu-latest", "python": "3.14", "experimental": True, "ciguard": "03"},
        {"os": "windows-latest", "python": "3.12", "ciguard": "04"},
        {"os": "windows-latest", "python": "3.13", "ciguard": "05"},
    ]


def test_job_without_a_matrix_gets_one_of_its_shards(tmp_path: Path, ciguard: Ciguard) -> None:
    _, entries = planned(ciguard, tmp_path, "", "--shards", "3")
    assert entries == [{"ciguard": "01"}, {"ciguard": "02"}, {"ciguard": "03"}]


def test_runner_of_github_that_a_combination_names_gives_its_memory(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    text = "os: [ubuntu-latest, macos-latest, big, another]"
    pool = '[pool.default]\n[pool.large]\nruns_on = "big"\nmemory = "64GB"\n'
    (tmp_path / "ciguard.toml").write_text(pool, "utf-8")
    plan, _ = planned(ciguard, tmp_path, text, "--shards", "1")
    assert {shard["units"][0]["variant"]: shard["pool"] for shard in plan["shards"]} == {
        "another": "default",
        "big": "large",
        "macos-latest": "macos-latest",
        "ubuntu-latest": "default",
    }
    assert plan["pools"]["macos-latest"]["memory_bytes"] == 7 << 30


def test_project_is_listed_once_for_all_combinations(project: Path, ciguard: Ciguard) -> None:
    (project / "matrix.yml").write_text("v: [1, 2, 3]", "utf-8")
    (project / "conftest.py").write_text(
        "def pytest_sessionstart():\n    open('calls', 'a').write('x')\n", "utf-8"
    )
    arguments = ("plan", "--matrix", "matrix.yml", "--suite", "ci", "--format", "json", *NONE)
    plan = plan_of(ciguard(*arguments, cwd=project).stdout)
    assert (project / "calls").read_text("utf-8") == "x"
    assert len(ids(plan)) == 3 * len(set(ids(plan)))
    assert list(plan["suites"]) == ["ci"]


@pytest.mark.parametrize(
    ("text", "arguments", "what"),
    [
        ("v: [1]\ninclude: [{ciguard: 2}]", (), "has a key 'ciguard'"),
        (f"v: {list(range(100))}", ("--shards", "3"), "3 shards of 100 combinations are 300 jobs"),
        (f"v: {list(range(300))}", (), "300 combinations; GitHub runs at most 256"),
        ("v: ${{ fromJSON(x) }}", (), "matrix.yml: axis 'v' is no list of values: text"),
    ],
)
def test_matrix_that_cannot_be_planned_is_refused(
    tmp_path: Path, ciguard: Ciguard, text: str, arguments: tuple[str, ...], what: str
) -> None:
    (tmp_path / "matrix.yml").write_text(text, "utf-8")
    command = ("plan", "--inventory", "-", "--matrix", "matrix.yml", *NONE, *arguments)
    expected = 2 if "shards of" in what else 3
    done = ciguard(*command, cwd=tmp_path, stdin=LISTED, expect=expected)
    assert what in done.stderr
    assert not done.stdout


def test_suite_that_has_variants_takes_no_matrix(listed: Path, ciguard: Ciguard) -> None:
    (listed / "matrix.yml").write_text("v: [1]", "utf-8")
    suite = '[suite.a]\nframework = "command"\nlist = ["cat", "units.txt"]\ncommand = ["true"]\n'
    (listed / "ciguard.toml").write_text(f"{suite}[suite.a.variant.x]\n[suite.b]\n", "utf-8")
    command = ("plan", "--matrix", "matrix.yml", *NONE)
    done = ciguard(*command, "--suite", "a", cwd=listed, expect=2)
    assert "suite.a: has variants beside a matrix" in done.stderr
    done = ciguard(*command, "--suite", "c", cwd=listed, expect=2)
    assert "no suite 'c'\n  fix: pass one of 'a', 'b'" in done.stderr
