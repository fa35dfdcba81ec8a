"""What housekeeping deletes, and what it leaves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from stored_results import opened_results

from ciguard.serve import raw_archives
from ciguard.serve.service import Service
from ciguard.serve.state import claim_rows, repositories, schema, tokens
from ciguard.serve.state.claim_rows import PlanKey
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.work.worker_process import ARTIFACT_DAYS, CLAIM_DAYS, REMOVED_DAYS, Housekeeping

DAY_MS = 86_400_000
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def keeping(service: Service, tmp_path: Path) -> Iterator[Housekeeping]:
    with opened_results(service.database, service.objects, tmp_path / "cache") as results:
        yield Housekeeping(service, results.cache, results.compactor)


def made_older(service: Service, table: sa.Table, column: str, days: float) -> None:
    with service.database.write() as connection:
        connection.execute(sa.update(table).values({column: table.c[column] - int(days * DAY_MS)}))


def kept(service: Service, key: RunKey) -> str:
    """An archive of a run, stored now."""
    raw_archives.store(service, key, "ciguard-plan", b"zip")
    (stored,) = service.objects.list("artifacts")
    return stored.name


def test_removed_repository_goes_after_a_week(keeping: Housekeeping) -> None:
    service = keeping.service
    with service.database.write() as connection:
        repositories.upsert(connection, [Repository(1, "octo-org/shop", True, "main")])
        token = tokens.create(connection, 1)
        claim_rows.register(connection, PlanKey(RunKey(1, 7, 1), "a"), [], [])
        repositories.remove(connection, [1])
    kept(service, RunKey(1, 7, 1))
    made_older(service, schema.repository, "updated_at_ms", REMOVED_DAYS - 1)
    keeping.clean_up()
    with service.database.read() as connection:
        assert len(repositories.removed(connection)) == 1
        assert tokens.repository_of(connection, token.secret) == 1
        assert connection.execute(sa.select(schema.claim_plan.c.plan)).all() == [("a",)]
    made_older(service, schema.repository, "updated_at_ms", 2)
    keeping.clean_up()
    with service.database.read() as connection:
        assert repositories.removed(connection) == ()
        assert tokens.repository_of(connection, token.secret) is None
        assert connection.execute(sa.select(schema.claim_plan)).all() == []
    assert list(service.objects.list("artifacts")) == []


def test_archives_are_kept_for_a_month_and_claims_as_long_as_a_run(keeping: Housekeeping) -> None:
    service, key = keeping.service, RunKey(1, 7, 1)
    name = kept(service, key)
    with service.database.write() as connection:
        claim_rows.register(connection, PlanKey(key, "a"), [], [])
    for is_kept, artifact_days, claim_days in (
        (True, ARTIFACT_DAYS - 1, CLAIM_DAYS - 1),
        (False, 2, 2),
    ):
        made_older(service, schema.artifact, "stored_at_ms", artifact_days)
        made_older(service, schema.claim_plan, "registered_at_ms", claim_days)
        keeping.clean_up()
        with service.database.read() as connection:
            assert len(raw_archives.of_run(connection, key)) == is_kept
            assert len(connection.execute(sa.select(schema.claim_plan)).all()) == is_kept
        assert [stored.name for stored in service.objects.list("artifacts")] == [name] * is_kept


def test_a_machine_with_a_wrong_clock_deletes_nothing_new(
    keeping: Housekeeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.time()
    keeping.service.objects.put_new("results/arrival/00/new.parquet", b"1")
    monkeypatch.setattr(time, "time", lambda: now_s + 7200.0)
    keeping.clean_up()
    assert len(list(keeping.service.objects.list("results"))) == 1
