"""Completed runs at a fake GitHub, with their artifacts, jobs and pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakegithub.actions import add_artifact, add_job, add_run

from ciguard.codec import plan_file as plan_codec

if TYPE_CHECKING:
    from fakegithub.state import FakeGitHub
    from guard.fixtures import World

REPOSITORY = "octo-org/shop"
HEAD, BASE, MERGE = "a" * 40, "b" * 40, "c" * 40
SHOP: dict[str, Any] = {"full_name": REPOSITORY, "default_branch": "main", "id": 1}
BY_SERVICE = b'[report]\nby = "service"\n'
STARTED = "2026-11-26T10:00:00Z"


def open_pull_request(github: FakeGitHub) -> None:
    """Pull request 8 of HEAD, whose base leaves the comment to the service."""
    github.pulls.add((REPOSITORY, 8))
    tip = {"sha": HEAD, "ref": "topic", "repo": {"full_name": REPOSITORY, "id": 1}}
    github.pulls_of[HEAD] = [
        {
            "number": 8,
            "state": "open",
            "head": tip,
            "base": {"ref": "main", "sha": BASE, "repo": SHOP},
            "merge_commit_sha": MERGE,
        }
    ]
    for sha in (HEAD, BASE, MERGE):
        github.files["ciguard.toml", sha] = BY_SERVICE


def upload(github: FakeGitHub, world: World, run_id: int, **facts: Any) -> None:
    """A completed run with its artifacts and jobs."""
    add_run(github, run_id, head_sha=HEAD, run_started_at=STARTED, updated_at=STARTED, **facts)
    plan = {"plan.json": plan_codec.encode(world.plan)}
    add_artifact(github, f"ciguard-plan-{world.plan.id}-1", plan, run=run_id)
    for key, leg in world.legs.items():
        files = {path.rpartition("/")[2]: content for path, content in leg.files().items()}
        add_artifact(github, f"ciguard-record-{world.plan.id}-{key}-1", files, run=run_id)
        add_job(github, f"tests ({key})")
        github.jobs[-1]["run_id"] = run_id


def of_pull_request(**facts: Any) -> dict[str, Any]:
    """What a run of it says more."""
    return {"event": "pull_request", "head_branch": "topic", **facts}
