"""Moved workflows have no finding that they had not before, of linters and GitHub's parser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from init.move_in_samples import (
    MOVED,
    SAMPLES,
    commit,
)
from init.test_workflow_files import run_github_parser, run_linter
from workflow.generated_workflows import generate

from ciguard.workflow.moved_job import read_moved
from ciguard.workflow.yaml_values import load as yaml_load

if TYPE_CHECKING:
    from init.conftest import Init


def moved_case(case: str) -> tuple[str, str]:
    """The workflow of a sample before and after."""
    before, after = (SAMPLES / case / name for name in ("ci.yml", "expected.yml"))
    return before.read_text("utf-8"), after.read_text("utf-8")


def new_findings(program: str, folder: Path, texts: tuple[str, str], *options: str) -> set[str]:
    """Kinds of what a linter finds after the move and did not find before."""
    found = []
    for name, text in zip(("before", "after"), texts, strict=True):
        answer = run_linter(program, folder / name, text, *options)
        content = json.loads(answer.stdout or "[]") or []
        found.append({str(item.get("message") or item["ident"]) for item in content})
    return found[1] - found[0]


@pytest.mark.parametrize("case", MOVED)
def test_moved_workflow_has_no_new_finding(case: str, tmp_path: Path) -> None:
    texts = moved_case(case)
    assert not new_findings("actionlint", tmp_path / "a", texts, "-format", "{{json .}}")
    options = ("--offline", "--no-progress", "--format=json")
    assert not new_findings("zizmor", tmp_path / "z", texts, *options)


def test_moved_workflows_pass_the_github_parser() -> None:
    texts = [text for case in MOVED for text in moved_case(case)]
    answers = run_github_parser(*({"workflow": text} for text in texts))
    assert [answer["errors"] for answer in answers] == [[] for _ in texts]


def check_generated(folder: Path, call: Init, seeds: range) -> None:
    """Each workflow is moved, twice the same, and restored to the byte."""
    made = {f".github/workflows/{seed}.yml": generate(seed).text.encode() for seed in seeds}
    for path, text in made.items():
        (folder / path).write_bytes(text)
    commit(folder)
    for path, text in made.items():
        call(folder, "--into", path, "--job", "test", "--yes")
        moved = (folder / path).read_bytes()
        assert moved != text
        call(folder, "--into", path, "--yes")
        assert (folder / path).read_bytes() == moved
        call(folder, "--out", path, "--yes")
        assert (folder / path).read_bytes() == text


def test_generated_workflows_are_restored_to_the_byte(repository: Path, call: Init) -> None:
    check_generated(repository, call, range(8))


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_three_hundred_workflows_are_restored_to_the_byte(repository: Path, call: Init) -> None:
    check_generated(repository, call, range(300))


def test_guide_shows_lines_of_the_samples() -> None:
    page = (SAMPLES.parent.parent.parent / "docs/how-to/into-your-workflow.md").read_text("utf-8")
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
    moved = read_moved(text, "ci.yml")
    assert moved is not None
    assert (moved.job, moved.actions, moved.command) == ("test", "$/", "bash .ci/run")
    assert yaml_load(text, "ci.yml")["jobs"]["ciguard-report"]["name"] == "ciguard", "the check"
