"""A tested process while it runs: its lines, its output, its memory, the way to end it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from ciguard.codec.record.lines import LineError, decode, encode, refused_metric
from ciguard.model import EventLine, Result, StartLine, UnitKey
from ciguard.run.frameworks.base import KEEP_PEAK, PEAK_RESET_BY, ProcessFiles
from ciguard.run.platforms.base import FILE_FLAGS
from ciguard.run.policy.state import OBSERVED_EVENTS, PAUSED
from ciguard.run.process.files import read_dumps
from ciguard.run.process.tail import Log, Tail
from ciguard.text import last_line

if TYPE_CHECKING:
    from typing import Optional, Union

    from ciguard.model import DefaultsLine, EventKind, MeasuredBy, PeakLine
    from ciguard.run.platforms.base import (
        ExitInfo,
        Headroom,
        MemoryInstruments,
        Platform,
    )

FIND_FILES_EVERY_S = 0.25  # for files that further workers of the process begin
LAST_OUTPUT_BYTES = 16384
FAILURES_BYTES = 65536  # of them are printed; all are in the record's folder


class Peak(NamedTuple):
    """Fields of a line; None where nothing was measured."""

    peak_bytes: int | None = None
    measured_by: MeasuredBy | None = None


def best_peak(measured: Mapping[MeasuredBy, int | None]) -> Peak:
    """The largest that was seen: each way misses something, and none sees too much.

    Args:
        measured: by way, the better way first.
    """
    found: Peak = Peak()
    for method, seen_bytes in measured.items():
        if seen_bytes and seen_bytes > (found.peak_bytes or 0):
            found = Peak(seen_bytes, method)
    return found


@dataclass
class ProcessReport:
    """What one process said so far, by events of its own file, besides starts and results.

    Attributes:
        vanished: with the program's own reason, "" where it simply did not find the unit.
        errors: (path or name of what could not be collected, last line of the error).
        interrupted: what ended the process while the unit ran.
        collecting: it reads test files, and has begun none of its units.
        stopped: why its framework began no more units, in its own words.
        finished: it came to the end of its session, where a framework shows what failed.
        session_status: exit status of its session, where it came to its end and named one.
        settings: what it said of dry runs, focus and filters.
        open_cases: by unit, cases that began and have no result, and when each began.
        session_end_s: when that was.
        threads: left over then, each with the test that began it, where that is known.
        unreadable: the first line of it that is none, and why; "" where all could be read.
    """

    vanished: Dict[UnitKey, str] = field(default_factory=dict)
    errors: List[Tuple[str, str]] = field(default_factory=list)
    interrupted: Dict[UnitKey, str] = field(default_factory=dict)
    collecting: bool = False
    stopped: str = ""
    finished: bool = False
    session_status: Optional[int] = None
    settings: List[EventLine] = field(default_factory=list)
    open_cases: Dict[UnitKey, Dict[str, Optional[float]]] = field(default_factory=dict)
    session_end_s: Optional[float] = None
    threads: List[EventLine] = field(default_factory=list)
    unreadable: str = ""

    def add(self, event: EventLine) -> None:
        """Take in an event of the process's own file."""
        key = UnitKey(event.suite, event.variant, event.unit or "")
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
            self.session_end_s = max(self.session_end_s or 0.0, event.at_s or 0.0)  # the last one's
            self.session_status = int(event.detail) if event.detail.isdecimal() else None
        elif event.kind == "thread_left":
            self.threads.append(event)

    def error_of(self, unit: str) -> Optional[str]:
        """The error of the file, class or folder that holds the unit."""
        for place, error in self.errors:
            inside = unit.startswith((f"{place}::", f"{place}/"))
            if inside or place in ("", ".", unit):
                return error
        return None

    def missing_kind(self, key: UnitKey, *, announces: bool) -> EventKind:
        """Why a unit got no result in a process that completed.

        Args:
            announces: the framework says every unit that it begins.
        """
        if self.error_of(key.unit) is not None:
            return "not_imported"
        if key in self.vanished:
            return "deselected" if self.vanished[key] else "not_found"
        return "not_reached" if announces else "no_result"


class ProcessHandle:
    """One running process of the leg, which starts with it.

    Args:
        env: says with PEAK_RESET_BY whether the process resets its own marks.
        batch: its files.
        defaults: first line of its record.
        platform_parts: the system, what there is to measure with, and what memory is left.
        stdin: what the process reads; None for nothing.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        batch: ProcessFiles,
        defaults: DefaultsLine,
        *,
        platform_parts: Tuple[Platform, MemoryInstruments, Headroom],
        started_s: float,
        stdin: Optional[int] = None,
    ) -> None:
        platform, instruments, guardrail = platform_parts
        more = {PEAK_RESET_BY: str(os.getpid()), **env}
        more["CIGUARD_OOM_FILE"] = guardrail.oom_file()
        self.oom_kills = guardrail.oom_kills()  # how often the kernel had killed before
        self.process = platform.start(argv, more, cwd, log_of(batch), stdin=stdin)
        self.is_started = False  # as the leg has taken it in
        self.batch = batch
        self.started_s = started_s
        self.tree = platform.tree(self.process)
        is_peak_kept = PEAK_RESET_BY in env or env.get(KEEP_PEAK) == "1"
        # On its marks, if they are read from outside.
        self.windows = None if is_peak_kept else instruments.windows(self.tree)
        self.log = Log(log_of(batch))
        self.peak_bytes = 0  # as the process itself measured it
        self.report = ProcessReport()
        self._defaults = defaults
        self._tails: Dict[str, Tail] = {batch.record_file: Tail(batch.record_file)}
        self._found_files_s = started_s

    def lines_read(self) -> Dict[str, int]:
        """By file, how many lines were taken in."""
        return {tail.name: tail.lines_read for tail in self._tails.values()}

    def lines(
        self, now_s: float, *, last: bool = False
    ) -> Iterator[Union[StartLine, Result, EventLine]]:
        """New lines that rules look at, whole; what else the process says is kept in `report`."""
        if self.windows is not None:
            if last and self.process.ended is not None:
                self.windows.end(self.process.ended.peak_bytes)
            self.windows.poll(now_s)
        if last or now_s - self._found_files_s >= FIND_FILES_EVERY_S:
            self._found_files_s = now_s
            self._find_files()
        for tail in tuple(self._tails.values()):
            for content in tail.lines():
                try:
                    line = decode(content, self._defaults)
                except LineError as error:
                    if refused_metric(content) is not None:
                        continue  # the guard names it: nothing else is lost
                    where = f"line {tail.lines_read} of {tail.name} cannot be read: {error}"
                    self.report.unreadable = self.report.unreadable or where
                    continue
                if isinstance(line, (StartLine, Result)):
                    if isinstance(line, Result):
                        self.report.open_cases.get(line.key.unit_key, {}).pop(line.case, None)
                        self.peak_bytes = max(self.peak_bytes, line.peak_bytes or 0)
                    if self.windows is not None:
                        self.windows.add_line(line)
                    yield line
                elif isinstance(line, EventLine):
                    self.report.add(line)
                    if line.kind == PAUSED and self.windows is not None:
                        self.windows.add_line(line)
                    if line.kind in OBSERVED_EVENTS:
                        yield line

    def listing(self) -> Optional[bytes]:
        """What it listed; None until it has."""
        if not self.batch.listing_file or not os.path.exists(self.batch.listing_file):
            return None
        with open(self.batch.listing_file, "rb") as stream:
            return stream.read()

    def peaks(self) -> Sequence[PeakLine]:
        """Of the results among the lines just read: what they do not say of their memory."""
        return self.windows.take_peaks() if self.windows is not None else ()

    def is_removed(self) -> bool:
        """Whether a file that it writes its lines to was removed."""
        return any(tail.is_removed() for tail in self._tails.values())

    def _find_files(self) -> None:
        folder, name = os.path.split(self.batch.record_file)
        start = f"{name[: -len('.jsonl')]}-"
        try:
            there = os.listdir(folder)
        except OSError:  # removed, or no descriptor is free: the next look may find more
            return
        for other in there:
            path = os.path.join(folder, other)
            if other.startswith(start) and other.endswith(".jsonl") and path not in self._tails:
                _write_defaults(path, self._defaults)
                self._tails[path] = Tail(path)

    def killed_for_memory(self, oom_kills: int) -> bool:
        """Whether the kernel has, since it began; `oom_kills`: how often until now."""
        return oom_kills > self.oom_kills

    def peak(self, ended: ExitInfo, sampled_bytes: int | None) -> Peak:
        """What all that looked at it found; to be asked when it has ended, and before `close`."""
        marked = max(self.peak_bytes, ended.peak_bytes or 0)
        windows = self.windows.peak_bytes if self.windows else None
        seen: Dict[MeasuredBy, Optional[int]] = {
            "mark": marked,
            "window": windows,
            "sample": sampled_bytes,
        }
        return best_peak(seen)

    def request_stop(self) -> None:
        """Ask it to stop after the unit that it is at."""
        # A full disk: the rules see that it goes on, and have other means.
        with contextlib.suppress(OSError):
            os.close(os.open(self.batch.stop_file, os.O_WRONLY | os.O_CREAT, 0o644))

    def request_stacks(self) -> None:
        """Have it write where it stands, if its framework lets it."""
        self.process.request_stacks(self.batch.stacks_file)

    def stacks(self) -> Tuple[str, ...]:
        """What each of its processes wrote then."""
        return read_dumps(self.batch.stacks_file)

    def failures(self) -> bytes:
        """What failed in it, as its framework shows it at its end, if it came to that or not."""
        path = f"{self.batch.record_file[: -len('.jsonl')]}.failures.txt"
        with contextlib.suppress(OSError), open(path, "rb") as stream:
            return stream.read(FAILURES_BYTES)
        return b""

    def last_output(self) -> bytes:
        """The end of what it printed."""
        try:
            with open(self.log.path, "rb") as stream:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - LAST_OUTPUT_BYTES))
                return stream.read()
        except OSError:
            return b""

    def close(self) -> None:
        """Give descriptors back; the process and its tree are gone afterwards.

        Its log is the console's then: somebody may still read it.
        """
        self.process.close()
        for tail in self._tails.values():
            tail.close()


def log_of(batch: ProcessFiles) -> str:
    """Where a process's output goes: into the record's folder."""
    return f"{batch.record_file[: -len('.jsonl')]}.log"


def _write_defaults(path: str, defaults: DefaultsLine) -> None:
    """Say in a worker's file whose it is; one write, between two lines of the worker."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | FILE_FLAGS)
    except OSError:
        return
    try:
        os.write(descriptor, encode(defaults))
    except OSError:
        pass  # a full disk
    finally:
        os.close(descriptor)
