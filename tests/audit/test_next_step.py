"""What an audit ends with: a plan of the same tests beside the matrix, and the next command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from init.move_in_samples import NO_ADDRESS

if TYPE_CHECKING:
    from conftest import Ciguard, Golden

SAMPLES = Path(__file__).parents[1] / "samples"
CI = ".github/workflows/ci.yml"
CART = ["Shop.Tests.Cart.Adds", "Shop.Tests.Cart.Removes", "Shop.Tests.Cart.Counts"]
TESTS = [*CART, "Shop.Tests.Order.Cancels"]
WALLS_S = dict(zip(TESTS, (300.0, 200.0, 100.0, 60.0), strict=True))
WORDS = ("audit", "--matrix", CI, "--tests", "tests.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / CI).parent.mkdir(parents=True)
    workflow = (SAMPLES / "guard_results/before.yml").read_text("utf-8")
    (tmp_path / CI).write_text(workflow, "utf-8")
    listed = [{"id": name, "categories": []} for name in TESTS]
    (tmp_path / "tests.json").write_text(json.dumps(listed), "utf-8")
    (tmp_path / "durations.json").write_text(json.dumps(WALLS_S), "utf-8")
    return tmp_path


@pytest.mark.parametrize("format_", ["text", "markdown"])
def test_audit_ends_with_a_plan_and_the_next_change(
    folder: Path, ciguard: Ciguard, golden: Golden, format_: str
) -> None:
    stored = ("--history", "history.bin")
    ciguard("history", "add", "durations.json", "--run-id", "1", *stored, cwd=folder)
    answer = ciguard(*WORDS, *stored, "--format", format_, cwd=folder)
    suffix = {"text": "txt", "markdown": "md"}[format_]
    golden(answer.stdout, SAMPLES / f"audit/next.{suffix}")


def test_plan_has_the_shards_or_the_time_of_the_matrix(folder: Path, ciguard: Ciguard) -> None:
    stored = ("--history", "history.bin")
    ciguard("history", "add", "durations.json", "--run-id", "1", *stored, cwd=folder)
    words = (*WORDS, *stored, "--format", "json")
    found = json.loads(ciguard(*words, cwd=folder).stdout)["proposal"]
    assert {name: one["shards"] for name, one in found.items()} == {
        "matrix": 2,
        "as_many": 2,
        "as_long": 2,
    }
    assert found["matrix"]["largest"] == 3
    # 300 beside 360, where the matrix has 600 beside 60.
    assert found["as_many"]["longest_s"] < 0.7 * found["matrix"]["longest_s"]
    assert found["matrix"]["cost"]["price_usd"] > 0


def test_without_times_tests_are_counted(folder: Path, ciguard: Ciguard) -> None:
    found = json.loads(ciguard(*WORDS, "--format", "json", cwd=folder).stdout)["proposal"]
    layout = {"longest_s": None, "cost": None}
    assert found == {
        "matrix": {"shards": 2, "largest": 3, **layout},
        "as_many": {"shards": 2, "largest": 2, **layout},
        "as_long": None,
    }


def test_jobs_of_several_runners_are_not_planned_together(folder: Path, ciguard: Ciguard) -> None:
    shards = [
        {"name": "a", "filter": "Cart", "runner": "ubuntu-latest"},
        {"name": "b", "filter": "Order", "runner": "windows-latest"},
    ]
    (folder / "shards.json").write_text(json.dumps(shards), "utf-8")
    stored = ("--history", "history.bin")
    ciguard("history", "add", "durations.json", "--run-id", "1", *stored, cwd=folder)
    words = ("audit", "--matrix", "shards.json", "--tests", "tests.json", *stored)
    found = json.loads(ciguard(*words, "--format", "json", cwd=folder).stdout)
    assert found["proposal"] is None
    assert found["next_step"] is None


def test_each_step_of_a_workflow_is_followed_by_the_next(folder: Path, ciguard: Ciguard) -> None:
    def next_step(workflow: str) -> dict[str, str]:
        (folder / CI).write_text(workflow, "utf-8")
        answer = ciguard(*WORDS, "--format", "json", cwd=folder, expect=0, **NO_ADDRESS)
        found: dict[str, str] = json.loads(answer.stdout)["next_step"]
        return found

    steps = {
        name: next_step((SAMPLES / f"guard_results/{name}.yml").read_text("utf-8"))
        for name in ("before", "guard", "history")
    }
    assert {one["kind"]: one["command"] for one in steps.values()} == {
        # The tool lists no categories.
        "guard": f"ciguard init --guard {CI}:test --list COMMAND",
        "history": f"ciguard init --guard {CI}:test",
        "plan": f"ciguard init --into {CI}",
    }
    plain = (SAMPLES / "guard_results/before.yml").read_text("utf-8").replace("&Category!=Slow", "")
    assert next_step(plain)["command"].endswith("--list 'dotnet test --list-tests'")
    silent = (SAMPLES / "guard_results/before.yml").read_text("utf-8").replace(".trx", ".log")
    refused = next_step(silent.replace("results-", "logs-"))
    assert refused["problem"] == f"{CI}: jobs.test: no step uploads test results"
    assert "actions/upload-artifact" in refused["fix"]


def test_job_that_is_text_is_passed_over(folder: Path, ciguard: Ciguard) -> None:
    workflow = (SAMPLES / "guard_results/before.yml").read_text("utf-8")
    (folder / CI).write_text(workflow + "  lint: none\n", "utf-8")
    answer = ciguard(*WORDS, "--format", "json", cwd=folder)
    assert json.loads(answer.stdout)["next_step"]["kind"] == "guard"


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_lines_to_add_are_shown_as_lines(folder: Path, ciguard: Ciguard, format_: str) -> None:
    silent = (SAMPLES / "guard_results/before.yml").read_text("utf-8").replace(".trx", ".log")
    (folder / CI).write_text(silent.replace("results-", "logs-"), "utf-8")
    answer = ciguard(*WORDS, "--format", format_, cwd=folder).stdout
    assert "upload its results in a step of the job:" in answer
    lines = [line.strip() for line in answer.splitlines()]
    assert "uses: actions/upload-artifact@v7" in lines
    assert not re.search(r"(\\|&#92;)n", answer)
