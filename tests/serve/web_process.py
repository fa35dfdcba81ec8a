"""The web part of the service as a process of its own, which can be killed.

    python tests/serve/web_process.py --database URL --results FOLDER --port PORT

The secret of its webhooks is the fake GitHub's.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import uvicorn

if __name__ == "__main__":  # as a program it finds its own folder on the path, not the tests'
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fakegithub.deliveries import WEBHOOK_SECRET

from ciguard.serve.application import build_application
from ciguard.serve.service import open_service
from ciguard.serve.settings import Role, Settings, read_settings

DEADLINE_S: Final = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def web_process(database: str, results: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that listens; it is killed at the end of the block, if it has not been before."""
    command = [sys.executable, __file__, "--database", database, "--results", str(results)]
    with subprocess.Popen([*command, "--port", str(port)]) as process:
        try:
            deadline = time.monotonic() + DEADLINE_S
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield process
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", required=True)
    parser.add_argument("--results", required=True)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    settings = read_settings(
        {"CIGUARD_WEBHOOK_SECRET": WEBHOOK_SECRET},
        Settings(database=given.database, results=given.results, port=given.port, role=Role.WEB),
    )
    with open_service(settings, {}) as service:
        application = build_application(service)
        uvicorn.run(
            application,
            host=settings.host,
            port=settings.port,
            log_level="warning",
            access_log=False,
        )


if __name__ == "__main__":
    main()
