"""The generated workflow, executed: runs of one small repository, one after the other.

1. push without history, 2. push with history, and all its jobs again, 3. a pull request with a test
that crashes, 4. the same with a test that takes its whole leg with it, 5. the same pull request
mended. What is asserted of each stands in a test of its own. `make test` has the first run only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from act.fake_machine import COMMIT, OURS, PUSH, TOKEN, GitHub, Run

CART = """
import pytest

@pytest.mark.parametrize("count", [1, 2, 3])
def test_total(count):
    assert sum([5] * count) == 5 * count

def test_empty():
    assert sum([]) == 0
"""
STOCK = """
def test_reserve():
    assert {"apple": 3}["apple"] == 3

def test_refill():
    assert [0] * 3 == [0, 0, 0]
"""
CRASH = """
import os

def test_before():
    assert True

def test_takes_the_process_with_it():
    os.abort()

def test_after():
    assert True
"""
# What nobody can survive: no end line, no failed test, and the step ends with 137.
KILL = CRASH.replace(
    "    os.abort()\n",
    """\
    process = os.getpid()
    while "--shard" not in open(f"/proc/{process}/cmdline").read().split("\\0"):
        process = int(open(f"/proc/{process}/stat").read().rpartition(")")[2].split()[1])
    os.kill(process, 9)
    os.kill(os.getpid(), 9)
""",
)
# A pull request's conftest.py, in the jobs that run it: what it and its parents were started with.
SPY = """
import os, pathlib

PLACE = pathlib.Path("FOLDER", "spied")
PLACE.mkdir(exist_ok=True)
process, found, job = os.getpid(), [], "plan"
for _ in range(8):
    words = pathlib.Path(f"/proc/{process}/cmdline").read_bytes().split(b"\\0")
    if b"--shard" in words:
        job = words[words.index(b"--shard") + 1].decode()
    if pathlib.Path(os.fsdecode(words[0])).name == "act":
        break
    found.append(pathlib.Path(f"/proc/{process}/environ").read_bytes())
    process = int(pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
found.append("\\0".join(f"{key}={text}" for key, text in os.environ.items()).encode())
PLACE.joinpath(f"{job}-{os.getpid()}").write_bytes(b"\\0".join(found))
"""
FAILS_AT_FIRST = """
import os

def test_fails_at_first():
    assert os.environ["GITHUB_RUN_ATTEMPT"] != "1"
"""
pytestmark = pytest.mark.timeout(900)  # five runs of real jobs, before the first test
HISTORY = "refs/heads/ciguard-history"
WORKFLOW = ".github/workflows/ciguard.yml"
STEP = "Run the shard"
TILLS = "tests/test_tills.py"
REPORT = f"{OURS}/actions/report@{COMMIT}"


@dataclass(frozen=True, slots=True)
class Story:
    """The runs after the first, and what could be seen between them."""

    github: GitHub
    first: Run
    second: Run
    second_attempt: Run
    crashed: Run
    killed: Run
    fixed: Run
    history_after: tuple[str, str, str, str]
    final_comments: list[dict[str, Any]]
    comments_after_crash: list[dict[str, Any]]
    comments_after_kill: list[dict[str, Any]]
    comments_after_fix: list[dict[str, Any]]


def set_up_repository(github: GitHub) -> None:
    """Commit a small suite, and what `ciguard init` writes for it."""
    spy = SPY.replace("FOLDER", str(github.folder))
    tests = {"test_cart.py": CART, "test_stock.py": STOCK, "conftest.py": spy}
    github.commit("a shop", {f"tests/{name}": text for name, text in tests.items()})
    answer = github.ciguard("init", "--yes")
    assert answer.returncode == 0, answer.stderr
    config = (github.checkout / "ciguard.toml").read_text("utf-8")
    github.commit("ciguard", {"ciguard.toml": f"{config}[plan]\nshards = 2\n"})
    github.git("push", "--quiet", "origin", "main")


@pytest.fixture(scope="module")
def first(github: GitHub) -> Run:
    set_up_repository(github)
    return github.run("push", PUSH, run_id=101)


@pytest.fixture(scope="module")
def story(github: GitHub, first: Run) -> Story:
    heads = []

    def history() -> None:
        heads.append(github.git("ls-remote", "origin", HISTORY))

    history()
    second = github.run("push", PUSH, run_id=102)
    history()
    rerun = github.run("push", PUSH, run_id=102, attempt=2)
    history()
    event = github.propose("tills", {TILLS: CRASH})
    crashed = github.run("pull_request", event, run_id=103)
    crash_comments = github.comments()
    killed = github.run("pull_request", github.propose("worse", {TILLS: KILL}), run_id=104)
    kill_comments = github.comments()
    mended = CRASH.replace("os.abort()", "assert True")
    event = github.propose("mend the tills", {TILLS: mended})
    fixed = github.run("pull_request", event, run_id=105)
    history()
    one, two, three, four = heads
    return Story(
        github,
        first,
        second,
        rerun,
        crashed,
        killed,
        fixed,
        history_after=(one, two, three, four),
        final_comments=github.history_values(),
        comments_after_crash=crash_comments,
        comments_after_kill=kill_comments,
        comments_after_fix=github.comments(),
    )


def units_of_plan(run_id: int, artifacts: Path) -> list[dict[str, Any]]:
    (plan,) = (artifacts / str(run_id)).glob("ciguard-plan-*-1/plan.json")
    shards = json.loads(plan.read_text("utf-8"))["shards"]
    return [unit for shard in shards for unit in shard["units"]]


def test_the_first_run_needs_no_history_and_is_green(github: GitHub, first: Run) -> None:
    assert first.green, first.talk
    assert [leg.result for leg in first.legs()] == ["success", "success"]
    assert first.job("ciguard").result == first.job("history").result == "success"
    assert github.git("ls-remote", "origin", HISTORY)


def spied(github: GitHub) -> dict[str, set[str]]:
    """By job, "plan" or the shard, the variables that the tests' code and its parents had."""
    found: dict[str, set[str]] = {}
    for path in (github.folder / "spied").iterdir():
        texts = set(path.read_text("utf-8").split("\0"))
        found.setdefault(path.name.partition("-")[0], set()).update(texts)
    return found


@pytest.mark.usefixtures("first")
def test_code_of_the_tests_finds_no_token(github: GitHub) -> None:
    found = spied(github)
    assert found.keys() == {"plan", "01", "02"}
    for job, variables in found.items():
        assert any(one.startswith("GITHUB_RUN_ID=") for one in variables), "its parents' as well"
        assert [one for one in variables if TOKEN in one or "_TOKEN=" in one] == [], job


def test_each_leg_uploads_record_named_by_plan_shard_and_attempt(
    github: GitHub, first: Run
) -> None:
    names = sorted(item.name for item in (github.artifacts / "101").iterdir())
    plan, *records, report = names
    assert report == "ciguard-report-101-1"
    identity = plan.removeprefix("ciguard-plan-").removesuffix("-1")
    assert records == [f"ciguard-record-{identity}-{shard}-1" for shard in ("01", "02")]


@pytest.mark.soak
def test_the_base_branch_writes_history_and_a_pull_request_does_not(story: Story) -> None:
    first, second, rerun, after_pull_requests = story.history_after
    assert first
    assert second not in {"", first}
    assert after_pull_requests == rerun
    assert "history" in story.first.jobs
    assert "history" not in story.crashed.jobs


@pytest.mark.soak
def test_history_counts_a_rerun_once_and_pull_requests_never(story: Story) -> None:
    assert story.second_attempt.green, story.second_attempt.talk
    found = sorted((one["run_id"], one["run_attempt"], one["unit"]) for one in story.final_comments)
    units = sorted(unit["unit"] for unit in units_of_plan(101, story.github.artifacts))
    assert found == [
        (run, attempt, unit) for run, attempt in ((101, 1), (102, 2)) for unit in units
    ]


@pytest.mark.soak
def test_second_plan_uses_history_of_first_run(story: Story) -> None:
    assert story.second.green, story.second.talk
    artifacts = story.github.artifacts
    assert {unit["has_history"] for unit in units_of_plan(101, artifacts)} == {False}
    assert {unit["has_history"] for unit in units_of_plan(102, artifacts)} == {True}
    assert len(units_of_plan(102, artifacts)) == 6


@pytest.mark.soak
def test_crash_fails_the_run_names_the_test_and_runs_the_rest(story: Story) -> None:
    assert not story.crashed.green
    # Not the legs' results: act gives a leg the result of its job, whichever leg it was.
    assert sorted(leg.failed_steps for leg in story.crashed.legs()) == [(), (STEP,)]
    report = story.crashed.job("ciguard")
    assert report.failed_steps == (REPORT,)
    (comment,) = story.comments_after_crash
    assert "test_takes_the_process_with_it" in comment["body"]
    records = (story.github.artifacts / "103").glob("ciguard-record-*/**/*.jsonl")
    lines = [json.loads(line) for file in records for line in file.read_bytes().splitlines()]
    passed = {line["unit"] for line in lines if line.get("outcome") == "passed"}
    assert {"tests/test_tills.py::test_before", "tests/test_tills.py::test_after"} <= passed
    assert len(passed) == 8


@pytest.mark.soak
def test_killed_leg_is_incomplete_and_its_running_unit_is_named(story: Story) -> None:
    assert not story.killed.green
    assert sorted(leg.failed_steps for leg in story.killed.legs()) == [(), (STEP,)]
    assert story.killed.job("ciguard").failed_steps == (REPORT,)
    (comment,) = story.comments_after_kill
    head = next(line for line in comment["body"].splitlines() if not line.startswith("<!--"))
    assert ":warning: INCOMPLETE: shard 0" in head
    assert "of 2 did not end by itself" in head
    assert (
        "the test that was running: <code>tests/test_tills.py::test_takes_the_process_with_it"
        in (comment["body"])
    )


@pytest.mark.soak
def test_each_pull_request_run_uploads_values_for_the_next_run(story: Story) -> None:
    """Also one that is red; all by one name, by which the next one looks for them."""
    names = set()
    for run_id in (103, 104, 105):
        (left,) = (story.github.artifacts / str(run_id)).glob("ciguard-values-*/*.jsonl")
        (first, *_) = left.read_text("utf-8").splitlines()
        assert json.loads(first)["run_id"] == run_id
        names.add(left.parent.name)
    assert len(names) == 1
    assert list((story.github.artifacts / "102").glob("ciguard-values-*")) == []


@pytest.mark.soak
def test_comment_is_updated_not_duplicated(story: Story) -> None:
    assert story.fixed.green, story.fixed.talk
    (before,), (after,) = story.comments_after_crash, story.comments_after_fix
    assert before["id"] == after["id"]
    assert before["body"] != after["body"]
    for body in (before["body"], after["body"]):
        assert "policy of the base commit" in body, "the base's could be read"
        assert "this pull request changes" not in body


@pytest.mark.soak
def test_failed_jobs_run_again_without_the_others(story: Story) -> None:
    github = story.github
    github.git("switch", "--quiet", "--create", "attempts", "main")
    github.commit("a test more", {"tests/test_attempts.py": FAILS_AT_FIRST})
    first = github.run("push", PUSH, run_id=106)
    assert first.job("ciguard").result == "failure"
    failed = next(name for name, job in first.jobs.items() if job.failed_steps == (STEP,))
    shard = failed.partition("(")[2][:2]
    github.set_jobs(106, {f"tests (0{n})": 2 if shard == f"0{n}" else 1 for n in (1, 2)})
    rerun = github.workflow_of_rerun(WORKFLOW, run_id=106, shards=[shard], kept=["plan"])
    second = github.execute(rerun, "push", PUSH, run_id=106, attempt=2)
    assert second.green, second.talk
    assert len(second.legs()) == 1
    assert "all 7 tests of 2 shards" in second.job("ciguard").printed
    records = (github.artifacts / "106").glob("ciguard-record-*")
    ends = sorted("-".join(path.name.split("-")[-2:]) for path in records)
    assert ends == sorted(["01-1", "02-1", f"{shard}-2"])
