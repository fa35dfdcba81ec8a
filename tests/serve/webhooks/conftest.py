"""A repository that the service knows, and a client that sends it deliveries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest
from fakegithub.apps import FakeRepository
from fakegithub.deliveries import PATH, FakeDelivery

from ciguard.serve.state import repositories
from ciguard.serve.state.repositories import Repository

if TYPE_CHECKING:
    from httpx import Client, Response

    from ciguard.serve.service import Service


class Send(Protocol):
    """Sends a delivery; headers may be changed or left out (None)."""

    def __call__(self, delivery: FakeDelivery, **headers: str | None) -> Response: ...


@pytest.fixture
def shop(service: Service) -> FakeRepository:
    known = FakeRepository(id=11, full_name="octo-org/shop", private=False)
    with service.database.write() as connection:
        row = Repository(known.id, known.full_name, known.private, "main", installation_id=101)
        repositories.upsert(connection, [row])
    return known


@pytest.fixture
def send(client: Client) -> Send:
    def sent(delivery: FakeDelivery, **headers: str | None) -> Response:
        return client.post(PATH, content=delivery.body, headers=delivery.headers(**headers))

    return sent
