"""A run judged by a client for GitHub alone, beside the command in the run's own job: equal."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard
from fakegithub.actions import add_artifact
from fakegithub.state import FakeGitHub
from guard.fake_jobs import TOKEN, environ_of
from guard.fixtures import World
from pydantic import SecretStr
from report.test_command import with_a_past
from serve.fake_runs import BASE, HEAD, MERGE, REPOSITORY, SHOP, pull_json, upload_artifacts

from ciguard.github.client import GitHub
from ciguard.github.models import WorkflowRun
from ciguard.github.repository_ref import RepositoryRef
from ciguard.github.run_client import actions_run, pull_of_run
from ciguard.guard.evaluation import PastRuns
from ciguard.history.stores import load_or_explain
from ciguard.report.publish import Channels, publish
from ciguard.report.remote_run import RemoteRun, judge_remote
from ciguard.report.view import Report

WORKFLOW = ".github/workflows/tests.yml"
TODAY = datetime.now(UTC).date()


def run_json(repository: str = REPOSITORY, **changes: Any) -> dict[str, Any]:
    return {
        "id": 7,
        "run_attempt": 1,
        "event": "pull_request",
        "path": WORKFLOW,
        "head_sha": HEAD,
        "head_branch": "topic",
        "head_repository": {"full_name": repository, "id": 1},
        **changes,
    }


@pytest.fixture
def server(server: FakeGitHub) -> FakeGitHub:
    server.pulls.add((REPOSITORY, 8))
    server.pulls_of[HEAD] = [pull_json()]
    for sha in (HEAD, BASE, MERGE):
        server.files["README.md", sha] = b"shop"
    return server


def past_at(history: Path) -> PastRuns:
    return PastRuns(lambda: load_or_explain(history.name, history.parent, {}, "not compared"))


def judged(
    server: FakeGitHub, run: dict[str, Any] | None = None, history: Path = Path("none")
) -> tuple[Report | None, str]:
    """The report, and what was done with its comment."""
    told: list[str] = []
    with GitHub(server.address, SecretStr(TOKEN)) as github:
        finished = WorkflowRun.model_validate(run or run_json())
        place = RepositoryRef(REPOSITORY, "https://github.com", server.address)
        pull = pull_of_run(github, REPOSITORY, finished)
        subject = actions_run(place, finished, pull, "main")
        remote = RemoteRun(github, subject, finished.path, TODAY, told.append)
        found = judge_remote(remote, past_at(history), remote.artifacts)
        assert told == []
        if found is None:
            return None, ""
        published = publish(github, subject, found.report, Channels(comment=True))
        assert (published.notes, published.exit_code) == ((), 0)
        return found.report, "".join(published.done)


def in_its_own_job(
    ciguard: Ciguard, server: FakeGitHub, folder: Path, *words: str, expect: int
) -> str:
    """`ciguard report --comment` as the pull request's run calls it; its stderr."""
    event = {"pull_request": pull_json(), "repository": SHOP}
    (folder / "event.json").write_text(json.dumps(event))
    named = {"EVENT_NAME": "pull_request", "HEAD_REF": "topic", "SHA": MERGE}
    environ = environ_of(folder, server)
    environ |= {f"GITHUB_{name}": value for name, value in named.items()}
    words = ("report", "--run", "7/1", "--repo", REPOSITORY, "--history", "none", *words)
    return ciguard(*words, "--comment", cwd=folder, expect=expect, **environ).stderr


def test_service_and_job_write_the_same_bytes(
    server: FakeGitHub, ciguard: Ciguard, tmp_path: Path
) -> None:
    """Quarantine and footer come from the base, whatever the head says."""
    until = datetime.now(UTC).date() + timedelta(days=20)
    entry = '[[quarantine]]\nunit = "a.t::two"\nreason = "late mail"\nissue = 4711\n'
    mine = '[report]\nfooter = "mine"\n[guard]\nmax_drop = 0.5\n'
    minimum = b'[coverage]\nformat = "lcov"\nminimum = 85\n'
    server.files["ciguard.toml", BASE] = minimum + b'[report]\nfooter = "Read docs/ci.md."\n'
    server.files["ciguard.toml", MERGE] = mine.encode()
    (tmp_path / "ciguard.toml").write_text(mine)
    server.files["quarantine.toml", BASE] = f"{entry}until = {until}\n".encode()
    world = World()
    world.result("01", "a.t::two", outcome="failed", message="assert 1 == 2", file="a.t", line=3)
    world.result("01", "a.t::one", outcome="failed", message="assert 3 == 4", file="b.t", line=9)
    upload_artifacts(server, world)
    coverage = b'{"format": "", "unit": "line", "total": {"covered": 1, "total": 2, "percent": 50}}'
    add_artifact(server, "ciguard-coverage-7", {"ciguard-coverage.json": coverage})
    (tmp_path / "c").write_bytes(coverage)
    history = with_a_past(ciguard, server, world, tmp_path)
    words = ("--history", "h", "--coverage", "c")
    stderr = in_its_own_job(ciguard, server, tmp_path, *words, expect=10)
    assert "comment created" in stderr
    (body,) = server.bodies()
    report, done = judged(server, history=history)
    assert server.bodies() == [body]
    assert done.startswith("comment unchanged")
    assert report is not None
    assert report.exit_code == 10
    assert "Not compared" not in body
    assert "1 quarantined" in body
    assert "coverage 50 % is below the minimum of 85 %" in body
    assert "Read docs/ci.md." in body
    assert "this pull request changes quarantine.toml, guard.max_drop" in body
    assert f"policy of the base commit {BASE[:10]}" in body
    assert f"/blob/{MERGE}/b.t#L9" in body


def test_runs_of_a_fork_are_its_own_claim(server: FakeGitHub) -> None:
    server.pulls_of[HEAD] = [pull_json("stranger/shop")]
    upload_artifacts(server, World())
    report, done = judged(server, run_json("stranger/shop"))
    assert report is not None
    assert report.exit_code == 0
    assert done.startswith("comment created")
    assert "could have changed them" in server.bodies()[0]


def test_pull_request_that_is_not_known_is_judged_strictly(server: FakeGitHub) -> None:
    server.pulls_of[HEAD] = []
    server.files["ciguard.toml", HEAD] = b"[guard]\nmax_drop = 0.5\n"
    upload_artifacts(server, World())
    report, done = judged(server)
    assert report is not None
    assert report.contents is not None
    assert report.contents.policy.source == "strictest"
    assert done == ""


def test_workflow_without_ciguard_is_not_ours(server: FakeGitHub) -> None:
    server.files[WORKFLOW, HEAD] = b"jobs: {lint: {}}"
    assert judged(server) == (None, "")


def test_run_of_ours_that_lost_its_plan_is_incomplete(server: FakeGitHub) -> None:
    server.files[WORKFLOW, HEAD] = b"run: ciguard plan"
    report, done = judged(server)
    assert report is not None
    assert report.exit_code == 13
    assert done.startswith("comment created")
    assert "INCOMPLETE: this run has no plan" in server.bodies()[0]


def test_branch_is_judged_by_its_own_configuration(server: FakeGitHub) -> None:
    server.files["ciguard.toml", HEAD] = b'[report]\nfooter = "Of main."\n'
    upload_artifacts(server, World())
    report, _ = judged(server, run_json(event="push", head_branch="main"))
    assert report is not None
    assert report.contents is not None
    assert report.contents.policy.footer == "Of main."
    assert report.exit_code == 0


def test_merge_queue_names_its_base(server: FakeGitHub) -> None:
    branch = f"gh-readonly-queue/release/2.0/pr-8-{BASE}"
    finished = WorkflowRun.model_validate(run_json(event="merge_group", head_branch=branch))
    place = RepositoryRef(REPOSITORY, "https://github.com", server.address)
    run = actions_run(place, finished, None, "main")
    assert (run.base_branch, run.base_sha, run.is_unmerged) == ("release/2.0", BASE, True)


def test_job_leaves_the_comment_to_the_service(
    server: FakeGitHub, ciguard: Ciguard, tmp_path: Path
) -> None:
    server.files["ciguard.toml", BASE] = b'[report]\nby = "service"\n'
    upload_artifacts(server, World())
    stderr = in_its_own_job(ciguard, server, tmp_path, expect=0)
    assert 'comment left to the service ([report] by = "service")' in stderr
    assert server.bodies() == []
    _, done = judged(server)
    assert done.startswith("comment created")
