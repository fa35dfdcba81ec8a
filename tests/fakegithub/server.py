"""A small GitHub for tests: real HTTP on 127.0.0.1, state in memory, faults on demand.

It knows what ciguard asks: who a token is, a pull request's comments, a run's jobs and what is said
of them, artifacts, commits, issues, checks, an App. As a program it serves
one pull request until it is stopped:

    python tests/fakegithub/server.py --port-file FILE --state-file FILE
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import socket
import struct
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import parse_qs, urlsplit

if __name__ == "__main__":  # as a program it finds its own folder on the path, not its package
    sys.path.insert(0, str(Path(__file__).parents[1]))

from collections.abc import Callable, Iterator

from fakegithub.actions import ACTIONS, add_artifact, add_job, add_run
from fakegithub.apps import APP_ROUTES
from fakegithub.issues_and_checks import ISSUE_AND_CHECK_ROUTES
from fakegithub.sign_in import SIGN_IN_ROUTES
from fakegithub.state import ROUTES, Answer, FakeGitHub, Login, Request

ROUTES.update(ACTIONS)
ROUTES.update(ISSUE_AND_CHECK_ROUTES)
ROUTES.update(APP_ROUTES)
ROUTES.update(SIGN_IN_ROUTES)

RATE_LIMIT = {
    "x-ratelimit-limit": "5000",
    "x-ratelimit-remaining": "4711",
    "x-ratelimit-reset": f"{1 << 34}",
}


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    # An answer is one packet: of two, the second waits 40 ms for what the client does not send.
    wbufsize = -1

    def handle_any(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True  # whoever sent it was killed meanwhile
            return
        request = Request(
            method=self.command,
            path=parts.path.removeprefix(self.server.prefix),
            query={key: values[-1] for key, values in parse_qs(parts.query).items()},
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body,
        )
        github = self.server.github
        fault = github.fault_for(request)
        if fault:
            # An answer held back from a client that hung up is no reason to outlive the test.
            self.server.stopping.wait(fault.delay_s)
        if github.gate:
            github.gate(request)
        answer = github.respond(request, fault)
        if answer.status:
            self.send(answer)
        else:
            self.reset()

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = handle_any

    def send(self, answer: Answer) -> None:
        content = answer.content
        with contextlib.suppress(ConnectionError):  # the client was not willing to wait
            if any(name.lower() == "date" for name in answer.headers):
                self.send_response_only(answer.status)  # its clock is what a test says
            else:
                self.send_response(answer.status)
            given = {name.lower(): value for name, value in answer.headers.items()}
            for name, value in (RATE_LIMIT | given).items():
                self.send_header(name, value)
            if content:
                self.send_header("Content-Type", answer.content_type)
            if answer.status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if answer.cut_bytes is not None:
                self.wfile.write(content[: answer.cut_bytes])
                self.close_connection = True
                return
            self.wfile.write(content)

    def reset(self) -> None:
        """Break the connection as a failing network does: RST instead of FIN."""
        now = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
        self.close_connection = True
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        """Stay quiet: `exchanges` holds more than a log line."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    github: FakeGitHub
    prefix: str
    stopping: threading.Event

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that was killed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def serving(
    *, prefix: str = "", on_change: Callable[[FakeGitHub], None] | None = None
) -> Iterator[FakeGitHub]:
    """Serve until the block ends.

    Args:
        prefix: before each path, as `/api/v3` of GitHub Enterprise Server.
        on_change: called with the state after each change of the comments.
    """
    server = _Server(("127.0.0.1", 0), _Handler)
    server.prefix, server.stopping = prefix, threading.Event()
    server.github = FakeGitHub(f"http://127.0.0.1:{server.server_port}{prefix}", on_change)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.github
    finally:
        server.stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()


def write_aside(path: Path, text: str) -> None:
    """Replace the file at once: its reader polls."""
    aside = path.with_name(f"{path.name}.part")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def stop(*_: object) -> NoReturn:
    """End as on Ctrl-C, so that the blocks around are left in order."""
    raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port-file", type=Path, required=True, help="gets the port, as text")
    parser.add_argument(
        "--state-file", type=Path, required=True, help="gets the comments, as JSON, on each change"
    )
    parser.add_argument("--jobs-file", type=Path, help="jobs of runs, read at each request")
    parser.add_argument("--runs-file", type=Path, help="finished runs, by id, read likewise")
    parser.add_argument("--artifacts", type=Path, help="folder with RUN/NAME/..., read likewise")
    parser.add_argument("--repository", default="octo-org/shop")
    parser.add_argument("--pull-request", type=int, default=1)
    parser.add_argument("--token", default="fake-token", help="that github-actions[bot] comes with")
    given = parser.parse_args()

    def dump(github: FakeGitHub) -> None:
        comments = [comment for _, comment in sorted(github.comments.items())]
        write_aside(given.state_file, json.dumps(comments, indent=1))

    known: set[tuple[str, str, int]] = set()

    def read_artifacts() -> None:
        for folder in sorted(given.artifacts.glob("[0-9]*/*")):
            run, name = folder.parent.name, folder.name
            attempts = given.artifacts.glob(f"attempts/{run}/*/{name}")
            attempt = max((int(path.parent.name) for path in attempts), default=1)
            if (run, name, attempt) not in known:
                known.add((run, name, attempt))
                files = (path for path in folder.rglob("*") if path.is_file())
                content = {str(path.relative_to(folder)): path.read_bytes() for path in files}
                at = f"2026-11-21T{9 + attempt:02}:04:00Z"  # while its job ran
                add_artifact(github, name, content, int(run), created_at=at)

    def read_state(request: Request) -> None:
        if given.artifacts is not None and request.path.endswith("/artifacts"):
            read_artifacts()
        if given.runs_file is not None and given.runs_file.exists():
            github.runs.clear()
            for run, facts in json.loads(given.runs_file.read_text("utf-8")).items():
                add_run(github, int(run), **facts)
        if given.jobs_file is not None and given.jobs_file.exists():
            github.jobs.clear()
            for job in json.loads(given.jobs_file.read_text("utf-8")):
                hour = f"2026-11-21T{9 + job['attempt']:02}"
                start, end = f"{hour}:00:00Z", f"{hour}:05:00Z"
                name, attempt = job["name"], job["attempt"]
                add_job(github, name, attempt=attempt, started_at=start, completed_at=end)
                github.jobs[-1]["run_id"] = job["run_id"]

    signal.signal(signal.SIGTERM, stop)
    with contextlib.suppress(KeyboardInterrupt), serving(on_change=dump) as github:
        github.tokens[given.token] = Login()
        github.pulls.add((given.repository, given.pull_request))
        github.gate = read_state
        dump(github)
        write_aside(given.port_file, github.address.rpartition(":")[2])
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
