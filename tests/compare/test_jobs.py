"""Jobs as GitHub knows them: changed conclusions, billed minutes, and two runs without records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from compare.compare_factories import case, column_run, files_of, run_of
from conftest import Ciguard, Golden
from fakegithub.actions import REPOSITORY, add_artifact, add_job
from fakegithub.state import FakeGitHub
from guard.test_result_files import junit

from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import Context, compare_run
from ciguard.compare.comparison import exit_code
from ciguard.compare.comparison import triggered as triggered_by
from ciguard.compare.jobs import (
    JobChange,
    JobsComparison,
    JobTransition,
    compare_jobs,
    compare_jobs_only,
    job_changes,
    run_of_jobs,
)
from ciguard.compare.legs import Cost, cost
from ciguard.compare.run_columns import Run
from ciguard.compare.wording import headline
from ciguard.model import FAIL_CONDITIONS, Ending
from ciguard.model.jobs import Job

SAMPLES = Path(__file__).parent.parent / "samples" / "compare"
BEGIN = datetime(2026, 11, 21, 10, tzinfo=UTC)
LIMIT = "The job has exceeded the maximum execution time of 45m0s"
SUFFIX = {"text": "txt", "markdown": "md", "json": "json"}
Ends = Mapping[str, str | None]
START, END = "Current runner version: '2.330.0'\n", "Cleaning up orphan processes\n"
ALLOCATOR = (  # real, from a run of JAX
    "W tensorflow/tsl/framework/bfc_allocator.cc:482] Allocator (GPU_2_bfc) ran out of memory "
    "trying to allocate 48.16GiB (rounded to 51712165888)requested by op\n"
)
XLA = (
    "W hlo_rematerialization.cc:3423] Can't reduce memory use below 10.64GiB (11429599132 bytes) "
    "by rematerialization; only reduced to {}, down from 71.05GiB (76287081352 bytes) originally\n"
)
LARGE = XLA.format("67.69GiB (72679996812 bytes)")
SMALL = XLA.format("56.60GiB (60773787238 bytes)")


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


@pytest.fixture
def runs(server: FakeGitHub) -> FakeGitHub:
    """Runs 5 and 7, with artifacts that are no records."""
    for run, how in ((5, "success"), (7, "cancelled")):
        add_job(server, "lint", run=run, log=START + END)
        add_job(server, "tests (A-I)", how, run=run, annotations=[LIMIT], log=START + END)
        add_artifact(server, "coverage", {"x": b""}, run=run)
    return server


WORDS = ("compare", "5", "7", "--repo", REPOSITORY)


def test_jobs_of_runs_without_records_are_compared(
    ciguard: Ciguard, environ: dict[str, Any], runs: FakeGitHub, tmp_path: Path
) -> None:
    done = ciguard(*WORDS, cwd=tmp_path, **environ)
    assert done.stdout.startswith(
        "INCONCLUSIVE: no ciguard records, so only jobs and logs are compared: 1 job\nnewly "
        "cancelled (1 at the time limit, after at least 5 min 00 s),"
    )
    assert "success -> cancelled (timeout)  5 min 00 s -> 5 min 00 s" in done.stdout
    assert "(n = 1)" in done.stdout
    assert not [one for one in runs.request_log() if one.endswith("/zip")]
    for condition, code in (("timeout", 10), ("incomplete", 13), ("new-failure", 0)):
        ciguard(*WORDS, "--fail-on", condition, cwd=tmp_path, expect=code, **environ)
    done = ciguard(*WORDS, "--fail-on", "memory,oom", "--format", "json", cwd=tmp_path, **environ)
    assert done.stderr == "warning: --fail-on memory: unknown for runs without records\n"
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
    assert "newly cancelled" in done.stdout


@pytest.mark.parametrize(
    ("texts", "state", "words"),
    [
        ((LARGE + ALLOCATOR, SMALL), "BETTER", "logs: 1 failure less often; values: 1 better, 1 "),
        ((SMALL, LARGE + ALLOCATOR), "WORSE", "logs: 1 failure more often; values: 1 worse, 1 "),
        ((LARGE + ALLOCATOR, SMALL + ALLOCATOR), "BETTER", "logs: values: 1 better, 1 equal"),
        (
            ("passed\n", "passed\n"),
            "NO DIFFERENCE",
            "3 jobs with the same conclusion; logs: no values",
        ),
        ((LARGE, ""), "INCONCLUSIVE", "logs: the logs have no value in common; the "),
        ((LARGE, None), "INCONCLUSIVE", "logs: a log of the candidate is missing on GitHub"),
        ((None, ALLOCATOR), "INCONCLUSIVE", "logs: a log of the base is missing on GitHub"),
    ],
)
def test_logs_of_runs_without_records_are_compared(  # noqa: PLR0917
    ciguard: Ciguard, environ: dict[str, Any], server: FakeGitHub, tmp_path: Path,
    texts: tuple[str | None, str | None], state: str, words: str,
) -> None:  # fmt: skip
    for run, text in zip((5, 7), texts, strict=True):
        add_job(server, "lint", run=run, log=START + END)
        add_job(server, "docs", "skipped", run=run, steps=())
        log = None if text is None else START + text + END
        number = add_job(server, f"tests ({f'{run}' * 7})", run=run, log=log)
        next(job for job in server.jobs if job["id"] == number)["head_sha"] = f"{run}" * 40
    shown = " ".join(ciguard(*WORDS, cwd=tmp_path, **environ).stdout.split())
    assert shown.startswith(f"{state}: no ciguard records, so only jobs ")
    assert words in shown
    logs = [call for call in server.request_log() if call.endswith("/logs")]
    assert len(logs) == 4  # one a job that ran
    code = 10 if state == "WORSE" else 0
    ciguard(*WORDS, "--fail-on", "oom", cwd=tmp_path, expect=code, **environ)


@pytest.mark.parametrize("case", ["not ended", "not executed", "too many"])
def test_logs_that_are_not_read(
    ciguard: Ciguard, environ: dict[str, Any], runs: FakeGitHub, tmp_path: Path, case: str
) -> None:
    if case == "not ended":
        runs.jobs[-1]["status"] = "in_progress"
    for found in runs.jobs if case == "not executed" else ():
        found |= {"conclusion": "skipped", "steps": []}
    for number in range(300 * (case == "too many")):
        add_job(runs, f"t{number}")
    done = ciguard(*WORDS, cwd=tmp_path, **environ)
    assert "so only jobs are compared" in done.stdout
    assert ("both runs have 304 logs, more than 300" in done.stderr) == (case == "too many")
    assert done.stdout.startswith("NO DIFFERENCE") == (case == "not executed")
    assert not [call for call in runs.request_log() if call.endswith("/logs")]


@pytest.mark.parametrize(
    ("before", "after", "own", "is_paired"),
    [
        ("test (a1b2c3d)", "test (e4f5a6b)", ("a1b2c3d", "e4f5a6b"), True),
        ("test (1234567)", "test (abcdefa)", ("1234567", "abcdefa"), True),
        (f"test ({'0a' * 20})", f"test ({'1b' * 20})", ("2", "3"), True),  # the merge of each
        ("test (a1b2c3d)", "test (e4f5a6b)", ("2", "3"), False),
        ("test (3.12)", "test (3.13)", ("2", "3"), False),
        (f"{'1' * 40},{'f' * 40}", f"{'2' * 40},{'e' * 40}", ("2", "3"), False),
    ],
)
def test_jobs_with_a_commit_in_their_name_are_paired(
    before: str, after: str, own: tuple[str, str], is_paired: bool
) -> None:
    sides = [
        [replace(job(name, "success"), head_sha=sha.ljust(40, "0")) for name in names.split(",")]
        for names, sha in zip((before, after), own, strict=True)
    ]
    names = [change.name for change in compare_jobs(sides[0], sides[1])]
    assert names == ([after] if is_paired else sorted(f"{before},{after}".split(",")))


def test_jobs_that_share_a_name_all_count() -> None:
    new = [job("t", "failure"), job("t", "success")]
    assert [change.after for change in compare_jobs(2 * new[1:], new)] == ["failure", "success"]


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


def job(name: str, conclusion: str | None, seconds: int = 61, attempt: int = 1) -> Job:
    end = BEGIN + timedelta(seconds=seconds)
    return Job(1, name, attempt, "completed", conclusion, BEGIN, end, url="https://x/1")


def job_text(change: JobChange) -> str:
    """ "cancelled -> success (unblocked)"."""
    found = f"{change.before or 'absent'} -> {change.after or 'absent'}"
    return f"{found} ({change.transition})" if change.transition else found


CHANGES = [
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


@pytest.mark.parametrize(("before", "after", "words"), CHANGES)
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
    assert "- -> 4 minutes (0.024 USD) (only the shards)" in FORMATS["text"](back)
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
