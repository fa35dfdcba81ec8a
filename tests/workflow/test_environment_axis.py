"""Generated workflows whose test step runs tox get an axis, and are moved."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from workflow.generated_workflows import generate

from ciguard.init.workflow_files import render_new_jobs
from ciguard.workflow.environment_axis import (
    SelectedEnvironments,
    reject_several_environments,
    select_environments,
    tool_of_all_environments,
)
from ciguard.workflow.matrix import read_matrix
from ciguard.workflow.movable_job import MovableJob, NotMovable, read_job
from ciguard.workflow.rewrite import NewJobs, move_job
from ciguard.workflow.yaml_values import load

ACTIONS = "octo-org/ciguard@0123456789abcdef0123456789abcdef01234567 # v0.2.0"
NAMES = ("py312", "3.13")
TEST_COMMAND = re.compile(
    r"(?<!install )\bpytest\b(?! -k)|make test|python -m tox|tox -e \$\{\{ matrix\.python \}\}"
)


def new_jobs(job: MovableJob) -> NewJobs:
    return render_new_jobs(
        *(ACTIONS, job.name, "test", job.matrix), is_conditional=job.is_conditional
    )


def combinations_of(job: MovableJob) -> list[dict[str, Any]]:
    return [dict(one.values) for one in read_matrix(job.matrix)]


def move(seed: int) -> str:
    """All laws for the workflow of a seed; gives what happened."""
    before = TEST_COMMAND.sub("tox", generate(seed).text)
    job = read_job(before, "ci.yml", "test")
    tool = tool_of_all_environments(job)
    if tool is None:
        return "selects"
    try:
        text = select_environments(job, SelectedEnvironments(tool, NAMES, is_axis=True))
    except NotMovable as error:
        return error.what
    selected = read_job(text, "ci.yml", "test", str(job.step))
    expected = [{tool.axis: name, **values} for name in NAMES for values in combinations_of(job)]
    assert sorted(map(str, combinations_of(selected))) == sorted(map(str, expected))
    moved = move_job(selected, new_jobs(selected), ACTIONS).text
    (command,) = (
        step["with"]["command"]
        for step in load(moved, "after")["jobs"]["test"]["steps"]
        if "command" in step.get("with", {})
    )
    assert command.count("tox -e ${{ matrix.tox_env }}") == 1
    return "moved"


def test_generated_workflow_gets_an_axis_and_is_moved() -> None:
    found = Counter(move(seed) for seed in range(20))
    assert found["moved"] >= 10, found
    refused = set(found) - {"moved", "selects"}
    assert refused <= {
        "include, or a key tox_env, gives the matrix other combinations with that axis"
    }


@pytest.mark.soak
def test_four_hundred_generated_workflows_get_an_axis() -> None:
    found = Counter(move(seed) for seed in range(400))
    assert found["moved"] >= 200, found


@pytest.mark.parametrize(
    ("command", "is_refused"),
    [
        ("tox -e a,b", True),
        ("tox run -e py{311,312}", True),
        ("tox -e a -e b", True),
        ("tox -e ${{ matrix.python }},lint", True),
        ("tox -m fast", False),  # a label may have a single environment
        ("tox -e ${{ matrix.python }} -- -k 'a,b'", False),
        ("tox -e py312", False),
        ("tox", False),
        ("nox -s a b", True),
        ("nox -t ci", True),
        ("nox -p 3.12", True),
        ("nox --python=3.12", True),
        ("nox -s tests -p ${{ matrix.python }}", False),
        ("nox -s tests-${{ matrix.python }} -- -p no:cacheprovider", False),
        ("nox", False),
    ],
)
def test_command_of_several_environments_is_refused(command: str, is_refused: bool) -> None:
    lines = ("on: push", "jobs:", "  test:", "    runs-on: ubuntu-latest", "    steps:")
    job = read_job("\n".join((*lines, f"      - run: {command}\n")), "ci.yml", "test")
    if is_refused:
        with pytest.raises(NotMovable, match="may run the tests several times"):
            reject_several_environments(job)
    else:
        reject_several_environments(job)
