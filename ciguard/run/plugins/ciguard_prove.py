"""Runs `prove` for a leg: `ciguard_prove.py prove OPTIONS PATHS`, one test file a call.

TAP::Harness copies the TAP of a test file into a folder of the leg. A file of which prove writes no
TAP has not run. https://metacpan.org/pod/TAP::Harness
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple

if TYPE_CHECKING:  # the same file by the name that a checker finds it under
    from ciguard.run.plugins.ciguard_launcher import (
        LOG_CHARACTERS,
        Leg,
        Line,
        closed,
        death,
        follow,
        last_part,
        launch,
        not_collected,
    )
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which -I leaves out
    from ciguard_launcher import (
        LOG_CHARACTERS,
        Leg,
        Line,
        closed,
        death,
        follow,
        last_part,
        launch,
        not_collected,
    )

FAILED = 1
TAP_FOLDER = "PERL_TEST_HARNESS_DUMP_TAP"
# Options whose value may be a path.
WITH_VALUE = frozenset(
    ("-I", "-M", "-P", "-e", "-j", "--exec", "--ext", "--formatter", "--harness", "--jobs")
) | {"--rc", "--rules", "--source", "--statefile", "--tapversion"}
TEST = re.compile(r"(not )?ok\b(?:[^#\\]|\\.)*(?:#\s*(SKIP|TODO)\b.*)?", re.IGNORECASE)
ALL_SKIPPED = re.compile(r"1\.\.0\b\s*#\s*SKIP\S*\s*(.*)", re.IGNORECASE)
WAIT_STATUS = re.compile(r"\(Wstat: (\d+)")


def divide(words: Sequence[str]) -> Tuple[List[str], List[str], List[str]]:
    """Divide a command into prove with its options, paths, and the arguments of test files."""
    end = words.index("::") if "::" in words else len(words)
    program = next((at for at in range(end) if os.path.basename(words[at]) == "prove"), 0) + 1
    options, paths = list(words[:program]), []  # type: List[str], List[str]
    for word in words[program:end]:
        is_path = not word.startswith("-") and options[-1] not in WITH_VALUE
        (paths if is_path else options).append(word)
    return options, paths, list(words[end:])


def listed(argv: Sequence[str], leg: Leg) -> Tuple[List[str], int]:
    """Return the test files that a dry run prints, and the exit code."""
    done = subprocess.run(argv, env=leg.environ, stdout=subprocess.PIPE, check=False)
    paths = os.fsdecode(done.stdout).splitlines()
    return [os.path.normpath(path).replace(os.sep, "/") for path in paths], done.returncode


def list_tests(words: Sequence[str], leg: Leg) -> int:
    """Write down the test files that prove would run."""
    options, paths, arguments = divide(words)
    files, code = listed([*options, *paths, "--dry", *arguments], leg)
    if code:
        return code
    errors: List[Line] = [
        {"error": file, "message": "no file below the suite's folder"}
        for file in files
        if file.startswith("..") or not os.path.isfile(file)
    ]
    if files and not errors and listed([*options, files[0], "--dry", *arguments], leg)[0][1:]:
        message = "name the paths of tests in the suite's args, after the options"
        errors.append({"error": "paths in .proverc", "message": message})
    leg.answer(({"unit": file, "file": file} for file in files), errors, os.getcwd())
    return code


def run_tests(words: Sequence[str], leg: Leg) -> int:
    """Run the units that are still there, in the order of the plan."""
    options, _, arguments = divide(words)
    folder = os.path.join(leg.private, "tap")
    environ = {**leg.environ, TAP_FOLDER: folder}
    leg.append(not_collected(unit for unit in leg.units if not os.path.isfile(unit)))
    codes = [0]
    for unit in filter(os.path.isfile, leg.units):
        if leg.must_stop():
            break
        path, log = os.path.join(folder, unit), [b""]
        with contextlib.suppress(OSError):
            os.unlink(path)  # of an earlier try

        def take(line: bytes, log: List[bytes] = log) -> bytes:
            log[0] = (log[0] + line)[-LOG_CHARACTERS:]
            return line

        leg.append_timed([{"type": "start", "unit": unit}])
        code = follow([*options, unit, *arguments], environ, take)
        if code < 0 or leg.is_interrupted:
            return code
        lines = judge(unit, read_tap(path), code, log[0].decode("utf-8", "replace"))
        leg.append_timed(lines)
        has_result = lines[-1] == closed(unit)
        codes.append(min(code, FAILED) if has_result else code)
    return max(codes)


def read_tap(path: str) -> Optional[List[str]]:
    """Return the lines of TAP that a test file wrote; None if it did not run."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read().splitlines()
    return None


def judge(unit: str, tap: Optional[List[str]], code: int, log: str) -> List[Line]:
    """Return the result of a test file, or why it did not run.

    Args:
        code: exit code of prove.
        log: end of the output of prove and the file.
    """
    if tap is None:
        detail = "prove wrote no TAP: is --dry or another harness set?"
        event = {"type": "event", "kind": "execution", "reason": "not_executed", "detail": detail}
        return [event, {"type": "event", "kind": "unit_paused", "unit": unit}]
    result: Line = {"type": "result", "unit": unit, "outcome": "passed"}
    tests = [
        (line, test[1], test[2] or "") for line, test in zip(tap, map(TEST.match, tap)) if test
    ]
    failed = [line for line, is_bad, directive in tests if is_bad and not directive]
    # Not that of a subtest, which is indented; its name precedes it.
    outer = [line for line in tap if line and not line.startswith(" ")]
    last_line = f"last line of TAP: {outer[-1]}" if outer else "no TAP"
    status = WAIT_STATUS.search(log)
    signal_number = int(status[1]) & 127 if status else 0
    if code and signal_number:
        return [death(unit, f"ended with signal {signal_number}; {last_line}", log), closed(unit)]
    if code:
        message = "\n".join([*(failed or [last_line]), last_part(log)])
        result.update(outcome="failed" if failed else "errored", message=last_part(message))
    elif all(directive.upper() == "SKIP" for _, _, directive in tests):
        reasons = [*(line for line, _, _ in tests), *filter(ALL_SKIPPED.match, tap)]
        result.update(outcome="skipped", message="\n".join(reasons))
    return [result, closed(unit)]


if __name__ == "__main__":
    launch(sys.argv[1:], list_tests, run_tests)
