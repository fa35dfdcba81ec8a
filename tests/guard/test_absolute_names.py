"""Result files that name test files by the runner's absolute paths, against units of a suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard

from ciguard.history.file import decode

SHARDS = {"1": ["cart.test.js", "test/cart.test.js"], "2": ["test/deep/cart.test.js"]}
ROOTS = {"1": "/home/runner/work/shop/shop/", "2": "D:\\a\\shop\\shop\\"}
RESULTS = ("--results", "out/{shard}/*.json")


def jest_json(files: list[str], status: str = "passed") -> str:
    results = []
    for file in files:
        tests = [
            {"fullName": f"{word} it", "title": f"{word} it", "status": "passed", "duration": 250}
            for word in ("adds", "removes")
        ]
        tests[-1]["status"] = status
        results.append({"name": file, "status": status, "assertionResults": tests})
    total = 2 * len(files)
    return json.dumps(
        {"numTotalTests": total, "numRuntimeErrorTestSuites": 0, "testResults": results}
    )


@pytest.fixture
def place(tmp_path: Path, ciguard: Ciguard) -> Path:
    (tmp_path / "units.json").write_text(json.dumps(SHARDS))
    ciguard("plan", "--inventory", "units.json", "-o", "plan.json", cwd=tmp_path)
    for shard, root in ROOTS.items():
        separator = root[-1]
        files = [root + unit.replace("/", separator) for unit in SHARDS[shard]]
        (tmp_path / "out" / shard).mkdir(parents=True)
        (tmp_path / "out" / shard / "jest.json").write_text(jest_json(files))
    return tmp_path


def guard(ciguard: Ciguard, place: Path, code: int) -> Any:
    words = ("--plan", "plan.json", *RESULTS, "--format", "json")
    return json.loads(ciguard("guard", *words, cwd=place, expect=code).stdout)


def test_guard_joins_absolute_names_of_several_runners(ciguard: Ciguard, place: Path) -> None:
    verdict = guard(ciguard, place, 0)
    assert verdict["findings"] == []
    failed = place / "out" / "2" / "jest.json"
    failed.write_text(jest_json([f"{ROOTS['1']}test/deep/cart.test.js"], "failed"))
    (failure,) = guard(ciguard, place, 10)["failures"]
    assert (failure["unit"], failure["file"]) == ("test/deep/cart.test.js",) * 2


@pytest.mark.parametrize("file", ["new/cart.test.js", "test/xcart.test.js", "cart.test.js/x"])
def test_guard_gives_no_unit_the_results_of_another_file(
    ciguard: Ciguard, place: Path, file: str
) -> None:
    (place / "out" / "2" / "jest.json").write_text(jest_json([ROOTS["1"] + file]))
    done = ciguard("guard", "--plan", "plan.json", *RESULTS, cwd=place, expect=13)
    assert done.stdout.startswith("INCOMPLETE: 1 of 3 tests has no result")
    assert "several shards" not in done.stdout


def test_history_and_plan_get_the_times_of_absolute_names(ciguard: Ciguard, place: Path) -> None:
    add = ("history", "add", "--history", "h", "--run-id", "5")
    ciguard(*add, "--plan", "plan.json", *RESULTS, cwd=place)
    history = decode((place / "h").read_bytes(), "h")
    assert {key.unit for key in history.keys} == {one for units in SHARDS.values() for one in units}
    assert history.runs[0].complete
    (place / "h").unlink()
    ciguard(*add, "out/1/jest.json", cwd=place)  # without a plan: names as they are
    words = ("--inventory", "units.json", "--history", "h", "-o", "p.json")
    ciguard("plan", *words, cwd=place)
    plan = json.loads((place / "p.json").read_bytes())
    times = {u["unit"]: u["wall_s"] for shard in plan["shards"] for u in shard["units"]}
    assert times["cart.test.js"] == times["test/cart.test.js"] == 0.5
