"""Deliveries into PostgreSQL, which others use at the same time, and which may be restarted."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from fakegithub import deliveries
from fakegithub.apps import FakeRepository
from serve.webhooks.conftest import Send

from ciguard.serve.service import Service
from ciguard.serve.state import repositories, schema

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


def count(service: Service, table: sa.Table) -> int:
    with service.database.read() as connection:
        query = sa.select(sa.func.count()).select_from(table)
        return connection.execute(query).scalar_one()


def test_deliveries_of_a_repositorys_life(service: Service, send: Send) -> None:
    api = FakeRepository(id=12, full_name="octo-org/api")
    first = deliveries.workflow_run(api, 7)
    sent = (first, first, deliveries.repository("privatized", api), deliveries.workflow_run(api, 8))
    assert [send(one).status_code for one in sent] == [202] * 4
    assert (count(service, schema.work), count(service, schema.delivery)) == (2, 3)
    send(deliveries.repositories_removed(api))
    send(deliveries.workflow_run(api, 9))
    assert count(service, schema.work) == 2
    with service.database.read() as connection:
        assert [one.id for one in repositories.removed(connection)] == [12]


def test_restarted_database_loses_no_delivery(
    service: Service, shop: FakeRepository, send: Send
) -> None:
    send(deliveries.workflow_run(shop, 1))
    with service.database.write() as connection:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
        mine = "current_database() AND pid <> pg_backend_pid()"
        connection.execute(sa.text(others + mine))
    assert send(deliveries.workflow_run(shop, 2)).status_code == 202
    assert count(service, schema.work) == 2
