"""Matrices on both sides of 90 % of what GitHub runs."""

from __future__ import annotations

from typing import Final

import pytest
from audit.workflow_findings import find, lines

RULE: Final = "matrix-near-limit"


def _workflow(matrix: str) -> str:
    return f"on: push\njobs:\n  test:\n    strategy:\n      matrix:\n{matrix}    steps: []\n"


def _axes(*sizes: int) -> str:
    return "".join(f"        a{at}: {list(range(size))}\n" for at, size in enumerate(sizes))


@pytest.mark.parametrize(("sizes", "count"), [((11, 21), 231), ((256,), 256), ((17, 16), 272)])
def test_finds_a_matrix_of_nine_tenths_and_more(sizes: tuple[int, ...], count: int) -> None:
    text = _workflow(_axes(*sizes))
    (found,) = find(RULE, text)
    assert (found.subject, found.certainty) == ("test", "certain")
    assert found.facts == {"combinations": count, "limit": 256}
    assert lines(found, text) == ["matrix:"]


def test_counts_a_product_that_is_too_large_to_go_through() -> None:
    (found,) = find(RULE, _workflow(_axes(100, 100, 100)))
    assert found.facts["combinations"] == 1_000_000


@pytest.mark.parametrize(
    "matrix",
    [
        _axes(230),
        _axes(16, 16) + "        exclude:\n" + "          - {a0: 1}\n          - {a0: 2}\n",
        "        shard: ${{ fromJSON(needs.plan.outputs.shards) }}\n",
        "        a0: []\n",
    ],
)
def test_finds_no_other_matrix(matrix: str) -> None:
    assert find(RULE, _workflow(matrix)) == []


@pytest.mark.parametrize("text", ["on: push", "jobs: [1]", "jobs: {a: 1, b: {strategy: x}}"])
def test_finds_nothing_without_a_matrix(text: str) -> None:
    assert find(RULE, text) == []


def test_doubts_a_count_that_depends_on_an_expression() -> None:
    excluded = "        exclude:\n          - a0: ${{ github.event_name == 'push' && 3 || \"\" }}\n"
    (found,) = find(RULE, _workflow(_axes(16, 15) + excluded))
    assert (found.certainty, found.caveat) == ("possible", "expression_in_matrix")
    assert found.facts["combinations"] == 240
