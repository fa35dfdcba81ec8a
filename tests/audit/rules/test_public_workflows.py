"""The rules that read workflows, over workflow files of public repositories.

`public_workflows.toml` says what they find: it was written down before the rules were. The files
come from a folder of bare clones, `CIGUARD_PUBLIC_REPOSITORIES` (`OWNER+NAME/repo` in it), or from
GitHub.
"""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest

from ciguard.audit.rule_table import WORKFLOW_RULES
from ciguard.audit.rules.base import WorkflowFile
from ciguard.workflow.yaml_values import load

EXPECTATIONS = Path(__file__).parent.parent / "public_workflows.toml"
CASES = tomllib.loads(EXPECTATIONS.read_text(encoding="utf-8"))["workflow"]


def _read(case: dict[str, Any]) -> str:
    repository, commit, path = case["repository"], case["commit"], case["path"]
    if folder := os.environ.get("CIGUARD_PUBLIC_REPOSITORIES"):
        clone = Path(folder) / repository.replace("/", "+") / "repo"
        shown = subprocess.run(
            ["git", "-C", str(clone), "show", f"{commit}:{path}"],
            capture_output=True, check=False,
        )  # fmt: skip
        if shown.returncode == 0:
            return shown.stdout.decode()
    address = f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"
    try:
        answer = httpx.get(address, timeout=20)
    except httpx.HTTPError as error:
        pytest.skip(f"no clone in CIGUARD_PUBLIC_REPOSITORIES, and {address}: {error}")
    assert answer.status_code != httpx.codes.NOT_FOUND, f"{address}: no such commit or path"
    if answer.status_code != httpx.codes.OK:
        pytest.skip(f"no clone in CIGUARD_PUBLIC_REPOSITORIES, and {address}: {answer.status_code}")
    return answer.text


def test_there_are_twenty_files_of_many_repositories() -> None:
    assert len({(case["repository"], case["path"]) for case in CASES}) >= 20
    assert len({case["repository"] for case in CASES}) >= 12
    known = {rule for case in CASES for rule, _, _ in case["expected"]}
    assert known <= set(WORKFLOW_RULES)


@pytest.mark.soak
@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['repository']}:{Path(case['path']).name}"
)
def test_finds_what_was_expected_and_nothing_else(case: dict[str, Any]) -> None:
    text = _read(case)
    workflow = WorkflowFile(case["path"], text, load(text, case["path"]))
    required = frozenset(case["required"]) if "required" in case else None
    found = [
        [name, finding.certainty, finding.subject]
        for name, rule in WORKFLOW_RULES.items()
        for finding in rule.check_workflow(workflow, required)
        if finding.facts.get("kinds") != []  # no upload at all: found since, in most files
    ]
    assert sorted(found) == sorted(case["expected"]), case["reason"]
