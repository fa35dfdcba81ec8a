"""A tested process while it runs: its lines of the record, its log and its peak of memory."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Iterator, Mapping, NamedTuple, Sequence

from ciguard.codec.record.lines import LineError, decode, encode, refused_metric
from ciguard.model import EventLine, Result, StartLine, UnitKey
from ciguard.run.frameworks.base import KEEP_PEAK, PEAK_RESET_BY, ProcessFiles
from ciguard.run.platforms.base import FILE_FLAGS, ExitInfo, Headroom, MemoryInstruments, Platform
from ciguard.run.policy.state import OBSERVED_EVENTS, PAUSED
from ciguard.run.process.tail import Log, Tail
from ciguard.text import last_line

if TYPE_CHECKING:
    from ciguard.model import DefaultsLine, EventKind, MeasuredBy, PeakLine

FIND_FILES_EVERY_S = 0.25  # interval of the search for files of further workers
LAST_OUTPUT_BYTES = 16384
FAILURES_BYTES = 65536  # printed of the failures; the record's folder has all


class Peak(NamedTuple):
    """Peak of a process, for its last line; None if nothing was measured."""

    peak_bytes: int | None = None
    measured_by: MeasuredBy | None = None


@dataclass
class ProcessReport:
    """Events of a process's own file, besides the lines that the rules look at.

    Attributes:
        vanished: unit that was not collected -> reason of the framework; "" if it was not found.
        errors: collection errors: file, class or folder, and the last line of the error.
        interrupted: unit -> what ended the process while the unit ran.
        collecting: the process reads test files.
        stopped: why the framework began no more units, in its own words.
        finished: the session came to its end, where a framework prints its failures.
        session_status: exit status of the session; None before its end or if it named none.
        settings: dry runs, focus and filters.
        open_cases: unit -> cases that began and have no result -> at_s of their start.
        session_end_s: moment of the end of the session.
        threads: threads left over then, each with the test that began it, if that is known.
        unreadable: first line that could not be read, and why; "" for none.
    """

    vanished: dict[UnitKey, str] = field(default_factory=dict)
    errors: list[tuple[str, str]] = field(default_factory=list)
    interrupted: dict[UnitKey, str] = field(default_factory=dict)
    collecting: bool = False
    stopped: str = ""
    finished: bool = False
    session_status: int | None = None
    settings: list[EventLine] = field(default_factory=list)
    open_cases: dict[UnitKey, dict[str, float | None]] = field(default_factory=dict)
    session_end_s: float | None = None
    threads: list[EventLine] = field(default_factory=list)
    unreadable: str = ""

    def add(self, event: EventLine) -> None:
        key = event.unit_key
        if event.kind == "not_collected":
            self.vanished[key] = event.detail
        elif event.kind == "collection_error":
            self.errors.append((key.unit, last_line(event.detail)))
        elif event.kind == "interrupted":
            self.interrupted[key] = event.detail
        elif event.kind in ("collection_start", "collection_end"):
            self.collecting = event.kind == "collection_start"
        elif event.kind == "session_stopped":
            self.stopped = event.detail
        elif event.kind == "execution":
            self.settings.append(event)
        elif event.kind == "case_start":
            self.open_cases.setdefault(key, {})[event.detail] = event.at_s
        elif event.kind == "case_end":
            self.open_cases.get(key, {}).pop(event.detail, None)
        elif event.kind == "session_end":
            self.finished = True
            self.session_end_s = max(self.session_end_s or 0.0, event.at_s or 0.0)  # of all workers
            self.session_status = int(event.detail) if event.detail.isdecimal() else None
        elif event.kind == "thread_left":
            self.threads.append(event)

    def error_of(self, unit: str) -> str | None:
        """Return the collection error of the file, class or folder that holds a unit."""
        for name, error in self.errors:
            is_inside = unit.startswith((f"{name}::", f"{name}/"))
            if is_inside or name in ("", ".", unit):
                return error
        return None

    def missing_kind(self, key: UnitKey, *, announces: bool) -> EventKind:
        """Return the kind of event for a unit without a result in a process that completed.

        Args:
            announces: the framework reports every unit that it begins.
        """
        if self.error_of(key.unit) is not None:
            return "not_imported"
        if key in self.vanished:
            return "deselected" if self.vanished[key] else "not_found"
        return "not_reached" if announces else "no_result"


class ProcessHandle:
    """One running process of the leg; the constructor starts it.

    Args:
        env: with PEAK_RESET_BY if the process resets its own memory marks.
        batch: files of the process.
        defaults: first line of its record.
        platform_parts: the system, its instruments and its headroom.
        stdin: descriptor that the process reads from; None for empty input.

    Raises:
        OSError: the process cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        batch: ProcessFiles,
        defaults: DefaultsLine,
        *,
        platform_parts: tuple[Platform, MemoryInstruments, Headroom],
        started_s: float,
        stdin: int | None = None,
    ) -> None:
        platform, instruments, guardrail = platform_parts
        more = {PEAK_RESET_BY: str(os.getpid()), **env}
        more["CIGUARD_OOM_FILE"] = guardrail.oom_file()
        self.oom_kills = guardrail.oom_kills()  # the kernel's count before the start
        self.process = platform.start(argv, more, cwd, log_of(batch), stdin=stdin)
        self.is_started = False  # the leg has taken in the start
        self.batch = batch
        self.started_s = started_s
        self.tree = platform.tree(self.process)
        has_own_marks = PEAK_RESET_BY in env or env.get(KEEP_PEAK) == "1"
        self.peak_tracker = instruments.peak_tracker(self.tree, has_own_marks=has_own_marks)
        self.log = Log(log_of(batch))
        self.peak_bytes = 0  # largest that the process itself measured
        self.report = ProcessReport()
        self._defaults = defaults
        self._tails: dict[str, Tail] = {batch.record_file: Tail(batch.record_file)}
        self._found_files_s = started_s

    def lines_read(self) -> dict[str, int]:
        return {tail.name: tail.lines_read for tail in self._tails.values()}

    def lines(
        self, now_s: float, *, last: bool = False
    ) -> Iterator[StartLine | Result | EventLine]:
        """Yield the new lines that rules look at; add other events to `report`."""
        if self.peak_tracker is not None:
            if last and self.process.ended is not None:
                self.peak_tracker.end(self.process.ended.peak_bytes)
            self.peak_tracker.poll(now_s)
        if last or now_s - self._found_files_s >= FIND_FILES_EVERY_S:
            self._found_files_s = now_s
            self._find_files()
        for tail in tuple(self._tails.values()):
            for content in tail.lines():
                try:
                    line = decode(content, self._defaults)
                except LineError as error:
                    if refused_metric(content) is not None:
                        continue  # only that metric is lost; guard names it
                    where = f"line {tail.lines_read} of {tail.name} cannot be read: {error}"
                    self.report.unreadable = self.report.unreadable or where
                    continue
                if isinstance(line, (StartLine, Result)):
                    if isinstance(line, Result):
                        self.report.open_cases.get(line.unit_key, {}).pop(line.case, None)
                        self.peak_bytes = max(self.peak_bytes, line.peak_bytes or 0)
                    if self.peak_tracker is not None:
                        self.peak_tracker.add_line(line)
                    yield line
                elif isinstance(line, EventLine):
                    self.report.add(line)
                    if line.kind == PAUSED and self.peak_tracker is not None:
                        self.peak_tracker.add_line(line)
                    if line.kind in OBSERVED_EVENTS:
                        yield line

    def listing(self) -> bytes | None:
        """Return the listing that the process wrote; None before."""
        if not self.batch.listing_file or not os.path.exists(self.batch.listing_file):
            return None
        with open(self.batch.listing_file, "rb") as stream:
            return stream.read()

    def peaks(self) -> Sequence[PeakLine]:
        """Return the peaks of the results just read, if they were measured from outside."""
        return self.peak_tracker.take_peaks() if self.peak_tracker is not None else ()

    def is_removed(self) -> bool:
        """Return whether a file of the process's lines was removed."""
        return any(tail.is_removed() for tail in self._tails.values())

    def _find_files(self) -> None:
        """Follow the files of workers that began since the last search."""
        folder, name = os.path.split(self.batch.record_file)
        prefix = f"{name[: -len('.jsonl')]}-"
        try:
            names = os.listdir(folder)
        except OSError:  # removed, or no descriptor is free: the next search may find more
            return
        for name in names:
            path = os.path.join(folder, name)
            if name.startswith(prefix) and name.endswith(".jsonl") and path not in self._tails:
                _write_defaults(path, self._defaults)
                self._tails[path] = Tail(path)

    def peak(self, ended: ExitInfo, sampled_bytes: int | None) -> Peak:
        """Return the largest peak: each way may miss some memory, and none measures too much.

        Call this after the end of the process and before `close`.
        """
        largest = Peak()
        measured: dict[MeasuredBy, int | None] = {  # the most exact way first
            "mark": max(self.peak_bytes, ended.peak_bytes or 0),
            "window": self.peak_tracker.peak_bytes if self.peak_tracker else None,
            "sample": sampled_bytes,
        }
        for method, size in measured.items():
            if size and size > (largest.peak_bytes or 0):
                largest = Peak(size, method)
        return largest

    def request_stop(self) -> None:
        """Ask the process to stop after its current unit."""
        # After an error (a full disk) the rules see that the process goes on, and stop it.
        with contextlib.suppress(OSError):
            os.close(os.open(self.batch.stop_file, os.O_WRONLY | os.O_CREAT, 0o644))

    def failures(self) -> bytes:
        """Return the failures so far, as the framework would print them at its end."""
        path = f"{self.batch.record_file[: -len('.jsonl')]}.failures.txt"
        with contextlib.suppress(OSError), open(path, "rb") as stream:
            return stream.read(FAILURES_BYTES)
        return b""

    def last_output(self) -> bytes:
        try:
            with open(self.log.path, "rb") as stream:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - LAST_OUTPUT_BYTES))
                return stream.read()
        except OSError:
            return b""

    def close(self) -> None:
        """End the process and its tree, and close its files.

        The log stays open: the console closes it when it has printed the rest.
        """
        self.process.close()
        for tail in self._tails.values():
            tail.close()


def log_of(batch: ProcessFiles) -> str:
    """Return the path of a process's log, in the record's folder."""
    return f"{batch.record_file[: -len('.jsonl')]}.log"


def _write_defaults(path: str, defaults: DefaultsLine) -> None:
    """Write the defaults into a worker's file, by one write between two lines of the worker."""
    with contextlib.suppress(OSError):  # removed, or a full disk
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | FILE_FLAGS)
        try:
            os.write(descriptor, encode(defaults))
        finally:
            os.close(descriptor)
