"""Real git around a history: clones, a server that speaks smart HTTP, and small histories."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from ciguard.history.branch_store import BranchStore
from ciguard.history.file import History
from ciguard.history.ingest import history_of
from ciguard.history.stores import open_store
from ciguard.model import EndLine, Record, Result, ShardLine

NAME = "ciguard-history"
PLACE = f"branch:{NAME}"


def environment(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "no_proxy": "*",
    }


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost.invalid")
    done = subprocess.run(
        ["git", *who, *words],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def one(run_id: int, unit: str = "a.py::t") -> History:
    """A history of one run with one value, an hour later than that of the run before."""
    at = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=run_id)
    header = ShardLine(run_id=run_id, shard="01", plan_id="p", started_at=at.isoformat())
    results = (Result(unit, "passed", wall_s=float(run_id)),)
    return history_of([Record("r", header, results=results, end=EndLine("completed"))])


def ids(history: History) -> list[int]:
    return [run.run_id for run in history.runs]


def clone(origin: Path, name: str, *words: str) -> Path:
    """Shallow, as a checkout action makes it."""
    folder = origin.parent / name
    how = words or ("--depth=1",)
    git(origin.parent, "clone", "--quiet", *how, origin.as_uri(), str(folder))
    return folder


def branch(folder: Path) -> BranchStore:
    store = open_store(PLACE, folder, environment(folder.parent))
    assert isinstance(store, BranchStore)
    return store


class SmartHttp(BaseHTTPRequestHandler):
    """git's own server program, behind GitHub's rules: all may read, a good token may write."""

    root: ClassVar[str]
    faults: ClassVar[list[int]]  # statuses that the next requests get, whatever they ask
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        if self.faults:
            self._refuse(self.faults.pop(0))
            return
        output = self.headers.get("Authorization", "")
        if "git-receive-pack" in self.path and output != WRITER:
            self._refuse(403 if output else 401)
            return
        address = urlsplit(self.path)
        given = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        done = subprocess.run(
            ["git", "-c", "http.receivepack=true", "http-backend"],
            input=given,
            capture_output=True,
            check=False,
            env={
                **environment_of_server(),
                "GIT_PROJECT_ROOT": self.root,
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REQUEST_METHOD": self.command,
                "PATH_INFO": address.path,
                "QUERY_STRING": address.query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "CONTENT_LENGTH": str(len(given)),
            },
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if line]
        status = next((text for name, text in fields if name == "Status"), "200 OK")
        self.send_response(int(status.split()[0]))
        for name, text in fields:
            if name != "Status":
                self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self, status: int) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="GitHub"')
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"Write access to repository not granted.\n" if status == 403 else b"")

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


# "x-access-token:good", as a token is shown to GitHub.
WRITER = "basic eC1hY2Nlc3MtdG9rZW46Z29vZA=="


def environment_of_server() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": os.devnull}


@contextmanager
def serving(origin: Path, faults: list[int] | None = None) -> Iterator[str]:
    """The folder of a bare repository over HTTP; gives the server's address."""
    made = {"root": str(origin.parent), "faults": faults if faults is not None else []}
    handler = type("ThisServer", (SmartHttp,), made)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
