from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from codec.results.reading import read_until_error

from ciguard.codec.results import jest_json, playwright_json, rspec_json
from ciguard.codec.results.base import HEAD_BYTES, ResultFormat
from ciguard.codec.results.formats import FORMATS
from ciguard.codec.results.jsonfile import MAX_TRIES, PIECES_FROM_BYTES, head_keys

SAMPLES = Path(__file__).parents[2] / "samples"
JSON_SAMPLES = [path for name in FORMATS for path in sorted((SAMPLES / name).glob("*/input.json"))]
READERS = [FORMATS[name] for name in dict.fromkeys(path.parts[-3] for path in JSON_SAMPLES)]


@pytest.mark.parametrize(
    "path", JSON_SAMPLES, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}"
)
def test_large_file_read_in_pieces_says_what_a_small_one_does(path: Path) -> None:
    content = path.read_bytes()
    reader = FORMATS[path.parts[-3]]
    found, error = read_until_error(reader.read, content)
    large = read_until_error(reader.read, b"\n" * PIECES_FROM_BYTES + content)
    assert large[0] == found
    assert (large[1] and large[1].what) == (error and error.what)


@pytest.mark.parametrize(
    ("damage", "count", "what"),
    [
        (b"", 300, None),
        (b'"failureMessages": ["\\ud800"],', 300, None),  # half a character
        (b'"duration": NaN,', 300, None),
        (b'"duration": 0x1,', 0, "results:202:"),
        (b'"deep": ' + b"[" * 100_000 + b"]" * 100_000 + b",", 0, "results"),
        (b'"title": "\xff",', 200, "results"),
    ],
    ids=["none", "surrogate", "NaN", "hexadecimal", "deep", "not UTF-8"],
)
def test_piece_that_msgspec_refuses_is_read_or_is_an_error_with_a_place(
    damage: bytes, count: int, what: str | None
) -> None:
    filler = b"x" * (PIECES_FROM_BYTES // 250)
    files = [
        b'{"name": "%d.js", "status": "passed", "message": "%s", "assertionResults": [{%s'
        b'"fullName": "t", "status": "passed"}]}'
        % (number, filler, damage if number == 200 else b"")
        for number in range(300)
    ]
    content = b'{"numTotalTests": 300, "numRuntimeErrorTestSuites": 0, "testResults": [\n'
    found, error = read_until_error(jest_json.read, content + b",\n".join(files) + b"]}")
    assert len(found) == count
    assert (error is None) == (what is None)
    if error is not None and what is not None:
        assert error.where.startswith(what)


@pytest.mark.parametrize(
    "text",
    [
        '{"tests/a.py::t": 0.5}',
        '{"examples": 1, "version": 2}',
        '{"results": 1.5, "config": 2.5}',
        '{"results": {"default": {"a.py": 1.0}}}',
        '{"config": {"default": {"a.py": 1.0}}}',
        '{"01": ["a.py::t"], "02": []}',
        '{"unit": "a", "suite": "tool"}\n{"unit": "b"}',
        '[{"unit": "a"}]',
        '["a.py::t"]',
        '{"a": "\\"numTotalTests\\": 1, \\"results\\": {\\"tool\\": 1}"}',
    ],
)
def test_durations_and_inventories_are_no_results(text: str) -> None:
    assert not any(reader.sniff(text.encode()) for reader in READERS)


def test_keys_behind_a_long_list_and_in_a_cut_string_are_not_looked_at() -> None:
    assert head_keys(b'{"a": {"b": [{"c": 1}], "d": "x{') == {"a", "a.b", "a.b[]", "a.d"}
    argv = json.dumps({"config": {"argv": ["x" * 100] * 100, "rootDir": "/"}}).encode()
    assert playwright_json.sniff(argv[:HEAD_BYTES])
    messages = json.dumps({"version": "3", "messages": ["x" * 9000], "examples": []}).encode()
    assert rspec_json.sniff(messages[:HEAD_BYTES])


def test_pending_is_a_skip_of_jest_and_no_result_of_vitest() -> None:
    test = {"ancestorTitles": [], "fullName": "t", "status": "pending", "failureMessages": []}
    report: dict[str, Any] = {
        "numTotalTests": 1,
        "success": True,
        "testResults": [{"name": "a.js", "status": "passed", "assertionResults": [test]}],
    }
    (lost,), error = read_until_error(jest_json.read, json.dumps(report).encode())
    assert (lost.outcome, lost.ending) == ("died", "unknown")
    assert error is not None
    report["wasInterrupted"] = False
    (skipped,), error = read_until_error(jest_json.read, json.dumps(report).encode())
    assert (skipped.outcome, error) == ("skipped", None)


def test_failed_file_with_a_lost_test_is_an_errored_result_too() -> None:
    test = {"fullName": "t", "status": "pending"}
    file = {"name": "a.js", "status": "failed", "message": "no", "assertionResults": [test]}
    content = json.dumps({"numTotalTests": 1, "testResults": [file]}).encode()
    found, error = read_until_error(jest_json.read, content)
    assert [one.outcome for one in found] == ["died", "errored"]
    assert error is not None


def test_a_number_of_tries_makes_no_endless_list() -> None:
    test = {"fullName": "t", "status": "passed", "invocations": 10**12}
    files = [{"name": "a.js", "status": "passed", "assertionResults": [test]}]
    report = {"numTotalTests": 1, "wasInterrupted": False, "testResults": files}
    found, error = read_until_error(jest_json.read, json.dumps(report).encode())
    assert (len(found), error) == (MAX_TRIES + 1, None)


def test_half_a_character_becomes_a_question_mark() -> None:
    content = b'{"version": "3", "examples": [{"id": "\\ud83d", "status": "passed"}], "summary": '
    (found,), error = read_until_error(rspec_json.read, content + b'{"example_count": 1}}')
    assert (found.unit, error) == ("?", None)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"null", b"\xff", b"[" * 10**6, b'{"a":1e9']
)
def test_any_other_bytes_are_an_input_error(reader: ResultFormat, content: bytes) -> None:
    found, error = read_until_error(reader.read, content)
    assert not found
    assert error is not None
