"""Pytest plugin that records each test from inside the tested process.

`-p ciguard_pytest` loads it, with the other modules of this folder that it needs. It imports only
the standard library and pytest, because the tested project owns its environment (Python 3.8+,
pytest 7+). Environment variables, which xdist workers inherit, control it; without them the plugin
does nothing.

    CIGUARD_RECORD_FILE   append start, result and event lines here (worker gw1: NAME-gw1.jsonl)
    CIGUARD_UNITS_FILE    JSON list of node ids: run exactly these, in this order, in one session
    CIGUARD_LISTING_FILE  write here what exists, then wait for CIGUARD_UNITS_FILE
    CIGUARD_STOP_FILE     once it exists, the session stops after the current test (looked for
                          after a test, at most every 20 ms)
    CIGUARD_OOM_FILE      its line "oom_kill N" counts what the kernel has killed for memory
    CIGUARD_TRIES_FILE    JSON object: by node id, how often it was executed before in this leg
    CIGUARD_STACKS_FILE   each process makes NAME-PID, and answers real-time signal SIGRTMAX - 7
    CIGUARD_WORKERS       workers of xdist that fit into the memory, for "-n auto"; "": not known
    CIGUARD_SUITE, CIGUARD_VARIANT, CIGUARD_PROCESS
    CIGUARD_ORIGIN_S      the leg's start on the clock that CIGUARD_ORIGIN_CLOCK names; where ours
                          is another one, CIGUARD_ORIGIN_AT by the time of day

`wall_s` and `cpu_s` include set-up, teardown, reruns, and the teardown of a wider fixture at its
last test. The set-up of fixtures wider than a function is `setup_s` instead. `peak_delta_bytes` is
the high-water mark (VmHWM) minus the resident memory at the start of the test. It includes wider
fixtures that are set up in the test, as the process needs their memory; it excludes child
processes. `retained_bytes` is resident memory after minus before. Freed heap is returned
(malloc_trim) if it could hide a later peak.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any, Generator, Mapping

import pytest

if TYPE_CHECKING:  # the same file, by the name that a type checker knows
    from pathlib import Path

    from ciguard.run.plugins.ciguard_listing import described
    from ciguard.run.plugins.ciguard_memory import (
        REAL,
        Memory,
        ReopeningFile,
        gpu_peak_bytes,
        reset_gpu_peak,
    )
    from ciguard.run.plugins.ciguard_messages import LAST, crash_line, top_folder, truncated
    from ciguard.run.plugins.ciguard_xdist import Workers, end_session, limited_workers
else:
    from ciguard_listing import described
    from ciguard_memory import REAL, Memory, ReopeningFile, gpu_peak_bytes, reset_gpu_peak
    from ciguard_messages import LAST, crash_line, top_folder, truncated
    from ciguard_xdist import Workers, end_session, limited_workers

Wrapper = Generator[None, Any, None]

FAILURES_BYTES = 1 << 20  # of each process, also of each xdist worker
WAIT_S = 0.02  # interval of checks for the units and the stop file; many tests are shorter
STOP_REQUESTED = "ciguard: asked to stop after this test"
MAX_THREADS = 20  # named at the end of a session
COLLECTING = ("--collect-only", "--collectonly", "--co")
NOT_EXECUTING = {  # spellings, by pytest's name of the option
    "collectonly": COLLECTING,
    "setuponly": ("--setup-only", "--setuponly", "--setup-plan", "--setupplan"),
    "trace": ("--trace",),  # starts a debugger, which ends each test if there is no terminal
    "showfixtures": ("--fixtures", "--funcargs"),
    "show_fixtures_per_test": ("--fixtures-per-test",),
}
RERUN_REPORTS = ("rerun", "retried")  # pytest-rerunfailures, pytest-retry: another report follows


class _Assignment:
    """The supervisor's request to this process, by environment variables."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        def path(name: str) -> str:
            # A test may change the working folder, so paths are made absolute now.
            return os.path.abspath(environ[name]) if environ.get(name) else ""

        self.record_file, self.units_file = path("CIGUARD_RECORD_FILE"), path("CIGUARD_UNITS_FILE")
        self.listing_file = path("CIGUARD_LISTING_FILE")
        self.stop_file, self.oom_file = path("CIGUARD_STOP_FILE"), path("CIGUARD_OOM_FILE")
        self.suite = environ.get("CIGUARD_SUITE", "")
        self.variant = environ.get("CIGUARD_VARIANT", "")
        self.keeps_peak = environ.get("CIGUARD_KEEP_PEAK") == "1"
        try:
            self.process = int(environ.get("CIGUARD_PROCESS") or 1)
            self.origin_s = _origin_s(environ)
        except (TypeError, ValueError) as error:
            raise pytest.UsageError(f"ciguard: a CIGUARD_ variable is malformed: {error}") from None
        self.tries_before: dict[str, int] = dict(_read(path("CIGUARD_TRIES_FILE")) or {})

    def units(self) -> list[str] | None:
        """Return the requested node ids, each once; None if no ids are requested."""
        while self.listing_file and not os.path.exists(self.units_file):
            removed = not os.path.exists(os.path.dirname(self.units_file))
            if removed or os.path.exists(self.stop_file):
                return []
            time.sleep(WAIT_S)
        units = _read(self.units_file)
        return None if units is None else list(dict.fromkeys(units))


def _read(path: str) -> Any:
    """Return the JSON that the leg wrote; None without a path."""
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"ciguard: {path}: {error}") from None


def _origin_s(environ: Mapping[str, str]) -> float:
    """Return the leg's start on our clock.

    Raises:
        ValueError: a variable is malformed.
    """
    leg, ours = environ.get("CIGUARD_ORIGIN_CLOCK"), time.get_clock_info("monotonic")
    if leg and leg != ours.implementation:
        return time.monotonic() - (time.time() - float(environ.get("CIGUARD_ORIGIN_AT", "")))
    return float(environ.get("CIGUARD_ORIGIN_S") or time.monotonic())


def _members(**fields: Any) -> str:
    """Return the members of a JSON object; None means not measured and is omitted."""
    members: str = REAL.encode({name: one for name, one in fields.items() if one is not None})
    return members[1:-1]


class _RecordFile(ReopeningFile):
    """A file of lines: a killed process loses no line, and a full disk breaks no test."""

    def __init__(self, path: str) -> None:
        super().__init__(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._synced_s = REAL.monotonic()
        self.dropped = 0

    def append(self, line: str) -> None:
        """Write one whole line, or drop and count it."""
        content = f"{line}\n".encode("ascii")
        try:
            descriptor = self.descriptor()
            written = REAL.write(descriptor, content)
            if written != len(content):
                self.dropped += 1
                # Half a line would make the next line unreadable.
                REAL.truncate(descriptor, REAL.fstat(descriptor).st_size - written)
        except OSError:
            self.dropped += 1

    def sync(self, every_s: float = 1.0) -> None:
        now_s = REAL.monotonic()
        if now_s - self._synced_s >= every_s:
            self._synced_s = now_s
            with contextlib.suppress(OSError):
                REAL.sync(self.descriptor())


class _FixtureTimer:
    """Time of the set-up of fixtures wider than a function."""

    def __init__(self) -> None:
        self._depth = 0
        self.wall_s, self.cpu_s = 0.0, 0.0

    def measure(self) -> Wrapper:
        """Measure one set-up; nested set-ups are part of it, so that no time counts twice."""
        self._depth += 1
        wall_s, cpu_s = REAL.monotonic(), REAL.process_time()
        yield
        self._depth -= 1
        if self._depth == 0:
            self.wall_s += REAL.monotonic() - wall_s
            self.cpu_s += REAL.process_time() - cpu_s


class _Threads:
    """Threads that tests began, by their system-wide number, which is never reused."""

    def __init__(self) -> None:
        self._began: dict[int | None, str | None] = {}

    def end_test(self, unit: str | None) -> None:
        """Attribute the threads that are new since the last call to this test."""
        before = self._began
        if not before and REAL.count_threads() == 0:  # without the main one; active_count is slow
            return
        alive = threading.enumerate()
        self._began = {one.native_id: before.get(one.native_id, unit) for one in alive}

    def left(self) -> list[tuple[str, str | None]]:
        """Return name and test of the threads for which the interpreter waits at exit."""
        main = threading.main_thread()
        left = [one for one in threading.enumerate() if not (one.daemon or one is main)]
        return [(one.name, self._began.get(one.native_id)) for one in left]


class _Failures:
    """Failures as pytest shows them, written at once, because a session may be killed."""

    def __init__(self, path: str) -> None:
        self._file = ReopeningFile(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._remaining_bytes = FAILURES_BYTES

    def append(self, report: pytest.TestReport) -> None:
        """Write the traceback and the captured output, as far as there is room."""
        parts = [f"{report.nodeid} ({report.when})", report.longreprtext]
        parts += [f"{title}\n{text}" for title, text in report.sections]
        content = ("\n".join(parts) + "\n\n").encode("utf-8", "replace")[: self._remaining_bytes]
        with contextlib.suppress(OSError):
            self._remaining_bytes -= REAL.write(self._file.descriptor(), content) if content else 0


class _Reports:
    """The reports of pytest and its plugins on one test so far."""

    def __init__(self, reruns: int = 0, first: str | None = None) -> None:
        self.reruns = reruns
        self._first = first  # reason of the first failure
        self.ending = "completed"
        self._phases: dict[str, str] = {}
        self._reasons: dict[str, str] = {}  # by outcome, of its first report

    def add(self, report: pytest.TestReport, root: str) -> None:
        # A subtest reports in the phase "call" before its test does, which may well pass.
        if self._phases.get(report.when) != "failed":
            self._phases[report.when] = report.outcome
        if report.outcome not in self._reasons and report.outcome != "passed":
            self._reasons[report.outcome] = crash_line(report, root)

    def verdict(self) -> tuple[str, str | None]:
        """Return the outcome and, if not passed, the first failure or the reason of the skip."""
        phases, failure = self._phases, self._reasons.get("failed")
        if not phases:
            return "errored", "no report: another plugin took this test and said nothing"
        if phases.get("call") == "failed":
            return "failed", failure
        if "failed" in phases.values():
            return "errored", failure
        # pytest reports a failing xfail as skipped, and a passing one that is not strict as passed.
        outcome = phases.get("call")
        if outcome is None and phases.get("setup") != "skipped":
            return "errored", "never called: another plugin only set it up"
        outcome = outcome or "skipped"
        return outcome, self._reasons.get(outcome, self._first)

    def next_execution(self, report: pytest.TestReport, root: str) -> _Reports:
        """Return the reports of the next execution, after a report of a test to be repeated."""
        return _Reports(self.reruns + 1, self._first or crash_line(report, root))


def _is_timeout(excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
    """Return whether pytest-timeout's alarm raised the error, by its place and not by its text."""
    places = {(entry.frame.f_globals.get("__name__"), entry.name) for entry in excinfo.traceback}
    return ("pytest_timeout", "timeout_sigalrm") in places


def _warnings_may_be_errors(items: list[pytest.Item]) -> bool:
    """Return whether a filter of the ini file, command line, interpreter or a test makes errors.

    Call this during collection, when pytest's own filters are active. With such a filter, a warning
    of a destructor (a socket in a reference cycle) fails the test during which it is collected.
    """
    # Free-threaded interpreters store the filters of `catch_warnings` elsewhere.
    filters = getattr(warnings, "_get_filters", lambda: warnings.filters)()
    if any(one[0] == "error" for one in filters):
        return True
    marks = (mark for item in items for mark in item.iter_markers("filterwarnings"))
    words = {str(word).partition(":")[0].strip() for mark in marks for word in mark.args}
    return any(word and "error".startswith(word) for word in words)  # as Python abbreviates


class _Recorder:
    """The plugin of a process that runs tests, and of an xdist controller, which runs none."""

    def __init__(self, leg: _Assignment, config: pytest.Config) -> None:
        self._leg, self._config, self._root = leg, config, str(config.rootpath)
        self._top = top_folder(self._root, str(config.invocation_params.dir))
        self._is_below = self._top != self._root
        self._pid = os.getpid()
        worker: Mapping[str, Any] = getattr(config, "workerinput", {})
        name = str(worker.get("workerid", ""))
        self._concurrent = int(worker.get("workercount", 1))
        # Every xdist worker collects the same tests: the first worker records them.
        self._is_recording = (
            name == "gw0" if worker else getattr(config.option, "dist", "no") == "no"
        )
        stem, extension = os.path.splitext(leg.record_file)
        self._file_of = f"{stem}-{{}}{extension}".format  # by the name of a worker
        self._record = _RecordFile(self._file_of(name) if worker else leg.record_file)
        self._failures = _Failures(f"{stem}.failures.txt")
        self._workers = Workers(f"{stem}.log", leg.oom_file)
        self._memory = Memory(keeps_peak=leg.keeps_peak)
        self._setups: _FixtureTimer | None = None  # of the test that runs now
        self._reports: _Reports | None = None  # of the test that runs now
        self._collected: dict[int, str] = {}
        # Files of the units, so that only these are imported; None until the units are known.
        units = None if leg.listing_file else leg.units()
        self._files = None if units is None else {unit.partition("::")[0] for unit in units}
        self._imports = False  # the collection of a file has begun
        self._threads = _Threads()
        self._looked_s = 0.0  # for the stop file
        self._head = _members(suite=leg.suite, variant=leg.variant, process=leg.process)

    def _now_s(self) -> float:
        return round(max(0.0, REAL.monotonic() - self._leg.origin_s), 6)

    def _write(self, line_type: str, members: str) -> None:
        if REAL.getpid() == self._pid:  # a child that a test forked must not write our lines
            self._record.append(f'{{"type":"{line_type}",{self._head},{members}}}')

    def _event(self, kind: str, detail: str, **fields: Any) -> None:
        fields = {"at_s": self._now_s(), "kind": kind, **fields, "detail": detail}
        self._write("event", _members(**fields))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        # pytest does not call this in an xdist controller, whose memory is not measured.
        collects = not _warnings_may_be_errors(session.items)
        for detail in self._memory.prepare(collects=collects):
            self._event("unavailable", detail)
        self._threads.end_test(None)  # threads of imports
        if self._is_recording:
            self._event("execution", "", reason="executed")
            seed = self._config.getoption("randomly_seed", None)
            if seed is not None:
                self._event("seed", f"--randomly-seed={seed}")

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Return True to ignore a file, or None to leave the decision to other plugins."""
        if self._files is None or collection_path.name == "__init__.py":
            return None  # the file of a package collects other files
        path = os.path.relpath(str(collection_path), self._root).replace(os.sep, "/")
        if path in self._files or path.startswith("../") or collection_path.is_dir():
            return None
        return True

    def pytest_collectstart(self, collector: Any) -> None:
        # From here on, the end of the process is no fault of its start.
        if self._is_recording and not self._imports and isinstance(collector, pytest.File):
            self._imports = True
            self._event("collection_start", collector.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and self._is_recording:
            # A long traceback names its error at the end.
            self._event(
                "collection_error", truncated(report.longreprtext, LAST), unit=report.nodeid
            )

    # This is the outermost wrapper, so that its order is final: pytest reorders items for wider
    # fixtures, and --ff, random-order and others move or drop items. But memory was predicted for
    # the plan's order (leakers last).
    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Wrapper:
        if self._imports:
            self._event("collection_end", str(len(items)))
        # Ids are read first, because xdist's --dist loadgroup appends "@group" to them later.
        self._collected = {id(item): item.nodeid for item in items}
        yield
        # Any xdist worker may write the listing, because the first one may die before.
        if self._leg.listing_file and not os.path.exists(self._leg.listing_file):
            self._write_listing(items)
        wanted = self._leg.units()
        if wanted is None:
            return
        place = {unit: index for index, unit in enumerate(wanted)}
        dropped = [item for item in items if self._unit(item) not in place]
        items[:] = [item for item in items if self._unit(item) in place]
        items.sort(key=lambda item: place[self._unit(item)])
        if dropped:
            self._config.hook.pytest_deselected(items=dropped)
        found, known = set(map(self._unit, items)), set(self._collected.values())
        option = self._config.option
        flags = (("-k", option.keyword), ("-m", option.markexpr))
        by = " ".join(f"{flag} {text!r}" for flag, text in flags if text) or "another plugin"
        for unit in wanted if self._is_recording else ():
            if unit not in found:
                detail = f"collected, then deselected by {by}" if unit in known else ""
                self._event("not_collected", detail, unit=unit)

    def _write_listing(self, items: list[pytest.Item]) -> None:
        """Write the existing tests, in one step, because the leg waits for the file."""
        lines = [described(item, self._unit(item), self._top) for item in items]
        lines.append({"done": True, "rootdir": self._top})
        path = self._leg.listing_file
        own = f"{path}.{os.getpid()}"
        with open(own, "w", encoding="ascii", newline="\n") as stream:
            stream.writelines(json.dumps(line) + "\n" for line in lines)
        os.replace(own, path)

    def _unit(self, item: pytest.Item) -> str:
        return self._collected.get(id(item), item.nodeid)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Wrapper:
        unit = self._unit(item)
        file, row, _ = item.location
        if self._is_below:
            file = os.path.normpath(os.path.join(self._root, file))[len(self._top) + 1 :]
        name, quoted = REAL.quote(unit), REAL.quote(file.replace(os.sep, "/"))
        place = f'"unit":{name},"file":{quoted}' + ("" if row is None else f',"line":{row + 1}')
        rss_bytes = self._memory.begin()
        resident = "" if rss_bytes is None else f',"rss_before_bytes":{rss_bytes}'
        origin_s = self._leg.origin_s
        at_s = f"{max(0.0, REAL.monotonic() - origin_s):.6f}"
        self._write("start", f'{place},"at_s":{at_s}{resident}')
        self._reports = _Reports()
        setups = self._setups = _FixtureTimer()
        self._is_called = False
        if not self._leg.keeps_peak:
            reset_gpu_peak()
        start_s, start_cpu_s = REAL.monotonic(), REAL.process_time()
        ended = yield
        end_s = REAL.monotonic()
        wall_s = end_s - start_s - setups.wall_s
        cpu_s = REAL.process_time() - start_cpu_s - setups.cpu_s
        reports, self._reports, self._setups = self._reports, None, None
        if REAL.getpid() != self._pid:
            return  # a forked child that continues would reset the peak of its parent
        if ended.excinfo is not None:
            # The test was interrupted (Ctrl-C, pytest.exit), so it has no result.
            self._event("interrupted", truncated(repr(ended.excinfo[1])), unit=unit)
            return
        outcome, message = reports.verdict()
        gpu_bytes = None if self._leg.keeps_peak else gpu_peak_bytes()
        rare = ""
        if reports.reruns or message is not None or gpu_bytes is not None:
            reruns = reports.reruns or None
            rare = "," + _members(gpu_peak_bytes=gpu_bytes, reruns=reruns, message=message)
        self._write(
            "result",
            f'{place},"case":{name},"outcome":{REAL.quote(outcome)},"ending":"{reports.ending}"'
            f',"at_s":{max(0.0, end_s - origin_s):.6f},"wall_s":{max(0.0, wall_s):.6f}'
            f',"cpu_s":{max(0.0, cpu_s):.6f}'
            f',"setup_s":{setups.wall_s:.6f}{self._memory.end()},"concurrent":{self._concurrent}'
            f',"try":{1 + self._leg.tries_before.get(unit, 0)}{rare}',
        )
        self._record.sync()
        self._threads.end_test(unit)
        if not self._is_called:
            self._stop_if_requested(item.session)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        # The stop comes after the test, so that its teardown ends wider fixtures, too (pytest 8).
        self._is_called = True
        self._stop_if_requested(item.session)

    def _stop_if_requested(self, session: pytest.Session) -> None:
        now_s = REAL.monotonic()
        if not self._leg.stop_file or now_s - self._looked_s < WAIT_S:
            return
        self._looked_s = now_s
        if REAL.access(self._leg.stop_file, os.F_OK):
            session.shouldstop = session.shouldstop or STOP_REQUESTED

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # An xdist controller gets reports of tests that run elsewhere, and has no `_reports`.
        if self._reports is None:
            return
        if report.outcome in RERUN_REPORTS:
            self._reports = self._reports.next_execution(report, self._top)
        else:
            self._reports.add(report, self._top)
            if report.failed:
                self._failures.append(report)

    def pytest_exception_interact(self, call: pytest.CallInfo[Any]) -> None:
        if self._reports is not None and call.excinfo is not None:
            if isinstance(call.excinfo.value, MemoryError):
                self._reports.ending = "out_of_memory"
            elif _is_timeout(call.excinfo):
                self._reports.ending = "timeout"

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        # This runs in an xdist controller. A worker that has to stop is interrupted, not dead.
        stop_requested = bool(self._leg.stop_file) and os.path.exists(self._leg.stop_file)
        if not error or error == "keyboard-interrupt" or stop_requested:
            return
        end_session(self._config)
        name = str(node.gateway.id)
        with contextlib.suppress(OSError):
            found = self._workers.result_of_dead_worker(
                name, str(error), self._file_of(name), self._now_s()
            )
            if found:
                found["message"] = truncated(found["message"])
                found["try"] = 1 + self._leg.tries_before.get(found["unit"], 0)
                leg = {"suite": self._leg.suite, "variant": self._leg.variant}
                file = _RecordFile(self._file_of(name))
                line = {"type": "result", **leg, "process": self._leg.process, **found}
                file.append(REAL.encode(line))
                file.sync(every_s=0)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Wrapper:
        if fixturedef.scope == "function" or self._setups is None:
            yield
        else:
            yield from self._setups.measure()

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        if fixturedef.scope != "function":
            self._memory.end_wider_fixture()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Wrapper:
        yield
        if self._record.dropped:
            self._event("dropped_lines", f"lines that could not be written: {self._record.dropped}")
        if self._leg.listing_file and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK  # a shard without a test is no failure
        stopped = session.shouldfail or session.shouldstop  # by -x, --maxfail, another plugin
        if stopped and stopped != STOP_REQUESTED and self._is_recording:
            self._event("session_stopped", truncated(str(stopped)))
        # xdist ends its workers without waiting for their threads.
        threads = [] if hasattr(self._config, "workerinput") else self._threads.left()
        for name, unit in threads[:MAX_THREADS]:
            self._event("thread_left", name, unit=unit)
        self._event("session_end", str(int(session.exitstatus)))
        self._record.sync(every_s=0)


def _enable_ctrl_break() -> None:
    """Handle Ctrl-Break as Ctrl-C: on Windows a leg can send only Ctrl-Break, which ends Python."""
    number = getattr(signal, "SIGBREAK", None)
    if number is not None and signal.getsignal(number) == signal.SIG_DFL:
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(number, signal.default_int_handler)


def _answer_with_stacks(path: str) -> None:
    """Let the leg request the stacks of all threads by a signal, when a test hangs.

    faulthandler's handler is written in C: it also answers during an endless C call, and needs no
    help of the tests. The file's name shows the leg which processes of a tree can answer; the
    signal would kill any other process.
    """
    last, register = getattr(signal, "SIGRTMAX", None), getattr(faulthandler, "register", None)
    if not path or last is None or register is None:
        return
    # Without a file the leg sends no signal; a full disk must not stop a session.
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | REAL.flags
        ready = f"{path}-{os.getpid()}"
        descriptor = REAL.dup_high(os.open(f"{ready}.tmp", flags, 0o644))
        register(int(last) - 7, file=descriptor, all_threads=True)
        REAL.written_to_by_a_signal = descriptor
        os.rename(f"{ready}.tmp", ready)  # from now on the leg may send the signal


def _refuse_second_session(leg: _Assignment) -> None:
    """Raise UsageError, and record it, if another session runs or ran the same units."""
    if not leg.units_file:
        return
    try:
        REAL.close(REAL.open(f"{leg.units_file}.claimed", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        what = "the suite's command started pytest twice for one batch of tests"
        fix = "configure one suite for each call of pytest, and retries in the plan"
        event = {"type": "event", "kind": "second_session", "detail": what}
        _RecordFile(leg.record_file).append(REAL.encode(event))
        raise pytest.UsageError(f"ciguard: {what}: {fix}") from None
    except OSError:
        pass  # a full disk loses more than this check


def _refuse_not_executing(config: pytest.Config, leg: _Assignment) -> None:
    """Raise UsageError, and record it, if pytest executes no test but may end with 0."""
    ini = config.inipath.name if config.inipath else ""
    words = [(f"{ini}: ", word) for word in config.getini("addopts")]
    words += [("PYTEST_ADDOPTS: ", one) for one in os.environ.get("PYTEST_ADDOPTS", "").split()]
    words += [("", word) for word in map(str, config.invocation_params.args)]
    for option in (one for one in NOT_EXECUTING if config.getoption(one, False)):
        spellings = NOT_EXECUTING[option]
        written = (place + word for place, word in words if word in spellings)
        setting = next(written, spellings[0])  # code of the project can set the option, too
        event = {"type": "event", "kind": "execution", "reason": "not_executed"}
        _RecordFile(leg.record_file).append(REAL.encode({**event, "detail": setting}))
        what = f"with {setting} pytest executes no test"
        raise pytest.UsageError(f"ciguard: {what}: remove it from the settings of pytest")


@pytest.hookimpl(optionalhook=True, hookwrapper=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Wrapper:
    """Limit the number that xdist, or a hook of the project, chooses for "-n auto"."""
    answer = yield
    line = limited_workers(int(answer.get_result()), config.option.maxprocesses, os.environ)
    if line:
        answer.force_result(line["facts"]["workers"])
        leg = _Assignment(os.environ)
        at_s = round(max(0.0, REAL.monotonic() - leg.origin_s), 6)
        event = {"type": "event", "at_s": at_s, **line}
        _RecordFile(leg.record_file).append(REAL.encode(event))


def pytest_configure(config: pytest.Config) -> None:
    leg, manager = _Assignment(os.environ), config.pluginmanager
    _answer_with_stacks(
        "" if config.option.collectonly else os.environ.get("CIGUARD_STACKS_FILE", "")
    )
    # A script may list its tests first. With any other setting, no session of it may run no test.
    lists = set(COLLECTING).intersection(map(str, config.invocation_params.args))
    if leg.record_file and not lists:
        # A pytest that a test starts inherits our variables, but its tests are not planned.
        owner = os.environ.setdefault("CIGUARD_TAKEN_BY", str(os.getpid()))
        if owner == str(os.getpid()) or hasattr(config, "workerinput"):
            _refuse_not_executing(config, leg)
            if not hasattr(config, "workerinput"):
                _refuse_second_session(leg)
            manager.register(_Recorder(leg, config), "ciguard-recorder")
            _enable_ctrl_break()
