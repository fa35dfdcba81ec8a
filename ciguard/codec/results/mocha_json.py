"""JSON of `mocha --reporter json`. Pure.

Mocha writes the file when all tests have ended: a run that died leaves none. A test has no outcome:
with an error it failed, and pending tests are in a second list. A hook that failed is in the list
of failures alone; the tests that it left out are in no list. Source: lib/reporters/json.js of
https://github.com/mochajs/mocha; measured with Mocha 12.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from ciguard.codec.results.jsonfile import (
    Counters,
    JsonObject,
    clean_message,
    ending_of,
    head_keys,
    pad_tries,
    read_object,
    with_tries,
)
from ciguard.model import BAD_OUTCOMES, Outcome, Result

if TYPE_CHECKING:
    from collections.abc import Iterator


NAME: Final = "JSON of Mocha"
_COUNTERS: Final = frozenset({"stats.suites", "stats.passes", "stats.failures"})
_MS: Final = 1000


def sniff(head: bytes) -> bool:
    """Recognise JSON with Mocha's counters; Mochawesome, another format, has more of them."""
    keys = head_keys(head)
    return keys >= _COUNTERS and "stats.testsRegistered" not in keys


def read(stream: IO[bytes], source: str) -> Iterator[Result]:
    """Yield a file's results in its order, then the hooks that failed.

    A unit is `file::full title`. A try that Mocha repeated is a failed result without a message.

    Raises:
        InputError: damaged or truncated; or, after all results: larger counters than results.
    """
    report = read_object(stream, source, "tests")
    pending = {_unit(test) for test in report.objects("pending", required=True)}
    counters = Counters()
    bad: set[str] = set()
    for test in report.objects("tests", required=True):
        unit, is_failed = _unit(test), bool(test.object("err").values)
        outcome: Outcome = "failed" if is_failed else "skipped" if unit in pending else "passed"
        counters.found[outcome] += 1
        bad.update([unit] if is_failed else ())
        yield from with_tries(_result(test, outcome), pad_tries([], test.count("currentRetry")))
    repeated = 0  # a test that called done() twice may have failed twice
    for failure in report.objects("failures", required=True):
        if _unit(failure) in bad:
            repeated += 1
        else:
            counters.found["errored"] += 1
            yield _result(failure, "errored")
    stats = report.object("stats")
    twice = max(0, repeated - counters.found["failed"])
    counters.check(stats.count("tests"), max(0, stats.count("failures") - twice), report)


def _unit(test: JsonObject) -> str:
    return "::".join(filter(None, (test.text("file"), test.text("fullTitle")))) or "unnamed"


def _result(test: JsonObject, outcome: Outcome) -> Result:
    error = test.object("err")
    is_bad = outcome in BAD_OUTCOMES
    message = clean_message(error.text("stack") or error.text("message"))
    return Result(
        unit=_unit(test),
        outcome=outcome,
        ending=ending_of(error.text("name"), message) if is_bad else "completed",
        wall_s=test.seconds("duration", _MS),
        message=message,
        name=test.text("fullTitle") or "unnamed",
        file=test.text("file") or None,
    )
