"""`ciguard serve check --repair`: what is damaged is named, and made again."""

from __future__ import annotations

import contextlib
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import call_in_process
from fakegithub.state import FakeGitHub
from guard.fixtures import World
from serve.fake_runs import failing_world, of_pull_request, upload
from serve.work.judging import judge, server, service

from ciguard.history.stores import load
from ciguard.serve.history_objects import ObjectHistory
from ciguard.serve.object_cache import ObjectCache
from ciguard.serve.objects import FolderStore
from ciguard.serve.results.queries import parse_filters
from ciguard.serve.results.read_model import CasePage, ReadModel
from ciguard.serve.service import Service
from ciguard.serve.state import work_list
from ciguard.serve.state.run_key import RunKey

KEY = RunKey(1, 7, 1)

__all__ = ["server", "service"]


def check(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return call_in_process("serve", "check", *options, cwd=tmp_path)


def damage(service: Service, prefix: str) -> None:
    """Flip a bit of each object of a kind."""
    assert isinstance(service.objects, FolderStore)
    names = [one.name for one in service.objects.list(prefix)]
    assert names
    for name in names:
        path = service.objects.local_path(name)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)


def shown(service: Service, tmp_path: Path) -> CasePage:
    with (
        contextlib.closing(ObjectCache(service.objects, tmp_path / "read")) as cache,
        contextlib.closing(ReadModel(service.database, cache)) as read,
    ):
        answer = read.run_page(KEY, parse_filters({}))
    assert answer.missing_runs == ()
    return answer.value


def waiting(service: Service) -> list[RunKey]:
    with service.database.read() as connection:
        return [one.key for one in work_list.unfinished(connection)]


def judge_with_a_dead_leg(service: Service, server: FakeGitHub, tmp_path: Path) -> None:
    """Run 7: one test failed, and one leg left no record."""
    world = failing_world()
    del world.legs["02"]
    upload(server, world, 7, **of_pull_request())
    row = judge(service, tmp_path, 7)
    assert (row.verdict, row.missing > 0) == ("incomplete", True)


@pytest.mark.parametrize(
    "also", ["", *(pytest.param(one, marks=pytest.mark.soak) for one in ("artifacts", "answers"))]
)
def test_run_with_damaged_results_is_judged_again(
    service: Service, server: FakeGitHub, tmp_path: Path, also: str
) -> None:
    judge_with_a_dead_leg(service, server, tmp_path)
    before = shown(service, tmp_path)
    assert check(tmp_path).returncode == 0
    damage(service, "results")
    if also:
        damage(service, also)
    found = check(tmp_path)
    assert (found.returncode, "1 damaged" in found.stdout) == (3, True)
    repaired = check(tmp_path, "--repair")
    assert (repaired.returncode, "1 run put back" in repaired.stdout) == (0, True)
    assert waiting(service) == [KEY]
    judge(service, tmp_path, 7)
    assert shown(service, tmp_path) == before
    assert check(tmp_path).returncode == 0


def test_damaged_answer_is_named_and_made_again(
    service: Service, server: FakeGitHub, tmp_path: Path
) -> None:
    upload(server, World(), 7, **of_pull_request())
    judge(service, tmp_path, 7)
    damage(service, "answers")
    found = check(tmp_path)
    assert found.returncode == 3
    assert re.search(r"^answers/\S+: the answer of a run is missing", found.stdout, re.MULTILINE)
    assert check(tmp_path, "--repair").returncode == 0
    assert waiting(service) == [KEY]
    judge(service, tmp_path, 7)
    assert check(tmp_path).returncode == 0


def test_run_is_judged_again_from_stored_artifacts_that_expired_at_github(
    service: Service, server: FakeGitHub, tmp_path: Path
) -> None:
    judge_with_a_dead_leg(service, server, tmp_path)
    before = shown(service, tmp_path)
    damage(service, "results")
    damage(service, "answers")
    assert check(tmp_path, "--repair").returncode == 0
    for facts in server.facts.values():
        facts["expired"] = True
    (comment,) = server.bodies()
    judge(service, tmp_path, 7)
    assert shown(service, tmp_path) == before
    assert server.bodies() == [comment]
    assert check(tmp_path).returncode == 0


def test_damaged_history_begins_again_with_the_runs_that_it_lost(
    service: Service, server: FakeGitHub, tmp_path: Path
) -> None:
    upload(server, World().ran_as(6), 6, event="push", head_branch="main")
    judge(service, tmp_path, 6)
    damage(service, "history")
    found = check(tmp_path)
    assert found.returncode == 3
    assert "the stored history is missing or damaged" in found.stdout
    assert check(tmp_path, "--repair").returncode == 0
    assert waiting(service) == [replace(KEY, run_id=6)]
    judge(service, tmp_path, 6)
    history = load(ObjectHistory(service.database, service.objects, 1)).history
    assert [run.run_id for run in history.runs] == [6]
    assert check(tmp_path).returncode == 0
