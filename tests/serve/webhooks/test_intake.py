"""What the service answers to a delivery, and what it is then sure to know; in any order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlalchemy as sa
from fakegithub import deliveries
from fakegithub.apps import FakeRepository
from fakegithub.deliveries import PATH, FakeDelivery, workflow_run
from httpx import Client
from serve.webhooks.conftest import Send

from ciguard.serve.service import Service
from ciguard.serve.state import repositories, schema
from ciguard.serve.state.repositories import Repository
from ciguard.serve.webhooks import BODY_BYTES, has_received
from ciguard.serve.work.reconcile import RECONCILED

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
RECORDED = Path(__file__).parents[2] / "samples/recorded/webhooks"


def work_keys(service: Service) -> list[tuple[int, int, int]]:
    with service.database.read() as connection:
        work = schema.work.c
        query = sa.select(work.repository_id, work.run_id, work.run_attempt)
        return sorted(map(tuple, connection.execute(query).all()))


def count_deliveries(service: Service) -> int:
    with service.database.read() as connection:
        return connection.execute(sa.select(sa.func.count(schema.delivery.c.id))).scalar_one()


def test_completed_run_is_work(service: Service, shop: FakeRepository, send: Send) -> None:
    answer = send(workflow_run(shop, 7, attempt=2))
    assert (answer.status_code, answer.text) == (202, "accepted\n")
    assert work_keys(service) == [(11, 7, 2)]


def test_repeated_delivery_counts_once(service: Service, shop: FakeRepository, send: Send) -> None:
    delivery = workflow_run(shop, 7)
    assert [send(delivery).status_code for _ in range(3)] == [202] * 3
    assert send(workflow_run(shop, 7)).status_code == 202  # GitHub's "redeliver" of another hook
    assert count_deliveries(service) == 2
    assert work_keys(service) == [(11, 7, 1)]


@pytest.mark.parametrize(
    "delivery",
    [
        FakeDelivery("ping", {"zen": "Keep it logically awesome.", "hook_id": 1}),
        FakeDelivery("marketplace_purchase", {}, content=b"\xff"),
        workflow_run(FakeRepository(11, "octo-org/shop"), 7, action="requested"),
        workflow_run(FakeRepository(11, "octo-org/shop"), 7, action="in_progress"),
        FakeDelivery("repository", {"action": "starred"}),
    ],
    ids=["ping", "unknown", "requested", "in_progress", "another action"],
)
def test_what_does_not_matter_is_ignored(
    service: Service, shop: FakeRepository, send: Send, delivery: FakeDelivery
) -> None:
    answer = send(delivery)
    assert answer.status_code == 202
    assert answer.text.startswith("ignored: ")
    assert count_deliveries(service) == 0
    assert work_keys(service) == []


DEEP = b'{"action":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"action": "completed", "workfl', "EOF while parsing"),
        (DEEP, "recursion limit"),
        (b'{"action": "\xff"}', "invalid unicode"),
        ('{"action": "completed"}'.encode("utf-16"), "expected value"),
        (b"[]", "should be an object"),
        (b"", "not as GitHub's: Invalid JSON: EOF while parsing"),
        (b'{"action": "completed", "workflow_run": {"id": "x"}}', "workflow_run.id"),
        (b'{"action": "completed"}', "not what workflow_run completed is about"),
    ],
    ids=["cut", "deep", "latin-1", "utf-16", "list", "empty", "another type", "no run"],
)
def test_malformed_body_is_refused_in_words(
    service: Service, send: Send, content: bytes, words: str
) -> None:
    answer = send(FakeDelivery("workflow_run", {}, content=content))
    assert answer.status_code == 400
    assert words in answer.text
    assert count_deliveries(service) == 0


@pytest.mark.parametrize(
    "signature", ["sha256=" + "0" * 64, "sha1=7d38cdd689735b008b3c702edd92eea23791c5f6", "sha256="]
)
def test_forged_delivery_is_refused(
    service: Service, shop: FakeRepository, send: Send, signature: str
) -> None:
    assert send(workflow_run(shop, 7), x_hub_signature_256=signature).status_code == 401
    refused = send(FakeDelivery("ping", {}, secret="another"))
    assert refused.status_code == 401
    assert "CIGUARD_WEBHOOK_SECRET" in refused.text
    assert work_keys(service) == []


@pytest.mark.parametrize("name", ["x_github_event", "x_github_delivery", "x_hub_signature_256"])
def test_missing_header_is_named(shop: FakeRepository, send: Send, name: str) -> None:
    answer = send(workflow_run(shop, 7), **{name: None})
    assert answer.status_code == 400
    assert name.replace("_", "-") in answer.text.lower()


def test_delivery_id_that_no_column_holds_is_refused(shop: FakeRepository, send: Send) -> None:
    assert send(workflow_run(shop, 7), x_github_delivery="x" * 65).status_code == 400


@pytest.mark.parametrize(
    ("number", "run", "attempt"), [(2**63, 1, 1), (11, 2**63, 1), (11, 1, 2**31)]
)
def test_number_that_no_column_holds_is_refused(
    service: Service, send: Send, number: int, run: int, attempt: int
) -> None:
    shop = FakeRepository(id=number, full_name="octo-org/shop")
    answer = send(workflow_run(shop, run, attempt=attempt))
    assert (answer.status_code, work_keys(service)) == (400, [])


def test_form_is_refused_with_what_to_change(shop: FakeRepository, send: Send) -> None:
    form = "application/x-www-form-urlencoded"
    assert send(FakeDelivery("ping", {}), content_type=form).status_code == 415
    answer = send(workflow_run(shop, 7), content_type=form)
    assert answer.status_code == 415
    assert "application/json" in answer.text


def test_body_over_the_cap_is_refused(client: Client) -> None:
    delivery = FakeDelivery("ping", {}, content=b"x" * (BODY_BYTES + 1))
    assert client.post(PATH, content=delivery.body).status_code == 413
    pieces = iter([delivery.body])  # so that no length is announced
    assert client.post(PATH, content=pieces, headers=delivery.headers()).status_code == 413


def test_recorded_webhooks_are_accepted(service: Service, send: Send) -> None:
    paths = sorted(RECORDED.glob("*.json"))
    for path in paths:
        event = path.name.partition(".")[0]
        delivery = FakeDelivery(event, {}, content=path.read_bytes())
        answer = send(delivery)
        action = json.loads(path.read_bytes()).get("action")
        is_handled = (event, action) == ("workflow_run", "completed")
        assert (answer.status_code, answer.text.startswith("ignored")) == (202, not is_handled), (
            path.name
        )
    assert len(paths) == 8
    # Their repositories are those of no installation, and of no --repo.
    assert work_keys(service) == []


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
    send(workflow_run(api, 7, installation=102))
    assert known(service, 12) == repositories.Repository(12, "octo-org/api", True, "trunk", 102)
    assert len(lanes(service)) == 1


def test_run_of_a_repository_that_nobody_named_is_ignored(service: Service, send: Send) -> None:
    send(workflow_run(FakeRepository(id=12, full_name="o/api"), 7, installation=None))
    assert known(service, 12) is None
    assert lanes(service) == set()


def test_privatized_repository_is_private_at_once(
    service: Service, shop: FakeRepository, send: Send
) -> None:
    send(deliveries.repository("privatized", shop))
    send(workflow_run(shop, 7))  # was sent before, and still says "public"
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
    send(workflow_run(shop, 1, head_branch="fix", pull_requests=[{"number": 3}]))
    send(workflow_run(shop, 2, head_branch="fix"))
    assert len(lanes(service)) == 1
    send(workflow_run(shop, 3, head_branch="fix", head_repository=fork))
    send(workflow_run(shop, 4, head_branch="fix", head_repository=None))
    send(workflow_run(shop, 5, head_branch="fix", path=".github/workflows/lint.yml"))
    assert len(lanes(service)) == 4
