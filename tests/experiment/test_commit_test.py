"""Which suspects five re-runs confirm: the arithmetic, and how often it is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from compare.test_calibration import at_least, at_most
from experiment.pull_requests import confirmed

from ciguard.experiment.commit_test import evaluate_rows, metric_of
from ciguard.experiment.paired_test import Row, Series
from ciguard.model import CaseKey

MIB = 1024 * 1024
QUIET = [1.0, 1.01, 0.99, 1.0, 1.01]


def rows(**cases: tuple[list[float], list[float]]) -> dict[str, Row]:
    """Times of cases; of those whose name ends with `_mib`, memory."""
    series = []
    for name, (a, b) in cases.items():
        measure = "peak_delta_bytes" if name.endswith("_mib") else "wall_s"
        scale = MIB if measure == "peak_delta_bytes" else 1.0
        metric = metric_of(CaseKey("", "", name, name), measure)
        series.append(Series(0, "head", metric, np.array(a) * scale, np.array(b) * scale))
    return {dict(row.metric.key)["unit"]: row for row in evaluate_rows(series)}


def times(values: list[float], factor: float) -> list[float]:
    return [value * factor for value in values]


def test_change_in_all_runs_is_confirmed_and_single_outlier_is_not() -> None:
    found = rows(
        slower=(QUIET, times(QUIET, 1.25)),
        hiccup=(QUIET, [1.0, 1.01, 2.5, 1.0, 1.0]),
        same=(QUIET, QUIET[::-1]),
        little=(QUIET, times(QUIET, 1.04)),
        faster=(QUIET, times(QUIET, 0.8)),
        short=(times(QUIET, 0.03), times(QUIET, 0.045)),
        few=([1.0, 1.0], [2.0, 2.0]),
    )
    assert {name for name, row in found.items() if row.differs} == {"slower", "faster"}
    assert found["slower"].ratio == pytest.approx(0.25)
    assert [found[name].p for name in ("short", "few")] == [None, None]


def test_small_spread_of_one_case_is_moderated_by_the_others() -> None:
    """Three runs that agree by luck, among cases that swing by 10 %."""
    random = np.random.default_rng(1)
    swinging = {
        f"c{n}": (list(random.normal(1, 0.1, 3)), list(random.normal(1, 0.1, 3))) for n in range(30)
    }
    lucky = ([1.0, 1.0, 1.0], [1.08, 1.08, 1.08])
    assert rows(lucky=lucky)["lucky"].differs
    assert not rows(lucky=lucky, **swinging)["lucky"].differs


def test_memory_has_separate_floors_and_may_be_zero() -> None:
    found = rows(
        grown_mib=([20.0] * 5, [26.0] * 5),
        little_mib=([20.0] * 5, [23.0] * 5),
        share_mib=([200.0] * 5, [205.0] * 5),
        none_mib=([0.0] * 5, [0.0] * 5),
        from_nothing_mib=([0.0] * 5, [9.0] * 5),
    )
    assert {name for name, row in found.items() if row.differs} == {"grown_mib", "from_nothing_mib"}
    assert found["from_nothing_mib"].ratio is None


def test_no_rows_give_no_result() -> None:
    assert evaluate_rows([]) == ()


def test_few_pull_requests_meet_false_alarm_and_power_limits() -> None:
    same = confirmed(pulls=3, tests=600, growth=0.0, seed=1)
    assert same.false_durations + same.false_memory <= at_most(0.06, same.pulls)
    hurt = confirmed(pulls=3, tests=600, growth=0.25, seed=2)
    assert hurt.found_durations >= at_least(0.7, hurt.changed)


@pytest.mark.soak
@pytest.mark.parametrize("growth", [0.0, 0.25])
def test_false_alarms_and_power(growth: float) -> None:
    found = confirmed(pulls=100, tests=2000, growth=growth, seed=9000)
    print(growth, found)
    assert found.false_durations <= at_most(0.06, found.pulls)
    assert found.false_memory <= at_most(0.06, found.pulls)
    if growth:
        assert found.found_durations >= at_least(0.7, found.changed)
        assert found.found_memory >= at_least(0.9, found.changed)
