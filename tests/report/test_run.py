"""`guard --run` and `report --run`: a run that is somewhere else, from its artifacts alone."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
from codec.hostile_zips import HOSTILE
from conftest import Ciguard
from fakegithub.actions import add_artifact, add_job
from fakegithub.state import TOKEN, FakeGitHub, Fault
from guard.fixtures import World, make_leg
from serve.fake_runs import REPOSITORY, upload_artifacts, upload_record

from ciguard.model import EndLine


class Call(Protocol):
    def __call__(self, *words: str, expect: int = 0) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def call(tmp_path: Path, ciguard: Ciguard, environ: dict[str, str]) -> Call:
    """`ciguard VERB WORDS` in an empty folder, of run 7 where no other is named."""

    def call(*words: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        named = () if "--run" in words else ("--run", "7")
        repository = () if "--no-repo" in words else ("--repo", REPOSITORY)
        given = [word for word in (*words, *named, *repository) if word != "--no-repo"]
        done = ciguard(*given, cwd=tmp_path, expect=expect, **cast("Any", environ))
        assert TOKEN not in done.stdout + done.stderr
        return done

    return call


@pytest.fixture
def world(server: FakeGitHub) -> World:
    """Run 7, all green, on the server."""
    world = World()
    upload_artifacts(server, world)
    return world


@pytest.mark.parametrize(
    ("verb", "run"),
    [
        ("report", "7"),
        ("guard", "7/1"),
        ("guard", "https://github.com/octo-org/shop/actions/runs/7"),
    ],
)
def test_a_run_is_judged_from_its_artifacts(
    tmp_path: Path, call: Call, world: World, verb: str, run: str
) -> None:
    done = call(verb, "--run", run)
    assert "PASSED" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_local_report_links_the_run_and_its_jobs(call: Call, world: World) -> None:
    page = f"https://github.com/{REPOSITORY}/actions/runs/7"
    for run, address in (("7", page), ("7/2", f"{page}/attempts/2")):
        text = call("report", "--run", run).stdout
        assert f"[run 7]({address})" in text
        assert f"| [03]({page}/job/1002) | completed |" in text


def test_repository_is_read_from_the_checkout(tmp_path: Path, call: Call, world: World) -> None:
    for words in (["init", "-q"], ["remote", "add", "origin", f"git@github.com:{REPOSITORY}.git"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert "PASSED" in call("guard", "--no-repo").stdout


def test_leg_without_a_record_is_dead_and_explained_by_github(
    call: Call, server: FakeGitHub, tmp_path: Path, ciguard: Ciguard, environ: dict[str, str]
) -> None:
    world = World()
    del world.legs["02"]
    upload_artifacts(server, world)
    limit = "The job has exceeded the maximum execution time of 15m0s"
    add_job(server, "tests (02)", "cancelled", annotations=[limit])
    text = call("guard", expect=13).stdout
    assert "shard 02 of 3 has no record (timeout)" in text
    assert limit in " ".join(text.split())
    words = ("explain", "7", "--repo", REPOSITORY)
    text = ciguard(*words, cwd=tmp_path, **cast("Any", environ)).stdout
    assert text.startswith("INCOMPLETE: shard 02 of 3 has no record (timeout)")
    assert f"| {limit}" in text
    assert f"run: https://github.com/{REPOSITORY}/actions/runs/7" in text


def test_earlier_attempt_is_judged_without_later_ones(
    call: Call, server: FakeGitHub, world: World
) -> None:
    """In attempt 2 shard 02 ran again and was cut; in attempt 1 all was well."""
    rerun = make_leg(world.plan, "02", attempt=2)
    rerun.own = [line for line in rerun.own if not isinstance(line, EndLine)]
    upload_record(server, rerun)
    add_job(server, "tests (02)", "failure", attempt=2)
    call("guard", "--run", "7/1", expect=0)
    call("guard", "--run", "7", expect=13)


@pytest.mark.parametrize("name", ["bomb", "a link"])
def test_a_hostile_artifact_makes_the_run_incomplete(
    call: Call, server: FakeGitHub, world: World, name: str
) -> None:
    """Even one beside the records of all legs: what it would have said is not known."""
    content, output = HOSTILE[name]
    add_artifact(server, f"ciguard-record-{world.plan.id}-02-1-checkpoint-01", content)
    found = json.loads(call("guard", "--format", "json", expect=13).stdout)
    (finding,) = found["findings"]
    assert finding["kind"] == "unread_file"
    assert "-02-1-checkpoint-01" in finding["facts"]["problem"]
    assert output in finding["facts"]["problem"]
    assert found["missing"] == []


def test_records_decide_for_an_explicit_attempt(
    call: Call, server: FakeGitHub, world: World
) -> None:
    server.faults.append(Fault(path="/jobs", status=404, message="Not Found"))
    assert "does not consider how the jobs" in call("guard", "--run", "7/1").stdout


def test_run_without_a_plan_is_incomplete_in_a_report(call: Call, server: FakeGitHub) -> None:
    add_job(server, "plan", "failure")
    assert "no plan among its artifacts" in call("report", expect=13).stderr
    assert "pass it by --plan FILE" in call("guard", expect=3).stderr


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("--run", "7", "--records", "x"), "both --run and --records"),
        (("--run", "branch:main"), "expected a run"),
        (("--run", "7", "--expect", "2"), "--tests and --expect are for results without a plan"),
        (("--run", "7", "--no-repo"), "the repository is not known"),
        (("--run", "https://git.example/o/r/actions/runs/7"), "not sent to another server"),
    ],
)
def test_contradictory_options_are_usage_errors(
    call: Call, words: tuple[str, ...], output: str
) -> None:
    assert output in call("guard", *words, expect=2).stderr


def test_plan_or_run_option_is_required(tmp_path: Path, ciguard: Ciguard) -> None:
    assert "neither --plan, --run nor --results" in ciguard("guard", cwd=tmp_path, expect=2).stderr


def test_missing_token_error_names_the_variables(tmp_path: Path, ciguard: Ciguard) -> None:
    words = ("guard", "--run", "7", "--repo", REPOSITORY)
    assert "set GITHUB_TOKEN or GH_TOKEN" in ciguard(*words, cwd=tmp_path, expect=2).stderr


# --- What the run itself ran again ----------------------------------------------------------------

SUSPECT = "a.t::two"
CONFIRMATION = {
    "schema": 1,
    "complete": True,
    "stopped_because": "all runs",
    "failure": None,
    "head": "c" * 40,
    "pairs": [5],
}


def ran(run_id: int, day: int, mib: int) -> World:
    world = World().ran_as(run_id)
    world.result("01", SUSPECT, peak_delta_bytes=(mib << 20) + day, measured_by="mark")
    for leg in world.legs.values():
        sha = "c" * 40 if run_id == 7 else f"{run_id:040x}"
        at = f"2026-11-{day:02}T10:00:00Z"
        leg.header = replace(leg.header, started_at=at, tested_sha=sha, branch="main")
    return world


def write_past(tmp_path: Path, ciguard: Ciguard, runs: int) -> None:
    """The records of some runs, of which all are in the history."""
    for day in range(1, runs + 1):
        ran(100 + day, day, 20).write(tmp_path / "past" / str(day))
    ciguard("history", "add", "past", "--history", "h", cwd=tmp_path)


def test_report_and_compare_of_one_run_show_the_same_numbers(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    """Also if the base is a run that the history does not have."""
    write_past(tmp_path, ciguard, 3)
    ran(104, 4, 30).write(tmp_path / "other")
    plan, records = ran(7, 20, 40).write(tmp_path)
    words = ("--plan", plan, "--records", records, "--history", "h")
    ciguard("report", *words, "--comparison", "report.json", cwd=tmp_path)
    reported = json.loads((tmp_path / "report.json").read_bytes())
    assert reported["memory"]["losses"][0]["n"] == 3
    for base in ("other/records", "past/3/records", "base"):
        given = ("compare", base, records, "--history", "h", "--format", "json")
        compared = json.loads(ciguard(*given, cwd=tmp_path).stdout)
        for name in ("memory", "durations", "baseline"):
            assert compared[name] == reported[name], (base, name)


@pytest.fixture
def suspected(tmp_path: Path, ciguard: Ciguard, server: FakeGitHub) -> None:
    """Run 7 on the server, in which one test takes twice the memory of 12 runs before."""
    write_past(tmp_path, ciguard, 12)
    upload_artifacts(server, ran(7, 20, 40))


def upload_confirmation(
    server: FakeGitHub, verdict: str, name: str = "ciguard-confirmation-7-1"
) -> None:
    key = {"suite": "", "variant": "", "unit": SUSPECT, "case": SUSPECT}
    row = {"key": key, "measure": "peak_delta_bytes", "p": 0.001, "verdict": verdict}
    content = json.dumps({**CONFIRMATION, "rows": [row]}).encode()
    add_artifact(server, name, {"ciguard-confirmation.json": content})


@pytest.mark.usefixtures("suspected")
@pytest.mark.parametrize(
    ("verdict", "tier", "lines"), [("more memory", "confirmed", 1), ("-", "not confirmed", 0)]
)
def test_confirmation_by_the_judged_run_is_marked_as_a_claim(
    call: Call, server: FakeGitHub, verdict: str, tier: str, lines: int
) -> None:
    upload_confirmation(server, verdict)
    upload_confirmation(
        server, "more memory", "ciguard-confirmation-8-1"
    )  # another run's, whoever put it there
    text = unescape(call("report", "--history", "h").stdout)
    assert text.count("1 test needs more memory** (confirmed, 2 runs;") == lines
    assert f"| {tier} | 20.0 MiB | 40.0 MiB |" in text
    assert "- The judged run itself ran the experiment, and can have changed its result." in text


@pytest.mark.usefixtures("suspected")
def test_unreadable_confirmation_leaves_a_suspect_with_a_note(
    call: Call, server: FakeGitHub
) -> None:
    add_artifact(server, "ciguard-confirmation-7-1", {"ciguard-confirmation.json": b"{"})
    done = call("report", "--history", "h")
    assert "| suspect | 20.0 MiB | 40.0 MiB |" in unescape(done.stdout)
    assert "The result of the experiment cannot be read: no confirmation" in done.stdout
    assert "warning: ciguard-confirmation-7-1/ciguard-confirmation.json: " in done.stderr
