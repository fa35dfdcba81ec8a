"""`--run ID --plan P --results PATTERN`: a run whose jobs uploaded result files of their own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Ciguard
from fakegithub.actions import REPOSITORY, add_artifact, add_job
from fakegithub.state import FakeGitHub
from guard.fixtures import SHARDS, make_plan
from guard.test_result_files import junit
from history.stored_values import values_in
from report.test_run import Call, call

from ciguard.codec import plan_file as plan_codec

__all__ = ["call"]

WORDS = ("--plan", "plan.json", "--results", "results-{shard}/**/*.xml")
# Attempt 1 is from 10:00 to 10:05, as `add_job` has it.
NAMED = ("--no-repo", "--run", f"https://github.com/{REPOSITORY}/actions/runs/7")
SECOND, THIRD = "2026-11-21T11:00:00Z", "2026-11-21T12:00:00Z"


@pytest.fixture(autouse=True)
def _plan(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(plan_codec.encode(make_plan()))


def upload(
    server: FakeGitHub, shard: str, bad: Sequence[str] = (), at: str = "2026-11-21T10:04:00Z"
) -> None:
    content = {"reports/r.xml": junit(SHARDS[shard], bad), "reports/trace.bin": b"\0"}
    add_artifact(server, f"results-{shard}", content, created_at=at)


@pytest.fixture
def uploaded(server: FakeGitHub) -> FakeGitHub:
    """Run 7, all green, and artifacts of no results."""
    for shard in SHARDS:
        upload(server, shard)
        add_job(server, f"tests ({shard})")
    add_artifact(server, "coverage-01", b"no archive")
    return server


@pytest.mark.parametrize("verb", ["guard", "report"])
def test_a_run_is_judged_by_the_result_files_in_its_artifacts(
    call: Call, uploaded: FakeGitHub, verb: str
) -> None:
    assert "PASSED" in call(verb, *WORDS).stdout
    downloads = [one for one in uploaded.request_log() if one.endswith("/zip")]
    assert len(downloads) == len(SHARDS)


def test_a_shard_that_uploaded_nothing_has_no_record(call: Call, server: FakeGitHub) -> None:
    for shard in ("01", "03"):
        upload(server, shard)
    add_job(server, "tests (01)")
    found = json.loads(call("guard", *WORDS, "--format", "json", expect=13).stdout)
    assert [one["shard"] for one in found["missing"]] == ["02", "02"]


def test_the_last_attempt_of_a_shard_counts(call: Call, uploaded: FakeGitHub) -> None:
    """Shard 02 failed in attempt 2 and passed in attempt 3; each left an artifact of one name."""
    call("guard", *WORDS)
    upload(uploaded, "02", SHARDS["02"][:1], at=SECOND)
    add_job(uploaded, "tests (02)", "failure", attempt=2, started_at=SECOND, completed_at=SECOND)
    assert "c.t::four" in call("guard", *WORDS, expect=10).stdout
    add_job(uploaded, "tests (02)", attempt=3, started_at=THIRD, completed_at=THIRD)
    upload(uploaded, "02", at=THIRD)
    found = json.loads(call("guard", *WORDS, "--format", "json").stdout)
    assert [leg["run_attempt"] for leg in found["legs"]] == [1, 3, 1]
    assert [one["unit"] for one in found["flaky"]] == ["c.t::four"]
    call("guard", *WORDS, "--run", "7/1")
    call("guard", *WORDS, "--run", "7/2", expect=10)


def run_twice(server: FakeGitHub) -> None:
    """In attempt 2 the job of shard 02 died before its upload."""
    for shard in SHARDS:
        upload(server, shard)
        add_job(server, f"Unit {int(shard)}")
    times = {"started_at": SECOND, "completed_at": THIRD}
    for shard in SHARDS:
        how = "cancelled" if shard == "02" else "success"
        add_job(server, f"Unit {int(shard)}", how, attempt=2, **times)  # type: ignore[arg-type]
        if how == "success":
            upload(server, shard, at=SECOND)


def test_after_rerun_all_jobs_older_artifacts_do_not_count(call: Call, server: FakeGitHub) -> None:
    """No name tells whose job it is."""
    run_twice(server)
    found = json.loads(call("guard", *WORDS, "--format", "json", expect=13).stdout)
    assert {one["shard"] for one in found["missing"]} == {"02"}
    call("guard", *WORDS, "--run", "7/1")


def test_job_that_runs_while_it_judges_knows_which_shards_ran_again(
    call: Call, server: FakeGitHub, tmp_path: Path
) -> None:
    """Of attempt 2 a job that needs this one is not listed yet: only attempt 1 has it."""
    plan = make_plan()
    named = tuple(replace(shard, job=f"Unit {int(shard.key)}") for shard in plan.shards)
    (tmp_path / "plan.json").write_bytes(plan_codec.encode(replace(plan, shards=named)))
    add_job(server, "deploy")
    run_twice(server)
    found = json.loads(call("guard", *WORDS, "--format", "json", expect=13).stdout)
    assert {one["shard"] for one in found["missing"]} == {"02"}


def test_of_one_attempt_the_newest_artifact_of_a_name_counts(
    call: Call, uploaded: FakeGitHub
) -> None:
    """An upload with `overwrite`, listed while the old artifact is still there."""
    upload(uploaded, "02", SHARDS["02"][:1])
    call("guard", *WORDS, expect=10)


def test_expired_artifacts(call: Call, uploaded: FakeGitHub) -> None:
    uploaded.facts[2]["expired"] = True
    found = json.loads(call("guard", *WORDS, "--format", "json", expect=13).stdout)
    assert "results-02: it has expired" in json.dumps(found["findings"])
    for number in (1, 3):
        uploaded.facts[number]["expired"] = True
    done = call("guard", *WORDS, expect=3)
    assert "run 7: 3 artifacts of --results results-{shard}/**/*.xml, all expired" in done.stderr
    assert "fix: judge the run before they expire" in done.stderr


def test_a_pattern_that_matches_nothing_is_explained(call: Call, uploaded: FakeGitHub) -> None:
    words = ("guard", "--plan", "plan.json", "--results")
    error = call(*words, "artifacts/results-{shard}/**/*.xml", expect=13).stderr
    assert "no artifact of run 7 has such a name; it has coverage-01, results-01, " in error
    assert "the first folder of the path is the artifact's name" in error
    error = call(*words, "results-{shard}/*.xml", expect=13).stderr
    assert "no file in 3 artifacts of run 7 is called results-{shard}/*.xml; results-" in error
    assert "/reports/r.xml is there" in error


def test_result_files_of_a_run_are_added_to_the_history(
    call: Call, uploaded: FakeGitHub, tmp_path: Path
) -> None:
    """Of shard 02 the artifact of the newest attempt is read; nobody has to download them."""
    upload(uploaded, "02", SHARDS["02"][:1], at=SECOND)
    add_job(uploaded, "tests (02)", "failure", attempt=2, started_at=SECOND, completed_at=SECOND)
    stored = ("--history", "past.ciguard")
    call("history", "add", *WORDS, *stored, *NAMED)
    values = values_in(tmp_path / "past.ciguard")
    outcomes = {one["unit"]: one["outcome"] for one in values}
    assert outcomes["c.t::four"] == "failed"
    assert len(outcomes) == sum(map(len, SHARDS.values()))
    assert {one["run_id"] for one in values} == {7}


def test_shard_that_died_when_it_ran_again_is_lost_to_the_history(
    call: Call, server: FakeGitHub, ciguard: Ciguard, tmp_path: Path
) -> None:
    """After "Re-run failed jobs": what it uploaded in attempt 1 is of the failure before."""
    plan = make_plan()
    named = tuple(replace(shard, job=f"Unit {int(shard.key)}") for shard in plan.shards)
    (tmp_path / "plan.json").write_bytes(plan_codec.encode(replace(plan, shards=named)))
    for shard in SHARDS:
        upload(server, shard)
        add_job(server, f"Unit {int(shard)}", "failure" if shard == "02" else "success")
    times = {"started_at": SECOND, "completed_at": SECOND}
    add_job(server, "Unit 2", "cancelled", attempt=2, **times)  # type: ignore[arg-type]
    stored = ("--history", "past.ciguard")
    answer = call("history", "add", *WORDS, *stored, *NAMED)
    assert "1 of 3 shards and 2 tests lost: 02" in answer.stderr
    shown = ciguard("history", "show", *stored, cwd=tmp_path).stdout
    assert "2/3" in shown


def test_history_says_which_artifacts_it_misses(call: Call, server: FakeGitHub) -> None:
    answer = call("history", "add", *WORDS, *NAMED, expect=3)
    assert "no artifact of run 7 has such a name; it has none" in answer.stderr
    upload(server, "01")
    call("history", "add", "--plan", "plan.json", *NAMED, expect=2)
