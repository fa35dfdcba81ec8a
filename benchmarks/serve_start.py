"""How soon `ciguard serve` answers after its start, and the memory of its two processes.

    .venv/bin/python benchmarks/serve_start.py [--rounds 5] [--checkout DIR]

Starts the service with SQLite and a folder: an empty one, and one with two repositories of 34 runs
with 156 results each. Seconds are of wall, from the start of the process to the answers of /readyz
and of the first page; CPU seconds are of web and worker process together until then. Then it asks
for each page 20 times, by four clients at once. Memory in MB: RSS, and PSS, which has of what
processes share only their part. The bytecode of all modules is compiled before.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from serve.pages.conftest import ENVIRON, opened_site
from serve.pages.filled import NEWEST, SHOP
from serve.web_process import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE_S: Final = 120.0
TIMES: Final = 20
CLIENTS: Final = 4
OF_SHOP: Final = f"/{SHOP.full_name}"
RUN: Final = f"{OF_SHOP}/runs/{NEWEST - 3}/1"
PAGES: Final = (
    *("/", "/work", OF_SHOP, RUN, f"{RUN}?sort=-wall", f"{RUN}.json", f"{RUN}/comparison"),
    *(f"{OF_SHOP}/tests?suite=unit&variant=py311&unit=a.py::sometimes",),
    *(f"{OF_SHOP}/offenders", f"{OF_SHOP}/flaky"),
)
TICKS_S: Final = os.sysconf("SC_CLK_TCK")


class Start(NamedTuple):
    """Of one start; memory by process, the web process first, as (RSS, PSS)."""

    ready_s: float
    page_s: float
    cpu_s: float
    memory: tuple[tuple[float, float], ...]


def processes(pid: int) -> list[int]:
    """A process and its children."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *sorted(int(child) for path in found for child in path.read_text().split())]


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_S


def memory_mb(pid: int) -> tuple[float, float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return kilobytes["Rss"] / 1024, kilobytes["Pss"] / 1024


@contextlib.contextmanager
def started(checkout: Path, folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    environ = {**os.environ, **ENVIRON, "PYTHONPATH": str(checkout)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "ciguard", "serve", "--port", str(port), "--repo", "o/r"]
    with (folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, env=environ, stderr=log)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)


def wait_ready(client: httpx.Client) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if client.get("/readyz").is_success:
                return
        time.sleep(0.005)
    raise TimeoutError


def measure(checkout: Path, folder: Path, pages: tuple[str, ...]) -> Start:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=address, trust_env=False, timeout=DEADLINE_S) as client:
        begin_s = time.monotonic()
        with started(checkout, folder, port) as process:
            wait_ready(client)
            ready_s = time.monotonic() - begin_s
            client.get("/").raise_for_status()
            page_s = time.monotonic() - begin_s
            used_s = sum(map(cpu_s, processes(process.pid)))
            with ThreadPoolExecutor(CLIENTS) as pool:
                for answer in pool.map(client.get, pages * TIMES):
                    answer.raise_for_status()
            memory = tuple(map(memory_mb, processes(process.pid)))
    return Start(ready_s, page_s, used_s, memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--checkout",
        type=Path,
        action="append",
        help="of the ciguard that is started; repeatable: they take turns",
    )
    given = parser.parse_args()
    checkouts = given.checkout or [Path(__file__).parents[1]]
    with contextlib.ExitStack() as stack:
        filled = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with opened_site(filled, runs=34):
            pass
        found: dict[tuple[Path, str], list[Start]] = {}
        for number in range(given.rounds + 1):  # the first one compiles
            for checkout in checkouts:
                with tempfile.TemporaryDirectory() as empty:
                    starts = {
                        "empty": measure(checkout, Path(empty), ("/", "/work")),
                        "results": measure(checkout, filled, PAGES),
                    }
                for name, start in starts.items():
                    if number:
                        found.setdefault((checkout, name), []).append(start)
    print(f"{'':34} {'/readyz':>8} {'/':>8} {'worst':>8} {'CPU':>6}   RSS (PSS) of web, worker")
    for (checkout, name), starts_of in found.items():
        ready, page, used = (
            statistics.median(column) for column in list(zip(*starts_of, strict=True))[:3]
        )
        worst = max(one.page_s for one in starts_of)
        most = max(one.memory for one in starts_of)
        memory = ", ".join(f"{rss:.0f} ({pss:.0f})" for rss, pss in most)
        title = f"{name} {checkout.name if len(checkouts) > 1 else ''}"
        print(f"{title:34} {ready:8.2f} {page:8.2f} {worst:8.2f} {used:6.2f}   {memory}")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}, cores: {os.cpu_count()}")


if __name__ == "__main__":
    main()
