"""A check with annotations, over real HTTP."""

from __future__ import annotations

import pytest
from fakegithub.state import TOKEN, FakeGitHub, Fault, Login

from ciguard.github.api_errors import Forbidden, GitHubError
from ciguard.github.client import GitHub
from ciguard.github.models import CheckRun
from ciguard.guard.annotations_and_outputs import Annotation
from ciguard.report.publish import MAX_SUMMARY, create_check

REPOSITORY = "octo-org/shop"
CHECKS = f"/repos/{REPOSITORY}/check-runs"


def create(github: GitHub, notes: int = 0, summary: str = "text") -> CheckRun:
    found = [Annotation("error", f"failed {n}", "t", f"t/{n}.py", n + 1) for n in range(notes)]
    return create_check(
        github,
        REPOSITORY,
        "a" * 40,
        name="ciguard / tests.yml",
        external_id="7/1",
        passed=not notes,
        title="FAILED: 3 of 8",
        summary=summary,
        annotations=found,
    )


@pytest.mark.parametrize(("notes", "calls"), [(0, 1), (1, 1), (50, 1), (51, 2), (120, 3)])
def test_annotations_come_in_batches_of_50(
    server: FakeGitHub, github: GitHub, notes: int, calls: int
) -> None:
    made = create(github, notes)
    assert len(server.exchanges) == calls
    assert [one["path"] for one in server.noted[made.id]] == [f"t/{n}.py" for n in range(notes)]
    assert server.checks[made.id]["conclusion"] == ("failure" if notes else "success")


def test_lost_response_creates_no_second_check(server: FakeGitHub, github: GitHub) -> None:
    server.faults.append(Fault(method="POST", status=502, done=True))
    create(github)
    assert len(server.checks) == 1
    server.faults.append(Fault(method="POST", status=502))
    create(github)
    assert len(server.checks) == 1, "the same run's check is there"


def test_summary_length_limit(server: FakeGitHub, github: GitHub) -> None:
    assert create(github, summary="x" * MAX_SUMMARY).id == 500
    with pytest.raises(GitHubError, match="too long"):
        create(github, summary="x" * (MAX_SUMMARY + 1))
    server.exchanges.pop()  # what GitHub's description does not allow either


def test_token_without_permission_is_forbidden(server: FakeGitHub, github: GitHub) -> None:
    server.tokens[TOKEN] = Login(may_write=False)
    with pytest.raises(Forbidden) as refused:
        create(github)
    assert "write" in refused.value.fix
