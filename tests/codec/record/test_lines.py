"""The record's reader and writer: whatever arrives, what was written whole is read, and no more."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.codec.record.lines import (
    MAX_INTEGER,
    MAX_LINE_BYTES,
    LineError,
    decode,
    encode,
    refused_metric,
)
from ciguard.codec.record.reader import MAX_DAMAGE, read_records
from ciguard.model import (
    ENDINGS,
    MEASURED_BY,
    OUTCOMES,
    DefaultsLine,
    EndLine,
    EventLine,
    Line,
    MetricLine,
    ProcessEndLine,
    ProcessLine,
    Record,
    Result,
    Runner,
    SampleLine,
    ShardLine,
    StartLine,
)

HOSTILE = "a.py::t[\"'\\ \n\r\x00\u202e\U0001f389\ud800]"

LINES: tuple[Line, ...] = (
    ShardLine(
        plan_id="9f2c",
        shard="03",
        repository="o/r",
        workflow="tests.yml",
        run_id=101,
        run_attempt=1,
        job="tests (03)",
        event="pull_request",
        head_sha="a" * 40,
        tested_sha="b" * 40,
        tested_parents=("c" * 40, "d" * 40),
        started_at="2026-11-21T10:00:00Z",
        runner=Runner("linux", 4, 17179869184, 0.31),
    ),
    ProcessLine(process=1, units=12, pid=4242, predicted_peak_bytes=734003200, reason="first"),
    StartLine("a.py::t1", suite="unit", process=1, at_s=1.204),
    Result(
        unit="a.py::t1",
        outcome="passed",
        suite="unit",
        case="a.py::t1",
        at_s=1.7,
        wall_s=0.41,
        cpu_s=0.40,
        setup_s=0.01,
        rss_before_bytes=104857600,
        peak_bytes=209715200,
        peak_delta_bytes=104857600,
        retained_bytes=-4096,
        measured_by="mark",
        concurrent=1,
        try_number=2,
        process=1,
    ),
    SampleLine(at_s=1.3, tree_bytes=209715200, process_bytes={"1": 209715200}),
    MetricLine("xla.bytes", 62817533356.0, "bytes", {"ordinal": "1"}, 720),
    EventLine("recycled", 7.0, 1, detail="retained 412 MiB", lines_read={"process-001.jsonl": 7}),
    Result(unit=HOSTILE, outcome="failed", case=HOSTILE, message="1 != 2\n" * 5),
    ProcessEndLine(1, "completed", 0, 9.7, 734003200),
    EndLine("completed", 9.8, 0, {"passed": 1, "failed": 1}),
)
CONTENT = b"".join(map(encode, LINES))


def lines_of(record: Record) -> list[Line]:
    ends = [record.end] if record.end else []
    headers = [record.header] if record.header else []
    return [
        *headers,
        *record.processes,
        *record.starts,
        *record.results,
        *record.samples,
        *record.metrics,
        *record.events,
        *record.process_ends,
        *ends,
    ]


def same(found: list[Line], expected: list[Line]) -> bool:
    """Equal, in whatever order."""
    return sorted(map(repr, found)) == sorted(map(repr, expected))


@pytest.mark.parametrize("line", LINES, ids=lambda line: type(line).__name__)
def test_line_survives_encode_and_decode(line: Line) -> None:
    written = encode(line)
    assert written.endswith(b"\n")
    assert written.count(b"\n") == 1
    assert decode(written.rstrip(b"\n")) == line


def test_every_kind_of_line_is_among_the_samples() -> None:
    kinds = {type(line) for line in LINES} | {DefaultsLine}
    assert len(kinds) == 10
    assert decode(encode(DefaultsLine("p", "01", 1, 2, "s", "v", 3))) == DefaultsLine(
        "p", "01", 1, 2, "s", "v", 3
    )


_TEXT = st.text(st.characters(codec=None), max_size=30)
_INTEGERS = st.none() | st.integers(0, MAX_INTEGER)
_SECONDS = st.none() | st.floats(0, 1e15)


@st.composite
def results(draw: st.DrawFn) -> Result:
    sizes = [field.name for field in fields(Result) if field.name.endswith("_bytes")]
    times = [field.name for field in fields(Result) if field.name.endswith("_s")]
    values: dict[str, Any] = {name: draw(_INTEGERS) for name in sizes}
    values.update({name: draw(_SECONDS) for name in times})
    return Result(
        unit=draw(_TEXT),
        outcome=draw(st.sampled_from(OUTCOMES)),
        suite=draw(_TEXT),
        variant=draw(_TEXT),
        case=draw(_TEXT),
        ending=draw(st.sampled_from(ENDINGS)),
        measured_by=draw(st.none() | st.sampled_from(MEASURED_BY)),
        try_number=draw(st.integers(1, 9)),
        message=draw(st.none() | _TEXT),
        **values,
    )


@given(results())
def test_any_result_survives_encode_and_decode(result: Result) -> None:
    assert decode(encode(result)) == result


def test_unmeasured_fields_are_omitted() -> None:
    assert json.loads(encode(Result("u", "passed"))) == {
        "type": "result",
        "unit": "u",
        "outcome": "passed",
        "suite": "",
        "variant": "",
        "case": "",
        "ending": "completed",
        "try": 1,
    }


@pytest.mark.parametrize(
    ("measure", "result"),
    [
        (b'"wall_s":null', Result("u", "passed")),
        (b'"wall_s":0', Result("u", "passed", wall_s=0.0)),
        (b'"retained_bytes":-7', Result("u", "passed", retained_bytes=-7)),
    ],
)
def test_null_is_not_measured_and_zero_is(measure: bytes, result: Result) -> None:
    assert decode(b'{"type":"result","unit":"u","outcome":"passed",%s}' % measure) == result


def test_unknown_types_and_keys_are_skipped() -> None:
    assert decode(b'{"type":"weather","sun":1}') is None
    line = decode(b'{"type":"start","unit":"u","colour":"blue","list":[1,{"a":null}]}')
    assert line == StartLine("u")


INVALID_LINES = [
    (b"", "no JSON"),
    (b"nonsense", "no JSON"),
    (b"[1]", "no object with a type"),
    (b'{"unit":"u"}', "no object with a type"),
    (b'{"type":7}', "no object with a type"),
    (b"[" * 100_000, "no JSON"),
    (b"\xff\xfe\xfa", "no JSON"),
    (b'{"type":"start"}', "unit is missing"),
    (b'{"type":"start","unit":null}', "unit is missing"),
    (b'{"type":"start","unit":7}', "unit: expected text"),
    (b'{"type":"result","unit":"u","outcome":"fine"}', "outcome: expected one of passed"),
    (b'{"type":"result","unit":"u","outcome":[]}', "outcome: expected one of passed"),
    (b'{"type":"end","ending":"tired"}', "ending: expected one of completed"),
    (b'{"type":"end","ending":"completed","counts":{"passed":"3"}}', "expected an integer"),
    (b'{"type":"end","ending":"completed","counts":[3]}', "counts: expected an object"),
    (b'{"type":"shard","tested_parents":"abc"}', "expected a list"),
    (b'{"type":"shard","runner":3}', "runner: expected an object"),
    (b'{"type":"shard","runner":{"cpus":"4"}}', "runner: cpus: expected an integer"),
    (b'{"type":"shard","schema":2}', "schema 2 is newer than 1"),
]


@pytest.mark.parametrize(("text", "output"), INVALID_LINES)
def test_invalid_line_error_names_the_mistake(text: bytes, output: str) -> None:
    with pytest.raises(LineError, match=output):
        decode(text)


NUMBERS = [
    "NaN", "Infinity", "-Infinity", "1e999", "-1", "-0.001", "1e19", '"1"', "true", "[]", "{}",
    "9" * 5000, "1" + "0" * 400,
]  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:12])
@pytest.mark.parametrize("key", ["wall_s", "peak_delta_bytes"])
def test_impossible_number_is_damage_and_never_a_value(key: str, number: str) -> None:
    text = f'{{"type":"result","unit":"u","outcome":"passed","{key}":{number}}}'
    (record,) = read_records([("r.jsonl", encode(LINES[0]) + text.encode() + b"\n")])
    assert not record.results
    assert len(record.damage) == 1
    assert record.damage[0].startswith("r.jsonl:2: ")


def test_integral_float_is_accepted_as_integer() -> None:
    text = b'{"type":"result","unit":"u","outcome":"passed","peak_bytes":7.0}'
    assert decode(text) == Result("u", "passed", peak_bytes=7)
    with pytest.raises(LineError, match="expected an integer"):
        decode(text.replace(b"7.0", b"7.5"))


def test_line_over_the_size_limit_is_rejected() -> None:
    text = encode(Result("u" * MAX_LINE_BYTES, "passed"))
    with pytest.raises(LineError, match="bytes in one line"):
        decode(text)


def test_record_cut_at_any_byte_keeps_all_earlier_lines() -> None:
    ends = [at + 1 for at, byte in enumerate(CONTENT) if byte == ord("\n")]
    for size in range(len(CONTENT) + 1):
        records = read_records([("r.jsonl", CONTENT[:size])])
        # The last line is whole without its line feed, too.
        complete = sum(1 for end in ends if end - 1 <= size)
        found = [line for record in records for line in lines_of(record)]
        assert same(found, list(LINES[:complete])), size
        damage = [text for record in records for text in record.damage]
        clean = size in ends or size + 1 in ends
        assert damage == (
            [] if clean else ["r.jsonl: empty"] if size == 0 else [f"r.jsonl:{complete + 1}: cut"]
        ), size


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
def test_flipped_byte_loses_only_the_lines_it_touches(place: int, flip: int) -> None:
    damaged = bytearray(CONTENT)
    damaged[place] ^= flip
    records = read_records([("r.jsonl", bytes(damaged))])
    number = CONTENT[:place].count(b"\n")
    # A line feed that is gone takes two lines with it; a header that is gone, the identity only.
    touched = {number, number + 1} if CONTENT[place] == ord("\n") else {number}
    stored = [line for at, line in enumerate(LINES) if at not in touched]
    found = [repr(line) for record in records for line in lines_of(record)]
    assert all(repr(line) in found for line in stored)


@given(st.dictionaries(st.text("ab/.", min_size=1, max_size=6), st.binary(max_size=200)))
def test_any_bytes_are_read_without_an_exception(files: dict[str, bytes]) -> None:
    read_records(files.items())


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_KEYS = sorted(
    {"type", "try"} | {field.name for kind in map(type, LINES) for field in fields(kind)}
)
_WORDS = st.sampled_from(
    ["shard", "defaults", "process", "start", "result", "sample", "metric", "event", "end"]
)


@given(st.dictionaries(st.sampled_from(_KEYS), _JSON, max_size=8), _WORDS)
def test_any_value_under_any_key_is_read_without_an_exception(
    content: dict[str, Any], word: str
) -> None:
    text = json.dumps({**content, "type": word}).encode()
    for record in read_records([("r.jsonl", text + b"\n" + encode(LINES[3]))]):
        for result in record.results:
            assert result.wall_s is None or (math.isfinite(result.wall_s) and result.wall_s >= 0)


def test_damage_entries_of_a_garbage_file_are_limited() -> None:
    (record,) = read_records([("r.jsonl", encode(LINES[0]) + b"?\n" * 1000)])
    assert len(record.damage) == MAX_DAMAGE + 1
    assert record.damage[-1] == f"r.jsonl: {1000 - MAX_DAMAGE} more lines that cannot be read"


def test_newer_schema_is_reported_as_damage() -> None:
    (record,) = read_records([("r.jsonl", b'{"type":"shard","schema":2}\n')])
    assert record.header is None
    assert record.damage == ("r.jsonl:1: schema 2 is newer than 1: update ciguard",)


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"", b"\n\n"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n"])
def test_crlf_blank_lines_and_byte_order_mark_are_accepted(start: bytes, end: bytes) -> None:
    content = start + CONTENT.replace(b"\n", end)
    (record,) = read_records([("r.jsonl", content)])
    assert same(lines_of(record), list(LINES))
    assert not record.damage


GOOD_METRIC = b'{"type":"metric","name":"hits","key":{"value":"7"},"value":%s }\n'


@pytest.mark.parametrize(
    "value",
    [
        *("NaN", "nan", "-nan", "Infinity", "-inf", "true", '"12 MiB"', "null", "[1]", "1e19"),
        '"a\\"b"',
    ],
)
def test_metric_that_is_no_number_is_named(value: str) -> None:
    line = GOOD_METRIC % value.encode()
    with pytest.raises(LineError):
        decode(line.rstrip())
    found = refused_metric(line)
    assert found is not None
    assert found.startswith("hits = ")
    if not value.endswith("19"):
        assert found == f"hits = {value}"


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"event","kind":"metric","value":"x"}\n',
        b'{"type":"metric","name":"cut","value":NaN',
        b'{"type":"metric","name":"cut","value":1',
        b'not "metric" at all\n',
        b"",
    ],
)
def test_other_lines_are_no_metrics(line: bytes) -> None:
    assert refused_metric(line) is None
