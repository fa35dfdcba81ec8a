"""NUnit and xUnit files that are incomplete, misspelled, or count other than they hold."""

from __future__ import annotations

from typing import Any

import pytest
from codec.results.reading import read_until_error

from ciguard.codec.results import nunit, xunit


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


@pytest.mark.parametrize(
    "head",
    [
        b'<assembly manifestVersion="1.0" xmlns="urn:schemas-microsoft-com:asm.v1"/>',
        b'<assembly xmlns="http://maven.apache.org/ASSEMBLY/2.2.0"><id>bin</id></assembly>',
    ],
)
def test_manifests_are_not_recognised(head: bytes) -> None:
    assert not xunit.sniff(head)


@pytest.mark.parametrize(
    ("inside", "states"),
    [
        ("<test name='t'/>", "result '' is none that is known"),
        ("<test name='t' result='pass'/>", "result 'pass' is none that is known"),
        ("<Test result='Fail'/>", "is not how <test> is spelled"),
        ("<x:failure/>", "is not how <failure> is spelled"),
        ("<testcase/>", ""),
    ],
)
def test_unknown_results_and_spellings_are_errors(inside: str, states: str) -> None:
    content = f"<assemblies xmlns:x='urn:x'><assembly>{inside}</assembly></assemblies>"
    _, error = read_until_error(xunit.read, content.encode())
    assert states in error.what if error else not states


@pytest.mark.parametrize(
    ("counters", "states"),
    [
        ("total='1' passed='1' failed='0' skipped='0' errors='0'", ""),
        ("total='2'", "2 tests, and it holds 1"),
        ("passed='2'", "2 passed, and it holds 1"),
        ("failed='1'", "1 failed, and it holds 0"),
        ("skipped='1' not-run='1'", "2 skipped, and it holds 0"),
        ("errors='1'", "1 errors, and it holds 0"),
        ("errors='?'", "the counter errors='?' is no number"),
    ],
)
def test_counters_of_each_assembly_are_compared(counters: str, states: str) -> None:
    test = "<collection total='9'><test name='t' result='Pass'/></collection>"
    assembly = f"<assembly {counters}>{test}</assembly>"
    content = f"<assemblies>{assembly}<assembly total='1'>{test}</assembly></assemblies>"
    found, error = read_until_error(xunit.read, content.encode())
    assert len(found) == (1 if error and "no number" in error.what else 2)
    assert states in error.what if error else not states


@pytest.mark.parametrize(
    ("read", "content", "root"),
    [
        (nunit.read, b"<test-results><test-case/></test-results>", "test-run"),
        (xunit.read, b"<class><test/></class>", "assemblies"),
    ],
)
def test_another_root_is_an_error(read: Any, content: bytes, root: str) -> None:
    _, error = read_until_error(read, content)
    assert error is not None
    assert (error.where, error.fix) == ("results:1:1", f"its root is <{root}>")
