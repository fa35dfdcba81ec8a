"""Launcher of `go test -json`: `ciguard_go.py (list|run) go test FLAGS PACKAGES`.

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
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

if TYPE_CHECKING:  # the same files by the names that a checker finds them under
    from ciguard.run.plugins.ciguard_go_stream import GoStream
    from ciguard.run.plugins.ciguard_launcher import Leg, exit_as, follow, launch, not_collected
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which -I leaves out
    from ciguard_go_stream import GoStream
    from ciguard_launcher import Leg, exit_as, follow, launch, not_collected

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


def divided(words: Sequence[str]) -> Tuple[List[str], List[str], List[str]]:
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


def by_package(units: Iterable[str]) -> Dict[str, List[str]]:
    """Return the names of tests by package, in the order of the packages' first tests."""
    tests: Dict[str, List[str]] = {}
    for unit in units:
        package, _, test = unit.rpartition(".")
        tests.setdefault(package, []).append(test)
    return tests


def patterns(names: Sequence[str]) -> List[str]:
    """Return regular expressions for exactly these tests, each short enough for an argument."""
    parts, size = [[]], 0  # type: Tuple[List[List[str]], int]
    for name in names:
        if parts[-1] and size + len(name) > PATTERN_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(name)
        size += len(name) + 1
    return [f"^({'|'.join(part)})$" for part in parts]


def folders(command: Sequence[str], packages: Sequence[str], leg: Leg) -> Dict[str, str]:
    """Return the folder of each package, by import path."""
    go = command[: command.index("test")]
    words = [*go, "list", "-e", "-f", "{{.ImportPath}}\t{{.Dir}}", *packages]
    done = subprocess.run(words, env=leg.environ, stdout=subprocess.PIPE, check=False)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return {path: folder for path, _, folder in (line.partition("\t") for line in lines) if folder}


def go_flags_that_leave_out(command: Sequence[str], leg: Leg) -> List[Tuple[str, str]]:
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
    code = follow(argv, leg.environ, lambda line: stream.read(line)[1])
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
    command, _, test_args = divided(words)
    left, code = leg.units, 0
    folder_of = folders(command, list(by_package(left)), leg)
    stream = GoStream({name: _relative(path, os.getcwd()) for name, path in folder_of.items()})
    go_flags = leg.environ.get("GOFLAGS", "")
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

        def take(line: bytes) -> bytes:
            lines, shown = stream.read(line)
            leg.append(line for line in lines if not is_killed(line))
            return shown

        def is_killed(line: Mapping[str, Any]) -> bool:
            return leg.is_interrupted and line.get("outcome") == "died"

        stream.begin()
        code = follow([*argv, *packages, *test_args], {**leg.environ, BATCH: path}, take)
        if not leg.is_interrupted:
            leg.append(stream.end())
        cut_short = [unit for unit in left if stream.is_cut_short(unit)]
        if not leg.must_stop():
            run = (unit for unit in left if unit not in cut_short)
            leg.append(not_collected(filter(stream.has_skipped, run)))
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


def _locked(path: str) -> Optional[int]:
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
    """Run one binary, or list or run tests, by the first word; then exit."""
    if words[0] == "exec":
        exit_as(run_binary(words[1:]))
    launch(words[1:], list_tests, run_tests, settings=go_flags_that_leave_out)


if __name__ == "__main__":
    main(sys.argv[1:])
