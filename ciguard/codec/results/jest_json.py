"""JSON of `jest --json`, and of Vitest's reporter `json`, which has the same shape. Pure.

`pending` has two meanings. Jest writes it for a test that the code skips. Vitest writes `skipped`
for these, and `pending` for a test that did not end, even if it writes `success: true`. Only Jest
writes `wasInterrupted` and `numRuntimeErrorTestSuites`; without these keys, `pending` is no skip.
Sources: formatTestResults of https://github.com/jestjs/jest, `StatusMap` in json.ts of
https://github.com/vitest-dev/vitest; measured with Jest 30.5 and Vitest 4.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import IO, Final

from ciguard.codec.results.base import truncate_message
from ciguard.codec.results.jsonfile import (
    Counters,
    JsonObject,
    clean_message,
    error_outside,
    head_keys,
    pad_tries,
    read_object,
    with_tries,
)
from ciguard.model import Ending, Outcome, Result
from ciguard.model.failure_texts import ending_of_failure

NAME: Final = "JSON of Jest and Vitest"
_COUNTERS: Final = frozenset({"numTotalTestSuites", "numFailedTestSuites", "numTotalTests"})
_JEST_KEYS: Final = ("wasInterrupted", "numRuntimeErrorTestSuites")
_STATUSES: Final[Mapping[str, Outcome]] = {
    "passed": "passed",
    "failed": "failed",
    **dict.fromkeys(("skipped", "todo", "disabled", "pending"), "skipped"),
}
_FILE_STATUSES: Final = ("passed", "failed", "skipped", "focused", "pending")
_MS: Final = 1000
# Vitest writes the stack of a timeout without its message; only timeouts begin with this line.
_VITEST_TIMEOUT: Final = "Error: STACK_TRACE_ERROR"
_HEADING: Final = re.compile(r"\s*● Test suite failed to run\s*")
# The workspace of a job, which each system has elsewhere: /home/runner/work/shop/shop/,
# D:/a/shop/shop/, in a container /__w/shop/shop/.
_WORKSPACE: Final = re.compile(
    r"(?:/home/[^/]+/work|/Users/[^/]+/work|(?:.*?/)?_work|/__w|[A-Za-z]:/a)/([^/]+)/\1/"
)
# A line with a value, or of a difference, but not its legend ("- Expected  - 1").
_VALUE: Final = re.compile(r"^(?:Expected|Received)\b.*|^[-+] (?!\w+ +[-+] \d).*", re.MULTILINE)


def sniff(head: bytes) -> bool:
    """Recognise JSON with the counters of Jest, which precede all results."""
    return bool(head_keys(head) & _COUNTERS)


def read(stream: IO[bytes], source: str) -> Iterator[Result]:
    """Yield a file's results in its order; a try before the last one is a separate result.

    A unit is `file::full name`, by the file's path in the workspace. A test file that could not be
    imported, or failed without a failed test, is an errored result of the file.

    Raises:
        InputError: damaged or truncated; an unknown status; or, after all results: a test that did
            not end, an interrupted run, larger counters than results, a failure without a test.
    """
    report = read_object(stream, source, "testResults")
    is_jest = any(key in report.values for key in _JEST_KEYS)
    counters = Counters()
    has_file_error = False
    for file in report.objects("testResults", required=True):
        path = file.text("name") or "unnamed"
        plain = path.replace("\\", "/")
        workspace = _WORKSPACE.match(plain)
        name = plain[workspace.end() :] if workspace else path
        outcomes: list[Outcome] = []
        for test in file.objects("assertionResults", required=True):
            final, tries = _result(test, name, is_jest=is_jest)
            outcomes.append(final.outcome)
            yield from with_tries(replace(final, file=path), tries)
        status = file.word("status", _FILE_STATUSES)
        if status == "failed" and "failed" not in outcomes:
            has_file_error = True
            # Its tests could not be run, for an import, a hook or a worker.
            message = clean_message(_HEADING.sub("", file.text("message"), count=1))
            yield error_outside(name, message, path)
        elif not outcomes and not is_jest:
            # The worker died before it listed a test, or `passWithNoTests` is set.
            outcomes.append("died")
            yield Result(unit=name, outcome="died", ending="unknown", name=name, file=path)
        counters.found.update(outcomes)
    if report.values.get("wasInterrupted") is True:
        raise report.error("its run was interrupted", "wasInterrupted", "run it again")
    counters.check(report.count("numTotalTests"), report.count("numFailedTests"), report)
    if report.values.get("success") is False and not (counters.bad or has_file_error):
        fix = "look at the log: a threshold of coverage, an obsolete snapshot, a reporter?"
        raise report.error("its run failed, and no test in it failed", "success", fix)


def _result(test: JsonObject, file: str, *, is_jest: bool) -> tuple[Result, list[str | None]]:
    """Return the final result of a test, and the messages of its failed tries."""
    status = test.word("status", _STATUSES)
    outcome = _STATUSES[status]
    if status == "pending" and not is_jest:
        outcome = "died"
    messages = list(map(clean_message, test.texts("failureMessages")))
    tries: list[str | None] = []
    if is_jest:
        reasons = list(map(clean_message, test.texts("retryReasons")))
        tries = pad_tries(reasons, test.count("invocations") - 1)
    elif outcome == "passed":
        # Vitest keeps the errors of tries; errors of a failed test may be of a single try.
        tries, messages = pad_tries(messages, 0), []
    titles = test.texts("ancestorTitles")
    title = test.text("title")
    full_name = test.text("fullName") or " ".join((*titles, title))
    message = _with_values(clean_message(*messages))
    final = Result(
        unit=f"{file}::{full_name}",
        outcome=outcome,
        ending=_ending(outcome, messages[0] if messages else None),
        wall_s=test.seconds("duration", _MS),
        message=message,
        classname=" ".join(titles) or None,
        name=title or full_name or None,
        line=test.object("location").count("line") or None,
    )
    return final, tries


def _with_values(message: str | None) -> str | None:
    """Return a message with the values of a failed `expect` in its first line, which is shown."""
    first, _, rest = (message or "").partition("\n")
    if "expect(" not in first:
        return message
    values = [" ".join(line.split()).rstrip(",") for line in _VALUE.findall(rest)[:2]]
    return truncate_message("\n".join((", ".join((first.partition(" // ")[0], *values)), rest)))


def _ending(outcome: Outcome, message: str | None) -> Ending:
    if outcome == "died":
        return "unknown"
    if outcome == "failed" and message and message.startswith(_VITEST_TIMEOUT):
        return "timeout"
    return ending_of_failure("", message) if outcome == "failed" else "completed"
