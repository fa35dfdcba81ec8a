"""What the legs of a run can leave, and what must come out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from guard import damages
from guard.cases.case import Case
from guard.fake_jobs import job
from guard.fixtures import World

from ciguard.guard.verdict import State
from ciguard.model import Ending


def shown(
    verdict: State,
    damage: Callable[[World], None],
    states: str,
    ending: Ending = "completed",
    shard: str = "01",
) -> Case:
    """What a leg left is enough to tell; its job ended as its record says."""
    return Case(verdict, (damage,), states, ending, shard)


incomplete = partial(shown, "incomplete")
failed = partial(shown, "failed")
passed = partial(shown, "passed")

RECORDS = {
    "all records gone": incomplete(
        damages.all_removed, "shards 01, 02, 03 of 3 have no record", "unknown"
    ),
    "empty files": incomplete(damages.empty_files, "shard 02 of 3 has no record", "unknown", "02"),
    "only a shard line": incomplete(
        damages.only_a_header, "shard 02 of 3 did not end by itself", "unknown", "02"
    ),
    "no shard line": incomplete(damages.no_header, "shard 02 of 3 has no record", "unknown", "02"),
    "no end line": incomplete(
        damages.no_end, "shard 02 of 3 did not end by itself", "unknown", "02"
    ),
    "a line cut": incomplete(damages.cut_line, "1 of 8 tests has no result", shard="02"),
    "a start without a result": incomplete(
        damages.start_without_result, "1 of 8 tests has no result"
    ),
    "neither start nor result": incomplete(
        damages.neither_start_nor_result, "1 of 8 tests has no result"
    ),
    "a process's file lost": incomplete(damages.process_file_lost, "3 of 8 tests have no result"),
    "one case lost": incomplete(
        damages.ended(counts={"passed": 4}), "with a count of 4 results, but holds 3"
    ),
    "a timeout": failed(damages.died("timeout"), "1 of 8 tests failed"),
    "a crash": failed(damages.died("crash"), "1 of 8 tests failed"),
    "out of memory": failed(damages.died("out_of_memory"), "1 of 8 tests failed"),
    "stopped for memory": failed(damages.died("memory_guard"), "1 of 8 tests failed"),
    "stopped at the deadline": incomplete(damages.died("deadline"), "1 of 8 tests has no result"),
    "cancelled in a test": incomplete(damages.died("cancelled"), "1 of 8 tests has no result"),
    "died of nobody knows what": incomplete(damages.died("unknown"), "1 of 8 tests has no result"),
    "a leg at its deadline": incomplete(
        damages.ended(ending="deadline", exit_code=13), "shard 01 of 3 did not end by", "deadline"
    ),
    "a leg that was told to end": incomplete(
        damages.ended(ending="cancelled", exit_code=143),
        "shard 01 of 3 did not end by itself",
        "cancelled",
    ),
    "a leg that says incomplete": incomplete(
        damages.ended(exit_code=13), "shard 01: it ended with exit code 13"
    ),
    "a leg that says failed": failed(
        damages.ended(exit_code=10), "shard 01: it ended with failed tests, but its record holds"
    ),
    "a skipped test": passed(damages.skipped, "have a result, 1 of them skipped"),
    "a flaky test": passed(damages.flaky, "all 8 tests of 3 shards have a result"),
    "a record of another plan": incomplete(
        damages.other_plan, "shard 03 of 3 has no record", "unknown", "03"
    ),
    "a record of another commit": incomplete(
        damages.other_commit, "shard 02 of 3 has no record", "unknown", "02"
    ),
    "a record of another commit than the run's": incomplete(
        damages.of_no_commit, "not aaaaaaaa", "unknown", "03"
    ),
    "a record of another run": incomplete(
        damages.other_run, "shard 03 of 3 has no record", "unknown", "03"
    ),
    "two plans in one folder": passed(damages.a_second_plan, "all 8 tests"),
    "a unit in two legs": passed(damages.doubled, "all 8 tests"),
    "a unit in two legs, and they differ": failed(
        damages.doubled_and_differing, "1 of 8 tests failed"
    ),
    "a failure and a pass of one try": failed(
        damages.passed_after_a_failure_of_the_same_try, "1 of 8 tests failed"
    ),
    "a process that is red for no test": failed(
        damages.red_process, "a process of shard 01 of 3 failed, and no failed test"
    ),
    "that beside a failed test": failed(
        damages.red_process_and_a_failure, "1 of 8 tests failed; a process of shard 01"
    ),
}

CUT_AFTER_4_S = "its record is truncated; last line 3.90 s after its start"
INTEGRITY = {
    "lines behind the end": incomplete(
        damages.lines_after_the_end, "2 lines after the end of the shard"
    ),
    "resumed behind the end": incomplete(
        damages.resumed_after_the_end, "1 line after the end of the shard", "unknown"
    ),
    "two ends": incomplete(damages.a_worse_end_before, "stopped at its deadline", "deadline"),
    "a step that went on and was lost": incomplete(
        damages.continued_and_lost, CUT_AFTER_4_S, "unknown"
    ),
    "a step that went on and ended": Case(
        "passed", (damages.continued_and_ended,), "all 8 tests", shard="01", jobs=(job("01"),)
    ),
    "a copy with another end": incomplete(
        damages.copied_with_another_end, "2 end lines that differ", "deadline"
    ),
    "a pass that claims another process": incomplete(
        damages.passing_as_process_2, "process 2 does not have one start and"
    ),
    "a unit in two processes at once": incomplete(
        damages.process_2_concurrent, "1 test ran in two processes at once"
    ),
    "a failure again, with one try": incomplete(
        damages.process_2_after_it, "1 test failed and ran again, but may run only once"
    ),
    "a failure again, with two": passed(damages.retried, "all 8 tests"),
    "a unit that begins again": incomplete(
        damages.restarted_after_result, "'a.t::two' begins again after its result"
    ),
    "a crash without a word": incomplete(
        damages.process_ended("crash", -9), "process 1 ended (crash, exit code -9), and no"
    ),
    "a crash with a last word": failed(damages.crash_with_a_last_word, "process 1 ended by crash"),
    "killed and completed": incomplete(
        damages.process_ended("completed", -9), "process 1 ended (completed, exit code -9)"
    ),
    "an exit code of nothing": incomplete(
        damages.process_ended("completed", 1), "process 1 ended (completed, exit code 1)"
    ),
    "two ends of a process": incomplete(
        damages.two_ends_of_a_process, "process 1 does not have one start and"
    ),
    "a process without an end": incomplete(
        damages.process_without_an_end, "process 1 does not have one start and"
    ),
    "a second process without an end": incomplete(
        damages.a_second_process_without_an_end, "process 2 does not have one start"
    ),
    "a process that nobody began": incomplete(
        damages.unannounced_process, "process 1 does not have one start and"
    ),
    "an end that counts nothing": incomplete(
        damages.ended(counts={}), "its record ends with a count of 0 results, but"
    ),
    "a result file lost": incomplete(
        damages.a_result_file_lost, "results/process-001/r.xml is missing"
    ),
    "a pass edited to a skip": incomplete(
        damages.a_pass_edited_to_a_skip, "a count of 3 executed tests, but holds 2"
    ),
    "failures that the end counts": incomplete(
        damages.ended(counts={"passed": 2, "failed": 1}), "with a count of 1 bad result"
    ),
}

INVENTORIES = {
    "a new test file the plan never saw": passed(damages.unplanned, "all 8 tests"),
    "a new test file, and it fails": failed(damages.unplanned_and_failed, "1 of 9 tests failed"),
    "a test file that was collected and not planned": incomplete(
        damages.not_all_planned, "1 test collected, but neither planned nor excluded"
    ),
    "a file that suddenly gives no tests": incomplete(
        damages.emptied_file, "1 test file without a planned test, but"
    ),
    "a file that never gave any": passed(damages.file_without_units, "all 8 tests"),
    "conftest broken on the pull request": incomplete(
        damages.collection_error, f"collection failed: {damages.BROKEN}"
    ),
    "fewer units than on the base": incomplete(
        damages.fewer_than_the_base, "8 tests planned, 10 on the base (-20.0 %)"
    ),
    "one percent fewer": passed(damages.one_percent_fewer, "all 99 tests of 1 shard"),
    "excluded by a rule": passed(damages.excluded, "all 8 tests"),
    "nothing planned": Case("incomplete", (damages.nothing_planned,), "no test is planned"),
}
