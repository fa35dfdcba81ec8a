"""Launcher of `go test -json`: `ciguard_go.py go test FLAGS PACKAGES`.

One `go test` runs all packages, so that Go builds them in parallel, with this file as `-exec`. As
such it passes each test binary the regular expression of its own tests, which no flag of `go test`
can, and runs one binary at a time. If a test ends its binary, the tests of its package without a
result run again.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence

if TYPE_CHECKING:  # the same file by the name that a checker finds it under
    from ciguard.run.plugins import ciguard_launcher as launcher
    from ciguard.run.plugins.ciguard_launcher import Leg, Line
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which -I leaves out
    import ciguard_launcher as launcher

if sys.platform != "win32":
    import fcntl

PATTERN_BYTES = 100 << 10  # of one argument; Linux takes 128 KiB
BATCH = "CIGUARD_GO_BATCH"  # for this file as `-exec`: path of a JSON file
LISTED = re.compile(r"(?:Test|Example|Fuzz)\w*$")
ALL_TESTS = "^(Test|Example|Fuzz)"
FLAG = r"--?(?:test\.)?{}(?:=(.*))?$"
# Words of GOFLAGS that exclude tests; the adapter refuses them as arguments.
LEAVES_OUT = re.compile(r"--?(?:test\.)?(?:((?:run|skip)=)|n$|c$|list=)")
REPLACED = re.compile(r"-test\.(?:run|timeout)=")
GO_LIMIT = "10m"  # Go's default
# Flags of `go test` whose value may be another word that looks like a package.
VALUED = re.compile(
    r"--?(?:test\.)?(?:C|o|coverpkg|coverprofile|exec|outputdir|tags|modfile|overlay|pgo|pkgdir"
    r"|toolexec|trace|(?:asm|gc|ld)flags|(?:block|cpu|mem|mutex)profile)$"
)
OUTCOMES = {"pass": "passed", "fail": "failed", "skip": "skipped"}
FRAME = re.compile(r"=== (?:RUN|PAUSE|CONT|NAME|ATTR) |\s*--- (?:PASS|FAIL|SKIP): |(?:FAIL|ok  )\t")
ENDED = re.compile(r"\s*--- (?:PASS|FAIL|SKIP): ")
# test2json reports the end of a test as output if it follows a line of some KiB without a line
# feed. Go 1.27, https://github.com/golang/go/blob/master/src/cmd/internal/test2json
LOST_END = re.compile(r"\x16\s*--- (PASS|FAIL|SKIP): (.+) \((\d+\.\d+)s\)\s*$")
PLACE = re.compile(r"\s*([\w.-]+_test\.go):(\d+): ")
NOT_BUILT = re.compile(r"FAIL\t(\S+) \[(?:build|setup) failed\]\s*$")
BUILD = re.compile(r"# (\S+)")
ENDINGS = {
    "timeout": re.compile(r"^panic: test timed out after", re.M),
    "out_of_memory": re.compile(
        r"^fatal error: (?:runtime: )?(?:out of|cannot allocate) mem", re.M
    ),
}
# A goroutine outlived its test and reported to it: the running test is not to blame.
OUTLIVED = re.compile(
    r"^panic: (?:Fail|Log) in goroutine after (\S+?)(?:/\S*)? has completed", re.M
)


class _Test:
    """A test or subtest that has begun and not ended."""

    def __init__(self) -> None:
        self.log = ""
        self.paused = False
        self.has_ended = False
        self.has_failed_part = False

    def add(self, text: str) -> None:
        self.has_ended = self.has_ended or ENDED.match(text) is not None
        if len(self.log) < launcher.LOG_CHARACTERS:
            self.log += text

    def message(self) -> str:
        """Return the test's own output."""
        lines = (line for line in self.log.splitlines(keepends=True) if not FRAME.match(line))
        return dedent("".join(lines)).strip("\n")


class GoStream:
    """Parser of one `go test -json` after the other.

    A unit is `package.Test`; its subtests are cases, and the test's time includes theirs. A paused
    test does not run. https://go.dev/cmd/test2json

    Args:
        folders: package -> its folder in the repository.

    Attributes:
        printed: package -> its output outside of tests.
        failed: package without a test that began -> why it failed.
    """

    def __init__(self, folders: Mapping[str, str]) -> None:
        self._folders = folders
        self._tests: dict[str, dict[str, _Test]] = {}  # by package and name, open ones
        self._builds: dict[str, str] = {}
        self._build = ""
        self._begun: set[str] = set()
        self._packages_begun: set[str] = set()  # since `begin`
        self._ended: set[str] = set()
        self._bad: set[str] = set()
        self.printed: dict[str, str] = {}
        self.failed: dict[str, str] = {}

    def begin(self) -> None:
        self._packages_begun, self._ended, self._bad = set(), set(), set()
        self.printed, self.failed, self._builds = {}, {}, {}

    def read(self, line: bytes) -> tuple[list[Line], bytes]:
        """Parse a line; return lines of the record, and the output of `go test` without -json."""
        if line.startswith(b"{"):
            try:
                event = json.loads(line)
            except ValueError:
                return [], line
            if isinstance(event, dict) and "Action" in event:
                lines, shown = self._event(event)
                return lines, shown.encode("utf-8", "replace")
        text = line.decode("utf-8", "replace")
        header, not_built = BUILD.match(text), NOT_BUILT.match(text)
        if header:
            self._build = header[1]
        elif not_built:
            self._fail_package(not_built[1])
        else:
            self._builds[self._build] = self._builds.get(self._build, "") + text
        return [], line

    def _event(self, event: Mapping[str, Any]) -> tuple[list[Line], str]:
        action, package = str(event["Action"]), str(event.get("Package", ""))
        name, output = str(event.get("Test", "")), str(event.get("Output", ""))
        if action == "build-output":
            build = str(event.get("ImportPath", "")).partition(" ")[0]
            self._builds[build] = self._builds.get(build, "") + output
            return [], output
        if action == "output":
            shown = self._output(package, name, output.lstrip("\x16"))
            lost = LOST_END.match(output)
            if lost and lost[2] == name and name in self._tests.get(package, {}):
                return self._end_test(package, name, OUTCOMES[lost[1].lower()], float(lost[3]))
            return [], shown
        if not name:
            if action in OUTCOMES:
                return self._end_package(package, bad=action == "fail"), ""
            return [], ""
        tests = self._tests.setdefault(package, {})
        unit, is_top = f"{package}.{name}", "/" not in name
        if action in ("run", "cont"):
            tests.setdefault(name, _Test()).paused = False
            if is_top:
                self._begun.add(unit)
                self._packages_begun.add(package)
                return [{"type": "start", "unit": unit}], ""
        elif action == "pause":
            tests.setdefault(name, _Test()).paused = True
            if is_top:
                return [{"type": "event", "kind": "unit_paused", "unit": unit}], ""
        elif action in OUTCOMES:
            return self._end_test(package, name, OUTCOMES[action], event.get("Elapsed"))
        return [], ""

    def _output(self, package: str, name: str, text: str) -> str:
        test = self._tests.get(package, {}).get(name)
        if test is not None:
            test.add(text)
            return ""
        known = self.printed.get(package, "")
        self.printed[package] = known + text if len(known) < launcher.LOG_CHARACTERS else known
        return text if text.strip() not in ("PASS", "FAIL") else ""

    def _end_test(
        self, package: str, name: str, outcome: str, elapsed: object
    ) -> tuple[list[Line], str]:
        test = self._tests[package].get(name) or _Test()
        if not test.has_ended:
            # A binary that exited with 0 in a test (syscall.Exit, exit of C): test2json reports an
            # end of that test. The test stays open, and dies.
            return [], ""
        del self._tests[package][name]
        top, _, part = name.partition("/")
        unit, message = f"{package}.{top}", test.message()
        line: Line = {"type": "result", "unit": unit, "outcome": outcome}
        if part:
            line["case"] = name
        elif isinstance(elapsed, (int, float)):
            line["wall_s"] = elapsed
        if outcome != "passed":
            line["message"] = launcher.truncated(message)
            line.update(self._place(package, message))
        shown = test.log if outcome == "failed" else ""
        if outcome == "failed" and part:
            for other in (top, name.rpartition("/")[0]):
                if other in self._tests[package]:
                    self._tests[package][other].has_failed_part = True
        lines = [line]
        if outcome == "failed" and test.has_failed_part and not message:
            lines = []  # its subtests have all information
        if not part:
            lines.append(launcher.closed(unit))
        return lines, shown

    def _place(self, package: str, message: str) -> Line:
        place = PLACE.match(message)
        folder = self._folders.get(package)
        if place is None or folder is None:
            return {}
        return {
            "file": place[1] if folder == "." else f"{folder}/{place[1]}",
            "line": int(place[2]),
        }

    def _end_package(self, package: str, *, bad: bool) -> list[Line]:
        """End a package: its open tests died with it; its paused tests have not run."""
        self._ended.add(package)
        if bad:
            self._bad.add(package)
        deaths: list[Line] = []
        culprit = ""
        for name, test in self._tests.pop(package, {}).items():
            unit = f"{package}.{name}"
            if "/" in name:
                continue  # a subtest: its test has the result
            if test.paused:
                self._begun.discard(unit)
                continue
            output = test.message() + "\n" + self.printed.get(package, "")
            ending = next((name for name, text in ENDINGS.items() if text.search(output)), "crash")
            words = [line for line in output.splitlines() if line.strip() and not FRAME.match(line)]
            first = words[0] if words else "it said nothing (os.Exit?)"
            message = "\n".join([f"its test binary ended: {first}", *words])
            line = {"type": "result", "unit": unit, "outcome": "died", "ending": ending}
            deaths.append({**line, "message": launcher.truncated(message)})
            outlived = OUTLIVED.search(output)
            culprit = f"{package}.{outlived[1]}" if outlived else ""
        for death in deaths:
            death["concurrent"] = len(deaths)  # one of them is to blame: each runs again, alone
        if culprit in self._begun - {death["unit"] for death in deaths}:
            for death in deaths:
                death["concurrent"] = len(deaths) + 1
            deaths.append({**deaths[-1], "unit": culprit, "concurrent": 1})
        if bad and package not in self._packages_begun:
            self._fail_package(package)
        return deaths

    def _fail_package(self, package: str) -> None:
        self._ended.add(package)
        self._bad.add(package)
        build = self._builds.get(package) or self._builds.get(f"{package}_test")
        self.failed[package] = (build or self.printed.get(package, "") or "it failed").strip()

    def end(self) -> Iterator[Line]:
        """End a `go test`: yield the results of open tests, which died, and the failed builds."""
        for package in list(self._tests):
            yield from self._end_package(package, bad=True)
        for package, text in self.failed.items():
            detail = launcher.truncated(text)
            yield {"type": "event", "kind": "collection_error", "unit": package, "detail": detail}

    def is_cut_short(self, unit: str) -> bool:
        """Return whether a unit has not begun in a failed package whose other units have."""
        package = unit.rpartition(".")[0]
        return unit not in self._begun and package in self._bad & self._packages_begun

    def has_skipped(self, unit: str) -> bool:
        """Return whether a unit has not begun although its package has run: it does not exist."""
        return unit not in self._begun and unit.rpartition(".")[0] not in self.failed


def divided(words: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Split a command: the words before the packages, the packages, and `-args` with its words."""
    end = words.index("-args") if "-args" in words else len(words)
    begin = end
    while begin and is_package(words[begin - 1]) and not VALUED.match(words[begin - 2]):
        begin -= 1
    return list(words[:begin]), list(words[begin:end]) or ["./..."], list(words[end:])


def is_package(word: str) -> bool:
    """Return whether a word names packages, unless it is the value of a flag before it."""
    return not word.startswith("-") and (word.startswith(".") or "/" in word or word == "all")


def flag_value(name: str, words: Sequence[str], go_flags: str, otherwise: str) -> str:
    """Return the last value of a flag of Go.

    Args:
        go_flags: value of GOFLAGS. otherwise: the default.
    """
    value, all_words = otherwise, [*go_flags.split(), *words]
    for word, after in zip(all_words, [*all_words[1:], ""]):
        flag = re.match(FLAG.format(name), word)
        if flag:
            value = after if flag[1] is None else flag[1]
    return value


def by_package(units: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of tests by package, in the order of the packages' first tests."""
    tests: dict[str, list[str]] = {}
    for unit in units:
        package, _, test = unit.rpartition(".")
        tests.setdefault(package, []).append(test)
    return tests


def patterns(names: Sequence[str]) -> list[str]:
    """Return regular expressions for exactly these tests, each short enough for an argument."""
    parts, size = [[]], 0  # type: tuple[list[list[str]], int]
    for name in names:
        if parts[-1] and size + len(name) > PATTERN_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(name)
        size += len(name) + 1
    return [f"^({'|'.join(part)})$" for part in parts]


def folders(
    command: Sequence[str], packages: Sequence[str], leg: Leg, *, without_tests: bool = False
) -> dict[str, str]:
    """Return the folder of each package, or of each without a test file, by import path."""
    form = "{{.ImportPath}}\t{{.Dir}}"
    if without_tests:
        form = f"{{{{if not (or .TestGoFiles .XTestGoFiles)}}}}{form}{{{{end}}}}"
    words = [*command[: command.index("test")], "list", "-e", "-f", form, *packages]
    done = subprocess.run(words, env=leg.environ, stdout=subprocess.PIPE, check=False)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return {path: folder for path, _, folder in (line.partition("\t") for line in lines) if folder}


def go_flags_that_leave_out(command: Sequence[str], leg: Leg) -> list[tuple[str, str]]:
    """Return the words of GOFLAGS, from the environment or Go's own file, that exclude tests.

    Each is a setting: reason of an `execution` event, then the word after its place.
    """
    argv = [*command[: command.index("test")], "env", "GOFLAGS"]
    done = subprocess.run(argv, env=leg.environ, stdout=subprocess.PIPE, check=False)
    flags = filter(None, map(LEAVES_OUT.match, done.stdout.decode().split()))
    return [("filter" if flag[1] else "not_executed", f"GOFLAGS: {flag.string}") for flag in flags]


def list_tests(words: Sequence[str], leg: Leg) -> int:
    """Write the listing: the tests of all packages, or why they cannot be built."""
    command, packages, _ = divided(words)
    stream = GoStream({})
    argv = [*command, "-json", "-count=1", "-list", ALL_TESTS, *packages]
    code = launcher.follow(argv, leg.environ, lambda line: stream.read(line)[1])
    here, folder_of = os.getcwd(), folders(command, packages, leg)
    units = [
        {"unit": f"{package}.{test}", "file": _relative(folder_of.get(package, ""), here)}
        # In the order in which `go test` starts the binaries, not that in which builds end.
        for package, log in sorted(stream.printed.items())
        # A package and its `_test` package may both have a test of one name: one unit runs both.
        for test in dict.fromkeys(log.splitlines())
        if LISTED.match(test)
    ]
    errors = [{"error": name, "message": text} for name, text in stream.failed.items()]
    if code and not errors:
        errors = [{"error": "go test -list", "message": f"ended with exit code {code}"}]
    message = "leaves tests out of each job: remove it; `exclude` names tests"
    excluding = go_flags_that_leave_out(command, leg)
    errors += [{"error": setting, "message": message} for _, setting in excluding]
    leg.answer(units, errors, here)
    return code


def _relative(folder: str, here: str) -> str:
    return os.path.relpath(folder, here).replace(os.sep, "/") if folder else ""


def run_tests(words: Sequence[str], leg: Leg) -> int:
    """Run the units; repeat with those that a death kept from running, while that gives results."""
    command, given, test_args = divided(words)
    left, code = leg.units, 0
    folder_of = folders(command, list(by_package(left)), leg)
    stream = GoStream({name: _relative(path, os.getcwd()) for name, path in folder_of.items()})
    go_flags = leg.environ.get("GOFLAGS", "")
    covers = flag_value("coverprofile", command, go_flags, "")
    # A profile of all packages has the statements of these as not executed.
    untested = folders(command, given, leg, without_tests=True) if covers else ()
    is_shuffled = flag_value("shuffle", command, go_flags, "off") == "on"
    shuffle = [f"-shuffle={time.time_ns()}"] if is_shuffled else []  # one seed for all binaries
    leg.append({"type": "event", "kind": "seed", "detail": seed} for seed in shuffle)
    while left and not leg.must_stop():
        packages = by_package(left)
        batch = {
            "stop": leg.stop_file,
            "lock": os.path.join(leg.private, "lock"),
            "limit": flag_value("timeout", command, go_flags, GO_LIMIT),
            "tests": {
                os.path.realpath(folder_of[name]): tests
                for name, tests in packages.items()
                if name in folder_of
            },
        }
        path = os.path.join(leg.private, "batch.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(batch, file)
        this_file = f"'{sys.executable}' -I -S '{os.path.abspath(__file__)}' exec"
        # `run_binary` sets the timeout: Go's would also count the wait for the lock.
        argv = [*command, "-json", "-count=1", "-exec", this_file, "-run", "^$", "-timeout=0"]
        argv += shuffle
        argv += ["-p=1"] if sys.platform == "win32" else []
        if covers and os.environ.get("CIGUARD_EXTRA_TRY"):
            argv.append("-coverprofile=")  # Go would replace that of all tests

        def take(line: bytes) -> bytes:
            lines, shown = stream.read(line)
            leg.append(lines)
            return shown

        stream.begin()
        argv += [*packages, *untested, *test_args]
        code = launcher.follow(argv, {**leg.environ, BATCH: path}, take)
        if not leg.is_interrupted:
            leg.append(stream.end())
        cut_short = [unit for unit in left if stream.is_cut_short(unit)]
        if not leg.must_stop():
            run = (unit for unit in left if unit not in cut_short)
            leg.append(launcher.not_collected(filter(stream.has_skipped, run)))
        left = cut_short
    return code


def run_binary(words: Sequence[str]) -> int:
    """Run a test binary with its own tests, when no other binary runs (as `-exec`)."""
    with open(os.environ.pop(BATCH), encoding="utf-8") as file:
        batch: Mapping[str, Any] = json.load(file)
    names = batch["tests"].get(os.path.realpath(os.getcwd()), ())
    lock = _locked(batch["lock"])
    code = 0
    for pattern in patterns(names) if names else ():
        if batch["stop"] and os.path.exists(batch["stop"]):
            break
        flags = [f"-test.run={pattern}", f"-test.timeout={batch['limit']}"]
        argv = [words[0], *flags, *(word for word in words[1:] if not REPLACED.match(word))]
        code = _wait(subprocess.Popen(argv)) or code
        if code < 0:
            break
    if lock is not None:
        os.close(lock)
    return code


def _locked(path: str) -> int | None:
    if sys.platform != "win32":
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor
    return None  # on Windows Go starts one binary at a time


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for a binary and pass signals on to it: with SIGQUIT Go asks for its stacks."""
    for name in ("SIGINT", "SIGTERM", "SIGQUIT"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: process.send_signal(number))
    return process.wait()


def main(words: Sequence[str]) -> None:
    """Run one binary as `-exec`, or list or run tests; then exit."""
    if words[0] == "exec":
        launcher.exit_as(run_binary(words[1:]))
    launcher.launch(words, list_tests, run_tests, settings=go_flags_that_leave_out)


if __name__ == "__main__":
    main(sys.argv[1:])
