"""`go test -json`: recorded files of two versions of Go, and damage of any kind."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest
from codec.results.reading import read_until_error

from ciguard.codec.results import go_json
from ciguard.codec.results.formats import FORMATS, format_of
from ciguard.codec.results.go_json import MAX_LINE_BYTES
from ciguard.codec.results.matching import units_of_cases
from ciguard.codec.tool_listings import read_listing

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests/samples/recorded"
COMPLETE_FILE = (ROOT / "tests/samples/go-json/outcomes/input.jsonl").read_bytes()


# (passed, failed, errored, skipped, died), and what the error says; "" if none.
COUNTS = {
    "go/build-broken.stdout.txt": ((3, 0, 1, 0, 0), ""),
    "go/crash-exit.stdout.txt": ((3, 0, 0, 0, 1), "first example.org/proj/crash.Test"),
    "go/crash-kill.stdout.txt": ((3, 0, 0, 0, 1), "without an end: 1"),
    "go/crash-panic.stdout.txt": ((3, 1, 0, 0, 0), ""),
    "go/flaky-count.stdout.txt": ((1, 1, 0, 0, 0), ""),
    "go/hang-killed.stdout.txt": ((0, 0, 0, 0, 1), "before the result of the package"),
    "go/hang-timeout.stdout.txt": ((14, 3, 0, 1, 1), "first example.org/proj/slow.Test"),
    "go/list-tests-json.stdout.txt": ((0, 0, 0, 0, 0), ""),
    "go/run-all.stdout.txt": ((19, 3, 0, 1, 0), ""),
    "go/select-sub.stdout.txt": ((1, 2, 0, 0, 0), ""),
    "go/vanished.stdout.txt": ((0, 0, 0, 0, 0), ""),
    "go127/build-broken.stdout.txt": ((3, 0, 1, 0, 0), ""),
    "go127/exit3.stdout.txt": ((1, 0, 0, 0, 1), "without an end: 1"),
    "go127/run-all.stdout.txt": ((19, 3, 0, 1, 0), ""),
    "own/go-test.json": ((2, 4, 0, 1, 0), ""),
    "own/gotestsum.json": ((2, 3, 0, 1, 0), ""),
}


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_recorded_files_give_expected_counts(name: str) -> None:
    content = (RECORDED / name).read_bytes()
    assert format_of(io.BytesIO(content), name) is FORMATS["go-json"]
    found, error = read_until_error(go_json.read, content)
    outcomes = Counter(one.outcome for one in found)
    counts = tuple(outcomes[one] for one in ("passed", "failed", "errored", "skipped", "died"))
    expected, states = COUNTS[name]
    assert counts == expected
    assert states in error.what if error else not states
    if error:
        assert error.where == f"results:{len(content.splitlines())}"


@pytest.mark.parametrize("name", ["binary-v", "list-tests"])
def test_other_output_of_go_is_not_recognised(name: str) -> None:
    assert not go_json.sniff((RECORDED / f"go/{name}.stdout.txt").read_bytes())


def test_results_are_those_of_the_junit_file_of_gotestsum() -> None:
    own = RECORDED / "own"
    found, _ = read_until_error(go_json.read, (own / "gotestsum.json").read_bytes())
    junit = FORMATS["junit"].read(io.BytesIO((own / "gotestsum-junit.xml").read_bytes()), "x")
    theirs = {(one.classname, one.name, one.outcome) for one in junit}
    assert {(one.classname, one.name, one.outcome) for one in found} == theirs


def test_units_are_those_that_go_lists() -> None:
    folder = RECORDED / "go"
    listed = read_listing((folder / "list-tests.stdout.txt").read_text("utf-8"))
    assert listed
    found, _ = read_until_error(go_json.read, (folder / "run-all.stdout.txt").read_bytes())
    tests = [one for one in found if "/" not in (one.name or "")]
    units = {unit for unit, _ in units_of_cases(tests, listed, ("", ""))}
    assert units == {one.unit for one in listed}


@pytest.mark.parametrize(
    "head",
    [
        b'{"tests/test_a.py::test_a": 0.5}',
        b'{"Action": "run"}',
        b'{"Time":1,"message":"x"}\n',
        b'[{"Action":"pass","Package":"x"}]',
        b"PASS\nok  \texample.org/x\t0.1s\n",
        b"",
    ],
)
def test_other_json_is_not_recognised(head: bytes) -> None:
    assert not go_json.sniff(head)


def test_file_cut_anywhere_is_an_error_and_no_test_passes_for_it() -> None:
    complete = Counter(one.outcome for one in read_until_error(go_json.read, COMPLETE_FILE)[0])
    end = COMPLETE_FILE.index(b'"Elapsed":0.5}')  # of the package that has tests
    for cut in range(40, end, 61):
        found, error = read_until_error(go_json.read, COMPLETE_FILE[:cut])
        assert error is not None
        assert error.where.startswith("results:")
        assert sum(one.outcome == "passed" for one in found) <= complete["passed"]


@pytest.mark.parametrize(
    ("line", "states"),
    [
        (b'{"Time":"2026","Action":"fail","Package":"p","Te\n', "damaged event"),
        (b'{"Action":"fail","Package":"\xff"}\n', "damaged event"),
        (b'{"Action":' + b"[" * 100_000 + b"\n", "damaged event"),
        (b"x" * (MAX_LINE_BYTES + 1), "larger than any honest line"),
    ],
)
def test_damage_names_its_line(line: bytes, states: str) -> None:
    passed = b'{"Action":"pass","Package":"p","Test":"T"}\n'
    found, error = read_until_error(go_json.read, passed + line + passed)
    assert [one.unit for one in found] == ["p.T"]
    assert error is not None
    assert states in error.what
    assert error.where == "results:2"


def test_values_that_no_go_writes_are_no_crash() -> None:
    lines = (
        b'{"Action":1,"Package":2,"Test":[]}\n{"Action":"pass","Test":"T","Elapsed":true}\n'
        b'{"Action":"pass","Test":"U\\ud800","Elapsed":NaN}\n{"Time":1}\n'
    )
    found, error = read_until_error(go_json.read, lines)
    assert error is None
    assert [(one.unit, one.wall_s) for one in found] == [("T", None), ("U?", None)]
