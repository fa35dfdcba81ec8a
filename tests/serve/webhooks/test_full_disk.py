"""A full disk: what cannot be written is refused, and nothing of it is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from fakegithub.apps import FakeRepository
from fakegithub.deliveries import workflow_run
from serve.webhooks.conftest import Send
from small_disk import full, small_disk

from ciguard.serve.state import schema
from ciguard.serve.state.database import Database


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "2m") as is_mounted:
        if not is_mounted:
            pytest.skip("no small file system can be mounted")
        yield tmp_path / "disk"


@pytest.fixture
def database_url(disk: Path) -> str:
    return f"sqlite:///{disk / 'ciguard.db'}"


def test_a_full_disk_refuses_and_forgets_deliveries(
    disk: Path, database: Database, shop: FakeRepository, send: Send
) -> None:
    sent = [workflow_run(shop, run) for run in range(1, 9)]
    with full(disk):
        answers = {one.id: send(one).status_code for one in sent}
    assert set(answers.values()) <= {202, 503}
    assert 503 in answers.values()
    with database.read() as connection:
        known = set(connection.execute(sa.select(schema.delivery.c.id)).scalars())
        runs = connection.execute(sa.select(sa.func.count()).select_from(schema.work)).scalar_one()
    assert known == {one for one, status in answers.items() if status == 202}
    assert runs == len(known)
    assert [send(one).status_code for one in sent] == [202] * len(sent)
