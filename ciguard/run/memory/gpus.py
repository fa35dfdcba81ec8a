"""Memory of the tested processes on each GPU, as another process reads it from the driver.

That process (nvml.py) is killed if the driver hangs. Memory counts by pid, so a container that
hides pids from the driver gives no values.
"""

from __future__ import annotations

import json
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Collection, Final, Iterable, Mapping, Sequence

assert sys.platform != "win32"

from ciguard.model.record import largest_by_gpu
from ciguard.run.memory.process_tree import TreeMemory
from ciguard.run.process.reaper import signal_quietly
from ciguard.run.process.spawn import own_children, start_source

PROGRAM: Final = "nvidia-smi"
DEVICE: Final = "/dev/nvidiactl"  # of the kernel's module; `nvidia-smi` may not be installed
TIMEOUT_S: Final = 20.0
CLOSE_S: Final = 0.1
PIECE_BYTES: Final = 1 << 16


def used_bytes(rows: Iterable[Sequence[int]], pids: Collection[int]) -> dict[str, int]:
    """Return the memory of these processes by GPU."""
    used: dict[str, int] = {}
    for gpu, pid, size in rows:
        if pid in pids:
            used[str(gpu)] = used.get(str(gpu), 0) + size
    return used


class Gpus:
    """Answers of the process that queries the driver; none without an NVIDIA driver.

    Args:
        environ: of that process; its PATH is searched for `nvidia-smi`.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        has_driver = shutil.which(PROGRAM, path=environ.get("PATH")) or os.path.exists(DEVICE)
        # Read now: a test can remove the zip file that the leg runs from. None: nothing to start.
        self._source = pkgutil.get_data(__package__, "nvml.py") if has_driver else None
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._answered_s = 0.0
        self.limitation = ""

    def poll(self, now_s: float, trees: Sequence[TreeMemory]) -> Mapping[str, int]:
        """Return the trees' largest memory by GPU in the answers that have just arrived."""
        if self._source is not None:
            self._start(self._source, now_s)
        if self._process is None:
            return {}
        assert self._process.stdout is not None
        try:
            piece = os.read(self._process.stdout.fileno(), PIECE_BYTES)
        except BlockingIOError:
            if now_s - self._answered_s > TIMEOUT_S:
                self.limitation = f"GPU memory: no answer of the driver in {TIMEOUT_S:.0f} s"
                self.close()
            return {}
        self._answered_s = now_s
        if not piece:
            ended = self._process
            self.close()
            if ended.returncode:
                self.limitation = f"GPU memory: its query ended with exit code {ended.returncode}"
            return {}
        *lines, self._buffer = (self._buffer + piece).split(b"\n")
        pids = frozenset(pid for tree in trees for pid in tree.pids())
        return largest_by_gpu(used_bytes(json.loads(line), pids) for line in lines)

    def _start(self, source: bytes, now_s: float) -> None:
        self._source, self._answered_s = None, now_s
        with suppress(OSError):
            self._process = start_source(source, "gpus", self._environ)
            own_children.add(self._process.pid)
            assert self._process.stdout is not None
            os.set_blocking(self._process.stdout.fileno(), False)

    def close(self) -> None:
        if self._process is not None:
            # The whole group: it may wait for a program.
            signal_quietly(-self._process.pid, signal.SIGKILL)
            for stream in (self._process.stdin, self._process.stdout):
                assert stream is not None
                stream.close()
            # A broken driver may hold a killed process for ever.
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_S)
            own_children.discard(self._process.pid)
            self._process = None
