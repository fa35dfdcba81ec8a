"""Go's launcher and stream by literals: what a line comes to, how a command is divided."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from run.frameworks.test_registry import batch

from ciguard.errors import UsageError
from ciguard.model import Suite, Variant
from ciguard.run.frameworks.go import GO
from ciguard.run.plugins import ciguard_go
from ciguard.run.plugins.ciguard_go import (
    PATTERN_BYTES,
    GoStream,
    by_package,
    divided,
    flag_value,
    patterns,
)


def event(action: str, test: str = "", **more: object) -> bytes:
    return json.dumps({"Action": action, "Package": "m/p", "Test": test, **more}).encode()


def ended(word: str, test: str, **more: object) -> tuple[bytes, bytes]:
    return event("output", test, Output=f"--- {word.upper()}: {test} (0.00s)\n"), event(
        word, test, **more
    )


def read(stream: GoStream, *lines: bytes) -> list[tuple[str, str, str]]:
    """Kind or outcome, unit and case of the lines that come of it."""
    found = [one for line in lines for one in stream.read(line)[0]]
    return [
        (one.get("kind") or one.get("outcome") or "start", one["unit"], one.get("case", ""))
        for one in found
    ]


def test_paused_test_is_not_running() -> None:
    stream = GoStream({})
    assert read(stream, event("run", "TestA"), event("pause", "TestA"), event("run", "TestB")) == [
        ("start", "m/p.TestA", ""),
        ("unit_paused", "m/p.TestA", ""),
        ("start", "m/p.TestB", ""),
    ]
    assert read(stream, event("fail")) == [("died", "m/p.TestB", "")]
    assert stream.is_cut_short("m/p.TestA"), "it has not run"
    assert not stream.is_cut_short("m/p.TestB")
    assert not stream.is_cut_short("other.TestC"), "nothing is known of its package"


def test_each_parallel_test_of_a_binary_that_ends_is_one_of_several() -> None:
    """So that each runs again, alone: without it both had died for good."""
    stream = GoStream({})
    read(stream, event("run", "TestA"), event("run", "TestB"), event("run", "TestB/x"))
    lines, _ = stream.read(event("fail"))
    died = [(one["unit"], one["outcome"], one["concurrent"]) for one in lines]
    assert died == [("m/p.TestA", "died", 2), ("m/p.TestB", "died", 2)]


def test_test_whose_goroutine_outlives_it_ended_the_binary() -> None:
    stream = GoStream({})
    read(stream, event("run", "TestA"), *ended("pass", "TestA"), event("run", "TestB"))
    panic = "panic: Fail in goroutine after TestA has completed\n"
    read(stream, event("output", "TestB", Output=panic))
    lines, _ = stream.read(event("fail"))
    assert [(one["unit"], one["outcome"], one["concurrent"]) for one in lines] == [
        ("m/p.TestB", "died", 2),
        ("m/p.TestA", "died", 1),
    ]


@pytest.mark.parametrize(("word", "outcome"), [("PASS", "passed"), ("FAIL", "failed")])
def test_end_behind_a_long_line_is_none_of_the_output(word: str, outcome: str) -> None:
    """As test2json writes it: the end of the test is output, and no `pass` follows."""
    stream = GoStream({})
    read(stream, event("run", "TestA"), event("output", "TestA", Output="x" * 1024))
    line = event("output", "TestA", Output=f"\x16--- {word}: TestA (0.25s)\n")
    assert read(stream, line) == [(outcome, "m/p.TestA", ""), ("closed", "m/p.TestA", "")]
    assert read(stream, event("pass")) == []


def test_test_says_no_more_than_its_failed_subtest() -> None:
    stream = GoStream({"m/p": "p"})
    read(stream, event("run", "TestA"), event("run", "TestA/x"))
    read(stream, event("output", "TestA/x", Output="    a_test.go:7: wrong\n"))
    assert read(stream, *ended("fail", "TestA/x"), *ended("fail", "TestA", Elapsed=0.5)) == [
        ("failed", "m/p.TestA", "TestA/x"),
        ("closed", "m/p.TestA", ""),
    ]


def test_end_of_a_binary_is_not_that_of_its_test() -> None:
    """As `go test` 1.27 says it of a binary that ended with 0 in TestB, and of the whole package.

    https://go.dev/cmd/test2json: the event of a package is one without a test.
    """
    stream = GoStream({})
    read(stream, event("run", "TestA"), *ended("pass", "TestA"), event("run", "TestB"))
    says = event("output", "TestB", Output="ok  \tm/p\t0.004s\n")
    assert read(stream, says, event("pass", "TestB", Elapsed=0.005)) == []
    assert [(one["outcome"], one["unit"]) for one in stream.end()] == [("died", "m/p.TestB")]
    assert stream.is_cut_short("m/p.TestC")


def test_package_that_failed_without_a_test_is_an_error() -> None:
    stream = GoStream({})
    stream.read(b"# m/p [m/p.test]\n")
    stream.read(b"p/a_test.go:3:1: undefined: x\n")
    stream.read(b"FAIL\tm/p [build failed]\n")
    (line,) = stream.end()
    assert (line["kind"], line["unit"]) == ("collection_error", "m/p")
    assert line["detail"] == "p/a_test.go:3:1: undefined: x"


def test_lines_that_are_no_events_are_shown() -> None:
    assert GoStream({}).read(b"{not json\n") == ([], b"{not json\n")
    assert GoStream({}).read(b"go: downloading x\n") == ([], b"go: downloading x\n")


def test_command_is_divided_into_flags_packages_and_arguments() -> None:
    words = ["go", "test", "-tags", "slow", "./a", "example.org/b/...", "-args", "-x", "./c"]
    assert divided(words) == (
        ["go", "test", "-tags", "slow"],
        ["./a", "example.org/b/..."],
        ["-args", "-x", "./c"],
    )
    assert divided(["go", "test"])[1] == ["./..."]


def test_value_of_a_flag_is_no_package() -> None:
    words = ["go", "test", "-coverpkg", "./...", "./..."]
    assert divided(words) == (words[:4], ["./..."], [])
    assert divided(words[:4]) == (words[:4], ["./..."], [])
    assert divided(["go", "test", "-race", "./a", "./b"])[1] == ["./a", "./b"]


@pytest.mark.parametrize(
    ("words", "go_flags", "expected"),
    [
        (["go", "test", "-v"], "-mod=mod", "10m"),
        (["go", "test", "-timeout=2s"], "", "2s"),
        (["go", "test", "-timeout", "2s", "-v"], "-timeout=1h", "2s"),
        (["go", "test", "--test.timeout=0"], "", "0"),
        (["go", "test"], "-v -timeout=1h", "1h"),
    ],
)
def test_limit_of_a_binary_is_that_of_the_command(
    words: list[str], go_flags: str, expected: str
) -> None:
    assert flag_value("timeout", words, go_flags, "10m") == expected


def test_patterns_are_short_enough_and_match_each_name_once() -> None:
    names = [f"Test{number:06}" for number in range(20_000)]
    found = patterns(names)
    assert len(found) == 3
    assert all(len(one) < PATTERN_BYTES + 100 for one in found)
    assert "|".join(one[2:-2] for one in found).split("|") == names
    assert patterns(["TestA"]) == ["^(TestA)$"]


def test_dot_before_the_test_ends_the_package() -> None:
    assert by_package(["gopkg.in/yaml.v3.TestA", "m.TestB", "m.TestA"]) == {
        "gopkg.in/yaml.v3": ["TestA"],
        "m": ["TestB", "TestA"],
    }


@pytest.mark.parametrize("word", ["-run=X", "--skip", "-exec"])
def test_flags_that_change_what_runs_are_refused(word: str) -> None:
    suite = Suite("go", ("go", "test"), args=(word,), variants={"": Variant()})
    with pytest.raises(UsageError, match=f"framework go: the flag {word.partition('=')[0]}"):
        GO.listing(suite, "", "answer", "inside")


def test_flags_of_the_tests_own_are_let_pass() -> None:
    suite = Suite("go", ("go", "test"), args=("-race", "-args", "-run=X"))
    argv = GO.execution(suite, "", batch()).argv
    assert argv[0] == sys.executable
    assert argv[-5:] == ("go", "test", "-race", "-args", "-run=X")


def test_no_go_test_is_refused() -> None:
    with pytest.raises(UsageError, match="no `go test`"):
        GO.listing(Suite("go", ("make", "check")), "", "answer", "inside")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("-mod=mod", ("executed", "")),
        ("-n", ("not_executed", "GOFLAGS: -n")),
        ("-skip=X -race", ("filter", "GOFLAGS: -skip=X")),
    ],
)
def test_setting_of_goflags_is_one_event(
    tmp_path: Path, flags: str, expected: tuple[str, str]
) -> None:
    go, units, record = (tmp_path / name for name in ("go", "units.json", "record"))
    go.write_text('#!/bin/sh\n[ "$1" != env ] || printf %s "$GOFLAGS"\n')
    go.chmod(0o755)
    units.write_text("[]")
    files = {"CIGUARD_UNITS_FILE": str(units), "CIGUARD_RECORD_FILE": str(record)}
    argv = [sys.executable, ciguard_go.__file__, str(go), "test"]
    subprocess.run(argv, env={**files, "GOFLAGS": flags}, check=True)
    line = json.loads(record.read_text())
    assert (line["reason"], line["detail"]) == expected
