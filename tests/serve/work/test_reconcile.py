"""What no webhook told of is found by asking GitHub: runs, and the repositories themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fakegithub.actions import add_artifact, add_run
from fakegithub.apps import (
    APP_ID,
    FakeApp,
    FakeInstallation,
    FakeRepository,
    add_app,
    private_key_pem,
)
from fakegithub.deliveries import WEBHOOK_SECRET
from fakegithub.past_runs import stamp
from fakegithub.server import serving
from fakegithub.state import PRIMARY_LIMIT, FakeGitHub, Fault, Login

from ciguard.errors import UsageError
from ciguard.github.api_errors import GitHubError
from ciguard.github.retry import RetryPolicy
from ciguard.serve import webhooks
from ciguard.serve.github_clients import GitHubClients
from ciguard.serve.objects import open_objects
from ciguard.serve.service import Service
from ciguard.serve.settings import Settings, read_settings
from ciguard.serve.state import lanes, pauses, repositories, schema, work_list
from ciguard.serve.state.database import Database
from ciguard.serve.webhooks import Delivery
from ciguard.serve.work import reconcile as reconcile_module
from ciguard.serve.work.reconcile import LANE, Reconciler, backfill, reconcile

# What differs is in `state`, whose tests have both engines.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
SHOP = "octo-org/shop"
TOKEN = "ghp_of_the_service"


@dataclass
class World:
    """A service, the GitHub that it asks, and what it has come to know."""

    service: Service
    server: FakeGitHub
    shop: FakeRepository
    app: FakeApp
    installation: FakeInstallation

    def add_run(
        self, run_id: int, of: FakeRepository | None = None, *, age_h: float = 1.0, **facts: Any
    ) -> None:
        """A run that was created so many hours ago and took ten minutes; of the shop by default."""
        of = of or self.shop
        created = datetime.now(UTC) - timedelta(hours=age_h)
        facts = {"updated_at": stamp(created + timedelta(minutes=10)), **facts}
        add_run(self.server, run_id, repository={"id": of.id}, created_at=stamp(created), **facts)

    def work(self) -> list[tuple[int, int, int]]:
        columns = schema.work.c
        query = sa.select(columns.repository_id, columns.run_id, columns.run_attempt)
        with self.service.database.read() as connection:
            return sorted(map(tuple, connection.execute(query).all()))

    def names(self) -> list[str]:
        with self.service.database.read() as connection:
            return [one.full_name for one in repositories.active(connection)]

    def asked(self, name: str = SHOP) -> int:
        """How often runs of a repository were asked for."""
        return self.server.request_log().count(f"GET /repos/{name}/actions/runs")

    def set_reconciled(self, ago: timedelta) -> None:
        ago_ms = round(ago.total_seconds() * 1000)
        with self.service.database.write() as connection:
            column = schema.repository.c.reconciled_at_ms
            connection.execute(sa.update(schema.repository).values({column: column - ago_ms}))


@pytest.fixture
def server() -> Iterator[FakeGitHub]:
    with serving() as github:
        github.tokens[TOKEN] = Login(name="service", type="User", may_read_user=True)
        yield github


@pytest.fixture
def open_world(server: FakeGitHub, database: Database, tmp_path: Path) -> Callable[..., World]:
    shop, fake_app = FakeRepository(id=11, full_name=SHOP), add_app(server)
    installation = fake_app.install(shop)

    def opened(*names: str) -> World:
        """With the App; with names, of a token."""
        app = {"CIGUARD_APP_ID": APP_ID, "CIGUARD_APP_KEY": private_key_pem()}
        settings = read_settings(
            {
                "CIGUARD_WEBHOOK_SECRET": WEBHOOK_SECRET,
                "GITHUB_API_URL": server.address,
                **({"CIGUARD_TOKEN": TOKEN} if names else app),
            },
            Settings(database="sqlite://", results=str(tmp_path / "results"), repositories=names),
        )
        objects = open_objects(settings.results, {})
        github = GitHubClients(
            settings, retry_policy=RetryPolicy(attempts=2, first_s=0.0, total_s=5)
        )
        service = Service(settings, database, objects, github)
        return World(service, server, shop, fake_app, installation)

    return opened


@pytest.fixture
def world(open_world: Callable[..., World]) -> World:
    return open_world()


def test_runs_that_no_webhook_told_of_are_added(world: World) -> None:
    world.add_run(1, run_attempt=3)
    world.add_run(2, head_branch="fix")
    world.add_run(3, status="in_progress", conclusion=None)
    assert reconcile(world.service, "one") == 4
    assert world.work() == [(11, 1, 1), (11, 1, 2), (11, 1, 3), (11, 2, 1)]
    assert reconcile(world.service, "one") == 0
    assert world.asked() == 2 + 1  # the first time also for the base branch
    author = world.service.github.author()
    assert author is not None
    assert author.login == "shard-judge[bot]"


def test_runs_of_before_the_service_are_left_to_backfill(world: World) -> None:
    for run in range(1, 6):
        world.add_run(run, age_h=100.0 - run)
    assert reconcile(world.service, "one") == 0
    assert backfill(world.service, "Octo-Org/shop", 3) == 3
    assert [run for _, run, _ in world.work()] == [3, 4, 5]
    with pytest.raises(UsageError, match="not served"):
        backfill(world.service, "octo-org/other", 3)


def test_first_contact_adds_the_past_of_the_base_branch(world: World) -> None:
    for run in range(1, 26):
        world.add_run(run, age_h=900.0 - run)
    world.add_run(26, age_h=90, conclusion="cancelled")
    world.add_run(27, age_h=90, event="pull_request")  # of a fork's main
    world.add_run(28, age_h=90, head_branch="topic")
    world.add_run(29, age_h=90, path=".github/workflows/lint.yml")
    add_artifact(world.server, "ciguard-plan-p-1", b"", run=25)
    world.add_run(30, event="pull_request", head_branch="topic")
    assert reconcile(world.service, "one") == 20 + 1
    assert [run for _, run, _ in world.work()] == [*range(6, 26), 30]
    with world.service.database.write() as connection:
        taken = work_list.take(connection, "one")
        assert work_list.take(connection, "two") is None  # 30 waits for the history
    assert taken is not None
    assert (taken.key.run_id, taken.source) == (6, "backfill")
    assert reconcile(world.service, "one") == 0


def test_run_that_took_long_or_ran_again_is_found(world: World) -> None:
    reconcile(world.service, "one")
    now = stamp(datetime.now(UTC))
    world.add_run(1, age_h=5.9, updated_at=now)
    world.add_run(2, age_h=24 * 20, updated_at=now, run_attempt=2)
    world.add_run(3, age_h=24 * 20)
    world.set_reconciled(timedelta(0))  # a minute ago may be another day, whose pass goes further
    reconcile(world.service, "one")
    assert [run for _, run, _ in world.work()] == [1]
    # The next day.
    world.set_reconciled(timedelta(hours=25))
    reconcile(world.service, "one")
    assert world.work() == [(11, 1, 1), (11, 2, 1), (11, 2, 2)]


def test_time_in_which_the_service_was_down_is_made_up_for(world: World) -> None:
    reconcile(world.service, "one")
    world.add_run(1, age_h=30.0)
    world.add_run(2, age_h=80.0)
    world.set_reconciled(timedelta(hours=48))
    assert reconcile(world.service, "one") == 1
    assert world.work() == [(11, 1, 1)]


def test_more_runs_than_a_list_of_github_holds(world: World) -> None:
    for run in range(1, 1_102):
        world.add_run(run, age_h=5.0 - run / 1000)
    assert reconcile(world.service, "one") == 1_101
    assert world.asked() == 10 + 2 + 1


def test_renamed_transferred_and_privatised_repositories(world: World) -> None:
    world.shop.private = False
    reconcile(world.service, "one")
    world.shop.full_name, world.shop.private = "octo-org/store", True
    reconcile(world.service, "one")
    assert world.names() == ["octo-org/store"]
    world.installation.repositories.remove(world.shop)
    world.shop.full_name = "hexa-org/store"
    other = world.app.install(world.shop)
    world.add_run(5)
    world.set_reconciled(timedelta(hours=2))
    reconcile(world.service, "one")
    with world.service.database.read() as connection:
        (found,) = repositories.active(connection)
    assert (found.full_name, found.installation_id) == ("hexa-org/store", other.id)
    assert found.is_private
    assert world.work() == [(11, 5, 1)]


def test_deleted_and_uninstalled_repositories_are_removed(world: World) -> None:
    world.installation.repositories.append(FakeRepository(id=12, full_name="octo-org/api"))
    reconcile(world.service, "one")
    assert world.names() == ["octo-org/api", SHOP]
    del world.installation.repositories[1]
    reconcile(world.service, "one")
    assert world.names() == [SHOP]
    world.app.installations.clear()
    reconcile(world.service, "one")
    assert world.names() == []
    world.app.install(world.shop)
    reconcile(world.service, "one")
    assert world.names() == [SHOP]


def test_suspended_or_unreachable_installation_keeps_its_repositories(world: World) -> None:
    reconcile(world.service, "one")
    world.installation.suspended_at = "2026-11-26T10:00:00Z"
    reconcile(world.service, "one")
    world.installation.suspended_at = None
    world.server.faults.append(Fault(path="/installation/repositories", times=9))
    reconcile(world.service, "one")
    assert world.names() == [SHOP]


def test_what_a_webhook_says_meanwhile_is_newer(world: World) -> None:
    world.shop.private = False
    reconcile(world.service, "one")

    def privatize(request: Any) -> None:
        if request.path == "/installation/repositories":
            with world.service.database.write() as connection:
                repositories.set_private(connection, world.shop.id)

    world.shop.full_name, world.server.gate = "octo-org/store", privatize
    reconcile(world.service, "one")
    with world.service.database.read() as connection:
        (found,) = repositories.active(connection)
    assert found.is_private


def test_rate_limit_delays_its_installation_only(world: World) -> None:
    second, third = FakeRepository(12, "octo-org/web"), FakeRepository(13, "hexa-org/web")
    world.app.installations[101].repositories.append(second)
    world.app.install(third)
    for run, one in enumerate((world.shop, second, third), 1):
        world.add_run(run, one)
    limit = {"retry-after": "600", "x-ratelimit-remaining": "0"}
    world.server.faults.append(
        Fault(path=f"/repos/{SHOP}/actions/runs", status=403, message=PRIMARY_LIMIT, headers=limit)
    )
    assert reconcile(world.service, "one") == 1
    assert world.work() == [(13, 3, 1)]
    assert world.asked("octo-org/web") == 0
    with world.service.database.read() as connection:
        (pause,) = pauses.current(connection, sa.true())
    assert (pause.repositories, pause.repository) == (2, SHOP)
    assert pause.until_ms - pause.since_ms == 600_000
    assert reconcile(world.service, "one") == 2  # GitHub answers again, which ends the pause
    with world.service.database.read() as connection:
        assert pauses.current(connection, sa.true()) == ()


def test_installation_that_hangs_holds_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile_module, "PASS_S", 0.0)
    other, third = FakeRepository(12, "hexa-org/web"), FakeRepository(13, "octo-org/web")
    world.app.install(other)
    world.app.installations[101].repositories.append(third)
    world.add_run(5, other)

    def hang(request: Any) -> None:
        deadline = time.monotonic() + 20
        while f"/repos/{SHOP}/" in request.path and not world.work():
            assert time.monotonic() < deadline, "the other was not asked for meanwhile"
            time.sleep(0.02)

    world.server.gate = hang
    assert reconcile(world.service, "one") == 1
    # It hung until the pass was over: the rest of it comes with the next one.
    assert (world.asked(), world.asked("octo-org/web")) == (2, 0)
    reconcile(world.service, "one")
    assert (world.asked(), world.asked("octo-org/web")) == (2, 2)


def test_repository_that_cannot_be_listed_hinders_no_other(world: World) -> None:
    second = FakeRepository(12, "octo-org/api")
    world.installation.repositories.append(second)
    world.add_run(1, second)
    world.server.faults.append(
        Fault(path=f"/repos/{SHOP}/actions/runs", status=404, message="Not Found")
    )
    assert reconcile(world.service, "one") == 1


def test_one_process_at_a_time(world: World) -> None:
    world.add_run(1)
    with world.service.database.write() as connection:
        lanes.acquire(connection, LANE, "another")
    assert reconcile(world.service, "one") is None
    with world.service.database.write() as connection:
        lanes.release(connection, LANE, "another")
    assert reconcile(world.service, "one") == 1


def test_process_that_was_killed_at_it_is_replaced(world: World) -> None:
    world.add_run(1)
    now_s = [0.0]
    reconciler = Reconciler(world.service, "one", clock=lambda: now_s[0])
    with world.service.database.write() as connection:
        lanes.acquire(connection, LANE, "killed")
    assert reconciler.reconcile_when_due() == 0
    with world.service.database.write() as connection:
        connection.execute(sa.update(schema.lane).values(until_ms=0))
    now_s[0] = lanes.LEASE_S
    assert reconciler.reconcile_when_due() == 1


def test_turns_go_to_whoever_waits_longest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile_module, "TURNS", 1)
    world.installation.repositories.append(FakeRepository(12, "octo-org/api"))
    for _ in range(4):
        reconcile(world.service, "one")
    assert (world.asked(SHOP), world.asked("octo-org/api")) == (2 + 1, 2 + 1)


def test_fixed_list_of_a_token(open_world: Callable[..., World]) -> None:
    world = open_world(SHOP, "octo-org/old", "octo-org/gone")
    moved = FakeRepository(12, "octo-org/new")
    world.server.repositories += [world.shop, moved, FakeRepository(13, "octo-org/not-named")]
    world.server.moved["octo-org/old"] = moved.id
    world.add_run(1)
    world.add_run(2, moved)
    assert reconcile(world.service, "one") == 2
    assert world.names() == ["octo-org/new", SHOP]


def test_it_is_due_every_five_minutes_and_when_a_webhook_came(world: World) -> None:
    now_s = [1_000.0]
    reconciler = Reconciler(world.service, "one", clock=lambda: now_s[0])

    def asked_after(wait_s: float) -> int:
        now_s[0] += wait_s
        before = world.asked()
        reconciler.reconcile_when_due()
        return world.asked() - before

    assert [asked_after(wait_s) for wait_s in (0, 5, 290, 10, 5)] == [2, 0, 0, 1, 0]
    world.server.faults.append(Fault(path="/app/installations", times=2))
    with pytest.raises(GitHubError):
        asked_after(300)
    assert [asked_after(wait_s) for wait_s in (5, 295)] == [0, 1]
    with world.service.database.write() as connection:
        webhooks.record(connection, [Delivery("1", "workflow_run", "completed", 11)])
    assert asked_after(5) == 0
    with world.service.database.write() as connection:
        webhooks.record(connection, [Delivery("2", "repository", "renamed", 11)])
    tools = FakeRepository(12, "octo-org/tools")
    world.server.repositories.append(tools)
    world.installation.repositories.append(tools)
    assert (asked_after(5), world.asked(tools.full_name)) == (0, 2)
    assert (asked_after(290), world.asked(tools.full_name)) == (1, 3)


def test_backfill_of_one_repository_removes_no_other(open_world: Callable[..., World]) -> None:
    """Its settings name one; those of the service name all."""
    world = open_world(SHOP, "octo-org/tools")
    world.server.repositories += [FakeRepository(11, SHOP), FakeRepository(12, "octo-org/tools")]
    reconcile(world.service, "w")
    assert world.names() == [SHOP, "octo-org/tools"]
    backfill(open_world(SHOP).service, SHOP, 3)
    assert world.names() == [SHOP, "octo-org/tools"]
