"""Runs of five repositories over a month, each with one trouble, judged one after another.

| repository | trouble, from its run on |
|---|---|
| red | `a.t::two` of @octo-org/pay fails since RED |
| flaky | `b.t::three` fails in about 15 % of the runs, without retry |
| slow | every test takes 3 % longer with each of the last CREEP runs |
| full | the shard 02 needs three times its memory since JUMP, and dies of it once |
| lost | two shards of the last runs have no record |
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from fakegithub.actions import TIP, add_run
from fakegithub.state import FakeGitHub
from guard.fixtures import MIB, Leg, World, make_leg, make_plan
from serve.fake_runs import upload_artifacts
from serve.work.judging import judge_job

from ciguard.codec.plan_file import decode, encode
from ciguard.model import EndLine, Pool, ProcessEndLine, Result, Runner, SampleLine
from ciguard.model.record import Line
from ciguard.serve.service import Service
from ciguard.serve.state import repositories, run_rows, work_list
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.work_list import NewWork

NAMES: Final = ("red", "flaky", "slow", "full", "lost")
CREEP: Final = 25
STEP: Final = timedelta(hours=9)
CONFIGURATION: Final = b'[report]\nby = "service"\n[owners]\n"a.t" = ["@octo-org/pay"]\n'
KEYS: Final = ("01", "02", "03")
LIMIT: Final = 900 * MIB


@dataclass(frozen=True)
class Planted:
    """The judged runs of a repository, the oldest first."""

    repository: Repository
    runs: tuple[RunKey, ...]
    shas: tuple[str, ...]
    failed: frozenset[int]


def sha_of(run: int) -> str:
    return f"{run:04d}" * 10


def repository_of(number: int) -> Repository:
    return Repository(number, f"octo-org/{NAMES[number - 1]}", False, "main")


def plant(service: Service, github: FakeGitHub, folder: Path, runs: int) -> dict[str, Planted]:
    """Judge so many runs of main in each repository; the newest are of today."""
    dice = random.Random(46)
    planted = {}
    with service.database.write() as connection:
        repositories.upsert(connection, [repository_of(number) for number in range(1, 6)])
        for number in range(1, 6):
            repositories.set_reconciled(connection, number)
    for number, name in enumerate(NAMES, 1):
        keys, shas, failed = [], [], set()
        for at in range(runs):
            key = RunKey(number, 1000 * number + at, 1)
            sha = sha_of(key.run_id)
            world = make_world(name, at, runs, key.run_id, dice)
            if any(result.outcome == "failed" for result in results_of(world)):
                failed.add(at)
            upload_run(github, world, key, sha, runs - at)
            judge_run(service, folder, key)
            keys.append(key)
            shas.append(sha)
        planted[name] = Planted(repository_of(number), tuple(keys), tuple(shas), frozenset(failed))
    return planted


def make_world(name: str, at: int, runs: int, run: int, dice: random.Random) -> World:
    """The records of one run: its noise, and the trouble of its repository."""
    pools = {"default": Pool("ubuntu-latest", 4, 16384 * MIB, usd_per_minute=0.008)}
    plan = make_plan(pools=pools)
    shards = tuple(replace(shard, budget_bytes=LIMIT) for shard in plan.shards)
    plan = decode(encode(replace(plan, id="", shards=shards)), "plan.json")
    slower = 1.03 ** max(0, at - (runs - CREEP) + 1) if name == "slow" else 1.0
    world = World(plan, {key: make_leg(plan, key, run=run) for key in KEYS})
    for key, leg in world.legs.items():
        full = 3.0 if name == "full" and key == "02" and at >= runs * 3 // 4 else 1.0
        leg.header = replace(
            leg.header,
            repository=f"octo-org/{name}",
            head_sha=sha_of(run),
            runner=Runner(pool="default"),
        )
        measure(leg, dice, slower, full)
    if name == "red" and at >= runs - 8:
        world.result("01", "a.t::two", outcome="failed", message=f"assert total == {at}")
    if name == "flaky" and dice.random() < 0.15:
        world.result("01", "b.t::three", outcome="failed", message=f"timeout after {at} ms")
    if name == "full" and at == runs - 3:
        die(world.legs["02"])
    if name == "lost" and at >= runs - 2:
        del world.legs["02"]
    return world


def measure(leg: Leg, dice: random.Random, slower: float, full: float) -> None:
    """Give a shard the times and peaks of a machine that is not always equally fast."""
    ended_s, peak = 0.0, 0
    lines: list[Line] = []
    for line in leg.inner:
        measured: Line = line
        if isinstance(line, Result):
            wall_s = 30.0 * slower * dice.lognormvariate(0.0, 0.05)
            peak_bytes = round(250 * MIB * full * dice.lognormvariate(0.0, 0.02))
            peak, ended_s = max(peak, peak_bytes), ended_s + wall_s
            measured = replace(
                line,
                at_s=ended_s,
                wall_s=wall_s,
                cpu_s=wall_s,
                peak_bytes=peak_bytes,
                measured_by="mark",
            )
        lines.append(measured)
    leg.inner = lines
    leg.own = [_measured(line, ended_s, peak) for line in leg.own]


def _measured(line: Line, ended_s: float, peak_bytes: int) -> Line:
    if isinstance(line, SampleLine):
        return replace(line, tree_bytes=peak_bytes)
    if isinstance(line, ProcessEndLine | EndLine):
        return replace(line, at_s=ended_s + 0.1)
    return line


def die(leg: Leg) -> None:
    """Let the second test of a shard end by its memory."""
    last = [line for line in leg.inner if isinstance(line, Result)][-1]
    leg.inner = [line for line in leg.inner if line is not last]
    died = replace(last, outcome="died", ending="out_of_memory", message="out of memory")
    leg.own = [line for line in leg.own if not isinstance(line, (ProcessEndLine, EndLine))]
    end_s = last.at_s or 0.0
    leg.own += [
        died,
        ProcessEndLine(1, "out_of_memory", -9, end_s),
        EndLine("completed", end_s + 0.1, 10, {"passed": 1, "died": 1}),
    ]


def results_of(world: World) -> list[Result]:
    return [line for leg in world.legs.values() for line in leg.inner if isinstance(line, Result)]


def upload_run(github: FakeGitHub, world: World, key: RunKey, sha: str, left: int) -> None:
    started = datetime.now(UTC) - STEP * left
    times = {
        "created_at": f"{started:%Y-%m-%dT%H:%M:%SZ}",
        "run_started_at": f"{started:%Y-%m-%dT%H:%M:%SZ}",
        "updated_at": f"{started + timedelta(minutes=5):%Y-%m-%dT%H:%M:%SZ}",
    }
    head = {"full_name": repository_of(key.repository_id).full_name}
    add_run(github, key.run_id, head_sha=sha, **times, repository={"id": key.repository_id})
    github.runs[0]["head_repository"] = head
    github.files["ciguard.toml", sha] = CONFIGURATION
    github.merge_bases[f"{TIP}...{sha}"] = sha
    github.behind_by[f"{TIP}...{sha}"] = left
    before = sha_of(key.run_id - 1)
    github.merge_bases[f"{before}...{sha}"] = before
    github.commits_of[f"{before}...{sha}"] = [sha]
    upload_artifacts(github, world, key.run_id)
    for job in github.jobs[-len(world.legs) :]:
        job["head_sha"] = sha


def judge_run(service: Service, folder: Path, key: RunKey) -> None:
    with service.database.write() as connection:
        work_list.add(connection, [NewWork(key, "lane", "webhook")])
        work = work_list.take(connection, "worker")
    assert work is not None
    assert work.key == key
    with judge_job(service, folder) as job:
        job(work, lambda: True)
    with service.database.write() as connection:
        work_list.finish(connection, work)
        assert run_rows.get(connection, key) is not None
