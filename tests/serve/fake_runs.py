"""Completed runs at a fake GitHub, with their artifacts, jobs and pull request."""

from __future__ import annotations

from typing import Any

from fakegithub.actions import add_artifact, add_job, add_run
from fakegithub.state import FakeGitHub
from guard.fixtures import Leg, World

from ciguard.codec import plan_file as plan_codec

REPOSITORY = "octo-org/shop"
HEAD, BASE, MERGE = "a" * 40, "b" * 40, "c" * 40
SHOP: dict[str, Any] = {"full_name": REPOSITORY, "default_branch": "main", "id": 1}
BY_SERVICE = b'[report]\nby = "service"\n'
STARTED = "2026-11-26T10:00:00Z"


def pull_json(repository: str = REPOSITORY) -> dict[str, Any]:
    """Pull request 8 of HEAD, which is a branch of `repository`."""
    return {
        "number": 8,
        "state": "open",
        "head": {"sha": HEAD, "ref": "topic", "repo": {"full_name": repository, "id": 1}},
        "base": {"ref": "main", "sha": BASE, "repo": SHOP},
        "merge_commit_sha": MERGE,
    }


def open_pull_request(github: FakeGitHub) -> None:
    """A pull request whose base leaves the comment to the service."""
    github.pulls.add((REPOSITORY, 8))
    github.pulls_of[HEAD] = [pull_json()]
    for sha in (HEAD, BASE, MERGE):
        github.files["ciguard.toml", sha] = BY_SERVICE


def failing_world() -> World:
    world = World()
    world.result("01", "a.t::two", outcome="failed", message="assert 1 == 2")
    return world


def upload(github: FakeGitHub, world: World, run_id: int, **facts: Any) -> None:
    """A completed run with its artifacts and jobs."""
    add_run(github, run_id, head_sha=HEAD, run_started_at=STARTED, updated_at=STARTED, **facts)
    upload_artifacts(github, world, run_id)


def upload_artifacts(github: FakeGitHub, world: World, run_id: int = 7) -> None:
    """The plan and the records of a run, each with its green job."""
    plan = {"plan.json": plan_codec.encode(world.plan)}
    add_artifact(github, f"ciguard-plan-{world.plan.id}-1", plan, run=run_id)
    for key, leg in world.legs.items():
        upload_record(github, leg, run_id)
        add_job(github, f"tests ({key})", run=run_id)


def upload_record(github: FakeGitHub, leg: Leg, run_id: int = 7) -> None:
    header = leg.header
    files = {path.rpartition("/")[2]: content for path, content in leg.files().items()}
    name = f"ciguard-record-{header.plan_id}-{header.shard}-{header.run_attempt}"
    add_artifact(github, name, files, run=run_id)


def of_pull_request(**facts: Any) -> dict[str, Any]:
    """What a run of it says more."""
    return {"event": "pull_request", "head_branch": "topic", **facts}
