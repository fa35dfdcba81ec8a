"""The fast reader says what the exact one says, whatever the bytes."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.codec.record.fast_reader import FAST_READER_FROM_BYTES, Read, _decoder, reader
from ciguard.codec.record.lines import (
    LINE_SCHEMAS,
    MAX_INTEGER,
    MAX_LINE_BYTES,
    LineError,
    encode,
)
from ciguard.codec.record.reader import read_records
from ciguard.model import (
    ENDINGS,
    MEASURED_BY,
    OUTCOMES,
    DefaultsLine,
    EventLine,
    Line,
    MetricLine,
    PeakLine,
    Result,
    SampleLine,
    StartLine,
)

NOTHING = DefaultsLine()
KINDS = {
    "result": Result,
    "start": StartLine,
    "sample": SampleLine,
    "peak": PeakLine,
    "event": EventLine,
    "metric": MetricLine,
}
KEYS = sorted(
    {"type", "unknown"}
    | {one.json_name for kind in KINDS.values() for one in LINE_SCHEMAS[kind].fields}
)

numbers = (
    st.integers(-3, 3)
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | st.sampled_from([MAX_INTEGER, -MAX_INTEGER, MAX_INTEGER + 1, float(MAX_INTEGER), 2.0, -0.0])
)
words = st.sampled_from([*OUTCOMES, *ENDINGS, *MEASURED_BY, "", "result", "start", "unit", "event"])
values = st.recursive(
    st.none() | st.booleans() | numbers | words | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)
VALUES = {
    "str": st.text(max_size=3),
    "EventKind": st.text(max_size=3),
    "int": st.integers(0, 1 << 40),
    "float": st.floats(0, 1e9) | st.integers(0, 9),
    "bool": st.booleans(),
    "Outcome": st.sampled_from(OUTCOMES),
    "Ending": st.sampled_from(ENDINGS),
    "MeasuredBy": st.sampled_from(MEASURED_BY),
    "Mapping[str, str]": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    "Mapping[str, int]": st.dictionaries(st.text(max_size=3), st.integers(-3, 3), max_size=2),
    "Mapping[str, float]": st.dictionaries(st.text(max_size=3), st.floats(-9, 9), max_size=2),
}


def lines_of(word: str) -> st.SearchStrategy[dict[str, Any]]:
    """Lines of a kind as a leg writes them, any field that need not be there present or not."""
    required: dict[str, st.SearchStrategy[Any]] = {"type": st.just(word)}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field, how in zip(fields(KINDS[word]), LINE_SCHEMAS[KINDS[word]].fields, strict=True):
        value = VALUES[str(field.type).removesuffix(" | None")]
        is_required = field.default is MISSING and field.default_factory is MISSING
        (required if is_required else optional)[how.json_name] = value
    return st.fixed_dictionaries(required, optional=optional)


right = st.sampled_from(sorted(KINDS)).flatmap(lines_of)
first_lines = st.builds(
    DefaultsLine,
    suite=st.sampled_from(["", "unit"]),
    variant=st.sampled_from(["", "gpu"]),
    process=st.none() | st.integers(0, 3),
)


def read_or_error(read: Read, text: bytes) -> tuple[str, str]:
    try:
        return "value", repr(read(text))  # 1 is not 1.0, 0.0 not -0.0
    except LineError as error:
        return "error", str(error)


def alike(text: bytes, defaults: DefaultsLine = NOTHING) -> tuple[str, str]:
    fast = read_or_error(reader(defaults, is_large=True), text)
    assert fast == read_or_error(reader(defaults, is_large=False), text)
    return fast


@given(
    right, st.dictionaries(st.sampled_from(KEYS), values, max_size=2), first_lines, st.booleans()
)
def test_both_readers_agree_on_any_line(
    line: dict[str, Any], invalid: dict[str, Any], defaults: DefaultsLine, ascii_only: bool
) -> None:
    text = json.dumps({**line, **invalid}, ensure_ascii=ascii_only)
    alike(text.encode("utf-8", "surrogatepass"), defaults)


@pytest.mark.parametrize(
    "line",
    [
        Result("a", "passed", case="a[é]", at_s=1.0, wall_s=0.5, retained_bytes=-4096, process=1),
        Result("a", "failed", ending="timeout", measured_by="mark", message="x\ny", try_number=2),
        StartLine("a", at_s=1.5, process=1, assumed=True, file="a.py", line=3),
        SampleLine(1.0, 1 << 30, process_bytes={"1": 1 << 20}, gpu_bytes={"0": 1}),
        PeakLine("a", case="b", peak_lower_bytes=1, peak_upper_bytes=2),
        EventLine("recycled", 7.0, process=1, detail="x", lines_read={"1": 3}),
        MetricLine("rows", 3.5, "count", {"ordinal": "1"}, 720),
    ],
)
def test_fast_reader_reads_every_line_that_a_leg_writes(line: Line) -> None:
    assert repr(_decoder("", "", None)(encode(line)).to_line()) == repr(
        replace(line, case=line.case or line.unit) if isinstance(line, Result) else line
    )


@given(
    st.binary(max_size=40)
    | st.text('{}[]":,-+.eE019 \\u"tnd\ud800\x00\n', max_size=20).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    )
)
def test_both_readers_reject_the_same_bytes(text: bytes) -> None:
    alike(text)
    alike(b'{"type":"start","unit":"a","at_s":' + text + b"}")


ODD = [
    b'{"a":1,"a":2}',
    b'"\\ud800"',
    b'"\xed\xa0\x80"',
    b'"\xff"',
    b"NaN",
    b"-Infinity",
    b"1e400",
    b"-0",
    b"-0.0",
    b"1.0",
    b"true",
    b"1" * 400,
    b"1" * 5000,
    b"[" * 150 + b"]" * 150,
    b"\xef\xbb\xbf{}",
    b"{}{}",
    b'"\x01"',
    b"01",
    b'1,"at_s":2',
    b'1,"type":"event"',
    b'1,"outcome":null,"outcome":"passed"',
    b"1}",
]


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("key", ["at_s", "process", "unit", "line", "outcome", "seen", "unknown"])
def test_both_readers_agree_on_unusual_values(text: bytes, key: str) -> None:
    alike(text)
    for begin_of_line in (
        '"type":"result","unit":"a","outcome":"passed"',
        '"type":"start","unit":"a"',
        '"type":"event","kind":"recycled"',
    ):
        begin = f'{{{begin_of_line},"{key}":'.encode()
        alike(begin + text + b"}")
        alike(begin + text + b"}", DefaultsLine(suite="unit", process=1))


def test_defaults_line_fills_missing_fields_and_sets_the_process() -> None:
    defaults = DefaultsLine(suite="unit", variant="gpu", process=2)
    own = '"suite":"other","variant":"","process":7,"case":""'
    for line, suite in (("", "unit"), (f",{own}", "other")):
        kind, value = alike(
            f'{{"type":"result","unit":"a","outcome":"passed"{line}}}'.encode(), defaults
        )
        place = {"suite": suite, "variant": "gpu", "case": "a", "process": 2}
        assert (kind, value) == ("value", repr(Result("a", "passed", **place)))  # type: ignore[arg-type]


def test_both_readers_reject_a_line_over_the_size_limit() -> None:
    line = b'{"type":"start","unit":"%s"}'
    assert alike(line % (b"a" * (MAX_LINE_BYTES - len(line) + 2)))[0] == "value"
    assert alike(line % (b"a" * (MAX_LINE_BYTES - len(line) + 3)))[0] == "error"


def test_large_and_small_files_give_the_same_record() -> None:
    odd = [b"{", b'{"type":"result","unit":"a","outcome":"passed","wall_s":NaN}', b"  ", b"[1]"]
    lines = [encode(Result(f"test_\ud800{n}", "passed", wall_s=n / 7)) for n in range(50)]
    content = b"\r\n".join([*odd, b"".join(lines)])
    (little,) = read_records([("a.jsonl", content)])
    (much,) = read_records([("a.jsonl", content + b" " * FAST_READER_FROM_BYTES)])
    assert len(much.results) == 50
    assert (much.results, much.damage) == (little.results, little.damage)
    assert [place.partition(" ")[0] for place in much.damage] == [
        "a.jsonl:1:",
        "a.jsonl:2:",
        "a.jsonl:4:",
    ]


@pytest.mark.parametrize(
    ("message", "ending"),
    [
        (
            "test_a.py:3: RuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying",
            "out_of_memory",
        ),
        ("RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB", "out_of_memory"),
        ("odd (name).py:12: OSError: [Errno 12] Cannot allocate memory", "out_of_memory"),
        ("Timeout of 2000ms exceeded. For async tests", "timeout"),
        ("test_a.py:3: AssertionError: assert 'Out of memory' in text", "completed"),
        ("requests.exceptions.ReadTimeout: HTTPSConnectionPool", "completed"),
    ],
)
@pytest.mark.parametrize("outcome", ["failed", "errored", "passed"])
def test_words_of_a_failure_say_how_it_ended(message: str, ending: str, outcome: str) -> None:
    """As those of a JUnit file of the same test do, whichever reader comes upon them."""
    line = {"type": "result", "unit": "a", "outcome": outcome, "message": message}
    expected = "completed" if outcome == "passed" else ending
    assert f"ending='{expected}'" in alike(json.dumps(line).encode())[1]
    stopped = {**line, "ending": "deadline"}
    assert "ending='deadline'" in alike(json.dumps(stopped).encode())[1]
