"""Runs a service of real processes, and kills one of them at a step that is drawn."""

from __future__ import annotations

import contextlib
import os
import queue
import random
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fakegithub.deliveries import FakeDelivery
from fakegithub.state import FakeGitHub, Request
from serve.fork_server import ForkedProcess, ForkServer, is_alive
from serve.kill_steps import OF_COMPACTOR, REQUESTS, Step, Traces, expire_leases, holders, sender_of

from ciguard.serve.state.database import Database

WORKERS: Final = 2
STEP_S: Final = 20.0  # how long a step may not come
END_S: Final = 240.0  # how long all else may not come, on a machine with much to do
LOOK_S: Final = 0.001
HELD_S: Final = 10.0  # of a request at GitHub


def wait_for(
    has_come: Callable[[], bool],
    what: str,
    state: Callable[[], object] = lambda: "",
    patience_s: float = END_S,
) -> None:
    deadline = time.monotonic() + patience_s
    while not has_come():
        assert time.monotonic() < deadline, f"{what}: {state()}"
        time.sleep(LOOK_S)


@dataclass
class Processes:
    """One web process and two workers, each with its own cache; any may be killed."""

    server: ForkServer
    port: int
    caches: Path
    words: tuple[str, ...]
    web: ForkedProcess = field(init=False)
    workers: list[ForkedProcess] = field(init=False)

    def __post_init__(self) -> None:
        self.web = self._start_web()
        self.workers = [self._start_worker(at) for at in range(WORKERS)]

    def _start_web(self) -> ForkedProcess:
        return self.server.start("web", *self.words, "--role", "web", "--port", str(self.port))

    def _start_worker(self, at: int) -> ForkedProcess:
        name = f"worker-{at}"
        words = ("--role", "worker", "--end-with-input", "--cache", str(self.caches / name))
        return self.server.start(name, *self.words, *words)

    def is_listening(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout=5),
        ):
            return True
        return False

    def revive(self) -> None:
        """Start what has ended by itself, as systemd does: the database was away when it began."""
        if not is_alive(self.web.pid):
            self.web.end(signal.SIGKILL)
            self.web = self._start_web()
        for one in list(self.workers):
            if not is_alive(one.pid):
                one.end(signal.SIGKILL)
                self.start_worker(one.pid)

    def kill_web(self) -> None:
        assert self.web.end(signal.SIGKILL) == -signal.SIGKILL, self.web.log.read_text()
        self.web = self._start_web()

    def kill_worker(self, pid: int) -> None:
        (gone,) = (one for one in self.workers if one.pid == pid)
        assert gone.end(signal.SIGKILL) == -signal.SIGKILL, gone.log.read_text()

    def start_worker(self, pid: int) -> None:
        """Start another in the place of a dead one."""
        at = next(at for at, one in enumerate(self.workers) if one.pid == pid)
        self.workers[at] = self._start_worker(at)

    def stop(self) -> list[int]:
        """End all in order; their exit codes."""
        return [one.end(signal.SIGTERM) for one in (self.web, *self.workers)]

    def compactor(self) -> int | None:
        """The worker that has files of a pair in its own folder."""
        for at, one in enumerate(self.workers):
            with contextlib.suppress(FileNotFoundError):  # it is emptied when one starts
                if any((self.caches / f"worker-{at}").glob("*/scratch/*/by_run.parquet")):
                    return one.pid
        return None

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """No worker goes on in the block."""
        for one in self.workers:
            os.kill(one.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for one in self.workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGCONT)


class Killer:
    def __init__(
        self,
        processes: Processes,
        database: Database,
        github: FakeGitHub,
        traces: Traces,
        choose: random.Random,
    ) -> None:
        self.processes = processes
        self.kills: Counter[Step] = Counter()
        self.missed: Counter[Step] = Counter()
        self._database, self._github, self._traces = database, github, traces
        self._choose = choose
        self._held: queue.Queue[tuple[Request, threading.Event]] = queue.Queue()
        self._wanted: re.Pattern[str] | None = None
        self._lock = threading.Lock()
        self._last_holders: dict[int, int] = {}
        self._last_compactor: int | None = None
        github.gate = self._hold

    def draw(self, kills: int) -> list[Step]:
        """As many steps, each as often as any other or once less, in any order.

        A pair is listed once in sixteen runs or more, so that this is drawn the least.
        """
        drawn = list(Step) * (kills // len(Step))
        often = [one for one in Step if one is not Step.COMPACTED]
        drawn += self._choose.sample(often, kills - len(drawn))
        self._choose.shuffle(drawn)
        return drawn

    def kill_at(self, step: Step) -> bool:
        """Kill whoever does this step of a worker next; False where nobody did in time."""
        deadline = time.monotonic() + STEP_S
        find = self._find_by_request if step in REQUESTS else self._find_by_trace
        while time.monotonic() < deadline:
            pid = find(step, deadline)
            if pid is not None:
                self._bury(pid)
                self.kills[step] += 1
                return True
        self.missed[step] += 1
        return False

    def kill_web_at(
        self, step: Step, one: FakeDelivery, deliver: Callable[[FakeDelivery], object]
    ) -> None:
        """Kill the web process while it gets a delivery, or just after it wrote it."""
        wait_for(self.processes.is_listening, "the web process listens")

        def is_written() -> bool:
            return one.id in self._traces.of(Step.DELIVERED)

        sender = threading.Thread(target=deliver, args=(one,))
        sender.start()
        if step is Step.DELIVERED:
            wait_for(lambda: is_written() or not sender.is_alive(), "the delivery is written")
        else:
            self._let_pass(self._choose.uniform(0.0, 0.01))
        self.processes.kill_web()
        sender.join()
        self.kills[Step.DELIVERED if is_written() else Step.DELIVERY] += 1

    def replace_worker(self) -> None:
        """Start one in the place of another: it asks GitHub for runs before all else."""
        self._bury(self.processes.workers[0].pid)

    def _bury(self, pid: int) -> None:
        """Let the leases of a killed process end, and start another one."""
        self.processes.kill_worker(pid)
        with self._database.write() as connection:
            expire_leases(connection, pid)
        self.processes.start_worker(pid)

    def _find_by_trace(self, step: Step, deadline: float) -> int | None:
        """Kill whoever leaves a trace of this step."""
        known = self._traces.of(step)
        while not (found := self._traces.of(step) - known):
            self._look(step)
            if time.monotonic() > deadline:
                return None
            time.sleep(LOOK_S)
        self._let_pass(self._choose.choice((0.0, 0.0, 0.001, 0.003)))
        with self.processes.frozen():
            pid = self._owner(step, found)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
        return pid

    def _let_pass(self, seconds: float) -> None:
        """Choose the moment of a kill; this waits for nothing."""
        moment = time.monotonic() + seconds
        while time.monotonic() < moment:
            time.sleep(LOOK_S / 4)

    def _look(self, step: Step) -> None:
        """Remember who is at what: a step that ends it leaves nobody."""
        if step is Step.FINISH:
            with self._database.read() as connection:
                self._last_holders |= holders(connection)
        elif step in OF_COMPACTOR:
            self._last_compactor = self.processes.compactor() or self._last_compactor

    def _owner(self, step: Step, found: frozenset[str]) -> int | None:
        """Who is at this step still; None where that is over."""
        living = {one.pid for one in self.processes.workers}
        if step in OF_COMPACTOR:
            self._look(step)
            return self._last_compactor if self._last_compactor in living else None
        with self._database.read() as connection:
            present = holders(connection)
            if step is Step.FINISH:
                present = {**self._last_holders, **present}
            runs = {one: self._traces.runs_of(step, one, connection) for one in found}
        for trace, of_trace in runs.items():
            for run in of_trace:
                pid = present.get(run)
                if pid in living and not self._traces.is_passed(step, trace, run):
                    return pid
        return None

    def _hold(self, request: Request) -> None:
        """Hold a request back that is wanted, until whoever sent it is dead."""
        with self._lock:
            wanted = self._wanted
            if wanted is None or not wanted.fullmatch(f"{request.method} {request.path}"):
                return
            self._wanted = None
        is_over = threading.Event()
        self._held.put((request, is_over))
        is_over.wait(HELD_S)

    def _find_by_request(self, step: Step, deadline: float) -> int | None:
        """Kill whoever sends this request, which GitHub carries out all the same."""
        self._wanted = REQUESTS[step]
        try:
            request, is_over = self._held.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            self._wanted = None
            return None
        try:
            with self._database.read() as connection:
                pid = sender_of(self._github, step, request, connection)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
            return pid
        finally:
            is_over.set()
