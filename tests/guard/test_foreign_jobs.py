"""`guard --results` asks GitHub how the user's own jobs ended, where their names are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Ciguard
from fakegithub.actions import add_job
from fakegithub.state import FakeGitHub
from guard.fake_jobs import (
    BY_HAND,
    EXIT_137,
    KILLED,
    LOST,
    NEW_LIMIT,
    FakeEvaluatedRun,
    FakeRunApi,
    environ_of,
    job,
)
from guard.fixtures import SHARDS, make_plan
from guard.test_result_files import junit

from ciguard.codec import plan_file
from ciguard.guard.github_facts import match_foreign_jobs, query_jobs
from ciguard.model import Plan, Prediction, Shard

JOBS = {"01": "Tests - A / B", "02": "Tests - C", "03": "Tests - D"}
LIMIT = "2026-11-21T10:45:20Z"  # 45 min after the start of `add_job`


def named(plan: Plan) -> Plan:
    """As `ciguard audit -o` makes it, with a shard that has no test."""
    shards = [
        replace(shard, job=JOBS[shard.key], timeout_minutes=45, units=shard.units)
        for shard in plan.shards
    ]
    empty = Shard("04", "default", (), Prediction(0.0, 0.0), timeout_minutes=45, job="Tests - E")
    plan = replace(plan, shards=(*shards, empty))
    return plan_file.decode(plan_file.encode(plan), "plan.json")


class Judge:
    """A last job of run 7 with the files that arrived."""

    def __init__(self, folder: Path, github: FakeGitHub, ciguard: Ciguard) -> None:
        self.folder, self.github, self._ciguard = folder, github, ciguard
        (folder / "event.json").write_text("{}")
        self.plan(named(make_plan()))
        for shard, units in SHARDS.items():
            self.upload(JOBS[shard].replace("/", "_"), units)

    def plan(self, plan: Plan) -> None:
        (self.folder / "plan.json").write_bytes(plan_file.encode(plan))

    def upload(self, name: str, units: tuple[str, ...], bad: tuple[str, ...] = ()) -> None:
        place = self.folder / "artifacts" / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "r.xml").write_bytes(junit(units, bad))

    def lose(self, name: str) -> None:
        (self.folder / "artifacts" / name / "r.xml").unlink()

    def __call__(self, expect: int = 0, **environ: str) -> str:
        words = ("guard", "--plan", "plan.json", "--results", "artifacts/{shard}/*.xml")
        around = {**environ_of(self.folder, self.github), **environ}
        done = self._ciguard(*words, cwd=self.folder, expect=expect, **around)
        return " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def judge(tmp_path: Path, server: FakeGitHub, ciguard: Ciguard) -> Judge:
    return Judge(tmp_path, server, ciguard)


def serve(github: FakeGitHub, **conclusions: str) -> None:
    """The jobs of all shards; green but for those that are given."""
    for shard, name in {**JOBS, "04": "Tests - E"}.items():
        add_job(github, name, conclusions.get(f"s{shard}", "success"))


def test_green_jobs_pass_also_without_a_file_of_an_empty_shard(judge: Judge) -> None:
    serve(judge.github)
    assert judge().startswith("PASSED: all 8 tests of 4 shards have a result")
    # One call: nothing is dead.
    assert sum("/jobs" in one for one in judge.github.request_log()) == 1
    assert not any("annotations" in one for one in judge.github.request_log())


def test_empty_shard_whose_job_nobody_finds_is_incomplete(judge: Judge) -> None:
    serve(judge.github)
    judge.github.jobs.clear()
    for name in JOBS.values():
        add_job(judge.github, name, "success")
    add_job(judge.github, "Tests - renamed", "cancelled")
    assert judge(expect=13).startswith("INCOMPLETE: ")


def test_tests_of_a_shard_that_only_another_ran_are_incomplete(judge: Judge) -> None:
    serve(judge.github)
    plan = named(make_plan())
    first, second, *others = plan.shards
    both = replace(second, units=(*second.units, first.units[0]))
    judge.plan(replace(plan, shards=(first, both, *others)))
    text = judge(expect=13)
    assert text.startswith("INCOMPLETE: ")
    assert "1 test with a result in other shards only" in text
    judge.upload("Tests - C", (*SHARDS["02"], first.units[0].unit))
    assert judge().startswith("PASSED: ")


def test_files_pass_where_nobody_can_be_asked(judge: Judge) -> None:
    for attempt in ("1", "2"):
        text = judge(GITHUB_TOKEN="", GITHUB_RUN_ATTEMPT=attempt)
        assert text.startswith("PASSED: all 8 tests")
        assert "does not consider how the jobs ended: there is no GITHUB_TOKEN" in text
    assert judge(GITHUB_ACTIONS="").startswith(
        "PASSED: all 8 tests of 3 shards have a result, 1 shard without tests"
    )


def test_tests_of_a_job_that_died_at_its_limit_are_not_called_gone(judge: Judge) -> None:
    """Its file was written before, and holds a part of its tests."""
    for shard, name in {**JOBS, "04": "Tests - E"}.items():
        if shard == "01":
            add_job(judge.github, name, "cancelled", completed_at=LIMIT)
        else:
            add_job(judge.github, name)
    judge.upload(JOBS["01"].replace("/", "_"), SHARDS["01"][:1])
    text = judge(expect=13)
    assert "shard 01: the job hit its limit of 45 min 00 s. Plan more shards" in text
    assert "ake the plan again" not in text
    assert "its record is complete" not in text


def test_job_at_its_limit_is_said_in_place_of_no_record(judge: Judge) -> None:
    for told in ((), (NEW_LIMIT,)):
        judge.github.jobs.clear()
        steps = [("Run tests", "cancelled")]
        for shard, name in {**JOBS, "04": "Tests - E"}.items():
            if shard == "03":
                add_job(
                    judge.github, name, "cancelled", completed_at=LIMIT, steps=steps,
                    annotations=told,
                )  # fmt: skip
            else:
                add_job(judge.github, name)
        (judge.folder / "artifacts" / "Tests - D" / "r.xml").unlink(missing_ok=True)
        text = judge(expect=13)
        assert "INCOMPLETE: shard 03 of 4 has no record (timeout); 3 of 8 tests" in text
        assert "shard 03: the job hit its limit of 45 min 00 s." in text
        assert "no record." not in text


@pytest.mark.parametrize(
    ("conclusion", "annotation", "output"),
    [
        ("cancelled", BY_HAND, "no record: cancelled."),
        ("failure", LOST, "no record: GitHub lost its runner."),
        ("failure", EXIT_137, "no record: its tests ended with exit code 137."),
        ("skipped", "", "no record: its job is skipped."),
        ("success", "", "no record: its job succeeded."),
    ],
)
def test_shard_without_a_file_is_explained_by_its_job(
    judge: Judge, conclusion: str, annotation: str, output: str
) -> None:
    serve(judge.github, s03=conclusion)
    number = judge.github.jobs[2]["id"]
    judge.github.annotations[number] = [annotation] if annotation else []
    judge.lose("Tests - D")
    assert f"shard 03: {output}" in judge(expect=13)


def test_failed_tests_explain_a_failed_job_and_nothing_else_does(judge: Judge) -> None:
    serve(judge.github, s03="failure")
    assert "its record is complete, but its job is 'failure'" in judge(expect=13)
    judge.upload("Tests - D", SHARDS["03"], bad=("d.t::six",))
    assert judge(expect=10).startswith("FAILED: 1 of 8 tests failed")


@pytest.mark.parametrize(
    ("shard", "conclusion", "what"),
    [
        ("03", "cancelled", "did not end by itself (cancelled)"),
        *(("04", word, "has no record") for word in ("cancelled", "failure", "skipped")),
    ],
)
def test_job_of_each_shard_must_end_well(
    judge: Judge, shard: str, conclusion: str, what: str
) -> None:
    serve(judge.github, **{f"s{shard}": conclusion})
    text = judge(expect=13)
    assert text.startswith(f"INCOMPLETE: shard {shard} of 4 {what}")
    assert "tests have no result" not in text


def test_files_of_a_rerun_are_of_its_last_attempt(judge: Judge) -> None:
    serve(judge.github, s03="failure")
    add_job(
        judge.github, JOBS["03"], attempt=2,
        started_at="2026-11-21T11:00:00Z", completed_at="2026-11-21T11:05:00Z",
    )  # fmt: skip
    assert judge(GITHUB_RUN_ATTEMPT="2").startswith("PASSED")


def test_jobs_of_other_names_are_said_not_to_be_known(judge: Judge) -> None:
    add_job(judge.github, "lint", "cancelled")
    text = judge()
    assert 'none of 1 job has the name "Tests - A / B"' in text


@pytest.mark.parametrize(
    ("name", "state"),
    [("test (03)", 13), ("03", 13), ("ci / 03", 13), ("test 03", 0), ("test (103)", 0)],
)
def test_job_is_guessed_by_the_key_where_the_plan_has_no_name(
    judge: Judge, name: str, state: int
) -> None:
    judge.plan(make_plan())
    for shard, units in SHARDS.items():
        judge.upload(shard, units)
    for name_ in JOBS.values():
        (judge.folder / "artifacts" / name_.replace("/", "_") / "r.xml").unlink()
    add_job(judge.github, name, "cancelled")
    text = judge(expect=state)
    assert ("shard 03: cancelled" in text) == bool(state)
    assert "does not consider" not in text


def test_key_of_several_jobs_is_no_guess() -> None:
    jobs = (job("03", name="a (03)"), job("03", name="b (03)"), job("02", name="02"))
    found = match_foreign_jobs(make_plan(), jobs)
    assert {shard: [one.name for one in of] for shard, of in found.items()} == {
        "01": [],
        "02": ["02"],
        "03": [],
    }


def test_refusal_hides_nothing_of_jobs_that_are_only_guessed() -> None:
    reported = FakeRunApi((job("03", "cancelled", steps=KILLED),), fault="answered 503")
    run = FakeEvaluatedRun(reported)
    assert query_jobs(make_plan(), (), run, foreign=True) is None
    known = query_jobs(named(make_plan()), (), run, foreign=True)
    assert known is not None
    assert known.unknown is not None
    assert query_jobs(make_plan(), (), FakeEvaluatedRun(None), foreign=True) is None
