"""The lanes of runs."""

from __future__ import annotations

from ciguard.github.models import WorkflowRun
from ciguard.serve.work.run_attempts import lane_of


def test_a_lane_is_a_branch_of_a_workflow() -> None:
    def lane(repository_id: int, path: str, branch: str) -> str:
        run = {"id": 1, "path": path, "head_branch": branch, "repository": {"id": repository_id}}
        return lane_of(repository_id, WorkflowRun.model_validate(run))

    path = ".github/workflows/tests.yml"
    lanes = {
        lane(1, path, "7"),
        lane(2, path, "7"),
        lane(1, path, "8"),
        lane(1, "other.yml", "7"),
        lane(1, "w" * 256, "b" * 256),
        lane(1, "w" * 255, "b" * 256),
    }
    assert len(lanes) == 6
    assert max(map(len, lanes)) == 512
