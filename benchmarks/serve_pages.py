"""How long the pages of `ciguard serve` take, alone and beside other readers.

    .venv/bin/python benchmarks/serve_pages.py [--readers 4] [--repositories 10000]
        [--checkout DIR --checkout DIR]

Milliseconds of wall over HTTP on loopback; service, readers and this are processes of their own.
One run has 100,000 results of 64 shards, its repository 34 more runs of 156; the database knows
10,000 repositories, half of them private, with 200,000 runs, half of them of other workflows.
A browser that sorts, searches or turns a page asks for "#results" alone, one without scripts for
the page. Readers, each with one connection, ask for one page after the other without a pause.
Queries over 10^8 results are measured by serve_results.py.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import fields, replace
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import httpx
import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from serve.pages.conftest import ENVIRON, opened_site
from serve.pages.filled import NEWEST, SHOP, Site, make_answer, make_run
from serve.web_process import free_port
from stored_results import row

from ciguard.serve import stored_answers
from ciguard.serve.pages.visit import PART_HEADER
from ciguard.serve.results.rows import RunResults
from ciguard.serve.state import repositories, run_rows, schema
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.synchronize import Event

    from ciguard.render.pages import RunRow
    from ciguard.serve.results.rows import ResultRow

PATIENCE_S: Final = 120.0  # for the service to start, and for an answer
RUNS: Final = 200_000  # of 10^8 results
BIG: Final = RunKey(SHOP.id, NEWEST + 1000, 1)
RUN: Final = f"/{SHOP.full_name}/runs/{BIG.run_id}/1"
SMALL_RUN: Final = f"/{SHOP.full_name}/runs/{NEWEST - 3}/1"
TEST: Final = f"/{SHOP.full_name}/tests?suite=unit&variant=py311&unit=a.py::sometimes"
PAGES: Final = (
    *(RUN, f"{RUN}?sort=-wall#results", f"{RUN}?text=file77#results"),
    *(f"{RUN}?sort=-peak&page=500#results", f"{RUN}?sort=-wall", f"{RUN}?text=file77"),
    *(f"{RUN}.json", f"{RUN}.csv?size=1000", SMALL_RUN, f"{SMALL_RUN}/comparison", TEST),
    *("/", "/?q=repo77", f"/{SHOP.full_name}", "/work"),
    *(f"/{SHOP.full_name}/offenders", f"/{SHOP.full_name}/flaky"),
)


def big_rows() -> Iterator[ResultRow]:
    for at in range(100_000):
        unit = f"dir{at % 37}/file{at % 997}.py::test_{at}"
        yield row(unit, shard=f"s{at % 64}", wall_s=at * 7919 % 1000 / 100, peak_bytes=at * 1000)


def add_answer(site: Site, run: RunRow) -> str:
    """A verdict of 64 shards."""
    answer = make_answer(run)
    assert answer.verdict is not None
    (first, *_) = answer.verdict["legs"]
    legs = [
        {**first, "shard": f"s{at}", "wall_s": {"predicted": 90, "actual": 80 + at}}
        for at in range(64)
    ]
    content = stored_answers.encode(replace(answer, verdict={**answer.verdict, "legs": legs}))
    name = stored_answers.object_name(run.key, content)
    site.service.objects.put_new(name, content)
    return name


def run_values(run: RunRow, number: int, repositories_count: int) -> dict[str, object]:
    """A row of a run; every second one is of another workflow."""
    values = {one.name: getattr(run, one.name) for one in fields(run) if one.name != "key"}
    place = {"repository_id": 1000 + number % repositories_count, "run_id": number}
    verdict = "foreign" if number % 2 else run.verdict
    return {**values, **place, "run_attempt": 1, "verdict": verdict}


def add_many(site: Site, count: int) -> None:
    now_ms = round(time.time() * 1000)
    with site.service.database.write() as connection:
        run = replace(make_run(SHOP, 0, now_ms), key=BIG)
        run_rows.record_run(connection, replace(run, answer=add_answer(site, run)))
        found = (
            Repository(1000 + at, f"org{at % 50}/repo{at}", is_private=bool(at % 2))
            for at in range(count)
        )
        repositories.upsert(connection, list(found))
        made = [make_run(SHOP, number, now_ms) for number in range(1000)]
        for first in range(0, RUNS, 1000):
            connection.execute(
                sa.insert(schema.run),
                [run_values(one, first + at, count) for at, one in enumerate(made)],
            )
    site.results.writer.write([RunResults(BIG, now_ms, tuple(big_rows()))])


@contextlib.contextmanager
def serving(checkout: Path, folder: Path, log: BinaryIO) -> Iterator[int]:
    """The port of `ciguard serve`, which answers requests and does no work."""
    port = free_port()
    environ = {**os.environ, **ENVIRON, "PYTHONPATH": str(checkout), "NO_PROXY": "*"}
    words = ("serve", "--role", "web", "--port", str(port), "--repo", "o/r")
    command = [sys.executable, "-m", "ciguard", *words]
    with subprocess.Popen(command, cwd=folder, env=environ, stderr=log) as process:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
                deadline = time.monotonic() + PATIENCE_S
                while not is_ready(client):
                    assert process.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
            yield port
        finally:
            process.terminate()


def is_ready(client: httpx.Client) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return client.get("/readyz").is_success
    return False


def get(connection: HTTPConnection, page: str) -> None:
    address, _, part = page.partition("#")
    headers = {PART_HEADER: f"section#{part}"} if part else {}
    connection.request("GET", address, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == HTTPStatus.OK, (page, content)


def read_on(port: int, first: int, stop: Event) -> None:
    """Ask for one page after the other until `stop`; a process of its own."""
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        for page in itertools.islice(itertools.cycle(PAGES), first, None):
            if stop.is_set():
                return
            get(connection, page)


@contextlib.contextmanager
def reading(port: int, readers: int) -> Iterator[None]:
    """Other readers, who begin at different pages, while the block runs."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    others = [
        context.Process(target=read_on, args=(port, at * len(PAGES) // readers, stop))
        for at in range(readers)
    ]
    for one in others:
        one.start()
    try:
        yield
    finally:
        stop.set()
        for one in others:
            one.join()
            assert one.exitcode == 0


def measure(port: int, times: int) -> dict[str, list[float]]:
    """Milliseconds of each page."""
    found: dict[str, list[float]] = {page: [] for page in PAGES}
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        for _ in range(times):
            for page in PAGES:
                start = time.perf_counter()
                get(connection, page)
                found[page].append(1000 * (time.perf_counter() - start))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--repositories", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=15, help="of each page in each of two rounds")
    parser.add_argument(
        "--checkout",
        type=Path,
        action="append",
        help="of the ciguard that serves; repeatable: they take turns",
    )
    given = parser.parse_args()
    checkouts = given.checkout or [Path(__file__).parents[1]]
    found: dict[tuple[Path, int, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile() as log:
        with opened_site(Path(name), runs=34) as site:
            add_many(site, given.repositories)
        for checkout in checkouts * 2:
            with serving(checkout, Path(name), log) as port:
                for readers in (0, given.readers):
                    with reading(port, readers):
                        for page, times in measure(port, given.times).items():
                            found.setdefault((checkout, readers, page), []).extend(times)
    for checkout, readers in itertools.product(checkouts, (0, given.readers)):
        print(f"{checkout.name if len(checkouts) > 1 else ''} {readers} other readers".strip())
        for page in PAGES:
            of_page = found[checkout, readers, page]
            middle, most = statistics.median(of_page), max(of_page)
            print(f"  {page[-60:]:60} p50 {middle:6.1f} ms, worst {most:6.1f} ms")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}, cores: {os.cpu_count()}")


if __name__ == "__main__":
    main()
