"""NUnit files that are incomplete, misspelled, or count other than they hold."""

from __future__ import annotations

import pytest
from codec.results.reading import read_until_error

from ciguard.codec.results import nunit


@pytest.mark.parametrize(
    ("inside", "states"),
    [
        ("<test-case/>", "result '' is none that is known"),
        ("<test-case result='failed'/>", "result 'failed' is none that is known"),
        ("<Test-Case result='Failed'/>", "is not how <test-case> is spelled"),
        ("<n:test-suite/>", "is not how <test-suite> is spelled"),
        ("<test-suite result='Skipped' label='Cancelled'/>", ""),
        ("<test-suite result='Failed' label='Cancelled'/>", "it was cancelled"),
        ("<test-suite result='Failed(Cancelled)'/>", "it was cancelled"),
    ],
)
def test_incomplete_run_is_an_error(inside: str, states: str) -> None:
    _, error = read_until_error(
        nunit.read, f"<test-run xmlns:n='urn:n'>{inside}</test-run>".encode()
    )
    assert states in error.what if error else not states


@pytest.mark.parametrize(
    ("counters", "states"),
    [
        ("total='1' passed='1' failed='0'", ""),
        ("total='2'", "2 tests, and it holds 1"),
        ("passed='1' warnings='1'", "2 passed, and it holds 1"),
        ("skipped='1' inconclusive='1'", "2 skipped, and it holds 0"),
        ("failed='1'", "1 failed, and it holds 0"),
        ("failed='many'", "the counter failed='many' is no number"),
    ],
)
def test_counters_of_the_run_are_compared(counters: str, states: str) -> None:
    case = "<test-suite total='9'><test-case fullname='t' result='Passed'/></test-suite>"
    found, error = read_until_error(nunit.read, f"<test-run {counters}>{case}</test-run>".encode())
    assert len(found) == 1
    assert states in error.what if error else not states


def test_another_root_is_an_error() -> None:
    _, error = read_until_error(nunit.read, b"<test-results><test-case/></test-results>")
    assert error is not None
    assert (error.where, error.fix) == ("results:1:1", "its root is <test-run>")
