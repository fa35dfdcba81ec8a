"""Jobs, logs, commits and files, asked of a GitHub that can be wrong in each way."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from fakegithub.actions import add_job, add_run
from fakegithub.server import serving
from fakegithub.state import TOKEN, FakeGitHub, Fault, Login
from pydantic import SecretStr

from ciguard.github.api_errors import GitHubError
from ciguard.github.client import GitHub
from ciguard.github.contents import CommitTree
from ciguard.github.events import ActionsRun
from ciguard.github.run_client import RunClient, completed_runs, pulls_of, pushed_runs, runs_of_base
from ciguard.model.jobs import LOG_TAIL_BYTES, Job, Step

REPOSITORY = "octo-org/shop"
BEGIN = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
LOST = "The hosted runner: GitHub Actions 8 lost communication with the server."


@pytest.fixture
def run(github: GitHub) -> RunClient:
    return RunClient(github, REPOSITORY, 7)


def test_a_job_with_its_steps_and_times(server: FakeGitHub, run: RunClient) -> None:
    steps = [("Set up job", "success"), ("Run the shard", "failure"), ("Upload", None)]
    add_job(server, "tests (01)", "failure", steps=steps)
    assert run.jobs() == (
        Job(
            id=1000,
            name="tests (01)",
            run_attempt=1,
            status="completed",
            conclusion="failure",
            started_at=BEGIN,
            completed_at=datetime(2026, 11, 21, 10, 5, tzinfo=UTC),
            steps=(
                Step("Set up job", 1, "success", 300.0, BEGIN),
                Step("Run the shard", 2, "failure", 300.0, BEGIN),
                Step("Upload", 3, None, None, BEGIN),
            ),
            url="https://github.com/octo-org/shop/actions/runs/7/job/1000",
            head_sha="a" * 40,
            labels=("ubuntu-latest",),
        ),
    )
    assert run.jobs()[0].wall_s == 300.0


def test_jobs_of_all_attempts_are_paginated(server: FakeGitHub, run: RunClient) -> None:
    for number in range(150):
        add_job(server, f"tests ({number:03})")
    add_job(server, "tests (003)", attempt=2)
    found = run.jobs()
    assert [(one.name, one.run_attempt) for one in found][-2:] == [
        ("tests (149)", 1),
        ("tests (003)", 2),
    ]
    assert server.request_log() == [f"GET /repos/{REPOSITORY}/actions/runs/7/jobs"] * 2
    assert server.exchanges[1].request.query == {"filter": "all", "per_page": "100", "page": "2"}


def test_more_jobs_than_github_lists_are_an_error(server: FakeGitHub, run: RunClient) -> None:
    for number in range(1000):
        add_job(server, f"tests ({number})")
    with pytest.raises(GitHubError, match="which ran last is not known"):
        run.jobs()
    assert len(server.request_log()) == 10


@pytest.mark.parametrize("lists", ["jobs", "artifacts"])
def test_truncated_list_is_an_error(server: FakeGitHub, run: RunClient, lists: str) -> None:
    """A proxy that takes the `Link` header away shows the first page only."""
    for number in range(101):
        add_job(server, f"tests ({number:03})")
    server.artifacts += [f"a{number}" for number in range(101)]
    server.faults.append(Fault(status=200, headers={"Link": ""}))
    with pytest.raises(GitHubError, match="a list of 101 of which 100 came"):
        run.jobs() if lists == "jobs" else run.artifacts()


def test_unknown_job_status_is_passed_through(server: FakeGitHub, run: RunClient) -> None:
    # GitHub's description of today would not allow it, so it comes as a text.
    add_job(server, "tests (01)")
    job = {"id": 1, "name": "tests (01)", "status": "dreaming", "conclusion": "vanished"}
    text = f'{{"total_count": 1, "jobs": [{job}]}}'.replace("'", '"')
    server.faults.append(Fault(status=200, text=text, content_type="application/json"))
    (found,) = run.jobs()
    assert (found.status, found.conclusion, found.wall_s) == ("dreaming", "vanished", None)


def test_annotations_take_one_call(server: FakeGitHub, run: RunClient) -> None:
    add_job(server, "tests (01)", "failure", annotations=[LOST] * 120)
    (job,) = run.jobs()
    assert run.annotations(job) == (LOST,) * 100
    assert server.request_log()[1:] == [f"GET /repos/{REPOSITORY}/check-runs/1000/annotations"]


def test_end_of_log_is_downloaded_without_the_token(server: FakeGitHub, run: RunClient) -> None:
    log = "x" * (LOG_TAIL_BYTES + 999) + "\n##[error]The operation was canceled.\n"
    add_job(server, "tests (01)", "cancelled", log=log)
    (job,) = run.jobs()
    end = run.log_end(job)
    assert end == log[-LOG_TAIL_BYTES:]
    requested, stored = (one.request for one in server.exchanges[1:])
    assert requested.headers["authorization"] == f"Bearer {TOKEN}"
    assert stored.path == "/storage/1000"
    assert "authorization" not in stored.headers


def test_enterprise_server_may_serve_logs_itself() -> None:
    with serving(prefix="/api/v3") as server:
        server.tokens[TOKEN] = Login()
        add_job(server, "tests (01)", log="the end")
        place = f"{server.address}/storage/1000"
        server.faults.append(Fault(path="/logs", status=302, headers={"Location": place}))
        with GitHub(server.address, SecretStr(TOKEN)) as github:
            run = RunClient(github, REPOSITORY, 7)
            assert run.log_end(run.jobs()[0]) == "the end"
        assert "authorization" not in server.exchanges[-1].request.headers


def test_missing_log_is_a_404_without_xml_or_signature(server: FakeGitHub, run: RunClient) -> None:
    add_job(server, "tests (01)", "cancelled")
    (job,) = run.jobs()
    with pytest.raises(GitHubError, match="404") as reported:
        run.log_end(job)
    assert "<" not in str(reported.value)
    server.logs[1000] = b"soon gone"
    server.faults.append(Fault(path="/storage", status=404, text="<?xml version='1.0'?><Error/>"))
    with pytest.raises(GitHubError, match="404") as reported:
        run.log_end(job)
    assert "sig=secret" not in str(reported.value)


def test_expired_log_is_an_error(server: FakeGitHub, run: RunClient) -> None:
    add_job(server, "tests (01)", log="x")
    (job,) = run.jobs()
    server.faults.append(Fault(path="/logs", status=410, text="", content_type="text/plain"))
    with pytest.raises(GitHubError, match="410"):
        run.log_end(job)


def test_log_over_the_size_limit_is_an_error(
    server: FakeGitHub, run: RunClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ciguard.github.run_client.LOG_MAX_BYTES", 10)
    add_job(server, "tests (01)", log="x" * 11)
    with pytest.raises(GitHubError, match="longer than 10 bytes"):
        run.log_end(run.jobs()[0])


def test_artifacts_and_pulls_of_a_commit(
    server: FakeGitHub, github: GitHub, run: RunClient
) -> None:
    server.artifacts += [f"ciguard-record-9f2c-{number:03}-1" for number in range(101)]
    found = run.artifacts()
    assert [one.name for one in found][-1] == "ciguard-record-9f2c-100-1"
    assert not found[0].expired
    server.pulls_of["d" * 40] = [12]
    assert [one.number for one in pulls_of(github, REPOSITORY, "d" * 40)] == [12]
    assert pulls_of(github, REPOSITORY, "e" * 40) == ()


def test_completed_runs_go_on_where_a_list_of_github_ends(
    server: FakeGitHub, github: GitHub
) -> None:
    for run in range(1, 1_202):
        add_run(server, run, created_at=f"2026-11-21T10:{run // 60:02}:{run % 60:02}Z")
    add_run(server, 2_000, status="in_progress", created_at="2026-11-21T11:00:00Z")
    found = completed_runs(github, REPOSITORY)
    assert [one.id for one in found] == list(range(1_201, 0, -1))
    assert len(server.exchanges) == 10 + 3
    assert [one.id for one in completed_runs(github, REPOSITORY, limit=3)] == [1_201, 1_200, 1_199]
    since = datetime(2026, 11, 21, 10, 19, 59, tzinfo=UTC)
    found = completed_runs(github, REPOSITORY, created_from=since)
    assert [one.id for one in found] == [1_201, 1_200, 1_199]


def test_completed_runs_of_one_second_do_not_repeat_for_ever(
    server: FakeGitHub, github: GitHub
) -> None:
    for run in range(1, 1_103):
        add_run(server, run, created_at="2026-11-21T10:00:00Z")
    assert len(completed_runs(github, REPOSITORY)) == 1_000


SHA = "b" * 40


def test_files_of_a_commit_without_the_missing_ones(server: FakeGitHub, github: GitHub) -> None:
    server.files["my conf/ciguard.toml", SHA] = b"[policy]\n"
    server.files["README.md", SHA] = b"x"
    wanted = ["my conf/ciguard.toml", "my conf/quarantine.toml", "other/deep/x", "README.md", "y"]
    assert CommitTree(github, REPOSITORY, SHA).files(wanted) == {
        "my conf/ciguard.toml": b"[policy]\n",
        "README.md": b"x",
    }
    assert len(server.request_log()) == 4  # two folders, two files; `other` is not in the root


def test_inaccessible_commit_is_an_error(server: FakeGitHub, github: GitHub) -> None:
    with pytest.raises(GitHubError) as reported:
        CommitTree(github, REPOSITORY, SHA).files(["ciguard.toml"])
    assert reported.value.status == 404


def test_folder_or_oversized_file_is_rejected(server: FakeGitHub, github: GitHub) -> None:
    server.files["ciguard.toml/x", SHA] = b"x"
    with pytest.raises(GitHubError, match="is no plain file there, but a dir"):
        CommitTree(github, REPOSITORY, SHA).files(["ciguard.toml"])
    server.files["big", SHA] = b"x" * 1_000_001
    with pytest.raises(GitHubError, match="at most 1 MB, found file of 1,000,001 bytes"):
        CommitTree(github, REPOSITORY, SHA).files(["big"])
    text = '{"type": "file", "encoding": "base64", "content": "A", "size": 1}'
    server.files["odd", SHA] = b"x"
    server.faults.append(
        Fault(path="/contents/odd", status=200, text=text, content_type="application/json")
    )
    with pytest.raises(GitHubError, match="no base64"):
        CommitTree(github, REPOSITORY, SHA).files(["odd"])


def test_truncated_folder_listing_is_an_error(server: FakeGitHub, github: GitHub) -> None:
    for number in range(1000):
        server.files[f"{number:04}", SHA] = b""
    with pytest.raises(GitHubError, match="does not show all"):
        CommitTree(github, REPOSITORY, SHA).files(["ciguard.toml"])


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ([], [*range(14, 4, -1)]),
        ([1], [1, *range(14, 5, -1)]),
        ([13, 3], [13, 3, 14, *range(12, 5, -1)]),
    ],
)
def test_last_of_the_asked_runs_is_not_decided(
    server: FakeGitHub, github: GitHub, own: list[int], expected: list[int]
) -> None:
    for number in range(1, 15):
        file = "own.yml" if number in own else "other.yml"
        add_run(server, number, path=f".github/workflows/{file}")
    environ = {"GITHUB_WORKFLOW_REF": f"{REPOSITORY}/.github/workflows/own.yml@refs/heads/main"}
    run = ActionsRun.from_environ({**environ, "GITHUB_REPOSITORY": REPOSITORY}, {})
    found = runs_of_base(github, REPOSITORY, "main", ("push",), run=run)
    assert [run.id for run in found] == expected


@pytest.mark.parametrize(
    ("distances", "pushed"),
    [
        ({}, set()),
        ({5: 3, 6: 2, 7: 2, 8: 0}, {5, 6, 7, 8}),  # 7 ran the commit of 6 again
        ({5: 3, 6: 1, 7: 3, 8: 1}, {5, 6, 8}),  # 7 is of a tag on an old commit
        ({5: 2, 6: None, 7: 1}, {5, 7}),  # 6 is of a commit that is on no branch
        ({7: 4}, {7}),
    ],
)
def test_runs_of_a_tag_are_none_of_the_branch(
    distances: dict[int, int | None], pushed: set[int]
) -> None:
    assert pushed_runs(distances) == pushed
