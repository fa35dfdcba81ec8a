"""Processes of `ciguard serve` that start in 0.2 s: forks of one that has imported it all.

    python tests/serve/fork_server.py

Each is the real command line in a process of its own, which can be killed. A line of JSON on
standard input starts one or waits for its end; the answer is a line, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

PR_SET_PDEATHSIG: Final = 1  # of linux/prctl.h
# What each would import by itself, the second line at its first request.
IMPORTED: Final = (
    *("ciguard.cli", "ciguard.serve.command"),
    *("httpcore", "anyio._backends._asyncio", "sqlite3"),
)


@dataclass(slots=True)
class ForkedProcess:
    """A process; `feed` is its standard input, whose end it does not survive."""

    pid: int
    feed: int
    log: Path
    server: ForkServer

    def end(self, number: signal.Signals) -> int:
        """Send a signal, and return when the process is no more: its exit code, or -signal."""
        os.kill(self.pid, number)
        os.kill(self.pid, signal.SIGCONT)
        code: int = self.server.ask({"wait": self.pid})
        os.close(self.feed)
        return code


class ForkServer:
    """The server as its clients see it."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder

    def ask(self, request: Mapping[str, Any]) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, name: str, *words: str) -> ForkedProcess:
        """Start `ciguard` with these words; its log is `name`.log, which it appends to."""
        pipe, log = self._folder / f"{name}.input", self._folder / f"{name}.log"
        if not pipe.exists():
            os.mkfifo(pipe)
        pid = self.ask({"start": words, "input": str(pipe), "log": str(log)})
        return ForkedProcess(pid, os.open(pipe, os.O_WRONLY), log, self)


@contextlib.contextmanager
def fork_server(folder: Path, environ: Mapping[str, str]) -> Iterator[ForkServer]:
    """A server whose processes have this folder and this environment."""
    command = [sys.executable, __file__]
    with subprocess.Popen(
        command, cwd=folder, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield ForkServer(process, folder)
        finally:
            process.kill()  # the processes end with their input, or were ended before


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _become(words: Sequence[str], pipe: str, log: str) -> NoReturn:
    from ciguard import cli  # noqa: PLC0415 - the test imports this module, and not the service

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # no test leaves any behind
    for number, path, flags in (
        (0, pipe, os.O_RDONLY),
        (1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    os.dup2(1, 2)
    sys.argv[1:] = words
    code = 1
    try:
        cli.main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:  # noqa: BLE001 - the child must not go on as another server
        sys.excepthook(*sys.exc_info())
    os._exit(code)


def main() -> None:
    for name in IMPORTED:
        __import__(name)
    requests, answers = os.dup(0), os.dup(1)
    for number in (requests, answers):
        os.set_inheritable(number, False)
    with os.fdopen(requests, "r") as lines:
        for line in iter(lines.readline, ""):
            request = json.loads(line)
            if "wait" in request:
                answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
            else:
                answer = os.fork()
                if not answer:
                    os.close(answers)
                    os.close(requests)
                    _become(request["start"], request["input"], request["log"])
            os.write(answers, f"{answer}\n".encode())


if __name__ == "__main__":
    main()
