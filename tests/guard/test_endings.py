"""Each way in which a leg dies: what GitHub and the record say -> an ending, evidence, a fix."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import pytest
from guard.platform import (
    BEGAN,
    FAILED,
    KILLED,
    STEPS,
    Told,
    death,
    job,
    leg,
    verdict_of,
)
from guard.world import World, make_leg, make_plan
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.errors import ExitCode
from ciguard.guard import endings, sayings
from ciguard.guard.asking import ASKED_LEGS
from ciguard.guard.deaths import CONCLUSIONS
from ciguard.guard.needs import Job as Needed
from ciguard.guard.text import COLUMNS, render
from ciguard.model import ENDINGS, EndLine, ProcessEndLine, Result, Runner, SampleLine, UnitKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from ciguard.model import Ending
    from ciguard.model.jobs import Job

T = TypeVar("T")

NEW_LIMIT = "The job has exceeded the maximum execution time of 15m0s"
OLD_LIMIT = (
    "The job running on runner GitHub Actions 3 has exceeded the maximum execution time of "
    "15 minutes."
)
SUPERSEDED = "Canceling since a higher priority waiting request for 'tests-7' exists"
BY_HAND = "The run was canceled by @octocat."
FAIL_FAST = 'The strategy configuration was canceled because "legs.01" failed'
LOST = (
    "The hosted runner: GitHub Actions 8 lost communication with the server. Anything in your "
    "workflow that terminates the runner process, starves it for CPU/Memory, or blocks its network "
    "access can cause this error."
)
SHUTDOWN = (
    "The runner has received a shutdown signal. This can happen when the runner service is "
    "stopped, or a manually started runner is canceled."
)
STEP_LIMIT = "The action 'Run the shard' has timed out after 14 minutes."
EXIT_137 = "Process completed with exit code 137."
EXIT_143 = "Process completed with exit code 143."
OPERATION = "The operation was canceled."
KERNEL = (
    "2026-11-21T10:04:00.1Z [  518.050606] Out of memory: Killed process 15784 (python3) "
    "total-vm:11964kB, anon-rss:4288kB, file-rss:3028kB, shmem-rss:0kB"
)
DISK = "2026-11-21T10:04:00.1Z OSError: [Errno 28] No space left on device: '/home/x'"
GIB = 1 << 30


def cut(world: World) -> None:
    """Shard 03 dies in its last test."""
    world.drop("03", EndLine, ProcessEndLine)
    world.drop("03", Result, unit="d.t::eight")


def short_of_memory(world: World) -> None:
    """Shard 03 dies in its last test, and its samples say of what."""
    cut(world)
    dying = world.legs["03"]
    dying.header = replace(dying.header, runner=Runner(memory_bytes=16 * GIB))
    for at_s, left in ((1.0, 9 * GIB), (2.0, 3 * GIB), (2.5, GIB // 8)):
        dying.own.append(SampleLine(at_s, headroom_bytes=left))


def lost(world: World) -> None:
    """Shard 03 leaves nothing."""
    del world.legs["03"]


@dataclass
class Case:
    """How shard 03 dies, what GitHub says, and what must come out.

    Attributes:
        shows: part of the first evidence.
        calls: made for the one dead leg.
    """

    left: Callable[[World], None]
    job: Job
    ending: Ending
    shows: str
    said: list[str] = field(default_factory=list)
    log: str | None = None
    calls: tuple[str, ...] = ("annotations",)


def cancelled(wall_s: float = 300.0) -> Job:
    return job("03", "cancelled", wall_s=wall_s, steps=KILLED)


def failed(steps: tuple[tuple[str, str | None], ...] = FAILED) -> Job:
    return job("03", "failure", steps=steps)


BOTH = ("annotations", "log")
SET_UP = (*STEPS[:1], ("Install", "failure"), ("Run the shard", "skipped"), ("Upload", "skipped"))
NO_UPLOAD = (*STEPS[:3], ("Upload", "failure"))

CASES = {
    "limit, new words": Case(cut, cancelled(915), "timeout", NEW_LIMIT, [NEW_LIMIT, OPERATION]),
    "limit, old words": Case(lost, cancelled(915), "timeout", OLD_LIMIT, [OLD_LIMIT]),
    # 15 minutes are declared; nobody may read annotations, or there are none.
    "limit, by duration": Case(cut, cancelled(925), "timeout", "its limit is 15 min 00 s"),
    "just below the limit": Case(cut, cancelled(899), "cancelled", "14 min 59 s", calls=BOTH),
    "timed_out": Case(lost, job("03", "timed_out"), "timeout", "timed_out"),
    "a step's limit": Case(cut, failed(), "timeout", STEP_LIMIT, [STEP_LIMIT]),
    "a step's limit, in the log": Case(
        cut, failed(), "timeout", STEP_LIMIT, log=f"x\n##[error]{STEP_LIMIT}\n", calls=BOTH
    ),
    "superseded": Case(cut, cancelled(), "superseded", SUPERSEDED, [SUPERSEDED, OPERATION]),
    "superseded at its limit": Case(
        lost, cancelled(915), "superseded", SUPERSEDED, [NEW_LIMIT, SUPERSEDED]
    ),
    "by hand": Case(cut, cancelled(), "cancelled", BY_HAND, [OPERATION, BY_HAND]),
    "fail-fast": Case(cut, cancelled(), "cancelled", FAIL_FAST, [FAIL_FAST]),
    "cancelled, nobody says by whom": Case(
        cut, cancelled(), "cancelled", "cancelled after 5 min 00 s", [OPERATION], calls=BOTH
    ),
    "runner shut down": Case(cut, failed(), "runner_shutdown", SHUTDOWN, [SHUTDOWN]),
    "runner shut down, in the log": Case(
        lost, failed(), "runner_shutdown", SHUTDOWN, log=f"##[error]{SHUTDOWN}\n", calls=BOTH
    ),
    "runner lost": Case(cut, failed(), "lost_runner", "lost communication", [LOST]),
    "runner lost, memory gone": Case(short_of_memory, failed(), "lost_runner", "lost comm", [LOST]),
    "137 alone": Case(cut, failed(), "unknown", EXIT_137, [EXIT_137], calls=BOTH),
    "143 alone": Case(lost, failed(), "unknown", EXIT_143, [EXIT_143], calls=BOTH),
    "137, memory gone": Case(short_of_memory, failed(), "out_of_memory", EXIT_137, [EXIT_137]),
    "143, memory gone": Case(short_of_memory, failed(), "out_of_memory", EXIT_143, [EXIT_143]),
    "memory gone alone": Case(short_of_memory, failed(), "unknown", "Run the shard", calls=BOTH),
    "the system's killer": Case(
        cut, failed(), "out_of_memory", "Out of memory: Killed process", [EXIT_137], KERNEL, BOTH
    ),
    "disk full": Case(cut, failed(), "disk_full", "No space left", log=DISK, calls=BOTH),
    "set-up failed": Case(lost, failed(SET_UP), "setup_failed", "Install: failure"),
    "the runner's own set-up": Case(
        lost, failed((("Set up job", "failure"),)), "setup_failed", "Set up job: failure"
    ),
    "skipped": Case(lost, job("03", "skipped", steps=()), "never_started", "skipped"),
    "queued": Case(lost, job("03", None, status="queued", steps=()), "never_started", "queued"),
    "cancelled in the queue": Case(
        lost, job("03", "cancelled", steps=()), "never_started", "cancelled"
    ),
    # `needs` says success where continue-on-error is set; the job itself says failure.
    "continue-on-error": Case(lost, failed(), "unknown", "Run the shard: failure", calls=BOTH),
    "green and nothing uploaded": Case(lost, job("03"), "unknown", "success", calls=BOTH),
    "its upload failed": Case(
        lost, failed(NO_UPLOAD), "unknown", "Upload: failure", calls=BOTH
    ),
    "not ended": Case(
        lost, job("03", None, status="in_progress"), "unknown", "in_progress", calls=BOTH
    ),
    "unknown conclusion": Case(lost, job("03", "evaporated"), "unknown", "evaporated", calls=BOTH),
    "an empty word": Case(lost, job("03", None), "unknown", "None", calls=BOTH),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_dead_leg(name: str) -> None:
    case = CASES[name]
    world = World(plan=make_plan(job_minutes=15), needs=(Needed("legs", "success"),))
    case.left(world)
    logs = {} if case.log is None else {"03": case.log}
    told = Told((case.job,), {"03": case.said}, logs)
    verdict = verdict_of(world, told)
    assert verdict.exit_code == ExitCode.INCOMPLETE
    assert leg(verdict).ending == case.ending
    found = death(verdict)
    assert case.shows in found.evidence[0].text
    assert found.fix
    silent = case.left is lost and case.ending == "unknown"
    assert told.calls == ["jobs", *case.calls, *["artifacts"] * silent]
    text = render(verdict)
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert f"{found.evidence[0].source}: {found.evidence[0].text[:30]}" in text
    if case.left is not lost:
        assert found.culprits == (UnitKey("", "", "d.t::eight"),)
        assert "it was running:\n      d.t::eight" in text
    # The units that did not run are named with it.
    assert UnitKey("", "", "d.t::eight") in found.units


def test_the_table_has_every_ending_that_only_the_platform_can_tell() -> None:
    told = {case.ending for case in CASES.values()}
    own = {"completed", "crash", "deadline", "memory_guard"}  # a leg's own words
    assert told == set(ENDINGS) - own
    assert {saying.ending for saying in sayings.SAYINGS} <= told
    assert set(endings.ADVICE) == set(ENDINGS) - {"completed"}


def test_the_whole_text_of_a_dead_leg() -> None:
    world = World(plan=make_plan(job_minutes=15))
    short_of_memory(world)
    told = Told((failed(),), {"03": [EXIT_137]})
    assert render(verdict_of(world, told)).startswith(
        """\
INCOMPLETE: shard 03 of 3 did not end by itself (out of memory); 1 of 8 units
has no result

INCOMPLETE: shard 03: its record was cut: it has no end line, the last sign of
    life is 2 s after its start: its machine ran out of memory
    annotation: Process completed with exit code 137.
    record: free memory fell from 9.00 GiB at 1.00 s to 128 MiB of 16.0 GiB at
      2.50 s, its last sample
    job: tests (03): failure after 5 min 00 s, its limit is 15 min 00 s
    it was running:
      d.t::eight
    1 without a result, because it was started and did not finish:
      d.t::eight
  fix: plan with fewer processes, or give its pool more memory
"""
    )


@pytest.mark.parametrize("conclusion", sorted(CONCLUSIONS - {"success"} | {"evaporated", ""}))
def test_a_whole_record_does_not_hide_what_its_job_says(conclusion: str) -> None:
    world = World(needs=(Needed("legs", "success"),))
    verdict = verdict_of(world, Told((job("03", conclusion),)))
    assert verdict.exit_code == ExitCode.INCOMPLETE
    assert f"{conclusion!r}" in death(verdict).what
    known = conclusion in CONCLUSIONS
    assert death(verdict).kind == ("job_contradicts" if known else "job_unknown")
    assert known or death(verdict).fix == "update ciguard"


def test_a_failed_job_agrees_with_failed_tests() -> None:
    world = World(needs=(Needed("legs", "failure"),))
    world.result("03", "d.t::six", outcome="failed")
    told = Told((failed(),))
    verdict = verdict_of(world, told)
    assert verdict.exit_code == ExitCode.TESTS_FAILED
    assert told.calls == ["jobs"]


def test_a_green_run_is_one_call() -> None:
    told = Told()
    assert verdict_of(World(), told).exit_code == ExitCode.OK
    assert told.calls == ["jobs"]


def test_a_job_that_the_list_has_not_seen_end_is_a_warning() -> None:
    verdict = verdict_of(World(), Told((job("03", None, status="in_progress"),)))
    assert verdict.exit_code == ExitCode.OK
    assert [one.kind for one in verdict.findings] == ["job_open"]


def test_what_the_record_says_itself_stays() -> None:
    world = World()
    world.end("03", ending="deadline", exit_code=13)
    verdict = verdict_of(world, Told((failed(),), {"03": [SHUTDOWN]}))
    assert leg(verdict).ending == "deadline"


def test_a_leg_that_was_told_to_end_did_not_know_by_whom() -> None:
    for said, ending in ((SUPERSEDED, "superseded"), (NEW_LIMIT, "timeout"), ("", "cancelled")):
        world = World()
        world.drop("03", Result, unit="d.t::eight")
        world.end("03", ending="cancelled", exit_code=143)
        verdict = verdict_of(world, Told((failed(),), {"03": [said]}))
        assert leg(verdict).ending == ending
        assert verdict.exit_code == ExitCode.INCOMPLETE


def test_what_is_said_of_one_cancelled_job_is_true_of_all() -> None:
    world = World()
    world.legs.clear()
    jobs = tuple(job(shard, "cancelled", steps=KILLED) for shard in ("01", "02", "03"))
    told = Told(jobs, {"02": [SUPERSEDED]})
    verdict = verdict_of(world, told)
    assert {one.ending for one in verdict.legs} == {"superseded"}
    assert verdict.headline.startswith(
        "INCOMPLETE: shards 01, 02, 03 of 3 have no record (superseded)"
    )
    assert death(verdict, "03").evidence[0] == ("annotation of another job", SUPERSEDED, "")
    # One that failed is not explained by it.
    jobs = (*jobs[:2], failed())
    told = Told(jobs, {"02": [SUPERSEDED]}, {"03": f"##[error]{SHUTDOWN}"})
    assert leg(verdict_of(world, told)).ending == "runner_shutdown"


def test_four_dead_legs_that_uploaded_empty_files() -> None:
    plan = make_plan({f"{number:02}": (f"u{number}",) for number in range(1, 5)})
    world = World(plan=plan)
    world.extra = {f"record-{key}-1/supervisor.jsonl": b"" for key in world.legs}
    world.legs.clear()
    jobs = tuple(job(f"{number:02}", "failure", steps=FAILED) for number in range(1, 5))
    verdict = verdict_of(world, Told(jobs, {f"{number:02}": [LOST] for number in range(1, 5)}))
    assert verdict.exit_code == ExitCode.INCOMPLETE
    assert [one.ending for one in verdict.legs] == ["lost_runner"] * 4


def test_four_legs_of_eight_are_in_the_matrix() -> None:
    plan = make_plan({f"{number:02}": (f"u{number}",) for number in range(1, 9)})
    world = World(plan=plan)
    for number in range(5, 9):
        del world.legs[f"{number:02}"]
    verdict = verdict_of(world, Told((job("04"),)))
    assert verdict.exit_code == ExitCode.INCOMPLETE
    assert leg(verdict, "05").ending == "never_started"
    assert death(verdict, "08").evidence == (
        ("jobs", 'no job of this run is called "tests (08)"', ""),
    )


def test_a_record_of_a_job_that_is_not_there_is_not_believed() -> None:
    verdict = verdict_of(World(), Told(without=("03",)))
    assert death(verdict).kind == "no_job"


def test_another_run_s_records_do_not_count() -> None:
    world = World()
    world.legs = {key: make_leg(world.plan, key, run=8) for key in world.legs}
    verdict = verdict_of(world, Told())
    assert verdict.exit_code == ExitCode.INCOMPLETE
    assert "of run 8, not 7" in death(verdict).what


def rerun(*shards: str) -> World:
    """Attempt 1 of all three legs, and records of attempt 2 of these."""
    world = World()
    for shard in shards:
        world.legs[f"{shard} again"] = make_leg(world.plan, shard, attempt=2)
    return world


COPIES = tuple(job(shard, attempt=2, began=job(shard).started_at) for shard in ("01", "02"))
TOUCHED = tuple(replace(one, completed_at=None) for one in COPIES)


@pytest.mark.parametrize(
    "copies", [(), COPIES, TOUCHED], ids=["left out", "listed again", "with another end"]
)
def test_attempt_2_ran_failed_legs_only(copies: tuple[Job, ...]) -> None:
    first = failed()
    told = Told((first, *copies, job("03", attempt=2)))
    verdict = verdict_of(rerun("03"), told, attempt=2)
    assert verdict.exit_code == ExitCode.OK
    assert [one.run_attempt for one in verdict.legs] == [1, 1, 2]
    assert told.calls == ["jobs"]


@pytest.mark.parametrize("conclusion", ["success", "failure", "cancelled"])
def test_the_leg_that_ran_again_uploaded_nothing(conclusion: str) -> None:
    told = Told((failed(), job("03", conclusion, attempt=2, steps=KILLED)))
    verdict = verdict_of(rerun(), told, attempt=2)
    assert verdict.exit_code == ExitCode.INCOMPLETE
    assert not leg(verdict).recorded
    assert "attempt 1, and its job ran last in attempt 2" in death(verdict).what


def test_whether_a_record_was_uploaded_is_known_where_all_artifacts_are() -> None:
    world = World()
    lost(world)
    others = ("ciguard-record-9f2c-01-1", "ciguard-record-9f2c-02-1", "coverage")
    seen, fixes = [], []
    for names in (others, (*others, "ciguard-record-9f2c-03-1"), ("coverage",), None):
        found = death(verdict_of(world, Told((job("03"),), artifacts=names)))
        seen.append([text for source, text, _ in found.evidence if source == "artifacts"])
        fixes.append(found.fix)
    assert seen == [
        ["none of the run's 2 records ends in -03-1: nothing was uploaded"],
        ["ciguard-record-9f2c-03-1 was uploaded"],
        [],
        [],
    ]
    assert "uploads its record" in fixes[0]
    assert "downloads the records" in fixes[1]


def test_a_record_of_an_attempt_that_its_job_never_had() -> None:
    verdict = verdict_of(rerun("03"), Told(), attempt=1)
    assert verdict.exit_code == ExitCode.INCOMPLETE
    assert "of attempt 2, and its job ran last in attempt 1" in death(verdict).what


def test_what_failed_first_and_passed_again_is_flaky() -> None:
    world = rerun("03")
    world.result("03", "d.t::six", outcome="failed", message="flaked")
    verdict = verdict_of(world, Told((failed(), job("03", attempt=2))), attempt=2)
    assert verdict.exit_code == ExitCode.OK
    assert [one.key.unit for one in verdict.flaky] == ["d.t::six"]


def test_a_leg_that_was_cancelled_before_it_ran_again_is_dead() -> None:
    told = Told((failed(), job("03", "cancelled", attempt=2, steps=())), {"03": [BY_HAND]})
    verdict = verdict_of(rerun(), told, attempt=2)
    assert (leg(verdict).ending, verdict.exit_code) == ("cancelled", ExitCode.INCOMPLETE)


REFUSALS = (
    "answered 403: Resource not accessible by integration",
    "answered 404: Not Found",
    "answered 429: API rate limit exceeded",
    "answered 502: Bad Gateway",
    "no answer: ReadTimeout",
)


@pytest.mark.parametrize("fault", REFUSALS)
def test_github_out_of_reach_is_said_and_the_records_decide(fault: str) -> None:
    world = World(needs=(Needed("legs", "success"),))
    told = Told(fault=fault)
    verdict = verdict_of(world, told)
    assert (verdict.exit_code, told.calls) == (ExitCode.OK, ["jobs"])
    (said,) = verdict.findings
    assert (said.level, said.kind) == ("warning", "jobs_unknown")
    assert fault in said.what
    assert "judged by the plan, the records and what `needs` says" in said.what
    lost(world)
    assert verdict_of(world, told).exit_code == ExitCode.INCOMPLETE


@pytest.mark.parametrize("told", [Told(fault=REFUSALS[3]), None], ids=["fault", "no token"])
def test_an_older_attempt_s_record_is_no_proof_where_nobody_says_what_ran(
    told: Told | None,
) -> None:
    world = rerun("03")
    verdict = verdict_of(world, told, attempt=2)
    assert verdict.exit_code == ExitCode.INCOMPLETE
    assert {one.shard for one in verdict.findings if one.kind == "attempt_unknown"} == {"01", "02"}
    assert verdict_of(World(), told).exit_code == ExitCode.OK


@pytest.mark.parametrize("faulty", ["annotations", "log"])
def test_what_github_refuses_of_a_dead_leg_is_named_and_asked_once(faulty: str) -> None:
    world = World()
    world.legs.clear()
    jobs = tuple(job(shard, "failure", steps=FAILED) for shard in ("01", "02", "03"))
    told = Told(jobs, fault=REFUSALS[0], faulty=(faulty,))
    verdict = verdict_of(world, told)
    assert {one.ending for one in verdict.legs} == {"unknown"}
    assert told.calls.count(faulty) == 1
    for shard in ("01", "02", "03"):
        assert any(
            source == "not known" and "403" in text
            for source, text, _ in death(verdict, shard).evidence
        )


def test_a_report_makes_two_calls_for_a_dead_leg_and_no_more_than_for_sixty() -> None:
    shards = {f"{number:03}": (f"u{number}", f"v{number}") for number in range(100)}
    world = World(plan=make_plan(dict[str, tuple[str, ...]](shards)))
    world.legs.clear()
    jobs = tuple(
        replace(job("00", "failure", steps=FAILED, name=f"tests ({key})"), id=int(key))
        for key in shards
    )
    told = Told(jobs)
    verdict = verdict_of(world, told)
    assert told.calls.count("annotations") == told.calls.count("log") == ASKED_LEGS
    assert "was not asked about all" in death(verdict, "099").evidence[-1].text


def test_names_that_several_jobs_have_are_nobody_s() -> None:
    twins = (job("03", name="a / tests (03)"), job("03", "failure", name="b / tests (03)"))
    verdict = verdict_of(World(), Told(twins, without=("03",)))
    assert [one.kind for one in verdict.findings] == ["job_ambiguous"]
    called = tuple(job(shard, name=f"ci / tests ({shard})") for shard in ("01", "02", "03"))
    assert verdict_of(World(), Told(called, without=("01", "02", "03"))).findings == ()


def test_jobs_that_are_called_otherwise_are_found_by_the_record_or_not_at_all() -> None:
    world = World()
    for shard, one in world.legs.items():
        one.header = replace(one.header, job=f"mine {shard}")
    mine = tuple(job(shard, name=f"mine {shard}") for shard in world.legs)
    gone = ("01", "02", "03")
    assert verdict_of(world, Told(mine, without=gone)).findings == ()
    (said,) = verdict_of(world, Told(without=gone)).findings
    assert 'is called like "tests (01)"' in said.what
    assert said.fix == "give the matrix job `name: ${{ matrix.name }}`"


def test_a_test_s_own_print_never_makes_a_verdict_better() -> None:
    world = World()
    world.result("03", "d.t::six", outcome="failed")
    texts = [SUPERSEDED, NEW_LIMIT, BY_HAND, LOST, SHUTDOWN]
    verdict = verdict_of(world, Told((failed(),), {"03": texts}, {"03": "\n".join(texts)}))
    assert verdict.exit_code == ExitCode.TESTS_FAILED
    assert leg(verdict).ending == "completed"


TEXTS = (NEW_LIMIT, OLD_LIMIT, SUPERSEDED, BY_HAND, LOST, SHUTDOWN, EXIT_137, KERNEL, DISK, "x")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_github_says_makes_nothing_better(data: st.DataObject) -> None:
    def draw(*values: T) -> T:
        return data.draw(st.sampled_from(values))

    world = World(plan=make_plan(job_minutes=5))
    for damage in draw((cut,), (lost,), (short_of_memory,), ()):
        damage(world)
    conclusion = draw(*sorted(CONCLUSIONS), "evaporated", None)
    status = draw("completed", "completed", "in_progress", "queued", "dreaming")
    steps = draw((), STEPS, KILLED, FAILED, SET_UP)
    said = data.draw(st.lists(st.sampled_from(TEXTS), max_size=3))
    log, attempt = draw(None, *TEXTS), draw(1, 2)
    alone = world.prove()
    one = job("03", conclusion, status=status, steps=steps, attempt=attempt)
    told = Told((one,), {"03": said}, {} if log is None else {"03": log})
    verdict = verdict_of(world, told, attempt=attempt)
    assert (verdict.exit_code, verdict.ended) >= (alone.exit_code, 0)
    assert verdict.ended <= alone.ended
    if leg(alone).ending != "completed":
        assert verdict.exit_code == ExitCode.INCOMPLETE
        assert death(verdict).fix
        assert len(told.calls) <= 2 + 2
    if verdict.exit_code == ExitCode.OK:
        assert (status, conclusion) == ("completed", "success") or status == "in_progress"
        assert attempt == 1
    assert max(map(len, render(verdict).splitlines())) <= COLUMNS


def test_a_long_line_is_quoted_in_part() -> None:
    world = World()
    cut(world)
    told = Told((failed(),), {"03": [f"{SHUTDOWN}{'x' * 60_000}"]})
    assert len(death(verdict_of(world, told)).evidence[0].text) == 500


def test_begun_is_where_the_clock_of_the_table_stands() -> None:
    """The helper's attempts do not overlap: a copy is told by its times."""
    assert job("03").started_at != job("03", attempt=2).started_at
    assert job("03", began=BEGAN).started_at == BEGAN
