"""JSON of `rspec --format json`. Pure.

RSpec writes the file when it ends, also after `exit` in an example and after SIGTERM. Then the
example that ran has an empty status, and later examples are absent, while the summary says
`0 failures`. Source: json_formatter.rb of https://github.com/rspec/rspec; measured with RSpec 3.12.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import IO, Final

from ciguard.codec.results.jsonfile import (
    Counters,
    JsonObject,
    clean_message,
    error_outside,
    head_keys,
    read_object,
)
from ciguard.model import Ending, Outcome, Result
from ciguard.model.failure_texts import ending_of_failure

NAME: Final = "JSON of RSpec"
# Errors outside of examples precede the examples, and may be longer than 4 KiB.
_LISTS: Final = frozenset({"examples[]", "messages[]"})
_STATUSES: Final[Mapping[str, Outcome]] = {
    "passed": "passed",
    "failed": "failed",
    "pending": "skipped",
    "": "died",
}
_OUTSIDE: Final = "errors outside of examples"
_ID: Final = re.compile(r"(.+)\[[\d:]+\]", re.DOTALL)


def sniff(head: bytes) -> bool:
    """Recognise JSON with a version, and examples or messages."""
    keys = head_keys(head)
    return "version" in keys and bool(keys & _LISTS)


def read(stream: IO[bytes], source: str) -> Iterator[Result]:
    """Yield a file's results in its order.

    A unit is the id of an example, as in `rspec ID`; its case is `file::full description`, which
    does not change if examples are added before it. The file is that of the id, also for a shared
    example that is written in another file.

    Raises:
        InputError: damaged or truncated; an unknown status; or, after all results: an example that
            did not end, or larger counters than results.
    """
    report = read_object(stream, source, "examples")
    counters = Counters()
    for example in report.objects("examples", required=True):
        result = _result(example)
        counters.found[result.outcome] += 1
        yield result
    summary = report.object("summary")
    if summary.count("errors_outside_of_examples_count"):
        yield error_outside(_OUTSIDE, clean_message(*report.texts("messages")))
    if "example_count" not in summary.values:
        raise summary.error("expected a count, found nothing", "example_count")
    counters.check(summary.count("example_count"), summary.count("failure_count"), report)


def _result(example: JsonObject) -> Result:
    outcome = _STATUSES[example.word("status", _STATUSES)]
    unit, written_in = example.text("id"), example.text("file_path")
    by_id = _ID.fullmatch(unit)
    file = by_id[1] if by_id else written_in
    name = example.text("full_description") or example.text("description") or unit or "unnamed"
    case = f"{file}::{name}" if file else name
    exception = example.object("exception")
    kind, message = exception.text("class"), exception.text("message")
    ending: Ending = "unknown" if outcome == "died" else "completed"
    if outcome == "failed":
        ending = ending_of_failure(kind, message)
        message = f"{kind}: {message}" if kind else message
    return Result(
        unit=unit or case,
        outcome=outcome,
        case=case if unit else "",
        ending=ending,
        wall_s=example.seconds("run_time"),
        message=clean_message(message or example.text("pending_message")),
        name=name,
        file=file or None,
        line=(example.count("line_number") or None) if file == written_in else None,
    )
