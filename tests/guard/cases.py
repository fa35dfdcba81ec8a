"""How a run can come, one row each: what its legs left, what GitHub says, what must come out.

`test_cases.py` puts each row through the real command; the texts are GitHub's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fakegithub.state import Fault
from guard import damages
from guard.damages import dies_in_its_last_test as dies
from guard.damages import record_removed as nothing_left
from guard.damages import short_of_memory
from guard.platform import (
    BY_HAND,
    DISK,
    EXIT_10,
    EXIT_137,
    EXIT_143,
    FAIL_FAST,
    FAILED,
    KERNEL,
    KILLED,
    LOST,
    NEW_LIMIT,
    NO_UPLOAD,
    OLD_LIMIT,
    OPERATION,
    PRINTED,
    SET_UP,
    SHUTDOWN,
    STEP_LIMIT,
    SUPERSEDED,
    cancelled,
    failed,
    job,
)
from guard.test_existing import junit
from guard.world import SHARDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from guard.world import World

    from ciguard.guard.verdict import State
    from ciguard.model import Ending
    from ciguard.model.jobs import Job

BOTH = ("annotations", "log")


@dataclass(frozen=True)
class Case:
    """One row.

    Attributes:
        happens: to what three green legs left.
        says: part of the first line, or of what is said of `shard`.
        ending: of `shard`.
        jobs: in place of those of their name and attempt, or beside them; all others ended as the
            last line of their leg says.
        said, log: of the newest job of `shard`.
        legs: what `needs` says of the matrix; "" for what the jobs come to.
        shows: part of the first evidence.
        calls: beside the list of jobs, for the one leg; None: not looked at.
        files, words: in the folder, and in place of `--records`.
        change: what a pull request changes; None: it is a push.
        event: another event of it, or other keys of its payload.
    """

    verdict: State
    happens: tuple[Callable[[World], None], ...] = ()
    says: str = ""
    ending: Ending = "completed"
    shard: str = "03"
    jobs: tuple[Job, ...] = ()
    said: tuple[str, ...] = ()
    log: str | None = None
    legs: str = ""
    shows: str = ""
    calls: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    attempt: int = 1
    files: Mapping[str, bytes] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    change: Mapping[str, str] | None = None
    event: tuple[str, Mapping[str, Any]] = ("", {})


def dead(
    left: Callable[[World], None],
    job_: Job,
    ending: Ending,
    shows: str,
    said: tuple[str, ...] = (),
    *,
    log: str | None = None,
    calls: tuple[str, ...] = ("annotations",),
) -> Case:
    """Shard 03 dies, and nothing is known but what its job and its record say."""
    silent = left is nothing_left and ending == "unknown"
    return Case(
        "incomplete",
        (left,),
        ending=ending,
        jobs=(job_,),
        legs="success",
        said=said,
        log=log,
        shows=shows,
        calls=(*calls, *["artifacts"] * silent),
    )


def quarantined(unit: str) -> str:
    """An entry that holds on any day on which it is looked at: the runner puts the date in."""
    return f'[[quarantine]]\nunit = "{unit}"\nreason = "late mail"\nissue = 4711\nuntil = UNTIL\n'


DEATHS = {
    "limit, new words": dead(dies, cancelled(915), "timeout", NEW_LIMIT, (NEW_LIMIT, OPERATION)),
    "limit, old words": dead(nothing_left, cancelled(915), "timeout", OLD_LIMIT, (OLD_LIMIT,)),
    # 15 minutes are declared; nobody may read annotations, or there are none.
    "limit, by duration": dead(dies, cancelled(925), "timeout", "its limit is 15 min 00 s"),
    "just below the limit": dead(dies, cancelled(899), "cancelled", "14 min 59 s", calls=BOTH),
    "timed_out": dead(nothing_left, job("03", "timed_out"), "timeout", "timed_out"),
    "a step's limit": dead(dies, failed(), "timeout", STEP_LIMIT, (STEP_LIMIT,)),
    "a step's limit, in the log": dead(
        dies, failed(), "timeout", STEP_LIMIT, log=f"x\n##[error]{STEP_LIMIT}\n", calls=BOTH
    ),
    "superseded": dead(dies, cancelled(), "superseded", SUPERSEDED, (SUPERSEDED, OPERATION)),
    "superseded at its limit": dead(
        nothing_left, cancelled(915), "superseded", SUPERSEDED, (NEW_LIMIT, SUPERSEDED)
    ),
    "by hand": dead(dies, cancelled(), "cancelled", BY_HAND, (OPERATION, BY_HAND)),
    "fail-fast": dead(dies, cancelled(), "cancelled", FAIL_FAST, (FAIL_FAST,)),
    "cancelled, nobody says by whom": dead(
        dies, cancelled(), "cancelled", "cancelled after 5 min 00 s", (OPERATION,), calls=BOTH
    ),
    "failure, shutdown signal, no failing test": dead(
        dies, failed(), "runner_shutdown", SHUTDOWN, (SHUTDOWN,)
    ),
    "shutdown signal in the log": dead(
        nothing_left, failed(), "runner_shutdown", SHUTDOWN, log=f"##[error]{SHUTDOWN}\n",
        calls=BOTH,
    ),
    "lost communication": dead(dies, failed(), "lost_runner", "lost communication", (LOST,)),
    "lost communication, memory gone": dead(
        short_of_memory, failed(), "lost_runner", "lost comm", (LOST,)
    ),
    "137 alone": dead(dies, failed(), "unknown", EXIT_137, (EXIT_137,), calls=BOTH),
    "143 alone": dead(nothing_left, failed(), "unknown", EXIT_143, (EXIT_143,), calls=BOTH),
    "137, memory gone": dead(short_of_memory, failed(), "out_of_memory", EXIT_137, (EXIT_137,)),
    "143, memory gone": dead(short_of_memory, failed(), "out_of_memory", EXIT_143, (EXIT_143,)),
    "memory gone alone": dead(short_of_memory, failed(), "unknown", "Run the shard", calls=BOTH),
    "the system's killer": dead(
        dies, failed(), "out_of_memory", "Out of memory: Killed process", (EXIT_137,),
        log=KERNEL, calls=BOTH,
    ),
    "the system's killer, memory gone": dead(
        short_of_memory, failed(), "out_of_memory", "Out of memory: Killed process", log=KERNEL,
        calls=BOTH,
    ),
    "the system's killer alone": dead(
        dies, failed(), "unknown", "Out of memory: Killed process", log=KERNEL, calls=BOTH
    ),
    "a kill that a test printed, by hand": dead(
        nothing_left, cancelled(), "cancelled", "cancelled after", log=KERNEL, calls=BOTH
    ),
    "disk full": dead(dies, failed(), "disk_full", "No space left", log=DISK, calls=BOTH),
    "disk full, by the runner": dead(
        nothing_left, failed(), "disk_full", "No space left",
        log="2026-11-21T10:04:00.1Z ##[error]No space left on device : '/_diag/w.log'\n",
        calls=BOTH,
    ),
    "a full disk that a test printed, cancelled": dead(
        nothing_left, cancelled(), "cancelled", "cancelled after", log=PRINTED, calls=BOTH
    ),
    "a full disk that a test printed, no record": dead(
        nothing_left, failed(), "unknown", "No space left", log=PRINTED, calls=BOTH
    ),
    "a full disk that a test printed, killed": dead(
        dies, failed(), "unknown", EXIT_137, (EXIT_137,), log=PRINTED, calls=BOTH
    ),
    "a full disk that a test printed, tests failed": dead(
        dies, failed(), "unknown", EXIT_10, (EXIT_10,), log=PRINTED, calls=BOTH
    ),
    "set-up failed": dead(nothing_left, failed(SET_UP), "setup_failed", "Install: failure"),
    "the runner's own set-up": dead(
        nothing_left, failed((("Set up job", "failure"),)), "setup_failed", "Set up job: failure"
    ),
    "skipped": dead(nothing_left, job("03", "skipped", steps=()), "never_started", "skipped"),
    "queued": dead(
        nothing_left, job("03", None, status="queued", steps=()), "never_started", "queued"
    ),
    "cancelled in the queue": dead(
        nothing_left, job("03", "cancelled", steps=()), "never_started", "cancelled"
    ),
    # `needs` says success where continue-on-error is set; the job itself says failure.
    "continue-on-error": dead(
        nothing_left, failed(), "unknown", "Run the shard: failure", calls=BOTH
    ),
    "green and nothing uploaded": dead(
        nothing_left, job("03"), "unknown", "success", calls=BOTH
    ),
    "its upload failed": dead(
        nothing_left, failed(NO_UPLOAD), "unknown", "Upload: failure", calls=BOTH
    ),
    "not ended": dead(
        nothing_left, job("03", None, status="in_progress"), "unknown", "in_progress", calls=BOTH
    ),
    "unknown conclusion": dead(
        nothing_left, job("03", "evaporated"), "unknown", "evaporated", calls=BOTH
    ),
    "an empty word": dead(nothing_left, job("03", None), "unknown", "None", calls=BOTH),
}  # fmt: skip

NOT_AGAIN = tuple(job(shard, attempt=2, began=job(shard).started_at) for shard in ("01", "02"))
AGAIN = job("03", attempt=2)
OLDER = "the newest is of attempt 1, and its job ran last in attempt 2"

ATTEMPTS = {
    "attempt 2 re-ran failed legs only": Case(
        "passed", (damages.shard_03_again,), jobs=(failed(), AGAIN), attempt=2, calls=()
    ),
    "attempt 2 lists the others again": Case(
        "passed", (damages.shard_03_again,), jobs=(failed(), *NOT_AGAIN, AGAIN), attempt=2, calls=()
    ),
    "the re-run leg uploaded nothing": Case(
        "incomplete", (), OLDER, "unknown", jobs=(failed(), AGAIN), attempt=2
    ),
    "the re-run leg was cancelled": Case(
        "incomplete",
        (),
        OLDER,
        "cancelled",
        jobs=(failed(), job("03", "cancelled", attempt=2, steps=KILLED)),
        said=(BY_HAND,),
        attempt=2,
    ),
    "same artifact name twice, the second refused": Case(
        "incomplete", (), OLDER, "unknown", jobs=(failed(), failed(NO_UPLOAD, attempt=2)), attempt=2
    ),
    "same artifact twice": Case("passed", (damages.copied,), shard="01"),
    "same artifact name, another content": Case(
        "incomplete", (damages.copied_and_changed,), "contradict each other", shard="01"
    ),
    "a record of an attempt that its job never had": Case(
        "incomplete", (damages.shard_03_again,), "is of attempt 2, and its job ran last", "unknown"
    ),
    "attempt 2, and GitHub is silent": Case(
        "incomplete",
        (damages.shard_03_again,),
        "whether it ran again is not known",
        shard="01",
        attempt=2,
        faults=(Fault(path="/jobs", status=404, message="Not Found"),),
    ),
}

MATRICES = {
    "all green": Case("passed", (), "PASSED: all 8 units of 3 shards have a result", calls=()),
    "one failure": Case(
        "failed", (damages.failed,), "FAILED: 1 of 8 units failed", calls=()
    ),
    "four dead legs that uploaded empty files": Case(
        "incomplete",
        (damages.four_empty_records,),
        "shards 01, 02, 03 and 1 more of 4 have no record (lost runner); 4 of 4 units have no",
        "lost_runner",
        jobs=tuple(failed(shard=f"0{number}") for number in range(1, 5)),
        said=(LOST,),
    ),
    "4 legs of 8 in the matrix": Case(
        "incomplete",
        (damages.half_of_the_matrix,),
        "shards 05, 06, 07 and 1 more of 8 have no record (never started)",
        "never_started",
        shard="08",
        without=("05", "06", "07", "08"),
        shows='no job of this run is called "tests (08)"',
    ),
    "116 planned, 115 arrived, no baseline": Case(
        "incomplete",
        (damages.one_of_116,),
        "shard 77 of 116 has no record; 1 of 116 units has no result",
        "unknown",
        shard="77",
    ),
    "a job of the matrix that is not there left a record": Case(
        "incomplete", (), 'no job of this run is called "tests (03)"', without=("03",)
    ),
    "a whole record of a cancelled job": Case(
        "incomplete", (), "its job is 'cancelled'", jobs=(cancelled(),)
    ),
    "a whole record, and a word that nobody knows": Case(
        "incomplete", (), "'evaporated': a word that this version", jobs=(job("03", "evaporated"),)
    ),
    "a list that has not seen a job end": Case(
        "passed", jobs=(job("03", None, status="in_progress"),), calls=()
    ),
    "a failed test beside a dead leg": Case(
        "incomplete", (damages.failed, nothing_left), "no result; 1 of 8 units failed", "unknown"
    ),
}  # fmt: skip


def shown(
    verdict: State,
    damage: Callable[[World], None],
    says: str,
    ending: Ending = "completed",
    shard: str = "01",
) -> Case:
    """What a leg left is enough to tell; its job ended as its record says."""
    return Case(verdict, (damage,), says, ending, shard)


RECORDS = {
    "all records gone": shown(
        "incomplete", damages.all_removed, "shards 01, 02, 03 of 3 have no record", "unknown"
    ),
    "empty files": shown(
        "incomplete", damages.empty_files, "shard 02 of 3 has no record", "unknown", "02"
    ),
    "only a shard line": shown(
        "incomplete", damages.only_a_header, "shard 02 of 3 did not end by itself", "unknown", "02"
    ),
    "no shard line": shown(
        "incomplete", damages.no_header, "shard 02 of 3 has no record", "unknown", "02"
    ),
    "no end line": shown(
        "incomplete", damages.no_end, "shard 02 of 3 did not end by itself", "unknown", "02"
    ),
    "a line cut": shown("incomplete", damages.cut_line, "1 of 8 units has no result", shard="02"),
    "a start without a result": shown(
        "incomplete", damages.start_without_result, "1 of 8 units has no result"
    ),
    "neither start nor result": shown(
        "incomplete", damages.neither_start_nor_result, "1 of 8 units has no result"
    ),
    "a process's file lost": shown(
        "incomplete", damages.process_file_lost, "3 of 8 units have no result"
    ),
    "one case lost": shown(
        "incomplete", damages.one_case_lost, "its end line counts 4 results, its record holds 3"
    ),
    "a timeout": shown("failed", damages.timed_out, "1 of 8 units failed"),
    "a crash": shown("failed", damages.crashed, "1 of 8 units failed"),
    "out of memory": shown("failed", damages.out_of_memory, "1 of 8 units failed"),
    "stopped for memory": shown("failed", damages.memory_guard, "1 of 8 units failed"),
    "stopped at the deadline": shown(
        "incomplete", damages.stopped_at_the_deadline, "1 of 8 units has no result"
    ),
    "cancelled in a test": shown(
        "incomplete", damages.cancelled_in_it, "1 of 8 units has no result"
    ),
    "died of nobody knows what": shown(
        "incomplete", damages.died_of_the_unknown, "1 of 8 units has no result"
    ),
    "a leg at its deadline": shown(
        "incomplete", damages.leg_at_its_deadline, "shard 01 of 3 did not end by", "deadline"
    ),
    "a leg that was told to end": shown(
        "incomplete", damages.leg_cancelled, "shard 01 of 3 did not end by itself", "cancelled"
    ),
    "a leg that says incomplete": shown(
        "incomplete", damages.leg_says_incomplete, "shard 01: it ended with exit code 13"
    ),
    "a leg that says failed": shown(
        "failed", damages.leg_says_failed, "shard 01 says that tests failed, and its record holds"
    ),
    "a skipped test": shown("passed", damages.skipped, "have a result, 1 of them skipped"),
    "a flaky test": shown("passed", damages.flaky, "all 8 units of 3 shards have a result"),
    "a record of another plan": shown(
        "incomplete", damages.other_plan, "shard 03 of 3 has no record", "unknown", "03"
    ),
    "a record of another commit": shown(
        "incomplete", damages.other_commit, "shard 02 of 3 has no record", "unknown", "02"
    ),
    "a record of another commit than the run's": shown(
        "incomplete", damages.of_no_commit, "and this run of aaaaaaaa", "unknown", "03"
    ),
    "a record of another run": shown(
        "incomplete", damages.other_run, "shard 03 of 3 has no record", "unknown", "03"
    ),
    "two plans in one folder": shown("passed", damages.a_second_plan, "all 8 units"),
    "a unit in two legs": shown("passed", damages.doubled, "all 8 units"),
    "a unit in two legs, and they differ": shown(
        "failed", damages.doubled_and_differing, "1 of 8 units failed"
    ),
    "a failure and a pass of one try": shown(
        "failed", damages.passed_behind_a_failure_of_the_same_try, "1 of 8 units failed"
    ),
    "a process that is red for no test": shown(
        "failed", damages.red_process, "a process of shard 01 of 3 failed, and no failed test"
    ),
    "that beside a failed test": shown(
        "failed", damages.red_process_and_a_failure, "1 of 8 units failed; a process of shard 01"
    ),
}

GONE_ON = "its record was cut: it has no end line, the last sign of life is 4 s after its start"
INTEGRITY = {
    "lines behind the end": shown(
        "incomplete", damages.lines_behind_the_end, "2 lines behind the end of the leg"
    ),
    "resumed behind the end": shown(
        "incomplete", damages.resumed_behind_the_end, "1 line behind the end of the leg", "unknown"
    ),
    "two ends": shown(
        "incomplete", damages.a_worse_end_before, "it stopped at its deadline", "deadline"
    ),
    "a step that went on and was lost": shown(
        "incomplete", damages.gone_on_and_lost, GONE_ON, "unknown"
    ),
    "a step that went on and ended": Case(
        "passed", (damages.gone_on_and_ended,), "all 8 units", shard="01", jobs=(job("01"),)
    ),
    "a copy with another end": shown(
        "incomplete", damages.copied_with_another_end, "2 end lines that differ", "deadline"
    ),
    "a pass that claims another process": shown(
        "incomplete", damages.passing_as_process_2, "lines of process 2, which was never begun"
    ),
    "a unit in two processes at once": shown(
        "incomplete", damages.process_2_beside_it, "1 unit ran in two processes at once"
    ),
    "a failure again, with one try": shown(
        "incomplete", damages.process_2_behind_it, "1 unit failed and ran again, and the plan gives"
    ),
    "a failure again, with two": shown("passed", damages.tried_again, "all 8 units"),
    "a unit that begins again": shown(
        "incomplete", damages.begun_again, "'a.t::two' begins again behind its result"
    ),
    "a crash without a word": shown(
        "incomplete", damages.silent_crash, "process 1 ended by crash, without a victim"
    ),
    "a crash with a last word": shown(
        "failed", damages.crash_with_a_last_word, "process 1 ended by crash"
    ),
    "killed and completed": shown(
        "incomplete", damages.killed_and_completed, "process 1 was killed by signal 9"
    ),
    "an exit code of nothing": shown(
        "incomplete", damages.exit_code_of_nothing, "process 1 ended with exit code 1, and nothing"
    ),
    "two ends of a process": shown(
        "incomplete", damages.two_ends_of_a_process, "process 1 begins or ends in several ways"
    ),
    "a process without an end": shown(
        "incomplete", damages.process_without_an_end, "process 1 was begun, and nothing says that"
    ),
    "a second process without an end": shown(
        "incomplete", damages.a_second_process_without_an_end, "process 2 was begun, and nothing"
    ),
    "a process that nobody began": shown(
        "incomplete", damages.process_that_nobody_began, "process 1 ends, and was never begun"
    ),
    "an end that counts nothing": shown(
        "incomplete", damages.an_end_that_counts_nothing, "its end line counts 0 results, its"
    ),
    "a result file lost": shown(
        "incomplete", damages.a_result_file_lost, "results/process-001/r.xml is missing"
    ),
    "failures that the end counts": shown(
        "incomplete", damages.failures_that_the_end_counts, "its end line counts 1 bad result"
    ),
}

INVENTORIES = {
    "a new test file the plan never saw": shown("passed", damages.unplanned, "all 8 units"),
    "a new test file, and it fails": shown(
        "failed", damages.unplanned_and_failed, "1 of 8 units failed"
    ),
    "a test file that was collected and not planned": shown(
        "incomplete", damages.not_all_planned, "1 unit collected, and neither planned nor excluded"
    ),
    "a file that suddenly gives no tests": shown(
        "incomplete", damages.emptied_file, "1 test file without a unit, and with some on the base"
    ),
    "a file that never gave any": shown("passed", damages.file_without_units, "all 8 units"),
    "conftest broken on the pull request": shown(
        "incomplete", damages.collection_error, f"collecting failed: {damages.BROKEN}"
    ),
    "fewer units than on the base": shown(
        "incomplete", damages.fewer_than_the_base, "8 units were collected, 9 on the base (-11.1 %)"
    ),
    "one percent fewer": shown("passed", damages.one_percent_fewer, "all 99 units of 1 shard"),
    "excluded by a rule": shown("passed", damages.excluded, "all 8 units"),
    "nothing planned": Case("incomplete", (damages.nothing_planned,), "no unit is planned"),
}

NEEDS = {
    "needs failure, and no record says why": Case(
        "incomplete", (), "job legs is 'failure', and no record says why", legs="failure"
    ),
    "needs cancelled": Case("incomplete", (), "job legs is 'cancelled'", legs="cancelled"),
    "needs skipped": Case("incomplete", (), "job legs is 'skipped'", legs="skipped"),
    "needs a word that nobody knows": Case(
        "incomplete", (), "a word that this version does not know", legs="neutral"
    ),
    "needs cancelled, and a test failed": Case(
        "incomplete", (damages.failed,), "job legs is 'cancelled'; 1 of 8 units failed",
        legs="cancelled",
    ),
}  # fmt: skip

XML = {f"a/{shard}/r.xml": junit(units) for shard, units in SHARDS.items()}
CUT = {**XML, "a/02/r.xml": XML["a/02/r.xml"][:-30]}
RESULTS = ("--results", "a/{shard}/*.xml")

EVENTS = {
    "quarantine edited in the pull request": Case(
        "failed",
        (damages.failed,),
        "1 of 8 units failed; this pull request changes quarantine.toml",
        shard="01",
        change={"quarantine.toml": quarantined("a.t::two")},
    ),
    "a pull request that changes no policy": Case("passed", change={"shop.py": ""}),
    "a fork's run": Case(
        "incomplete",
        (nothing_left,),
        "shard 03 of 3 has no record (superseded)",
        "superseded",
        jobs=(cancelled(),),
        said=(SUPERSEDED,),
        change={"shop.py": ""},
        event=("pull_request", {"repo": {"full_name": "stranger/shop"}}),
    ),
    "merge_group": Case(
        "failed",
        (damages.failed,),
        "1 of 8 units failed; this merge group changes quarantine.toml",
        change={"quarantine.toml": quarantined("a.t::two")},
        event=("merge_group", {}),
    ),
    "XML whole": Case("passed", files=XML, words=RESULTS),
    "XML cut": Case(
        "incomplete", (), "shard 02 of 3 did not end", "unknown", shard="02", files=CUT,
        words=RESULTS,
    ),
}  # fmt: skip

OUT_OF_REACH = {
    "API 403": Fault(path="/jobs", status=403, message="Resource not accessible by integration"),
    "API 404": Fault(path="/jobs", status=404, message="Not Found"),
    "API 429": Fault(path="/jobs", status=429, headers={"Retry-After": "9999"}),
    "API 502": Fault(path="/jobs", status=502, text="<html>", times=9),
    "API cut off": Fault(path="/jobs", status=0, times=9),
    "API hanging": Fault(path="/jobs", status=200, delay_s=60.0, times=9),
}
UNTOLD = "judged by the plan, the records and what `needs` says"

REFUSALS = {
    **{name: Case("passed", faults=(fault,)) for name, fault in OUT_OF_REACH.items()},
    **{
        f"{name}, a leg gone": Case(
            "incomplete",
            (nothing_left,),
            "shard 03 of 3 has no record;",
            "unknown",
            faults=(fault,),
        )
        for name, fault in OUT_OF_REACH.items()
    },
    "API 404, and a record of another commit": Case(
        "incomplete",
        (damages.of_no_commit,),
        "and this run of aaaaaaaa",
        "unknown",
        faults=(OUT_OF_REACH["API 404"],),
    ),
    "API 403 for annotations": Case(
        "incomplete",
        (nothing_left,),
        ending="unknown",
        jobs=(failed(FAILED),),
        faults=(Fault(path="/annotations", status=403, message="Resource not accessible"),),
    ),
    "API 404 for a log": Case(
        "incomplete", (nothing_left,), ending="unknown", jobs=(failed(FAILED),), log=None
    ),
}

CASES = {
    **MATRICES,
    **DEATHS,
    **ATTEMPTS,
    **RECORDS,
    **INTEGRITY,
    **INVENTORIES,
    **NEEDS,
    **EVENTS,
    **REFUSALS,
}
