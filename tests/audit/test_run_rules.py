"""Each rule that reads past runs: what it finds, and what it leaves alone."""

from __future__ import annotations

import pytest
from fakegithub.past_runs import AT_LIMIT, BY_PERSON, LOST, SUPERSEDED, WORKFLOW, Findings, PastRuns

RED = "red-without-test-failure"
SHARDS = WORKFLOW.replace(
    "    steps:", "    strategy:\n      matrix:\n        shard: [1, 2, 3, 4]\n    steps:"
)
CANCELLED_STEPS = (("Set up job", "success"), ("Test", "cancelled"))


def test_cancelled_superseded_and_lost_runs_are_counted_by_cause(
    past: PastRuns, findings: Findings
) -> None:
    for cause in (SUPERSEDED, SUPERSEDED, BY_PERSON, LOST):
        conclusion = "failure" if cause == LOST else "cancelled"
        run = past.run(conclusion)
        steps = (("Set up job", "success"), ("Test", None)) if cause == LOST else CANCELLED_STEPS
        past.job(run, conclusion=conclusion, annotations=[cause], steps=steps)
    for _ in range(6):
        past.job(past.run("failure"), conclusion="failure")
    past.green(10)
    (found,) = findings(RED)
    assert found["certainty"] == "certain"
    assert found["facts"] == {
        "without_failure": 4,
        "red": 10,
        "runs": 20,
        "causes": {"test_step": 6, "lost_runner": 1, "superseded": 2, "cancelled": 1},
    }
    assert {one["what"] for one in found["evidence"]} == {
        "run 900",
        "run 899",
        "run 898",
        "run 897",
    }


def test_red_runs_with_failed_tests_are_no_finding(past: PastRuns, findings: Findings) -> None:
    for _ in range(30):
        past.job(past.run("failure"), conclusion="failure")
    for _ in range(2):  # a person cancelled twice
        past.job(past.run("cancelled"), conclusion="cancelled", annotations=[BY_PERSON])
    assert findings(RED) == []


def test_aggregation_job_is_not_why_a_run_is_red(past: PastRuns, findings: Findings) -> None:
    gate = (
        "  gate:\n    needs: test\n    if: always()\n    runs-on: x\n    steps: [{run: exit 1}]\n"
    )
    past.workflow(WORKFLOW + gate)
    for _ in range(4):
        run = past.run("failure")
        past.job(run, conclusion="cancelled", annotations=[BY_PERSON], steps=CANCELLED_STEPS)
        past.job(run, "gate", "failure", steps=(("Run exit 1", "failure"),))
    (found,) = findings(RED)
    assert found["facts"]["causes"] == {"cancelled": 4}


def test_jobs_that_fail_fast_cancelled_are_no_cause(past: PastRuns, findings: Findings) -> None:
    past.workflow(SHARDS)
    fail_fast = 'The strategy configuration was canceled because "test._3" failed'
    for _ in range(4):
        run = past.run("failure")
        past.job(run, "test (1)", "cancelled", annotations=[fail_fast], steps=CANCELLED_STEPS)
        past.job(run, "test (3)", "failure", steps=(("Set up job", "success"),), minutes=1)
    assert findings(RED) == []


def test_text_of_one_job_explains_all_that_were_cancelled(
    past: PastRuns, findings: Findings
) -> None:
    past.workflow(SHARDS)
    for _ in range(3):
        run = past.run("cancelled")
        for shard in (1, 2, 3):
            minutes = 9 - shard
            words = [SUPERSEDED] if shard == 1 else []
            past.job(run, f"test ({shard})", "cancelled", annotations=words, minutes=minutes)
    (found,) = findings(RED)
    assert found["facts"]["causes"] == {"superseded": 3}
    asked = [line for line in past.server.request_log() if "/annotations" in line]
    assert len(asked) == 3


def test_green_runs_are_not_asked_about(past: PastRuns, findings: Findings) -> None:
    past.job(past.run(), "optional", "failure", steps=(("Test", None),))  # continue-on-error
    assert findings(RED) == []
    assert not [line for line in past.server.request_log() if "/annotations" in line]


def test_job_that_a_later_attempt_only_lists_again_ran_once(
    past: PastRuns, findings: Findings
) -> None:
    past.workflow(SHARDS)
    run = past.run("failure", run_attempt=2)
    for attempt in (1, 2):
        past.job(run, "test (1)", "cancelled", annotations=[AT_LIMIT], minutes=45, attempt=attempt)
    (found,) = findings("shard-died-at-limit")
    assert (found["facts"]["died"], found["facts"]["executions"]) == (1, 1)


@pytest.mark.parametrize(
    "text", ["The action 'Test' has timed out after 45 minutes.", "The operation was canceled."]
)
def test_job_with_another_text_did_not_die_at_its_limit(
    past: PastRuns, findings: Findings, text: str
) -> None:
    run = past.run("cancelled")
    past.job(run, conclusion="cancelled", annotations=[text], minutes=45)
    assert findings("shard-died-at-limit") == []


def test_job_that_died_at_its_limit_is_counted_by_name(past: PastRuns, findings: Findings) -> None:
    past.workflow(SHARDS)
    for number in range(10):
        run = past.run("cancelled" if number < 3 else "success")
        past.job(run, "test (1)")
        if number < 3:
            past.job(run, "test (2)", "cancelled", annotations=[AT_LIMIT], minutes=45.4)
        else:
            past.job(run, "test (2)", minutes=30)
    (found,) = findings("shard-died-at-limit")
    assert (found["subject"], found["certainty"]) == ("test (2)", "certain")
    assert found["facts"]["died"] == 3
    assert found["facts"]["executions"] == 10
    assert found["facts"]["limit_s"] == 2700.0
    assert found["evidence"][0]["url"].startswith(
        "https://github.com/octo-org/shop/actions/runs/900/job/"
    )


@pytest.mark.parametrize(("minutes", "certainties"), [(45.3, ["possible"]), (20, [])])
def test_without_an_annotation_the_limit_is_a_possible_cause(
    past: PastRuns, findings: Findings, minutes: float, certainties: list[str]
) -> None:
    past.job(past.run("cancelled"), conclusion="cancelled", minutes=minutes)
    found = findings("shard-died-at-limit")
    assert [one["certainty"] for one in found] == certainties


def test_job_cancelled_by_a_person_at_its_limit_did_not_die(
    past: PastRuns, findings: Findings
) -> None:
    cancelled = {"conclusion": "cancelled", "annotations": [BY_PERSON], "minutes": 45}
    past.job(past.run("cancelled"), **cancelled)  # type: ignore[arg-type] # mixed values
    assert findings("shard-died-at-limit") == []


def shards_took(past: PastRuns, *minutes: float) -> None:
    """Three runs of a matrix whose shards took these times."""
    past.workflow(SHARDS)
    for _ in range(3):
        run = past.run()
        for number, wall in enumerate(minutes, 1):
            past.job(run, f"test ({number})", minutes=wall)


@pytest.mark.parametrize(
    ("walls", "ratio"), [((30, 6, 6, 6), 2.5), ((10, 9, 9, 8), None), ((0.8, 0.1, 0.1, 0.1), None)]
)
def test_imbalance_of_shards(
    past: PastRuns, findings: Findings, walls: tuple[float, ...], ratio: float | None
) -> None:
    shards_took(past, *walls)
    found = findings("imbalanced-matrix")
    assert [one["facts"]["ratio"] for one in found] == ([ratio] if ratio else [])
    if found:
        assert found[0]["certainty"] == "certain"
        facts = found[0]["facts"]
        assert (facts["longest"], facts["saved_wall_s"]) == ("test (1)", 1080.0)
        # The same minutes are billed: 30 + 3 x 6, and 4 x 12.
        assert (facts["billed_minutes"], facts["balanced_minutes"]) == (48, 48)
        assert facts["fewest_jobs"] == 2


def test_shard_that_is_gone_is_not_compared(past: PastRuns, findings: Findings) -> None:
    past.workflow(SHARDS)
    for number in range(6):
        run = past.run()
        past.job(run, "test (1)", minutes=5)
        past.job(run, "test (2)", minutes=5)
        if number >= 3:
            past.job(run, "test (old)", minutes=40)
    assert findings("imbalanced-matrix") == []


def test_rounding_up_to_minutes_is_what_balance_can_save(
    past: PastRuns, findings: Findings
) -> None:
    shards_took(past, 8.0, 1.4, 1.3, 1.3)
    (found,) = findings("imbalanced-matrix")
    facts = found["facts"]
    assert (facts["billed_minutes"], facts["balanced_minutes"]) == (14, 12)


def test_axis_of_environments_is_only_possibly_imbalanced(
    past: PastRuns, findings: Findings
) -> None:
    shards_took(past, 40, 2)
    past.workflow(SHARDS.replace("shard: [1, 2, 3, 4]", "python: [1, 2]"))
    (found,) = findings("imbalanced-matrix")
    assert (found["certainty"], found["doubt"]) == ("possible", "axis-of-environments")
