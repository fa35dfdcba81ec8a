"""How the jobs of a run can end, and what must come out; the texts are GitHub's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fakegithub.state import Fault
from guard import damages
from guard.cases.case import Case
from guard.damages import dies_in_its_last_test as dies
from guard.damages import record_removed as nothing_left
from guard.damages import short_of_memory
from guard.fake_jobs import (
    ARTIFACT_NAME,
    BY_HAND,
    DISK,
    EXIT_10,
    EXIT_137,
    EXIT_143,
    FAIL_FAST,
    KERNEL,
    KILLED,
    LOST,
    NEW_LIMIT,
    NO_UPLOAD,
    OLD_LIMIT,
    OPERATION,
    PRINTED,
    SET_UP,
    SET_UP_OF_ACTION,
    SHUTDOWN,
    STEP_LIMIT,
    SUPERSEDED,
    cancelled,
    failed,
    job,
)
from guard.fixtures import World

from ciguard.guard.github_facts import UNCOUNTED
from ciguard.model import Ending
from ciguard.model.jobs import Job

BOTH = ("annotations", "log")


def dead(
    left: Callable[[World], None],
    job_: Job,
    ending: Ending,
    shows: str,
    output: tuple[str, ...] = (),
    *,
    log: str | None = None,
    calls: tuple[str, ...] = (),
) -> Case:
    """Shard 03 dies, and nothing is known but what its job and its record say."""
    return Case(
        "incomplete",
        (left,),
        ending=ending,
        jobs=(job_,),
        legs="success",
        expected_texts=output,
        log=log,
        shows=shows,
        calls=calls or (BOTH[:1] if ending in UNCOUNTED else BOTH),
    )


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
    "set-up failed": dead(
        nothing_left, failed(SET_UP), "setup_failed", "Install: failure", calls=BOTH
    ),
    "set-up failed, with its error": replace(
        dead(
            nothing_left, failed(SET_UP), "setup_failed", "Install: failure",
            log="2026-11-21T11:00:01.1Z ERROR: No matching distribution found for foo==9\n",
            calls=BOTH,
        ),
        expected_headline='step "Install" failed before its tests: ERROR: No matching dist',
    ),
    "set-up before the action failed": dead(
        nothing_left, failed(SET_UP_OF_ACTION), "setup_failed", "Install: failure", calls=BOTH
    ),
    "the runner's own set-up": dead(
        nothing_left, failed((("Set up job", "failure"),)), "setup_failed", "Set up job: failure",
        calls=BOTH,
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
    "its artifact has an invalid name": dead(
        nothing_left, failed(NO_UPLOAD), "unknown", ARTIFACT_NAME, (ARTIFACT_NAME,)
    ),
    "an invalid name, in the log": dead(
        nothing_left, failed(NO_UPLOAD), "unknown", ARTIFACT_NAME,
        log=f"x\n2026-11-21T10:04:00.1Z ##[error]{ARTIFACT_NAME}\n", calls=BOTH,
    ),
    "an invalid name, and the job goes on": dead(
        nothing_left, job("03"), "unknown", ARTIFACT_NAME, (ARTIFACT_NAME,)
    ),
    "an invalid name that a test printed": dead(
        nothing_left, failed(NO_UPLOAD), "unknown", "Upload: failure",
        log=f"{ARTIFACT_NAME} PASSED\n", calls=BOTH,
    ),
    "not ended": dead(
        nothing_left, job("03", None, status="in_progress"), "unknown", "in_progress", calls=BOTH
    ),
    "unknown conclusion": dead(
        nothing_left, job("03", "evaporated"), "unknown", "evaporated", calls=BOTH
    ),
    "an empty word": dead(nothing_left, job("03", None), "unknown", "None", calls=BOTH),
}  # fmt: skip

LISTED_AGAIN = tuple(job(shard, attempt=2, began=job(shard).started_at) for shard in ("01", "02"))
SECOND_ATTEMPT = job("03", attempt=2)
OLDER = "its newest record is of attempt 1, but its job ran last in attempt 2"

ATTEMPTS = {
    "attempt 2 re-ran failed legs only": Case(
        "passed",
        (damages.shard_03_in_attempt_2,),
        jobs=(failed(), SECOND_ATTEMPT),
        attempt=2,
        calls=(),
    ),
    "attempt 2 lists the others again": Case(
        "passed",
        (damages.shard_03_in_attempt_2,),
        jobs=(failed(), *LISTED_AGAIN, SECOND_ATTEMPT),
        attempt=2,
        calls=(),
    ),
    "the re-run leg uploaded nothing": Case(
        "incomplete", (), OLDER, "unknown", jobs=(failed(), SECOND_ATTEMPT), attempt=2
    ),
    "the re-run leg was cancelled": Case(
        "incomplete",
        (),
        OLDER,
        "cancelled",
        jobs=(failed(), job("03", "cancelled", attempt=2, steps=KILLED)),
        expected_texts=(BY_HAND,),
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
        "incomplete",
        (damages.shard_03_in_attempt_2,),
        "is of attempt 2, but its job ran last",
        "unknown",
    ),
    "attempt 2, and GitHub is silent": Case(
        "incomplete",
        (damages.shard_03_in_attempt_2,),
        "it may have run again",
        shard="01",
        attempt=2,
        faults=(Fault(path="/jobs", status=404, message="Not Found"),),
    ),
}

MATRICES = {
    "all green": Case("passed", (), "PASSED: all 8 tests of 3 shards have a result", calls=()),
    "one failure": Case(
        "failed", (damages.failed,), "FAILED: 1 of 8 tests failed", calls=()
    ),
    "four dead legs that uploaded empty files": Case(
        "incomplete",
        (damages.four_empty_records,),
        "shards 01, 02, 03 and 1 more of 4 have no record (lost runner); 4 of 4 tests have no",
        "lost_runner",
        jobs=tuple(failed(shard=f"0{number}") for number in range(1, 5)),
        expected_texts=(LOST,),
    ),
    "4 legs of 8 in the matrix": Case(
        "incomplete",
        (damages.half_of_the_matrix,),
        "shards 05, 06, 07 and 1 more of 8 have no record (never started)",
        "never_started",
        shard="08",
        without=("05", "06", "07", "08"),

    ),
    "116 planned, 115 arrived, no baseline": Case(
        "incomplete",
        (damages.one_of_116,),
        "shard 77 of 116 has no record; 1 of 116 tests has no result",
        "unknown",
        shard="77",
    ),
    "a job of the matrix that is not there left a record": Case(
        "incomplete", (), 'no job of this run is named "tests (03)"', without=("03",)
    ),
    "a whole record of a cancelled job": Case(
        "incomplete", (), "its job is 'cancelled'", jobs=(cancelled(),)
    ),
    "a whole record, and a word that nobody knows": Case(
        "incomplete", (), "does not know the conclusion of its job", jobs=(job("03", "evaporated"),)
    ),
    "a list that has not seen a job end": Case(
        "passed", jobs=(job("03", None, status="in_progress"),), calls=()
    ),
    "a failed test beside a dead leg": Case(
        "incomplete", (damages.failed, nothing_left), "no result; 1 of 8 tests failed", "unknown"
    ),
}  # fmt: skip
