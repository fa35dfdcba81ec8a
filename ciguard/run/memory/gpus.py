"""Memory of the tested processes on each GPU, by queries of `nvidia-smi` that never wait.

A query takes 0.1-2 s, and hangs with a broken driver: it is started, polled in the next rounds and
killed after a timeout. Memory counts by pid, so a container that hides pids from the driver gives
no values.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Collection, Final, Mapping, Sequence

assert sys.platform != "win32"

from ciguard.run.process.reaper import signal_quietly
from ciguard.run.process.spawn import own_children

if TYPE_CHECKING:
    from typing import Dict, List, Optional

PROGRAM: Final = "nvidia-smi"
EVERY_S: Final = 5.0
TIMEOUT_S: Final = 20.0
CLOSE_S: Final = 0.1
FORMAT: Final = "--format=csv,noheader,nounits"  # memory is in MiB
GPUS: Final = "--query-gpu=uuid,index"
APPS: Final = "--query-compute-apps=gpu_uuid,pid,used_gpu_memory"


def parse_rows(content: bytes) -> tuple[tuple[str, ...], ...]:
    """Parse lines of comma-separated values."""
    lines = content.decode("utf-8", "replace").splitlines()
    return tuple(tuple(word.strip() for word in line.split(",")) for line in lines if line.strip())


def used_bytes(
    apps: Sequence[Sequence[str]], index_of: Mapping[str, str], pids: Collection[int]
) -> dict[str, int]:
    """Return the memory of these processes by GPU; rows without a number ("[N/A]") do not count."""
    used: Dict[str, int] = {}
    for row in apps:
        if len(row) == 3 and row[1].isdigit() and row[2].isdigit():  # noqa: PLR2004
            uuid, pid, mib = row
            if int(pid) in pids and uuid in index_of:
                index = index_of[uuid]
                used[index] = used.get(index, 0) + (int(mib) << 20)
    return used


class Gpus:
    """Queries of the program every few seconds; none if it does not exist or fails.

    Args:
        path: value of PATH to search for the program; None for that of this process.
    """

    def __init__(self, path: Optional[str]) -> None:
        self._program = shutil.which(PROGRAM, path=path)
        self._index_of: Dict[str, str] = {}
        self._query_process: Optional[subprocess.Popen[bytes]] = None
        self._queried_s = float("-inf")

    def poll(self, now_s: float, pids: Collection[int]) -> Mapping[str, int]:
        """Return the memory by GPU if an answer has just arrived, else nothing."""
        used: Mapping[str, int] = {}
        if self._query_process is not None:
            if self._query_process.poll() is None:
                if now_s - self._queried_s > TIMEOUT_S:
                    self._program = None
                    self.close()
                return used
            used = self._read_answer(self._query_process, pids)
        if self._program is not None and now_s - self._queried_s >= EVERY_S:
            self._queried_s = now_s
            self._start_query(APPS if self._index_of else GPUS)
        return used

    def _start_query(self, query: str) -> None:
        argv: List[str] = [str(self._program), query, FORMAT]
        try:
            self._query_process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            self._program = None
        else:
            own_children.add(self._query_process.pid)

    def _read_answer(
        self, process: subprocess.Popen[bytes], pids: Collection[int]
    ) -> Mapping[str, int]:
        self._query_process = None
        own_children.discard(process.pid)
        assert process.stdout is not None
        with process.stdout as stream:
            rows = parse_rows(stream.read())
        if process.returncode != 0:
            self._program = None  # there is no driver
            return {}
        if self._index_of:
            return used_bytes(rows, self._index_of, pids)
        self._index_of = {row[0]: row[1] for row in rows if len(row) == 2}  # noqa: PLR2004
        if self._index_of:
            self._queried_s = float("-inf")  # query the processes next
        else:
            self._program = None
        return {}

    def close(self) -> None:
        """End a running query."""
        if self._query_process is not None:
            # The whole group: the program may be a script.
            signal_quietly(-self._query_process.pid, signal.SIGKILL)
            assert self._query_process.stdout is not None
            self._query_process.stdout.close()
            # A broken driver may hold a killed process for ever.
            with suppress(subprocess.TimeoutExpired):
                self._query_process.wait(CLOSE_S)
            self._query_process = None
