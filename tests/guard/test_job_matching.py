"""Which job is which shard's, and in which attempt it ran last."""

from __future__ import annotations

from dataclasses import replace

import pytest
from guard.damages import shard_03_in_attempt_2
from guard.fake_jobs import FakeRunApi, death, failed, job, verdict_of
from guard.fixtures import World, make_leg

from ciguard.codec.record.reader import read_records
from ciguard.errors import ExitCode
from ciguard.guard.github_facts import RunFacts
from ciguard.guard.headline import headline
from ciguard.guard.prove import prove
from ciguard.guard.wording import finding_fix, finding_message, note_text
from ciguard.render.notes import Note


def shard_03_in_two_attempts() -> World:
    world = World()
    shard_03_in_attempt_2(world)
    return world


def test_ambiguous_job_names_are_a_finding() -> None:
    output = ""
    for second, level in (("success", "warning"), ("failure", "incomplete")):
        twins = (job("03", name="a / tests (03)"), job("03", second, name="b / tests (03)"))
        verdict = verdict_of(World(), FakeRunApi(twins, without=("03",)))
        assert [(one.level, one.kind) for one in verdict.findings] == [(level, "job_ambiguous")]
        output = headline(verdict)
    assert "several jobs of this run have its name" in output
    called = tuple(job(shard, name=f"ci / tests ({shard})") for shard in ("01", "02", "03"))
    assert verdict_of(World(), FakeRunApi(called, without=("01", "02", "03"))).findings == ()


@pytest.mark.parametrize(
    ("name", "conclusion", "state"),
    [
        ("plan", "failure", "incomplete"),
        ("plan", "cancelled", "incomplete"),
        ("plan", "success", "passed"),
        ("deploy / plan", "failure", "passed"),  # of another workflow that is called
        ("lint", "failure", "passed"),
    ],
)
def test_attempt_with_a_failed_plan_job_is_incomplete(
    name: str, conclusion: str, state: str
) -> None:
    """Its legs have no job in it, so that nothing else says that they did not run."""
    rerun = job("92", conclusion, attempt=2, name=name)
    verdict = verdict_of(World(), FakeRunApi((rerun,)), attempt=2)
    assert verdict.state == state
    assert [one.kind for one in verdict.findings] == ["not_planned_again"] * (state != "passed")


def test_plan_of_the_first_attempt_applies_to_a_rerun() -> None:
    """Legs that ran again, and a job that planned that is only listed with them."""
    world = shard_03_in_two_attempts()
    listed = job("92", attempt=2, name="plan", began=job("90").started_at)
    reported = FakeRunApi((failed(), job("03", attempt=2), listed))
    assert verdict_of(world, reported, attempt=2).state == "passed"


def test_rerun_of_an_ambiguous_job_invalidates_the_older_record() -> None:
    names = [f"{caller} / tests (03)" for caller in "ab"]
    what = ""
    for attempt, level in ((1, "warning"), (2, "incomplete")):
        twins = tuple(job("03", attempt=attempt, name=name) for name in names)
        verdict = verdict_of(World(), FakeRunApi(twins, without=("03",)), attempt=attempt)
        (output,) = verdict.findings
        assert (output.level, output.kind) == (level, "job_ambiguous")
        what = "".join(map(note_text, output.evidence))
        assert "its record is of attempt 1" in finding_message(output)
    assert "in attempt 2" in what


def test_unrepeated_ambiguous_job_does_not_invalidate_newer_record() -> None:
    world = shard_03_in_two_attempts()
    first, second = (f"{caller} / tests (03)" for caller in "ab")
    older = (job("03", name=first), job("03", "failure", name=second))
    for rerun, level in (((job("03", attempt=2, name=second),), "warning"), ((), "incomplete")):
        verdict = verdict_of(world, FakeRunApi((*older, *rerun), without=("03",)), attempt=2)
        assert [(one.level, one.kind) for one in verdict.findings] == [(level, "job_ambiguous")]
    only_older = (job("03", name=first), job("03", name=second))
    (output,) = verdict_of(world, FakeRunApi(only_older, without=("03",)), attempt=2).findings
    assert output.level == "incomplete"
    assert "its record is of attempt 2" in finding_message(output)


def test_records_of_another_run_or_attempt_fail_without_github() -> None:
    world = World()
    records = read_records(world.files().items())
    for run, attempt, state in ((7, 1, "passed"), (8, 1, "incomplete"), (7, 2, "incomplete")):
        silent = RunFacts(run, attempt, unknown=Note("no_token"))
        assert prove(world.plan, records, platform=silent).state == state, (run, attempt)
    later = World(legs={key: make_leg(world.plan, key, attempt=3) for key in world.legs})
    silent = RunFacts(7, 2, unknown=Note("no_token"))
    verdict = prove(world.plan, read_records(later.files().items()), platform=silent)
    assert verdict.state == "incomplete"
    assert "is of attempt 3, this is attempt 2" in finding_message(verdict.findings[0])


def test_renamed_jobs_are_matched_by_their_record() -> None:
    world = World()
    for shard, one in world.legs.items():
        one.header = replace(one.header, job=f"mine {shard}")
    mine = tuple(job(shard, name=f"mine {shard}") for shard in world.legs)
    removed = ("01", "02", "03")
    assert verdict_of(world, FakeRunApi(mine, without=removed)).findings == ()
    (output,) = verdict_of(world, FakeRunApi(without=removed)).findings
    assert 'has the name "tests (01)"' in finding_message(output)
    assert finding_fix(output) == "give the matrix job `name: ${{ matrix.name }}`"


def test_failure_that_passes_in_the_rerun_job_is_flaky() -> None:
    world = shard_03_in_two_attempts()
    world.result("03", "d.t::six", outcome="failed", message="flaked")
    verdict = verdict_of(world, FakeRunApi((failed(), job("03", attempt=2))), attempt=2)
    assert verdict.exit_code == ExitCode.OK
    assert [one.key.unit for one in verdict.flaky] == ["d.t::six"]


TWICE = tuple(job(shard, attempt=2, began=job(shard).started_at) for shard in ("01", "02"))


def test_job_that_started_after_its_previous_end_was_rerun() -> None:
    """Also where nothing else is known: an older record is then no proof."""
    rerun = job("01", attempt=2)
    for one in (rerun, replace(rerun, started_at=None)):
        verdict = verdict_of(World(), FakeRunApi((one,)), attempt=2)
        assert "its job ran last in attempt 2" in finding_message(death(verdict, "01"))


def test_job_listed_with_another_conclusion_was_rerun() -> None:
    for end in ("failure", "cancelled"):
        rerun = replace(TWICE[0], conclusion=end)
        verdict = verdict_of(World(), FakeRunApi((rerun,)), attempt=2)
        assert "its job ran last in attempt 2" in finding_message(death(verdict, "01"))
