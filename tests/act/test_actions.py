"""The actions of this repository in a workflow of the user's own, executed by act.

The workflow of docs/how-to/into-your-workflow.md, with two combinations, two shards of each, a
script and an aggregation job: a push, and a pull request with a test that fails in one combination.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from act.fake_machine import COMMIT, OURS, PUSH, ROOT, GitHub, Job, Run

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

SHOWN = {
    "run": ("executed", "failed", "state"),
    "report": ("verdict", "executed", "planned", "new", "gone", "flaky", "junit"),
    "history": ("added",),
}

# Of the test job's own `env`; steps of our actions once had variables of these names.
JOB_ENVIRONMENT = """
      SHARD: a shard of the job's
      COMMAND: a command of the job's
      python: a lower-case variable of the job's
"""

TESTS = """
import os
import pytest

assert not [name for name in os.environ if name.startswith("_CIGUARD_")]  # in the plan job, too

@pytest.mark.parametrize("n", range(6))
def test_version(n):
    assert os.environ["VERSION"] in ("3.12", "3.13")

def test_environment_of_the_job():
    assert os.environ["COVERAGE"] == {"3.12": "", "3.13": "true"}[os.environ["VERSION"]]
    assert os.environ["SHARD"] == "a shard of the job's"
    assert os.environ["COMMAND"] == "a command of the job's"
    assert os.environ["python"] == "a lower-case variable of the job's"
"""
BEFORE = "def test_removed(): pass\ndef test_called_so_before(): pass\n"
AFTER = "def test_called_so_after(): pass\n"
BROKEN = """
import os

def test_breaks_in_one():
    assert os.environ["VERSION"] == "3.12"

def test_crashes_in_one():
    if os.environ["VERSION"] == "3.13":
        os.abort()
"""
PAGE = ROOT / "docs" / "how-to" / "into-your-workflow.md"


def workflow() -> str:
    """The workflow of the page, with variables in `env`; each step of ours shows its outputs."""
    text: str
    text = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)[0]
    text = text.replace("OWNER/ciguard/", f"{OURS}/").replace("@COMMIT", f"@{COMMIT}")
    coverage = "      COVERAGE: ${{ matrix.coverage }}"
    assert text.count(coverage) == 1
    text = text.replace(coverage, coverage + JOB_ENVIRONMENT.rstrip())
    shell = "          shell: bash\n"
    assert text.count(shell) == 1
    text = text.replace(shell, f"{shell}          limit: 20m\n")
    for name, outputs in SHOWN.items():
        begin = f"      - uses: {OURS}/actions/{name}@{COMMIT}\n"
        assert text.count(begin) == 1
        head, _, rest = text.partition(begin)
        step, blank, rest = rest.partition("\n\n")
        shown = " ".join(f"{key}=${{{{ steps.ours.outputs.{key} }}}}" for key in outputs)
        begin = begin.replace("- uses", "- id: ours\n        uses")
        show = f"\n      - if: always()\n        run: echo '{shown}'"
        text = f"{head}{begin}{step}{show}{blank}{rest}"
    return text


@dataclass(frozen=True, slots=True)
class Story:
    """A push and a pull request of the same repository."""

    github: GitHub
    pushed: Run
    proposed: Run
    comments: list[dict[str, Any]]


def run(github: GitHub, event: str, payload: dict[str, Any], run_id: int) -> Run:
    file = ".github/workflows/ci.yml"
    return github.execute(file, event, payload, run_id=run_id)


@pytest.fixture(scope="module")
def story(github: GitHub) -> Story:
    github.commit(
        "a shop",
        {
            "tests/test_shop.py": TESTS,
            "tests/test_cart.py": BEFORE,
            ".github/workflows/ci.yml": workflow(),
        },
    )
    github.git("push", "--quiet", "origin", "main")
    pushed = run(github, "push", PUSH, 301)
    files = {"tests/test_new.py": BROKEN, "tests/test_cart.py": AFTER}
    proposed = run(github, "pull_request", github.propose("tests", files), 302)
    return Story(github, pushed, proposed, github.comments())


def shown(job: Job, name: str) -> list[str]:
    """The values of an output in what a job printed."""
    return re.findall(rf"(?m)^.*\b{name}=(\S*)", job.printed)


def test_push_runs_each_combination_in_its_shards(story: Story) -> None:
    assert story.pushed.green, story.pushed.talk
    legs = [job for name, job in story.pushed.jobs.items() if name.startswith("test ")]
    assert len(legs) == 4
    executed = [int(count) for job in legs for count in shown(job, "executed")]
    assert len(executed) == 4
    assert sum(executed) == 18
    assert min(executed) > 0
    report = story.pushed.job("ciguard")
    assert shown(report, "verdict") == ["passed"]
    assert shown(report, "executed") == shown(report, "planned") == ["18"]
    assert shown(report, "new") == ["18"], "without a past run"
    assert shown(story.pushed.job("ciguard-history"), "added") == ["18"]
    (plan,) = (story.github.artifacts / "301").glob("ciguard-plan-*")
    assert {path.name for path in plan.iterdir()} == {"plan.json", "ciguard-run.pyz"}


def test_test_that_fails_in_one_combination_is_named_with_it(story: Story) -> None:
    assert not story.proposed.green
    assert story.proposed.job("all-green").result == "failure"
    report = story.proposed.job("ciguard")
    assert shown(report, "verdict") == ["failed"]
    assert shown(report, "executed") == shown(report, "planned") == ["20"]
    assert (shown(report, "new"), shown(report, "gone")) == (["6"], ["4"])
    (comment,) = story.comments
    assert "2 of 20 tests failed, 6 new, 4 gone" in comment["body"]
    rows = [
        line for line in comment["body"].splitlines() if ", added |" in line or ", newly" in line
    ]
    for name in ("test_breaks_in_one", "test_crashes_in_one"):
        (row,) = [line for line in rows if name in line] or [comment["body"]]
        assert "unit/ubuntu-latest, 3.13" in row


def test_other_tools_get_a_file_for_each_combination(story: Story) -> None:
    (folder,) = shown(story.proposed.job("ciguard"), "junit")
    counts = {path.name: ET.parse(path).getroot().attrib for path in Path(folder).iterdir()}
    kinds = ("tests", "failures", "errors")
    assert {name: tuple(one[kind] for kind in kinds) for name, one in counts.items()} == {
        "unit-ubuntu-latest-3.12.xml": ("10", "0", "0"),
        "unit-ubuntu-latest-3.13.xml": ("10", "1", "1"),
    }
