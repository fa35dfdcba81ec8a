"""The fast parser says what the standard library's says, whatever the bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.codec.gathering import read_records
from ciguard.codec.jsonlines import MUCH_BYTES, Parse, parser
from ciguard.codec.record import LineError, encode, parsed
from ciguard.model import Result

FAST = parser(MUCH_BYTES)

numbers = st.integers(-(1 << 70), 1 << 70) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def said(parse: Parse, text: bytes) -> tuple[str, Any]:
    try:
        return "value", repr(parse(text))
    except LineError as error:
        return "error", str(error)


@given(values, st.booleans())
def test_any_json_is_read_alike(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert FAST(text) == parsed(text) == value
    assert said(FAST, text) == said(parsed, text)  # 1 is not 1.0, 0.0 not -0.0


@given(
    st.binary(max_size=40)
    | st.text('{}[]":,-+.eE019 \\u"tnd\ud800\x00\n', max_size=20).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    )
)
def test_any_bytes_are_refused_alike(text: bytes) -> None:
    assert said(FAST, text) == said(parsed, text)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}',
        b'"\\ud800"',
        b'"\xed\xa0\x80"',
        b'"\xff"',
        b'{"a":NaN}',
        b"-Infinity",
        b"1e400",
        b"-0",
        b"1" * 400,
        b"1" * 5000,
        b"[" * 150 + b"]" * 150,
        b"\xef\xbb\xbf{}",
        b"{}{}",
        b'"\x01"',
        b"01",
    ],
)
def test_odd_lines_are_read_alike(text: bytes) -> None:
    assert said(FAST, text) == said(parsed, text)


def test_much_is_read_as_little_is() -> None:
    odd = [b"{", b'{"type":"result","unit":"a","outcome":"passed","wall_s":NaN}', b"  ", b"[1]"]
    lines = [encode(Result(f"test_\ud800{n}", "passed", wall_s=n / 7)) for n in range(50)]
    content = b"\r\n".join([*odd, b"".join(lines)])
    (little,) = read_records([("a.jsonl", content)])
    (much,) = read_records([("a.jsonl", content + b" " * MUCH_BYTES)])
    assert len(much.results) == 50
    assert (much.results, much.damage) == (little.results, little.damage)
    assert [place.partition(" ")[0] for place in much.damage] == [
        "a.jsonl:1:",
        "a.jsonl:2:",
        "a.jsonl:4:",
    ]
