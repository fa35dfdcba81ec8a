"""`ciguard init --into FILE`: moves a test job of an existing workflow to ciguard's actions.

The suite of the moved tests has the framework that the job runs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from ciguard.errors import InputError, UsageError
from ciguard.init.coverage_gates import reject_gate
from ciguard.init.filter_axis import without_filter_axis
from ciguard.init.generated_files import (
    WORKFLOW_FILE,
    GeneratedFile,
    generate,
    text_of,
    unused_keys,
)
from ciguard.init.other_tools import BUN_LOCKS, first_of, other_projects
from ciguard.init.project import files_of, is_dependency_file, suggest_languages
from ciguard.init.repository import default_branch, git, repository_files
from ciguard.init.workflow_files import StarterSuite, render_new_jobs
from ciguard.run.frameworks.command import COMMAND
from ciguard.run.frameworks.registry import DEFAULT, FRAMEWORKS
from ciguard.sources import local
from ciguard.workflow.actions_address import actions_address, known_address
from ciguard.workflow.aggregation import NAMED_NEED
from ciguard.workflow.argument_list import split_argument_list
from ciguard.workflow.conditions import runs_on_push
from ciguard.workflow.environment_axis import reject_several_environments
from ciguard.workflow.movable_job import NotMovable, read_job, reject_step, shorten
from ciguard.workflow.positions import SourceText
from ciguard.workflow.rewrite import action_path, is_moved, move_job, repin, uploads_artifact
from ciguard.workflow.test_commands import UNKNOWN, find_test_steps
from ciguard.workflow.yaml_values import load, run_defaults_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ciguard.config.file import Config
    from ciguard.workflow.movable_job import MovableJob
    from ciguard.workflow.rewrite import MovedWorkflow

NO_PUSH: Final = "no push to {} starts it, so there will be no history; add below `on:`"

ADD_SUITE: Final = "add to ciguard.toml: [suite.{}], with framework = {}"
COMMAND_FIX: Final = (
    'set framework = "command", list and command in [suite.NAME] of ciguard.toml: see '
    "docs/how-to/other-frameworks.md"
)
STARTED_FIX: Final = (
    "write the lines by hand that `ciguard init --into FILE` prints: framework and command in "
    "[suite.NAME] of ciguard.toml, and no `command` for the action run"
)
NODE_SCRIPTS: Final = ("npm", "yarn", "pnpm", "bun run")
# Called program -> adapters whose plugin reaches the framework by an environment variable.
ENTERED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(NODE_SCRIPTS, ("vitest", "jest", "mocha", "playwright")),
    **{name: (name,) for name in ("jest", "vitest", "mocha", "playwright", "rspec", "maven")},
    "rake": ("rspec", "minitest"),
    "rails": ("minitest",),
}
# Called program -> adapter that starts the framework itself, so that no script can start it.
STARTED: Final[Mapping[str, str]] = {
    "go test": "go",
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
    tracked = repository_files(folder)
    text = read_workflow(folder, path)
    if is_moved(load(text, path)):
        is_known = known_address(config.actions)
        pinned = repin(text, path, actions_address(config.actions)) if is_known else text
        return Move((GeneratedFile(path, text, pinned),) if pinned != text else ())
    actions = actions_address(config.actions)
    require_committed(folder, path)
    job = read_job(text, path, job_name, step, text_of(folder / "Makefile") or "")
    reject_gate(job, tracked, cache(lambda name: text_of(folder / name) or ""))
    texts = {name: text_of(folder / name) or "" for name in tracked if is_dependency_file(name)}
    framework = job_framework(job, config, tracked, texts)
    reject_several_environments(job)
    suite = suite_name(config, job.name)
    line = job.source.line_number("jobs", job.name, "steps", job.step)
    words = f": {shorten(job.commands[0].words)}" if job.commands else ""
    found = f"{path}:{line}: job {job.name} runs the tests{words}"
    configured = config.suite[suite].framework if suite in config.suite else DEFAULT
    messages: list[str] = []
    if configured != COMMAND.name:
        test_files = files_of(FRAMEWORKS[framework or configured], tracked)
        job, messages = without_filter_axis(job, path, test_files)
    divided = split_argument_list(job, path)
    if divided is not job:
        messages.append("the PowerShell step is divided: bash runs the tests")
        job = replace(divided, matrix=job.matrix, shards=job.shards)
    reject_step(job)
    new_jobs = render_new_jobs(
        *(actions, job.name, suite, job.matrix),
        is_conditional=job.is_conditional,
        take=job.take,
        shards=job.shards,
    )
    moved = move_job(job, new_jobs, actions)
    files = [GeneratedFile(path, text, moved.text)]
    if "suite" not in config.model_fields_set:
        generated = generate(folder, config, suite=StarterSuite(suite, framework))
        files += [item for item in generated if item.path != WORKFLOW_FILE]
    messages += remarks(job, moved, default_branch(folder))
    messages += filter(None, [unused_keys(folder, config)])
    return Move(tuple(files), found, tuple(messages))


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


def snippet(folder: Path, config: Config, path: str, job: str) -> str:
    """Return the lines to write by hand around a test job: `job`, else the only one with tests."""
    workflow = load(read_workflow(folder, path), path)
    candidates = {job} if job else {step.job for step in find_test_steps(workflow)}
    name = candidates.pop() if len(candidates) == 1 else "test"
    actions = actions_address(config.actions)
    matrix = f"# the lines below `matrix:` of {name}"
    suite = suite_name(config, name) if len(config.suite) < 2 else name  # noqa: PLR2004
    new = render_new_jobs(actions, name, suite, matrix, is_conditional=False)
    test = f"""\
{name}:
  needs: ciguard
  strategy:
    fail-fast: false
    matrix: ${{{{ fromJSON(needs.ciguard.outputs.matrix) }}}}
  # name: ... (${{{{ matrix.ciguard }}}})
  steps:
    # in the place of the test step:
    - uses: {action_path(actions, "run")}
      with:
        plan: ${{{{ needs.ciguard.outputs.plan }}}}
        plan-id: ${{{{ needs.ciguard.outputs.plan-id }}}}
        shard: ${{{{ matrix.ciguard }}}}
        command: |
          # the commands of the test step"""
    return "\n\n".join((new.plan, test, new.report, new.history))


def remarks(job: MovableJob, moved: MovedWorkflow, branch: str) -> list[str]:
    """Return messages on changes that the user has to make, and on consequences."""
    messages = ["require the check ciguard: checks by the names of test jobs change"]
    if not runs_on_push(job.workflow, branch):
        messages.append(f"{NO_PUSH.format(branch)}:\n    push:\n      branches: [{branch}]")
    if job.take:
        messages.append(
            f"the axis {job.take} and the options that use it are gone: ciguard divides the tests"
        )
    strategy = job.value.get("strategy", {"fail-fast": False})
    if strategy.get("fail-fast", True) is not False:
        messages.append("set fail-fast: false, or a shard that fails cancels the others")
    if "timeout-minutes" in job.value and "timeout-minutes" not in job.value["steps"][job.step - 1]:
        messages.append("set `limit`: how much of the job's timeout-minutes is left for the tests")
    if "windows" in f"{job.value.get('runs-on')}{job.matrix}".lower():
        named = {*run_defaults_of(job.workflow, job.value), *job.value["steps"][job.step - 1]}
        shell = "" if "shell" in named else "; commands without `shell:` run in bash there"
        messages.append(f"Windows has not been tried{shell}")
    if "workflow_call" in str(job.workflow.get("on")):
        messages.append("workflows that call this one have to grant the permissions of its jobs")
    messages += [
        f"step {step.number} runs tests too: all of them, in every shard"
        for step in find_test_steps(job.workflow)
        if step.job == job.name and step.number != job.step
    ]
    if any(map(uploads_artifact, job.value["steps"])):
        messages.append("its artifacts have the shard in their names: download them by `pattern:`")
    if job.is_conditional and "allowed-skips" in job.source.text:
        messages.append("add ciguard-report to allowed-skips: it is skipped with the test job")
    source, path = SourceText(moved.text), job.where.partition(":")[0]
    for item in moved.aggregations:
        entry = source.find("jobs", item.job) if item.reads_single_results else None
        match = NAMED_NEED.search(moved.text, entry.start) if entry else None
        if match:
            line = moved.text.count("\n", 0, match.start()) + 1
            messages.append(
                f"{path}:{line}: {item.job} reads {match[0]}: let it fail unless "
                "needs.ciguard.result and needs.ciguard-report.result are success, too"
            )
    return messages


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
    for command in job.commands:
        started = STARTED.get(command.framework, configured)
        if started in STARTED.values() and configured != COMMAND.name and started in FRAMEWORKS:
            what = f"ciguard starts {started} itself: {shorten(command.words)}"
            raise NotMovable(what, where=job.where, fix=STARTED_FIX)
    if configured != DEFAULT:
        return ""
    for command in job.commands:
        if command.framework in (UNKNOWN, DEFAULT):
            continue
        called = ENTERED.get(command.framework, ())
        adapters = {name: FRAMEWORKS[name] for name in called if name in FRAMEWORKS}
        if not adapters:
            what = f"ciguard has no adapter for {command.framework}: {shorten(command.words)}"
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
        what = f"no test file of {DEFAULT} was found"
        raise NotMovable(what, where=job.where, fix=COMMAND_FIX)
    return ""
