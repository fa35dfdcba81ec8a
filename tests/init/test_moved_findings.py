"""Moved workflows have no finding that they had not before, of linters and GitHub's parser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from init.move_in_samples import MOVED, SAMPLES, commit
from init.test_workflow_files import run_github_parser, run_linter
from workflow.generated_workflows import generate

from ciguard.workflow.rewrite import is_moved
from ciguard.workflow.yaml_values import load as yaml_load

if TYPE_CHECKING:
    from init.conftest import Init


def moved_case(case: str) -> tuple[str, str]:
    """The workflow of a sample before and after."""
    before, after = (SAMPLES / case / name for name in ("ci.yml", "expected.yml"))
    return before.read_text("utf-8"), after.read_text("utf-8")


def findings(program: str, folder: Path, texts: dict[str, str]) -> set[tuple[str, str]]:
    """The case and the kind of each finding of a linter."""
    options = {
        "actionlint": ("-format", "{{json .}}"),
        "zizmor": ("--offline", "--no-progress", "--format=json"),
    }
    answer = run_linter(program, folder, texts, *options[program])
    return {
        (name, str(item.get("message") or item["ident"]))
        for item in json.loads(answer.stdout or "[]") or []
        for name in re.findall(r"workflows/([\w-]+)\.yml", json.dumps(item))
    }


@pytest.mark.parametrize("program", ["actionlint", "zizmor"])
def test_moved_workflows_have_no_new_finding(program: str, tmp_path: Path) -> None:
    before = findings(program, tmp_path / "0", {case: moved_case(case)[0] for case in MOVED})
    after = findings(program, tmp_path / "1", {case: moved_case(case)[1] for case in MOVED})
    assert before or program == "actionlint"
    assert after - before == set()


def test_moved_workflows_pass_the_github_parser() -> None:
    texts = [text for case in MOVED for text in moved_case(case)]
    answers = run_github_parser(*({"workflow": text} for text in texts))
    assert [answer["errors"] for answer in answers] == [[] for _ in texts]


def test_generated_workflows_are_moved_once(repository: Path, call: Init) -> None:
    made = {f".github/workflows/{seed}.yml": generate(seed).text.encode() for seed in range(8)}
    for path, text in made.items():
        (repository / path).write_bytes(text)
    commit(repository)
    for path, text in made.items():
        call(repository, "--into", path, "--job", "test", "--yes")
        moved = (repository / path).read_bytes()
        assert moved != text
        call(repository, "--into", path, "--yes")
        assert (repository / path).read_bytes() == moved


def test_guide_shows_lines_of_the_samples() -> None:
    page = (SAMPLES.parent.parent.parent / "docs/reference/moved-workflows.md").read_text("utf-8")
    texts = [moved_case(case) for case in MOVED]
    shown = [
        line
        for block in re.findall(r"```diff\n(.*?)```", page, re.S)
        for line in block.splitlines()
    ]
    assert len(shown) > 20
    for line in shown:
        if line[0] in "-+":
            lines = {one for text in texts for one in text[line[0] == "+"].splitlines()}
            assert line[1:] in lines


def test_own_workflow_uses_the_actions_of_the_same_commit() -> None:
    text = (Path(__file__).parents[2] / ".github/workflows/ci.yml").read_text("utf-8")
    workflow = yaml_load(text, "ci.yml")
    assert is_moved(workflow)
    steps = workflow["jobs"]["test"]["steps"]
    commands = [one["with"]["command"] for one in steps if one.get("uses") == "$/actions/run"]
    assert commands == ["bash .ci/run"]
    assert workflow["jobs"]["ciguard-report"]["name"] == "ciguard", "the check"
