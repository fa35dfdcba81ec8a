"""Processes of an experiment: run one after the other, and ended with ciguard by any signal.

The load of other programs during a run is the busy time of all processors, with the time that a
hypervisor takes (proc(5), /proc/stat), minus the time of ciguard and its children. Only on Linux.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ciguard.experiment.measurement import Measurement
from ciguard.experiment.schedule import Step

Read = Callable[[Measurement, Path, str], Measurement]

STAT: Final = "/proc/stat"
# Fields of the first line: user nice system idle iowait irq softirq steal; then guests, whose time
# `user` includes.
FIELDS: Final = 8
IDLE, IOWAIT = 3, 4


def parse_stat(content: bytes) -> tuple[int, int] | None:
    """Return the busy and the total clock ticks of all processors; None if malformed."""
    words = content.split(b"\n", 1)[0].split()[1 : FIELDS + 1]
    if not content.startswith(b"cpu ") or not all(word.isdigit() for word in words):
        return None
    ticks = [*map(int, words)]
    if len(ticks) < FIELDS:
        return None
    return sum(ticks) - ticks[IDLE] - ticks[IOWAIT], sum(ticks)


class LoadMeter:
    """Meter of the machine's load since the meter's creation."""

    def __init__(self, path: str = STAT) -> None:
        self._path = path
        self._began = self._read()

    def external_cpu_ratio(self) -> float | None:
        """Return the share of the machine's CPU time that other programs used; None if unknown.

        Only children that were waited for count as ciguard's own.
        """
        began, now = self._began, self._read()
        if began is None or now is None or now[1] <= began[1]:
            return None
        busy, total, own = (after - before for before, after in zip(began, now, strict=True))
        return min(1.0, max(0.0, (busy - own) / total))

    def _read(self) -> tuple[float, float, float] | None:
        content = b""
        with contextlib.suppress(OSError), open(self._path, "rb") as stream:  # noqa: PTH123
            content = stream.read()
        ticks = parse_stat(content)
        if ticks is None:
            return None
        times = os.times()
        own_s = times.user + times.system + times.children_user + times.children_system
        return *ticks, own_s * os.sysconf("SC_CLK_TCK")


# `-I`: neither a folder `ciguard` of the project nor its PYTHONPATH shadows a module of ciguard.
LEG: Final = (sys.executable, "-I", "-m", "ciguard.run")
GRACE_S: Final = 20.0  # after SIGINT a leg has 4 s to end its tests, and some to write its record


class Interrupted(Exception):
    """A signal that ends the program."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class SignalGuard:
    """A context in which SIGINT and SIGTERM raise `Interrupted`, so that clean-up runs."""

    def __init__(self) -> None:
        self._number = 0
        self._deferred = 0

    def __enter__(self) -> SignalGuard:
        numbers = (signal.SIGINT, signal.SIGTERM)
        self._previous_handlers = {number: signal.signal(number, self._stop) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def _stop(self, number: int, _: object) -> None:
        self._number = number
        self._raise()

    def _raise(self) -> None:
        if self._number and not self._deferred:
            number, self._number = self._number, 0
            raise Interrupted(number)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer a signal to the end of the context."""
        self._deferred += 1
        try:
            yield
        finally:
            self._deferred -= 1
        self._raise()

    @contextlib.contextmanager
    def private_folder(self) -> Iterator[Path]:
        """Make a folder for records, which is always removed."""
        folder = None
        try:
            with self.deferred():
                folder = Path(tempfile.mkdtemp(prefix="ciguard-experiment-"))
            yield folder
        finally:
            if folder is not None:
                with self.deferred():
                    shutil.rmtree(folder, ignore_errors=True)

    def run(
        self, argv: Sequence[str], cwd: Path, environ: Mapping[str, str], timeout_s: float
    ) -> tuple[int | None, str]:
        """Run a program; return its exit code (None after `timeout_s`) and its output.

        The program has its own session, so that a signal of the terminal reaches it only once,
        through ciguard.

        Raises:
            Interrupted: by a signal, after the end of the program.
        """
        process = None
        with tempfile.TemporaryFile() as output_file:
            code = None
            try:
                with self.deferred():
                    process = subprocess.Popen(
                        argv,
                        cwd=cwd,
                        env=dict(environ),
                        stdin=subprocess.DEVNULL,
                        stdout=output_file,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                code = process.wait(max(0.0, timeout_s) if timeout_s < float("inf") else None)
            except subprocess.TimeoutExpired:
                pass
            finally:
                if process is not None:
                    with self.deferred():
                        _end(process)
            output_file.seek(0)
            return code, output_file.read().decode("utf-8", "replace")


class LegRunner:
    """Runner of legs, one after the other, each with its own record, until the budget is spent."""

    def __init__(self, guard: SignalGuard, folder: Path, until_s: float = float("inf")) -> None:
        self.until_s = until_s
        self._guard, self._folder, self._runs = guard, folder, 0

    def remaining_s(self) -> float:
        return self.until_s - now_s()

    def run(
        self,
        step: Step,
        arguments: Sequence[str],
        cwd: Path,
        environ: Mapping[str, str],
        read: Read,
    ) -> Measurement:
        """Run a leg.

        Args:
            read: adds values, or the failure, from the record's folder and the output.

        Raises:
            Interrupted: by a signal, after the end of the leg.
        """
        self._runs += 1
        record_dir = self._folder / f"{self._runs:04}"
        load, began_s = LoadMeter(), now_s()
        argv = (*LEG, "--record", str(record_dir), *arguments)
        code, output_text = self._guard.run(argv, cwd, environ, self.remaining_s())
        measured = Measurement(step, duration_s=now_s() - began_s, hit_budget=code is None)
        if measured.hit_budget:
            return measured
        external_cpu_ratio = load.external_cpu_ratio()
        measured = read(measured, record_dir, output_text)
        values = {} if measured.failure else measured.values
        return replace(measured, values=values, external_cpu_ratio=external_cpu_ratio)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process as by Ctrl-C at a terminal, then kill the rest of its group.

    A leg ends its tests, which are in other groups; if the leg is killed, their reapers do.
    """
    if process.poll() is None:
        if sys.platform == "win32":  # no groups; the job object of a leg ends its processes
            process.kill()
        else:
            _signal(process, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            _signal(process, signal.SIGKILL)
        process.wait()


if sys.platform != "win32":

    def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def tail(path: Path, length: int) -> bytes:
    """Return the end of a file; empty without a file."""
    with contextlib.suppress(OSError), path.open("rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - length))
        return stream.read()
    return b""


def now_s() -> float:
    """Return the time of the monotonic clock."""
    return time.monotonic()
