"""Where a report is told, over real HTTP: the job of a pull request, a fork, a branch, a queue."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Ciguard, clean_environment
from fakegithub.actions import add_job
from fakegithub.state import FakeGitHub, Fault, Login
from guard.fake_jobs import TOKEN, environ_of
from guard.fixtures import World, make_leg, make_plan
from init.workflow_steps import read_action
from serve.fake_runs import HEAD, MERGE, REPOSITORY, SHOP, upload_artifacts

from ciguard.init.workflow_files import Workflow, render_workflow
from ciguard.report.publish import with_marker

FORK = "stranger/shop"
PULL = {"pull_request": {"number": 7, "base": {"ref": "main"}, "head": {"sha": HEAD}}}


def pull(number: int, **changes: Any) -> dict[str, Any]:
    """A pull request of a fork, as a list of them says it."""
    head = {"sha": HEAD, "ref": "topic", "repo": {"full_name": FORK}, **changes.pop("head", {})}
    base = {"ref": "main", "sha": "b" * 40, "repo": SHOP}
    return {"number": number, "state": "open", "head": head, "base": base, **changes}


FORK_S_RUN = {
    "id": 7,
    "run_attempt": 2,
    "event": "pull_request",
    "path": ".github/workflows/tests.yml",
    "head_sha": HEAD,
    "head_branch": "topic",
    "head_repository": {"full_name": FORK},
    "pull_requests": [],
}


@pytest.fixture
def server(server: FakeGitHub) -> FakeGitHub:
    server.pulls |= {(REPOSITORY, number) for number in (7, 8, 9)}
    return server


class Job:
    """A job that reports, in an event of its own."""

    def __init__(self, folder: Path, ciguard: Ciguard, server: FakeGitHub) -> None:
        self.folder, self._ciguard = folder, ciguard
        self.world = World()
        for shard in self.world.legs:
            add_job(server, f"tests ({shard})")
        self.environ = {**environ_of(folder, server), "GITHUB_SHA": MERGE}

    def happens(self, name: str, event: dict[str, Any], **environ: str) -> None:
        (self.folder / "event.json").write_text(json.dumps({"repository": SHOP, **event}))
        self.environ |= {"GITHUB_EVENT_NAME": name, **environ}

    def report(self, *words: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        plan, records = self.world.write(self.folder)
        done = self._ciguard(
            *("report", "--plan", plan, "--records", records, "--history", "none", "--github"),
            *words,
            cwd=self.folder,
            expect=expect,
            **self.environ,
        )
        assert TOKEN not in done.stdout + done.stderr
        return done

    def summary(self) -> str:
        return (self.folder / "summary.md").read_text("utf-8")


@pytest.fixture
def job(tmp_path: Path, ciguard: Ciguard, server: FakeGitHub) -> Job:
    return Job(tmp_path, ciguard, server)


def test_trusted_job_comments_on_the_pull_request_of_a_fork(job: Job, server: FakeGitHub) -> None:
    """The number is GitHub's: of three pull requests with this commit, one is the run's."""
    server.pulls_of[HEAD] = [
        pull(7, state="closed"),
        pull(8),
        pull(9, head={"repo": {"full_name": "other/shop"}}),
    ]
    ref = f"{REPOSITORY}/.github/workflows/ciguard-forks.yml@refs/heads/main"
    reported = {"workflow_run": FORK_S_RUN}
    job.happens("workflow_run", reported, GITHUB_WORKFLOW_REF=ref, GITHUB_RUN_ID="99")
    job.world.result("01", "a.t::two", outcome="failed", message="no", file="a.t", line=3)
    done = job.report("--comment", "--check", "--issue", expect=10)
    (comment,) = server.comments.values()
    assert comment["issue_url"].endswith("/issues/8")
    assert comment["body"].startswith(
        "<!-- ciguard:tests.yml -->\n<!-- ciguard-run:7/2 -->\n### :x: 1 of 8 tests failed"
    )
    assert "could have changed them" in comment["body"]
    assert f"https://github.com/{REPOSITORY}/blob/{HEAD}/a.t#L3" in comment["body"]
    assert f"/{REPOSITORY}/actions/runs/7/attempts/2" in comment["body"]
    (check,) = server.checks.values()
    assert (check["head_sha"], check["name"]) == (HEAD, "ciguard (tests.yml)")
    assert check["conclusion"] == "failure"
    assert server.issues == {}, "a fork's red run is no red branch"
    assert "comment created" in done.stderr
    job.report("--comment", expect=10)
    assert len(server.comments) == 1


@pytest.mark.skipif(shutil.which("bash") is None, reason="the step's shell is bash")
@pytest.mark.parametrize("bad", [False, True])
def test_generated_workflow_for_forks_publishes_the_report(
    job: Job, server: FakeGitHub, tmp_path: Path, bad: bool
) -> None:
    """Its step, run by its shell: all of the run comes out of the fork's artifacts."""
    if bad:
        job.world.result("01", "a.t::two", outcome="failed", message="no")
    upload_artifacts(server, job.world)
    server.pulls_of[HEAD] = [pull(8)]
    workflow = yaml.safe_load(render_workflow(Workflow("main", "o/c@1", "", ""), forks=True))
    given = workflow["jobs"]["report"]["steps"][-1]["with"]
    assert given == {"run-id": "${{ github.event.workflow_run.id }}", "check": True}
    (step,) = [one for one in read_action("report")["runs"]["steps"] if one.get("id") == "report"]
    job.happens("workflow_run", {"workflow_run": FORK_S_RUN}, RUNNER_TEMP=str(tmp_path))
    reported = {
        **dict.fromkeys(step["env"], ""),
        "_CIGUARD_PYTHON": sys.executable,
        "_CIGUARD_PAGE": str(tmp_path / "ciguard-report.html"),
        "_CIGUARD_RUN": "7",
        "_CIGUARD_STORE": "none",
        "_CIGUARD_COMMENT": "true",
        "_CIGUARD_CHECK": "true",
        "GITHUB_TOKEN": job.environ["GITHUB_TOKEN"],
        "GITHUB_RUN_ID": "99",
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env=clean_environment(**{**job.environ, **reported}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (body,) = server.bodies()
    assert "could have changed them" in body
    assert ("1 of 8 tests failed" in body) == bad
    assert [one["conclusion"] for one in server.checks.values()] == [
        "failure" if bad else "success"
    ]
    assert "could have changed them" in (tmp_path / "ciguard-report.html").read_text("utf-8")


def test_run_without_a_pull_request_gets_no_comment(job: Job, server: FakeGitHub) -> None:
    server.pulls_of[HEAD] = [pull(9, head={"ref": "elsewhere"})]
    job.happens("workflow_run", {"workflow_run": FORK_S_RUN})
    assert "no open pull request is known" in job.report("--comment").stderr
    assert server.comments == {}


def test_pull_request_number_from_the_fork_is_not_trusted(job: Job, server: FakeGitHub) -> None:
    """A fork could name any number in its plan and records; there is no place for one."""
    server.pulls_of[HEAD] = []
    job.happens("workflow_run", {"workflow_run": {**FORK_S_RUN, "pull_requests": [{"number": 7}]}})
    job.report("--comment")
    assert server.comments == {}


def test_failing_base_branch_has_one_issue(job: Job, server: FakeGitHub) -> None:
    job.happens("push", {"ref": "refs/heads/main"}, GITHUB_REF_NAME="main")
    assert "issue not needed" in job.report("--issue", "--comment").stderr
    job.world.result("01", "a.t::two", outcome="failed", message="no")
    job.report("--issue", expect=10)
    (issue,) = server.issues.values()
    assert issue["title"] == "main is red (tests.yml)"
    assert issue["body"].startswith(with_marker("tests.yml", "### :x: 1 of 8 tests failed", (7, 1)))
    job.world = World()
    job.environ["GITHUB_RUN_ATTEMPT"] = "2"
    assert "issue closed" in job.report("--issue").stderr
    assert [one["state"] for one in server.issues.values()] == ["closed"]
    assert server.comments == {}


def test_a_drill_opens_no_issue(job: Job, server: FakeGitHub) -> None:
    job.world = World(make_plan(drill="timeout"))
    job.happens("workflow_dispatch", {"ref": "refs/heads/main"}, GITHUB_REF_NAME="main")
    job.report("--issue", "--check", expect=13)
    (check,) = server.checks.values()
    assert check["output"]["title"] == "DRILL FAILED: timeout was not noticed"
    job.world.result("01", "a.t::two", outcome="died", ending="timeout")
    assert "DRILL (timeout): FAILED" in job.report("--issue", expect=10).stdout
    assert server.issues == {}


def test_a_quarantined_failure_opens_no_issue(job: Job, ciguard: Ciguard) -> None:
    job.happens("push", {"ref": "refs/heads/main"}, GITHUB_REF_NAME="main")
    plan = job.world.plan
    base = World(plan, {key: make_leg(plan, key, run=6) for key in job.world.legs})
    (job.folder / "past").mkdir()
    _, past = base.write(job.folder / "past")
    facts = ("--sha", "1" * 40, "--branch", "main", "--at", "2026-01-01T10:00:00Z")
    ciguard("history", "add", past, "--history", "h", *facts, cwd=job.folder)
    job.world.result("01", "a.t::two", outcome="failed", message="no")
    until = datetime.now(UTC).date() + timedelta(days=20)
    (job.folder / "quarantine.toml").write_text(
        f'[[quarantine]]\nunit = "a.t::*"\nreason = "late mail"\nissue = 4711\nuntil = {until}\n'
    )
    done = job.report("--issue", "--history", "h")
    assert "issue not needed" in done.stderr
    verdict = job.summary().partition("\n")[0]
    assert "PASSED" in verdict
    assert "1 quarantined test failed" in verdict
    assert "#### 1 quarantined failure" in job.summary()
    assert "newly failing" not in job.summary()


def test_merge_queue_gets_check_and_summary_only(job: Job, server: FakeGitHub) -> None:
    job.happens("merge_group", {"merge_group": {"base_ref": "refs/heads/main"}})
    job.report("--comment", "--check", "--issue")
    assert [one["head_sha"] for one in server.checks.values()] == ["c" * 40]
    assert server.comments == server.issues == {}
    assert "PASSED" in job.summary()


def test_summary_of_a_merge_queue_compares_with_its_base(job: Job, ciguard: Ciguard) -> None:
    plan = job.world.plan
    for day in range(1, 5):
        base = World(plan, {key: make_leg(plan, key, run=day) for key in job.world.legs})
        base.result("01", "a.t::one", outcome="failed", message="no")
        (job.folder / f"{day}").mkdir()
        facts = ("--sha", f"{day}" * 40, "--at", f"2026-01-0{day}T10:00:00Z")
        words = (base.write(job.folder / f"{day}")[1], "--history", "h", "--branch", "main", *facts)
        ciguard("history", "add", *words, cwd=job.folder)
    group = {"base_ref": "refs/heads/main", "head_ref": "refs/heads/gh-readonly-queue/main/pr-8"}
    job.happens("merge_group", {"merge_group": group})
    for unit in ("a.t::one", "a.t::two"):
        job.world.result("01", unit, outcome="failed", message="no")
    for leg in job.world.legs.values():
        leg.header = replace(leg.header, event="merge_group", branch="gh-readonly-queue/main/pr-8")
    done = job.report("--comment", "--history", "h", expect=10)
    assert "no comment: this run belongs to no pull request" in done.stderr
    text = unescape(job.summary())
    assert text.startswith(
        "### :x: 2 of 8 tests failed: 1 has an unknown cause · 1 also fails on main"
    )
    row = "<code>a.t::one</code> | <code>no</code> | **main**: red since 1111111 (4 runs"
    assert f"| {row}" in text


def test_check_annotations_have_repository_paths_and_lines(job: Job, server: FakeGitHub) -> None:
    job.happens("pull_request", PULL)
    job.world.result("01", "a.t::two", outcome="failed", message="no", file="a.t", line=3)
    del job.world.legs["02"]
    job.report("--check", expect=13)
    ((_, notes),) = server.noted.items()
    found = [(one["path"], one["start_line"], one["annotation_level"]) for one in notes]
    assert found[0] == (".github/workflows/tests.yml", 1, "failure")
    assert ("a.t", 3, "failure") in found


@pytest.mark.parametrize("refused", ["comment", "check", "issue"])
def test_missing_permission_is_a_note_that_names_it(
    job: Job, server: FakeGitHub, refused: str
) -> None:
    server.tokens[TOKEN] = Login(may_write=False)
    if refused == "issue":
        job.happens("push", {"ref": "refs/heads/main"}, GITHUB_REF_NAME="main")
        job.world.result("01", "a.t::two", outcome="failed", message="no")
    else:
        job.happens("pull_request", PULL)
    job.report(f"--{refused}", expect=10 if refused == "issue" else 0)
    note = job.summary().strip().splitlines()[-1]
    assert note.startswith(f"The {refused} could not be written with this token")
    assert ("pull-requests: write" if refused == "comment" else "write") in note


def test_github_fault_is_reported_and_does_not_hide_the_verdict(
    job: Job, server: FakeGitHub
) -> None:
    job.happens("pull_request", PULL)
    server.faults.append(Fault(path="/issues/", status=410, message="Gone", times=9))
    assert "PASSED" in job.report("--comment", "--check", expect=4).stdout
    assert "The comment could not be written" in job.summary()
    assert len(server.checks) == 1, "one refusal does not keep the other from being told"


def test_configured_footer_is_last(job: Job) -> None:
    (job.folder / "ciguard.toml").write_text('[report]\nfooter = "Ask in **#ci**."\n')
    job.happens("push", {"ref": "refs/heads/main"}, GITHUB_REF_NAME="main")
    assert job.report().stdout.endswith("\n\nAsk in **#ci**.\n")
