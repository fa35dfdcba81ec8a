"""Values of metrics that the history keeps: which, how many, and how they are merged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard
from history.test_merge import record
from hypothesis import given
from hypothesis import strategies as st

from ciguard.codec.record.lines import encode as encode_line
from ciguard.history.file import DamagedHistory, History, decode, empty, encode
from ciguard.history.ingest import history_of
from ciguard.history.merge import merge
from ciguard.history.metric_series import MAX_SERIES, MetricSeries, RunValue
from ciguard.model import Line, MetricLine, Record, Result

PASSED = Result("a.py::t", "passed", wall_s=1.0)


def measured(run_id: int, *lines: MetricLine, **more: Any) -> Record:
    return replace(record(run_id, PASSED, **more), metrics=lines)


def kept(*records: Record, keep: tuple[str, ...] = ("*",)) -> History:
    return history_of(records, keep=keep)


def step(*values: float) -> tuple[MetricLine, ...]:
    return tuple(MetricLine("step", value, "s") for value in values)


def values(history: History) -> dict[str, list[tuple[int, float, int]]]:
    return {
        one.name: [(value.run_id, value.value, value.n) for value in one.values]
        for one in history.metrics
    }


def test_median_and_number_of_values_of_all_legs_are_kept() -> None:
    found = kept(measured(1, *step(1.0, 9.0)), measured(1, *step(2.0), shard="02"))
    assert values(found) == {"step": [(1, 2.0, 3)]}
    assert values(decode(encode(found), "x")) == values(found)


def test_only_names_of_the_patterns_are_kept() -> None:
    lines = [MetricLine(name, 1.0) for name in ("step", "xla.peak", "step.other", "loss")]
    assert list(values(kept(measured(1, *lines), keep=("step", "xla.*")))) == ["step", "xla.peak"]
    assert kept(measured(1, *lines), keep=()).metrics == ()


def test_name_unit_and_key_tell_series_apart() -> None:
    lines = (
        MetricLine("m", 1.0),
        MetricLine("m", 2.0, "s"),
        MetricLine("m", 3.0, "s", {"b": "1", "a": "2"}),
        MetricLine("m", 5.0, "s", {"a": "2", "b": "1"}),
    )
    found = kept(measured(1, *lines)).metrics
    assert [(one.unit, dict(one.key), one.values[0].value) for one in found] == [
        ("", {}, 1.0), ("s", {}, 2.0), ("s", {"a": "2", "b": "1"}, 4.0)
    ]  # fmt: skip


def test_leg_that_did_not_end_by_itself_has_no_values() -> None:
    assert kept(measured(1, *step(1.0), end=None)).metrics == ()


def test_newer_attempt_replaces_the_value_unless_it_lacks_a_leg() -> None:
    first = kept(measured(1, *step(1.0)), measured(1, *step(3.0), shard="02"))
    rerun = kept(measured(1, *step(7.0), shard="02", attempt=2))
    again = kept(measured(1, *step(5.0), attempt=2), measured(1, *step(7.0), shard="02", attempt=2))
    assert values(merge(first, rerun)) == {"step": [(1, 2.0, 2)]}
    assert values(merge(merge(first, rerun), again)) == {"step": [(1, 6.0, 2)]}
    assert values(merge(again, first)) == {"step": [(1, 6.0, 2)]}


def test_last_twenty_runs_with_a_value_are_kept_and_their_runs_with_them() -> None:
    rare = [kept(measured(run_id, *step(float(run_id)))) for run_id in range(1, 26)]
    common = [kept(record(run_id, PASSED)) for run_id in range(26, 60)]
    found = reduce(merge, [*rare, *common])
    assert [run for run, _, _ in values(found)["step"]] == list(range(6, 26))
    assert {run.run_id for run in found.runs} >= set(range(6, 26))


def test_series_of_the_newest_runs_stay() -> None:
    def many(run_id: int, first: int, count: int) -> History:
        lines = (MetricLine(f"m{n:04}", 1.0) for n in range(first, first + count))
        return kept(measured(run_id, *lines))

    found = reduce(merge, [many(1, 0, MAX_SERIES), many(2, MAX_SERIES - 10, 100)])
    assert len(found.metrics) == MAX_SERIES
    assert [one.name for one in found.metrics][-100:] == [f"m{n:04}" for n in range(490, 590)]
    assert len(many(1, 0, MAX_SERIES + 40).metrics) == MAX_SERIES


numbers = st.floats(-1e12, 1e12)
names = st.sampled_from(["a", "b", "\udc80"])
lines = st.builds(MetricLine, names, numbers, st.sampled_from(["", "s"]))
runs = st.builds(
    lambda run_id, attempt, found: kept(measured(run_id, *found, attempt=attempt)),
    st.integers(1, 30),
    st.integers(1, 2),
    st.lists(lines, max_size=5),
)


@given(runs, runs, runs)
def test_merge_is_commutative_associative_and_idempotent(a: Any, b: Any, c: Any) -> None:
    whole = encode(merge(merge(a, b), c))
    assert encode(merge(a, merge(b, c))) == whole
    assert encode(merge(c, merge(b, a))) == whole
    assert encode(merge(decode(whole, "x"), b)) == whole
    assert encode(decode(whole, "x")) == whole


def merged(order: Iterable[int]) -> bytes:
    runs = (kept(measured(run_id, *step(float(run_id)))) for run_id in order)
    # A run that comes after 20 newer ones may not be counted: see test_older_values.py.
    return encode(replace(reduce(merge, runs, empty()), older=None))


def test_order_of_many_runs_does_not_change_the_bytes() -> None:
    expected = merged(range(1, 41))

    @given(st.permutations(range(1, 41)))
    def in_any_order(order: list[int]) -> None:
        assert merged(order) == expected

    in_any_order()


def test_file_without_metrics_has_no_section_of_them() -> None:
    content = encode(kept(measured(1, *step(1.0)), keep=()))
    assert b'"metrics"' not in content
    assert b'"metrics"' in encode(kept(measured(1, *step(1.0))))


def test_unknown_section_is_skipped_as_a_version_without_metrics_skips_this_one() -> None:
    history = kept(measured(1, *step(1.0)))
    content = encode(history).partition(b"\n")[2].replace(b'"metrics"', b'"unknown"')
    head = b"ciguard-history 2 " + hashlib.sha256(content).hexdigest().encode()
    found = decode(head + b"\n" + content, "x")
    assert found.metrics == ()
    assert found.keys == history.keys


@pytest.mark.parametrize(
    "broken",
    [
        (MetricSeries("m", (RunValue(9, 1.0),)),),
        (MetricSeries("m", ()),),
        (MetricSeries("m", (RunValue(1, 1.0, 0),)),),
        (MetricSeries("m", (RunValue(1, 1.0), RunValue(1, 1.0))),),
        (MetricSeries("m", (RunValue(1, 1.0),)),) * 2,
        (MetricSeries("m", (RunValue(1, "1"),)),),  # type: ignore[arg-type]
    ],
)
def test_damaged_metrics_are_a_damaged_history(broken: Any) -> None:
    history = replace(kept(measured(1, *step(1.0))), metrics=broken)
    with pytest.raises(DamagedHistory):
        decode(encode(history), "x")


def test_conditions_of_a_leg_are_kept() -> None:
    found = kept(measured(1, conditions={"XLA_COMMIT": "a1b2"}), record(1, shard="02"))
    read = decode(encode(found), "x")
    assert [leg.conditions for leg in read.runs[0].legs] == [{"XLA_COMMIT": "a1b2"}, None]


def write(folder: Path, *records: Record) -> list[str]:
    for number, one in enumerate(records):
        assert one.header is not None
        assert one.end is not None
        lines: list[Line] = [one.header, *one.results, *one.metrics, one.end]
        content = b"".join(map(encode_line, lines))
        (folder / f"{number}.jsonl").write_bytes(content)
    return [f"{number}.jsonl" for number in range(len(records))]


def test_history_add_keeps_the_configured_metrics(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "ciguard.toml").write_text('[metrics]\nkeep = ["st*"]\n', "utf-8")
    legs = (measured(1, *step(1.0, 2.0)), measured(1, *step(3.0), shard="02"))
    done = ciguard("history", "add", *write(tmp_path, *legs), "--history", "h", cwd=tmp_path)
    assert "2 values of 1 run added" not in done.stdout
    assert "1 run, 1 case, 1 value, 1 metric (" in done.stdout
    assert values(decode((tmp_path / "h").read_bytes(), "h")) == {"step": [(1, 2.0, 3)]}


def test_history_add_reads_the_logs_of_processes(tmp_path: Path, ciguard: Ciguard) -> None:
    pattern = "pattern = 'heap: (?P<value>\\d+) (?P<value_unit>MiB)'"
    config = f'[metrics]\nkeep = ["heap"]\n[metrics.heap]\n{pattern}\n'
    (tmp_path / "ciguard.toml").write_text(config, "utf-8")
    folder = tmp_path / "record"
    folder.mkdir()
    write(folder, measured(1))
    (folder / "process-001.log").write_text("heap: 3 MiB\nheap: 5 MiB\n")
    ciguard("history", "add", "record", "--history", "h", cwd=tmp_path)
    found = values(decode((tmp_path / "h").read_bytes(), "h"))
    assert found == {"heap": [(1, 4 << 20, 2)]}


def test_history_add_warns_of_metrics_that_have_no_room(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "ciguard.toml").write_text('[metrics]\nkeep = ["*"]\n', "utf-8")
    words = ("history", "add", "0.jsonl", "--history", "h")
    for run_id, outputs in (
        (1, ["540 metrics of different name, unit or key match", "40 of them are not kept"]),
        (2, ["540 metrics", "500 older metrics dropped from the history, which keeps 500 of"]),
    ):
        lines = (MetricLine(f"{run_id}-{n}", 1.0) for n in range(540))
        write(tmp_path, measured(run_id, *lines))
        done = ciguard(*words, cwd=tmp_path)
        assert all(output in done.stderr for output in outputs), done.stderr
    stored = json.dumps(values(decode((tmp_path / "h").read_bytes(), "h")))
    assert '"2-0"' in stored
    assert '"1-0"' not in stored
