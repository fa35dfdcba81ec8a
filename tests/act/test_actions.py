"""The actions of this repository in a workflow of the user's own, executed by act.

A matrix of two combinations, two shards of each, a script of several lines, job environment, an
aggregation job: push, and a pull request with a test that fails in one combination only.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from act.events import pull_request_event
from act.fake_machine import ROOT

from ciguard.init.workflow_files import ACTIONS

if TYPE_CHECKING:
    from act.fake_machine import GitHub, Run

pytestmark = pytest.mark.timeout(600)
OURS = "octo-org/ciguard"
FOLDERS = (".github", "plan", "run", "report", "history")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CHECKOUT = ACTIONS["checkout"].partition(" ")[0]
SETUP_PYTHON = ACTIONS["setup_python"].partition(" ")[0]

TESTS = """
import os
import pytest

@pytest.mark.parametrize("n", range(6))
def test_stage(n):
    assert os.environ["STAGE"] in ("alpha", "beta")

def test_level():
    assert os.environ["LEVEL"] == {"alpha": "1", "beta": ""}[os.environ["STAGE"]]
"""
BROKEN = """
import os

def test_breaks_in_beta():
    assert os.environ["STAGE"] == "alpha"
"""
WORKFLOW = f"""
name: tests
on:
  push:
    branches: [main]
  pull_request:
permissions: {{}}
jobs:
  ciguard:
    runs-on: ubuntu-latest
    permissions:
      contents: read
    outputs:
      matrix: ${{{{ steps.plan.outputs.matrix }}}}
      plan: ${{{{ steps.plan.outputs.plan }}}}
      plan-id: ${{{{ steps.plan.outputs.plan-id }}}}
    steps:
      - uses: {CHECKOUT}
        with:
          persist-credentials: false
      - uses: {SETUP_PYTHON}
        with:
          python-version: "3.12"
      - id: plan
        uses: {OURS}/plan@{COMMIT}
        with:
          suite: unit
          shards: 2
          matrix: |
            os: [ubuntu-latest]  # where it runs
            stage: [alpha, beta]
            include:
              - stage: alpha
                level: 1

  test:
    needs: ciguard
    name: test ${{{{ matrix.stage }}}} (${{{{ matrix.ciguard }}}})
    strategy:
      fail-fast: false
      matrix: ${{{{ fromJSON(needs.ciguard.outputs.matrix) }}}}
    runs-on: ${{{{ matrix.os }}}}
    permissions:
      contents: read
    env:
      STAGE: ${{{{ matrix.stage }}}}
    steps:
      - uses: {CHECKOUT}
        with:
          persist-credentials: false
      - uses: {SETUP_PYTHON}
        with:
          python-version: "3.12"
      - id: tests
        uses: {OURS}/run@{COMMIT}
        with:
          plan: ${{{{ needs.ciguard.outputs.plan }}}}
          plan-id: ${{{{ needs.ciguard.outputs.plan-id }}}}
          shard: ${{{{ matrix.ciguard }}}}
          command: |
            export LEVEL=${{{{ matrix.level }}}}
            true | cat
            python -m pytest -q tests
          shell: bash
      - if: always()
        env:
          EXECUTED: ${{{{ steps.tests.outputs.executed }}}}
        run: echo "executed=$EXECUTED"

  report:
    needs: [ciguard, test]
    if: always()
    runs-on: ubuntu-latest
    permissions:
      actions: read
      contents: read
      issues: write
      pull-requests: write
    steps:
      - uses: {CHECKOUT}
        with:
          persist-credentials: false
          fetch-depth: 2
      - id: report
        uses: {OURS}/report@{COMMIT}
        with:
          plan: ${{{{ needs.ciguard.outputs.plan }}}}
          plan-id: ${{{{ needs.ciguard.outputs.plan-id }}}}
          needs: ${{{{ toJSON(needs) }}}}
          formats: junit
      - if: always()
        env:
          VERDICT: ${{{{ steps.report.outputs.verdict }}}}
          COUNTS: ${{{{ steps.report.outputs.executed }}}}/${{{{ steps.report.outputs.planned }}}}
          JUNIT: ${{{{ steps.report.outputs.junit }}}}
        run: |
          echo "verdict=$VERDICT counts=$COUNTS"
          mkdir -p "$ACT_ARTIFACTS/junit-$GITHUB_RUN_ID"
          cp "$JUNIT"/* "$ACT_ARTIFACTS/junit-$GITHUB_RUN_ID"

  history:
    needs: [ciguard, test]
    if: always() && github.event_name == 'push' && needs.ciguard.result == 'success'
    runs-on: ubuntu-latest
    permissions:
      actions: read
      contents: write
    steps:
      - uses: {CHECKOUT}
        with:
          persist-credentials: false
      - id: add
        uses: {OURS}/history@{COMMIT}
        with:
          plan: ${{{{ needs.ciguard.outputs.plan }}}}
          plan-id: ${{{{ needs.ciguard.outputs.plan-id }}}}
      - env:
          ADDED: ${{{{ steps.add.outputs.added }}}}
        run: echo "added=$ADDED"

  all-green:
    needs: [ciguard, test, report]
    if: always()
    runs-on: ubuntu-latest
    steps:
      - if: contains(needs.*.result, 'failure') || contains(needs.*.result, 'cancelled')
        run: exit 1
"""


@dataclass(frozen=True, slots=True)
class Story:
    """A push and a pull request of the same repository."""

    github: GitHub
    pushed: Run
    proposed: Run
    comments: list[dict[str, Any]]


def run(github: GitHub, event: str, payload: dict[str, Any], run_id: int) -> Run:
    file = ".github/workflows/ci.yml"
    ours = {f"{OURS}@{COMMIT}": github.folder / "actions"}
    return github.execute(file, event, payload, run_id=run_id, actions=ours)


@pytest.fixture(scope="module")
def story(github: GitHub) -> Story:
    for name in FOLDERS:  # act copies the folder for each step: not with an environment in it
        shutil.copytree(ROOT / name, github.folder / "actions" / name)
    github.commit(
        "a shop",
        {"tests/test_shop.py": TESTS, ".github/workflows/ci.yml": WORKFLOW},
    )
    github.git("push", "--quiet", "origin", "main")
    repository = {"full_name": "octo-org/shop", "default_branch": "main"}
    event = {"ref": "refs/heads/main", "repository": repository}
    pushed = run(github, "push", event, 301)
    base = github.git("rev-parse", "main")
    github.git("switch", "--quiet", "--create", "beta")
    head = github.commit("a test", {"tests/test_new.py": BROKEN})
    github.git("switch", "--quiet", "--detach", "main")
    github.git("merge", "--quiet", "--no-ff", "--message", "merge", "beta")
    proposed = run(github, "pull_request", pull_request_event(head, base), 302)
    return Story(github, pushed, proposed, github.comments())


def test_push_runs_each_combination_in_its_shards(story: Story) -> None:
    assert story.pushed.green, story.pushed.talk
    legs = [job for name, job in story.pushed.jobs.items() if name.startswith("test ")]
    assert len(legs) == 4
    executed = [
        int(line.partition("=")[2])
        for job in legs
        for line in job.printed.splitlines()
        if line.startswith("executed=")
    ]
    assert sum(executed) == 14
    assert min(executed) > 0
    assert "verdict=passed counts=14/14" in story.pushed.job("report").printed
    assert "added=14" in story.pushed.job("history").printed


def test_test_that_fails_in_one_combination_is_named_with_it(story: Story) -> None:
    assert not story.proposed.green
    assert story.proposed.job("all-green").result == "failure"
    assert "verdict=failed counts=16/16" in story.proposed.job("report").printed
    (comment,) = story.comments
    assert "1 of 16 tests failed" in comment["body"]
    (row,) = [line for line in comment["body"].splitlines() if "| failed, new |" in line]
    assert "unit/ubuntu-latest, beta" in row


def test_other_tools_get_a_file_for_each_combination(story: Story) -> None:
    folder = story.github.artifacts / "junit-302"
    counts = {path.name: ET.parse(path).getroot().attrib for path in sorted(folder.iterdir())}
    assert {name: (one["tests"], one["failures"]) for name, one in counts.items()} == {
        "unit-ubuntu-latest-alpha.xml": ("8", "0"),
        "unit-ubuntu-latest-beta.xml": ("8", "1"),
    }
