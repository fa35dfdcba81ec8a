"""JSON of Playwright's reporter `json`. Pure.

A test is listed once for each project, with a result for each try. A test that did not run is
`skipped` like a real skip, but only a real skip has `expectedStatus: "skipped"`; Playwright's
summary ("did not run") uses the same rule. Source: packages/playwright/src/reporters/json.ts and
base.ts of https://github.com/microsoft/playwright; measured with Playwright 1.65.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import IO, Final

from ciguard.codec.results.jsonfile import (
    Counters,
    JsonObject,
    clean_message,
    error_outside,
    head_keys,
    read_object,
)
from ciguard.model import BAD_OUTCOMES, Ending, Outcome, Result
from ciguard.model.failure_texts import ending_of_failure

NAME: Final = "JSON of Playwright"
# `config` comes first and may be longer than 4 KiB, so the format is recognised by keys of it.
_CONFIG: Final = frozenset(
    f"config.{key}"
    for key in ("argv", "configFile", "rootDir", "forbidOnly", "fullyParallel", "globalSetup")
)
_STATUSES: Final = ("passed", "failed", "timedOut", "skipped", "interrupted")
_SEPARATOR: Final = " › "  # Playwright's own, in `--test-list` as well
_OUTSIDE: Final = "errors outside of tests"
_MS: Final = 1000


def sniff(head: bytes) -> bool:
    """Recognise JSON that begins with Playwright's configuration."""
    return bool(head_keys(head) & _CONFIG)


def read(stream: IO[bytes], source: str) -> Iterator[Result]:
    """Yield a file's results in its order; a try before the last one is a separate result.

    A unit is project, file and titles, as a line of `--test-list`. The file is absolute: the JSON
    names it from the test folder. The class is project and file, as `ciguard plan` names a unit. An
    error outside of tests, as one at import, is an errored result of its file.

    Raises:
        InputError: damaged or truncated; an unknown status; or, after all results: a test that was
            interrupted or did not run, or larger counters than results.
    """
    report = read_object(stream, source, "suites")
    folder = report.object("config").text("rootDir")
    counters = Counters()
    for spec, titles in _specs(report):
        for test in spec.objects("tests", required=True):
            tries = _tries(test, _template(spec, titles, test.text("projectName"), folder))
            counters.found[tries[-1].outcome] += 1
            yield from tries
    for error in report.objects("errors"):
        yield _error(error)
    stats = report.object("stats")
    failed = stats.count("unexpected")
    total = sum(stats.count(key) for key in ("expected", "skipped", "flaky")) + failed
    counters.check(total, failed, report)


def _specs(report: JsonObject) -> Iterator[tuple[JsonObject, tuple[str, ...]]]:
    """Yield all specs with the titles of their groups; the outermost suite is the file."""
    for file in report.objects("suites", required=True):
        pending: list[tuple[JsonObject, tuple[str, ...]]] = [(file, ())]
        while pending:
            suite, titles = pending.pop()
            yield from ((spec, titles) for spec in suite.objects("specs"))
            inner = [(group, (*titles, group.text("title"))) for group in suite.objects("suites")]
            pending += inner[::-1]


def _template(spec: JsonObject, titles: tuple[str, ...], project: str, folder: str) -> Result:
    """Return the result of a test that did not run, from which those of its tries are made."""
    file = spec.text("file")
    path = f"{folder}/{file}" if folder and file else file
    name = _SEPARATOR.join((*titles, spec.text("title")))
    parts = [f"[{project}]" if project else "", file, name]
    return Result(
        unit=_SEPARATOR.join(filter(None, parts)) or "unnamed",
        outcome="died",
        ending="unknown",
        classname=(f"[{project}] {path}" if project else path) or None,
        name=name or "unnamed",
        file=path or None,
        line=spec.count("line") or None,
    )


def _tries(test: JsonObject, template: Result) -> list[Result]:
    """Return the failed tries of a test, then its final result; `template` if it did not run."""
    expected = test.text("expectedStatus") or "passed"
    results = [
        _result(item, template, expected)
        for item in test.objects("results", required=True)
        if item.text("status") != "skipped" or expected == "skipped"
    ]
    earlier = [result for result in results[:-1] if result.outcome in BAD_OUTCOMES]
    return [*earlier, results[-1] if results else template]


def _result(result: JsonObject, template: Result, expected: str) -> Result:
    """Return the result of a try, which passed if its status is expected, even a failure."""
    status = result.word("status", _STATUSES)
    errors = (error.text("message") or error.text("value") for error in result.objects("errors"))
    message = clean_message(*errors)
    outcome: Outcome = "failed"
    ending: Ending = "completed"
    if status == "interrupted":
        outcome, ending = "died", "cancelled"
    elif status == expected:
        outcome = "skipped" if status == "skipped" else "passed"
    elif status == "timedOut":
        ending = "timeout"
    else:
        ending = ending_of_failure("", message)
    return replace(
        template,
        outcome=outcome,
        ending=ending,
        try_number=result.count("retry") + 1,
        wall_s=result.seconds("duration", _MS),
        message=message,
    )


def _error(entry: JsonObject) -> Result:
    """Return the result of an error outside of tests: at import, in the global set-up."""
    location = entry.object("location")
    message = clean_message(entry.text("message") or entry.text("value"))
    file = location.text("file")
    error = error_outside(file or _OUTSIDE, message, file or None)
    return replace(error, line=location.count("line") or None)
