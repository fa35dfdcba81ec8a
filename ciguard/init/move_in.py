"""`ciguard init --into FILE`: moves a test job of an existing workflow to ciguard's actions.

The suite of the moved tests has the framework that the job runs.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from ciguard.config.file import FILE, FILES
from ciguard.errors import InputError, UsageError
from ciguard.init.coverage_gates import reject_gate
from ciguard.init.filter_axis import matrix_without_filters, without_filter_axis
from ciguard.init.generated_files import (
    WORKFLOW_FILE,
    GeneratedFile,
    generate,
    text_of,
)
from ciguard.init.other_tools import BUN_LOCKS, first_of, other_projects
from ciguard.init.project import files_of, is_dependency_file, suggest_languages
from ciguard.init.repository import default_branch, git, guess_of, repository_files
from ciguard.init.started_suites import STARTED_SUITES, dotnet_command
from ciguard.init.workflow_files import StarterSuite, render_new_jobs, with_tables
from ciguard.model import DRILL_KINDS
from ciguard.model.jobs import MAX_FIRST_SHARDS, first_shards_of_each
from ciguard.run.frameworks.command import COMMAND
from ciguard.run.frameworks.dotnet import DOTNET
from ciguard.run.frameworks.go import GO
from ciguard.run.frameworks.registry import DEFAULT, FRAMEWORKS
from ciguard.sources import local
from ciguard.workflow.actions_address import actions_address, known_address
from ciguard.workflow.aggregation import NAMED_NEED, find_aggregations, guarded_jobs
from ciguard.workflow.argument_list import split_argument_list
from ciguard.workflow.conditions import runs_on_push
from ciguard.workflow.environment_axis import reject_several_environments
from ciguard.workflow.matrix import SHARD, read_matrix
from ciguard.workflow.movable_job import (
    BY_HAND,
    NotMovable,
    collected,
    read_job,
    reject_obstacles,
    reject_shell,
    shorten,
)
from ciguard.workflow.result_upload import find_downloads, find_result_upload, written_files
from ciguard.workflow.rewrite import (
    DATA_FILE,
    MERGE,
    data_file_uses,
    drill_edits,
    has_drill,
    is_moved,
    move_job,
    repin,
)
from ciguard.workflow.test_commands import UNKNOWN, find_test_steps, read_tasks
from ciguard.workflow.yaml_values import load, run_defaults_of, triggers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ciguard.config.file import Config
    from ciguard.workflow.movable_job import MovableJob

NO_PUSH: Final = "no push to {} starts it, so there will be no history; "
NO_SPLIT: Final = (
    f": no split (at most {MAX_FIRST_SHARDS} jobs without past times); later plans split what "
    "exceeds target_wall; `shards: 2` in the step `plan` splits all"
)
SECOND: Final = "another step of this workflow has ciguard's shards, which only one can have"
SECOND_FIX: Final = (
    "move the step into a job of another workflow file, add [suite.JOB] for it to ciguard.toml, "
    "run ciguard init --into on that file, and give its job ciguard-report another name"
)
ADD_SUITE: Final = "add to ciguard.toml: [suite.{}], with framework = {}"
COMMAND_FIX: Final = (
    'set framework = "command", list and command in [suite.NAME] of ciguard.toml: see '
    "docs/how-to/other-frameworks.md"
)
NODE_SCRIPTS: Final = ("npm", "yarn", "pnpm", "bun run")
# Called program -> adapters whose plugin reaches the framework by an environment variable.
ENTERED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(NODE_SCRIPTS, ("vitest", "jest", "mocha", "node-test", "playwright")),
    "node --test": ("node-test",),
    "go test": (GO.name,),
    "dotnet test": (DOTNET.name,),
    **{name: (name,) for name in ("jest", "vitest", "mocha", "playwright", "rspec", "maven")},
    "rake": ("rspec", "minitest"),
    "rails": ("minitest",),
}
# Called program -> adapter that starts the framework itself, so that no script can start it.
STARTED: Final[Mapping[str, str]] = {
    "ctest": "ctest",
    "cargo nextest": "nextest",
    "phpunit": "phpunit",
}


@dataclass(frozen=True, slots=True)
class Move:
    """The files that a move changes, for a user to see before they are written.

    Attributes:
        step: the step that runs the tests.
        messages: changes that the user has to make, and consequences.
    """

    files: tuple[GeneratedFile, ...]
    step: str = ""
    messages: tuple[str, ...] = ()


def moved_files(folder: Path, config: Config, path: str, job_name: str, step: str) -> Move:
    """Move the test job of a workflow, and configure its suite if none is configured.

    In a workflow that was moved before, only the addresses of the actions change.

    Args:
        path: of the workflow file, relative to the folder.
        job_name, step: as in `choose_step`.

    Raises:
        InputError: the file is no workflow that can be edited, or is not committed.
        NotMovable: the job cannot be moved.
        UsageError: no suite of the configuration fits the job.
    """
    tracked, read = repository_files(folder), cache(lambda name: text_of(folder / name) or "")
    text, tasks = read_workflow(folder, path), read_tasks(read)
    workflow = load(text, path)
    if is_moved(workflow):
        for at in find_test_steps(workflow, tasks) if job_name or step else ():
            if job_name in ("", at.job):
                where = f"{path}: jobs.{at.job}.steps[{at.number}]"
                raise NotMovable(SECOND, where=where, fix=SECOND_FIX)
        is_known = known_address(config.actions)
        pinned = repin(text, path, actions_address(config.actions)) if is_known else text
        return Move((GeneratedFile(path, text, pinned),) if pinned != text else ())
    actions = actions_address(config.actions)
    require_committed(folder, path)
    job = before = read_job(text, path, job_name, step, tasks)
    obstacles: list[NotMovable] = []
    with collected(obstacles):
        reject_gate(job, tracked, read)
    texts = {name: text_of(folder / name) or "" for name in tracked if is_dependency_file(name)}
    framework = ""
    with collected(obstacles):
        framework = job_framework(job, config, tracked, texts)
    with collected(obstacles):
        reject_several_environments(job)
    suite = suite_name(config, job.name)
    line_of = partial(job.source.line_number, "jobs", job.name, "steps")
    words = f": {shorten(job.commands[0].words)}" if job.commands else ""
    other = f" and {line_of(job.alternative)}, by `if`" if job.alternative else ""
    found = f"{path}:{line_of(job.step)}{other}: job {job.name} runs the tests{words}"
    prepared = job.source.edited(drill_edits(job, DRILL_KINDS))
    job = read_job(prepared, path, job.name, str(job.step), tasks)
    configured = config.suite[suite].framework if suite in config.suite else DEFAULT
    messages: list[str] = []
    if configured != COMMAND.name:
        test_files = files_of(FRAMEWORKS[framework or configured], tracked)
        with collected(obstacles):
            job, messages = without_filter_axis(job, path, test_files)
    with collected(obstacles):
        divided = split_argument_list(job, path)
        if divided is not job:
            messages.append("the PowerShell step is divided: bash runs the tests")
            job = replace(divided, matrix=job.matrix, shards=job.shards)
        reject_shell(job)
    if obstacles:
        obstacles += [NotMovable(message, where=job.where) for message in messages]
    started = StarterSuite(suite, framework)
    if (make_suite := STARTED_SUITES.get(framework or configured)) and job.commands:
        with collected(obstacles):
            started, job, about_suite = make_suite(job, suite)
            messages += about_suite
    reject_obstacles(job, obstacles)
    new_jobs = render_new_jobs(
        *(actions, job.name, suite, job.matrix),
        is_conditional="if" in job.value,
        has_drill=has_drill(job.workflow),
        take=job.take,
        shards=job.shards,
    )
    files = [GeneratedFile(path, text, move_job(job, new_jobs, actions))]
    if "suite" not in config.model_fields_set:
        generated = generate(folder, config, suite=started)
        files += [
            _with_retries(item, job.retries) for item in generated if item.path != WORKFLOW_FILE
        ]
    before = replace(before, matrix=job.matrix, shards=job.shards)
    messages += remarks(before, config, default_branch(folder), guess_of(folder))
    return Move(tuple(files), found, tuple(messages))


def _with_retries(item: GeneratedFile, retries: int) -> GeneratedFile:
    """Return a configuration file with the retries of a test step."""
    if not retries or item.path not in FILES:
        return item
    table = "policy" if item.path == FILE else "tool.ciguard.policy"
    content = with_tables(item.content, {table: [f"retries = {retries}"]}, item.path)
    return replace(item, content=content)


def read_workflow(folder: Path, path: str) -> str:
    """Read the text of a workflow file.

    Raises:
        InputError: the file is a link, or not UTF-8.
    """
    target = folder / path
    if target.is_symlink():
        raise InputError("is a symbolic link", where=path, fix="name the file that it points to")
    try:
        return local.read(target).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"not UTF-8: {error.reason}", where=path, fix="save it as UTF-8"
        ) from error


def require_committed(folder: Path, path: str) -> None:
    """Raise InputError for uncommitted changes: `git revert` could not restore the file."""
    if git(folder, "status", "--porcelain", "--", path) or not git(folder, "ls-files", "--", path):
        what = "has changes that are not committed"
        raise InputError(what, where=path, fix="commit it first, so that git revert can undo it")


def suite_name(config: Config, job: str) -> str:
    """Return the suite of the job's tests.

    Raises:
        UsageError: several suites are configured, and none has the name of the job.
    """
    if "suite" not in config.model_fields_set or job in config.suite:
        return job
    if len(config.suite) > 1:
        what = f"no suite {job!r} among {', '.join(map(repr, sorted(config.suite)))}"
        raise UsageError(what, where="suite", fix=f"add [suite.{job}] for the tests of the job")
    return next(iter(config.suite))


def snippet(folder: Path, config: Config, path: str, job: str, step: str) -> str:
    """Return the lines to write by hand around a test job: `job`, else the only one with tests."""
    text, tasks = read_workflow(folder, path), read_tasks(lambda name: text_of(folder / name) or "")
    workflow = load(text, path)
    steps = [at for at in find_test_steps(workflow, tasks) if job in ("", at.job)]
    name = job or (steps[0].job if len({at.job for at in steps}) == 1 else "test")
    matrix = f"# the lines below `matrix:` of {name}"
    notes: Sequence[str] = ()
    by_suite = {**STARTED, "dotnet test": DOTNET.name}
    started = {by_suite.get(command.framework) for at in steps for command in at.commands}
    framework = str(started.pop() or "") if len(started) == 1 else ""
    command: Sequence[str] = ()
    with contextlib.suppress(InputError):
        found = read_job(text, path, name, step, tasks)
        matrix, notes = matrix_without_filters(found), download_remarks(found)
        command, left_out = dotnet_command(found) if framework == DOTNET.name else ((), ())
        if left_out:
            notes = [f"left out of `command`, as computed: {' '.join(left_out)}", *notes]
    suite = suite_name(config, name) if len(config.suite) < 2 else name  # noqa: PLR2004
    new = render_new_jobs(
        *(actions_address(config.actions), name, suite, matrix),
        is_conditional=False,
        has_drill=has_drill(workflow),
        framework=framework,
        command=command,
    )
    table = () if "suite" in config.model_fields_set or not framework else (new.suite,)
    comments = "".join(f"# {note}\n" for note in notes)
    return comments + "\n\n".join((*table, new.plan, new.test, new.report, new.history))


def remarks(job: MovableJob, config: Config, branch: str, guess: str) -> list[str]:
    """Return messages on changes to make, and on consequences; lines are those before the move."""
    messages = []
    if not (job.take or job.shards):
        count = len(read_matrix(job.matrix))
        each = first_shards_of_each(count)
        of = f", {each} for each of {count} combinations" if count > 1 else ""
        later = "; later plans choose by past times" if each > 1 else NO_SPLIT
        messages.append(f"first run: {count * each} jobs{of}{later}")
    if not runs_on_push(job.workflow, branch):
        fix = f"add below `on:`:\n    push:\n      branches: [{branch}]"
        if "push" in triggers_of(job.workflow):
            fix = f"let `on: push` start it for {branch}"
        messages.append(NO_PUSH.format(branch + guess) + fix)
    if job.retries:
        is_missing = "suite" in config.model_fields_set and config.policy.retries < job.retries
        added = f"retries = {job.retries} in [policy], in place of the commands after ||"
        messages.append(f"set {added}" if is_missing else added)
    if job.take:
        messages.append(f"the axis {job.take} and its options are gone: ciguard divides the tests")
    if job.value.get("strategy", {"fail-fast": False}).get("fail-fast", True) is not False:
        messages.append("set fail-fast: false, or a shard that fails cancels the others")
    if "timeout-minutes" in job.value and "timeout-minutes" not in job.value["steps"][job.step - 1]:
        messages.append("set `limit`: how much of the job's timeout-minutes is left for the tests")
    named = {*run_defaults_of(job.workflow, job.value), *job.value["steps"][job.step - 1]}
    shell = "" if "shell" in named else "; commands without `shell:` run in bash there"
    for system, note in (("macOS", ""), ("Windows", shell)):
        if system.lower() in f"{job.value.get('runs-on')}{job.matrix}".lower():
            messages.append(f"{system} has not been tried{note}")
    if "workflow_call" in str(job.workflow.get("on")):
        messages.append("workflows that call this one have to grant the permissions of its jobs")
    messages += [
        f"step {step.number} runs tests too, all of them in every shard: move it to another job"
        for step in find_test_steps(job.workflow)
        if step.job == job.name and step.number not in job.steps
    ]
    if "if" in job.value and "allowed-skips" in job.source.text:
        messages.append("add ciguard-report to allowed-skips: it is skipped with the test job")
    if guarded := guarded_jobs(job.workflow, job.name, job.replaced):
        what = "if they do not succeed, it is red, but their test results are not in its comment"
        messages.append(f"the check ciguard still needs {', '.join(guarded)}: {what}")
    source, path = job.source, job.where.partition(":")[0]
    messages += download_remarks(job)
    messages += _unread_uploads(job, (job.name, *guarded))
    if lines := ", ".join(map(str, data_file_uses(job))):
        what = f"{path}:{lines}: {job.name} contains the name in {DATA_FILE}"
        messages.append(f"{what}: append `.{SHARD}` where it is the data file")
    for name, reads_single_results in find_aggregations(job.workflow, job.name).items():
        entry = source.find("jobs", name) if reads_single_results else None
        match = NAMED_NEED.search(source.text, entry.start) if entry else None
        if match:
            line = source.text.count("\n", 0, match.start()) + 1
            messages.append(
                f"{path}:{line}: {name} reads {match[0]}: let it fail unless "
                "needs.ciguard.result and needs.ciguard-report.result are success, too"
            )
    return [*messages, "require the check ciguard: checks by the names of test jobs change"]


def download_remarks(job: MovableJob) -> list[str]:
    """Return messages on later jobs that download the artifacts of a test job."""
    messages, path = [], job.where.partition(":")[0]
    for name, step, inputs in find_downloads(job.workflow, job.name):
        at = f"{path}:{job.source.line_number('jobs', name, 'steps', step)}: {name}"
        if "name" in inputs:
            messages.append(f"{at} downloads one artifact: write `pattern: {inputs['name']}-*`")
        elif "pattern" not in inputs:
            messages.append(f"{at} downloads all artifacts, also ciguard's: add a `pattern:`")
        if inputs.get(MERGE):
            is_named = f"'{DATA_FILE}': " in str(job.value)  # a key of env, not of a command
            what = f"{DATA_FILE} gets the shard" if is_named else "equal names replace each other"
            messages.append(f"{at} merges the files of all shards: {what}")
    return messages


def _unread_uploads(job: MovableJob, names: Sequence[str]) -> Iterator[str]:
    """Yield messages on uploads of results that only a replaced comment job read."""
    jobs, test_steps = job.workflow["jobs"], find_test_steps(job.workflow)
    for name in names if job.replaced else ():
        written = written_files(*(step for step in test_steps if step.job == name))
        upload = find_result_upload(jobs[name], written)
        steps = [jobs[name]["steps"][upload.step - 1]] if upload else []
        of_upload = {"jobs": {**jobs, name: {**jobs[name], "steps": steps}}}
        if upload and not any(find_downloads(of_upload, name)):
            line = job.source.line_number("jobs", name, "steps", upload.step)
            option = f", and the option that writes {', '.join(written)}" if written else ""
            yield f"the upload step of line {line} has no reader now: remove it{option}"


def job_framework(
    job: MovableJob,
    config: Config,
    tracked: Sequence[str],
    texts: Mapping[str, str],
) -> str:
    """Return the framework for the suite, if none is configured; "" for the default.

    Args:
        tracked: files of the repository.
        texts: of project files, by path.

    Raises:
        NotMovable: ciguard cannot plan the tests, or the user must configure the framework.
    """
    suite = config.suite.get(suite_name(config, job.name))
    configured = suite.framework if suite and "suite" in config.model_fields_set else DEFAULT
    for command in job.commands if configured != COMMAND.name else ():
        started = STARTED.get(command.framework, configured)
        is_own = configured in STARTED_SUITES and configured in ENTERED.get(command.framework, ())
        if started in (*STARTED.values(), *STARTED_SUITES) and not is_own:
            what = f"ciguard starts {started} itself: {shorten(command.words)}"
            raise NotMovable(what, where=job.where, fix=BY_HAND)
    if configured in STARTED_SUITES and not job.commands:
        what = f"the step runs no {configured} test"
        raise NotMovable(what, where=job.where, fix="name another --step")
    if configured != DEFAULT:
        return ""
    for command in job.commands:
        if command.framework in (UNKNOWN, DEFAULT):
            continue
        called = ENTERED.get(command.framework, ())
        adapters = {name: FRAMEWORKS[name] for name in called if name in FRAMEWORKS}
        runtime = command.arguments[0] if command.framework in called else ""
        if not adapters or runtime in ("deno", "bun"):
            name = f"{command.framework} in {runtime}" if adapters else command.framework
            what = f"ciguard has no adapter for {name}: {shorten(command.words)}"
            raise NotMovable(what, where=job.where, fix=COMMAND_FIX)
        files = [name for name in tracked if name.rpartition("/")[2] not in BUN_LOCKS]
        suites = suggest_languages(files, texts, adapters, lambda _: None)[0].suites
        names = list(dict.fromkeys(suite.framework for suite in suites))
        if not names and command.framework in NODE_SCRIPTS:
            projects = first_of(
                [f"{at}: {of}" for at, of in other_projects(tracked, texts).items()]
            )
            what = f"ciguard has no adapter for what {shorten(command.words)} starts ({projects})"
            raise NotMovable(what, where=job.where, fix=COMMAND_FIX)
        names = names or list(adapters)
        if len(names) == 1 and "suite" not in config.model_fields_set:
            return names[0]
        what = f"the framework of its tests is not configured: {shorten(command.words)}"
        fix = ADD_SUITE.format(json.dumps(job.name), " or ".join(map(json.dumps, names)))
        raise NotMovable(what, where=job.where, fix=fix)
    if "suite" not in config.model_fields_set and not files_of(FRAMEWORKS[DEFAULT], tracked):
        suites = suggest_languages(tracked, texts, FRAMEWORKS, lambda _: None)[0].suites
        names = list(dict.fromkeys(suite.framework for suite in suites))
        what = f"no test file of {DEFAULT} was found"
        fix = ADD_SUITE.format(json.dumps(job.name), " or ".join(map(json.dumps, names)))
        raise NotMovable(what, where=job.where, fix=fix if names else COMMAND_FIX)
    return ""
