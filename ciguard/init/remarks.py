"""Messages on a moved job: consequences, and changes that the user has to make. Pure.

Lines are those of the workflow before the move.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from ciguard.config.file import Config
from ciguard.init.project import files_of
from ciguard.model.jobs import MAX_FIRST_SHARDS, first_shards_of_each
from ciguard.run.frameworks.base import Framework
from ciguard.text import count_of
from ciguard.workflow.aggregation import NAMED_NEED, find_aggregations, guarded_jobs
from ciguard.workflow.conditions import runs_on_push
from ciguard.workflow.matrix import SHARD, read_matrix
from ciguard.workflow.movable_job import MovableJob, find_movable_steps, shorten
from ciguard.workflow.result_upload import find_downloads
from ciguard.workflow.rewrite import DATA_FILE, MERGE, data_file_uses
from ciguard.workflow.test_commands import (
    Tasks,
    find_test_steps,
    package_scripts,
    split_commands,
    step_script,
)
from ciguard.workflow.yaml_values import needs_of, run_defaults_of, steps_of, triggers_of

NO_PUSH: Final = "no push to {} starts the workflow, so it adds no run to the history; "
NO_SPLIT: Final = (
    f", as 2 for each would be over {MAX_FIRST_SHARDS} jobs; later plans split those that exceed "
    "target_wall; `shards: 2` in the step `plan` splits all of them"
)
OWN_FILE: Final = "into a job of another workflow file, and run ciguard init --into on that file"
SMALL_SUITE: Final = 200  # tests
SMALL: Final = (
    "the suite is small ({}): each shard repeats the other steps, so shards save no time if these "
    "steps take longer than the tests; `shards: 1` in the step `plan` leaves it in one job"
)
_DEFINITION: Final = re.compile(
    r"^[ \t]*(?:(?:async )?def test|func (?:Test|Example|Fuzz)|(?:it|test|specify)\b[ .(])", re.M
)
_LINT: Final = re.compile(
    r"(?:(?:npx|uvx|dlx|npm|yarn|pnpm|bun|run|exec|uv|poetry|make|-m|python3?|[A-Z_]+=\S*) )*"
    r"(\w*lint(?:[:-][\w:-]+)?|prettier|tsc|mypy|pyright|ruff|flake8|pre-commit|go vet"
    r"|(?:check-)?types?(?:[:-]?check)?)(?!\S)"
)


def about_shards(
    job: MovableJob,
    framework: Framework,
    file: str,
    tracked: Sequence[str],
    read: Callable[[str], str],
) -> Iterator[str]:
    """Yield messages on the first run, and on what its shards cost.

    Args:
        file: the only one of the suite, which its framework cannot divide; or "".
        tracked: files of the repository.
        read: returns the text of a file.
    """
    combined = read_matrix(job.matrix)
    count = len(combined)
    each = 1 if file else first_shards_of_each(count)
    if not (job.take or job.shards):
        of = f", {each} for each of {count} combinations" if count > 1 else ""
        later = "; later plans choose by past times" if each > 1 else NO_SPLIT
        if file:
            later = f", as ciguard divides the tests of {framework.name} by file: {file}"
        yield f"first run: {count_of(count * each, 'job')}{of}{later}"
        files = files_of(framework, tracked) if each > 1 else ()
        tests = (match for name in files for match in _DEFINITION.finditer(read(name)))
        number = sum(1 for _ in islice(tests, SMALL_SUITE))
        if 0 < number < SMALL_SUITE:
            yield SMALL.format(count_of(number, "test function"))
    if framework.name == "jest" and not file:
        yield "Jest runs in one process in each shard, also where it runs parallel workers today"
    scripts = package_scripts(read("package.json"))
    called = [name for item in job.commands for name in item.words.split() if name in scripts]
    texts = {number: step_script(step) for number, step in steps_of(job.value)}
    around = [scripts.get(f"{pre}{name}", "") for name in called for pre in ("pre", "", "post")]
    texts[job.step] = "\n".join((texts[job.step], *around))
    for number, text in texts.items():
        linters = (_LINT.match(" ".join(words)) for words in split_commands(text))
        if names := ", ".join(dict.fromkeys(match[1] for match in linters if match)):
            line = job.source.line_number("jobs", job.name, "steps", number)
            yield f"line {line}: each shard runs {names} again: move this into a separate job"


def remarks(
    job: MovableJob,
    config: Config,
    tasks: Tasks,
    *,
    branch: str,
    guess: str,
    check: str,
    is_configured: bool,
) -> Iterator[str]:
    """Yield messages on the workflow and its other jobs.

    Args:
        branch, guess: the default branch, and a text if it is only assumed.
        check: name of the report's check.
        is_configured: its suite was configured before.
    """
    if not runs_on_push(job.workflow, branch):
        fix = f"add below `on:`:\n    push:\n      branches: [{branch}]"
        if "push" in triggers_of(job.workflow):
            fix = f"let `on: push` start it for {branch}"
        yield NO_PUSH.format(branch + guess) + fix
    if job.retries:
        has_own = is_configured or "retries" in config.policy.model_fields_set
        is_missing = has_own and config.policy.retries < job.retries
        added = f"retries = {job.retries} in [policy], in place of the commands after ||"
        yield f"set {added}" if is_missing else added
    if job.take:
        yield f"the axis {job.take} and its options are gone: ciguard divides the tests"
    if job.value.get("strategy", {}).get("fail-fast", False) is not False:
        yield "set fail-fast: false; otherwise a shard that fails cancels the others"
    if "timeout-minutes" in job.value and "timeout-minutes" not in job.value["steps"][job.step - 1]:
        yield "set `limit` to the part of the job's timeout-minutes that is left for the tests"
    named = {*run_defaults_of(job.workflow, job.value), *job.value["steps"][job.step - 1]}
    shell = "" if "shell" in named else "; commands without `shell:` run in bash there"
    for system, note in (("macOS", ""), ("Windows", shell)):
        if system.lower() in f"{job.value.get('runs-on')}{job.matrix}".lower():
            yield f"ciguard has not been tried on {system}{note}"
    if "workflow_call" in str(job.workflow.get("on")):
        yield "workflows that call this one must grant the permissions of its jobs"
    if "if" in job.value and "allowed-skips" in job.source.text:
        yield "add ciguard-report to allowed-skips: it is skipped with the test job"
    yield from _about_other_tests(job, tasks, check)
    yield from about_files(job)
    for name, reads_single_results in find_aggregations(job.workflow, job.name).items():
        entry = job.source.find("jobs", name) if reads_single_results else None
        match = NAMED_NEED.search(job.source.text, entry.start) if entry else None
        if match:
            line = job.source.text.count("\n", 0, match.start()) + 1
            yield (
                f"{job.path}:{line}: {name} reads {match[0]}: let it also fail unless "
                "needs.ciguard.result and needs.ciguard-report.result are success"
            )
    yield f"require the check {check}: the names of the test jobs' checks change"


def _about_other_tests(job: MovableJob, tasks: Tasks, check: str) -> Iterator[str]:
    """Yield messages on tests that ciguard does not report: of other steps, and of other jobs."""
    for step in find_test_steps(job.workflow, tasks):
        if step.job == job.name and step.number not in job.steps:
            line = job.source.line_number("jobs", job.name, "steps", step.number)
            what = f"line {line} also runs tests, in every shard and without a report: "
            yield f"{what}{shorten(step.commands[0].words)}; move it {OWN_FILE}"
    if guarded := guarded_jobs(job.workflow, job.name, job.replaced):
        what = "it fails if they do, but its comment does not have their test results"
        yield f"the check {check} still needs {', '.join(guarded)}: {what}"
    found = dict.fromkeys(at.job for at in find_movable_steps(job.workflow, tasks))
    if others := [name for name in found if name != job.name]:
        needs = {name: needs_of(job.workflow["jobs"].get(name)) for name in others}
        tied = [name for name in others if needs[name]]
        needed = dict.fromkeys(need for name in tied for need in needs[name])
        without = f" ({', '.join(tied)}: without `needs` of {', '.join(needed)})" if tied else ""
        yield (
            f"the tests of {', '.join(others)} run as before, without a report; to have one, move "
            f"the job into another workflow file{without}, and run ciguard init --into there or "
            "add a comment job"
        )


def about_files(job: MovableJob) -> Iterator[str]:
    """Yield messages on artifacts that later jobs read, and on data files of coverage."""
    for name, step, inputs in find_downloads(job.workflow, job.name):
        at = f"{job.path}:{job.source.line_number('jobs', name, 'steps', step)}: {name}"
        if "name" in inputs:
            yield f"{at} downloads one artifact: write `pattern: {inputs['name']}-*`"
        elif "pattern" not in inputs:
            yield f"{at} downloads all artifacts, also ciguard's: add a `pattern:`"
        if inputs.get(MERGE):
            is_named = f"'{DATA_FILE}': " in str(job.value)  # a key of env, not of a command
            what = f"{DATA_FILE} gets the shard" if is_named else "equal names replace each other"
            yield f"{at} merges the files of all shards: {what}"
    if lines := ", ".join(map(str, data_file_uses(job))):
        what = f"{job.path}:{lines}: {job.name} contains the name in {DATA_FILE}"
        yield f"{what}: append `.{SHARD}` where it is the data file"
