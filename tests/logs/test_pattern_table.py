"""Every row reads lines of its own, in both syntaxes, and agrees with the table of a leg."""

from __future__ import annotations

import io
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
import re2
from conftest import Golden

from ciguard.logs.log_reader import LogReader
from ciguard.logs.pattern_table import PATTERNS
from ciguard.logs.values import SCALES, SPANS, LogValue
from ciguard.model import ENDINGS, failure_texts

SAMPLES: Final = Path(__file__).parent.parent / "samples" / "logs"
READER: Final = LogReader()


def values_of(line: str) -> tuple[LogValue, ...]:
    """Return the values of a line, of which others may be the context."""
    return READER.read(io.BytesIO(line.encode() + b"\n")).values


def own_lines() -> list[str]:
    return (SAMPLES / "lines.txt").read_text(encoding="utf-8").splitlines()


def shown(value: LogValue) -> str:
    key = "".join(f" {one.name}={one.value}" for one in value.key)
    facts = "".join(f" ({name}: {text})" for name, text in value.facts)
    return f"    {value.kind} {value.name}{key} = {value.value:.15g} {value.unit}{facts}".rstrip()


def test_own_lines_give_the_values_that_were_reviewed(golden: Golden) -> None:
    found: dict[int, list[str]] = {}
    reading = READER.read(io.BytesIO((SAMPLES / "lines.txt").read_bytes()))
    for one in reading.values:
        found.setdefault(one.place.line, []).append(shown(one))
    lines = [
        text
        for number, line in enumerate(own_lines(), 1)
        for text in (f"{number}: {line}", *found.get(number, ["    nothing"]))
    ]
    golden("\n".join(lines) + "\n", SAMPLES / "values.txt")
    assert reading.unreadable == ()


@pytest.mark.parametrize("row", PATTERNS, ids=lambda row: row.name)
def test_every_row_matches_an_own_line_in_both_syntaxes(row: Any) -> None:
    matched = 0
    for line in own_lines():
        ours, theirs = re.search(row.pattern, line), re2.search(row.pattern, line)
        assert (ours is None) == (theirs is None), line
        if ours is not None and theirs is not None:
            matched += 1
            assert ours.groupdict() == theirs.groupdict()
            assert row.needs_context or any(trigger in line for trigger in row.triggers)
    assert matched
    groups = set(re.compile(row.pattern).groupindex)
    assert {*row.fields, *row.key} <= groups
    assert {*row.fields.values()} <= {*SCALES, *SPANS}
    assert row.ending is None or row.ending in ENDINGS


MESSAGES: Final = (  # as test programs begin them
    "MemoryError",
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 51712165888 bytes.",
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to",
    "tests/test_a.py:12: OSError: [Errno 12] Cannot allocate memory",
    "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
    "memory allocation of 4000000000 bytes failed",
    'thrown: "Exceeded timeout of 5000 ms for a test.',
    "Timeout >60.0s",
    "Segmentation fault",
)


def failure_lines() -> list[str]:
    """Return lines without the times of GitHub, as programs print them."""
    lines = [*MESSAGES, *own_lines()]
    return [re.sub(r"^\d{4}-\d\d-\d\dT\S+Z\s*", "", line) for line in lines]


def test_failure_texts_of_a_leg_are_the_same_in_both_syntaxes() -> None:
    matched = Counter[re.Pattern[str]]()
    table = [pattern for _, pattern in failure_texts._MESSAGES]
    for pattern in (*table, failure_texts._FATAL_MEMORY, failure_texts._PREFIX):
        flags = "".join(word for flag, word in ((re.I, "i"), (re.M, "m")) if pattern.flags & flag)
        theirs = re2.compile(f"(?{flags}){pattern.pattern}" if flags else pattern.pattern)
        for line in failure_lines():
            ours, other = pattern.match(line), theirs.match(line)
            assert (ours and ours.span()) == (other and other.span()), line
            matched[pattern] += ours is not None
    assert len(matched) == 5
    assert all(matched.values())


def test_no_row_contradicts_the_failure_texts_of_a_leg() -> None:
    agreed = set()
    for line in failure_lines():
        own = failure_texts.ending_of_failure("", line)
        for row in PATTERNS:
            # A worker's SIGKILL is a crash that the system may have had a reason for.
            if row.kind != "failure" or row.ending is None or row.name == "jest.worker_killed":
                continue
            if re.search(row.pattern, line) and own != "completed":
                assert own == row.ending, (row.name, line)
                agreed.add(row.name)
    assert len(agreed) >= 12


@pytest.mark.parametrize("before", ["tests/unit/test_a.py ", ".", "s", "│ "])
def test_what_pytest_prints_before_a_line_hides_no_value(before: str) -> None:
    (found,) = values_of(f"{before}bytes_in_use: 5000000000")
    assert (found.name, found.value) == ("allocator.bytes_in_use", 5e9)


def test_a_retried_allocation_is_no_failure() -> None:
    (line,) = [line for line in own_lines() if "this is not a failure" in line]
    assert [one.kind for one in values_of(line)] == ["metric"]
