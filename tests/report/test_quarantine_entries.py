"""Entries of a report for flaky failures: of which failures, and as safe TOML."""

from __future__ import annotations

import tomllib
from datetime import date
from functools import cache

from hypothesis import given
from hypothesis import strategies as st
from report.situations import SITUATIONS

from ciguard.codec.quarantine import Entry, decode
from ciguard.compare.comparison import Comparison
from ciguard.compare.whose import Answer
from ciguard.document import Listing, Section
from ciguard.model import CaseKey
from ciguard.render.formats import as_format
from ciguard.report.answer import entries_section, quoted

TODAY = date(2026, 11, 28)  # of the run
FLAKY = Answer("flaky", "known_rate", runs=20, failures=4)


@cache
def comparison() -> Comparison | None:
    return SITUATIONS["flaky"]().report().comparison


def of_tests(*units: str, answer: Answer = FLAKY) -> Section:
    keys = (CaseKey("unit", "3.11", unit, unit) for unit in units)
    return entries_section(dict.fromkeys(keys, answer), comparison())


def toml_of(section: Section) -> str:
    return "".join(block.text for block in section.blocks if isinstance(block, Listing))


def test_entries_are_of_tests_that_failed_before() -> None:
    for answer in (Answer("flaky", "first_flake"), Answer("main", "red")):
        assert of_tests("t", answer=answer).blocks == ()
    assert entries_section({CaseKey("", "", "t", "t"): FLAKY}, None).blocks == ()
    several = tomllib.loads(toml_of(of_tests("a", "x" * 600, "b")))["quarantine"]
    assert [one["unit"] for one in several] == ["a", "b"]


def test_entry_is_valid_once_its_issue_is_filled_in() -> None:
    text = toml_of(of_tests("t[x]"))
    (problem,) = decode(text.encode(), TODAY, is_base=True).problems
    assert "t[x] of unit/3.11: issue: expected the number of an issue" in problem
    filled = decode(text.replace('""', "4711").encode(), TODAY, is_base=True)
    assert filled.entries == (
        Entry(
            unit="t[x]",
            suite="unit",
            variant="3.11",
            issue="4711",
            reason="failed in 4 of 20 runs of main (95 % CI 8..42 %)",
            until=date(2026, 12, 28),
        ),
    )


@given(
    st.text(min_size=1, max_size=60) | st.text('`"\\\n\r\t[]#=~<&\u2028\u202e\x7f\0u', min_size=1)
)
def test_any_id_is_one_string_of_toml_within_the_fence(unit: str) -> None:
    section = of_tests(unit)
    assert [one["unit"] for one in tomllib.loads(toml_of(section))["quarantine"]] == [unit]
    assert tomllib.loads(f"x = {quoted(unit)}") == {"x": unit}
    fences = [line for line in as_format((section,), "markdown").splitlines() if "``" in line[:2]]
    assert fences == [f"{fences[-1]}toml", fences[-1]]
