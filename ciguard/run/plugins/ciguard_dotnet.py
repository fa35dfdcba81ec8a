"""Launcher of `dotnet test`: `ciguard_dotnet.py dotnet test PROJECT FLAGS`.

Each test assembly runs by itself, one after the other. In VSTest, a collector in the test host and
a logger in its console (ciguard_dotnet.cs) write what happens into files, which the launcher reads
while they grow; an application of Microsoft.Testing.Platform tells it over a pipe (ciguard_mtp.py).
Text that the SDK prints is shown and decides nothing: it is translated.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Iterable, Iterator, List, Mapping, Sequence, Tuple

if TYPE_CHECKING:  # the same file by the name that a checker finds it under
    from ciguard.run.plugins import ciguard_dotnet_setup as setup
    from ciguard.run.plugins import ciguard_launcher as launcher
    from ciguard.run.plugins import ciguard_mtp as mtp
    from ciguard.run.plugins.ciguard_dotnet_setup import Assembly
    from ciguard.run.plugins.ciguard_launcher import Leg, Line
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which -I leaves out
    import ciguard_dotnet_setup as setup
    import ciguard_launcher as launcher
    import ciguard_mtp as mtp

Case = Tuple[str, str]  # method, and display name of one of its cases
Start = Tuple[List[str], Mapping[str, str], str]  # arguments, environment, folder for its files
PASSED, FAILED = 0, 1
KILLED = -9  # by SIGKILL
HOST_DIED = 134  # while no test ran: as .NET ends after an unhandled exception
POLL_S = 0.05
NO_RESULT = "listed, but has no result: the test host ended its run without one"
OUTCOMES = {"Passed": "passed", "Failed": "failed", "Skipped": "skipped", "None": "skipped"}
PARALLEL = "--ciguard-parallel="  # the suite's key, as the adapter passes it
# Units of a time of `--blame-hang-timeout`; without one, it is in milliseconds.
SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "": 0.001}
# Options of `dotnet test PROJECT` that the launcher uses, and that `dotnet test X.dll` takes, too.
USED = ("--settings", "--filter", "--results-directory")
VSTEST = re.compile(
    r"(--(logger|collect|diag|test-adapter|environment|nologo|blame)|-[lde]($|[=:]))"
)
ARGUMENTS = re.compile(r'\((?:[^"()]|"(?:\\.|[^"\\])*")*\)$')  # of a case of NUnit
# Methods of NUnit that no filter selects with all rows: generic ones, and names it cannot read.
AWKWARD = re.compile(r'>$|\\"|^(?:[^"]|"[^"]*")*?\s')
IN_FILE = re.compile(r" in (.+):line (\d+)")
FRAME = re.compile(r"^ +\S+ (\S+)\(", re.M)  # of a stack: "   at Shop.Mark.Fire()"
# What the compiler makes of lambdas, local functions and async methods: `<>c.<Fire>b__1_0`.
CLOSURE = re.compile(r"<>c(?:__DisplayClass\w+)?\.")
GENERATED = re.compile(r"<(\w+)>[a-z]__?[\w|]*(?:\.MoveNext)?")


class HostStream:
    """Events of one test host and its console, as lines of the record.

    A unit is a method; its cases are rows. A case is over with its stop, TestCaseEnd or result, and
    a unit if each of its listed cases has a result. A theory whose rows cannot be listed is one
    case with several results, which are complete at the end of the run.

    Args:
        units: method -> id of the units to run.
        cases: method -> its listed cases.
        here: the working folder.
        hang_s: silence after which `--blame-hang` ends the host.
    """

    def __init__(
        self,
        units: Mapping[str, str],
        cases: Mapping[str, Sequence[Line]],
        here: str,
        hang_s: float,
    ) -> None:
        self._units, self._cases, self._here, self._hang_s = units, cases, here, hang_s
        self._missing: dict[str, Counter[str]] = {}  # method -> display names without a result
        self._owners: dict[str, set[str]] = {}  # display name -> its methods
        self._renamed: set[str] = set()  # methods with display names of their own
        for method in units:
            self._missing[method] = Counter(case["case"] for case in cases[method])
            for display in self._missing[method]:
                self._owners.setdefault(display, set()).add(method)
                self._renamed |= set() if display.startswith(method) else {method}
        self._open: dict[Case, Line] = {}  # with the line of the start
        self._memory: dict[Case, Line] = {}  # of cases that are over
        self._unmatched: dict[str, Line] = {}  # display name that several methods may have
        self._with_rows: Counter[str] = Counter()  # method -> results that are not listed
        self._begun: set[str] = set()
        self.closed: set[str] = set()  # the methods that are over
        self._to_end: set[str] = set()  # methods that ran when the host was to stop
        self._has_events = self._left_running = False
        self.pid = 0  # of the test host
        self.peak_bytes = 0  # before its first test
        self.is_complete = False  # the run came to its end
        self.exit_code: int | None = None  # of a host that ended itself
        self.unhandled = ""  # the exception that ended the host
        self.last_s = 0.0  # moment of the last event of a test
        self._over_s = 0.0  # moment of the console's end

    @property
    def open_units(self) -> set[str]:
        """The methods that are running, or may be."""
        return {method for method, _ in self._open}.union(*map(self._methods, self._unmatched))

    @property
    def not_started(self) -> list[str]:
        """The methods of which nothing is known."""
        return [method for method in self._units if method not in self._begun]

    def may_stop(self) -> bool:
        """Return whether no unit runs, or one has ended since this was asked first."""
        running = self._begun - self.closed.union(self._with_rows)
        self._to_end = self._to_end or running
        return not running or bool(self._to_end & self.closed)

    def read(self, line: Line) -> list[Line]:
        """Take in a line of the collector or the logger."""
        kind, name, display = line["type"], line.get("unit") or "", line.get("case") or ""
        method = name if name in self._units else method_of(name)
        if kind == "running":
            self._has_events = True
            methods = self._methods(display)
            if len(methods) == 1:
                return self._begin((methods.pop(), display), line)
            self._unmatched[display] = line
        elif kind == "ran":
            self._unmatched.pop(display, None)
            for case in [case for case in self._open if case[1] == display][:1]:
                self._mark_over(case, line)
        elif kind == "start":
            # xunit v2 sends it late, but it names the method, and the theory of an unlisted row.
            rows = (one for one in self._unmatched if one.startswith(f"{display}("))
            row = display if display in self._unmatched else next(rows, display)
            begun = self._unmatched.pop(row, None) if self._has_events else line
            return self._begin((method, row), begun) if begun else []
        elif kind == "end":
            self._mark_over((method, display), line)
        elif kind == "result" and method in self._units and line["outcome"] != "NotFound":
            return self._result(method, line)
        elif kind == "host":
            self.pid = int(line["pid"])
        elif kind == "exit":
            self.exit_code = int(line["code"])
        elif kind == "unhandled":
            self.unhandled = line["message"] or "an exception"
        elif kind == "complete":
            self._over_s = line["at_s"]
            self.is_complete = not (line["aborted"] or line["canceled"])
        return []

    def _methods(self, display: str) -> set[str]:
        """Return the methods of a display name; a row that is not listed begins with its theory."""
        owners, theory = self._owners, display.partition("(")[0]
        methods = owners.get(display) or owners.get(theory) or {theory} & self._units.keys()
        return (methods or self._renamed) - self.closed

    def _begin(self, case: Case, line: Line) -> list[Line]:
        method, display = case
        if method not in self._units or method in self.closed:
            return []
        self._open[case] = dict(line)
        for other in self._open.values():
            other["concurrent"] = max(other.get("concurrent", 1), len(self._open))
        lines = self._start(method, line)
        if len(self._cases[method]) > 1:
            event = {"type": "event", "kind": "case_start", "unit": self._units[method]}
            lines.append({**event, "detail": display, "at_s": line["at_s"]})
        return lines

    def _start(self, method: str, line: Line) -> list[Line]:
        self.last_s = line["at_s"]
        if method in self._begun:
            return []
        self._begun.add(method)
        start = {"type": "start", "unit": self._units[method], "at_s": line["at_s"]}
        listed = self._cases[method][0]
        file = launcher.relative(listed["file"], self._here)
        place = {"file": file, "line": listed["line"]} if file else {}
        return [{**start, **place, "rss_before_bytes": line.get("rss_bytes")}]

    def _mark_over(self, case: Case, line: Line) -> None:
        """Take in that a case is over; its memory is an upper bound if others ran meanwhile."""
        begun = self._open.pop(case, None)
        if begun is None:
            return
        # A [Fact(Timeout)] never stops: the test goes on in the background.
        self._left_running |= self._has_events and line["type"] != "ran"
        before, peak = begun.get("rss_bytes"), line.get("peak_bytes")
        if before is None or peak is None:
            return
        found = {"rss_before_bytes": before, "concurrent": begun["concurrent"]}
        if begun["concurrent"] > 1 or self._left_running:
            found["peak_upper_bytes"] = peak
        else:
            found.update(peak_bytes=peak, peak_delta_bytes=max(0, peak - before))
            found.update(retained_bytes=line["rss_bytes"] - before, measured_by="mark_untrimmed")
            if begun.get("allocated_bytes") and line.get("allocated_bytes"):
                found["allocated_bytes"] = line["allocated_bytes"] - begun["allocated_bytes"]
        self._memory[case] = found

    def _result(self, method: str, line: Line) -> list[Line]:
        display, outcome = line["case"] or "", OUTCOMES.get(line["outcome"], "failed")
        lines = self._start(method, line)
        self._mark_over((method, display), line)
        unit = self._units[method]
        result: Line = {"type": "result", "unit": unit, "outcome": outcome}
        result.update(at_s=line["at_s"], wall_s=line["wall_s"])
        result.update(self._memory.pop((method, display), {}))
        allocated = result.pop("allocated_bytes", None)
        group, _, name = method.rpartition(".")
        # The name of a case as TRX files have it, with its class.
        case = f"{group}.{display}" if display.startswith(name) else display
        case = case if line["unit"] == method else line["unit"]
        result.update({} if case == method else {"case": unit[: -len(method)] + case})
        if outcome != "passed":
            trace = line.get("trace") or ""
            text = f"{line.get('message') or ''}\n{trace}".strip()
            place = IN_FILE.search(trace)
            file = launcher.relative(place[1], self._here) if place else ""
            result.update(message=launcher.truncated(text))
            result.update({"file": file, "line": int(place[2])} if place and file else {})
        lines.append(result)
        if allocated is not None:
            metric: Line = {"type": "metric", "name": "allocated_bytes", "unit": "bytes"}
            metric.update(value=allocated, at_s=line["at_s"])
            lines.append({**metric, "key": {"test": result.get("case", unit)}})
        missing = self._missing[method]
        if display in missing:
            missing[display] -= 1
            if not missing[display]:
                del missing[display]
            return lines + ([] if missing or method in self._with_rows else self._close(method))
        self._with_rows[method] += 1
        return lines

    def _close(self, method: str) -> list[Line]:
        if method in self.closed:
            return []
        self.closed.add(method)
        return [launcher.closed(self._units[method])]

    def end(self, *, was_stopped: bool) -> tuple[list[Line], set[str]]:
        """End a host: return lines on it, and the methods to blame if it died.

        An exception from elsewhere (async void, a thread) is blamed on a method in its stack, or on
        a test that ran alone. A test that is over and has no result runs again. A host that was
        silent for as long as `--blame-hang` waits was ended by that.
        """
        if self.is_complete and not was_stopped:
            return self._end_complete(), set()
        blamed = set() if was_stopped else self.open_units
        stack = self._stack().replace("+", ".")
        if stack and len(self._units) > 1:
            blamed = {one for one in self._units if f" {one.replace('+', '.')}(" in stack}
        is_hang = self._over_s - self.last_s >= self._hang_s
        detail = launcher.truncated(self.unhandled.partition("\n")[0] or "the test host died")
        lines: list[Line] = []
        for method in sorted((self._begun | blamed) - self.closed):
            kind = "interrupted" if method in blamed else "unit_paused"
            event = {"type": "event", "kind": kind, "unit": self._units[method], "detail": detail}
            lines += [*self._start(method, {"at_s": self.last_s}), event]
        for method in sorted(blamed if is_hang else blamed & self.closed):
            death = launcher.death(self._units[method], self.unhandled, "")
            hang = {"ending": "timeout", "message": "--blame-hang ended the test host"}
            lines.append({**death, **(hang if is_hang else {}), "concurrent": len(blamed)})
        return lines, blamed

    def _end_complete(self) -> list[Line]:
        """Close the methods that have begun; a case fails if fewer results came than are listed."""
        lines: list[Line] = []
        for method in sorted(self._begun - self.closed):
            line = {"unit": method, "outcome": "Failed", "wall_s": 0.0, "at_s": self.last_s}
            for display in list(self._missing[method].elements())[self._with_rows[method] :]:
                lines += self._result(method, {**line, "case": display, "message": NO_RESULT})
            lines += self._close(method)
        return lines

    def how_ended(self, blamed: set[str], *, was_stopped: bool) -> str:
        """Return how the host ended: "elsewhere" if an exception of no test ended open ones."""
        if self.is_complete or was_stopped:
            return "stopped" if was_stopped else "complete"
        if blamed:
            return "in a test"
        if self.unhandled and self.open_units:
            return "elsewhere"
        has_begun = self.last_s or self.unhandled or self.exit_code is not None
        return "between tests" if has_begun else "in discovery"

    def _stack(self) -> str:
        return GENERATED.sub(r"\1", CLOSURE.sub("", self.unhandled))

    def describe_exception(self) -> str:
        """Return where an exception came from that no test is to blame for."""
        frame = FRAME.search(self._stack())
        source = "async void" if "ThrowAsync" in self.unhandled else "an exception"
        names = ", ".join(sorted(name.rpartition(".")[2] for name in self.open_units)) or "no test"
        return f"{source} in `{frame[1] if frame else '?'}`; {names} was open"


def new_lines(folder: str, read: dict[str, int]) -> list[Line]:
    """Return the new lines of a console and its host, by time.

    Args:
        read: number of bytes read before, by file; is updated.
    """
    found: list[Line] = []
    # The console's files first: what came before its lines in a host is then read, too.
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as stream:
            stream.seek(read.get(name, 0))
            whole, feed, _ = stream.read().rpartition(b"\n")
        read[name] = read.get(name, 0) + len(whole + feed)
        found += map(json.loads, whole.splitlines())
    return sorted(found, key=lambda line: line["at_s"])


class Run:
    """The assemblies of a suite, for a listing or for one process of a leg."""

    def __init__(self, words: Sequence[str], leg: Leg) -> None:
        own = [word for word in words if word.startswith(PARALLEL)]
        self._words = [word for word in words if word not in own]
        self._parallel = own[-1] == f"{PARALLEL}true" if own else None
        self._vstest_words, self._options = divided(self._words)
        self._leg, self._here, self._starts = leg, os.getcwd(), 0
        # All processes of a leg share the compiled library and the list of cases.
        self._shared = os.path.dirname(leg.private or leg.collect_file)
        self._one_at_a_time = os.path.join(self._shared, "one-at-a-time")
        setup.refuse_values(self._words)
        found = setup.assemblies(self._words, leg.environ)
        self.assemblies = {label(assembly, found): assembly for assembly in found}
        if len(self.assemblies) < len(found):
            raise ValueError("two assemblies have one name: make each of them a suite")

    def _prepare(self, assembly: Assembly, *, listing: bool = False, **selection: Any) -> Start:
        """Return how to start a console, or an application."""
        self._starts += 1
        name = f"process-{os.environ.get('CIGUARD_PROCESS', '0')}-{self._starts}"
        folder = tempfile.mkdtemp(prefix=f"{name}-", dir=self._shared)
        used, environ = dict(self._options), self._leg.environ
        parallel = False if os.path.exists(self._one_at_a_time) else self._parallel
        if "--results-directory" in used:
            name = os.path.abspath(os.path.join(used["--results-directory"], name))
            used["--results-directory"] = name
        if assembly.host == "mtp":
            how = {"listing": listing, "is_alone": parallel is False}
            found = mtp.application(
                assembly.path, assembly.project, self._words, used, environ, **how
            )
            return (*found, folder)
        text = setup.settings(
            used.get("--settings") or assembly.settings,
            library=setup.compiled(self._words[0], self._shared, environ),
            adapter=assembly.adapter,
            parallel=parallel,
            listing=listing,
            results_folder=name,
            **selection,
        )
        with open(f"{folder}.runsettings", "w", encoding="utf-8") as file:
            file.write(text)
        words = self._vstest_words
        if listing:
            words = ["--list-tests"]
            words += ["--filter", used["--filter"]] if "--filter" in used else []
        argv = [self._words[0], "test", assembly.path, "--settings", file.name, *words]
        return argv, {**environ, "CIGUARD_DOTNET_FOLDER": folder}, folder

    def cases(self, assembly: Assembly) -> list[Line]:
        """Return the cases of an assembly; a leg lists it once.

        Raises:
            ValueError: there is no list; has the output.
        """
        words = json.dumps([assembly.path, self._words])
        path = os.path.join(self._shared, f"cases-{hashlib.sha1(words.encode()).hexdigest()}")
        if not os.path.exists(path):
            argv, environ, folder = self._prepare(assembly, listing=True)
            is_nunit = assembly.adapter == "nunit"
            if assembly.host == "mtp":
                lines = mtp.list_tests(argv, environ, is_nunit=is_nunit)
            else:
                output = setup.output(argv, environ)
                lines = new_lines(folder, {})
                if not any(line["type"] == "discovered" and not line["aborted"] for line in lines):
                    raise ValueError(f"{assembly.path}: no list of tests\n{output}")
            tests = [line for line in lines if line["type"] == "test"]
            if assembly.adapter == "xunit":  # of rows with equal values it runs one
                tests = list({test.get("uid") or test["id"]: test for test in tests}.values())
            for test in tests:
                test["method"] = method_of(test["unit"]) if is_nunit else test["unit"]
            with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
                json.dump(tests, file)
            os.replace(file.name, path)
        with open(path, encoding="utf-8") as file:
            found: list[Line] = json.load(file)
        return found

    def run(self, assembly: Assembly, units: Mapping[str, str]) -> Iterator[tuple[int, bool]]:
        """Start hosts until each method has run; yield exit codes, and whether the leg is to go on.

        Args:
            units: method -> id.
        """
        cases: dict[str, list[Line]] = {}
        for case in self.cases(assembly):
            cases.setdefault(case["method"], []).append(case)
        self._leg.append(launcher.not_collected(units[one] for one in units if one not in cases))
        hang_s = hang_limit_s(self._words)
        is_mtp, existing = assembly.host == "mtp", [one for one in units if one in cases]
        # NUnit knows a test with a TestName of its own by its full name only.
        has_where = assembly.adapter == "nunit" and not is_mtp
        existing = self._without_explicit({one: units[one] for one in existing}, cases)
        awkward = [method for method in existing if is_awkward(cases[method], assembly)]
        parts = [[method for method in existing if method not in awkward], awkward]
        if is_mtp:
            unselected = (units[method] for method in parts.pop())
            self._leg.append(launcher.not_collected(unselected, mtp.NOT_SELECTABLE))
        while any(parts) and not self._leg.must_stop():
            part = parts.pop(0)
            if not part:
                continue
            selection: dict[str, Any] = {"names": part}
            if part[0] in awkward:
                selection = {"where": where_of(one["unit"] for name in part for one in cases[name])}
            own = {method: units[method] for method in part}
            stream = HostStream(own, cases, self._here, hang_s)
            start = self._prepare(assembly, **selection)
            if is_mtp:
                tests = {case["uid"]: case for method in part for case in cases[method]}
                code, was_stopped = self._follow_application(stream, start, tests, assembly)
            else:
                code, was_stopped = self._follow(stream, start)
            if self._leg.is_interrupted:
                yield code, False
                return
            lines, blamed = stream.end(was_stopped=was_stopped)
            how = stream.how_ended(blamed, was_stopped=was_stopped)
            self._leg.append(lines)
            if how == "complete":
                missed = stream.not_started if has_where and "names" in selection else []
                awkward = [*awkward, *missed]
                parts.append(missed)
                yield PASSED if missed == part else code, True
                continue
            if stream.unhandled and not blamed:
                sys.stderr.write(f"ciguard: a test host died of {stream.describe_exception()}\n")
            if how == "elsewhere":  # each open test runs alone: one that dies again is the culprit
                alone = sorted(stream.open_units)
                rest = [method for method in part if method not in stream.closed.union(alone)]
                parts = [*([method] for method in alone), rest, *parts]
                yield FAILED, True
                continue
            if len(blamed) > 1:  # the rest runs one at a time until the culprit is known
                open(self._one_at_a_time, "w").close()
            if how == "in discovery":
                size = f"{sum(map(len, cases.values())):,} cases"
                size += f", {stream.peak_bytes / 2**30:.1f} GiB" if stream.peak_bytes else ""
                sys.stderr.write(f"ciguard: the test host died in discovery ({size})\n")
            codes = {"stopped": PASSED, "in a test": stream.exit_code, "between tests": HOST_DIED}
            of_host = codes.get(how)
            yield code if of_host is None else of_host, False
            return

    def _without_explicit(
        self, units: Mapping[str, str], cases: dict[str, list[Line]]
    ) -> list[str]:
        """Record NUnit's [Explicit] tests as skipped, unless --filter asks; return other methods.

        A selection by names runs them if it has no others, and else NUnit tells nothing of them:
        no result is expected of an explicit row beside other rows of its method.
        """
        stream = HostStream(units, cases, self._here, math.inf)
        for method in units:
            others = [case for case in cases[method] if not case.get("explicit")]
            cases[method] = others or cases[method]
            for case in cases[method] if not (others or "--filter" in self._options) else ():
                line = {"type": "result", "outcome": "Skipped", "wall_s": 0.0, "at_s": time.time()}
                self._leg.append(stream.read({**case, **line, "message": "[Explicit]"}))
        return [method for method in units if method not in stream.closed]

    def _follow(self, stream: HostStream, start: Start) -> tuple[int, bool]:
        """Run a console to its end; return its exit code, and whether its host was stopped.

        If the leg asks for that, the host is stopped after a test, and the console then ends.
        """
        argv, environ, folder = start
        read: dict[str, int] = {}
        was_stopped, code = False, None
        process = subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL)
        while code is None:
            code = process.poll()
            for line in new_lines(folder, read):
                self._leg.append(stream.read(line))
            if stream.pid and not stream.last_s:  # it discovers the tests
                memory = mtp.memory_of(stream.pid)
                stream.peak_bytes = memory.get("peak_bytes", stream.peak_bytes)
            if stream.pid and not was_stopped and self._leg.must_stop() and stream.may_stop():
                was_stopped = True
                with contextlib.suppress(OSError):
                    os.kill(stream.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
            time.sleep(POLL_S)
        return code, was_stopped

    def _follow_application(
        self, stream: HostStream, start: Start, tests: Mapping[str, Line], assembly: Assembly
    ) -> tuple[int, bool]:
        """Run an application to its end, as `_follow` does with a console."""
        argv, environ, folder = start
        is_nunit, was_stopped = assembly.adapter == "nunit", False

        def take(line: Line) -> None:
            test = tests.get(line.get("uid", ""), {})
            self._leg.append(
                stream.read({**line, "unit": test.get("unit"), "case": test.get("case")})
            )

        def must_end() -> bool:
            nonlocal was_stopped
            was_stopped = self._leg.must_stop() and stream.may_stop()
            return was_stopped

        names = {test["method"] for test in tests.values()} if is_nunit else tests.keys()
        how: dict[str, Any] = {"take": take, "must_end": must_end, "is_nunit": is_nunit}
        code = mtp.run(argv, sorted(names), folder=folder, environ=environ, **how)
        stream.exit_code = code if code >= 0 else None
        if is_nunit or code == KILLED:  # the start of a test may come late, or not at all
            stream.unhandled = stream.unhandled or "a signal, perhaps of another test"
        return FAILED if code == mtp.TESTS_FAILED else code, was_stopped


def method_of(name: str) -> str:
    """Return NUnit's name of a case without its arguments: `A("(").B(1)` -> `A("(").B`."""
    return ARGUMENTS.sub("", name)


def is_awkward(cases: Sequence[Line], assembly: Assembly) -> bool:
    """Return whether no filter and no option can name the cases of a method."""
    if assembly.adapter == "nunit":
        return AWKWARD.search(cases[0]["method"]) is not None
    return assembly.host == "mtp" and any(mtp.UNSELECTABLE.search(one["uid"]) for one in cases)


def where_of(names: Iterable[str]) -> str:
    """Return NUnit's selection of tests by names that its filter cannot read."""

    def pattern(name: str) -> str:
        # A dot matches a unit of UTF-16, and an emoji has two.
        return re.sub("[^A-Za-z0-9_<>]", lambda at: "." * (1 + (at[0] > "\uffff")), name)

    return " or ".join(f'test =~ "^{pattern(name)}$"' for name in names)


def divided(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the words that `dotnet test X.dll` takes, too, and the values of used options."""
    taken: list[str] = []
    used: dict[str, str] = {}
    for name, value, own in setup.options(words):
        if name in (*USED, "-s"):
            used["--settings" if name == "-s" else name] = value
        elif VSTEST.match(name):
            taken += own
    return taken + list(words[words.index("--") :] if "--" in words else ()), used


def hang_limit_s(words: Sequence[str]) -> float:
    """Return the silence after which `--blame-hang` ends a host, in seconds."""
    found = re.search(r"--blame-hang-timeout[ =:]([\d.]+)(ms|[hms]|)", " ".join(words))
    if found:
        return float(found[1]) * SECONDS[found[2]]
    return SECONDS["h"] if "--blame-hang" in words else math.inf


def label(assembly: Assembly, assemblies: Sequence[Assembly]) -> str:
    """Return the prefix of an assembly's units, `[Shop.Tests net8.0] `; "" for a single one."""
    stem = os.path.splitext(os.path.basename(assembly.path))[0]
    return f"[{stem} {assembly.framework}] " if len(assemblies) > 1 else ""


def list_tests(words: Sequence[str], leg: Leg) -> int:
    """Write the listing: the methods of all assemblies."""
    here = os.getcwd()
    units: dict[str, Line] = {}
    errors: list[Line] = []
    untried: list[str] = []
    try:
        run = Run(words, leg)
        for prefix, assembly in run.assemblies.items():
            untried += assembly.untried
            for case in run.cases(assembly):
                unit = prefix + case["method"]
                units[unit] = {"unit": unit, "file": launcher.relative(case["file"], here)}
    except ValueError as error:
        errors.append({"error": "dotnet", "message": str(error)})
    leg.answer(units.values(), errors, here, untried=untried)
    return FAILED if errors else PASSED


def run_tests(words: Sequence[str], leg: Leg) -> int:
    """Run the units of each assembly, until a host dies."""
    codes = [PASSED]
    try:
        run = Run(words, leg)
        for prefix, assembly in run.assemblies.items():
            asked = {unit[len(prefix) :]: unit for unit in leg.units if unit.startswith(prefix)}
            for code, goes_on in run.run(assembly, asked) if asked and not leg.must_stop() else ():
                codes.append(code)
                if not goes_on:
                    return code
    except ValueError as error:
        sys.stderr.write(f"ciguard: {error}\n")
        codes.append(FAILED)
    return max(codes)


if __name__ == "__main__":
    launcher.launch(sys.argv[1:], list_tests, run_tests)
