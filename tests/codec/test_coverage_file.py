"""`coverage.json` of a job that ran foreign code: read, or refused with one clear error."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ciguard.codec.coverage_file import MAX_BYTES, Coverage, Share, decode
from ciguard.errors import InputError

LINES = {"format": "go", "unit": "line"}
TOTAL = {"covered": 1, "total": 2, "percent": 50}
REFUSED: list[tuple[Any, str]] = [
    ([], "Input should be an object"),
    ({"unit": "line"}, "format: Field required"),
    ({**LINES, "schema": 2}, "schema: Input should be 1"),
    ({**LINES, "total": {**TOTAL, "covered": -1}}, "total.covered: Input should be greater"),
    ({**LINES, "total": {**TOTAL, "total": 10**400}}, "total.total: Input should be less"),
    ({**LINES, "total": {**TOTAL, "percent": float("nan")}}, "total.percent: Input"),
    ({**LINES, "total": {**TOTAL, "percent": 101}}, "total.percent: Input should be less"),
    ({**LINES, "files": {"a\n": [1]}}, "files.a\n.1: Field required"),
    ({**LINES, "uncovered": {"a": ["x" * 900]}}, "uncovered.a.0: Input should be a valid integer"),
    ({**LINES, "format": "x" * MAX_BYTES}, f"bytes, at most {MAX_BYTES:,}"),
]


@pytest.mark.parametrize(("content", "error"), REFUSED)
def test_other_content_is_refused_and_unknown_keys_are_skipped(content: Any, error: str) -> None:
    with pytest.raises(InputError, match=re.escape(error)) as raised:
        decode(json.dumps(content).encode(), "c.json")
    assert len(str(raised.value)) < 600
    known = json.dumps({**LINES, "total": TOTAL, "new": 1}).encode()
    assert decode(known, "c.json") == Coverage("go", "line", total=Share(1, 2, 50.0))
