"""Every sample of every format of results, with what comes of it."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from conftest import Golden

from ciguard.codec.results.formats import FORMATS, format_of
from ciguard.codec.unpack_limits import gunzip
from ciguard.errors import InputError
from ciguard.model import Result

SAMPLES = Path(__file__).parents[2] / "samples"
BOM = b"\xef\xbb\xbf"
ALL_FORMATS = ", ".join(f"{name} ({format_.NAME})" for name, format_ in FORMATS.items())
INPUTS = [path for name in FORMATS for path in sorted((SAMPLES / name).glob("*/input.*"))]


COMPLETE = {
    path.parts[-3]: path
    for path in reversed(INPUTS)
    if '"error"' not in (path.parent / "expected.json").read_text("utf-8")
}


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
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    golden(text, path.parent / "expected.json", scrub={re.escape(ALL_FORMATS): "FORMATS"})


def test_each_format_has_samples() -> None:
    assert {path.parts[-3] for path in INPUTS} == set(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "encode",
    [bytes, gzip.compress, lambda content: BOM + content.removeprefix(BOM)],
    ids=["as it is", "gzip", "byte order mark"],
)
def test_format_is_recognised_by_content(name: str, encode: Callable[[bytes], bytes]) -> None:
    stream = gunzip(io.BytesIO(encode(COMPLETE[name].read_bytes())))
    reader = format_of(stream, "x.other")
    assert reader is FORMATS[name]
    assert list(reader.read(stream, "x.other"))


# The last line of `go test -json` may be of another package: its own test cuts it.
@pytest.mark.parametrize("name", [name for name in FORMATS if name != "go-json"])
def test_file_cut_anywhere_is_an_error_and_no_test_passes_for_it(name: str) -> None:
    content = COMPLETE[name].read_bytes().rstrip()
    complete = Counter(one.outcome for one in FORMATS[name].read(io.BytesIO(content), "r"))
    for end in range(1, len(content), 97):
        found: list[Result] = []
        with pytest.raises(InputError) as caught:
            found.extend(FORMATS[name].read(io.BytesIO(content[:end]), "r"))
        assert caught.value.where.startswith("r:")
        assert sum(one.outcome == "passed" for one in found) <= complete["passed"]
