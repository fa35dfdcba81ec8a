"""Metrics of two runs: what is compared with what, what is judged, and in which words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from compare.compare_factories import case, leg_lines, run_of
from compare.samples import HOSTILE
from conftest import Ciguard
from history.test_merge import record

from ciguard.codec.record.lines import encode as encode_line
from ciguard.codec.record.reader import read_records
from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import Context, compare_run
from ciguard.compare.comparison import Comparison, exit_code, triggered
from ciguard.compare.json import json_text, read_comparison
from ciguard.compare.metric_changes import MetricChange, metric_text, metric_verdict, metrics_text
from ciguard.compare.run_columns import Run, from_history, runs_from_records
from ciguard.compare.series import series_title
from ciguard.compare.statistics import MIN_RUNS_TO_CONFIRM, metric_effect
from ciguard.history.file import History, encode
from ciguard.history.ingest import history_of
from ciguard.history.merge import merge
from ciguard.logs.pattern_table import Direction
from ciguard.logs.process_logs import LogMetric
from ciguard.logs.values import LogValue, Place
from ciguard.model import FAIL_CONDITIONS, MetricLine, Record, Result

MIB = 1024 * 1024


def metric(name: str, value: float, unit: str = "", **key: str) -> MetricLine:
    return MetricLine(name, value, unit, key)


def compared(before: list[MetricLine], after: list[MetricLine]) -> Comparison:
    def run(number: int, lines: list[MetricLine]) -> Any:
        *own, end = leg_lines("01", [case("a")], run_id=number)
        reported = b"".join(map(encode_line, [*own, *lines, end]))
        records = read_records([("r/supervisor.jsonl", reported)])
        return runs_from_records(records, f"run {number}")[0]

    return compare_run(run(2, after), None, [run(1, before)])


def rows(found: Comparison) -> list[tuple[str, float, float]]:
    return [
        (series_title(one.name, one.key), one.before, one.after) for one in found.metrics.changes
    ]


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
    words = "2 metrics in both runs, 0 larger and 1 smaller by 5 % or more; 2 only in the base, 2 "
    assert metrics_text(found.metrics).startswith(words)


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
    assert (series_title(one.name, one.key), metric_text(one)) == ("size (n=1)", "3 -> 2 values")
    assert "1 with different numbers of values" in metrics_text(found.metrics)
    assert "size (n=1)" in FORMATS["markdown"](found)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [(0.0, 5.0, "0 -> 5"), (-2.0, 3.0, "-2 -> 3"), (3.0, 4.0, "3 -> 4"), (0.0, 0.0, "0 -> 0")],
)
def test_metric_change_from_zero_has_no_ratio(before: float, after: float, words: str) -> None:
    found = compared([metric("m", before)], [metric("m", after)])
    assert [metric_text(one) for one in found.metrics.changes] == [words]


def test_metrics_text_is_empty_without_metrics_of_the_base() -> None:
    assert metrics_text(compared([], [metric("m", 1)]).metrics) == ""
    assert metrics_text(compared([metric("m", 1)], []).metrics) == (
        "no metric has the same number of values in both runs; 1 only in the base, 0 only now"
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


PASSED = Result("a.py::t", "passed", wall_s=1.0, peak_delta_bytes=50 << 20, measured_by="mark")
NOISE = [0.99, 1.0, 1.01, 1.005, 0.995]  # 20 of them: a spread of 0.7 %


def measured(run_id: int, *lines: MetricLine, **more: Any) -> Record:
    more = {"branch": "main", **more}
    return replace(record(run_id, PASSED, **more), metrics=lines)


def recorded(run_id: int, *lines: MetricLine, **more: Any) -> Run:
    return runs_from_records([measured(run_id, *lines, **more)], f"run {run_id}")[-1]


def past(count: int, *names: str, unit: str = "s") -> History:
    """Runs whose metrics are around 1."""
    names = names or ("step",)
    runs = []
    for run in range(1, count + 1):
        noise = [NOISE[(run + at) % 5] for at in range(len(names))]
        lines = map(MetricLine, names, noise, [unit] * len(names))
        runs.append(measured(run, *lines))
    return reduce(merge, (history_of([one], keep=("*",)) for one in runs))


def judge(history: History, *lines: MetricLine, **directions: Direction) -> Comparison:
    return compare_run(recorded(100, *lines), history, context=Context(directions=directions))


def only(found: Comparison) -> MetricChange:
    (one,) = found.metrics.changes
    return one


@pytest.mark.parametrize(
    ("value", "unit", "verdict"),
    [
        (1.5, "s", "worse"),
        (0.5, "s", "better"),
        (1.5, "bytes", "worse"),
        (1.5, "images", "changed"),
        (1.004, "s", "same"),
        (1.011, "s", "same"),  # outside of the past values, but by less than 1 %
    ],
)
def test_metric_is_judged_by_its_past(value: float, unit: str, verdict: str) -> None:
    found = judge(past(20, unit=unit), MetricLine("step", value, unit))
    one = only(found)
    assert (one.verdict, one.runs, one.before) == (verdict, 20, 1.0)
    assert one.low is not None
    assert one.high is not None
    assert one.low < (one.ratio or 0) < one.high


def test_configured_direction_decides_what_is_worse() -> None:
    line = MetricLine("hits", 0.5, "%")
    history = past(20, "hits", unit="%")
    assert only(judge(history, line)).verdict == "changed"
    assert only(judge(history, line, hits=Direction("higher"))).verdict == "worse"
    assert only(judge(history, line, hits=Direction("lower"))).verdict == "better"


def test_too_few_runs_are_no_verdict() -> None:
    found = judge(past(MIN_RUNS_TO_CONFIRM - 1), MetricLine("step", 5.0, "s"))
    assert metric_verdict(only(found)) == "not judged: 9 of 10 runs that metrics need"
    assert triggered(found, FAIL_CONDITIONS) == ()
    assert exit_code(found, {"metric"}, strict=True) == 12
    judged = judge(past(MIN_RUNS_TO_CONFIRM), MetricLine("step", 5.0, "s"))
    assert metric_verdict(only(judged)).startswith("worse (n=10, 95 % CI +")


def test_worse_metric_fails_where_it_is_asked_to() -> None:
    found = judge(past(20), MetricLine("step", 1.5, "s"))
    assert found.state == "worse"
    assert triggered(found, FAIL_CONDITIONS) == ("metric",)
    assert exit_code(found, {"metric"}) == 11
    assert exit_code(found, ()) == 0


def test_better_and_changed_metrics_fail_nothing() -> None:
    better = judge(past(20), MetricLine("step", 0.5, "s"))
    changed = judge(past(20, unit=""), MetricLine("step", 0.5))
    both = judge(
        past(20, "step", "other"), MetricLine("step", 0.5, "s"), MetricLine("other", 2.0, "s")
    )
    assert [one.state for one in (better, changed, both)] == ["better", "inconclusive", "mixed"]
    assert triggered(better, FAIL_CONDITIONS) == triggered(changed, FAIL_CONDITIONS) == ()


def test_many_metrics_ask_for_a_larger_change() -> None:
    value = MetricLine("m0", 1.025, "s")
    assert only(judge(past(20, "m0"), value)).verdict == "worse"
    names = [f"m{n}" for n in range(50)]
    others = [MetricLine(name, 1.0, "s") for name in names[1:]]
    found = judge(past(20, *names), value, *others)
    assert {one.verdict for one in found.metrics.changes} == {"same"}


def test_runs_with_another_number_of_values_are_no_past() -> None:
    history = past(20)
    found = judge(history, *[MetricLine("step", 1.5, "s")] * 2)
    assert found.metrics.changes == ()
    (count,) = found.metrics.counts
    assert (count.n_before, count.n_after) == (1, 2)
    twice = [measured(run, *[MetricLine("step", 1.0, "s")] * 2) for run in range(21, 25)]
    longer = reduce(merge, [history, *(history_of([one], keep=("*",)) for one in twice)])
    one = only(judge(longer, *[MetricLine("step", 1.5, "s")] * 2))
    assert metric_verdict(one) == "not judged: 4 of 10 runs that metrics need"


def test_mode_that_was_seen_before_is_no_change() -> None:
    two = [measured(run, MetricLine("step", 1.2 if run == 7 else 1.0)) for run in range(1, 21)]
    history = reduce(merge, (history_of([one], keep=("*",)) for one in two))
    assert only(judge(history, MetricLine("step", 1.2))).verdict == "same"
    assert only(judge(history, MetricLine("step", 1.5))).verdict == "changed"


def test_constant_metric_and_one_of_zeros_are_judged() -> None:
    def constant(value: float) -> History:
        runs = (measured(run, MetricLine("step", value)) for run in range(1, 21))
        return reduce(merge, (history_of([one], keep=("*",)) for one in runs))

    assert only(judge(constant(4.0), MetricLine("step", 5.0))).verdict == "changed"
    assert only(judge(constant(1000.0), MetricLine("step", 1001.0))).verdict == "same"
    assert only(judge(constant(-4.0), MetricLine("step", -5.0))).verdict == "changed"
    nothing = judge(constant(0.0), MetricLine("step", 3.0))
    assert (only(nothing).verdict, only(nothing).low) == ("changed", None)
    assert only(judge(constant(0.0), MetricLine("step", 0.0))).verdict == "same"


def test_kept_metric_that_is_missing_is_counted() -> None:
    found = judge(past(20))
    assert found.metrics.only_before == 1
    assert "1 only in the base" in metrics_text(found.metrics)


def test_run_of_the_history_is_the_base_with_its_own_value() -> None:
    history = past(3)
    candidate = recorded(100, MetricLine("step", 1.5, "s"))
    one = only(compare_run(candidate, history, [from_history(history, 1)]))
    assert (one.before, metric_verdict(one)) == (
        NOISE[2],
        "not judged: 3 of 10 runs that metrics need",
    )


EXACT = {"m": Direction("lower", exact=True), "n": Direction(exact=True)}


@pytest.mark.parametrize(
    ("name", "before", "after", "verdict"),
    [
        ("m", [5.0], [5.0], "same"),
        ("m", [5.0], [5.0000001], "worse"),
        ("m", [5.0], [4.0], "better"),
        ("n", [5.0], [4.0], "changed"),
        ("m", [10.0, 100.0, 1000.0], [100.0, 10.0, 1000.0], "same"),
        ("m", [10.0, 100.0, 1000.0], [11.0, 100.0, 1000.0], "worse"),
        ("m", [1e9, 2e9, 3e9], [1.5e9, 1.9e9, 4e9], "mixed"),
        ("n", [1e9, 2e9, 3e9], [1.5e9, 1.9e9, 4e9], "changed"),
    ],
)
def test_exact_metric_differs_or_does_not(
    name: str, before: list[float], after: list[float], verdict: str
) -> None:
    base, head = ([MetricLine(name, value) for value in values] for values in (before, after))
    context = Context(directions=EXACT)
    found = compare_run(recorded(2, *head), None, [recorded(1, *base)], context=context)
    assert only(found).verdict == verdict
    assert metric_verdict(only(found)) == f"{'equal' if verdict == 'same' else verdict} (exact)"


def test_mixed_values_make_a_mixed_run() -> None:
    before, after = (
        recorded(n, *(MetricLine("m", one) for one in values))
        for n, values in ((1, (1.0, 5.0)), (2, (2.0, 4.0)))
    )
    found = compare_run(after, None, [before], context=Context(directions=EXACT))
    assert found.state == "mixed"
    assert "metrics: 1 mixed (1 judged)" in FORMATS["text"](found)


def test_difference_below_the_last_printed_digit_is_none() -> None:
    def run(run_id: int, value: float, resolution: float) -> Any:
        log_value = LogValue("m", value, "B", (), Place(), resolution=resolution)
        return recorded(run_id, LogMetric("m", value, "bytes", log_value=log_value))

    context = Context(directions=EXACT)
    for resolution, verdict in ((1e6, "same"), (1e5, "worse")):
        runs = (run(2, 20.391e9 + 2e5, resolution), [run(1, 20.391e9, resolution)])
        found = compare_run(runs[0], None, runs[1], context=context)
        assert only(found).verdict == verdict


def test_exact_values_that_are_missing_are_no_gain() -> None:
    before = [MetricLine("m", 5.0), MetricLine("p", 5.0), MetricLine("p", 6.0)]
    directions = {**EXACT, "p": Direction("lower", exact=True)}
    base = recorded(1, *before)
    for after, missing in (([], 2), (before[:1], 1), (before[:2], 1), (before, 0)):
        better = MetricLine("k", 1.0)
        base_with = replace(base, metrics={**base.metrics, ("k", "", ()): (2.0,)})
        head = recorded(2, better, *after)
        context = Context(directions={**directions, "k": Direction("lower", exact=True)})
        found = compare_run(head, None, [base_with], context=context)
        assert found.metrics.missing_exact == missing
        assert (found.state == "better") == (not missing)
        text = " ".join(FORMATS["text"](found).split())
        names = "m, p" if missing == 2 else "m" if after[:1] != before[:1] else "p"
        assert (f"exact metric{'s' * (missing - 1)} missing: {names}" in text) == bool(missing)
        assert ("m missing 1 -> 0 values" in text) == (missing == 2)


@pytest.mark.parametrize(("after", "verdict"), [(4.0, "better"), (6.0, "worse"), (5.0, "same")])
def test_exact_metric_is_judged_under_other_conditions(after: float, verdict: str) -> None:
    line = [MetricLine("m", 5.0), MetricLine("step", 1.0, "s")]
    history = history_of([measured(1, *line, conditions={"XLA": "a1"})], keep=("*",))
    head = recorded(100, MetricLine("m", after), line[1], conditions={"XLA": "c3"})
    for bases in ([], [recorded(1, *line, conditions={"XLA": "a1"})]):
        found = compare_run(
            head, history if not bases else None, bases, context=Context(directions=EXACT)
        )
        assert {one.name: one.verdict for one in found.metrics.changes} == {
            "m": verdict, "step": "not judged"
        }  # fmt: skip
        text = " ".join(FORMATS["text"](found).split())
        assert text.split(": ", 1)[1].startswith("conditions differ: XLA: a1 -> c3;")
        assert found.metrics.other_conditions == 1


LINES = Direction("lower", is_occurrence=True)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(3, 7, "worse"), (7, 3, "better"), (3, 3, "equal"), (0, 7, "worse"), (3, 0, "better")],
)
def test_number_of_lines_is_judged(before: int, after: int, verdict: str) -> None:
    runs = [recorded(n, *[MetricLine("m", 1.0)] * lines) for n, lines in ((1, before), (2, after))]
    found = compare_run(runs[1], None, runs[:1], context=Context(directions={"m": LINES}))
    assert metric_verdict(only(found)) == f"{verdict} (exact)"
    assert metric_text(only(found)) == f"{before} -> {after}"


def test_lines_of_a_kernel_that_did_not_run_are_missing() -> None:
    lines = [MetricLine("m", 1.0, "", {"kernel": "ns", "k": "x"})] * 3
    context = Context(directions={"m": replace(LINES, within=("kernel",))})
    for kernel, missing in (("ew", 1), ("ns", 0)):
        head = recorded(2, MetricLine("peak", 1.0, "bytes", {"kernel": kernel}))
        found = compare_run(head, None, [recorded(1, *lines)], context=context).metrics
        assert (found.missing_exact, len(found.changes)) == (missing, 1 - missing)


def test_number_of_lines_is_judged_by_the_noise_of_past_runs() -> None:
    other, line = MetricLine("e", 1.0), MetricLine("m", 1.0)
    runs = (measured(run, other, *[line] * (run % 3)) for run in range(1, 14))
    history = reduce(merge, (history_of([one], keep=("*",)) for one in runs))
    same = "no significant difference (n=13"
    for lines, verdict in ((0, same), (2, same), (20, "worse (n=13")):
        found = judge(history, *[line] * lines, m=LINES)
        assert metric_verdict(only(found)).startswith(verdict)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([("step", 0.5, "s"), ("n", 1.0)], ""),
        ([("step", 2.5, "s"), ("n", 1.0)], "step: 2.50 s (at most 1.00 s expected)"),
        ([("step", 0.5, "s")], "n: 0 (at least 1 expected)"),
        ([("n", 1.0)], "step: no value found"),
    ],
)
def test_metric_beyond_its_bound_is_worse_without_a_base(lines: list[Any], words: str) -> None:
    step = Direction(None, at_most=1.0)
    context = Context(directions={"step": step, "n": Direction(is_occurrence=True, at_least=1.0)})
    metrics = [MetricLine(*line) for line in lines]
    for bases in ([], [recorded(1, *metrics)], [recorded(1)]):
        found = compare_run(recorded(2, *metrics), None, bases, context=context)
        assert (found.state == "worse") == bool(words)
        assert exit_code(found, {"metric"}) == (11 if words else 0)
        text = " ".join(FORMATS["text"](found).split())
        assert (f"metrics: {words}" in text) == bool(words)
        has_row = words.startswith("step: 2.50 s") and bool(bases and bases[0].metrics)
        assert ("step worse (beyond its bound)" in text) == has_row
        assert read_comparison(json_text(found).encode(), "x") == found
    history = history_of([measured(1, *metrics)], keep=("*",))
    known = compare_run(from_history(history, 0), history, context=context)
    assert known.metrics.violations == ()  # a history has no values of its runs' logs


def test_past_runs_with_other_conditions_judge_nothing() -> None:
    def run(number: int, commit: str) -> History:
        line = MetricLine("step", NOISE[number % 5], "s")
        return history_of([measured(number, line, conditions={"XLA": commit})], keep=("*",))

    history = reduce(merge, (run(n, "a1" if n <= 11 else "c3") for n in range(1, 24)))
    line = MetricLine("step", 1.5, "s")
    found = compare_run(recorded(100, line, conditions={"XLA": "c3"}), history)
    assert (only(found).verdict, only(found).runs) == ("worse", 12)
    assert found.metrics.other_conditions == 8  # of the last 20 runs
    assert "8 past runs with other conditions left out" in metrics_text(found.metrics)


def test_iterations_are_values_of_one_metric() -> None:
    lines = [MetricLine("step", 1.0 + n, "s", {"iteration": str(n)}) for n in range(3)]
    one = only(compare_run(recorded(2, *lines), None, [recorded(1, *lines)]))
    assert (one.n_before, one.n_after, dict(one.key), one.before) == (3, 3, {}, 2.0)


def test_exact_metric_is_held_against_the_newest_run_of_the_history() -> None:
    runs = [measured(run, *[MetricLine("m", float(run))] * 2) for run in (1, 2)]
    history = reduce(merge, (history_of([one], keep=("*",)) for one in runs))
    lines = [[MetricLine("m", value)] * 2 for value in (1.0, 2.0)]
    verdicts = [only(judge(history, *line, **EXACT)).verdict for line in lines]
    # Equal medians of two values each: the values may be others.
    assert verdicts == ["better", "not judged"]
    # Of which the history has no values, none is said to be better and another worse.
    assert (
        only(judge(history, MetricLine("m", 1.0), MetricLine("m", 5.0), **EXACT)).verdict == "worse"
    )


def test_every_format_shows_judged_metrics() -> None:
    found = judge(
        past(20, "step", "other"), MetricLine("step", 1.5, "s"), MetricLine("other", 1.0, "s")
    )
    text = FORMATS["text"](found)
    assert text.startswith("WORSE: metrics: 1 worse (2 judged)")
    for name in ("text", "markdown", "html"):
        rendered = FORMATS[name](found)
        assert "worse (n=20, 95 % CI +4" in rendered, name
        assert "no significant difference (n=20" in rendered, name
    assert read_comparison(json_text(found).encode(), "x") == found


def condition(run_id: int, **conditions: str) -> Any:
    return run_of({"01": [case("a")]}, f"run {run_id}", run_id=run_id, conditions=conditions)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"XLA_COMMIT": "a1"}, {"XLA_COMMIT": "b2"}, "conditions differ: XLA_COMMIT: a1 -> b2"),
        ({"XLA_COMMIT": "a1"}, {}, "conditions differ: XLA_COMMIT: a1 -> not set"),
        ({}, {"XLA_COMMIT": ""}, 'conditions differ: XLA_COMMIT: not set -> ""'),
        ({"A": "1", "B": "2"}, {"A": "3", "B": "4"}, "conditions differ: A: 1 -> 3, B: 2 -> 4"),
    ],
)
def test_conditions_that_differ_are_first(
    before: dict[str, str], after: dict[str, str], words: str
) -> None:
    found = compare_run(condition(2, **after), None, [condition(1, **before)])
    for name in ("text", "markdown", "json"):
        rendered = " ".join(unescape(FORMATS[name](found)).replace('\\"', '"').split())
        rendered = rendered.replace("\u2192", "->")
        assert f": {words}; " in rendered, name
    assert read_comparison(json_text(found).encode(), "x") == found
    same = compare_run(condition(2, **after), None, [condition(1, **after)])
    assert same.conditions == ()
    assert "conditions differ" not in FORMATS["text"](same)


def test_conditions_of_legs_and_of_the_history_are_compared() -> None:
    history = history_of([
        measured(1, conditions={"A": "x"}), measured(1, conditions={"A": "y"}, shard="02")
    ])  # fmt: skip
    found = compare_run(recorded(100, conditions={"A": "x"}), history)
    assert [(one.name, one.before, one.after) for one in found.conditions] == [
        ("A", ("x", "y"), ("x",))
    ]


def test_interval_holds_the_change() -> None:
    effect = metric_effect([1.0 + n / 1000 for n in range(20)], 1.5)
    assert effect.p < 1e-4
    assert effect.low is not None
    assert effect.high is not None
    assert effect.low < 1.5 / effect.before - 1 < effect.high


def write(folder: Path, name: str, found: Sequence[Record]) -> None:
    for number, one in enumerate(found):
        assert one.header is not None
        assert one.end is not None
        lines: list[Any] = [one.header, *one.results, *one.metrics, one.end]
        (folder / name).mkdir(exist_ok=True)
        (folder / name / f"{number}.jsonl").write_bytes(b"".join(map(encode_line, lines)))


CONFIGURATION = """
[history]
store = "h"
[metrics]
keep = ["hits"]
[metrics.hits]
pattern = 'hits: (?P<value>.*)'
better = "higher"
"""


def test_compare_fails_on_a_metric_by_the_configured_direction(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    (tmp_path / "ciguard.toml").write_text(CONFIGURATION, "utf-8")
    (tmp_path / "h").write_bytes(encode(past(20, "hits", unit="")))
    write(tmp_path, "head", [measured(100, MetricLine("hits", 0.5))])
    words = ("compare", "base", "head", "--fail-on", "metric")
    done = ciguard(*words, cwd=tmp_path, expect=11)
    assert "metrics: 1 worse (1 judged)" in done.stdout
    write(tmp_path, "head", [measured(100, MetricLine("hits", 1.0))])
    ciguard(*words, cwd=tmp_path)
