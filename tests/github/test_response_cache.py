"""Answers that are kept, and calls that are counted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fakegithub.actions import add_job
from fakegithub.fake_clock import noting
from fakegithub.state import TOKEN, FakeGitHub, Fault
from pydantic import SecretStr

from ciguard.github.api_errors import GitHubError
from ciguard.github.capabilities import repository_facts, required_checks
from ciguard.github.client import GitHub
from ciguard.github.response_cache import CacheFolder, CallBudget, CallLimitReached, ResponseCache
from ciguard.github.retry import RetryPolicy
from ciguard.github.run_client import RunClient

REPOSITORY = "octo-org/shop"


def client(server: FakeGitHub, folder: Path | None, calls: CallBudget) -> GitHub:
    return GitHub(
        server.address,
        SecretStr(TOKEN),
        retry_policy=RetryPolicy(attempts=4, first_s=0.0),
        sleep=noting([]),
        cache=ResponseCache(CacheFolder(folder)),
        calls=calls,
    )


def statuses(server: FakeGitHub) -> list[int]:
    return [one.answer.status for one in server.exchanges]


def test_answer_is_asked_for_by_its_etag(server: FakeGitHub, tmp_path: Path) -> None:
    for _ in range(2):
        with client(server, tmp_path / "kept", CallBudget(10)) as github:
            assert repository_facts(github, REPOSITORY).default_branch == "main"
    assert statuses(server) == [200, 304]


def test_jobs_of_a_run_are_left_to_whoever_reads_them(server: FakeGitHub, tmp_path: Path) -> None:
    add_job(server, "test")
    with client(server, tmp_path, CallBudget(10)) as github:
        assert len(RunClient(github, REPOSITORY, 7).listed_jobs()) == 1
    assert list(tmp_path.iterdir()) == []


def test_answer_that_changed_replaces_the_one_that_is_kept(
    server: FakeGitHub, tmp_path: Path
) -> None:
    server.required_by_rules = ["gate"]
    found = []
    for contexts in (["old"], ["new"], ["new"]):
        server.required_by_protection = contexts
        with client(server, tmp_path, CallBudget(10)) as github:
            found.append(required_checks(github, REPOSITORY, "main"))
    assert found == [{"gate", "old"}, {"gate", "new"}, {"gate", "new"}]
    assert statuses(server) == [200, 200, 304, 200, 304, 304]


@pytest.mark.parametrize("content", ["", "{", "[1]", '["another address", "etag", null, 1, null]'])
def test_damaged_file_is_asked_for_again(server: FakeGitHub, tmp_path: Path, content: str) -> None:
    for _ in range(2):
        with client(server, tmp_path, CallBudget(10)) as github:
            repository_facts(github, REPOSITORY)
        (kept,) = tmp_path.iterdir()
        assert kept.stat().st_mode & 0o077 == 0
        kept.write_text(content, "utf-8")
    assert statuses(server) == [200, 200]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_cannot_be_written_keeps_nothing(server: FakeGitHub, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with client(server, tmp_path / "kept", CallBudget(10)) as github:
        assert repository_facts(github, REPOSITORY).full_name == REPOSITORY


def test_place_that_is_a_file_keeps_nothing(server: FakeGitHub, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("", "utf-8")
    with client(server, tmp_path / "kept", CallBudget(10)) as github:
        assert repository_facts(github, REPOSITORY).full_name == REPOSITORY


def test_calls_end_at_their_limit(server: FakeGitHub) -> None:
    calls = CallBudget(2)
    with client(server, None, calls) as github:
        repository_facts(github, REPOSITORY)
        repository_facts(github, REPOSITORY)
        with pytest.raises(CallLimitReached, match="2 calls are made"):
            repository_facts(github, REPOSITORY)
    assert (calls.used, len(server.exchanges)) == (2, 2)


def test_repeated_request_is_counted(server: FakeGitHub) -> None:
    server.faults.append(Fault(status=502, times=9))
    calls = CallBudget(3)
    with client(server, None, calls) as github, pytest.raises(GitHubError, match="3 calls"):
        repository_facts(github, REPOSITORY)
    assert len(server.exchanges) == 3
