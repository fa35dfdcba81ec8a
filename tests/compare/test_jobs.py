"""Two runs without ciguard records: their jobs beside each other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
from compare.compare_factories import case, files_of
from fakegithub.actions import REPOSITORY, add_artifact, add_job
from guard.test_result_files import junit
from report.test_run import environ, server

from ciguard.compare.command import FORMATS
from ciguard.compare.comparison import exit_code
from ciguard.compare.comparison import triggered as triggered_by
from ciguard.compare.jobs import (
    JobTransition,
    compare_jobs_only,
    run_of_jobs,
)
from ciguard.model import FAIL_CONDITIONS
from ciguard.model.jobs import Job

if TYPE_CHECKING:
    from conftest import Ciguard, Golden
    from fakegithub.state import FakeGitHub

    from ciguard.compare.jobs import JobsComparison
    from ciguard.model import Ending

__all__ = ["environ", "server"]

SAMPLES = Path(__file__).parent.parent / "samples" / "compare"
BEGIN = datetime(2026, 11, 21, 10, tzinfo=UTC)
LIMIT = "The job has exceeded the maximum execution time of 45m0s"
SUFFIX = {"text": "txt", "markdown": "md", "json": "json"}
Ends = Mapping[str, str | None]


def jobs(conclusions: Ends, minutes: int = 5) -> list[Job]:
    """A job for each conclusion; None has not ended."""
    return [
        Job(
            number, name, 1, "completed" if how else "in_progress", how, BEGIN,
            BEGIN + timedelta(minutes=minutes + number) if how else None,
            url=f"https://github.com/octo-org/shop/actions/runs/7/job/{number}", head_sha="a" * 40,
        )
        for number, (name, how) in enumerate(conclusions.items(), 1)
    ]  # fmt: skip


def compared(before: Ends, after: Ends, endings: dict[str, Ending] | None = None) -> JobsComparison:
    old, new = jobs(before), jobs(after, 7)
    new = [replace(job, ending=(endings or {}).get(job.name)) for job in new]
    runs = (run_of_jobs("5", 5, old), run_of_jobs("branch:topic", 7, new))
    return compare_jobs_only(old, new, runs)


@pytest.mark.parametrize(
    ("before", "after", "state", "triggered"),
    [
        ("success", "success", "same", ()),
        ("failure", "failure", "same", ()),
        ("success", "failure", "worse", ("new-failure",)),
        (None, "failure", "worse", ("new-failure",)),
        ("skipped", "startup_failure", "worse", ("new-failure",)),
        ("success", "timed_out", "worse", ("timeout",)),
        ("success", "cancelled", "inconclusive", ("incomplete",)),
        ("failure", "cancelled", "inconclusive", ("incomplete",)),
        ("cancelled", "failure", "inconclusive", ()),
        ("cancelled", "success", "better", ()),
        ("cancelled", "cancelled", "inconclusive", ()),
        ("timed_out", "cancelled", "inconclusive", ()),
        ("failure", "success", "better", ()),
        ("success", "skipped", "inconclusive", ()),
        ("success", None, "inconclusive", ()),
        (None, "success", "inconclusive", ()),
        ("success", "a word of tomorrow", "inconclusive", ()),
    ],
)
def test_state_and_conditions_of_one_job(
    before: str | None, after: str | None, state: str, triggered: tuple[str, ...]
) -> None:
    old, new = ({"lint": "success", **({"t": how} if how else {})} for how in (before, after))
    found = compared(old, new)
    assert found.state == state
    assert triggered_by(found, FAIL_CONDITIONS) == triggered
    assert triggered_by(found, ()) == ()
    code = 13 if "incomplete" in triggered else 10 if triggered else 0
    assert exit_code(found, FAIL_CONDITIONS) == code
    assert exit_code(found, FAIL_CONDITIONS, strict=True) == (code or 12)


def test_gain_and_loss_are_mixed() -> None:
    assert compared({"a": "success", "b": "failure"}, {"a": "failure", "b": "success"}).state == (
        "mixed"
    )


def test_nothing_is_better_while_a_job_is_cancelled() -> None:
    before, after = {"a": "cancelled", "b": "cancelled"}, {"a": "success", "b": "cancelled"}
    assert compared(before, after).state == "inconclusive"
    assert compared({**before, "b": "skipped"}, after).state == "inconclusive"


def test_a_job_that_was_cancelled_at_its_limit_timed_out() -> None:
    found = compared({"t": "success"}, {"t": "cancelled"}, {"t": "timeout"})
    assert triggered_by(found, FAIL_CONDITIONS) == ("timeout", "incomplete")
    superseded = compared({"t": "success"}, {"t": "cancelled"}, {"t": "superseded"})
    assert triggered_by(superseded, ["timeout"]) == ()


def sample() -> JobsComparison:
    before: Ends = {
        "build": "success", "tests (A-I)": "success", "tests (J-R)": "cancelled",
        "tests (S-Z)": "failure", "tests (legacy)": "success", "lint": "success",
        "docs": "success", "deploy": "success", "tests (slow)": "cancelled",
    }  # fmt: skip
    after: Ends = {
        "build": "success", "tests (A-I)": "cancelled", "tests (J-R)": "failure",
        "tests (S-Z)": "success", "tests (0-9)": "success", "lint": "failure",
        "docs": "skipped", "deploy": None, "tests (slow)": "cancelled",
    }  # fmt: skip
    return compared(before, after, {"tests (A-I)": "timeout", "tests (slow)": "timeout"})


def test_every_transition_has_a_place_in_the_order() -> None:
    found = sample()
    assert {one.transition for one in found.changes} == {*get_args(JobTransition), None}
    assert [one.name for one in found.changes] == [
        "lint", "tests (A-I)", "tests (slow)", "docs", "tests (legacy)", "tests (0-9)", "deploy",
        "tests (J-R)", "tests (S-Z)",
    ]  # fmt: skip


@pytest.mark.parametrize("shape", SUFFIX)
def test_comparison_of_jobs_in_each_format(golden: Golden, shape: str) -> None:
    golden(FORMATS[shape](sample()), SAMPLES / f"jobs_only.{SUFFIX[shape]}")


def test_html_page_has_the_same_words() -> None:
    page = FORMATS["html"](sample())
    assert "no ciguard records, so only jobs are compared" in page
    assert "cancelled (timeout)" in page


# --- The command ----------------------------------------------------------------------------------


@pytest.fixture
def runs(server: FakeGitHub) -> FakeGitHub:
    """Runs 5 and 7, with artifacts that are no records."""
    for run, how in ((5, "success"), (7, "cancelled")):
        add_job(server, "lint", run=run)
        add_job(server, "tests (A-I)", how, run=run, annotations=[LIMIT])
        add_artifact(server, "coverage", {"x": b""}, run=run)
    return server


WORDS = ("compare", "5", "7", "--repo", REPOSITORY)


def test_jobs_of_runs_without_records_are_compared(
    ciguard: Ciguard, environ: dict[str, Any], runs: FakeGitHub, tmp_path: Path
) -> None:
    done = ciguard(*WORDS, cwd=tmp_path, **environ)
    assert done.stdout.startswith(
        "INCONCLUSIVE: no ciguard records, so only jobs are compared: 1 job newly\ncancelled (1 at "
        "the time limit, after at least 5 min 00 s),"
    )
    assert "success -> cancelled (timeout)  5 min 00 s -> 5 min 00 s" in done.stdout
    assert "(n = 1)" in done.stdout
    assert not [one for one in runs.request_log() if one.endswith("/zip")]
    for condition, code in (("timeout", 10), ("incomplete", 13), ("new-failure", 0)):
        ciguard(*WORDS, "--fail-on", condition, cwd=tmp_path, expect=code, **environ)
    done = ciguard(*WORDS, "--fail-on", "memory,oom", "--format", "json", cwd=tmp_path, **environ)
    assert done.stderr == "warning: --fail-on memory,oom: not known of runs without records\n"
    found = json.loads(done.stdout)
    (change,) = found["changes"]
    assert (found["records"], change["name"], change["ending"]) == (False, "tests (A-I)", "timeout")


def test_a_rerun_job_counts_in_the_attempt_that_is_named(
    ciguard: Ciguard, environ: dict[str, Any], runs: FakeGitHub, tmp_path: Path
) -> None:
    add_job(runs, "tests (A-I)", "failure", attempt=2)
    words = ("compare", "7/1", "7/2", "--repo", REPOSITORY)
    shown = ciguard(*words, cwd=tmp_path, **environ).stdout
    assert "cancelled -> failure" in shown
    assert "candidate  run 7/2, aaaaaaa\n" in shown


def test_a_run_with_records_is_not_compared_with_one_without(
    ciguard: Ciguard, environ: dict[str, Any], runs: FakeGitHub, tmp_path: Path
) -> None:
    files = files_of({"01": [case("a", 1.0)]}, run_id=8)
    add_artifact(runs, "ciguard-record-p-01-1", files, run=8)
    add_job(runs, "tests (01)", run=8)
    for pair, states in (("7 8", "HEAD: 8: run 7 has no"), ("8 7", "BASE: 8: run 7 has no")):
        words = ("compare", *pair.split(), "--repo", REPOSITORY)
        done = ciguard(*words, cwd=tmp_path, expect=3, **environ)
        assert f"{states} ciguard records to compare with" in done.stderr


def test_records_that_have_expired_are_not_replaced_by_jobs(
    ciguard: Ciguard, environ: dict[str, Any], runs: FakeGitHub, tmp_path: Path
) -> None:
    add_artifact(runs, "ciguard-record-p-01-1", b"", expired=True)
    done = ciguard(*WORDS, cwd=tmp_path, expect=3, **environ)
    assert "has no record among its artifacts" in done.stderr
    assert "it has expired" in done.stderr


def test_refused_annotations_are_a_warning(
    ciguard: Ciguard, environ: dict[str, Any], runs: FakeGitHub, tmp_path: Path
) -> None:
    runs.annotations.clear()
    done = ciguard(*WORDS, cwd=tmp_path, **environ)
    assert "warning: run 7: not known: why jobs were cancelled: " in done.stderr
    assert "1 job newly\ncancelled" in done.stdout


@pytest.fixture
def stopped(server: FakeGitHub) -> FakeGitHub:
    """Eight shards of run 5 are cancelled, and five of run 7: four at their limit."""
    for run, count in ((5, 8), (7, 5)):
        for n in range(10):
            how = {"conclusion": "cancelled", "completed_at": "2026-11-21T10:45:20Z"}
            how["annotations"] = [LIMIT] if n else []  # type: ignore[assignment]
            add_job(server, f"tests ({n:02})", run=run, **(how if n < count else {}))  # type: ignore[arg-type]
            add_artifact(server, f"results-{n:02}", {"r.xml": junit([f"t.{n}::a"])}, run=run)
    return server


@pytest.mark.parametrize("results", [False, True])
def test_shards_that_are_still_cancelled_are_in_the_headline(
    ciguard: Ciguard, environ: dict[str, Any], stopped: FakeGitHub, tmp_path: Path, results: bool
) -> None:
    more = ("--results", "results-{shard}/*.xml") if results else ()
    text = ciguard(*WORDS, *more, cwd=tmp_path, **environ).stdout
    headline, _, rest = " ".join(text.split()).partition(" base ")
    still = "5 jobs still cancelled (4 at the time limit, after at least 45 min 20 s)"
    assert still in headline
    assert "3 jobs unblocked" in headline
    assert headline.startswith("INCOMPLETE: " if results else "INCONCLUSIVE: ")
    if results:
        assert " 01 timeout " in rest
        assert " 07 timeout -> completed " in rest
        ciguard(*WORDS, *more, "--fail-on", "timeout", cwd=tmp_path, **environ)
