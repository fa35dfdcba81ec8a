from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest
from conftest import Golden

from ciguard.codec.results import durations
from ciguard.codec.unpack_limits import gunzip
from ciguard.errors import InputError

SAMPLES = Path(__file__).parents[2] / "samples" / "durations"


def read(content: bytes) -> tuple[durations.Duration, ...]:
    return durations.read(gunzip(io.BytesIO(content)), "d.json")


@pytest.mark.parametrize("case", sorted(SAMPLES.iterdir()), ids=lambda case: case.name)
def test_samples(case: Path, golden: Golden) -> None:
    content = (case / "input.json").read_bytes()
    assert durations.sniff(content)
    found = [[item.unit, item.wall_s, item.is_file_total] for item in read(gzip.compress(content))]
    golden("".join(json.dumps(line) + "\n" for line in found), case / "expected.json")


@pytest.mark.parametrize(
    "value", ["-0.5", "1e10", "1e999", "true", '"1"', "null", "[]", "NaN", "-Infinity"]
)
def test_impossible_duration_is_an_error_that_names_the_test(value: str) -> None:
    with pytest.raises(InputError) as caught:
        read(f'{{"a.py::ok": 1, "a.py::bad": {value}}}'.encode())
    assert caught.value.where == "d.json: a.py::bad"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"7",
        b"[1]",
        b'{"a": {"b": {"c": 1}}}',
        b'{"a": ' * 100_000,
        b'{"a": 1' + b"0" * 5000 + b"}",
        b"\xff{}",
    ],
)
def test_file_of_another_format_is_rejected(content: bytes) -> None:
    with pytest.raises(InputError):
        read(content)


def test_empty_files_give_no_durations() -> None:
    assert read(b"{}") == read(b"[]") == ()
