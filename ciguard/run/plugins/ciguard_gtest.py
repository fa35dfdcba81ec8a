"""Launcher of GoogleTest programs: `ciguard_gtest.py PROGRAM... FLAGS`.

Programs run one after the other, each with a file that names its tests. If a test ends its program,
the tests that have not begun run in another start of the program.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple

if TYPE_CHECKING:  # the same files by the names that a checker finds them under
    from ciguard.run.plugins.ciguard_gtest_stream import GTestStream
    from ciguard.run.plugins.ciguard_launcher import Leg, Line, follow, launch, not_collected
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which -I leaves out
    from ciguard_gtest_stream import GTestStream
    from ciguard_launcher import Leg, Line, follow, launch, not_collected

PASSED, FAILED = 0, 1
# Variables that exclude or repeat tests, or change their output.
CHANGES_RUN = re.compile(r"GTEST_(?:BRIEF|COLOR|FAIL_FAST|FILTER|PRINT_TIME|REPEAT|TOTAL|SHARD).*")
SHUFFLED = re.compile(r"Note: Randomizing tests' orders with a seed of (\d+) \.")
DISABLED = re.compile(r"(?:^|[./])DISABLED_")
ALSO_DISABLED = "gtest_also_run_disabled_tests"
# Characters with a meaning in a filter, and white space, which ends a line of a flag file.
SPECIAL = re.compile(r"[*?:\-\s]")


def environment(leg: Leg) -> Dict[str, str]:
    """Return the environment of the programs."""
    return {name: text for name, text in leg.environ.items() if not CHANGES_RUN.match(name)}


def divided(words: Sequence[str]) -> Tuple[Dict[str, str], List[str]]:
    """Return the programs by the prefix of their tests' ids ("" for a single one), and flags."""
    count = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    programs, flags = words[:count], list(words[count:])
    if len(programs) == 1:
        return {"": programs[0]}, flags
    return {f"[{os.path.basename(path)}] ": path for path in programs}, flags


def read_tests(program: str, flags: Sequence[str], folder: str, leg: Leg) -> List[Dict[str, Any]]:
    """Return the tests of a program that its flags select, in its order.

    Raises:
        ValueError: the program wrote no list; has its output.
    """
    path = os.path.join(folder, "tests.json")
    argv = [program, *flags, "--gtest_list_tests", f"--gtest_output=json:{path}"]
    done = subprocess.run(
        argv, env=environment(leg), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            suites = json.load(file)["testsuites"]
        os.unlink(path)
    except (OSError, ValueError, KeyError) as error:
        text = done.stdout.decode("utf-8", "replace").strip()
        why = f"ended with exit code {done.returncode} and no list of tests"
        raise ValueError(f"{why} (GoogleTest 1.10 or newer lists them)\n{text}") from error
    runs_disabled = any(ALSO_DISABLED in flag for flag in flags)
    runs_disabled = runs_disabled or ALSO_DISABLED.upper() in leg.environ
    return [
        {**test, "name": unescaped(f"{suite['name']}.{test['name']}")}
        for suite in suites
        for test in suite["testsuite"]
        if runs_disabled or not DISABLED.search(f"{suite['name']}.{test['name']}")
    ]


def unescaped(text: str) -> str:
    """Decode a text in which GoogleTest wrote each byte of an "ü" as one character."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def relative(file: Optional[str], here: str) -> str:
    """Return a source's path in the repository; "" for a file outside of it, or a missing one."""
    path = os.path.relpath(file, here) if file else ""
    return path.replace(os.sep, "/") if os.path.isfile(path) and path[:2] != ".." else ""


def list_tests(words: Sequence[str], leg: Leg) -> int:
    """Write the listing: the tests of all programs."""
    programs, flags = divided(words)
    here = os.getcwd()
    units: List[Line] = []
    errors: List[Line] = []
    for prefix, program in programs.items():
        try:
            tests = read_tests(program, flags, os.path.dirname(leg.collect_file), leg)
        except ValueError as error:
            errors.append({"error": program, "message": str(error)})
            continue
        units += [
            {"unit": prefix + test["name"], "file": relative(test.get("file"), here)}
            for test in tests
        ]
    leg.answer(units, errors, here)
    return FAILED if errors else PASSED


def run_tests(words: Sequence[str], leg: Leg) -> int:
    """Run the units of each program."""
    programs, flags = divided(words)
    codes = [PASSED]
    for prefix, program in programs.items():
        asked = {unit[len(prefix) :]: unit for unit in leg.units if unit.startswith(prefix)}
        if not asked or leg.must_stop():
            continue
        try:
            tests = read_tests(program, flags, leg.private, leg)
        except ValueError as error:
            sys.stderr.write(f"ciguard: {program}: {error}\n")
            codes.append(FAILED)
            continue
        names = [test["name"] for test in tests if test["name"] in asked]
        leg.append(not_collected(unit for name, unit in asked.items() if name not in set(names)))
        stream = GTestStream({name: asked[name] for name in names}, os.getcwd())
        codes.extend(run_program([program, *flags], stream, leg))
    return next((code for code in codes if code not in (PASSED, FAILED)), max(codes))


def run_program(argv: Sequence[str], stream: GTestStream, leg: Leg) -> Iterator[int]:
    """Start a program until all its tests have begun, or no more begin; yield its exit codes.

    The exit code is 1 if a test explains it.
    """
    path = os.path.join(leg.private, "flags")
    more = [f"--gtest_flagfile={path}", "--gtest_color=no", "--gtest_print_time=1"]
    left = len(stream.pending) + 1
    while stream.pending and len(stream.pending) < left and not leg.must_stop():
        left = len(stream.pending)
        with open(path, "w", encoding="utf-8") as file:
            patterns = (SPECIAL.sub("?", name) for name in stream.pending)
            file.write(f"--gtest_filter={':'.join(patterns)}\n")

        def take(line: bytes) -> bytes:
            leg.append_timed(stream.read(line))
            seed = SHUFFLED.match(line.decode("utf-8", "replace"))
            if seed:
                words = f"--gtest_shuffle --gtest_random_seed={seed[1]}"
                leg.append([{"type": "event", "kind": "seed", "detail": words}])
            return b"" if line.startswith(b"Note: Google Test filter = ") else line

        def must_end() -> bool:
            return not stream.has_open_test and leg.must_stop()

        stream.begin()
        code = follow([*argv, *more], environment(leg), take, must_end)
        if must_end():
            return
        if not leg.is_interrupted:
            leg.append_timed(stream.end(how_ended(code)))
        yield FAILED if stream.has_died else code


def how_ended(code: int) -> str:
    """Return "exit code 11" for 11, and "signal 11 (SIGSEGV)" for -11."""
    if code >= 0:
        return f"exit code {code}"
    names = {int(member): member.name for member in signal.Signals}
    return f"signal {-code} ({names.get(-code, 'unknown')})"


if __name__ == "__main__":
    launch(sys.argv[1:], list_tests, run_tests)
