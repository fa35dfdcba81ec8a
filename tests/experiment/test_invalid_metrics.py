"""Metrics that are no numbers are absent, and named with their line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.experiment.invalid_metrics import InvalidMetric, split_invalid_metrics

GOOD = b'{"type":"metric","name":"hits","value":1.5}\n'


def line(text: str, **key: str) -> bytes:
    return f'{{"type":"metric","name":"hits","key":{json.dumps(key)},"value":{text} }}\n'.encode()


@pytest.mark.parametrize(
    "value",
    [
        *("NaN", "nan", "-nan", "Infinity", "-inf", "1e999", "null", "true", '"12 MiB"', '"a\\"b"'),
        *("[1]", "4611686018427387905e3"),
    ],
)
def test_value_that_is_no_number_is_absent(value: str) -> None:
    content, found = split_invalid_metrics("p.jsonl", GOOD + line(value) + GOOD)
    assert content == GOOD + b"\n" + GOOD
    assert found == (InvalidMetric("p.jsonl", 2, "hits", value),)


@pytest.mark.parametrize(
    "good",
    [
        *(line("0"), line("-1.5e3"), line("7", value="nan"), line("1", note='"value":NaN')),
        b'{"type":"event","kind":"metric","value":"x"}\n',
        b'{"type":"metric","name":"hits"}\n',
        b'{"type":"metric","name":"cut","value":NaN',
        b'not "metric" at all\n',
    ],
)
def test_other_lines_stay_as_they_are(good: bytes) -> None:
    assert split_invalid_metrics("p.jsonl", good) == (good, ())


def test_key_named_value_is_not_the_value() -> None:
    _, found = split_invalid_metrics("p.jsonl", line("nan", value="7"))
    assert [one.value_text for one in found] == ["nan"]


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_keep_their_number_of_lines(content: bytes) -> None:
    content = b'{"type":"metric","value":' + content
    assert split_invalid_metrics("x", content)[0].count(b"\n") >= content.count(b"\n")
