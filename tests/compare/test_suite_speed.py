"""The speed of the suite without that of its runners."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compare.compare_factories import case, column_run, run_of

from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.run_columns import Run
from ciguard.compare.suite_speed import judge_suite_speed, probe_adjusted_speed
from ciguard.compare.wording import headline, suite_speed_text
from ciguard.model import Runner

TESTS = 40


def paced(run_id: int, suite: float, runner: float, seed: int) -> Run:
    """Two legs; the runner slows its probe, too, and the suite does not."""
    generator = np.random.default_rng(seed)
    legs = {
        f"{leg:02}": [
            case(f"t{leg}{n:02}", 0.2 * suite * runner * float(np.exp(generator.normal(0, 0.02))))
            for n in range(TESTS)
        ]
        for leg in (1, 2)
    }
    probe = 0.3 * runner * float(np.exp(generator.normal(0, 0.005)))
    return run_of(legs, run_id=run_id, runner=Runner("default", probe_s=probe))


BASES = [paced(n, 1.0, 1.3 if n % 4 == 0 else 1.0, n) for n in range(1, 13)]


def test_slower_runner_is_no_slower_suite() -> None:
    found = compare_run(paced(20, 1.0, 1.3, 20), None, BASES, previous=paced(19, 1.0, 1.3, 19))
    assert found.suite_speed.verdict == "no significant difference"
    assert found.legs[0].speed == pytest.approx(1.3, rel=0.03)
    (row,) = [line for line in FORMATS["text"](found).splitlines() if line.startswith("01 ")]
    assert row.split()[-1] == f"{found.legs[0].speed:.2f}"


@pytest.mark.parametrize("runner", [1.0, 1.3])
def test_slower_suite_is_detected_on_any_runner(runner: float) -> None:
    once = compare_run(paced(20, 1.15, runner, 20), None, BASES)
    assert (once.suite_speed.verdict, once.state) == ("maybe slower", "suspect")
    before = paced(19, 1.15, 1.0, 19)
    twice = compare_run(paced(20, 1.15, runner, 20), None, BASES, previous=before)
    assert (twice.suite_speed.verdict, twice.state) == ("slower", "worse")
    assert twice.suite_speed.low is not None
    assert twice.suite_speed.high is not None
    assert twice.suite_speed.low < 0.15 < twice.suite_speed.high
    assert suite_speed_text(twice.suite_speed) in headline(twice)


def test_faster_suite_is_an_improvement() -> None:
    found = compare_run(paced(20, 0.8, 1.0, 20), None, BASES, previous=paced(19, 0.8, 1.3, 19))
    assert (found.suite_speed.verdict, found.state) == ("faster", "better")


@pytest.mark.parametrize("probe", [0.7, 1.5])
def test_io_bound_suite_is_no_slower_on_another_runner(probe: float) -> None:
    """Its tests take what they took: only the runners' CPU is another one, in both runs."""

    def waiting(run_id: int) -> Run:
        run = paced(run_id, 1.0, 1.0, run_id)
        legs = [replace(leg, probe_s=probe * (leg.probe_s or 0.0)) for leg in run.legs]
        return replace(run, legs=tuple(legs))

    bases = [paced(n, 1.0, 1.0, n) for n in range(1, 13)]
    found = compare_run(waiting(20), None, bases, previous=waiting(19))
    assert (found.suite_speed.verdict, found.state) == ("unclear", "same")
    assert suite_speed_text(found.suite_speed).startswith(
        "whole suite: unclear: its tests took 1.0"
    )
    assert f"of its runners {probe:.1f}" in suite_speed_text(found.suite_speed)
    assert suite_speed_text(found.suite_speed) not in headline(found)
    for shape in ("text", "markdown", "html"):
        assert suite_speed_text(found.suite_speed) in " ".join(FORMATS[shape](found).split())


@pytest.mark.parametrize(
    ("quartiles", "states"),
    [
        ([0.0, 0.0, 0.0], "CI -3..+4)"),
        ([-0.6, -0.3, 0.1], "CI -29..-23; not in 3 of 4 shards)"),
        ([-0.1, 0.3, 0.6], "CI +30..+40; not in 3 of 4 shards)"),
        ([0.04, 0.04, 0.04], "CI +0..+8; below 5 %)"),
    ],
)
def test_insignificant_interval_without_zero_is_explained(
    quartiles: list[float], states: str
) -> None:
    found = judge_suite_speed(np.array([*quartiles, 0.0]), np.zeros((4, 4)))
    assert found.verdict == "no significant difference"
    assert suite_speed_text(found).endswith(states), suite_speed_text(found)


@pytest.mark.parametrize("runs", [3, 4, 12])
def test_random_suite_speed_is_rarely_a_suspect(runs: int) -> None:
    """5 % of either sign, and some more as the middle of few runs is less certain than a mean."""
    random = np.random.default_rng(runs)
    draws = np.repeat(random.normal(0, 0.2, (2000, runs + 1, 1)), 4, axis=2)
    words = [judge_suite_speed(draw[0], draw[1:]).verdict for draw in draws]
    assert sum(word.startswith("maybe") for word in words) <= 0.08 * len(words)


def test_suite_speed_without_cpu_probes_is_not_measured() -> None:
    runs = [column_run(np.linspace(0.1, 1.0, TESTS), run_id=n) for n in range(1, 13)]
    found = compare_run(runs[-1], None, runs[:-1])
    assert found.suite_speed.verdict == "not measured"
    assert not any("probe" in FORMATS[shape](found) for shape in ("text", "markdown"))
    assert judge_suite_speed(np.zeros(4), np.zeros((2, 4))).verdict == "not enough data"
    assert judge_suite_speed(np.full(4, np.nan), np.zeros((12, 4))).verdict == "not measured"


def test_cpu_probe_above_twice_the_usual_is_an_outlier() -> None:
    probes = np.array([0.1, 0.3, 0.6, 0.61, np.nan])
    for usual_s, known in ((0.3, 3), (None, 4)):
        found = probe_adjusted_speed(np.zeros(5), probes, np.arange(5), 5, usual_s)
        assert np.isfinite(found[:, 1]).tolist() == [True] * known + [False] * (5 - known)


def test_single_outlier_probe_changes_no_verdict() -> None:
    runs = [paced(n, 1.0, 1.0, n) for n in range(1, 13)]

    def with_a_slow_probe(run: Run) -> Run:
        (first, *rest) = run.legs
        return replace(run, legs=(replace(first, probe_s=4 * (first.probe_s or 0.0)), *rest))

    head, previous = (with_a_slow_probe(paced(n, 1.0, 1.0, n)) for n in (20, 19))
    assert (
        compare_run(head, None, runs, previous=previous).suite_speed.verdict
        == "no significant difference"
    )
