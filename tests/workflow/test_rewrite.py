"""Generated workflows are moved: nothing but the intended nodes and lines changes."""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Iterable
from typing import Any

import pytest
import yaml
from workflow.generated_workflows import generate

from ciguard.errors import CiguardError
from ciguard.init.workflow_files import render_new_jobs
from ciguard.workflow.matrix import combinations
from ciguard.workflow.movable_job import read_job
from ciguard.workflow.rewrite import is_moved, move_job
from ciguard.workflow.yaml_values import load

ACTIONS = "octo-org/ciguard@0123456789abcdef0123456789abcdef01234567 # v0.2.0"
ADDED = ("ciguard", "ciguard-report", "ciguard-history")


def moved(text: str, step: str = "") -> str:
    job = read_job(text, "ci.yml", "test" if step else "", step)
    if job.obstacles:
        raise job.obstacles[0]
    new = render_new_jobs(ACTIONS, job.name, "test", job.matrix, is_conditional="if" in job.value)
    return move_job(job, new, ACTIONS)


def as_list(needs: Any) -> list[str]:
    return needs if isinstance(needs, list) else [needs] if needs else []


def without_ciguard(value: Any) -> Any:
    """The values with the intended nodes as they were before."""
    workflow = copy.deepcopy(value)
    plan, *_ = (workflow["jobs"].pop(name) for name in ADDED)
    for job in workflow["jobs"].values():
        needs = [name for name in as_list(job.pop("needs", None)) if name not in ADDED]
        job.update({"needs": needs} if needs else {})
    job = workflow["jobs"]["test"]
    matrix = load(plan["steps"][-1]["with"].get("matrix", ""), "matrix")
    job["strategy"]["matrix"] = matrix
    if "name" in job:
        job["name"] = job["name"].removesuffix(" (${{ matrix.ciguard }})")
    if isinstance(job.get("permissions"), dict):
        job["permissions"].pop("actions", None)
        if not job["permissions"]:
            del job["permissions"]
    for step in job["steps"]:
        if step.get("uses", "").startswith("octo-org/ciguard/actions/run@"):
            inputs = step.pop("with")
            step |= {"uses": None, "run": inputs["command"]}
        if "upload-artifact" in str(step.get("uses")):
            step["with"]["name"] = step["with"]["name"].removesuffix("-${{ matrix.ciguard }}")
    return workflow


def with_needs_as_lists(value: Any) -> Any:
    """The values before, in the form of `without_ciguard`."""
    workflow = copy.deepcopy(value)
    for job in workflow["jobs"].values():
        job.update({"needs": as_list(job["needs"])} if "needs" in job else {})
    job = workflow["jobs"]["test"]
    if job.get("permissions") == {}:
        del job["permissions"]
    job["strategy"] = {"fail-fast": False, "matrix": None} | job.get("strategy", {})
    for step in job["steps"]:
        if step.keys() >= {"run"} and is_test(step["run"]):
            for key in ("shell", "working-directory"):
                step.pop(key, None)
            step["uses"] = None
        if "upload-artifact" in str(step.get("uses")):
            step["with"].setdefault("name", "artifact")
    return workflow


def is_test(script: str) -> bool:
    return "install" not in script and any(
        word in script for word in ("pytest", "tox", "make test")
    )


def is_subsequence(lines: Iterable[str], of: Iterable[str]) -> bool:
    rest = iter(of)
    return all(line in rest for line in lines)


def check(seed: int) -> None:
    """All laws for the workflow of a seed."""
    made = generate(seed)
    before = load(made.text.rstrip("\r\n") + "\n", "before")
    text = moved(made.text)
    after = load(text, "after")
    assert without_ciguard(after) == with_needs_as_lists(before)
    matrix = before["jobs"]["test"].get("strategy", {}).get("matrix")
    if matrix:
        assert combinations(matrix)
    assert is_subsequence(made.untouched, text.removeprefix("\ufeff").split(made.line_break))
    comments = [line.partition("# ")[2] for line in made.lines if "# " in line]
    assert all(comment in text for comment in comments)
    assert text.startswith(made.head)
    assert ("\n" in text.replace("\r\n", "")) is (made.line_break == "\n")
    assert text.endswith(made.line_break) is made.text.endswith(made.line_break)
    assert is_moved(after)


@pytest.mark.parametrize("seed", range(30))
def test_generated_workflow_is_moved_and_nothing_else_changes(seed: int) -> None:
    check(seed)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_four_hundred_generated_workflows_are_moved() -> None:
    for seed in range(400):
        check(seed)


ODD_VALUES: tuple[Any, ...] = (
    *(None, "x", 3, 1.5, True, [], {}, [None], ["x"], [[1]]),
    *({"a": None}, {1: 2}),
)


def mutated(seed: int) -> str:
    """A generated workflow with a value of an odd kind, or with a part of its text gone."""
    dice = random.Random(seed)
    text = generate(seed).text
    if dice.random() < 0.3:
        start = dice.randrange(len(text))
        return text[:start] + text[start + dice.choice([1, 2, 20]) :]
    workflow = load(text, "before")
    node, name = workflow, "jobs"
    while isinstance(node[name], (dict, list)) and node[name] and dice.random() < 0.8:
        node = node[name]
        name = dice.choice(list(node) if isinstance(node, dict) else range(len(node)))
    node[name] = copy.deepcopy(dice.choice(ODD_VALUES))
    return yaml.safe_dump(workflow, sort_keys=False)


def check_mutated(seed: int) -> None:
    for step in ("", "3"):
        with contextlib.suppress(CiguardError):
            is_moved(load(moved(mutated(seed), step), "after"))


@pytest.mark.parametrize("seed", range(40))
def test_odd_workflow_is_moved_or_refused(seed: int) -> None:
    check_mutated(seed)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_thousand_odd_workflows_are_moved_or_refused() -> None:
    for seed in range(1000):
        check_mutated(seed)
