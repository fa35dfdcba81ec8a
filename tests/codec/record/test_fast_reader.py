"""The fast reader says what the exact one says, whatever the bytes."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.codec.record.fast_reader import FAST_READER_FROM_BYTES, Read, reader
from ciguard.codec.record.lines import MAX_INTEGER, MAX_LINE_BYTES, LineError, encode
from ciguard.codec.record.reader import read_records
from ciguard.model import ENDINGS, MEASURED_BY, OUTCOMES, DefaultsLine, Result

NOTHING = DefaultsLine()
KEYS = ["type", "try", "unknown", *(field.name for field in fields(Result))]

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
right = st.fixed_dictionaries(
    {"type": st.sampled_from(["result", "start"]), "unit": st.text(min_size=1)},
    optional={
        "suite": st.sampled_from(["", "unit"]),
        "variant": st.sampled_from(["", "gpu"]),
        "case": st.text(max_size=3),
        "outcome": st.sampled_from(OUTCOMES),
        "ending": st.sampled_from(ENDINGS),
        "measured_by": st.sampled_from(MEASURED_BY),
        "process": st.integers(0, 3),
        "wall_s": st.floats(0, 1e9) | st.integers(0, 9),
        "retained_bytes": st.integers(-(1 << 40), 1 << 40),
        "assumed": st.booleans(),
    },
)
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


@settings(max_examples=400)
@given(
    right, st.dictionaries(st.sampled_from(KEYS), values, max_size=2), first_lines, st.booleans()
)
def test_any_line_is_read_alike(
    line: dict[str, Any], invalid: dict[str, Any], defaults: DefaultsLine, ascii_only: bool
) -> None:
    text = json.dumps({"outcome": "passed", **line, **invalid}, ensure_ascii=ascii_only)
    alike(text.encode("utf-8", "surrogatepass"), defaults)


@given(
    st.binary(max_size=40)
    | st.text('{}[]":,-+.eE019 \\u"tnd\ud800\x00\n', max_size=20).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    )
)
def test_any_bytes_are_refused_alike(text: bytes) -> None:
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
@pytest.mark.parametrize("key", ["at_s", "process", "unit", "line", "outcome", "unknown"])
def test_odd_lines_are_read_alike(text: bytes, key: str) -> None:
    alike(text)
    for kind in ("result", "start"):
        begin = f'{{"type":"{kind}","unit":"a","outcome":"passed","{key}":'.encode()
        alike(begin + text + b"}")
        alike(begin + text + b"}", DefaultsLine(suite="unit", process=1))


def test_what_the_first_line_says_is_filled_in_and_its_process_wins() -> None:
    defaults = DefaultsLine(suite="unit", variant="gpu", process=2)
    own = '"suite":"other","variant":"","process":7,"case":""'
    for line, suite in (("", "unit"), (f",{own}", "other")):
        kind, value = alike(
            f'{{"type":"result","unit":"a","outcome":"passed"{line}}}'.encode(), defaults
        )
        place = {"suite": suite, "variant": "gpu", "case": "a", "process": 2}
        assert (kind, value) == ("value", repr(Result("a", "passed", **place)))  # type: ignore[arg-type]


def test_a_line_that_is_too_long_is_refused_alike() -> None:
    line = b'{"type":"start","unit":"%s"}'
    assert alike(line % (b"a" * (MAX_LINE_BYTES - len(line) + 2)))[0] == "value"
    assert alike(line % (b"a" * (MAX_LINE_BYTES - len(line) + 3)))[0] == "error"


def test_much_is_read_as_little_is() -> None:
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
