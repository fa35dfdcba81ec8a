"""`ciguard serve check --repair`: what is damaged is named, and made again."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import call_in_process
from guard.fixtures import World
from serve.fake_runs import failing_world, of_pull_request
from serve.work.judging import Scene, scene, server, service

from ciguard.serve.objects import FolderStore
from ciguard.serve.service import Service
from ciguard.serve.state import work_list
from ciguard.serve.state.run_key import RunKey

KEY = RunKey(1, 7, 1)

__all__ = ["scene", "server", "service"]


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


def waiting(service: Service) -> list[RunKey]:
    with service.database.read() as connection:
        return [one.key for one in work_list.unfinished(connection, [1])]


def judge_with_a_dead_leg(scene: Scene) -> None:
    """Run 7: one test failed, and one leg left no record."""
    world = failing_world()
    del world.legs["02"]
    scene.upload(world, 7, **of_pull_request())
    row = scene.judge(7)
    assert (row.verdict, row.missing > 0) == ("incomplete", True)


@pytest.mark.parametrize(
    "also", ["", *(pytest.param(one, marks=pytest.mark.soak) for one in ("artifacts", "answers"))]
)
def test_run_with_damaged_results_is_judged_again(scene: Scene, also: str) -> None:
    judge_with_a_dead_leg(scene)
    before = scene.results()
    assert check(scene.folder).returncode == 0
    damage(scene.service, "results")
    if also:
        damage(scene.service, also)
    found = check(scene.folder)
    assert (found.returncode, "1 damaged" in found.stdout) == (3, True)
    repaired = check(scene.folder, "--repair")
    assert (repaired.returncode, "1 run put back" in repaired.stdout) == (0, True)
    assert waiting(scene.service) == [KEY]
    scene.judge(7)
    assert scene.results() == before
    assert check(scene.folder).returncode == 0


def test_damaged_answer_is_named_and_made_again(scene: Scene) -> None:
    scene.upload(World(), 7, **of_pull_request())
    scene.judge(7)
    damage(scene.service, "answers")
    found = check(scene.folder)
    assert found.returncode == 3
    assert re.search(r"^answers/\S+: the answer of a run is missing", found.stdout, re.MULTILINE)
    assert check(scene.folder, "--repair").returncode == 0
    assert waiting(scene.service) == [KEY]
    scene.judge(7)
    assert check(scene.folder).returncode == 0


def test_run_is_judged_again_from_stored_artifacts_that_expired_at_github(scene: Scene) -> None:
    judge_with_a_dead_leg(scene)
    before = scene.results()
    damage(scene.service, "results")
    damage(scene.service, "answers")
    assert check(scene.folder, "--repair").returncode == 0
    for facts in scene.server.facts.values():
        facts["expired"] = True
    (comment,) = scene.server.bodies()
    scene.judge(7)
    assert scene.results() == before
    assert scene.server.bodies() == [comment]
    assert check(scene.folder).returncode == 0


def test_damaged_history_begins_again_with_the_runs_that_it_lost(scene: Scene) -> None:
    scene.upload(World().ran_as(6), 6)
    scene.judge(6)
    damage(scene.service, "history")
    found = check(scene.folder)
    assert found.returncode == 3
    assert "the stored history is missing or damaged" in found.stdout
    assert check(scene.folder, "--repair").returncode == 0
    assert waiting(scene.service) == [replace(KEY, run_id=6)]
    scene.judge(6)
    history = scene.history().history
    assert [run.run_id for run in history.runs] == [6]
    assert check(scene.folder).returncode == 0
