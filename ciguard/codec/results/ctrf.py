"""CTRF, the Common Test Report Format, in JSON: bytes -> results. Pure.

The status `other` is for a test that neither passed nor failed. Its result is not known, and counts
as died, unless the raw status is a skip. Schema: https://github.com/ctrf-io/ctrf.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from ciguard.codec.results.jsonfile import (
    Counters,
    JsonObject,
    clean_message,
    head_keys,
    pad_tries,
    read_object,
    with_tries,
)
from ciguard.model import BAD_OUTCOMES, ENDINGS, Ending, Outcome, Result
from ciguard.model.failure_texts import ending_of_failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


NAME: Final = "CTRF"
_RESULTS: Final = frozenset({"results.tool", "results.summary", "results.tests[]"})
_STATUSES: Final[Mapping[str, Outcome]] = {
    "passed": "passed",
    "failed": "failed",
    "skipped": "skipped",
    "pending": "skipped",
    "other": "died",
}
_RAW_SKIPS: Final = frozenset({"skip", "skipped", "pending", "todo", "disabled", "ignored"})
_RAW_ENDINGS: Final[Mapping[str, Ending]] = {
    **{ending: ending for ending in ENDINGS},
    **dict.fromkeys(("timedout", "timed out"), "timeout"),
}
# Raw statuses of ciguard: an outcome, an ending, or a planned test without a result.
_NO_RESULT: Final = "no result"
_RAW_OUTCOMES: Final[Mapping[str, Outcome]] = {
    **{outcome: outcome for outcome in BAD_OUTCOMES},
    _NO_RESULT: "died",
}
_MS: Final = 1000


def sniff(head: bytes) -> bool:
    """Recognise JSON with the format's name, or with a tool, summary or tests in `results`."""
    keys = head_keys(head)
    return "reportFormat" in keys or bool(keys & _RESULTS)


def read(stream: IO[bytes], source: str) -> Iterator[Result]:
    """Yield a file's results in its order; a try before the last one is a separate result.

    A unit is `suite::name`, or `file::name`.

    Raises:
        InputError: damaged or truncated; another format; an unknown status; or, after all results:
            a test that did not end, or larger counters than results.
    """
    report = read_object(stream, source, "results", "tests")
    report.word("reportFormat", ("", "CTRF"))
    results = report.object("results")
    counters = Counters()
    for test in results.objects("tests", required=True):
        final = _result(test)
        counters.found[final.outcome] += 1
        yield from with_tries(final, _tries(test, final.outcome))
    summary = results.object("summary")
    counters.check(summary.count("tests"), summary.count("failed"), report)


def _result(test: JsonObject) -> Result:
    status, raw = test.word("status", _STATUSES), test.text("rawStatus").strip().lower()
    outcome = _STATUSES[status]
    message = _message(test)
    ending: Ending = "completed"
    if outcome == "died" and raw in _RAW_SKIPS:
        outcome = "skipped"
    elif status == "failed" and raw in _RAW_OUTCOMES:
        outcome = _RAW_OUTCOMES[raw]
    if outcome in BAD_OUTCOMES:
        is_died = outcome == "died"
        ending = _RAW_ENDINGS.get(raw) or ("unknown" if is_died else ending_of_failure("", message))
    suite, name = " > ".join(test.texts("suite")), test.text("name")
    file = test.text("filePath")
    return Result(
        unit="::".join(filter(None, (suite or file, name))) or "unnamed",
        outcome=outcome,
        ending=ending,
        wall_s=test.seconds("duration", _MS),
        message=message,
        classname=suite or None,
        name=name or "unnamed",
        file=file or None,
        line=test.count("line") or None,
    )


def _message(test: JsonObject) -> str | None:
    message, trace = test.text("message"), test.text("trace")
    return clean_message("" if trace.startswith(message) else message, trace)


def _tries(test: JsonObject, outcome: Outcome) -> list[str | None]:
    """Return the messages of failed tries before the final one, None for those only counted."""
    tries = test.objects("retryAttempts")
    listed = [_message(item) for item in tries if item.text("status") == "failed"]
    is_flaky = test.values.get("flaky") is True and outcome == "passed"
    return pad_tries(listed, max(test.count("retries"), int(is_flaky)))
