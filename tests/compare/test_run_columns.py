"""Two runs side by side: where each case of one is in the other."""

from __future__ import annotations

from dataclasses import replace

from compare.compare_factories import column_run
from hypothesis import given
from hypothesis import strategies as st

from ciguard.compare.run_columns import index_in

NUMBERS = st.frozensets(st.integers(0, 12), max_size=12)


@given(NUMBERS, NUMBERS)
def test_index_in_finds_each_shared_case(some: frozenset[int], rest: frozenset[int]) -> None:
    every = column_run([1.0] * 13).keys
    one, other = (
        replace(column_run([1.0] * len(found)), keys=tuple(every[n] for n in sorted(found)))
        for found in (some, rest)
    )
    at = index_in(one, other).tolist()
    assert len(at) == len(one.keys)
    for key, place in zip(one.keys, at, strict=True):
        assert (place == -1) == (key not in other.keys)
        assert place == -1 or other.keys[place] == key
