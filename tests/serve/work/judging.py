"""A service with one repository at a fake GitHub, and a run of it judged as a worker does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakegithub.server import serving
from fakegithub.state import FakeGitHub, Login
from guard.fixtures import World
from serve.fake_runs import REPOSITORY, open_pull_request, upload
from stored_results import opened_results

from ciguard.history.stores import Loaded, load
from ciguard.render.pages import RunRow
from ciguard.serve import stored_answers
from ciguard.serve.history_objects import ObjectHistory
from ciguard.serve.object_cache import ObjectCache
from ciguard.serve.results.queries import parse_filters
from ciguard.serve.results.read_model import CasePage, ReadModel
from ciguard.serve.service import Service, open_service
from ciguard.serve.settings import Settings, read_settings
from ciguard.serve.state import repositories, run_rows, work_list
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.work_list import NewWork, Source
from ciguard.serve.work.judge_job import JudgeJob

TOKEN = "ghp_TheTokenThatMustStaySecret"


@contextlib.contextmanager
def serving_github() -> Iterator[FakeGitHub]:
    """GitHub with pull request 8."""
    with serving() as github:
        github.tokens[TOKEN] = Login("ciguard-bot", "User", may_read_user=True)
        open_pull_request(github)
        yield github


@pytest.fixture
def server() -> Iterator[FakeGitHub]:
    with serving_github() as github:
        yield github


@pytest.fixture
def service(server: FakeGitHub, tmp_path: Path) -> Iterator[Service]:
    with opened_service(server, tmp_path) as service:
        yield service


@contextlib.contextmanager
def opened_service(
    server: FakeGitHub, tmp_path: Path, public_url: str = "", *, private: bool = False, **more: str
) -> Iterator[Service]:
    """With SQLite and a folder `results`."""
    environ = {
        "CIGUARD_WEBHOOK_SECRET": "of the hook",
        "CIGUARD_TOKEN": TOKEN,
        "GITHUB_API_URL": server.address,
        **more,
    }
    settings = read_settings(
        environ,
        Settings(
            database=f"sqlite:///{tmp_path / 'ciguard.db'}",
            results=str(tmp_path / "results"),
            repositories=(REPOSITORY,),
            public_url=public_url,
        ),
    )
    with open_service(settings, {}) as service:
        with service.database.write() as connection:
            repositories.upsert(connection, [Repository(1, REPOSITORY, private, "main")])
            repositories.set_reconciled(connection, 1)
        yield service


@contextlib.contextmanager
def judge_job(service: Service, tmp_path: Path) -> Iterator[JudgeJob]:
    database, objects = service.database, service.objects
    with opened_results(database, objects, tmp_path / "cache") as results:
        yield JudgeJob(service, results.writer, results.compactor)


@dataclass(frozen=True)
class Scene:
    """A service in a folder, and the GitHub whose runs it judges."""

    service: Service
    server: FakeGitHub
    folder: Path

    def upload(self, world: World, run_id: int, **facts: Any) -> None:
        """A completed run at GitHub; of the default branch, unless it is said otherwise."""
        upload(self.server, world, run_id, **facts or {"event": "push", "head_branch": "main"})

    def judge(self, run_id: int, source: Source = "webhook") -> RunRow:
        return judge(self.service, self.folder, run_id, source)

    def history(self) -> Loaded:
        return load(ObjectHistory(self.service.database, self.service.objects, 1))

    def results(self) -> CasePage:
        """The results of run 7 as its page reads them."""
        with (
            contextlib.closing(ObjectCache(self.service.objects, self.folder / "read")) as cache,
            contextlib.closing(ReadModel(self.service.database, cache)) as read,
        ):
            answer = read.run_page(RunKey(1, 7, 1), parse_filters({}))
        assert answer.missing_runs == ()
        return answer.value


@pytest.fixture
def scene(service: Service, server: FakeGitHub, tmp_path: Path) -> Scene:
    return Scene(service, server, tmp_path)


def judge(service: Service, tmp_path: Path, run_id: int, source: Source = "webhook") -> RunRow:
    row = judge_while(service, tmp_path, run_id, lambda: True, source)
    assert row is not None
    return row


def judge_while(
    service: Service,
    tmp_path: Path,
    run_id: int,
    still_holds: Callable[[], bool],
    source: Source = "webhook",
) -> RunRow | None:
    key = RunKey(1, run_id, 1)
    with service.database.write() as connection:
        work_list.add(connection, [NewWork(key, "lane", source)])
        work_list.retry(connection, key)
        work = work_list.take(connection, "worker")
    assert work is not None
    with judge_job(service, tmp_path) as job:
        job(work, still_holds)
    with service.database.write() as connection:
        work_list.finish(connection, work)
        return run_rows.get(connection, key)


def stored_verdict(service: Service, row: RunRow) -> dict[str, Any]:
    answer = stored_answers.decode(service.objects.read(row.answer), row.answer)
    assert answer.verdict is not None
    return answer.verdict
