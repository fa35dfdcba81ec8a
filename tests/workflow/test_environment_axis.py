"""Refusal of test steps in which tox or nox may run several environments."""

from __future__ import annotations

import pytest

from ciguard.workflow.movable_job import NotMovable, read_job, reject_several_environments


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
        ("tox", True),
        ("uvx --with tox-uv tox", True),
        ("TOXENV=a tox", False),
        ("tox run\n        env:\n          TOX_ENV: ${{ matrix.tox_env }}", False),
        ("nox -s a b", True),
        ("nox -t ci", True),
        ("nox -p 3.12", True),
        ("nox --python=3.12", True),
        ("nox -s tests -p ${{ matrix.python }}", False),
        ("nox -s tests-${{ matrix.python }} -- -p no:cacheprovider", False),
        ("nox", True),
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
