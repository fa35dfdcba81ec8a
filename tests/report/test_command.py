"""`ciguard report`: the comment at a fake GitHub, the summary, the exit codes."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from compare.compare_factories import case, files_of
from conftest import Ciguard
from fakegithub.actions import REPOSITORY, add_artifact, add_job
from fakegithub.state import FakeGitHub, Fault
from guard.fake_jobs import environ_of
from guard.fixtures import World, make_leg

from ciguard.text import step_outputs

NEEDS = json.dumps({"plan": {"result": "success"}, "legs": {"result": "failure"}})


@pytest.fixture
def server(server: FakeGitHub) -> FakeGitHub:
    server.pulls.add((REPOSITORY, 7))
    return server


class Job:
    """The report job of a pull request's run, over files that a test may damage."""

    def __init__(self, folder: Path, ciguard: Ciguard, server: FakeGitHub) -> None:
        self.folder = folder
        self.world = World()
        self._ciguard = ciguard
        event = {"pull_request": {"number": 7, "base": {"ref": "main"}, "head": {"sha": "a" * 40}}}
        (folder / "event.json").write_text(json.dumps(event))
        self.environ = {**environ_of(folder, server), "GITHUB_EVENT_NAME": "pull_request"}
        for name in ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_SHA"):
            del self.environ[name]

    def report(self, *words: str, expect: int = 0, **environ: str) -> CompletedProcess[str]:
        plan, records = self.world.write(self.folder)
        return self._ciguard(
            *("report", "--plan", plan, "--records", records, "--history", "none"),
            *words,
            cwd=self.folder,
            expect=expect,
            **{**self.environ, **environ},
        )


@pytest.fixture
def job(tmp_path: Path, ciguard: Ciguard, server: FakeGitHub) -> Job:
    return Job(tmp_path, ciguard, server)


def test_html_format_prints_the_page(job: Job) -> None:
    job.world.result("01", "a.t::two", outcome="failed", message="assert 1 == 2")
    words = ("--format", "html", "--html", "page.html", "--github")
    done = job.report(*words, expect=10)
    assert done.stdout.startswith("<!doctype html>")
    page = (job.folder / "page.html").read_text("utf-8")
    assert page.count("a.t::two") == done.stdout.count("a.t::two") > 0
    stored = job.report(*words, "-o", "same.html", expect=10)
    assert stored.stdout.startswith("1 of 8 tests failed")
    assert (job.folder / "same.html").read_text("utf-8") == page
    # The summary is Markdown whatever is printed.
    assert (job.folder / "summary.md").read_text("utf-8").startswith("### :x: 1 of 8")
    assert job.report("--format", "markdown", expect=10).stdout == job.report(expect=10).stdout
    refused = job.report("--format", "json", expect=2).stderr
    assert "'json' is not one of 'markdown', 'html'" in refused


def test_comment_is_created_then_unchanged_then_updated(job: Job, server: FakeGitHub) -> None:
    assert "comment created" in job.report("--comment").stderr
    (first,) = server.bodies()
    assert first.startswith("<!-- ciguard:tests.yml -->\n### :white_check_mark: PASSED")
    assert "comment unchanged" in job.report("--comment").stderr
    job.world.result("01", "a.t::two", outcome="failed", message="assert 1 == 2")
    assert "comment updated" in job.report("--comment", expect=10).stderr
    (second,) = server.bodies()
    assert "### :x: 1 of 8 tests failed" in second
    assert "assert 1 &#61;&#61; 2" in second or "assert 1 == 2" in second


def test_without_a_pull_request_there_is_no_comment(job: Job, server: FakeGitHub) -> None:
    (job.folder / "event.json").write_text("{}")
    done = job.report("--comment", GITHUB_EVENT_NAME="push")
    assert "no pull request" in done.stderr
    assert server.request_log() == []


def test_github_option_writes_annotations_outputs_and_summary(job: Job) -> None:
    job.world.result("01", "a.t::two", outcome="failed", message="no", file="a.t", line=3)
    done = job.report("--github", "--needs", NEEDS, expect=10)
    assert "::error file=a.t,line=3," in done.stderr
    assert "::" not in done.stdout.partition("\n")[0]
    assert "verdict<<ciguard_end\nfailed\n" in (job.folder / "outputs").read_text()
    assert (job.folder / "summary.md").read_text() == done.stdout


def test_run_without_a_plan_gets_an_incomplete_comment(
    job: Job, server: FakeGitHub, ciguard: Ciguard
) -> None:
    job.report("--comment")
    words = ("report", "--plan", "nowhere.json", "--records", "nowhere")
    failed = json.dumps({"plan": {"result": "failure"}, "legs": {"result": "skipped"}})
    more = ("--needs", failed, "--comment", "--github")
    ciguard(*words, *more, cwd=job.folder, expect=13, **job.environ)
    # No number is written: an output that is not set is empty.
    assert (job.folder / "outputs").read_text() == step_outputs(
        {
            "verdict": "incomplete",
            "complete": "false",
            "headline": "INCOMPLETE: this run has no plan",
        }
    )
    (body,) = server.bodies()
    assert "INCOMPLETE: this run has no plan" in body
    assert "nowhere.json: cannot be read" in body.replace("&#58;", ":")
    assert "job legs is &#39;skipped&#39;, job plan is &#39;failure&#39;. Fix: " in body
    # By hand nobody says that the plan's job failed: then it is a mistake of the caller.
    ciguard(*words, cwd=job.folder, expect=3)


@pytest.mark.parametrize(
    ("words", "config", "output"),
    [
        ((), "[plan]\nshards = 0\n", (2, "ciguard.toml")),
        (("--needs", "[]"), "", (3, "--needs: expected an object")),
        (("--run", "101"), "", (2, "both --run and --records")),
        (("--ignore-base-failures", "--history", "h"), "[guard]\nno_such = 1\n", (2, "no_such")),
    ],
)
def test_run_that_cannot_be_judged_leaves_no_passed_comment(
    words: tuple[str, ...], config: str, output: tuple[int, str], job: Job, server: FakeGitHub
) -> None:
    job.report("--comment")
    (job.folder / "ciguard.toml").write_text(config)
    done = job.report(*words, "--comment", "--html", "page.html", expect=output[0])
    assert output[1] in done.stderr
    (body,) = server.bodies()
    assert "### :warning: INCOMPLETE: this run could not be judged\n" in body
    assert "PASSED" not in body
    page = (job.folder / "page.html").read_text()
    assert '<h1 class="incomplete">INCOMPLETE: this run could not be judged</h1>' in page


def test_comparison_policy_decides_if_the_guard_passes(
    job: Job, ciguard: Ciguard, tmp_path: Path
) -> None:
    plan, records = job.world.write(tmp_path)
    history = ("--history", tmp_path / "history")
    output = ("--sha", "1" * 40, "--branch", "main", "--at", "2026-11-01T10:00:00Z")
    ciguard("history", "add", records, *history, *output, cwd=tmp_path)
    done = ciguard(
        *("report", "--plan", plan, "--records", records, *history, "-o", "out/comment.md"),
        cwd=tmp_path,
    )
    complete = (tmp_path / "out" / "comment.md").read_text()
    (verdict,) = done.stdout.splitlines()
    assert f" {verdict}\n" in complete
    assert verdict.startswith("PASSED: ")
    assert "comparison begins after 3 runs of main; 0 so far" in html.unescape(complete)


@pytest.mark.parametrize(
    "changes",
    [{"outcome": "died", "ending": "deadline"}, {"outcome": "died", "ending": "cancelled"}],
)
def test_incomplete_outranks_failed(job: Job, changes: dict[str, Any]) -> None:
    job.world.result("01", "a.t::one", outcome="failed")
    job.world.result("01", "a.t::two", **changes)
    assert "INCOMPLETE" in job.report(expect=13).stdout.partition("\n")[0]


def proposed(job: Job, run: int, mib: int) -> dict[str, Any]:
    """The job is that of a pull request's run, in which one test needs so much; its environment."""
    job.world.legs = {key: make_leg(job.world.plan, key, run=run) for key in job.world.legs}
    for leg in job.world.legs.values():
        leg.header = replace(
            leg.header,
            event="pull_request",
            head_sha="a" * 40,
            tested_sha="c" * 40,
            tested_parents=(f"{12:040x}", "a" * 40),
        )
    job.world.result("01", "a.t::one", wall_s=1.0, peak_delta_bytes=mib << 20, measured_by="mark")
    of_run = {"GITHUB_RUN_ID": str(run), "GITHUB_RUN_ATTEMPT": "1", "GITHUB_HEAD_REF": "topic"}
    return {**job.environ, **of_run}


def with_a_past(ciguard: Ciguard, server: FakeGitHub, world: World, folder: Path) -> Path:
    """A history of 12 runs of the base branch, which GitHub knows to come before."""
    past = {"plan_id": world.plan.id, "event": "push", "workflow": "tests.yml"}
    commits = [f"{number:040x}" for number in range(1, 13)]
    for number, sha in enumerate(commits, 1):
        for shard, units in (("01", ("a.t::one", "a.t::two")), ("02", ("b.t::one",))):
            results = [case(unit, 1.0, 100 + number / 100) for unit in units]
            at = f"2026-01-{number:02}T10:00:00Z"
            facts = {**past, "run_id": 20 + number, "started_at": at, "tested_sha": sha}
            for path, content in files_of({shard: results}, **facts).items():
                target = folder / "past" / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
    ciguard("history", "add", "past", "--history", "h", cwd=folder)
    between = f"{commits[0]}...{commits[-1]}"
    server.merge_bases[between] = commits[0]
    server.commits_of[between] = commits[1:]
    return folder / "h"


def test_previous_run_confirms_a_suspect(job: Job, server: FakeGitHub, ciguard: Ciguard) -> None:
    """Run 90 leaves its values, run 101 finds them: each report in at most 6 calls."""
    with_a_past(ciguard, server, job.world, job.folder)
    for name in job.world.legs:
        for run in (90, 101):
            add_job(server, f"tests ({name})")
            server.jobs[-1]["run_id"] = run
    options = ("--history", "h", "--values", "values.jsonl", "--comment", "--github")
    environ = proposed(job, 90, 200)
    plan, records = job.world.write(job.folder)
    words = ("report", "--plan", plan, "--records", records, *options)
    once = ciguard(*words, cwd=job.folder, **environ)
    assert "1 test needs more memory** (suspect, 1 run; " in once.stdout
    assert len(calls(server)) <= 6
    content = (job.folder / "values.jsonl").read_bytes()
    assert len(content) < sum(len(one) for one in job.world.files().values())
    uploading = {"id": 90, "repository_id": 1, "head_repository_id": 1, "head_branch": "topic"}
    name = outputs(job)["values_artifact"]
    add_artifact(server, name, {"values.jsonl": content}, run=90, workflow_run=uploading)
    server.exchanges.clear()
    environ = proposed(job, 101, 201)
    job.world.write(job.folder)
    twice = ciguard(*words, cwd=job.folder, **environ, expect=11)
    assert twice.stdout.startswith("### :x: FAILED: regression of memory; all 8 tests")
    assert "1 test needs more memory** (confirmed, 2 runs;" in twice.stdout
    thread = f"/repos/{REPOSITORY}/issues"
    assert calls(server) == [
        f"GET /repos/{REPOSITORY}/actions/runs/101/jobs",
        f"GET /repos/{REPOSITORY}/compare/{1:040x}...{12:040x}",
        f"GET /repos/{REPOSITORY}/actions/artifacts",
        f"GET /repos/{REPOSITORY}/actions/artifacts/1/zip",
        f"GET {thread}/7/comments",
        f"PATCH {thread}/comments/1",
    ]
    server.faults.append(Fault("GET", "/artifacts", status=403, times=9))
    failed = ciguard(*words, cwd=job.folder, **environ)
    assert "Nothing can be confirmed" in failed.stdout
    assert "more memory** (suspect, 1 run; " in failed.stdout


def test_report_says_which_tests_have_not_run(
    job: Job, server: FakeGitHub, ciguard: Ciguard
) -> None:
    with_a_past(ciguard, server, job.world, job.folder)
    for shard, unit in (("01", "a.t::two"), ("02", "c.t::four")):
        job.world.result(shard, unit, outcome="skipped", message="Skipped: needs <gpu>")
    for leg in job.world.legs.values():
        leg.header = replace(leg.header, started_at="2026-01-21T11:00:00Z")
    job.world.result("03", "d.t::six", outcome="skipped", message="xfail: no gpu")
    assert "1 new test ran nowhere: c.t::four." in job.report("--history", "h").stdout
    event = {"repository": {"full_name": REPOSITORY, "default_branch": "main"}}
    (job.folder / "event.json").write_text(json.dumps(event))
    of_push = {"GITHUB_EVENT_NAME": "push", "GITHUB_REF_NAME": "main"}
    shown = job.report("--history", "h", "--html", "page.html", expect=0, **of_push).stdout
    said = (
        "main is green; 1 test never ran (skipped: needs <gpu>); 1 test did not run for 9 days "
        "(skipped: needs <gpu>); executed 75.0 % of 8 listed tests."
    )
    assert "<gpu>" not in shown
    assert said in html.unescape(shown)
    assert said in html.unescape((job.folder / "page.html").read_text("utf-8"))
    other = job.report("--history", "h", expect=0, **{**of_push, "GITHUB_REF_NAME": "topic"}).stdout
    assert "did not run" not in other


def calls(server: FakeGitHub) -> list[str]:
    """Without those to the storage, which GitHub does not count."""
    return [one for one in server.request_log() if "/storage/" not in one]


def outputs(job: Job) -> dict[str, str]:
    lines = (job.folder / "outputs").read_text().splitlines()
    return dict(zip((x.partition("<<")[0] for x in lines[::3]), lines[1::3], strict=True))


def test_run_without_pull_request_writes_no_values(job: Job) -> None:
    (job.folder / "event.json").write_text("{}")
    of_push: dict[str, Any] = {"GITHUB_EVENT_NAME": "push", "GITHUB_REF_NAME": "main"}
    job.report("--values", "values.jsonl", "--github", **of_push)
    assert not (job.folder / "values.jsonl").exists()
    assert outputs(job)["values_artifact"] == ""


SEARCH = "ciguard-culprit-comparison"
ON_RED = '[culprit]\non_red = true\nbudget = "20m"\nper_day = "60m"\n'
FAILED = {"outcome": "failed", "message": "no"}


class Push:
    """The report job of a push to the base branch, after 12 runs that passed."""

    def __init__(self, job: Job, server: FakeGitHub, ciguard: Ciguard) -> None:
        self.job, self.server, self._ciguard = job, server, ciguard
        with_a_past(ciguard, server, job.world, job.folder)
        self.event = {"repository": {"full_name": REPOSITORY, "default_branch": "main"}}
        (job.folder / "event.json").write_text(json.dumps(self.event))
        (job.folder / "ciguard.toml").write_text(ON_RED)

    def report(self, expect: int = 10, **environ: str) -> str:
        """Return the output `culprit`."""
        plan, records = self.job.world.write(self.job.folder)
        words = ("report", "--plan", plan, "--records", records, "--history", "h", "--github")
        of_push = {"GITHUB_EVENT_NAME": "push", "GITHUB_REF_NAME": "main"}
        for name in ("outputs", "summary.md"):
            (self.job.folder / name).unlink(missing_ok=True)
        self._ciguard(
            *(*words, "--comparison", "comparison.json"),
            cwd=self.job.folder,
            expect=expect,
            **{**self.job.environ, **of_push, **environ},
        )
        return outputs(self.job)["culprit"]

    def start_search(self, age: timedelta, **facts: Any) -> None:
        """Put the artifact of an earlier search into the repository."""
        of_base = {"id": 6, "repository_id": 1, "head_repository_id": 1, "head_branch": "main"}
        at = f"{datetime.now(UTC) - age:%Y-%m-%dT%H:%M:%SZ}"
        uploading = {**of_base, **facts}
        add_artifact(self.server, SEARCH, {}, run=6, created_at=at, workflow_run=uploading)

    @property
    def note(self) -> str:
        return (self.job.folder / "summary.md").read_text("utf-8").splitlines()[-1]


@pytest.fixture
def push(job: Job, server: FakeGitHub, ciguard: Ciguard) -> Push:
    return Push(job, server, ciguard)


@pytest.mark.parametrize(
    ("shard", "unit", "changes", "artifact"),
    [
        ("01", "a.t::two", FAILED, SEARCH),
        ("01", "a.t::two", {"outcome": "died", "ending": "timeout"}, SEARCH),
        ("02", "c.t::four", FAILED, ""),  # of a new test, no commit is good
    ],
)
def test_push_with_a_newly_failing_test_starts_a_search(
    push: Push, shard: str, unit: str, changes: dict[str, Any], artifact: str
) -> None:
    push.job.world.result(shard, unit, **changes)
    assert push.report() == artifact
    assert push.server.request_log().count(f"GET /repos/{REPOSITORY}/actions/artifacts") == bool(
        artifact
    )
    kinds = json.loads((push.job.folder / "comparison.json").read_bytes())["transitions"]
    assert unit in {one["key"]["unit"] for one in kinds}


def test_only_a_push_to_the_base_starts_a_search(push: Push) -> None:
    assert push.report(expect=0) == "", "nothing fails"
    push.job.world.result("01", "a.t::two", **FAILED)
    assert push.report(GITHUB_REF_NAME="topic") == ""
    assert push.report(GITHUB_EVENT_NAME="schedule") == ""
    assert push.report(GITHUB_RUN_ATTEMPT="2") == ""
    event = {"pull_request": {"number": 7, "base": {"ref": "main"}, "head": {"sha": "a" * 40}}}
    (push.job.folder / "event.json").write_text(json.dumps(event))
    assert push.report(GITHUB_EVENT_NAME="pull_request", GITHUB_HEAD_REF="main") == ""
    (push.job.folder / "event.json").write_text("{}")
    assert push.report() == "", "which branch is the base is not known"
    (push.job.folder / "event.json").write_text(json.dumps(push.event))
    (push.job.folder / "ciguard.toml").write_text("")
    assert push.report() == ""


def test_searches_of_a_day_have_a_budget(push: Push) -> None:
    push.job.world.result("01", "a.t::two", **FAILED)
    hour = timedelta(hours=1)
    push.start_search(hour)
    push.start_search(23 * hour)
    push.start_search(25 * hour)
    push.start_search(hour, head_branch="topic")
    push.start_search(hour, head_repository_id=2)  # a fork whose branch is called alike
    assert push.report() == SEARCH
    push.start_search(2 * hour)
    assert push.report() == ""
    assert push.note == (
        "ciguard does not search for the commit: the searches of 24 hours could then take 1 h "
        "20 min, and `culprit.per_day` is 1 h 00 min."
    )
    push.server.faults.append(Fault("GET", "/artifacts", status=403, times=9))
    assert push.report() == ""
    assert "earlier searches are not known" in push.note
