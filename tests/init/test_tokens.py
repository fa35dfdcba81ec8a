"""What each job holds: no token is beside code of the project, and the page of it is true."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any, Final

import pytest
import yaml
from init.move_in_samples import MOVED, SAMPLES
from init.test_action_files import ROOT, steps
from init.test_workflow_files import CLAIMS, SERVICE, SETUP, workflow
from init.workflow_steps import evaluate, read_action

from ciguard.init.workflow_files import render_workflow

STORES: Final[dict[str, dict[str, Any]]] = {
    "branch": {},
    "file": {"history": "history.ciguard", "branch": False},
    "service": SERVICE,
}
MOVING: Final = {"": {}, "claims": {"claims": CLAIMS}}
KINDS: Final[dict[str, dict[str, bool]]] = {"": {}, "forks": {"forks": True}}
PARTS: Final[dict[str, dict[str, Any]]] = {
    "": {},
    "checkpoints": {"checkpoint": "15m", "checkpoint_steps": 3},
    "confirm": {"confirm_suspects": True},
    "coverage": {"coverage": "coverage.py"},
    "culprit": {"culprit_budget": "20m", "culprit_minutes": 50},
}
# Whether a step with an action runs code of the checkout, by its inputs; every other step may.
_RUNS_PROJECT: Final[dict[str, Callable[[dict[str, Any]], bool]]] = {
    **dict.fromkeys(("checkout", "report", "history"), lambda _: False),
    "plan": lambda given: given.get("collect") == "here",
    "run": lambda given: "fetch" not in given,
    "confirm": lambda given: "comparison" not in given,
    "coverage": lambda given: "plan" not in given,
    "culprit": lambda given: "budget" in given,
}
_OURS: Final = re.compile(r"(?:octo-org/ciguard|\$)/actions/(\w+)(?:@.*)?")
TOKEN: Final = re.compile(r"github\.token|secrets\.|needs\.claims\.outputs\.token")
PAGE: Final = ROOT / "docs/explanation/security.md"


GENERATED: Final = {
    " ".join(filter(None, chosen)): chosen
    for chosen in product(KINDS, STORES, MOVING, PARTS)
    # Legs of these ask for no tests.
    if not (chosen[2] and (chosen[0] or chosen[3] == "checkpoints"))
}
VARIANTS: Final = (*GENERATED, *(f"into {case}" for case in MOVED))


@cache
def workflow_of(variant: str) -> dict[str, Any]:
    """Read a generated or moved workflow."""
    if variant in GENERATED:
        kind, store, moving, part = GENERATED[variant]
        values = {**STORES[store], **MOVING[moving], **PARTS[part], "setup": SETUP}
        text = render_workflow(workflow(**values), **KINDS[kind])
    else:
        text = (SAMPLES / variant.removeprefix("into ") / "expected.yml").read_text("utf-8")
    content: dict[str, Any] = yaml.load(text, yaml.CSafeLoader)
    return content


def runs_project(step: dict[str, Any]) -> bool:
    name = step.get("uses", "").partition("@")[0].rpartition("/")[2]
    decides = _RUNS_PROJECT.get(name)
    return decides is None or decides(step.get("with") or {})


def expanded(step: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of an action of ours that run with these inputs; any other step itself."""
    action = _OURS.fullmatch(step.get("uses", ""))
    if action is None:
        return [step]
    content = read_action(action[1])
    given = {f"inputs.{name}": one.get("default", "") for name, one in content["inputs"].items()}
    for name, value in (step.get("with") or {}).items():
        given[f"inputs.{name}"] = str(value).lower() if value is True else str(value)

    def is_possible(condition: str) -> bool:
        """Whether what inputs decide of a condition is true; the rest may be."""
        parts = condition.split(" && ")
        of_inputs = [part for part in parts if not re.search(r"\b(steps|github)\.|\(\)", part)]
        return all(evaluate(part, given) for part in of_inputs)

    inner = [one for one in content["runs"]["steps"] if is_possible(one.get("if", "True"))]
    for one in inner:
        for name, text in one.get("env", {}).items():
            of_input = re.fullmatch(r"\$\{\{ (inputs\.[\w-]+) \}\}", text)
            one["env"][name] = given[of_input[1]] if of_input else text
    return inner


def held(step: dict[str, Any], *owners: dict[str, Any]) -> set[str]:
    """Names of the variables with a token that a step's processes have."""
    return {
        name.removeprefix("_")
        for one in (*owners, *expanded(step))
        for name, text in (one.get("env") or {}).items()
        if TOKEN.search(str(text))
    }


def project_jobs(content: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """By job that runs the project's code: its steps from the first one that does."""
    found = {}
    for name, job in content["jobs"].items():
        first = next((at for at, one in enumerate(job.get("steps", ())) if runs_project(one)), None)
        if first is not None:
            found[name] = job["steps"][first:]
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_token_is_beside_code_of_the_project(variant: str) -> None:
    content = workflow_of(variant)
    jobs = project_jobs(content)
    if "forks" not in variant:
        assert jobs, "tests run somewhere"
    for name, behind in jobs.items():
        job = content["jobs"][name]
        permissions = job.get("permissions", content.get("permissions")) or {}
        assert "id-token" not in permissions, name
        if variant.startswith("into"):
            assert name not in ("ciguard", "ciguard-report", "ciguard-history")
            continue  # a job of the user's own has what they gave it
        assert set(permissions) <= {"actions", "contents"}, name
        assert set(permissions.values()) == {"read"}, name
        of_run = {"CIGUARD_CLAIMS_TOKEN"} if "claims" in variant and name == "tests" else set()
        assert {one for step in behind for one in held(step, content, job)} == of_run
        given = [one.get("with") or {} for step in behind for one in expanded(step)]
        assert not any("github-token" in one for one in given), "what was left running reads it"


def test_actions_that_run_code_of_the_project_hand_it_no_token() -> None:
    for action, command in (
        *(("plan", "ciguard plan"), ("run", "ciguard-run"), ("confirm", "-m"), ("coverage", "-m")),
        ("culprit", "--budget"),
    ):
        for one in (one for one in steps(action) if command in one.get("run", "")):
            assert held(one) == set()
    assert [held(one) for one in steps("plan") if held(one)] == [{"GITHUB_TOKEN"}]


def test_page_names_what_each_job_holds() -> None:
    """By job of the workflows: its permissions, and the tokens in the environment of its steps."""
    wanted: dict[str, dict[str, Any]] = {}
    for variant in GENERATED:
        content = workflow_of(variant)
        for name, job in content["jobs"].items():
            key = f"{name} (forks)" if "forks" in variant else name
            row = wanted.setdefault(key, {"runs": False, "permissions": {}, "tokens": set()})
            row["runs"] = row["runs"] or name in project_jobs(content)
            row["permissions"] = {**job["permissions"], **row["permissions"]}
            row["tokens"] |= {one for step in job["steps"] for one in held(step, content, job)}
    found = {}
    table = PAGE.read_text("utf-8").partition("## Permissions")[2].partition("\n## ")[0]
    for line in re.findall(r"(?m)^\| `.*", table):
        job, runs, permissions, tokens = (cell.strip() for cell in line.strip("|").split(" | "))
        found[job.split("`")[1] + " (forks)" * ("(forks)" in job)] = {
            "runs": runs.startswith("yes"),
            "permissions": dict(re.findall(r"`([\w-]+): (\w+)`", permissions)),
            "tokens": set(re.findall(r"`(\w+)`", tokens)),
        }
    assert found == wanted
