"""A run from the work list to its comment, rows, results and history, at a fake GitHub."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from conftest import Ciguard
from fakegithub.actions import TIP, add_artifact, add_job, add_run
from fakegithub.apps import FakeRepository
from fakegithub.state import Fault
from guard import damages
from guard.fixtures import VERDICT_SCHEMA, World, make_leg, make_plan, passed
from loopback import serving
from run.leg_runner import until
from serve.fake_runs import (
    BASE,
    BY_SERVICE,
    HEAD,
    MERGE,
    REPOSITORY,
    STARTED,
    failing_world,
    of_pull_request,
)
from serve.pages.filled import found_culprits
from serve.work.judging import (
    TOKEN,
    Scene,
    judge_job,
    judge_while,
    scene,
    server,
    service,
    stored_verdict,
)
from starlette.applications import Starlette
from starlette.responses import Response

from ciguard.codec import plan_file as plan_codec
from ciguard.culprit.answer import json_text
from ciguard.errors import RemoteError
from ciguard.model import Pool, Runner
from ciguard.render.pages import charted_runs, find_trends
from ciguard.serve import raw_archives, stored_answers
from ciguard.serve.application import build_application
from ciguard.serve.pages.repository_page import shard_uses
from ciguard.serve.service import Service
from ciguard.serve.state import (
    pauses,
    repositories,
    run_rows,
    schema,
    tokens,
    work_list,
)
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.work_list import NewWork
from ciguard.serve.work import judge_job as judging_module
from ciguard.serve.work.reconcile import reconcile
from ciguard.serve.work.run_summary import culprit_facts
from ciguard.serve.work.worker import Worker

__all__ = ["scene", "server", "service"]


def test_judged_run_is_explained_to_those_who_may_read_it(scene: Scene, ciguard: Ciguard) -> None:
    scene.upload(failing_world(), 7)
    row = scene.judge(7)
    with scene.service.database.write() as connection:
        repositories.upsert(connection, [Repository(1, REPOSITORY, True, "main")])
        secret = tokens.create(connection, row.key.repository_id).secret
        of_pages = tokens.create(connection, row.key.repository_id, tokens.PAGES_PREFIX).secret
    with serving(build_application(scene.service)) as address:
        page = f"{address}/{REPOSITORY}/runs"
        own = ("--history", f"{address}/api/v1/repos/{REPOSITORY}/history")

        def explain(*words: str, expect: int = 0) -> str:
            token = {"CIGUARD_HISTORY_TOKEN": of_pages if "--service" in words else secret}
            done = ciguard("explain", *words, cwd=scene.folder, expect=expect, **token)
            return done.stdout + done.stderr

        text = explain(f"{page}/7/1", *own)
        assert text.startswith("1 of 8 tests failed")
        assert "message: | assert 1 == 2" in text
        assert text.endswith("source: service\n")
        assert "whose: unknown" in explain(f"{page}/7/1/comparison", "two", *own)
        assert "no such test" in explain(f"{page}/7/1", "none", *own, expect=3)
        assert "no answer for this run" in explain(f"{page}/8/1", *own, expect=3)
        # The token is for the service whose history is configured, not for any address.
        assert "may not read it" in explain(f"{page}/7/1", expect=4)
        of_service = ("--repo", REPOSITORY, "--service", address)
        for run in ("7", "7/1", "branch:main"):
            assert explain(run, *of_service) == text
        assert "whose: unknown" in explain("7", "two", *of_service)
        for run in ("8", "7/2", "branch:none"):
            assert "has judged no such run" in explain(run, *of_service, expect=3)
        assert "no run of a service" in explain("base", *of_service, expect=2)
        assert "no run of a service" in explain("7", *of_service[:3], f"{address}/p", expect=2)
        with serving(Starlette(exception_handlers={404: lambda *_: Response("no")})) as other:
            assert "no list of runs" in explain("7", *of_service[:3], other, expect=3)


def test_run_planned_without_timings_has_no_bound(scene: Scene) -> None:
    plan = make_plan()
    shards = tuple(
        replace(one, units=tuple(replace(unit, has_history=False) for unit in one.units))
        for one in plan.shards
    )
    plan = plan_codec.decode(plan_codec.encode(replace(plan, id="", shards=shards)), "plan.json")
    legs = {shard.key: make_leg(plan, shard.key) for shard in shards}
    scene.upload(World(plan, legs), 7)
    row = scene.judge(7)
    assert (row.verdict, row.bound_s) == ("passed", None)


def test_run_of_a_pull_request_is_judged_kept_and_commented(scene: Scene) -> None:
    world = failing_world()
    scene.upload(world, 7, **of_pull_request())
    row = scene.judge(7)
    assert (row.verdict, row.exit_code, row.planned, row.missing) == ("failed", 10, 8, 0)
    assert row.headline.startswith("1 of 8 tests failed")
    assert (row.pull_request, row.is_base_branch) == (8, False)
    assert row.makespan_s == pytest.approx(3.1)
    assert row.bound_s == 3.0
    (body,) = scene.server.bodies()
    assert "### :x: 1 of 8 tests failed" in body
    VERDICT_SCHEMA.validate(stored_verdict(scene.service, row))
    key = RunKey(1, 7, 1)
    with scene.service.database.read() as connection:
        ((suite,),) = (run.cells for run in run_rows.with_cells(connection, [row]))
        kept = raw_archives.of_run(connection, key)
    assert (suite.planned, suite.missing, suite.counts) == (8, 0, {"failed": 1, "passed": 7})
    assert [one.name for one in kept][:1] == [f"ciguard-plan-{world.plan.id}-1"]
    assert len(kept) == 4
    assert all(len(scene.service.objects.read(one.object)) == one.bytes for one in kept)
    assert scene.results().sums.total == 8
    # Proposed values enter no history.
    assert not scene.history().exists


def test_run_of_too_many_bytes_is_not_stored_or_not_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.upload(World(), 7, **of_pull_request())
    monkeypatch.setattr(judging_module, "ARCHIVE_BYTES", 2000)
    row = scene.judge(7)
    assert row.verdict == "passed"
    with scene.service.database.read() as connection:
        kept = raw_archives.of_run(connection, RunKey(1, 7, 1))
    assert 0 < sum(one.bytes for one in kept) <= 2000
    monkeypatch.setattr(judging_module, "FILE_BYTES", 3000)
    row = scene.judge(7)
    assert row.verdict == "incomplete"
    unread, _ = stored_verdict(scene.service, row)["findings"]
    assert unread["kind"] == "unread_file"
    assert "MiB unpacked" in unread["facts"]["problem"]


def test_judging_again_changes_nothing(scene: Scene) -> None:
    scene.upload(World(), 7, **of_pull_request())
    first = scene.judge(7)
    stored = sorted(one.name for one in scene.service.objects.list("artifacts"))
    again = scene.judge(7)
    assert first == again
    assert len(scene.server.comments) == 1
    assert sorted(one.name for one in scene.service.objects.list("artifacts")) == stored
    assert len(list(scene.service.objects.list("answers"))) == 1


def test_artifact_that_came_late_changes_verdict_and_rows(scene: Scene) -> None:
    world = World()
    late = world.legs.pop("02")
    scene.upload(world, 7, **of_pull_request())
    first = scene.judge(7)
    assert (first.verdict, first.missing) == ("incomplete", 2)
    files = {path.rpartition("/")[2]: content for path, content in late.files().items()}
    add_artifact(scene.server, f"ciguard-record-{world.plan.id}-02-1", files, run=7)
    add_job(scene.server, "tests (02)")
    scene.server.jobs[-1]["run_id"] = 7
    again = scene.judge(7)
    assert (again.verdict, again.missing) == ("passed", 0)
    assert [one.name for one in scene.service.objects.list("answers")] == [again.answer]
    page = scene.results()
    assert (page.sums.total, page.sums.unfinished) == (8, 0)


def test_base_branch_fills_the_history_that_judges_pull_requests(scene: Scene) -> None:
    scene.upload(World().ran_as(6), 6)
    row = scene.judge(6)
    assert row.is_base_branch
    assert scene.server.comments == {}
    loaded = scene.history()
    assert [one.run_id for one in loaded.history.runs] == [6]
    scene.upload(failing_world(), 7, **of_pull_request())
    proposed = scene.judge(7)
    (body,) = scene.server.bodies()
    assert "compared with [run 6]" in body
    answer = stored_answers.decode(scene.service.objects.read(proposed.answer), proposed.answer)
    assert answer.verdict is not None
    assert answer.comparison is not None
    VERDICT_SCHEMA.validate(answer.verdict)
    (failure,), (change,) = answer.verdict["failures"], answer.comparison["transitions"]
    assert failure["answer"] == change["answer"]
    assert failure["answer"]["whose"] == "unknown"


def test_page_and_comment_have_one_price(scene: Scene) -> None:
    plan = make_plan(pools={"default": Pool("ubuntu-latest", usd_per_minute=0.01)})
    for run, facts in ((6, {"event": "push", "head_branch": "main"}), (7, of_pull_request())):
        world = World(plan).ran_as(run)
        for leg in world.legs.values():
            leg.header = replace(leg.header, runner=Runner("default"))
        scene.upload(world, run, **facts)
    assert scene.judge(6).price_usd == pytest.approx(0.03)  # without a base
    row = scene.judge(7)
    answer = stored_answers.decode(scene.service.objects.read(row.answer), row.answer)
    assert answer.comparison is not None
    assert answer.comparison["cost_after"]["price_usd"] == row.price_usd
    assert "0.03 USD (main: 0.03)" in scene.server.bodies()[0]


def test_run_of_a_tag_that_is_named_as_the_base_enters_no_history(scene: Scene) -> None:
    """Run 5 is of a removed commit, 7 of an old one; of two pushes, 9 completed before 8."""
    commits = {4: 3, 5: None, 6: 2, 7: 3, 9: 0, 8: 1}
    pushed = []
    for run, distance in commits.items():
        sha = TIP if distance == 0 else f"{distance or 9}" * 40
        scene.upload(World().ran_as(run), run)
        scene.server.runs[0]["head_sha"] = sha
        scene.server.files["ciguard.toml", sha] = BY_SERVICE
        scene.server.merge_bases[f"{TIP}...{sha}"] = BASE if distance is None else sha
        scene.server.behind_by[f"{TIP}...{sha}"] = distance or 0
        row = scene.judge(run)
        assert (row.verdict, row.branch == "main") == ("passed", row.is_base_branch)
        pushed += [run] if row.is_base_branch else []
    assert pushed == [4, 6, 9, 8]
    history = scene.history().history
    assert {run.run_id for run in history.runs} == {4, 6, 9, 8}
    asked = [each for each in scene.server.request_log() if f"/compare/{TIP}" in each]
    assert len(asked) == 1 + 1 + 2 + 2 + 0 + 2, "at most a call for the run and for an earlier one"


def test_red_default_branch_names_the_first_red_commit_after_the_last_green_one(
    scene: Scene,
) -> None:
    """Runs 4, 5 and 9 are green, of which 5 is of another workflow; 9 is a drill."""
    first, facts = {"run_id": 6, "sha": "6" * 40, "green_sha": "4" * 40, "commits": 2}, {}
    scene.server.merge_bases[f"{'4' * 40}...{'6' * 40}"] = "4" * 40
    scene.server.commits_of[f"{'4' * 40}...{'6' * 40}"] = ["5" * 40, "6" * 40]
    for run in (4, 5, 6, 7, 9):
        world = World(make_plan(drill="timeout") if run == 9 else make_plan()).ran_as(run)
        if run == 4:
            damages.flaky(world)
            failed = passed("a.t::two", outcome="failed", try_number=1, wall_s=2.1)
            world.legs["01"].inner[1] = failed
        elif run == 6:
            world.result("01", "a.t::two", outcome="failed", message="assert 1 == 2")
            for leg, probe_s in zip(world.legs.values(), (0.2, 0.3), strict=False):
                leg.header = replace(leg.header, runner=Runner(probe_s=probe_s))
        elif run == 7:
            del world.legs["02"]
            with scene.service.database.write() as connection:  # newer than the red run before
                red = run_rows.get(connection, RunKey(1, 6, 1))
                assert red is not None
                busy = replace(red, workflow="busy.yml", verdict="passed", exit_code=0)
                for run_id in range(100, 150):
                    run_rows.record_run(connection, replace(busy, key=RunKey(1, run_id, 1)))
        scene.upload(world, run)
        scene.server.runs[0]["head_sha"] = sha = f"{run}" * 40
        scene.server.runs[0]["path"] = f".github/workflows/{'nightly' if run == 5 else 'tests'}.yml"
        scene.server.files["ciguard.toml", sha] = BY_SERVICE
        scene.server.merge_bases[f"{TIP}...{sha}"] = sha
        scene.server.behind_by[f"{TIP}...{sha}"] = 10 - run
        facts[run] = scene.judge(run).facts or {}
    reds = {run: (one["red_since"], one["failed"], one["tests"]) for run, one in facts.items()}
    assert reds == {
        **dict.fromkeys((4, 5, 9), (None, 0, [])),
        6: (first, 1, ["a.t::two"]),
        7: (first, 0, []),
    }
    assert facts[6]["pools"] == {"default": 15}
    assert facts[6]["shards"][0] == {
        **{"shard": "01", "pool": "default", "wall_s": 3.1, "limit_s": 600},
        **{"peak_bytes": 480 << 20, "budget_bytes": None},
    }
    assert [facts[run]["probe_s"] for run in (4, 6)] == [None, 0.25]
    assert [facts[run]["rates"] for run in (4, 6)] == [{"default": None}] * 2
    assert [facts[run]["flaky_ratio"] for run in (4, 6)] == [pytest.approx(0.25), 0.0]
    asked = [each for each in scene.server.request_log() if f"/compare/{'4' * 40}" in each]
    assert len(asked) == 1
    with scene.service.database.write() as connection:
        connection.execute(sa.delete(schema.run).where(schema.run.c.workflow == "busy.yml"))
        assert run_rows.base_runs(connection, [1])[1].key.run_id == 7
        newest = run_rows.newest(connection, 1, is_base_branch=True)
        charted = charted_runs(run_rows.with_cells(connection, newest), 0)
    assert [run.run_id for run in charted] == [4, 6]
    assert {trend.measure: trend.values[1] for trend in find_trends(charted)} == {
        **{"makespan_s": 3.1, "bound_s": 3.0, "tests_s": 6.3, "probe_s": 0.25},
        **{"peak_bytes": 480 << 20, "price_usd": None},
    }
    uses = {(use.workflow, use.shard, use.limit): use for use in shard_uses(newest)}
    use = uses["tests.yml", "01", "wall time"]
    assert (use.n, use.largest_ratio, use.risk) == (3, 3.1 / 600, None)
    assert uses["nightly.yml", "01", "wall time"].n == 1


def test_owners_of_failed_tests_are_those_of_the_base(scene: Scene) -> None:
    """They cost two calls, and only a run with failures; a listing is read once, not twice."""
    codeowners = {"docs/": b"* @ignored", "": b"* @ignored", ".github/": b"* @a @b @c @octo/d\n"}
    for folder, content in codeowners.items():
        scene.server.files[f"{folder}CODEOWNERS", BASE] = content
    scene.server.files[".github/CODEOWNERS", HEAD] = scene.server.files["CODEOWNERS", MERGE] = (
        b"* @evil"
    )
    owned = b'[owners]\n"*.t" = []\n"a.t" = ["@first"]\n'
    last_day = datetime.now(UTC).date() + timedelta(days=20)
    entry = f'[[quarantine]]\nunit = "c.t::*"\nreason = "mail"\nissue = 7\nuntil = {last_day}\n'
    calls, rows = {}, {}
    for run in (7, 8, 9):
        world = World().ran_as(run)
        if run > 7:
            world.result("01", "a.t::two", outcome="failed", message="assert 1 == 2")
            world.result("02", "c.t::four", outcome="failed", message="assert 1 == 2")
        if run == 9:
            scene.server.files["ciguard.toml", BASE] = BY_SERVICE + owned
            scene.server.files["quarantine.toml", BASE] = entry.encode()
        scene.upload(world, run, **of_pull_request())
        rows[run] = scene.judge(run).facts or {}
        calls[run] = sum("/contents" in each for each in scene.server.request_log())
    assert (calls[7], calls[8] - calls[7] - calls[7]) == (4, 2)
    assert [facts["owners"] for facts in rows.values()] == [
        *(None, ["@a", "@b", "@c", "@octo/d"], ["@first"])
    ]
    assert rows[9]["owners_of"] == {"a.t::two": ["@first"], "c.t::four": []}
    assert rows[9]["quarantined"] == {"a.t::two": "", "c.t::four": f"{last_day}"}
    (body,) = scene.server.bodies()
    assert "<code>a.t::two</code> (&#64;&#8203;first) |" in body  # which notifies no person
    assert "<code>c.t::four</code> (no owner) |" in body
    failures = stored_verdict(scene.service, scene.judge(9))["failures"]
    assert [failure["owners"] for failure in failures] == [["@first"]]


@pytest.mark.parametrize(
    ("file", "change", "problem"),
    [
        ("ciguard-culprit.json", ("", ""), ""),
        ("other.json", ("", ""), "no ciguard-culprit.json in it"),
        ("ciguard-culprit.json", ("c" * 40, "../../x"), "sha: String should match"),
        ("ciguard-culprit.json", ("0.99", "NaN"), "probability: Input should be"),
        ("", ("", ""), "ciguard-culprit"),
    ],
    ids=["answer", "other", "link", "number", "archive"],
)
def test_culprits_of_a_red_base_are_facts_of_the_run(
    scene: Scene,
    file: str,
    change: tuple[str, str],
    problem: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They cost a call; without a readable artifact, the run is judged all the same."""
    content = json_text(found_culprits()).replace(*change).encode()
    archive = {file: content} if file else content
    found = None if problem else culprit_facts(found_culprits())
    runs = {
        6: ("passed", {}, None),
        7: ("failed", {}, found),
        8: ("failed", of_pull_request(), None),
    }
    for run, (verdict, facts, expected) in runs.items():
        world = World().ran_as(run)
        if verdict == "failed":
            world.result("01", "a.t::two", outcome="failed", message="assert 1 == 2")
        scene.upload(world, run, **facts)
        number = add_artifact(scene.server, "ciguard-culprit", archive, run=run)
        row = scene.judge(run)
        assert (row.verdict, (row.facts or {})["culprits"]) == (verdict, expected)
        downloads = [each for each in scene.server.request_log() if f"/{number}/zip" in each]
        assert len(downloads) == (run == 7)
    assert problem in caplog.text


def test_drill_is_shown_and_enters_no_statistics(scene: Scene) -> None:
    world = World(make_plan(drill="timeout")).ran_as(6)
    world.result("01", "a.t::two", outcome="died", ending="timeout")
    scene.upload(world, 6, event="workflow_dispatch", head_branch="main")
    row = scene.judge(6)
    assert stored_verdict(scene.service, row)["headline"].startswith("DRILL (timeout): FAILED: ")
    assert not scene.history().exists
    assert list(scene.service.objects.list("results")) == []


def test_record_of_another_run_is_named_and_enters_no_history(scene: Scene) -> None:
    scene.upload(World(), 6)
    row = scene.judge(6)
    assert (row.verdict, row.missing) == ("incomplete", 8)
    causes = [one["cause"] for one in stored_verdict(scene.service, row)["findings"]]
    assert {(one["kind"], one["facts"]["theirs"]) for one in causes} == {("other_run", 7)}
    assert not scene.history().exists


def test_newer_comment_is_not_overwritten(scene: Scene) -> None:
    scene.upload(World(), 9, **of_pull_request())
    scene.judge(9)
    (newer,) = scene.server.bodies()
    scene.upload(failing_world(), 7, **of_pull_request())
    assert scene.judge(7).verdict == "failed"
    assert scene.server.bodies() == [newer]


@pytest.mark.parametrize(
    "fault",
    [
        Fault("GET", "/artifacts/2/zip", status=502, times=99),
        Fault("GET", "/artifacts/2/zip", status=429, headers={"retry-after": "60"}, times=99),
        Fault("GET", "/contents/", status=503, times=99),
        Fault("GET", "/actions/runs/7/jobs", status=500, times=99),
    ],
    ids=["archive", "limit", "configuration", "jobs"],
)
def test_fault_of_github_is_no_verdict(scene: Scene, fault: Fault) -> None:
    """Not of a run that passed: it waits until GitHub answers."""
    scene.upload(World(), 7, **of_pull_request())
    scene.server.faults.append(fault)
    with pytest.raises(RemoteError):
        scene.judge(7)
    with scene.service.database.read() as connection:
        assert run_rows.get(connection, RunKey(1, 7, 1)) is None
    assert scene.server.comments == {}


@pytest.mark.parametrize("away", ["archives", "history"])
def test_outage_of_the_store_is_no_verdict(scene: Scene, away: str) -> None:
    scene.upload(World().ran_as(6), 6)
    scene.judge(6)
    scene.upload(World(), 7, **of_pull_request())
    if away == "history":
        (scene.folder / "results/history").rename(scene.folder / "away")
        (scene.folder / "results/history").write_bytes(b"")
    else:
        with scene.service.database.write() as connection:
            connection.execute(sa.text("ALTER TABLE artifact RENAME TO away"))
    with pytest.raises(RemoteError):
        scene.judge(7)
    with scene.service.database.read() as connection:
        assert run_rows.get(connection, RunKey(1, 7, 1)) is None
    assert scene.server.comments == {}


def test_closed_pull_requests_and_past_runs_get_no_comment(scene: Scene) -> None:
    scene.upload(World(), 6, **of_pull_request())
    scene.judge(6, source="backfill")
    (pull,) = scene.server.pulls_of[HEAD]
    assert isinstance(pull, dict)
    scene.server.pulls_of[HEAD] = [{**pull, "state": "closed"}]
    scene.upload(World(), 7, **of_pull_request())
    scene.judge(7)
    assert scene.server.comments == {}


def test_worker_that_lost_its_lease_writes_nothing_that_others_see(scene: Scene) -> None:
    scene.upload(World(), 7, **of_pull_request())
    assert judge_while(scene.service, scene.folder, 7, lambda: False) is None
    assert scene.server.comments == {}


def test_workflow_leaves_no_comment_of_the_service_unless_asked(scene: Scene) -> None:
    scene.server.files["ciguard.toml", BASE] = b""
    scene.upload(World(), 7, **of_pull_request())
    row = scene.judge(7)
    assert row.verdict == "passed"
    assert scene.server.comments == {}


def test_other_workflow_is_none_of_ours(scene: Scene) -> None:
    scene.server.files[".github/workflows/tests.yml", HEAD] = b"jobs: {lint: {}}"
    add_run(scene.server, 7, **of_pull_request(head_sha=HEAD))
    row = scene.judge(7)
    assert (row.verdict, row.answer) == ("foreign", "")
    assert scene.server.comments == {}


def work_until(service: Service, tmp_path: Path, is_so: Callable[[], object]) -> None:
    """Let a worker judge what waits."""
    with judge_job(service, tmp_path) as job:
        worker = Worker(service.database, job, poll_s=0.05)
        thread = threading.Thread(target=worker.run)
        thread.start()
        until(is_so, what="judged nothing", timeout_s=60)
        assert worker.stop(30)
        thread.join()


def row_of(service: Service, run_id: int) -> sa.Row[Any]:
    with service.database.read() as connection:
        query = sa.select(schema.work).where(schema.work.c.run_id == run_id)
        return connection.execute(query).one()


def test_worker_judges_what_waits_and_tries_again_after_a_fault(scene: Scene) -> None:
    scene.upload(World(), 7, **of_pull_request())
    scene.server.faults.append(
        Fault("GET", "/attempts/1", status=429, headers={"retry-after": "1"})
    )
    with scene.service.database.write() as connection:
        work_list.add(connection, [NewWork(RunKey(1, 7, 1), "lane", "webhook")])
    work_until(scene.service, scene.folder, lambda: scene.server.comments)
    assert len(scene.server.comments) == 1


def test_refused_token_burns_no_tries_and_is_tried_again(scene: Scene) -> None:
    scene.upload(World(), 7, **of_pull_request())
    login = scene.server.tokens.pop(TOKEN)
    with scene.service.database.write() as connection:
        entries = [NewWork(RunKey(1, run, 1), f"lane {run}", "webhook") for run in (7, 8, 9)]
        work_list.add(connection, entries)
    work_until(scene.service, scene.folder, lambda: row_of(scene.service, 7).problem)
    assert [row_of(scene.service, run).tries for run in (7, 8, 9)] == [0, 0, 0]
    assert len(scene.server.request_log()) == 1
    scene.server.tokens[TOKEN] = login
    with scene.service.database.write() as connection:
        (pause,) = pauses.current(connection, sa.true())
        assert pause.problem.startswith("answered 401: Bad credentials; pass a token")
        connection.execute(sa.update(schema.pause).values(until_ms=0))
    work_until(scene.service, scene.folder, lambda: scene.server.comments)


def test_first_start_fills_the_history_before_it_publishes(scene: Scene) -> None:
    scene.server.repositories.append(FakeRepository(1, REPOSITORY))
    for run in (4, 5, 6):
        facts = {"event": "push", "head_branch": "main", "repository": {"id": 1}}
        scene.upload(World().ran_as(run), run, created_at=STARTED, **facts)
    scene.upload(failing_world(), 7, **of_pull_request())
    with scene.service.database.write() as connection:
        connection.execute(sa.update(schema.repository).values(reconciled_at_ms=None))
        work_list.add(connection, [NewWork(RunKey(1, 7, 1), "topic", "webhook")])
        assert work_list.take(connection, "early") is None
    assert reconcile(scene.service, "worker") == 3
    work_until(scene.service, scene.folder, lambda: scene.server.comments)
    (body,) = scene.server.bodies()
    assert "compared with [run 6]" in body
    assert [each for each in scene.server.request_log() if each.startswith("PATCH")] == []
    history = scene.history().history
    assert {run.run_id for run in history.runs} == {4, 5, 6}


def test_run_that_was_judged_without_a_past_run_is_judged_again(scene: Scene) -> None:
    scene.upload(failing_world(), 7, **of_pull_request())
    assert scene.judge(7).comparison == ""
    scene.server.files[".github/workflows/tests.yml", HEAD] = b"jobs: {lint: {}}"
    add_run(scene.server, 8, **of_pull_request(head_sha=HEAD))
    scene.judge(8)
    scene.upload(World().ran_as(6), 6)
    scene.judge(6, source="backfill")
    assert [row_of(scene.service, run).state for run in (6, 7, 8)] == ["done", "waiting", "done"]
    work_until(scene.service, scene.folder, lambda: row_of(scene.service, 7).state == "done")
    (body,) = scene.server.bodies()
    assert "compared with [run 6]" in body
