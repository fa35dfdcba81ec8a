"""GoogleTest's launcher and stream by literals: what a line comes to, how a command is divided."""

from __future__ import annotations

import sys

import pytest
from run.frameworks.test_registry import batch

from ciguard.errors import UsageError
from ciguard.model import Suite, Variant
from ciguard.run.frameworks.cpp import GTEST
from ciguard.run.plugins.ciguard_gtest import SPECIAL, GTestStream, divided, how_ended, unescaped
from ciguard.run.plugins.ciguard_launcher import describe_failure

PATH = "/here/sums.cpp"


def read(printed: str, *names: str, how: str = "") -> list[tuple[str, str, str]]:
    """Kind or outcome, unit and message of the lines that come of an output."""
    stream = GTestStream({name: name for name in names}, "/here")
    stream.begin()
    lines = [line for text in printed.splitlines(True) for line in stream.read(text.encode())]
    lines += stream.end(how) if how else ()
    return [
        (line.get("kind") or line.get("outcome") or "start", line["unit"], line.get("message", ""))
        for line in lines
    ]


def test_each_result() -> None:
    printed = f"""\
[----------] 4 tests from A
[ RUN      ] A.a
[       OK ] A.a (0 ms)
[ RUN      ] A.b
{PATH}:12: Failure
wrong
[  FAILED  ] A.b, where GetParam() = "x" (0 ms)
[ RUN      ] A.c
{PATH}:13: Skipped
not here
[  SKIPPED ] A.c (3 ms)
[ RUN      ] A.d
[       OK ] A.d
[----------] 4 tests from A (0 ms total)
"""
    found = read(printed, "A.a", "A.b", "A.c", "A.d")
    assert [one for one in found if one[0] not in ("start", "closed")] == [
        ("passed", "A.a", ""),
        ("failed", "A.b", "wrong"),
        ("skipped", "A.c", f"{PATH}:13: Skipped\nnot here"),
        ("passed", "A.d", ""),
    ]
    assert [one[1] for one in found if one[0] == "closed"] == ["A.a", "A.b", "A.c", "A.d"]


def test_output_without_a_line_feed_and_lines_of_other_tests() -> None:
    printed = (
        "static init[----------] 2 tests from A\nset-up[ RUN      ] A.a\n"
        "[       OK ] A.aa (0 ms)\n[ RUN      ] A.aa\nglued[       OK ] A.a (0 ms)\n"
    )
    assert read(printed, "A.a", "A.aa", how="exit code 0") == [
        ("start", "A.a", ""),
        ("passed", "A.a", ""),
        ("closed", "A.a", ""),
    ]


def test_test_that_ends_its_program_died() -> None:
    printed = "[----------] 2 tests from A\n[ RUN      ] A.a\nhalf"
    died = ("died", "A.a", "its program ended with exit code 0\nhalf")
    assert read(printed, "A.a", "A.b", how="exit code 0") == [("start", "A.a", ""), died]


def test_set_up_of_a_suite_is_part_of_its_first_test() -> None:
    printed = "[----------] 2 tests from A/0, where TypeParam = int\n"
    assert read(printed, "A/0.b", how="signal 9 (SIGKILL)") == [
        ("start", "A/0.b", ""),
        ("died", "A/0.b", "its program ended with signal 9 (SIGKILL)"),
    ]


def test_skipped_after_a_failed_set_up_is_an_error() -> None:
    ended = f"[ RUN      ] A.a\n{PATH}:9: Skipped\n\n[  SKIPPED ] A.a (0 ms)\n"
    for before in ("[----------] 1 test from A\n{}", "{}[----------] 1 test from A\n"):
        printed = before.format(f"{PATH}:5: Failure\nno disk\n") + ended
        assert read(printed, "A.a")[1:2] == [("errored", "A.a", "no disk")]


def test_shuffled_test_gives_its_place_back() -> None:
    printed = "[----------] 2 tests from A\n[ RUN      ] A.b\n[       OK ] A.b (0 ms)\n"
    assert [one[:2] for one in read(printed, "A.a", "A.b")] == [
        ("start", "A.a"),
        ("unit_paused", "A.a"),
        ("start", "A.b"),
        ("passed", "A.b"),
        ("closed", "A.b"),
    ]


@pytest.mark.parametrize(
    ("log", "message", "place"),
    [
        (f"{PATH}:12: Failure\nwrong\n", "wrong", ("sums.cpp", 12)),
        (f"{PATH}(12): error: wrong\n", "wrong", ("sums.cpp", 12)),
        ("/usr/x.h:3: Failure\nwrong\n", "wrong", (None, None)),
        ("unknown file: Failure\nC++ exception\n", "C++ exception", (None, None)),
        ("Running main() from a\n[ RUN      ] A.a\nsaid\n 1 FAILED TEST\n", "said", (None, None)),
    ],
)
def test_message_is_what_went_wrong(
    log: str, message: str, place: tuple[str | None, int | None]
) -> None:
    found = describe_failure(log, "/here")
    assert found["message"] == message
    assert (found.get("file"), found.get("line")) == place


def test_command_is_divided_into_programs_and_flags() -> None:
    assert divided(["b/a", "--gtest_shuffle"]) == ({"": "b/a"}, ["--gtest_shuffle"])
    assert divided(["b/a", "b/c"]) == ({"[a] ": "b/a", "[c] ": "b/c"}, [])


def test_names() -> None:
    assert SPECIAL.sub("?", "T/std::x<a, b-*>.Z") == "T/std??x<a,?b??>.Z"
    assert unescaped("\u00c3\u00bc") == "ü"
    assert unescaped("ü 😀") == "ü 😀"
    assert how_ended(-11) == "signal 11 (SIGSEGV)"


@pytest.mark.parametrize("word", ["--gtest_repeat=3", "-gtest_brief=1", "--gtest_fail_fast"])
def test_flags_that_change_what_runs_are_refused(word: str) -> None:
    suite = Suite("gtest", ("build/a",), args=(word,), variants={"": Variant()})
    with pytest.raises(UsageError, match=f"the flag {word.partition('=')[0]}"):
        GTEST.listing(suite, "", "answer", "inside")


def test_command_without_a_program_or_with_two_of_one_name_is_refused() -> None:
    with pytest.raises(UsageError, match="no test program"):
        GTEST.listing(Suite("gtest", ()), "", "answer", "inside")
    with pytest.raises(UsageError, match="two programs of one name"):
        GTEST.listing(Suite("gtest", ("a/t", "b/t")), "", "answer", "inside")


def test_the_launcher_gets_the_command() -> None:
    argv = GTEST.execution(Suite("gtest", ("a/t",), args=("--gtest_shuffle",)), "", batch()).argv
    assert argv[0] == sys.executable
    assert argv[-2:] == ("a/t", "--gtest_shuffle")
