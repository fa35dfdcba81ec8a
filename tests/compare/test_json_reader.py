"""A comparison that was written can be read again, whatever it holds; anything else is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from compare.compare_factories import case, run_of
from compare.samples import confirmed, hurt, same

from ciguard.compare.compare_runs import compare_run
from ciguard.compare.comparison import with_state
from ciguard.compare.json import as_json, read_comparison
from ciguard.errors import InputError

if TYPE_CHECKING:
    from ciguard.compare.comparison import Comparison


def written(comparison: Comparison) -> bytes:
    return json.dumps(as_json(comparison)).encode()


def from_nothing() -> Comparison:
    """A test that needed no memory at all before: the change has no ratio."""
    past = [run_of({"01": [case("a", mib=0)]}, f"run {n}", run_id=n) for n in range(1, 13)]
    return compare_run(run_of({"01": [case("a", mib=50)]}, "head", run_id=20), None, past)


@pytest.mark.parametrize("make", [hurt, same, confirmed, from_nothing])
def test_comparison_survives_write_and_read(make: object) -> None:
    assert callable(make)
    comparison = make()
    assert read_comparison(written(comparison), "x") == comparison
    assert with_state(comparison) == comparison, (
        "nothing of its sentence is known to the making alone"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "no comparison: "),
        (b"[]", "no comparison"),
        (b"{}", "no comparison"),
        (b'{"schema":99}', "schema 99 is newer than 2"),
        (b'{"schema":1}', "state: "),
    ],
)
def test_invalid_comparison_is_rejected(content: bytes, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        read_comparison(content, "x.json")
