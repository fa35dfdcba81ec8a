"""nextest's adapter, launcher and stream by literals: what a line comes to, how tests are named."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import pytest
from run.frameworks.test_registry import batch

from ciguard.errors import UsageError
from ciguard.model import Suite, Variant
from ciguard.run.frameworks.nextest import NEXTEST
from ciguard.run.plugins.ciguard_nextest import (
    EXPRESSION_BYTES,
    NextestStream,
    binary_id,
    divided,
    filtersets,
    selections,
    without_filtersets,
)

COMMAND = ("cargo", "nextest", "run")
SUITE = (
    '{"type":"suite","event":"started","test_count":6,'
    '"nextest":{"crate":"shop","test_binary":"ends","kind":"test"}}'
)
OK = "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored"


def event(name: str, what: str, more: str = "") -> str:
    return f'{{"type":"test","event":"{what}","name":"shop::ends${name}"{more}}}'


def ended(
    what: str,
    printed: str,
    more: str = "",
    *,
    name: str = "a",
    tries: str = "",
    own_harnesses: Sequence[str] = (),
) -> dict[str, object]:
    """What comes of a test that nextest says to have ended so."""
    stream = NextestStream([f"shop::ends {name}"], own_harnesses)
    text = "\n".join(
        (
            *(SUITE, event(name, "started")),
            *("   PASS [   0.005s] shop::ends x", "  output ───", printed),
            event(f"{name}{tries}", what, f',"exec_time":0.25{more}'),
        )
    )
    found = [line for one in text.splitlines(True) for line in stream.read(one.encode())[0]]
    assert [line.get("kind", line["type"]) for line in found] == ["start", "result", "closed"]
    assert {line["unit"] for line in found} == {f"shop::ends {name}"}
    assert stream.running == ""
    return found[1]


@pytest.mark.parametrize(
    ("what", "printed", "more", "outcome", "ending"),
    [
        ("ok", OK, "", "passed", None),
        ("ok", "running 1 test\n", "", "died", "crash"),  # exit(0)
        ("ok", "what a harness of its own prints", "", "died", "crash"),  # or a wrapper
        ("ok", OK.replace("1 passed", "0 passed"), "", "died", "crash"),
        ("ok", "running 1 test\n\n(test passed with timeout)", "", "died", "timeout"),
        ("failed", OK.replace("ok.", "FAILED."), ',"stdout":""', "failed", None),
        ("failed", "running 1 test\n", ',"stdout":""', "died", "crash"),  # exit(101)
        ("failed", "(test failed with exit code 7)", ',"stdout":"x"', "failed", None),
        ("failed", "(test aborted with signal 9: SIGKILL)", ',"stdout":""', "died", "crash"),
        ("failed", f"{OK}\n(test aborted with signal 6: SIGABRT)", "", "died", "crash"),
        ("failed", "running 1 test\n", ',"reason":"time limit exceeded"', "died", "timeout"),
        (
            "failed",
            "running 1 test\n(test aborted with signal 6: SIGABRT)",
            ',"stdout":"memory allocation of 64 bytes failed\\n"',
            "died",
            "out_of_memory",
        ),
    ],
)
def test_libtest_must_have_closed_what_it_began(
    what: str, printed: str, more: str, outcome: str, ending: str | None
) -> None:
    for indent in ("", "    "):
        text = "\n".join(indent + line for line in printed.splitlines())
        line = ended(what, text, more)
        assert (line["outcome"], line.get("ending")) == (outcome, ending)
        assert line["wall_s"] == 0.25


def test_harness_that_is_declared_may_print_anything() -> None:
    for printed in ("", "what a harness of its own prints"):
        line = ended("ok", printed, own_harnesses=["shop::ends"])
        assert line["outcome"] == "passed"
    line = ended("ok", "", own_harnesses=["shop::other"])
    assert line["message"] == (
        "its process ended with exit code 0 and no `test result: ok. 1 passed`"
    )


def test_message_says_how_a_process_ended() -> None:
    line = ended("failed", "running 1 test\n    (test failed with exit code 3)")
    assert line["message"] == "its process ended with exit code 3"


def test_last_try_counts() -> None:
    first = "running 1 test\n    (test aborted with signal 6: SIGABRT)\n"
    line = ended("ok", f"{first}  TRY 2 PASS [   0.01s] x\n{OK}", tries="#2")
    assert (line["outcome"], line["reruns"]) == ("passed", 1)
    line = ended("ok", f"{OK}\n  TRY 3 PASS [   0.01s] x\nrunning 1 test\n", tries="#3")
    assert (line["outcome"], line["reruns"]) == ("died", 2)


def test_names_are_read_as_they_are_written() -> None:
    for name in ('quote " and \\', 'a","exec_time":1', "a$b", "two words", "~#[*]", "a#2"):
        assert ended("ok", OK, name=name)["outcome"] == "passed"


@pytest.mark.parametrize(
    "head", ["panicked at src/a.rs:7:9:\n", "panicked at 'it says\n  `no`', src/a.rs:7:9\n"]
)
def test_place_of_a_panic(head: str) -> None:
    stdout = json.dumps(f"\nthread 'a' (26) {head}wrong")
    line = ended("failed", OK, f',"stdout":{stdout}')
    assert (line["file"], line["line"]) == ("src/a.rs", 7)
    outside = stdout.replace("src/a.rs", "/rustc/a.rs")
    assert "file" not in ended("failed", OK, f',"stdout":{outside}')


def test_what_passed_shows_its_status_only() -> None:
    stream = NextestStream(["shop::ends a"], ())
    status = "        PASS [   0.005s] (1/9) shop::ends a\n"
    for line in (f"{SUITE}\n", event("a", "started"), status, "  output ───\n", OK):
        assert stream.read(line.encode())[1] == b""
    assert stream.read(event("a", "ok", ',"exec_time":0.1').encode())[1] == status.encode()
    assert stream.read(b"   Compiling x\n") == ([], b"   Compiling x\n")


def test_what_was_not_asked_for_is_not_recorded() -> None:
    stream = NextestStream(["shop::ends b"], ())
    for line in (SUITE, event("a", "started"), event("a", "ok", ',"exec_time":0.1')):
        assert stream.read(line.encode()) == ([], b"")
    assert [line["unit"] for line in stream.missing()] == ["shop::ends b"]


def test_binaries_have_the_ids_of_nextest() -> None:
    found = [binary_id("a", "b", kind) for kind in ("lib", "proc-macro", "test", "bin", "bench")]
    assert found == ["a", "a", "a::b", "a::bin/b", "a::bench/b"]


def test_filtersets_name_any_test() -> None:
    assert filtersets(["b x::y", "a ü (1)", "b z"]) == [
        r"binary_id(=a) & (test(=\u{fc}\u{20}\u{28}1\u{29}))",
        "binary_id(=b) & (test(=x::y) | test(=z))",
    ]


def test_filtersets_are_short_enough_to_be_passed() -> None:
    units = [f"shop::ends tests::name_{number:06}" for number in range(40_000)]
    calls = list(selections(units))
    assert len(calls) == 3
    assert all(sum(map(len, one)) < 600 << 10 for one in calls)
    expressions = [one for call in calls for one in call]
    assert all(len(one) < EXPRESSION_BYTES + 100 for one in expressions)
    assert sum(one.count("test(=") for one in expressions) == len(units)
    assert list(selections([])) == []


def test_own_filtersets_are_for_the_listing_only() -> None:
    words = ["-E", "test(a)", "-p", "shop", "-Etest(b)", "--filterset=all()", "x", "--", "-E"]
    assert without_filtersets(words) == ["-p", "shop", "x", "--", "-E"]


def test_command_is_divided_at_run() -> None:
    words = ("cargo", "+nightly", "nextest", "run", "-p", "run")
    assert divided(words) == (["cargo", "+nightly", "nextest"], ["-p", "run"])


def test_launcher_gets_the_whole_command() -> None:
    suite = Suite("x", COMMAND, args=("--workspace",), variants={"": Variant(args=("-r",))})
    found = NEXTEST.execution(suite, "", batch())
    assert found.argv[0] == sys.executable
    assert found.argv[-5:] == (*COMMAND, "--workspace", "-r")
    assert found.env["CIGUARD_STOP_FILE"] == "/p/stop"


@pytest.mark.parametrize("word", ["--partition=count:1/2", "--no-capture", "--nocapture"])
def test_options_that_change_what_runs_are_refused(word: str) -> None:
    suite = Suite("x", COMMAND, args=(word,))
    with pytest.raises(UsageError, match=f"the flag {word.partition('=')[0]}"):
        NEXTEST.listing(suite, "", "answer", "inside")


@pytest.mark.parametrize("command", [("cargo", "test"), ("cargo", "llvm-cov", "nextest")])
def test_no_nextest_run_is_refused(command: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="no `cargo nextest run`"):
        NEXTEST.listing(Suite("x", command), "", "answer", "inside")
