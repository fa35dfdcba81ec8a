from __future__ import annotations

from pathlib import Path

import pytest
from codec.results.reading import read_until_error

from ciguard.codec.results import trx
from ciguard.codec.results.base import xml_root

SAMPLES = Path(__file__).parents[2] / "samples" / "trx"
COMPLETE_FILE = (SAMPLES / "theory_and_outcomes" / "input.trx").read_bytes()


def test_every_trx_outcome_is_mapped() -> None:
    # TestOutcome of VSTest's TrxLogger, in its order.
    names = (
        "Error Failed Timeout Aborted Inconclusive PassedButRunAborted NotRunnable NotExecuted "
        "Disconnected Warning Passed Completed InProgress Pending"
    )
    for name in names.split():
        result = f'<UnitTestResult testName="t" outcome="{name}"/>'
        (found,), _ = read_until_error(
            trx.read, f"<TestRun><Results>{result}</Results></TestRun>".encode()
        )
        assert found.unit == "t"


@pytest.mark.parametrize(
    ("head", "root"),
    [
        (b"\xef\xbb\xbf <?xml version='1.0'?>\n<!-- <testsuite> -->\n<TestRun id='1'>", "TestRun"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]>\n<a/>', "a"),
        (b"<!-- " + b"long " * 2000, ""),
        (b"<!---->" * 500, ""),
        (b'{"a": 1}', ""),
        ("<TestRun/>".encode("utf-16"), "TestRun"),
    ],
)
def test_format_is_recognised_by_the_root_element(head: bytes, root: str) -> None:
    assert xml_root(head) == root


def test_second_document_in_one_file_is_rejected() -> None:
    found, error = read_until_error(trx.read, COMPLETE_FILE + b"<TestRun/>")
    assert found
    assert error is not None
    assert (error.what, error.fix) == (
        "malformed XML: junk after document element",
        "write a file for each document",
    )


PASSED = '<Results><UnitTestResult testName="t" outcome="Passed"/></Results>'
ABORTED = "The active test run was aborted. Reason: Test host process crashed"


def run_info(outcome: str, text: str) -> str:
    info = f'<RunInfos><RunInfo outcome="{outcome}"><Text>{text}</Text></RunInfo></RunInfos>'
    return f'{PASSED}<ResultSummary outcome="Completed">{info}</ResultSummary>'


@pytest.mark.parametrize(
    ("inside", "states"),
    [
        (run_info("Warning", ABORTED), "did not come to its end: The active test run was"),
        (run_info("Error", ABORTED), "did not come to its end: The active test run was"),
        (run_info("", ABORTED), "did not come to its end: The active test run was"),
        (run_info("Warning", "Test run was canceled."), "did not come to its end"),
        (
            run_info("Error", "Aborting test run: test run timeout of 100 milliseconds exceeded."),
            "did not come to its end: Aborting test run",
        ),
        (
            f"<Results>{PASSED[9:-10]}<UnitTestResult testName='u' outcome='Failed'/></Results>"
            "<ResultSummary outcome='Failed'><RunInfos><RunInfo outcome='Error'>"
            "<Text>Exit code indicates failure: '3'. See the exit codes.</Text>"
            "</RunInfo></RunInfos></ResultSummary>",
            "did not come to its end: Exit code indicates failure: '3'",
        ),
        *(
            (f'{PASSED}<ResultSummary outcome="{word}"/>', f"end: its outcome is {word}")
            for word in ("Aborted", "aborted", "Error", "Timeout", "Disconnected", "Broken")
        ),
        *(
            (
                f"{PASSED}<ResultSummary><Counters {name}='2'/></ResultSummary>",
                "end: its counters say so of 2",
            )
            for name in ("inProgress", "pending", "disconnected", "passedButRunAborted")
        ),
        (
            '<Results><UnitTestResult testName="t" outcome="Failed"/></Results>'
            '<ResultSummary outcome="Failed"><Counters failed="1" error="2"/></ResultSummary>',
            "3 failed, and it holds 1",
        ),
        *(
            (f"{PASSED}<ResultSummary><Counters total='1' {name}/></ResultSummary>", says)
            for name, says in (
                ("executed='5'", "its counters say 5 results, and it holds 1"),
                ("passed='5'", "its counters say 5 passed, and it holds 1"),
                ("passed='1' warning='1'", "its counters say 2 passed, and it holds 1"),
                ("notExecuted='1'", "its counters say 1 skipped, and it holds 0"),
                ("inconclusive='1'", "its counters say 1 skipped, and it holds 0"),
                ("notRunnable='1'", "its counters say 1 failed, and it holds 0"),
                ("failed='?'", "the counter failed='?' is no number"),
            )
        ),
        ('<Results><unittestresult outcome="Failed"/></Results>', "is not how <UnitTestResult>"),
        (f'{PASSED}<t:ResultSummary outcome="Aborted"/>', "is not how <ResultSummary>"),
        ('<Results><UnitTestResult testName="t" outcome="failed"/></Results>', "'failed' is none"),
    ],
)
def test_incomplete_run_is_an_error(inside: str, states: str) -> None:
    _, error = read_until_error(trx.read, f'<TestRun xmlns:t="urn:t">{inside}</TestRun>'.encode())
    assert error is not None
    assert states in error.what
    assert error.fix


def test_unrelated_run_warnings_are_no_error() -> None:
    output = run_info("Warning", "[xUnit.net 00:00:00.86]     Shop.CartTests.Adds [SKIP]")
    found, error = read_until_error(trx.read, f"<TestRun>{output}</TestRun>".encode())
    assert (len(found), error) == (1, None)
