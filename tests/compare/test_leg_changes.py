"""Whole legs, jobs and runs: conclusions, cost, leaks, the suite's own pace, trends."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from compare.compare_factories import MIB, case, column_run, job_text, run_of
from guard.fixtures import make_plan

from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.job_changes import cost, job_changes
from ciguard.compare.run_changes import Cost
from ciguard.compare.run_columns import Run
from ciguard.compare.run_info import Context
from ciguard.compare.suite_speed import judge_suite_speed, without_outliers
from ciguard.compare.wording import headline, leak_text, measure_text, suite_speed_text
from ciguard.model import Runner
from ciguard.model.jobs import Job

BEGIN = datetime(2026, 11, 21, 10, tzinfo=UTC)


def job(name: str, conclusion: str | None, seconds: int = 61, attempt: int = 1) -> Job:
    end = BEGIN + timedelta(seconds=seconds)
    return Job(1, name, attempt, "completed", conclusion, BEGIN, end, url="https://x/1")


WORDS = [
    ("cancelled", "success", "cancelled -> success (unblocked)"),
    ("cancelled", "failure", "cancelled -> failure (unblocked)"),
    ("success", "cancelled", "success -> cancelled (newly cancelled)"),
    ("success", "failure", "success -> failure (newly failing)"),
    ("failure", "success", "failure -> success (fixed)"),
    ("success", "skipped", "success -> skipped (newly skipped)"),
    ("neutral", "action_required", "neutral -> action_required"),
    (None, "success", "absent -> success (added)"),
    ("success", None, "success -> absent (removed)"),
    ("success", "success", ""),
]


@pytest.mark.parametrize(("before", "after", "words"), WORDS)
def test_conclusions(before: str | None, after: str | None, words: str) -> None:
    run = run_of({"01": [case("a")]})
    old = [job("lint", "success"), *([job("tests (01)", before)] if before else [])]
    new = [job("lint", "success"), *([job("tests (01)", after)] if after else [])]
    found = job_changes(run, run, old, new)
    assert [job_text(one) for one in found] == ([words] if words else [])


def test_of_a_job_that_ran_again_the_last_attempt_counts() -> None:
    run = run_of({"01": [case("a")]})
    rerun = [job("t", "success", attempt=2), job("t", "cancelled", attempt=1)]
    assert not job_changes(run, run, [job("t", "success")], rerun)


RECORDS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"ending": "cancelled"}, {}, "cancelled -> success (unblocked)"),
    ({}, {"ending": "superseded"}, "success -> cancelled (newly cancelled)"),
    ({"ending": "deadline"}, {}, "failure -> success (fixed)"),
    ({"ending": None}, {}, ""),  # a record that was cut does not say by whom
]


@pytest.mark.parametrize(("before", "after", "words"), RECORDS)
def test_conclusions_that_records_tell(
    before: dict[str, Any], after: dict[str, Any], words: str
) -> None:
    base = run_of({"01": [case("a")]}, **before)
    found = compare_run(run_of({"01": [case("a")]}, run_id=2, **after), None, [base])
    assert [job_text(one) for one in found.jobs] == ([words] if words else [])
    assert ("1 job unblocked" in headline(found).text) == words.endswith("(unblocked)")
    assert (found.state == "better") == (words == "cancelled -> success (unblocked)")


def test_a_leg_with_a_failed_test_is_a_failed_job() -> None:
    base = run_of({"01": [case("a")]}, ending="cancelled")
    found = compare_run(run_of({"01": [case("a", outcome="failed")]}, run_id=2), None, [base])
    assert [job_text(one) for one in found.jobs] == ["cancelled -> failure (unblocked)"]


UNITS = [f"t{n}" for n in range(20)]


def run_in_two_legs(first: int, red: str = "", **more: Any) -> Run:
    """20 tests in two legs, the first `first` of them in leg 01; `red` fails."""
    legs = {"01": UNITS[:first], "02": UNITS[first:]}
    return run_of(
        {
            shard: [case(u, outcome="failed" if u == red else "passed") for u in units]
            for shard, units in legs.items()
        },
        **more,
    )


RESHARDED: list[tuple[Run, Run, list[str]]] = [
    # The same failing test in another shard, or one that fails now and was in another one before.
    (run_in_two_legs(8, "t9"), run_in_two_legs(12, "t9", run_id=2), []),
    (run_in_two_legs(12, "t9"), run_in_two_legs(8, "t9", run_id=2), []),
    # One test moved: it is the failing one.
    (run_in_two_legs(10, "t10"), run_in_two_legs(11, "t10", run_id=2), []),
    (run_in_two_legs(8), run_in_two_legs(12, "t9", run_id=2), []),
    # The same work, or all but the same.
    (
        run_in_two_legs(10),
        run_in_two_legs(10, "t3", run_id=2),
        ["01 success -> failure (newly failing)"],
    ),
    (run_in_two_legs(10, "t3"), run_in_two_legs(10, run_id=2), ["01 failure -> success (fixed)"]),
    (run_in_two_legs(10, "t3"), run_in_two_legs(11, run_id=2), ["01 failure -> success (fixed)"]),
    # How a leg ended is the leg's own, whatever it had to do.
    (run_in_two_legs(8, ending="deadline"), run_in_two_legs(12, run_id=2), [
        "01 failure -> success (fixed)", "02 failure -> success (fixed)"]),
    (run_in_two_legs(8, ending="cancelled"), run_in_two_legs(12, "t9", run_id=2), [
        "01 cancelled -> failure (unblocked)", "02 cancelled -> success (unblocked)"]),
]  # fmt: skip


@pytest.mark.parametrize(("base", "head", "reported"), RESHARDED)
def test_a_test_in_another_shard_makes_no_job_red_or_green(
    base: Run, head: Run, reported: list[str]
) -> None:
    found = compare_run(head, None, [base])
    assert [f"{one.name} {job_text(one)}" for one in found.jobs] == reported
    # The same by GitHub's word, where that is asked and says which job a leg was.
    requested = []
    for run in (base, head):
        bad = {int(at) for at in run.leg[run.outcome != run.outcome.min()]}
        ended = {leg.ending for leg in run.legs} - {"completed"}
        word = {"cancelled": "cancelled", "deadline": "failure"}.get("".join(ended), "")
        legs = tuple(replace(leg, job=f"tests ({leg.shard})") for leg in run.legs)
        jobs = [
            job(leg.job or "", word or ("failure" if at in bad else "success"))
            for at, leg in enumerate(legs)
        ]
        requested.append((replace(run, legs=legs), jobs))
    (base, old), (head, new) = requested
    changes = job_changes(base, head, old, new)
    assert [f"{one.name} {job_text(one)}" for one in changes] == [
        f"tests ({words[:2]}){words[2:]}" for words in reported
    ]


def test_a_job_without_a_leg_is_told_as_github_says() -> None:
    runs = run_in_two_legs(8, "t9"), run_in_two_legs(12, "t9", run_id=2)
    found = job_changes(*runs, [job("lint", "success")], [job("lint", "failure")])
    assert [job_text(one) for one in found] == ["success -> failure (newly failing)"]


def test_result_files_are_of_no_job_and_a_leg_may_have_no_name() -> None:
    base, head = (run_of({"": [case("a", outcome=how)]}) for how in ("passed", "failed"))
    head = replace(head, run_id=2)
    found = compare_run(head, None, [base])
    assert [(one.name, job_text(one)) for one in found.jobs] == [
        ("", "success -> failure (newly failing)")
    ]
    assert "the job  success  failure  newly failing" in FORMATS["text"](found)
    assert "| the job | success" in FORMATS["markdown"](found)
    files = [
        replace(one, legs=tuple(replace(leg, wall_s=None) for leg in one.legs))
        for one in (base, head)
    ]
    assert compare_run(files[1], None, [files[0]]).jobs == ()


def test_minutes_are_rounded_up_a_job_and_priced_by_pool() -> None:
    run = run_of({"01": [case("a")], "02": [case("b")]}, wall_s=61.0)
    reported = cost(run, (), {"default": 0.006})
    assert reported is not None
    assert (reported.minutes, reported.includes_all_jobs) == (4, False)
    assert reported.price_usd == pytest.approx(0.024)
    unpriced = cost(run, (), {})
    assert unpriced is not None
    assert unpriced.price_usd is None
    requested = cost(run, [job("lint", "success", 10), job("off", "skipped")], {"default": 0.006})
    assert requested is not None
    assert (requested.minutes, requested.includes_all_jobs) == (1, True)
    assert cost(None, (), {}) is None


def test_all_attempts_of_a_job_are_billed() -> None:
    """The job plan did not run again: GitHub lists it in attempt 2 with the times of attempt 1."""
    later = BEGIN + timedelta(hours=1)
    run = run_of({"01": [case("a")]}, wall_s=61.0, job="tests (01)")
    jobs = [
        job("plan", "success", 30),
        job("plan", "success", 30, attempt=2),
        job("tests (01)", "failure", 600),
        Job(2, "tests (01)", 2, "completed", "success", later, later + timedelta(seconds=61)),
    ]
    assert cost(run, jobs, {"default": 0.5}) == Cost(
        1 + 10 + 2, 0.5 * (10 + 2), includes_all_jobs=True
    )


def test_what_is_billed_is_told_of_whole_runs_only_and_to_the_mill() -> None:
    four = {"01": [case("a")], "02": [case("b")], "03": [case("c")], "04": [case("d")]}
    base, three = run_of(four), {name: four[name] for name in ("01", "02", "03")}
    context = Context(prices={"default": 0.006})
    less = compare_run(run_of({"01": four["01"]}, run_id=2), None, [base], context=context)
    assert less.cost_after is None  # its units are gone, so nobody knows what it should have cost
    head = compare_run(run_of(three, run_id=2, shards=4), None, [base], context=context)
    assert head.cost_after is None
    for name in ("text", "markdown", "html"):
        text = " ".join(FORMATS[name](head).split())
        assert "0.024 USD" in text
        assert "0.018" not in text
    back = compare_run(base, None, [run_of(three, run_id=2, shards=4)], context=context)
    assert "- -> 4 minutes (0.024 USD), of the shards alone" in FORMATS["text"](back)
    fewer = {"01": [case("a"), case("d")], "02": [case("b")], "03": [case("c")]}
    same = compare_run(run_of(fewer, run_id=2), None, [base], context=context)
    assert "4 minutes (0.024 USD) -> 3 minutes (0.018 USD)" in FORMATS["text"](same)


def test_a_leg_without_a_time_has_no_price() -> None:
    assert cost(column_run([]), (), {}) is not None
    assert cost(Run("x", (), *[np.zeros(0)] * 6), (), {}) is None  # type: ignore[arg-type]


def test_a_plans_prediction_stands_beside_what_came() -> None:
    head = run_of({"01": [case("a")]}, run_id=2)
    (leg,) = compare_run(head, None, [run_of({"01": [case("a")]})], plan=make_plan()).legs[:1]
    assert leg.predicted_wall_s is not None
    assert leg.wall_after_s == 10.0


def test_legs_of_other_work_are_called_that() -> None:
    names = [f"t{n}" for n in range(40)]
    base = run_of({"01": [*map(case, names[:20])], "02": [*map(case, names[20:])]})
    note = "walls and peaks of its legs are of other tests"
    for moved, output in ((0, False), (4, False), (5, True), (20, True)):
        legs = {"01": names[moved:20], "02": [*names[:moved], *names[20:]]}
        results = {key: [*map(case, units)] for key, units in legs.items() if units}
        found = compare_run(run_of(results, run_id=2), None, [base])
        assert any(note in one for one in found.notes) == output, moved
        if output:
            reported = f"{moved} of 40 cases ran in another leg than on the base: {note}."
            assert reported in found.notes


# --- Leaks ---------------------------------------------------------------------------------------


def growing(stored: float, run_id: int, tests: int = 60, first: float = 0.0, **more: Any) -> Run:
    """A process whose tests keep `kept` MiB each, and the first of them `first` more."""
    results = [
        case(f"t{n:02}", retained_bytes=round(MIB * (stored + (first if n == 0 else 0))), **more)
        for n in range(tests)
    ]
    return run_of({"01": results}, run_id=run_id)


def test_a_leak_is_a_finding_of_its_own() -> None:
    bases = [growing(0.01, n) for n in range(1, 13)]
    found = compare_run(growing(2.0, 20), None, bases)
    (leak,) = found.leaks
    assert (leak.tier, leak.process, leak.tests, leak.n) == ("suspect", 1, 60, 12)
    assert leak_text(leak).startswith(
        "possible leak: 108 MiB kept by 60 tests in process 1 of shard 01"
    )
    assert found.state == "suspect"
    assert leak_text(leak) in headline(found).text
    twice = compare_run(growing(2.0, 20), None, bases, previous=growing(2.1, 19))
    assert [one.tier for one in twice.leaks] == ["confirmed"]
    assert twice.state == "worse"
    once = compare_run(growing(2.0, 20), None, bases, previous=growing(0.01, 19))
    assert [one.tier for one in once.leaks] == ["suspect"]


def test_growth_that_was_always_there_confirms_no_leak() -> None:
    bases = [growing(2.0, n) for n in range(1, 13)]
    (leak,) = compare_run(growing(4.0, 20), None, bases, previous=growing(2.0, 19)).leaks
    assert leak.tier == "suspect"
    (leak,) = compare_run(growing(4.0, 20), None, bases, previous=growing(3.9, 19)).leaks
    assert leak.tier == "confirmed"


def test_an_earlier_run_of_other_tests_confirms_no_leak() -> None:
    bases = [growing(0.01, n) for n in range(1, 13)]
    other = run_of({"01": [case(f"o{n:02}", retained_bytes=2 * MIB) for n in range(60)]}, run_id=19)
    (leak,) = compare_run(growing(2.0, 20), None, bases, previous=other).leaks
    assert leak.tier == "suspect"


NO_LEAK = [
    growing(0.01, 20),
    growing(0.0, 20, first=500.0),  # a large module, loaded once
    growing(2.0, 20, tests=19),
    growing(2.0, 20, concurrent=2),  # nobody knows whose it is
]


@pytest.mark.parametrize("head", NO_LEAK)
def test_what_is_no_leak(head: Run) -> None:
    assert not compare_run(head, None, [growing(0.01, n) for n in range(1, 13)]).leaks


def test_what_leaked_before_is_no_new_leak_and_without_a_baseline_there_is_no_verdict() -> None:
    assert not compare_run(growing(2.0, 20), None, [growing(1.9, n) for n in range(1, 13)]).leaks
    (leak,) = compare_run(growing(2.0, 20), None, [growing(0.01, 1)]).leaks
    assert leak.tier == "unjudged"
    (leak,) = compare_run(growing(2.0, 20)).leaks
    assert leak_text(leak).endswith("(unknown before)")


# --- The suite's own pace ------------------------------------------------------------------------

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


def test_a_slower_runner_is_no_slower_suite() -> None:
    found = compare_run(paced(20, 1.0, 1.3, 20), None, BASES, previous=paced(19, 1.0, 1.3, 19))
    assert found.suite_speed.verdict == "no significant difference"
    assert found.legs[0].speed == pytest.approx(1.3, rel=0.03)
    assert found.legs[0].probe_ratio == pytest.approx(1.3, rel=0.03)
    (row,) = [line for line in FORMATS["text"](found).splitlines() if line.startswith("01 ")]
    assert row.split()[-1] == f"{found.legs[0].speed:.2f}"
    for shape in ("markdown", "html"):
        assert f"{found.legs[0].probe_ratio:.2f}" in FORMATS[shape](found)
        assert "CPU probe" in FORMATS[shape](found)


@pytest.mark.parametrize("runner", [1.0, 1.3])
def test_a_slower_suite_is_one_on_any_runner(runner: float) -> None:
    once = compare_run(paced(20, 1.15, runner, 20), None, BASES)
    assert (once.suite_speed.verdict, once.state) == ("maybe slower", "suspect")
    before = paced(19, 1.15, 1.0, 19)
    twice = compare_run(paced(20, 1.15, runner, 20), None, BASES, previous=before)
    assert (twice.suite_speed.verdict, twice.state) == ("slower", "worse")
    assert twice.suite_speed.low is not None
    assert twice.suite_speed.high is not None
    assert twice.suite_speed.low < 0.15 < twice.suite_speed.high
    assert suite_speed_text(twice.suite_speed) in headline(twice).text


def test_a_faster_suite_is_a_gain() -> None:
    found = compare_run(paced(20, 0.8, 1.0, 20), None, BASES, previous=paced(19, 0.8, 1.3, 19))
    assert (found.suite_speed.verdict, found.state) == ("faster", "better")


@pytest.mark.parametrize("probe", [0.7, 1.5])
def test_a_suite_that_waits_is_no_slower_on_another_runner(probe: float) -> None:
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
    assert suite_speed_text(found.suite_speed) not in headline(found).text
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
def test_an_interval_without_zero_that_is_no_difference_says_why(
    quartiles: list[float], states: str
) -> None:
    found = judge_suite_speed(np.array([*quartiles, 0.0]), np.zeros((4, 4)))
    assert found.verdict == "no significant difference"
    assert suite_speed_text(found).endswith(states), suite_speed_text(found)


@pytest.mark.parametrize("runs", [3, 4, 12])
def test_a_pace_that_varies_by_chance_is_rarely_a_suspect(runs: int) -> None:
    """5 % of either sign, and some more as the middle of few runs is less certain than a mean."""
    random = np.random.default_rng(runs)
    draws = np.repeat(random.normal(0, 0.2, (2000, runs + 1, 1)), 4, axis=2)
    words = [judge_suite_speed(draw[0], draw[1:]).verdict for draw in draws]
    assert sum(word.startswith("maybe") for word in words) <= 0.08 * len(words)


def test_without_probes_nobody_knows_whose_the_speed_is() -> None:
    runs = [column_run(np.linspace(0.1, 1.0, TESTS), run_id=n) for n in range(1, 13)]
    found = compare_run(runs[-1], None, runs[:-1])
    assert found.suite_speed.verdict == "not measured"
    assert not any("probe" in FORMATS[shape](found) for shape in ("text", "markdown"))
    assert judge_suite_speed(np.zeros(4), np.zeros((2, 4))).verdict == "not enough data"
    assert judge_suite_speed(np.full(4, np.nan), np.zeros((12, 4))).verdict == "not measured"


def test_a_probe_is_believed_up_to_twice_the_usual() -> None:
    probes = np.array([0.1, 0.3, 0.6, 0.61, np.nan])
    stored = without_outliers(probes, 0.3)
    assert np.isnan(stored).tolist() == [False, False, False, True, True]
    assert np.array_equal(without_outliers(probes, None), probes, equal_nan=True)


@pytest.mark.parametrize(("wall_s", "minutes"), [(0.0, 1), (0.4, 1), (60.0, 1), (60.1, 2)])
def test_a_leg_is_billed_a_minute_at_least(wall_s: float, minutes: int) -> None:
    paid = cost(run_of({"01": [case("a")]}, wall_s=wall_s), (), {})
    assert paid is not None
    assert paid.minutes == minutes


def test_one_leg_of_which_the_probe_was_off_says_nothing() -> None:
    runs = [paced(n, 1.0, 1.0, n) for n in range(1, 13)]

    def with_a_slow_probe(run: Run) -> Run:
        (first, *rest) = run.legs
        return replace(run, legs=(replace(first, probe_s=4 * (first.probe_s or 0.0)), *rest))

    head, previous = (with_a_slow_probe(paced(n, 1.0, 1.0, n)) for n in (20, 19))
    assert (
        compare_run(head, None, runs, previous=previous).suite_speed.verdict
        == "no significant difference"
    )


# --- Trends --------------------------------------------------------------------------------------


def lasting(run_id: int, wall_s: float, **facts: Any) -> Run:
    return run_of({"01": [case("a")], "02": [case("b")]}, run_id=run_id, wall_s=wall_s, **facts)


def test_whole_runs_are_shown_beside_the_median_of_the_baseline() -> None:
    runs = [lasting(n, wall) for n, wall in enumerate((21.58, 23.64, 34.04, 34.48), 1)]
    slowest, total = compare_run(lasting(20, 28.0), None, runs).totals_vs_baseline[:2]
    assert slowest.before == pytest.approx(28.84)
    assert (slowest.name, round(slowest.before), slowest.after, slowest.n) == (
        "makespan_s",
        29,
        28,
        4,
    )
    assert (total.name, round(total.before), total.after, total.n) == ("sum_s", 58, 56, 4)


def test_only_complete_runs_have_a_trend() -> None:
    runs = [lasting(1, 100.0), lasting(2, 50.0, ending="deadline"), lasting(3, 102.0)]
    (found, *_) = compare_run(lasting(20, 101.0), None, runs).totals_vs_baseline
    assert found.n == 2
    assert not compare_run(lasting(20, 10.0, ending="deadline"), None, runs).totals_vs_baseline


def test_a_gain_of_a_run_that_is_not_whole_is_none() -> None:
    legs = {"01": [case("a", 1.0, 100)], "02": [case("b", 1.0, 100)]}
    small = {"01": [case("a", 1.0, 40)], "02": [case("b", 1.0, 100)]}
    bases = [run_of(legs, run_id=n) for n in range(1, 13)]
    heads = [run_of(small, run_id=n) for n in (20, 21)]
    assert compare_run(heads[1], None, bases, previous=heads[0]).memory.verdict == "improved"
    cut = run_of({"01": small["01"]}, run_id=22)
    found = compare_run(cut, None, bases, previous=heads[0], context=Context())
    assert found.memory.verdict == "incomplete"
    assert (
        measure_text(found.memory) == "peak memory: no improvement is shown for an incomplete run"
    )
    assert [change.tier for change in found.memory.gains] == ["confirmed"]
