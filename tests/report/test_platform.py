"""`ciguard report` and `guard` in a run: what they ask of GitHub, and what they do without it."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from conftest import Ciguard
from fakegithub.actions import REPOSITORY, add_job
from fakegithub.server import serving
from fakegithub.state import FakeGitHub, Fault, Login
from guard.fake_jobs import TOKEN, environ_of
from guard.fixtures import World, make_plan

from ciguard.model import EndLine, ProcessEndLine, Result

JOBS = f"GET /repos/{REPOSITORY}/actions/runs/7/jobs"
SHUTDOWN = "The runner has received a shutdown signal. This can happen when `x` | <b> is stopped."
FAILED = (("Set up job", "success"), ("Run the shard", "failure"), ("Upload", "success"))
NEEDS = json.dumps({"plan": {"result": "success"}, "legs": {"result": "failure"}})
PULL = {"pull_request": {"number": 7, "base": {"ref": "main"}, "head": {"sha": "a" * 40}}}


@pytest.fixture
def server(server: FakeGitHub) -> FakeGitHub:
    server.pulls.add((REPOSITORY, 7))
    return server


class Run:
    """The last job of run 7; shards 02 and 03 died, 03 in the midst of a test."""

    def __init__(self, folder: Path, ciguard: Ciguard, server: FakeGitHub) -> None:
        self.folder = folder
        self.world = World(plan=make_plan(job_minutes=15))
        self._ciguard = ciguard
        self.environ = environ_of(folder, server)
        self.happens("pull_request", PULL)

    def happens(self, name: str, event: dict[str, Any]) -> None:
        (self.folder / "event.json").write_text(json.dumps(event))
        self.environ["GITHUB_EVENT_NAME"] = name

    def call(self, *words: str, expect: int, **environ: str) -> CompletedProcess[str]:
        plan, records = self.world.write(self.folder)
        done = self._ciguard(
            *(words[0], "--plan", plan, "--records", records),
            *words[1:],
            cwd=self.folder,
            expect=expect,
            **{**self.environ, **environ},
        )
        assert TOKEN not in done.stdout + done.stderr
        return done

    def report(self, *words: str, expect: int, **environ: str) -> CompletedProcess[str]:
        return self.call("report", "--history", "none", *words, expect=expect, **environ)


@pytest.fixture
def run(tmp_path: Path, ciguard: Ciguard, server: FakeGitHub) -> Run:
    return Run(tmp_path, ciguard, server)


def die(run: Run, server: FakeGitHub) -> None:
    """Shard 02 was superseded and left nothing, 03 was shut down: only its log says so."""
    del run.world.legs["02"]
    run.world.drop("03", EndLine, ProcessEndLine)
    run.world.drop("03", Result, unit="d.t::eight")
    superseded = "Canceling since a higher priority waiting request for 'tests-7' exists"
    add_job(server, "tests (01)")
    add_job(server, "tests (02)", "cancelled", annotations=[superseded], log="never asked for")
    add_job(server, "tests (03)", "failure", steps=FAILED, log=f"##[error]{SHUTDOWN}\n")


def test_report_explains_each_dead_leg_in_few_calls(run: Run, server: FakeGitHub) -> None:
    die(run, server)
    text = run.report("--comment", "--github", "--needs", NEEDS, expect=13).stdout
    assert text.startswith(
        "### :warning: INCOMPLETE: shard 02 of 3 has no record (superseded); shard 03 of 3 did not "
        "end by itself (runner shutdown);"
    )
    assert "  - annotation: <code>Canceling since a higher priority waiting request" in text
    assert "shutdown signal. This can happen when &#96;x&#96; &#124; &#60;b&#62;" in text
    assert "  - the test that was running: <code>d.t::eight</code>" in text
    assert "Nothing to do: the newer run replaces it." in text
    page = f"https://github.com/{REPOSITORY}/actions/runs/7/job/1002"
    assert f"| [03]({page}) | runner shutdown |" in text
    assert f"</code>](https://github.com/{REPOSITORY}/actions/runs/7/job/1002)" in text
    (body,) = server.bodies()
    assert "superseded" in body
    requested = [one for one in server.request_log() if "/storage/" not in one]
    assert requested.count(JOBS) == 1
    assert [one for one in requested if one.endswith("/logs")] == [
        f"GET /repos/{REPOSITORY}/actions/jobs/1002/logs"
    ]
    assert len(requested) <= 6 + 2 * 2


def test_guard_text_and_json_explain_dead_legs(run: Run, server: FakeGitHub) -> None:
    die(run, server)
    text = run.call("guard", expect=13).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert f"\n  - log: {SHUTDOWN[:30]}" in text
    found = json.loads(run.call("guard", "--format", "json", expect=13).stdout)
    assert [one["ending"] for one in found["legs"]] == [
        "completed",
        "superseded",
        "runner_shutdown",
    ]
    last = next(one for one in found["findings"] if one["shard"] == "03")
    assert last["culprits"] == [{"suite": "", "variant": "", "unit": "d.t::eight"}]
    assert [one["kind"] for one in last["evidence"]] == ["log", "job"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(path="/jobs", status=403, message="Resource not accessible"), "actions: read"),
        (Fault(path="/jobs", status=404, message="Not Found"), "404"),
        (Fault(path="/jobs", status=429, headers={"Retry-After": "9999"}), "wait 9999 s"),
        (Fault(path="/jobs", status=502, text="<html>", times=9), "502"),
        (Fault(path="/jobs", status=0, times=9), "no answer"),
    ],
)
def test_records_decide_if_github_is_unavailable(
    run: Run, server: FakeGitHub, fault: Fault, words: str
) -> None:
    for shard in ("01", "02", "03"):
        add_job(server, f"tests ({shard})")
    server.faults.append(fault)
    text = run.call("guard", expect=0).stdout
    assert "the verdict does not consider how the jobs ended" in text.replace("\n  ", " ")
    assert words in text.replace("\n  ", " ")


def test_missing_token_is_reported(run: Run, server: FakeGitHub) -> None:
    text = run.call("guard", expect=0, GITHUB_TOKEN="").stdout
    assert (
        "the verdict does not consider how the jobs ended: there is no GITHUB_TOKEN"
        in text.replace("\n  ", " ")
    )
    assert server.request_log() == []


def test_run_of_a_fork_is_explained_without_a_comment(run: Run, server: FakeGitHub) -> None:
    die(run, server)
    server.tokens[TOKEN] = Login(may_write=False)
    head = {"sha": "a" * 40, "repo": {"full_name": "stranger/shop"}}
    run.happens("pull_request", {"pull_request": {**PULL["pull_request"], "head": head}})
    done = run.report("--comment", "--github", expect=13)
    assert "(superseded)" in done.stdout.partition("\n")[0]
    assert server.bodies() == []
    assert "set `forks = true` under `[workflow]`" in (run.folder / "summary.md").read_text()


def test_workflow_run_event_judges_the_triggering_run(run: Run, server: FakeGitHub) -> None:
    die(run, server)
    run.happens("workflow_run", {"workflow_run": {"id": 7, "run_attempt": 1}})
    done = run.call("guard", expect=13, GITHUB_RUN_ID="99")
    assert "(superseded)" in done.stdout
    assert server.request_log()[0] == JOBS


def test_enterprise_server_run_is_explained(tmp_path: Path, ciguard: Ciguard) -> None:
    with serving(prefix="/api/v3") as server:
        server.tokens[TOKEN] = Login()
        run = Run(tmp_path, ciguard, server)
        die(run, server)
        assert "(runner shutdown)" in run.call("guard", expect=13).stdout.replace("\n", " ")
