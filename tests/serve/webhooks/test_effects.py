"""What deliveries do to repositories and the work list, in whatever order they come."""

from __future__ import annotations

import pytest
from fakegithub import deliveries
from fakegithub.apps import FakeRepository
from fakegithub.deliveries import FakeDelivery
from serve.webhooks.conftest import Send

from ciguard.serve.service import Service
from ciguard.serve.state import repositories, schema
from ciguard.serve.state.deliveries import has_received
from ciguard.serve.state.repositories import Repository
from ciguard.serve.work.reconcile import RECONCILED

# What differs is in `state`, whose tests have both engines.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def known(service: Service, number: int) -> Repository | None:
    with service.database.read() as connection:
        return repositories.get(connection, number)


def is_asked_for(service: Service) -> bool:
    """Whether GitHub is asked soon what holds."""
    with service.database.read() as connection:
        return has_received(connection, RECONCILED, 0)


def lanes(service: Service) -> set[str]:
    with service.database.read() as connection:
        return set(connection.execute(schema.work.select()).scalars("lane"))


@pytest.mark.parametrize("private", [True, False])
def test_run_makes_its_repository_known_and_never_public(
    service: Service, send: Send, private: bool
) -> None:
    api = FakeRepository(12, "octo-org/api", private, default_branch="trunk")
    send(deliveries.workflow_run(api, 7, installation=102))
    assert known(service, 12) == repositories.Repository(12, "octo-org/api", True, "trunk", 102)
    assert len(lanes(service)) == 1


def test_run_of_a_repository_that_nobody_named_is_ignored(service: Service, send: Send) -> None:
    send(deliveries.workflow_run(FakeRepository(id=12, full_name="o/api"), 7, installation=None))
    assert known(service, 12) is None
    assert lanes(service) == set()


def test_privatized_repository_is_private_at_once(
    service: Service, shop: FakeRepository, send: Send
) -> None:
    send(deliveries.repository("privatized", shop))
    send(deliveries.workflow_run(shop, 7))  # was sent before, and still says "public"
    found = known(service, shop.id)
    assert found is not None
    assert found.is_private


@pytest.mark.parametrize(
    "delivery",
    [
        deliveries.repository("publicized", FakeRepository(11, "octo-org/shop", private=False)),
        deliveries.repository("renamed", FakeRepository(11, "octo-org/other")),
        deliveries.repository("transferred", FakeRepository(11, "hexa-org/shop")),
        deliveries.installation("created"),
        deliveries.installation("unsuspend"),
    ],
    ids=lambda one: str(one.payload["action"]),
)
def test_what_is_given_is_asked_of_github(
    service: Service, shop: FakeRepository, send: Send, delivery: FakeDelivery
) -> None:
    before = known(service, shop.id)
    assert send(delivery).status_code == 202
    assert known(service, shop.id) == before
    assert is_asked_for(service)


def test_runs_of_one_branch_share_a_lane(
    service: Service, shop: FakeRepository, send: Send
) -> None:
    fork = FakeRepository(id=99, full_name="somebody/shop").as_json()
    send(deliveries.workflow_run(shop, 1, head_branch="fix", pull_requests=[{"number": 3}]))
    send(deliveries.workflow_run(shop, 2, head_branch="fix"))
    assert len(lanes(service)) == 1
    send(deliveries.workflow_run(shop, 3, head_branch="fix", head_repository=fork))
    send(deliveries.workflow_run(shop, 4, head_branch="fix", head_repository=None))
    send(deliveries.workflow_run(shop, 5, head_branch="fix", path=".github/workflows/lint.yml"))
    assert len(lanes(service)) == 4
