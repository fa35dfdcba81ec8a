"""Numbers within one run: what is flat, what grows, and how often that is said wrongly."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from conftest import Ciguard
from numpy.typing import NDArray
from run.leg_runner import PYTEST, plan_of, start_shard

from ciguard.codec.record.lines import encode
from ciguard.codec.record.reader import read_records
from ciguard.compare.series import (
    RESIDENT,
    SeriesSummary,
    compare_series,
    measure_series,
    series_section,
    summarize_series,
    summary_text,
)
from ciguard.model import Line, MetricLine, Result, ShardLine, StartLine

MIB = 1 << 20
SERIES = 4_000


def record(
    shard: str, values: Iterable[float], unit: str = "bytes", process: int = 1
) -> tuple[str, bytes]:
    lines: list[Line] = [ShardLine("p", shard)]
    lines += [MetricLine("heap", value, unit, process=process) for value in values]
    return f"{shard}/supervisor.jsonl", b"".join(map(encode, lines))


def summary_of(*records: tuple[str, bytes]) -> SeriesSummary:
    (found,) = summarize_series(read_records(records))
    return found


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([100 * MIB] * 19 + [100.4 * MIB], "flat over 20 values (+410 KiB)"),
        ([(100 + 11 * n) * MIB for n in range(20)], "grows 11.0 MiB a value (n=20)"),
        ([(400 - 11 * n) * MIB for n in range(20)], "falls 11.0 MiB a value (n=20)"),
        ([100 * MIB] * 10 + [200 * MIB] * 10, "no clear trend over 20 values (+100 MiB)"),
        ([100 * MIB, 150 * MIB] * 3, "not judged over 6 of 20 values (+50.0 MiB)"),
        ([100 * MIB] * 6, "flat over 6 values (0 B)"),
    ],
)
def test_a_series_is_put_into_words(values: list[float], text: str) -> None:
    assert summary_text(summary_of(record("01", values))) == text


def test_first_last_largest_and_slope_are_kept() -> None:
    one = measure_series([3.0, 9.0, 4.0, 5.0, 7.0], "images")
    assert (one.first, one.last, one.largest, one.slope, one.n) == (3.0, 7.0, 9.0, 1.0, 5)


def test_the_process_that_grows_stands_for_all() -> None:
    grows = [(100 + 11 * n) * MIB for n in range(20)]
    found = summary_of(
        record("01", [100 * MIB] * 20), record("02", grows), record("03", [90 * MIB] * 30)
    )
    assert dict(found.trends) == {"flat": 2, "grows": 1}
    assert summary_text(found) == (
        "grows 11.0 MiB a value (n=20) in process 1 of shard 02; flat in 2 others"
    )


def test_the_number_of_an_iteration_is_no_condition() -> None:
    lines: list[Line] = [ShardLine("p", "01")]
    lines += [
        MetricLine("step", 1.0 + n, "s", {"iteration": str(n), "size": "64"}, process=1)
        for n in range(20)
    ]
    (found,) = summarize_series(read_records([("a/r.jsonl", b"".join(map(encode, lines)))]))
    assert (dict(found.key), dict(found.trends)) == ({"size": "64"}, {"grows": 1})


def test_what_runs_side_by_side_is_no_series() -> None:
    lines: list[Line] = [ShardLine("p", "01")]
    for n in range(20):
        lines.append(StartLine(f"t{n}", process=1, rss_before_bytes=n * 11 * MIB))
        lines.append(Result(f"t{n}", "passed", process=1, concurrent=2))
    assert summarize_series(read_records([("a/r.jsonl", b"".join(map(encode, lines)))])) == ()


def test_the_base_stands_beside_the_candidate() -> None:
    before, after = (summary_of(record("01", [n * MIB for n in range(k)])) for k in (20, 30))
    (change,) = compare_series([before], [after])
    assert change.before is before
    for last in ("19.0 MiB", "29.0 MiB"):
        assert f"0 B -> {last}, largest {last}: grows" in str(series_section([change]))
    assert compare_series([], [after])[0].before is None


def rate_of(trends: set[str], make: Callable[[], NDArray[np.float64]]) -> float:
    found = [measure_series(make(), "bytes").trend in trends for _ in range(SERIES)]
    return sum(found) / SERIES


@pytest.mark.parametrize(
    ("n", "step_mib", "of_walks", "of_noise"),
    [(20, 11, 0.75, 0.99), pytest.param(200, 2, 0.4, 0.99, marks=pytest.mark.soak)],
)
def test_a_random_walk_rarely_has_a_trend_and_growth_is_found(
    n: int, step_mib: float, of_walks: float, of_noise: float
) -> None:
    random = np.random.default_rng(n)
    trends = {"grows", "falls"}

    def walk(step_mib: float) -> NDArray[np.float64]:
        steps = random.standard_t(3, n) * 5
        return (300 + np.cumsum(steps + step_mib)) * MIB

    def noise(step_mib: float) -> NDArray[np.float64]:
        return (300 + step_mib * np.arange(n) + random.normal(0, 5, n)) * MIB

    assert rate_of(trends, lambda: walk(0)) <= 0.01  # a fitted line: 0.59
    assert rate_of(trends, lambda: noise(0)) <= 0.001
    assert rate_of({"grows"}, lambda: walk(step_mib)) >= of_walks
    assert rate_of({"grows"}, lambda: noise(step_mib)) >= of_noise


TESTS = """
import pytest
KEPT = []
@pytest.mark.parametrize("number", range(21))
def test_keeps(number):
    KEPT.append(bytearray(b"x" * (11 << 20)) if {leaks} else b"")
"""


@pytest.mark.soak
def test_resident_memory_of_a_real_process_is_a_series(ciguard: Ciguard, tmp_path: Path) -> None:
    for name, leaks in (("before", False), ("after", True)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "test_a.py").write_text(TESTS.replace("{leaks}", str(leaks)))
        units = [f"test_a.py::test_keeps[{number}]" for number in range(21)]
        start_shard(folder, plan_of(units, suites={"": PYTEST})).wait(0)
    words = ("compare", "before/record", "after/record")
    found = json.loads(ciguard(*words, "--format", "json", cwd=tmp_path).stdout)["series"]
    (one,) = [one for one in found if one["after"]["name"] == RESIDENT]
    assert one["after"]["trends"] == {"grows": 1}
    assert one["after"]["steepest"]["slope"] == pytest.approx(11 * MIB, rel=0.1)
    assert one["before"]["trends"] == {"flat": 1}
    text = ciguard(*words, cwd=tmp_path).stdout
    assert "grows 11.0 MiB a test (n=21)" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert "flat over 21 tests" in ciguard(*words, "--format", "markdown", cwd=tmp_path).stdout
