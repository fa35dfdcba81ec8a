"""CTest's launcher and stream by literals: what a line comes to, how tests are divided."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest
from run.frameworks.test_registry import batch

from ciguard.errors import UsageError
from ciguard.model import Suite, Variant
from ciguard.run.frameworks.cpp import CTEST
from ciguard.run.plugins.ciguard_ctest import (
    BuildTest,
    CTestStream,
    connected,
    fixture_tests,
    locks,
    named,
    numbers,
)


def one(number: int, name: str, **properties: object) -> BuildTest:
    return BuildTest(number, name, name, properties)


def read(
    tests: Sequence[BuildTest], printed: str, asked: Sequence[int] | None = None
) -> list[tuple[str, str, str]]:
    """Kind or outcome, unit and message of the lines that come of an output."""
    stream = CTestStream({test.number: test for test in tests}, "/here")
    stream.begin([test for test in tests if asked is None or test.number in asked])
    lines = [line for text in printed.splitlines(True) for line in stream.read(text.encode())[0]]
    return [
        (
            line.get("kind") or line.get("ending") or line.get("outcome") or "start",
            line["unit"],
            line.get("message", ""),
        )
        for line in lines
    ]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("   Passed    0.03 sec", ("passed", "")),
        ("***Failed    0.03 sec", ("failed", "why")),
        ("***Failed  Error regular expression found in output. Regex=[why]  0.00 sec", None),
        ("***Timeout   1.02 sec", ("timeout", "over its limit in CTest: 1.02 s\nwhy")),
        ("***Timeout (SIGTERM)   1.02 sec", None),
        ("***Exception: SegFault  0.01 sec", ("crash", "its program ended: SegFault\nwhy")),
        ("Child killed***Exception:   0.0", None),
        ("***Skipped   0.00 sec", ("skipped", "why")),
        ("***Not Run (Disabled)   0.00 sec", ("skipped", "disabled")),
        ("***Not Run   0.00 sec", ("errored", "not run")),
    ],
)
def test_each_status_of_ctest(status: str, expected: tuple[str, str] | None) -> None:
    head = "test 7\n      Start  7: a b\n\n7: Test command: x\n7: Test timeout computed to be: 1\n"
    found = read([one(7, "a b")], f"{head}7: why\n 1/12 Test  #7: a b ......{status}\n")
    if expected is not None:
        outcome, message = expected
        assert found == [("start", "a b", ""), (outcome, "a b", message), ("closed", "a b", "")]
    elif "Error" in status:
        assert found[1][2] == "Error regular expression found in output. Regex=[why]\nwhy"
    elif "SIGTERM" in status:
        assert found[1][0] == "timeout"
    else:
        assert found == [("start", "a b", "")], "a line that is not whole is no result"


def test_names_and_results_may_have_several_lines() -> None:
    printed = (
        "    Start 1: a\n\nb\n1: Test timeout computed to be: 9\n1/1 Test #1: a\n\n"
        "b ......***Failed  Required regular expression not found. Regex=[x\n]  0.01 sec\n"
    )
    message = "Required regular expression not found. Regex=[x\n]"
    assert read([one(1, "a\n\nb")], printed)[1:] == [
        ("failed", "a\n\nb", message),
        ("closed", "a\n\nb", ""),
    ]


def test_no_test_prints_a_line_of_ctest() -> None:
    tests = [one(1, "a"), one(2, "b")]
    printed = (
        "    Start 1: a\n1: Test timeout computed to be: 9\n1:     Start 2: b\n"
        "1: 2/2 Test #2: b .....   Passed    0.00 sec\n1/2 Test #1: a .....   Passed    0.00 sec\n"
    )
    assert [found[:2] for found in read(tests, printed)] == [
        ("start", "a"),
        ("passed", "a"),
        ("closed", "a"),
    ]


def test_set_up_is_part_of_the_test_that_it_is_for() -> None:
    up, user, other = one(1, "up"), one(2, "user"), one(3, "other", COST=5.0)
    user.needs = other.needs = {"up"}
    printed = (
        "    Start 1: up\n1: Test timeout computed to be: 9\n1: no disk\n"
        "1/3 Test #1: up .....***Failed    0.00 sec\n    Start 3: other\n"
        "Failed test dependencies: up\n2/3 Test #3: other ...***Not Run   0.00 sec\n"
    )
    message = "Failed test dependencies: up\nup: no disk"
    assert read([up, user, other], printed, asked=(2, 3)) == [
        ("start", "other", ""),
        ("errored", "other", message),
        ("closed", "other", ""),
    ]


def test_killed_run_names_who_was_running() -> None:
    printed = "    Start 1: a\n1: Test timeout computed to be: 9\n1: half"
    assert read([one(1, "a")], printed) == [("start", "a", "")]


def test_tests_get_the_numbers_of_the_list() -> None:
    listed = "Test project /b\n  Test  #1: a\n  Test  #2: b (Disabled)\n  Test #10: a\n\nTotal: 3\n"
    described = {
        "tests": [
            {"name": "a", "properties": [{"name": "DEPENDS", "value": ["c"]}]},
            {"name": "a"},  # b is of another configuration
        ]
    }
    found = named(numbers(listed), described)
    assert {number: test.unit for number, test in found.items()} == {1: "a", 10: "a #2"}


def test_tests_of_required_fixtures_are_hidden() -> None:
    tests = [
        one(1, "up", FIXTURES_SETUP=["db"]),
        one(2, "down", FIXTURES_CLEANUP=["db", "x"]),
        one(3, "lonely", FIXTURES_SETUP=["other"]),
        one(4, "off", FIXTURES_REQUIRED=["other"], DISABLED=True),
        one(5, "user", FIXTURES_REQUIRED=["db"]),
    ]
    assert fixture_tests(tests) == {1, 2}


def test_tests_that_need_a_third_one_are_connected() -> None:
    tests = [one(number, name) for number, name in enumerate("abcde", 1)]
    tests[0].needs, tests[3].needs, tests[4].needs = {"up"}, {"up", "c"}, {"a"}
    parts = [[test.unit for test in part] for part in connected(tests)]
    assert sorted(map(sorted, parts)) == [["a", "c", "d", "e"], ["b"]]


def test_serial_tests_lock_out_all_others() -> None:
    assert locks([one(1, "a"), one(2, "b", RESOURCE_LOCK=["port", "disk"])]) == ("disk", "port")
    assert locks([one(1, "a", RUN_SERIAL=True)]) == ("",)


@pytest.mark.parametrize("word", ["-I", "--repeat", "--repeat=until-pass:2", "-T", "--show-only"])
def test_flags_that_change_what_runs_are_refused(word: str) -> None:
    suite = Suite("ctest", ("ctest",), args=(word,), variants={"": Variant()})
    with pytest.raises(UsageError, match=f"the flag {word.partition('=')[0]}"):
        CTEST.listing(suite, "", "answer", "inside")


def test_flags_that_change_the_output_are_left_out() -> None:
    suite = Suite("ctest", ("ctest", "-j8"), args=("--output-on-failure", "-R", "a", "-V"))
    argv = CTEST.execution(suite, "", batch()).argv
    assert argv[0] == sys.executable
    assert argv[-4:] == ("ctest", "-j8", "-R", "a")
