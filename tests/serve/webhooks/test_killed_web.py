"""What was answered with 202 is there, whenever the process was killed; and it is there once."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Final

import httpx
import pytest
import sqlalchemy as sa
from fakegithub.apps import FakeRepository
from fakegithub.deliveries import PATH, FakeDelivery, workflow_run
from serve.web_process import free_port, web_process

from ciguard.serve.state import schema

if TYPE_CHECKING:
    from pathlib import Path

    from ciguard.serve.state.database import Database

KILLS: Final = 25
SHOP: Final = FakeRepository(id=11, full_name="octo-org/shop")
SENDERS: Final = 8


class Senders:
    """Send deliveries, some twice, until they are stopped; what was answered 202 is noted."""

    def __init__(self, port: int, seed: int) -> None:
        self.address = f"http://127.0.0.1:{port}{PATH}"
        self.accepted: dict[str, int] = {}  # by id of a delivery, its run
        self.refused: list[int] = []
        self._random = random.Random(seed)
        self._runs = iter(range(1, 1_000_000))
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._send) for _ in range(SENDERS)]

    def __enter__(self) -> Senders:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for one in self._threads:
            one.join()

    def _send(self) -> None:
        with httpx.Client(trust_env=False, timeout=10.0) as client:
            while not self._stop.is_set():
                run = next(self._runs)
                delivery = workflow_run(SHOP, run)
                for _ in range(self._random.choice((1, 1, 2))):
                    self._post(client, delivery, run)

    def _post(self, client: httpx.Client, delivery: FakeDelivery, run: int) -> None:
        try:
            answer = client.post(self.address, content=delivery.body, headers=delivery.headers())
        except httpx.TransportError:
            self._stop.wait(0.05)  # it is being started again
            return
        if answer.status_code == 202:
            self.accepted[delivery.id] = run
        else:
            self.refused.append(answer.status_code)


@pytest.mark.soak
@pytest.mark.timeout(1_200)
def test_kill_loses_nothing_that_was_accepted(
    database_url: str, database: Database, tmp_path: Path
) -> None:
    port = free_port()
    choose = random.Random(database_url.partition(":")[0])
    with Senders(port, seed=7) as senders:
        for _ in range(KILLS):
            known = len(senders.accepted)
            with web_process(database_url, tmp_path / "results", port) as process:
                wanted = known + choose.randint(1, 200)
                while len(senders.accepted) < wanted:
                    assert process.poll() is None
                    time.sleep(0.005)
    with database.read() as connection:
        delivered = connection.execute(sa.select(schema.delivery.c.id)).scalars().all()
        runs = connection.execute(sa.select(schema.work.c.run_id)).scalars().all()
    assert len(senders.accepted) >= KILLS
    assert senders.accepted.keys() <= set(delivered)
    assert set(senders.accepted.values()) <= set(runs)
    assert len(delivered) == len(set(delivered)) == len(runs) == len(set(runs))
    assert senders.refused == []
    print(f"{len(senders.accepted):,} accepted, {len(delivered):,} written, {KILLS} kills")
