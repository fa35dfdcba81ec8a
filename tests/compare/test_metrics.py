"""Metrics of two runs: what is compared with what, and in which words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from compare.compare_factories import case, leg_lines
from compare.samples import HOSTILE

from ciguard.codec.record.lines import encode
from ciguard.codec.record.reader import read_records
from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.metric_changes import metric_text, metric_title, metrics_text
from ciguard.compare.run_columns import runs_from_records
from ciguard.model import MetricLine

if TYPE_CHECKING:
    from ciguard.compare.comparison import Comparison

MIB = 1024 * 1024


def metric(name: str, value: float, unit: str = "", **key: str) -> MetricLine:
    return MetricLine(name, value, unit, key)


def compared(before: list[MetricLine], after: list[MetricLine]) -> Comparison:
    def run(number: int, lines: list[MetricLine]) -> Any:
        *own, end = leg_lines("01", [case("a")], run_id=number)
        reported = b"".join(map(encode, [*own, *lines, end]))
        return runs_from_records(read_records([("r/supervisor.jsonl", reported)]), f"run {number}")[
            0
        ]

    return compare_run(run(2, after), None, [run(1, before)])


def rows(found: Comparison) -> list[tuple[str, float, float]]:
    return [(metric_title(one), one.before, one.after) for one in found.metrics.changes]


def test_metrics_are_grouped_by_name_unit_and_conditions() -> None:
    before = [
        metric("heap", 100 * MIB, "bytes", ordinal="0"),
        metric("heap", 200 * MIB, "bytes", ordinal="1"),
        metric("steps", 4, "s", n="4"),
        metric("loss", 0.5),
    ]
    after = [
        metric("heap", 150 * MIB, "bytes", ordinal="1"),
        metric("heap", 100 * MIB, "bytes", ordinal="0"),
        metric("steps", 9, "s", n="10"),
        metric("loss", 0.5, "nat"),
    ]
    found = compared(before, after)
    assert rows(found) == [
        ("heap (ordinal=1)", 200 * MIB, 150 * MIB),
        ("heap (ordinal=0)", 100 * MIB, 100 * MIB),
    ]
    assert (found.metrics.only_before, found.metrics.only_after) == (2, 2)
    assert metric_text(found.metrics.changes[0]) == "200 MiB -> 150 MiB"
    assert metrics_text(found.metrics) == (
        "2 metrics in both runs, 0 larger and 1 smaller by 5 % or more; 2 only before, 2 "
        "only now; no verdict, as their variation is unknown"
    )


def test_median_represents_several_values_of_a_run() -> None:
    before = [metric("step", value, "s") for value in (1.0, 9.0, 1.1)]
    after = [metric("step", value, "s") for value in (1.21, 1.0, 9.9)]
    (one,) = compared(before, after).metrics.changes
    assert (one.before, one.n_before, one.n_after) == (1.1, 3, 3)
    assert metric_text(one) == "1.10 s -> 1.21 s (medians of 3 and 3 values)"


def test_of_a_different_number_of_values_only_the_counts_are_shown() -> None:
    before = [metric("size", value, "bytes", n="1") for value in (10, 100, 1000)]
    after = [metric("size", value, "bytes", n="1") for value in (10, 1000)]
    found = compared(before, after)
    assert found.metrics.changes == ()
    (one,) = found.metrics.counts
    assert (metric_title(one), metric_text(one)) == ("size (n=1)", "3 -> 2 values")
    assert "1 with another number of values" in metrics_text(found.metrics)
    assert "size (n=1)" in FORMATS["markdown"](found)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (0.0, 5.0, "0 -> 5"),
        (-2.0, 3.0, "-2 -> 3"),
        (3.0, 4.0, "3 -> 4"),
        (0.0, 0.0, "0 -> 0"),
    ],
)
def test_metric_change_from_zero_has_no_ratio(before: float, after: float, words: str) -> None:
    found = compared([metric("m", before)], [metric("m", after)])
    assert [metric_text(one) for one in found.metrics.changes] == [words]


def test_metrics_text_is_empty_without_metrics_of_the_base() -> None:
    assert metrics_text(compared([], [metric("m", 1)]).metrics) == ""
    assert metrics_text(compared([metric("m", 1)], []).metrics) == (
        "no metric has as many values in both runs; 1 only before, 0 only now"
    )


def test_every_format_shows_metrics_and_escapes_names() -> None:
    key = {"a|b": "<script>@everyone"}
    found = compared([metric(HOSTILE, 1, **key)], [metric(HOSTILE, 2, **key)])
    for name, render in FORMATS.items():
        text = render(found)
        assert "1 metric" in text or name == "json"
        if name in {"markdown", "html"}:
            assert "<script>@" not in text
            assert "<b>" not in text
        if name == "text":
            assert "\u202e" not in text
