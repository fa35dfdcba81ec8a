"""A workflow moved by `ciguard init --into`, executed by act: a push, and one whose plan fails."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from act.fake_machine import ROOT
from act.test_actions import COMMIT, FOLDERS, OURS, run

if TYPE_CHECKING:
    from act.fake_machine import GitHub, Run
    from conftest import Ciguard

pytestmark = [pytest.mark.timeout(600), pytest.mark.soak]
CI = ".github/workflows/ci.yml"
TESTS = """
import os
import pytest

@pytest.mark.parametrize("n", range(5))
def test_environment(n):
    assert os.environ["CURRENCY"] == {"3.12": "EUR", "3.13": "CHF"}[os.environ["VERSION"]]
    assert os.environ["FROM_STEP"] == "secret"
"""
CONFIGURATION = f"""
[init]
actions = "{OURS}@{COMMIT} # v0.2.0"
[plan]
shards = 2
"""
WORKFLOW = """\
name: tests
on: push
permissions:
    contents: read
jobs:
    lint:
        runs-on: ubuntu-latest
        steps:
        -   run: echo lint

    # All versions.
    test:
        needs: lint
        name: test ${{ matrix.python }}
        strategy:
            fail-fast: false
            matrix:
                # as text
                python: ["3.12", "3.13"]
                include:
                -   python: "3.13"
                    currency: CHF # new
        runs-on: ubuntu-latest
        if: github.event_name == 'push'
        env:
            CURRENCY: ${{ matrix.currency || 'EUR' }}
        steps:
        -   uses: %s
        -   name: Tests
            run: |
                # by hand
                export VERSION=${{ matrix.python }}

                python -m pytest -q tests
            shell: bash
            env:
                FROM_STEP: secret

    all-green:
        needs: [test]
        if: always()
        runs-on: ubuntu-latest
        steps:
        -   if: contains(needs.*.result, 'failure') || contains(needs.*.result, 'cancelled')
            run: exit 1"""


@dataclass(frozen=True, slots=True)
class Pushes:
    """A push with a plan, and one without."""

    good: Run
    without_plan: Run


@pytest.fixture(scope="module")
def pushes(github: GitHub, ciguard: Ciguard) -> Pushes:
    for name in FOLDERS:
        shutil.copytree(ROOT / name, github.folder / "actions" / name)
    workflow = WORKFLOW % "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1"
    files = {"tests/test_shop.py": TESTS, CI: workflow, "ciguard.toml": CONFIGURATION}
    github.commit("a shop", files)
    ciguard("init", "--into", CI, "--yes", cwd=github.checkout)
    github.commit("ciguard", {})
    github.git("push", "--quiet", "origin", "main")
    repository = {"full_name": "octo-org/shop", "default_branch": "main"}
    event = {"ref": "refs/heads/main", "repository": repository}
    good = run(github, "push", event, 301)
    github.commit("a mistake", {"ciguard.toml": f"{CONFIGURATION}shard = 2\n"})
    github.git("push", "--quiet", "origin", "main")
    return Pushes(good, run(github, "push", event, 302))


def test_moved_job_runs_each_combination_in_its_shards(pushes: Pushes) -> None:
    assert pushes.good.green, pushes.good.talk
    legs = [job for name, job in pushes.good.jobs.items() if name.startswith("test ")]
    assert len(legs) == 4
    assert pushes.good.job("all-green").result == "success"
    assert "10 of 10 tests" in pushes.good.job("ciguard-report").printed
    assert pushes.good.job("ciguard-history").result == "success"


def test_failed_plan_is_red_in_report_and_aggregation_job(pushes: Pushes) -> None:
    assert not pushes.without_plan.green
    assert pushes.without_plan.job("ciguard-report").result == "failure"
    assert pushes.without_plan.job("all-green").result == "failure"
