"""The web part of the service as a process of its own, which can be killed."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from conftest import clean_environment
from fakegithub.deliveries import WEBHOOK_SECRET

DEADLINE_S: Final = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def web_process(database: str, results: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that listens; it is killed at the end of the block, if it has not been before."""
    words = ("--database", database, "--results", str(results), "--cache", f"{results}.cache")
    command = [sys.executable, "-m", "ciguard", "serve", "--role", "web", "--port", str(port)]
    environ = clean_environment(CIGUARD_WEBHOOK_SECRET=WEBHOOK_SECRET)
    with subprocess.Popen([*command, *words], env=environ) as process:
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
