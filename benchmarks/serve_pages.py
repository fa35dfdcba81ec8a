"""How long the pages take, over real HTTP on loopback, alone and beside other readers.

    .venv/bin/python benchmarks/serve_pages.py [--readers 4] [--repositories 10000]

One run has 100,000 results of 64 shards, its repository 34 more runs of 156; the database knows
10,000 repositories, half of them private, with 200,000 runs, half of them of other workflows.
Readers ask for one page after the other meanwhile. Queries over 10^8 results are measured by
serve_results.py.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from loopback import serving
from serve.pages.conftest import opened_site
from serve.pages.filled import NEWEST, SHOP, Site, make_answer, make_run
from stored_results import row

from ciguard.serve import stored_answers
from ciguard.serve.application import build_application
from ciguard.serve.results.rows import RunResults
from ciguard.serve.state import repositories, run_rows, schema
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.serve.results.rows import ResultRow
    from ciguard.serve.state.run_rows import RunRow

RUNS: Final = 200_000  # of 10^8 results
BIG: Final = RunKey(SHOP.id, NEWEST + 1000, 1)
RUN: Final = f"/{SHOP.full_name}/runs/{BIG.run_id}/1"
SMALL_RUN: Final = f"/{SHOP.full_name}/runs/{NEWEST - 3}/1"
TEST: Final = f"/{SHOP.full_name}/tests?suite=unit&variant=py311&unit=a.py::sometimes"
PAGES: Final = (
    *(RUN, f"{RUN}?sort=-wall", f"{RUN}?text=file77", f"{RUN}?sort=-peak&page=500"),
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
        run_rows.record_run(connection, replace(run, answer=add_answer(site, run)), [])
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


def read_on(address: str, stop: threading.Event) -> None:
    with httpx.Client(base_url=address, trust_env=False, timeout=60.0) as client:
        while not stop.is_set():
            for page in PAGES:
                client.get(page).raise_for_status()


def measure(client: httpx.Client, page: str, times: int) -> list[float]:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        client.get(page).raise_for_status()
        found.append(1000 * (time.perf_counter() - start))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--repositories", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, opened_site(Path(folder), runs=34) as site:
        add_many(site, given.repositories)
        with (
            serving(build_application(site.service, site.results.read), lifespan="on") as address,
            httpx.Client(base_url=address, trust_env=False, timeout=60.0) as client,
        ):
            for readers in (0, given.readers):
                stop = threading.Event()
                threads = [
                    threading.Thread(target=read_on, args=(address, stop)) for _ in range(readers)
                ]
                for thread in threads:
                    thread.start()
                print(f"{readers} other readers")
                for page in PAGES:
                    found = measure(client, page, 15)
                    middle, most = statistics.median(found), max(found)
                    print(f"  {page[-60:]:60} p50 {middle:6.1f} ms, worst {most:6.1f} ms")
                stop.set()
                for thread in threads:
                    thread.join()


if __name__ == "__main__":
    main()
