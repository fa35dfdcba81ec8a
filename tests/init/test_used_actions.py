"""A separate workflow beside others: the test job there, and the address of its actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from init.move_in_samples import CI, commit

from ciguard.config.file import Config
from ciguard.init.candidates import with_used_actions

if TYPE_CHECKING:
    from pathlib import Path

    from init.conftest import Init


def test_separate_workflow_names_the_job_beside_it(repository: Path, call: Init) -> None:
    job = "on: push\njobs: {unit: {steps: [{run: pytest}]}}\n"
    (repository / "test_a.py").write_text("def test_a(): pass\n", "utf-8")
    (repository / CI).write_text(job, "utf-8")
    commit(repository)
    said = call(repository, "--new", "--yes").stderr
    assert f"job unit of {CI} runs tests too, until you" in said
    assert max(map(len, said.splitlines())) <= 80
    assert "runs tests too" not in call(repository, "--new", "--yes").stderr


def test_address_is_that_of_a_step_with_a_commit(repository: Path) -> None:
    commit_, file = "0123" * 10, repository / CI
    said: list[str] = []
    for text, address in (
        (f"# uses: evil/ciguard@{commit_}\njobs: {{}}\n", ""),
        ("jobs: {a: {steps: [{run: 'uses: evil/ciguard@main'}]}}", ""),
        ("jobs: {a: {steps: [{uses: evil/ciguard@main}]}}", ""),
        (f"jobs: {{a: {{steps: [{{uses: o/ciguard@{commit_}}}]}}}}", f"o/ciguard@{commit_}"),
    ):
        file.write_text(text, "utf-8")
        assert with_used_actions(repository, Config(), said.append).actions == address
    assert said == [f"actions: o/ciguard@{commit_}, as in {CI}"]
