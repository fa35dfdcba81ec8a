"""Server of the pipe of `dotnet test`, for applications of Microsoft.Testing.Platform.

An application (xunit v3, TUnit, runners of MSTest and NUnit) connects to a Unix socket. It waits
for an answer to each frame: the start of a test is recorded before its body runs.

    frame      int32 size of the rest, int32 kind, body
    body       uint16 count of fields; for each: uint16 number, int32 size, value
    list       int32 count of elements, each a body
    handshake  uint16 count of properties; for each: byte number, int32 size, text

Integers are little-endian. Fields may be missing; unknown ones are skipped.
https://github.com/microsoft/testfx: mstest-runner-protocol/004-protocol-dotnet-test-pipe.md
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Dict, Iterator, Mapping, Sequence

Line = Dict[str, Any]

VOID, DISCOVERED, RESULTS, SESSION, HANDSHAKE = 0, 5, 6, 8, 9  # kinds of frames
VERSIONS, IS_IDE = 4, 9  # properties; without the second one an application reports no starts
KNOWN_VERSIONS = {"1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"}
# By state; the last four: failed, error, timeout, cancelled.
OUTCOMES = ("", "Passed", "Skipped", "Failed", "Failed", "Failed", "Failed")
RUNNING = 7  # state
PASSED, FAILED = 3, 4  # lists in a frame: starts and passed or discovered tests, failed tests
UID, NAME = 1, 2  # fields of a test, then those of a discovered one, and of a result
FILE, LINE, NAMESPACE, TYPE, METHOD = 3, 4, 5, 6, 7
STATE, TICKS, REASON, ERRORS = 3, 4, 5, 6
TEXT, STACK = 1, 3  # fields of an error
TESTS_FAILED = 2  # exit code
EXIT_CODES = {3: "aborted", 5: "it refuses an option, see its output", 8: "no test ran"}
KEYS = {b"RSS": "rss_bytes", b"HWM": "peak_bytes"}  # of /proc
NOT_CONNECTED = "it is none of Microsoft.Testing.Platform, or did not start"
TICKS_PER_S = 10_000_000
HEAD_BYTES, KIND_BYTES, LONGEST_FRAME = 8, 4, 1 << 28  # a larger size is damage
POLL_S = 0.1
LEFT_OPEN_S = 2.0  # longest wait for the last frames of an application that has ended
# By package: options to run one test at a time. MSTest and NUnit do so unless the project differs.
ONE_AT_A_TIME = {
    r'"xunit\.v3[\w.]*/3\.': ("-parallel", "none"),
    r'"xunit\.v3[\w.]*/4\.': ("-parallelMode", "none"),
    r'"TUnit[\w.]*/': ("--maximum-parallel-tests", "1"),
}
# Options of `dotnet test` before `--`; the values of others would be taken for projects.
BUILD_OPTION = re.compile(
    r"-[cfrosvp]\b|[-/]p:|--(?:project|solution|configuration|framework|runtime|output|settings"
    r"|filter|results-directory|artifacts-path|arch|os|verbosity|property|no-build|no-restore"
    r"|nologo|no-launch-profile)\b"
)
SELECTION = re.compile(r"--?(?:filter|treenode-filter|list-tests)")
# The parser of @FILE knows no escapes, that of options unquotes a word.
NOT_SELECTABLE = "not selectable by an option of the test application"
UNSELECTABLE = re.compile(r"""["\r\n]|^[-@'\s]|\s$|^$""")


class Cursor:
    """Reader of values from the front of some bytes; ValueError if these do not suffice."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise ValueError(f"damaged frame: {size} bytes at {self._at} of {len(self._data)}")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "little")

    def fields(self, key_size: int = 2) -> dict[int, bytes]:
        """Return the values of a body by their numbers."""
        return {self.number(key_size): self.take(self.number()) for _ in range(self.number(2))}

    def elements(self) -> list[dict[int, bytes]]:
        return [self.fields() for _ in range(self.number())]


def text(fields: Mapping[int, bytes], number: int) -> str:
    """Return a field as text; "" for a missing one."""
    return fields.get(number, b"").decode("utf-8", "replace")


def parse(kind: int, body: bytes) -> list[Line]:
    """Return what a frame reports, as VSTest's extensions write it; ValueError if it is damaged.

    Lines `test`, `start` and `result` have a `uid`, and only `test` has unit and case. A session
    that ends is `complete`: without this line, the application has died, with any exit code.
    """
    if kind not in (DISCOVERED, RESULTS, SESSION):
        return []
    fields = Cursor(body).fields()
    if kind == SESSION:
        is_end = fields.get(1) == b"\x01"
        return [{"type": "complete", "aborted": False, "canceled": False}] if is_end else []
    describe = _discovered if kind == DISCOVERED else _result
    return [
        {"uid": text(item, UID), **describe(item, number)}
        for number in (PASSED, FAILED)
        if number in fields
        for item in Cursor(fields[number]).elements()
    ]


def _discovered(item: Mapping[int, bytes], _: int) -> Line:
    names = (text(item, NAMESPACE), text(item, TYPE), text(item, METHOD))
    return {
        "type": "test",
        "unit": ".".join(filter(None, names)),
        "case": text(item, NAME),
        "file": text(item, FILE),
        "line": Cursor(item[LINE]).number() if LINE in item else None,
    }


def _result(item: Mapping[int, bytes], number: int) -> Line:
    state = Cursor(item.get(STATE, b"")).number(1)
    if state == RUNNING:
        return {"type": "start"}
    if state >= len(OUTCOMES):
        raise ValueError(f"damaged frame: a test in state {state}")
    errors = Cursor(item[ERRORS]).elements() if number == FAILED and ERRORS in item else []
    return {
        "type": "result",
        "outcome": OUTCOMES[state],
        "wall_s": Cursor(item[TICKS]).number(8) / TICKS_PER_S if TICKS in item else None,
        "message": "\n".join(text(one, TEXT) for one in errors) or text(item, REASON),
        "trace": "\n".join(text(one, STACK) for one in errors),
    }


def answer(kind: int, body: bytes) -> bytes:
    """Return the answer to a frame; ValueError if it is damaged or of an unknown protocol."""
    reply = b""
    if kind == HANDSHAKE:
        versions = text(Cursor(body).fields(key_size=1), VERSIONS)
        common = KNOWN_VERSIONS.intersection(versions.split(";"))
        if not common:
            raise ValueError(f"unknown protocol: version {versions}")
        reply = bytes([2, 0])
        for number, value in ((VERSIONS, max(common)), (IS_IDE, "True")):
            reply += bytes([number, len(value), 0, 0, 0]) + value.encode()
    head = len(reply) + KIND_BYTES, HANDSHAKE if reply else VOID
    return b"".join(number.to_bytes(4, "little") for number in head) + reply


def frames(read: Callable[[int], bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield kind and body of each frame of a connection; ValueError for a damaged one."""
    for head in iter(lambda: read(HEAD_BYTES), b""):
        size, kind = Cursor(head).number(), Cursor(head[4:]).number()
        if not KIND_BYTES <= size <= LONGEST_FRAME:
            raise ValueError(f"damaged frame: a size of {size} bytes")
        yield kind, Cursor(read(size - KIND_BYTES)).take(size - KIND_BYTES)


def memory_of(pid: int) -> Line:
    """Return rss_bytes and peak_bytes of a process (proc(5)); none without /proc."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        sizes = re.findall(rb"(?m)^Vm(RSS|HWM):\s+(\d+) kB", file.read())
        return {KEYS[name]: int(size) << 10 for name, size in sizes}
    return {}


class Server:
    """Recorder of one start of an application, whose processes each have a connection.

    Args:
        take: gets each line before the application goes on.
        must_end: if true after a line, the application is ended before another test begins.
    """

    def __init__(self, take: Callable[[Line], None], must_end: Callable[[], bool]) -> None:
        self._take, self._must_end = take, must_end
        self._lock = threading.Lock()
        self._open: set[str] = set()  # uids of running tests
        self.has_connected = False

    def serve(self, argv: Sequence[str], environ: Mapping[str, str]) -> int:
        """Run an application to its end; return its exit code, -9 if signal 9 killed it."""
        if sys.platform == "win32":  # for mypy: `application` refuses it
            raise NotImplementedError
        threads: list[threading.Thread] = []
        # The path of a socket has at most 103 bytes: /tmp, as `dotnet test` does.
        with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(
            socket.AF_UNIX
        ) as listener:
            path = os.path.join(folder, "pipe")
            listener.bind(path)
            listener.listen()
            listener.settimeout(POLL_S)
            pipe = ("--server", "dotnettestcli", "--dotnet-test-pipe", path)
            process = subprocess.Popen([*argv, *pipe], env=environ, stdin=subprocess.DEVNULL)
            while process.poll() is None:
                with contextlib.suppress(socket.timeout):
                    peer = listener.accept()[0]
                    threads.append(threading.Thread(target=self._answer, args=(peer,), daemon=True))
                    threads[-1].start()
                with self._lock:
                    if self._must_end():
                        process.terminate()
        for thread in threads:
            thread.join(LEFT_OPEN_S)
        return process.returncode

    def _answer(self, peer: socket.socket) -> None:
        """Answer a process; it ends if its connection is closed."""
        self.has_connected = True
        pid = 0
        if sys.platform == "linux":
            pid = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED)
        with peer, peer.makefile("rb") as stream, contextlib.suppress(OSError):
            try:
                for kind, body in frames(stream.read):
                    reply = answer(kind, body)
                    with self._lock:
                        for line in parse(kind, body):
                            self._report({**line, "at_s": time.time()}, pid)
                        if self._must_end():
                            return
                    peer.sendall(reply)
            except ValueError as error:
                sys.stderr.write(f"ciguard: the pipe of the test application: {error}\n")

    def _report(self, line: Line, pid: int) -> None:
        """Pass a line on, with memory; a peak begins anew with a test that has no neighbour."""
        if line["type"] == "start":
            if not self._open:
                with contextlib.suppress(OSError), open(f"/proc/{pid}/clear_refs", "w") as file:
                    file.write("5")
            self._open.add(line["uid"])
            line.update(memory_of(pid))
        elif line["type"] == "result":
            self._open.discard(line["uid"])
            self._take({**line, **memory_of(pid), "type": "end"})
        self._take(line)


def run(
    argv: Sequence[str],
    names: Sequence[str],
    *,
    folder: str,
    environ: Mapping[str, str],
    take: Callable[[Line], None],
    must_end: Callable[[], bool] = lambda: False,
    is_nunit: bool = False,
) -> int:
    """Run tests of an application; return its exit code, -9 for signal 9.

    A name that the application does not know is omitted, for any exit code. A test that is open at
    a death is only a suspect: NUnit's starts are late, and SIGKILL may precede a start.

    Args:
        argv: from `application`.
        names: uids that are not UNSELECTABLE; of NUnit full names, for a filter of 128 KiB at most.
        folder: for a file of uids.
        take: gets the lines of `parse`, and `end` before `result`, with `memory_of` the process.
    """
    path = os.path.join(folder, f"selection-{os.getpid()}.rsp")
    words = [f"@{path}"]
    if is_nunit:
        terms = (re.sub(r"([\\()&|=!~])", r"\\\1", name) for name in names)
        words = ["--filter", "|".join(f"FullyQualifiedName={term}" for term in terms)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(["--filter-uid", *(f'"{name}"' for name in names)]) + "\n")
    server = Server(take, must_end)
    code = server.serve([*argv, *words], environ)
    if code in EXIT_CODES or not server.has_connected:
        why = EXIT_CODES.get(code, NOT_CONNECTED)
        sys.stderr.write(f"ciguard: the test application ended with exit code {code}: {why}\n")
    return code


def list_tests(argv: Sequence[str], environ: Mapping[str, str], *, is_nunit: bool) -> list[Line]:
    """Return the `test` lines of an application; ValueError if it lists nothing."""
    lines: list[Line] = []
    server = Server(lines.append, lambda: False)
    code = server.serve([*argv, "--list-tests"], environ)
    if code not in (0, 8) or not server.has_connected:
        why = EXIT_CODES.get(code, NOT_CONNECTED)
        raise ValueError(f"{shlex.join(argv)}: no list of tests, exit code {code}: {why}")
    tests = [line for line in lines if line["type"] == "test"]
    return [{**test, "unit": test["uid"]} if is_nunit else test for test in tests]


def application(
    path: str,
    project: str,
    words: Sequence[str],
    used: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    listing: bool,
    is_alone: bool,
) -> tuple[list[str], dict[str, str]]:
    """Return command and environment by which `dotnet test` starts the application of a DLL.

    The application itself finds its testconfig.json.

    Args:
        project: its folder, whose launch profile counts; "" if it is not known.
        words: the whole command.
        used: values of its options --filter, --settings and --results-directory.
        is_alone: one test runs at a time.

    Raises:
        ValueError: an option is none of `dotnet test` or selects tests, the launch profile cannot
            be read, or the system is Windows.
    """
    if sys.platform == "win32":
        raise ValueError(f"{path}: Microsoft.Testing.Platform was not tried on Windows")
    at = words.index("--") if "--" in words else len(words)
    for word in words[2:at]:
        if word.startswith("-") and not BUILD_OPTION.match(word):
            raise ValueError(f"{word}: write options of the test application after --")
    for word in filter(SELECTION.match, words[at + 1 :]):
        raise ValueError(f"{word} after --: use --filter, or `exclude` of the suite")
    stem = os.path.splitext(path)[0]  # not executable if it came as an artifact
    argv = [stem] if os.access(stem, os.X_OK) else [words[0], "exec", path]
    argv += words[at + 1 :]
    for option in ("--settings", "--filter" if listing else "--results-directory"):
        argv += [option, used[option]] if option in used else []
    if is_alone and not listing:
        with open(f"{stem}.deps.json", encoding="utf-8") as file:
            packages = file.read()
        argv += next((own for name, own in ONE_AT_A_TIME.items() if re.search(name, packages)), ())
    own = {
        "DOTNET_ROOT": os.path.dirname(os.path.realpath(shutil.which(words[0]) or words[0])),
        "DOTNET_CLI_TEST_COMMAND_WORKING_DIRECTORY": os.getcwd(),
    }
    profile = {} if "--no-launch-profile" in words else _launch_profile(project)
    argv += shlex.split(profile.get("commandLineArgs") or "")
    return argv, {**own, **environ, **(profile.get("environmentVariables") or {})}


def _launch_profile(project: str) -> Mapping[str, Any]:
    """Return the first profile of a project folder that starts the project itself."""
    path = os.path.join(project, "Properties", "launchSettings.json")
    if not project or not os.path.isfile(path):
        return {}
    try:
        with open(path, encoding="utf-8-sig") as file:
            profiles: dict[str, Any] = json.load(file).get("profiles", {})
    except ValueError as error:
        raise ValueError(f"{path}: {error} (--no-launch-profile ignores it)") from error
    return next((one for one in profiles.values() if one.get("commandName") == "Project"), {})
