"""A service that hands out blocks of a run, as small as can be, and with every fault."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, Literal, cast

Fault = Literal["", "slow", "trickle", "hang_up", "cut", "error", "garbage", "redirect", "large"]
LATE_S = 2.5
# The program of a leg as it is, but that a machine which runs all tests at once may be slow.
PATIENT = (
    sys.executable,
    "-c",
    "from ciguard.run import claim_client; claim_client.PATIENCE_S = 30.0; "
    "from ciguard.run.__main__ import main; main()",
)


@dataclass
class ClaimService:
    """What is free, who has what, and all that was asked.

    Attributes:
        free: blocks in the order in which they are given out.
        fault: of the answers to questions, until it is another.
        requests: method, path below the run, body and bearer token.
    """

    free: list[str] = field(default_factory=list)
    taken: Mapping[str, Any] = field(default_factory=dict)
    held: Sequence[str] = ()
    fault: Fault = ""
    address: str = ""
    unconfirmed: str = ""
    requests: list[tuple[str, str, Mapping[str, Any], str]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)
    stopped: Event = field(default_factory=Event)

    def states(self) -> list[str]:
        return [body["state"] for _, path, body, _ in self.requests if path == "claims"]

    def confirmed(self) -> list[str]:
        paths = [path for method, path, _, _ in self.requests if method == "PUT"]
        return [path.rpartition("/")[2] for path in paths]

    def answer(self, state: str) -> bytes:
        with self.lock:
            if state == "asks" and not self.unconfirmed and self.free:
                self.unconfirmed = self.free.pop(0)
            block = self.unconfirmed if state == "asks" else ""
        found = {"block": block or None, "taken": self.taken, "held": list(self.held)}
        return json.dumps(found).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def service(self) -> ClaimService:
        return cast("_Server", self.server).service

    def do_PUT(self) -> None:
        self._note(self._body())
        with self.service.lock:
            if self.path.endswith(f"/{self.service.unconfirmed}"):
                self.service.unconfirmed = ""
        self._reply(204, b"")

    def do_POST(self) -> None:
        body = self._body()
        fault = self.service.fault
        if body["state"] == "asks" or fault in ("slow", "hang_up"):
            if fault == "slow":
                self.service.stopped.wait(LATE_S)
            elif fault:
                self._note({**body, "state": f"fault {body['state']}"})
                self._fail(fault)
                return
        self._note(body)
        self._reply(200, self.service.answer(body["state"]))

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _note(self, body: Mapping[str, Any]) -> None:
        path = self.path.partition("/o/r/runs/")[2].partition("/")[2].partition("/")[2]
        token = (self.headers["Authorization"] or "").replace("Bearer ", "")
        self.service.requests.append((self.command, path or self.path, body, token))

    def _fail(self, fault: Fault) -> None:
        if fault == "error":
            self._reply(500, b"{}")
        elif fault == "garbage":
            self._reply(200, b"\xff{")
        elif fault == "redirect":
            self._reply(302, b"", location=f"{self.service.address}/elsewhere")
        elif fault == "large":
            self._reply(200, b" " * (1 << 17) + self.service.answer("begins"))
        elif fault == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b'{"block": null, "taken": [], "held": []}')
            self.close_connection = True
        elif fault == "trickle":
            self.send_response(200)
            self.end_headers()
            for _ in range(40):
                self.wfile.write(b" ")
                self.service.stopped.wait(0.1)
        self.close_connection = True

    def _reply(self, status: int, content: bytes, location: str = "") -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: a leg that has given up is no news."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    service: ClaimService

    def handle_error(self, *_: object) -> None:
        """Nothing, likewise."""


@contextmanager
def claim_service(*free: str, **values: Any) -> Iterator[ClaimService]:
    """The service while the block runs."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.service = ClaimService(list(free), **values)
        server.service.address = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server.service
        finally:
            server.service.stopped.set()
            server.shutdown()
            thread.join(10)
