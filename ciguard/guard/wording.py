"""The sentences of a verdict: message and advice of each kind of finding. Pure.

`WORDS` holds the sentences as templates over the facts of a finding (render/notes.py fills them):
`{count:shard}` is a number with its noun, "3 shards"; `{code:exit}` an exit code or signal;
`{ending:words}` a name with spaces for "_"; a part in [brackets] is left out if a fact in it is
missing. So "crashed[: {output}]" with output "Segfault" is "crashed: Segfault", otherwise
"crashed".

Terms in its keys: an *orphan* is a test in no shard of a hand-written matrix. A shard without work
*claims* tests of another one. At a *checkpoint* a job ends its step to upload its record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ciguard.codec.coverage_file import WITH_BRANCHES, Coverage
from ciguard.guard.verdict import Finding
from ciguard.model.execution import WORDS as EXECUTION
from ciguard.model.probes import Repeats
from ciguard.render.notes import Note, Words, fill
from ciguard.run.policy.repeats import MIN_REPEATS
from ciguard.text import count_of, name_some, one_line

MAX_SHARDS_NAMED: Final = 40  # shards with the same finding; their keys are short
LEFT_OUT: Final = "not read as test results"
WITHOUT_HISTORY: Final = "the run is judged without past runs"

# Parts that several sentences share; the first ones are advice.
_RERUN: Final = "check the log of its job, then run it again"
_COUNTED: Final = (
    "timeouts {timeouts}, out of memory {out_of_memory} in [the last {last_bytes} of ]its log"
)
_MEMORY: Final = "plan with fewer processes, or give its pool more memory"
_TIME: Final = "raise the limit, or plan more shards"
_CANCELLED: Final = "find out who cancelled it, then run it again"
_JOB: Final = "check its job: the step with the tests did not begin"
_UPLOAD: Final = "check the step that uploads its record, then run it again"
_GITHUB: Final = "run this command again when GitHub answers"
_UPDATE: Final = "update ciguard"
_ACKNOWLEDGE: Final = "set guard.orphans = {count} in the configuration of the base branch"
_NOT_COUNTED: Final = "pass only the records of this run; this one was not counted"
_FILE: Final = "remove the file if it has no tests; otherwise repair it, or list its tests"
_FOREIGN_FILE: Final = "check what the job uploaded: `ciguard run` does not write such files"
_NO_RESULT: Final = "{units:planned test} without a result"
_FEWER: Final = (
    "{now:test} {known}[ of {combination}], {before:,} on the base (-{drop_ratio}[, {source}])"
    "[; fewer also of {others}]"
)
_SETTING: Final = "{}[ in {{count:shard}}]: {{settings}}"
_THREADS: Final = "end each thread in the test that starts it, or make it a daemon"
_OUTPUT: Final = "see the last output in its record"


WORDS: Final[Mapping[str, Words]] = {
    # The end of a shard: its ending, as its record or its job shows it.
    "timeout": Words("time limit exceeded", _TIME),
    "out_of_memory": Words("out of memory", _MEMORY),
    "crash": Words("crashed[: {output}]", _OUTPUT),
    "deadline": Words(
        "stopped at its deadline",
        "plan more shards, raise plan.limit, or set a timeout for a test that hangs",
    ),
    "memory_guard": Words("stopped before memory ran out", _MEMORY),
    "cancelled": Words("cancelled", _CANCELLED),
    "superseded": Words("cancelled for a newer run", "nothing to do: the newer run replaces it"),
    "lost_runner": Words(
        "GitHub lost its runner", "run it again; if this repeats, give its pool more memory"
    ),
    "runner_shutdown": Words("its runner was shut down", "run it again"),
    "disk_full": Words("its disk was full", "free disk space on the runner before the tests"),
    "setup_failed": Words("its tests could not be set up[: {output}]", _OUTPUT),
    "never_started": Words("it did not start", _JOB),
    "unknown": Words("it ended for an unknown reason", _RERUN),
    "truncated": Words("its record is truncated[; last line {last_s} after its start]", _RERUN),
    "empty_record": Words("its record is empty", _RERUN),
    "checkpoint": Words(
        "it stopped at a checkpoint, and no later step left a record",
        "run it again: it continues from the checkpoint",
    ),
    "exit_code": Words("it ended with exit code {exit_code}", _RERUN),
    "internal_error": Words("ciguard itself failed: {output}", _RERUN),
    # The end of a shard, by GitHub's list of jobs.
    "no_job": Words(
        'no job of this run is named "{name}"',
        "give the job the matrix of this plan, unchanged",
    ),
    "job_limit": Words(
        "the job hit its limit[ of {limit_s}]",
        "plan more shards, raise the limit, or shorten the slowest tests",
    ),
    "not_executed": Words(
        "its job is {conclusion}", "check for a free runner, its `if:` and the jobs that it needs"
    ),
    "cancelled_by_fail_fast": Words(
        "its job was cancelled because another job failed", "set `fail-fast: false` in its matrix"
    ),
    "step_timeout": Words(
        "a step exceeded its time limit", "raise the limit of that step, or plan more shards"
    ),
    "step_failed": Words(
        'step "{step}" failed before its tests[: {error}]',
        'see step "{step}" in the log of its job',
    ),
    "artifact_name": Words("artifact name {name!r} is not valid", "use {valid_name!r}"),
    "conclusion_unknown": Words(
        "this version does not know the conclusion of its job, {conclusion!r}", _UPDATE
    ),
    "job_open": Words(
        "GitHub lists its job as not completed", "run this command again when it is completed"
    ),
    "job_succeeded": Words("its job succeeded", _UPLOAD),
    "tests_exited": Words("its tests ended with exit code {exit_code}"),
    "record_without_job": Words(
        'it has a record, but no job of this run is named "{name}"',
        "check the jobs of the run, then run it again",
    ),
    "job_contradicts": Words(
        "its record is complete, but its job is {conclusion!r}",
        "check the steps after the tests in the log of its job, then run it again",
    ),
    "job_ambiguous": Words(
        "several jobs of this run have its name[; its record is of attempt {attempt}]",
        "give each job a different name",
    ),
    # The jobs of the run.
    "jobs_unknown": Words("the verdict does not consider how the jobs ended"),
    "no_token": Words(
        "there is no GITHUB_TOKEN",
        "set GITHUB_TOKEN: ${{{{ github.token }}}} in env; it needs actions: read, checks: read",
    ),
    "jobs_refused": Words("{error}", "{advice}"),
    "jobs_unmatched": Words(
        'none of {jobs:job} has the name "{name}"',
        "give the matrix job `name: ${{{{ matrix.name }}}}`",
    ),
    "jobs_without_shard": Words(
        'none of {jobs:job} has a name that ends with its shard, such as "{shard}"',
        "end the name of the matrix job with `${{{{ matrix.ciguard }}}}`",
    ),
    "attempt_unknown": Words(
        "it may have run again[: its record is of attempt {theirs}, this is attempt {ours}]",
        _GITHUB,
    ),
    "not_planned_again": Words(
        "the results are of an earlier attempt: attempt {attempt} plans again, but its job {job} "
        "is {conclusion!r}",
        "check the log of that job, then run it again",
    ),
    "needs_empty": Words(
        "`needs` names no job",
        "give this job `needs:` with the jobs of plan and shards, or leave --needs out",
    ),
    "job_excused": Words("job {job} failed; its failures do not fail the run"),
    "job_failed": Words("job {job} failed", "see the failed tests"),
    "job_unexplained": Words("job {job} failed, but no record explains it", "check its log"),
    "job_died": Words("job {job}: {ending:words}", _RERUN),
    "job_log": Words(f"job {{job}}: {_COUNTED}"),
    "job_not_successful": Words("job {job} is {result!r}", _RERUN),
    # Evidence of a cause: what GitHub or the record shows.
    "annotation": Words("{text}"),
    "other_job": Words("{text}"),
    "log": Words("{text}"),
    "counted": Words(_COUNTED),
    "job": Words(
        "{name}: {conclusion}[ after {wall_s}][, its limit is {limit_s}][ in attempt {attempt}]"
    ),
    "step": Words("{name}: {conclusion}"),
    "memory": Words(
        "free memory fell from {most_bytes} at {most_at_s} to {left_bytes}[ of {memory_bytes}] "
        "at {at_s}, the last sample"
    ),
    "peak_programs": Words(
        "most memory at {at_s}: {program_bytes}[, GPU {gpu_bytes}]; one at a time: {apart_bytes}"
    ),
    "failed_allocation": Words("asked for {requested_bytes}[ on {device}]"),
    "event": Words("{event:words} at {at_s}[: {detail}]"),
    "stops": Words("the record ends, and shows no kill"),
    "not_fetched": Words("{what} ({error})"),
    "not_queried": Words("more than {limit} jobs died, so GitHub was not asked about each"),
    # Records that are missing, or of another plan, run or shard.
    "no_record": Words(
        "no record",
        "check whether its job was cancelled or skipped, or its upload failed; then run it again",
    ),
    "no_record_of_plan": Words("no record of this plan"),
    "other_plan": Words("{source} is of plan {theirs}, not {ours}", _NOT_COUNTED),
    "only_other_plans": Words(
        "no record is of this plan: {source} is of another one[, {theirs}][; so are {more} more]",
        "pass the plan of these records, or the records of this plan's run",
    ),
    "other_repository": Words("{source} is of repository {theirs}, not {ours}", _NOT_COUNTED),
    "other_commit": Words("{source} is of commit {theirs}, not {ours}", _NOT_COUNTED),
    "other_run": Words("{source} is of run {theirs}, not {ours}", _NOT_COUNTED),
    "other_attempt": Words(
        "its newest record is of attempt {theirs}, but its job ran last in attempt {ours}", _UPLOAD
    ),
    "unknown_shard": Words(
        "{source} is of shard {theirs!r}, which is not in the plan", _NOT_COUNTED
    ),
    "no_shard_line": Words(
        "files without a shard line: {files}",
        "check the upload: supervisor.jsonl of the record is missing or damaged",
    ),
    "older_record_without_shard_line": Words(
        "a record of attempt {theirs} has no shard line ({source}); attempt {ours} counts"
    ),
    "empty_record_file": Words(
        "empty files, although each shard has a record: {files}", "check what the jobs upload"
    ),
    "results_of_unknown_shard": Words(
        "{count:result file} of shard {theirs!r}, which is not in the plan: {paths}",
        "let --results name the shard as the plan does ({shards}), or plan the shard",
    ),
    "unread_file": Words("{problem}; it was not read", _FOREIGN_FILE),
    "unread_files": Words("{count:,} more files or artifacts were not read", _FOREIGN_FILE),
    "duplicate_record": Words(
        "its record was passed more than once: {sources}", "pass each record once"
    ),
    # Records that are damaged or contradict themselves, and ends of processes.
    "damaged": Words(
        "its record is damaged: {damage}[ and {more} more]", "run it again; pass each record once"
    ),
    "unreadable_metric": Words(
        "metrics without a value: {first}[ and {more} more]", "write a finite number, or no line"
    ),
    "contradictory": Words(
        "its record contradicts itself[ {count} times]",
        "run it again: `ciguard run` does not write such a record",
    ),
    "process_lines": Words("process {process} does not have one start and then one end"),
    "process_end": Words(
        "process {process} ended ({ending:words}, exit code {exit_code}), and no line explains it"
    ),
    "concurrent_units": Words("{count:test} ran in two processes at once: {unit!r}"),
    "too_many_tries": Words("{count:test} failed and ran again, but may run only once: {unit!r}"),
    "lines_missing": Words(
        "its record ends with a count of {counted:{what}}, but holds {found:,}",
        "check its upload: a file of the record is missing; then run it again",
    ),
    "end_incomplete": Words(
        "it ended with exit code 13 (incomplete), but each test has a result", _RERUN
    ),
    "failure_missing": Words(
        "it ended with failed tests, but its record holds no failed result",
        "check the log of its job",
    ),
    "unexplained_exit": Words(
        "process {process} ended with {exit_code:exit}, and no failed test explains it"
        "[; last output: {output}]",
        "check the log of its job: a hook of the session, a coverage gate or a crash after the "
        "last test",
    ),
    "no_exit": Words(
        "[process {process} did not end: ]stopped {after_s} after its last test"
        "[; threads left over: {threads}]",
        _THREADS,
    ),
    "threads_left": Words(
        "[process {process} ended ]{after_s} after its last test: threads left over[, {threads}]",
        _THREADS,
    ),
    "serial": Words("one test at a time: several do not fit into its memory"),
    "fewer_workers": Words(
        "{workers} of {tool_workers} workers: no more fit into its memory, by measured peaks"
    ),
    "session_teardown": Words("{after_s} after its last test: session teardown"),
    "process_exit": Words("{after_s} after its last test: process exit"),
    "died_between_tests": Words(
        "process {process} ended by {ending:words} ({exit_code:exit}), and no test explains it"
        "[; last output: {output}]",
        "check why it ended",
    ),
    "reaper_killed": Words(
        "ciguard's supervisor of process {process} was killed",
        "find the test that kills its parent process",
    ),
    "ran_beside": Words(
        "{units:test} ran in the process that {culprit} ended, and ran again alone"
    ),
    # Planned tests without a result in a job that ended by itself, by the reason that it recorded.
    "not_imported": Words(
        _NO_RESULT,
        "run {file} alone: for the plan it was imported after other files, and may need one of "
        "them; if it can be imported alone, install the package that this job does not have",
    ),
    "deselected": Words(_NO_RESULT, "remove the plugin or option that deselects them in the job"),
    "not_found": Words(
        _NO_RESULT,
        "make the plan again on this commit if tests were renamed or moved, and check the working "
        "folder of the suite",
    ),
    "not_reached": Words(_NO_RESULT, _OUTPUT),
    "in_files": Words(
        _NO_RESULT, "let the command append a result line for it, or name it in a result file"
    ),
    "not_run": Words(_NO_RESULT, "run its job again: it ended before this test"),
    "no_result": Words(_NO_RESULT, "let the command append one result line for each of its tests"),
    "no_reason_recorded": Words(
        _NO_RESULT, "make the plan again on this commit: the tests may be gone"
    ),
    # The reason for which one planned test has no result, in the list of these tests.
    "not_mentioned": Words("its job ended by itself, without a record of this test"),
    "reported": Words("{detail}"),
    "shard_without_record": Words("its shard has no record"),
    "stopped": Words("stopped: {ending:words}"),
    "last_try_unfinished": Words("its last try did not finish"),
    "unfinished": Words("started, but did not finish"),
    "no_case": Words("no result file names it"),
    "not_started": Words("not started, as its job did not end by itself"),
    # Tests that another shard claimed.
    "claim_without_record": Words(
        "{units:test} moved to another job[, that of shard {claimer}], and no record claims them",
        "check the step that uploads the record of that job, then run this job again",
    ),
    "not_claimed_again": Words(
        "{units:test} claimed by shard {claimer} in attempt {attempt}, and not claimed again",
        "run the job of shard {owner} again, which has these tests in the plan, or all jobs "
        '("Re-run failed jobs" leaves out a job that succeeded)',
    ),
    # The plan: collected tests, and those of the base.
    "nothing_planned": Words(
        "no test is planned", "check the job that plans: nothing was collected"
    ),
    "collection_error": Words(
        "collection failed: {error}", "fix it: tests after a collection error do not run"
    ),
    "not_planned": Words(
        "{count:test} collected, but neither planned nor excluded",
        "make the plan again, and pass it on unchanged",
    ),
    "fewer_units": Words(
        _FEWER,
        "bring them back, update the branch, or set guard.min_units in the configuration of the "
        "base branch to {planned} or less",
    ),
    "fewer_units_accepted": Words(f"{_FEWER}: accepted by guard.min_units = {{min_units}}"),
    "combination_gone": Words(
        "{count:combination} gone[ since {source}]: {combinations}",
        "check the matrix, if this was not intended",
    ),
    "duplicate_unit": Words(
        "{units:test} planned in more than one shard",
        "make the plan again; where the matrix was written by hand, see ciguard audit",
    ),
    # A run without a plan: result files, and perhaps a list of tests.
    "empty_results": Words(
        "no test has a result[: {reason}]",
        "check `results`, and that jobs upload their files also after a failure (if: always())",
    ),
    "expected_shards": Words(
        "{count:,} of {expected:expected shard} have results",
        "check the jobs without results: after a failed step, the upload needs `if: always()` or a "
        "similar condition; if {count} is the right number, set `expect` to it",
    ),
    "absent_shards": Words(
        "no results of {absent}, which run {run_id} of the base had",
        "check the job that uploads them, if this was not intended",
    ),
    "orphans": Words(
        "{count:test} in no shard[, {accepted:,} acknowledged]",
        f"extend the filter of a shard, or {_ACKNOWLEDGE}",
    ),
    "orphans_of_list": Words(
        "{count:listed test} without a result[, {accepted:,} acknowledged]",
        f"check the jobs that run them, or {_ACKNOWLEDGE}",
    ),
    "unreached": Words(
        "{units:listed test} of {package} did not run: {test} failed[ ({ending:words})]",
        "repair {test} first",
    ),
    "orphans_lost": Words(
        "{units:missing test} last ran in this shard in run {run_id}: {tests}",
        "check its filter, and the log of its job",
    ),
    "orphans_accepted": Words(
        "{count:test} in no shard: acknowledged by guard.orphans = {accepted}",
        "[lower guard.orphans to {fewer}, so that one more is reported]",
    ),
    "base_tests_gone": Words(
        "this plan does not have {units:test} of the plan of {source}: {tests}",
        "check that they were removed on purpose",
    ),
    # Cases that a run of the base had: all of a file, some of an unchanged or changed file, or
    # some of which it is unknown whether their file changed (`cases_gone`).
    "all_cases_gone": Words(
        "{units:file} ran none of {total:case} of run {run_id}: {cases}",
        "check for a condition at the top of the file, or an import; delete a file without tests",
    ),
    "cases_gone_of_unchanged_file": Words(
        "{count} of {total:case} of run {run_id} did not run, and the files are unchanged: {cases}",
        "check the log of the job for a program that ended early, as by exit(0) in a test; if you "
        "removed them from a shared file, change these files too",
    ),
    "cases_gone": Words(
        "{count} of {total:case} of run {run_id} did not run: {cases}",
        "check that they were removed on purpose, and that no program ended early",
    ),
    "cases_gone_of_changed_file": Words(
        "{count} of {total:case} of run {run_id} in changed files did not run: {cases}",
        "check that they were removed on purpose",
    ),
    "base_plan_unread": Words(
        "the plan of the base could not be read ({error}): tests may be gone"
    ),
    "emptied_file": Words(
        "{count:test file} without a planned test, but with tests on the base: {files}", _FILE
    ),
    "omitted_file": Words(
        "{count:test file} skipped or deselected, but with tests on the base: {files} ({reasons})",
        "install the missing package in the job that plans, or remove the skip or the option",
    ),
    "excluded": Words("{units:test} excluded by rule: {rules}"),
    # Settings by which tests do not run.
    "nothing_ran": Words(
        'NOTHING RAN[ of suite "{suite}"][, variant "{variant}"]: {units:test}, all skipped',
        'check why they are skipped; if that is right, set guard.empty = "pass" in the '
        "configuration of the base branch",
    ),
    "few_executed": Words(
        "{executed:,} of {count:listed test} were executed ({executed_ratio}), and "
        "guard.min_executed is {min_ratio}; the others: {reasons}",
        "check why they are skipped, or lower guard.min_executed in the base's configuration",
    ),
    "tests_not_executed": Words(_SETTING.format(EXECUTION["not_executed"]), "remove the setting"),
    "tests_focused": Words(_SETTING.format(EXECUTION["focus"]), "remove the focus"),
    "tests_filtered": Words(
        _SETTING.format(EXECUTION["filter"]),
        "remove it, or set it in the job that plans as well: then it is a part of the plan",
    ),
    "filter_planned": Words(
        "a filter of the configuration selects tests: {settings}[; {left_out:case} left out]"
    ),
    "cases_not_selected": Words(
        "{left_out:case} of files that ran did not run, and no process reports a filter",
        "check what selects the cases of these files",
    ),
    "setting_ignored": Words("settings for a whole suite have no effect in a shard: {settings}"),
    # Results and listings that do not agree with the plan.
    "unplanned": Words(
        "{units:test} with results, but not planned",
        "plan or list again if they are new; if planned tests have no result, compare the names",
    ),
    "different_listings": Words(
        "shards[ of {combination}] list different tests: {shards}"
        "[; {count:test} differ, the first is {first}]",
        "give parametrized tests the same ids in each job: no times, random numbers or set orders",
    ),
    "nothing_listed": Words(
        'its jobs list no test[ of suite "{suite}"][, variant "{variant}"]',
        "check their commands and options: nothing was collected",
    ),
    "listing_short": Words(
        'tests that were listed are in no shard[ of suite "{suite}"][, variant "{variant}"]',
        _FOREIGN_FILE,
    ),
    "no_listing": Words("its record has no list of tests", _RERUN),
    "cached_results": Words(
        "{count:result file} of tests that ran before this job: {files}",
        "run the tests without the cache of the build tool, such as gradle --rerun-tasks",
    ),
    "results_elsewhere": Words(
        "{units:test} with a result in other shards only", "check why its job did not run them"
    ),
    "ran_in_several_shards": Words(
        "{units:test} with results in several shards; the worst result counts",
        "put each test into one shard",
    ),
    "different_scripts": Words(
        "shards of one combination[ ({combination})] ran different commands: {shards}",
        "give all shards of a suite the same `command`",
    ),
    # Coverage and its minima.
    "coverage_below": Words(
        "[{part} ]coverage {percent:g} % is below the minimum of {minimum:g} %",
        "test more lines, or lower the minimum in the configuration of the base branch",
    ),
    "coverage_incomplete": Words(
        "coverage[ of {part}] incomplete[: {problems}]",
        "look at the log of the named shard, or of the job that combines coverage; leave parts "
        "that collect none out by `suites` or `without` in [coverage]",
    ),
    # Excused failures, quarantine.toml and the policy.
    "above_limit": Words(
        "{test} is above its limit[, {peak_bytes} of {limit_bytes}][, {wall_s} of {limit_s}]: "
        "suite.{suite}.limits.{entry} ({units})",
        "reduce it, or raise the limit in the configuration of the base branch",
    ),
    "more_above_limit": Words(
        "{count} more tests are above suite.{suite}.limits.{entry} ({units})"
    ),
    "flaky_new_test": Words(
        "flaky {change} test {test}: {failed} of {count:execution} failed[: {message}]",
        "repair it before it is merged: it passed and failed with the same code",
    ),
    **{
        f"new_test_fails_{dependence}": Words(
            f"{{change}} test {{test}} {how}: {{failed}} of {{count:execution}} failed"
            "[: {message}]",
            "let it set up what it needs, and clean up what it leaves",
        )
        for dependence, how in (
            ("again", "fails whenever it runs again"),
            ("alone", "fails alone, and passes after tests of its file"),
            ("after", "passes alone, and fails after tests of its file"),
        )
    },
    "more_flaky_new_tests": Words("{count} more new or changed tests failed when repeated"),
    "limit_unused": Words(
        "suite.{suite}.limits.{entry}: {units} matches no test of the run"
        "[ except {earlier:test} of earlier entries]"
    ),
    "limit_unmeasured": Words(
        "suite.{suite}.limits.{entry}: its {count:test} have no measured memory ({units})"
    ),
    "quarantined": Words("{reason} ({issue}, until {until})"),
    "failing_on_base": Words("also fails on {branch} since run {since_run}"),
    "quarantine": Words("[{place}: ]{problem}"),
    "quarantine_ends": Words(
        "quarantine.toml: the last day of {entry} is {until}"
        "[, {days:day} ago; failures of its tests fail {branch} from {fails}]",
        "fix its tests, or renew the entry",
    ),
    "quarantine_stale": Words(
        "quarantine.toml: {entry} is stale: it matches no test of this plan", "remove it"
    ),
    "quarantine_passed": Words(
        "quarantine.toml: {entry} is stale: {count:test} passed",
        "remove it, unless its tests pass only sometimes",
    ),
    "policy_changed": Words("this {event:words} changes {keys}"),
    "policy_unread": Words(
        "the policy of the base could not be read ({error}): the strictest one applies", "{advice}"
    ),
    "no_base_run": Words(
        "no failure of the base is ignored: the history has no complete run of the base"
    ),
}


def finding_message(finding: Finding, shards: Sequence[str] = ()) -> str:
    """Return the sentence of a finding, without full stop, for one shard or several `shards`."""
    text = fill(WORDS[finding.kind].message, _facts(finding))
    prefix = f"shard {one_line(finding.shard)}: " if finding.shard else ""
    if len(shards) > 1:
        prefix = (
            f"{count_of(len(shards), 'shard')} ({name_some(shards, one_line, MAX_SHARDS_NAMED)}): "
        )
    cause = f": {note_text(finding.cause)}" if finding.cause is not None else ""
    return f"{prefix}{text}{cause}"


def finding_fix(finding: Finding) -> str:
    """Return the advice on the cause of a finding, or on the finding itself; "" for none."""
    advice = fill(WORDS[finding.kind].fix, _facts(finding))
    cause = finding.cause
    return (fill(WORDS[cause.kind].fix, cause.facts) if cause is not None else "") or advice


def note_text(note: Note) -> str:
    """Return the sentence of a cause or of a piece of evidence, which is of one unit if of any."""
    return fill(WORDS[note.kind].message, {"units": 1, **note.facts})


def coverage_text(coverage: Coverage, base: tuple[str, Coverage] | None = None) -> str:
    """Return "coverage 87.4 % (main 87.6), diff 92 % of 50 lines", or why there is no number."""
    total, diff, without = coverage.total, coverage.diff, coverage.not_collected
    text = fill(WORDS["coverage_incomplete"].message, {"problems": coverage.incomplete})
    if total is not None:
        past = base[1].total if base is not None else None
        number = f" of {count_of(total.total, one_line(coverage.unit, 20))}"
        if coverage.unit == WITH_BRANCHES:
            number = f" of {total.total:,} lines and branches"
        number = f" ({one_line(base[0])} {past.percent or 0:g})" if base and past else number
        text = f"coverage {total.percent or 0:g} %{number}"
    if diff is not None and diff.total:
        text += f", diff {diff.percent or 0:g} % of {count_of(diff.total, 'line')}"
    return text + (f", none collected in {name_some(without, one_line)}" if without else "")


def _facts(finding: Finding) -> dict[str, Any]:
    file = finding.units[0].unit.partition("::")[0] if finding.units else None
    return {"units": len(finding.units), "file": file, **finding.facts}


def repeats_text(tests: Mapping[str, Repeats], noun: str = "test", omitted: int = 0) -> str:
    """Word what repeats found, and how likely they find a test that fails 1 in 10, rounded down.

    Args:
        tests: by name.
        omitted: further tests, for which the plan had no place.
    """
    changes = sorted({test.change for test in tests.values()}, reverse=True)
    noun, parts = f"{' or '.join(changes)} {noun}", []
    failed = [name for name, test in tests.items() if test.failed]
    counts = [test.passed for test in tests.values() if not test.failed]
    passed = [count for count in counts if count >= MIN_REPEATS]
    untried = counts.count(0)
    if failed:
        names = f": {name_some(failed, one_line)}" if len(failed) > 1 else ""
        total = count_of(len(tests) - untried, noun)
        parts.append(f"{len(failed):,} of {total} failed when repeated{names}")
    if passed:
        who = f"{len(passed):,} passed" if failed else f"{count_of(len(passed), noun)} repeated"
        limits = sorted({min(passed), max(passed)})
        times = " to ".join(f"{count:,}" for count in limits)
        shares = " to ".join(f"{min(99, int(100 * (1 - 0.9**count)))}" for count in limits)
        found = f"a test that fails 1 in 10 times would be found with {shares} %"
        parts.append(f"{who} {times} times: {found}")
    for number, how in (
        (len(counts) - len(passed) - untried, f"repeated fewer than {MIN_REPEATS} times"),
        (untried, "not repeated: new_tests.budget was spent"),
        (omitted, "not repeated: more than new_tests.at_most"),
    ):
        if number:
            parts.append(f"{f'{number:,}' if parts else count_of(number, noun)} {how}")
    return "; ".join(parts)
