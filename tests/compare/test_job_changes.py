"""Jobs as GitHub knows them: conclusions that changed, and billed minutes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from compare.compare_factories import case, column_run, run_of

from ciguard.compare.billed_minutes import Cost, cost
from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import Context, compare_run
from ciguard.compare.jobs import JobChange, job_changes
from ciguard.compare.run_columns import Run
from ciguard.compare.wording import headline
from ciguard.model.jobs import Job

BEGIN = datetime(2026, 11, 21, 10, tzinfo=UTC)


def job(name: str, conclusion: str | None, seconds: int = 61, attempt: int = 1) -> Job:
    end = BEGIN + timedelta(seconds=seconds)
    return Job(1, name, attempt, "completed", conclusion, BEGIN, end, url="https://x/1")


def job_text(change: JobChange) -> str:
    """ "cancelled -> success (unblocked)"."""
    found = f"{change.before or 'absent'} -> {change.after or 'absent'}"
    return f"{found} ({change.transition})" if change.transition else found


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
    ("cancelled", "cancelled", "cancelled -> cancelled (still cancelled)"),
]


@pytest.mark.parametrize(("before", "after", "words"), WORDS)
def test_job_conclusion_changes(before: str | None, after: str | None, words: str) -> None:
    run = run_of({"01": [case("a")]})
    old = [job("lint", "success"), *([job("tests (01)", before)] if before else [])]
    new = [job("lint", "success"), *([job("tests (01)", after)] if after else [])]
    found = job_changes(run, run, old, new)
    assert [job_text(one) for one in found] == ([words] if words else [])


def test_last_attempt_of_a_rerun_job_counts() -> None:
    run = run_of({"01": [case("a")]})
    rerun = [job("t", "success", attempt=2), job("t", "cancelled", attempt=1)]
    assert not job_changes(run, run, [job("t", "success")], rerun)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("success", "failure", ""),
        ("failure", "success", ""),
        ("success", "cancelled", "success -> cancelled (newly cancelled)"),
        ("cancelled", "failure", "cancelled -> failure (unblocked)"),
    ],
)
def test_success_or_failure_of_a_leg_job_is_no_job_change(
    before: str, after: str, words: str
) -> None:
    run = run_of({"01": [case("a")]}, job="tests (01)")
    old, new = (
        [job("tests (01)", how), job("lint", word)]
        for how, word in ((before, "success"), (after, "failure"))
    )
    lint = "success -> failure (newly failing)"
    found = job_changes(run, run, old, new)
    assert [job_text(one) for one in found] == [lint, *([words] if words else [])]


def test_unblocked_job_is_better_and_newly_cancelled_is_inconclusive() -> None:
    base, head = run_of({"01": [case("a")]}), run_of({"01": [case("a")]}, run_id=2)
    words = "cancelled", "success"
    jobs = [(job("lint", word),) for word in words]
    found = compare_run(
        head, None, [base], context=Context(jobs_before=jobs[0], jobs_after=jobs[1])
    )
    assert found.state == "better"
    assert "1 job unblocked" in headline(found)
    found = compare_run(
        head, None, [base], context=Context(jobs_before=jobs[1], jobs_after=jobs[0])
    )
    assert found.state == "inconclusive"
    assert "1 job newly cancelled" in headline(found)
    both = (*jobs[0], job("e2e", "cancelled")), (*jobs[1], job("e2e", "cancelled"))
    found = compare_run(
        head, None, [base], context=Context(jobs_before=both[0], jobs_after=both[1])
    )
    assert found.state == "inconclusive"
    assert "1 job still cancelled; 1 job unblocked" in headline(found)
    assert "e2e   cancelled " in FORMATS["text"](found)


def test_jobs_are_compared_only_if_github_lists_both_runs() -> None:
    run = run_of({"01": [case("a")]})
    jobs = [job("lint", "failure")]
    assert job_changes(run, run, jobs, []) == job_changes(run, run, [], jobs) == ()


def test_job_minutes_are_rounded_up_and_priced_per_pool() -> None:
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


def test_cost_is_shown_to_0_001_usd_and_for_complete_runs_only() -> None:
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


def test_leg_without_a_duration_has_no_cost() -> None:
    assert cost(column_run([]), (), {}) is not None
    assert cost(Run("x", (), *[np.zeros(0)] * 6), (), {}) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("wall_s", "minutes"), [(0.0, 1), (0.4, 1), (60.0, 1), (60.1, 2)])
def test_leg_is_billed_at_least_one_minute(wall_s: float, minutes: int) -> None:
    paid = cost(run_of({"01": [case("a")]}, wall_s=wall_s), (), {})
    assert paid is not None
    assert paid.minutes == minutes
