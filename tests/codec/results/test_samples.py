"""Every sample of every format of results, with what comes of it."""

from __future__ import annotations

import io
import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ciguard.codec.results.base import gunzip
from ciguard.codec.results.formats import FORMATS, format_of
from ciguard.errors import InputError

if TYPE_CHECKING:
    from conftest import Golden

    from ciguard.model import Result

SAMPLES = Path(__file__).parents[2] / "samples"
INPUTS = [path for name in FORMATS for path in sorted((SAMPLES / name).glob("*/input.*"))]


def as_expected_json(result: Result) -> dict[str, Any]:
    values = ((field.name, getattr(result, field.name)) for field in fields(result))
    return {name: value for name, value in values if value is not None and value != ""}


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_samples(path: Path, golden: Golden) -> None:
    found: list[Any] = []
    stream = gunzip(io.BytesIO(path.read_bytes()))
    try:
        for result in format_of(stream, path.name).read(stream, path.name):
            found.append(as_expected_json(result))  # noqa: PERF401  # what came before an error counts
    except InputError as error:
        found.append({"error": str(error)})
    golden(json.dumps(found, indent=1, ensure_ascii=False) + "\n", path.parent / "expected.json")


def test_each_format_has_samples() -> None:
    assert {path.parts[-3] for path in INPUTS} == set(FORMATS)
