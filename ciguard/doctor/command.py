"""The command `ciguard doctor`: check configuration, repository, history, GitHub and machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ciguard import console
from ciguard.config.file import FILES, Config, configured_by
from ciguard.config.options import format_option, repo_option
from ciguard.config.suites import pools_of, suites_of
from ciguard.doctor.checks import (
    Check,
    as_json,
    check_required,
    document,
    error,
    ok,
    warn_of_cancelled_pushes,
    warn_of_undetected_skip,
    warning,
)
from ciguard.errors import CiguardError, ExitCode, UsageError
from ciguard.git.checkout import remote_url
from ciguard.git.commands import output_of
from ciguard.github.repository_ref import RepositoryRef, resolve_repository, token_of
from ciguard.history.stores import load, open_store
from ciguard.init.candidates import MAX_CHECKED, SEPARATE, find_candidates, with_used_actions
from ciguard.init.generated_files import HISTORY_FILE_WARNING, LOST_FIX, WORKFLOW_FILE, generate
from ciguard.init.move_in import moved_files
from ciguard.init.repository import default_branch, guess_of, ownership_refusal
from ciguard.model.types import DRILL_PREFIX
from ciguard.plan.collection import FIX, collect_units, matching_files
from ciguard.render.plaintext import as_text
from ciguard.run.frameworks.registry import DEFAULT, FRAMEWORKS, framework
from ciguard.run.platforms.current import CURRENT
from ciguard.sources import local
from ciguard.sources.artifacts import PLAN
from ciguard.text import count_of, error_lines, last_line, size
from ciguard.workflow.actions_address import SET_ACTIONS, known_address
from ciguard.workflow.aggregation import find_judging_jobs, find_undetected_skips
from ciguard.workflow.conditions import runs_on_push
from ciguard.workflow.movable_job import NotMovable, comment_jobs
from ciguard.workflow.rewrite import is_moved, plan_step
from ciguard.workflow.yaml_values import get, jobs_of
from ciguard.workflow.yaml_values import load as load_yaml

if TYPE_CHECKING:
    from ciguard.config.invocation import Invocation
    from ciguard.github.client import GitHub
    from ciguard.model import Suite

FIX_WORD: Final = "fix: "
MAX_SEARCHED: Final = 10  # runs of workflow_dispatch
# Permission, a path of the API that needs it, and the features that need it.
READS: Final = (
    ("actions: read", "actions/runs/1", "how jobs ended, and records of other runs"),
    ("checks: read", "check-runs/1", "why GitHub ended a job"),
)


@click.command()
@format_option("text", "json")
@repo_option()
@click.option("--offline", is_flag=True, help="Skip GitHub and a remote history.")
@click.pass_obj
def command(invocation: Invocation, format_: str, repo: str, offline: bool) -> int:
    """Check the configuration, the tools and the permissions that ciguard needs.

    The command changes nothing. It ends with 3 if a check found an error.
    """
    checks = list(_all(invocation, repo, offline=offline))
    console.out(
        json.dumps(as_json(checks), indent=2) if format_ == "json" else as_text(document(checks))
    )
    return ExitCode.INPUT if any(check.level == "error" for check in checks) else ExitCode.OK


def _all(invocation: Invocation, repo: str, *, offline: bool) -> Iterator[Check]:
    yield from _checked("git", lambda: _git(invocation))
    try:
        config = invocation.config()
    except UsageError as mistake:
        # All other checks depend on the configuration.
        yield error("configuration", f"{mistake.where}: {mistake.what}".strip(": "), mistake.fix)
        return
    with suppress(UsageError):  # no git repository: the first check reports this
        config = with_used_actions(invocation.folder, config)
    workflows = {
        path.relative_to(invocation.folder).as_posix(): _workflow_value(path)
        for path in _workflow_files(invocation.folder)
    }
    adopted = {file: workflow for file, workflow in workflows.items() if is_moved(workflow)}
    commenting = [file for file, workflow in workflows.items() if comment_jobs(workflow)]
    file, address = configured_by(invocation.folder), known_address(config.actions)
    is_comment = bool(commenting) and not (file or adopted)
    init = _init_command(invocation.folder, config) if address else ""
    if file:
        yield ok("configuration", file)
    elif is_comment:
        yield ok("configuration", "none: a job that only comments needs none")
    else:
        yield warning("configuration", "none: the defaults apply", init or "ciguard init", init)
    if not is_comment:
        yield from _checked("tests", lambda: _tests(invocation, config, adopted))
    # Without an origin, no workflow runs: problems of workflows are warnings.
    origin = remote_url(invocation.folder, invocation.environ)
    worst = error if origin else warning
    yield from (
        ok("workflow", f"{file} uses ciguard's actions") for file in (*adopted, *commenting)
    )
    if not (adopted or commenting) or (invocation.folder / WORKFLOW_FILE).exists():
        if address:
            use = "use" if (invocation.folder / WORKFLOW_FILE).exists() else "would use"
            yield ok("actions", f"workflows {use} {address}")
            yield from _checked("workflow", lambda: _workflow(invocation, config, init))
        else:
            what = "the repository of ciguard's actions is unknown, so no workflow can use them"
            yield worst("actions", what, SET_ACTIONS)
    for path in _workflow_files(invocation.folder):
        yield from _checked("aggregation", partial(_aggregation, invocation.folder, path), warning)
    is_remote = config.history.in_branch or config.history.in_service
    if offline and is_remote:
        yield ok("history", f"not checked because of --offline: {config.history.store}")
    else:
        on_error = worst if is_remote else error
        yield from _checked("history", lambda: _history(invocation, config, adopted), on_error)
    if not offline:
        yield from _checked("GitHub", lambda: _github(invocation, repo))
    yield from _machine()


def _checked(
    name: str,
    make_checks: Callable[[], Iterator[Check]],
    on_error: Callable[[str, str, str], Check] = error,
) -> Iterator[Check]:
    """Yield the checks; an error of ciguard ends them and becomes a check itself."""
    try:
        yield from make_checks()
    except CiguardError as problem:
        where = f"{problem.where}: " if problem.where else ""
        yield on_error(name, f"{where}{problem.what}", problem.fix)


def _git(invocation: Invocation) -> Iterator[Check]:
    if shutil.which("git", path=invocation.environ.get("PATH")) is None:
        yield error("git", "git is not installed", "install it: the policy and the history need it")
        return
    remote = remote_url(invocation.folder, invocation.environ)
    if remote:
        yield ok("git", f"origin is {remote}")
        return
    what, fix = ownership_refusal(invocation.folder)
    if what:
        yield error("git", what, command=fix)
        return
    is_repository = output_of(invocation.folder, "rev-parse", "--git-dir") is not None
    what = "no remote origin" if is_repository else "this folder is in no git repository"
    first = "" if is_repository else "git init, then "
    fix = "git remote add origin ADDRESS: the history and the base's policy come from there"
    yield warning("git", what, first + fix, "" if is_repository else "git init")


def _tests(invocation: Invocation, config: Config, adopted: Mapping[str, Any]) -> Iterator[Check]:
    """List the units of each suite and variant by its framework, as `plan` does."""
    pools_of(config, ())  # raises the mistakes of a pool
    inputs = [(plan_step(workflow) or {}).get("with") for workflow in adopted.values()]
    if inputs and all(get(given, "collect") in (None, "history") for given in inputs):
        yield ok("tests", "listed by the jobs that run them, not by the job that plans")
        return
    is_default = "suite" not in config.model_fields_set
    folder = invocation.folder
    if is_default and not matching_files(FRAMEWORKS[DEFAULT].file_patterns, folder, ""):
        return
    for name, suite in suites_of(config).items():
        for variant in suite.variants:
            words = " ".join(filter(None, ("tests", name, variant)))
            try:
                collected = collect_units(
                    framework(suite.framework), suite, variant, folder, invocation.environ
                )
            except CiguardError as problem:
                yield error(words, f"{suite.framework}: {problem.what}", problem.fix)
                continue
            noun = "test file" if framework(suite.framework).unit == "file" else "test"
            text = f"{suite.framework} lists {count_of(len(collected.units), noun)}"
            if collected.errors:
                program = _program(invocation, suite)
                errors = count_of(len(collected.errors), "error")
                # The adapter's advice is more specific than FIX.
                lines = [line for error in collected.errors for line in error.splitlines()]
                advice = [line[len(FIX_WORD) :] for line in lines if line.startswith(FIX_WORD)]
                what = f"{text} by {program}, and {errors}: {_first(collected.errors)}"
                yield error(words, what, (*advice, FIX)[0])
            elif not collected.units:
                yield error(words, text, "set args or cwd of the suite to the folder of its tests")
            else:
                yield ok(words, text)


def _program(invocation: Invocation, suite: Suite) -> str:
    """Return the path of the program that lists the tests, which may be in another environment."""
    name = (suite.list_command or suite.command)[0]
    return shutil.which(name, path=invocation.environ.get("PATH")) or name


def _first(errors: Sequence[str]) -> str:
    """Return the location of the first error and its message, which may be in another text."""
    head, *_ = errors[0].strip().splitlines()
    bodies = [
        "\n".join(line for line in error.strip().splitlines()[1:] if not line.startswith(FIX_WORD))
        for error in errors
    ]
    named = [lines[-1] for lines in map(error_lines, bodies) if lines]
    return f"{head} {(*named, last_line(bodies[-1]))[0]}".rstrip()


def _init_command(folder: Path, config: Config) -> str:
    """Return an `init` command that needs no answer and is not refused."""
    with suppress(CiguardError):  # no repository, or an uncommitted workflow
        moved, candidates = find_candidates(folder)
        if moved or not candidates or (folder / WORKFLOW_FILE).exists():
            return "ciguard init"
        for candidate in candidates[:MAX_CHECKED]:
            with suppress(NotMovable):
                moved_files(folder, config, *candidate.target)
                return candidate.command
        return SEPARATE
    return "ciguard init"


def _workflow(invocation: Invocation, config: Config, command: str) -> Iterator[Check]:
    for item in generate(invocation.folder, config):
        if item.path in FILES:
            continue
        if item.is_up_to_date:
            yield ok("workflow", f"{item.path} matches the configuration")
        elif item.verb == "create":
            yield warning("workflow", f"there is no {item.path}", command=command)
        elif item.is_edited:
            what = f"{item.path} was edited or written by hand: ciguard init keeps it"
            yield warning("workflow", what, "to see the differences, run ciguard init")
        else:
            what = f"{item.path} does not match the configuration and this version"
            yield warning("workflow", what, command=command)


def _workflow_files(folder: Path) -> list[Path]:
    """Return the files that GitHub reads as workflows, by name."""
    files = (folder / WORKFLOW_FILE).parent.glob("*")
    return sorted(path for path in files if path.suffix in (".yml", ".yaml") and path.is_file())


def _workflow_value(path: Path) -> Any:
    try:
        return load_yaml(local.read(path).decode("utf-8", "replace"), path.name)
    except CiguardError:
        return None  # `_aggregation` reports the error


def _aggregation(folder: Path, path: Path) -> Iterator[Check]:
    """Warn of jobs that would hide a failure of the planning job, and of cancelled base runs."""
    file = path.relative_to(folder).as_posix()
    workflow = load_yaml(local.read(path).decode("utf-8", "replace"), file)
    yield from map(warn_of_undetected_skip, find_undetected_skips(workflow, file))
    if find_judging_jobs(workflow):
        yield from warn_of_cancelled_pushes(file, workflow, default_branch(folder))


def _history(invocation: Invocation, config: Config, adopted: Mapping[str, Any]) -> Iterator[Check]:
    location = config.history.store
    if not (config.history.in_branch or config.history.in_service):
        yield warning("history", HISTORY_FILE_WARNING.format(location), LOST_FIX)
    loaded = load(open_store(location, invocation.folder, invocation.environ))
    if not loaded.exists:
        fix = "the first run of the workflow on the base branch creates it"
        branch = default_branch(invocation.folder)
        is_own = (invocation.folder / WORKFLOW_FILE).exists()
        if config.history.in_service:
            fix = "the service adds the next run of the base branch"
        elif not config.history.in_branch:
            fix = "ciguard history add creates it"
        elif adopted and not is_own and not any(runs_on_push(w, branch) for w in adopted.values()):
            branch += guess_of(invocation.folder)
            fix = f"no push to {branch} starts {', '.join(adopted)}: add push to its `on:`"
        yield warning("history", f"nothing at {location} yet: plans split the tests equally", fix)
        return
    runs = count_of(len(loaded.history.runs), "run")
    yield ok("history", f"{location}: {runs}, {size(loaded.size_bytes)}")


def _github(invocation: Invocation, repo: str) -> Iterator[Check]:
    environ = invocation.environ
    try:
        repository = resolve_repository(
            environ, repository=repo, remote=remote_url(invocation.folder, environ)
        )
    except UsageError as problem:
        if repo:
            raise
        yield warning("GitHub", problem.what, problem.fix)
        return
    token = token_of(environ)
    if not token:
        fix = (
            "set GITHUB_TOKEN or GH_TOKEN; in a workflow: GITHUB_TOKEN: ${{ github.token }} in env"
        )
        host = repository.server_url.partition("//")[2]
        gh = shutil.which("gh", path=environ.get("PATH"))
        command = f"export GH_TOKEN=$(gh auth token --hostname {host})" if gh else ""
        what = f"no token: {repository.server_url} was not checked"
        yield warning("GitHub", what, fix, command)
        return
    # Imported here: httpx takes 0.2 s, and a machine without a token does not need it.
    from ciguard.sources.inputs import explaining_client  # noqa: PLC0415

    with explaining_client(repository.api_url, token) as github:
        yield from _github_checks(invocation, repository, github)


def _github_checks(
    invocation: Invocation, repository: RepositoryRef, github: GitHub
) -> Iterator[Check]:
    from ciguard.github import capabilities  # noqa: PLC0415

    facts = capabilities.repository_facts(github, repository.repository)
    branch = f", default branch {facts.default_branch}" if facts.default_branch else ""
    yield ok("GitHub", f"{repository.api_url} answers; {facts.full_name} is there{branch}")
    for permission, path, without in READS:
        if capabilities.may_read(github, f"/repos/{repository.repository}/{path}"):
            yield ok("token", f"has {permission}")
        else:
            fix = f"give the job `permissions: {permission}`, or give it to the token"
            yield warning("token", f"does not have {permission}; unavailable: {without}", fix)
    if facts.default_branch:
        asked = (github, repository.repository, facts.default_branch)
        required = partial(capabilities.required_checks, *asked)
        make_checks = partial(_required_checks, invocation.folder, required)
        yield from _checked("required check", make_checks, warning)
    yield from _checked("drill", partial(_last_drill, repository.repository, github), warning)


def _last_drill(repository: str, github: GitHub) -> Iterator[Check]:
    """Find the last run whose plan is that of a drill. Each searched run costs one request."""
    from ciguard.github.models import WorkflowRun  # noqa: PLC0415
    from ciguard.github.run_client import RunClient  # noqa: PLC0415

    path = f"/repos/{repository}/actions/runs?event=workflow_dispatch&status=completed"
    runs = github.items(WorkflowRun, path, key="workflow_runs", limit=MAX_SEARCHED)
    for run in runs:
        artifacts = RunClient(github, repository, run.id).artifacts(limit=100)
        if any(artifact.name.startswith(f"{PLAN}{DRILL_PREFIX}") for artifact in artifacts):
            day = f"{run.created_at:%Y-%m-%d}" if run.created_at else "an unknown day"
            what = f"the last drill was run {run.id} of {day}: {run.conclusion}"
            fix = "a lost test would also be green: require the job that runs `ciguard report`"
            is_green = run.conclusion == "success"
            yield error("drill", what, fix) if is_green else ok("drill", what)
            return
    what = f"none among the last {count_of(len(runs), 'run')} that were started by hand"
    yield ok("drill", what, "start the workflow with its input `drill`: the run must fail")


def _required_checks(folder: Path, ask_required: Callable[[], Set[str]]) -> Iterator[Check]:
    """Check each workflow that judges the tests, if the default branch requires any check."""
    required = ask_required()
    for path in _workflow_files(folder) if required else ():
        workflow = _workflow_value(path)
        judging = find_judging_jobs(workflow)
        # A workflow that is started by `workflow_run` reports no check to a pull request.
        if judging and "workflow_run" not in (workflow.get("on") or ()):
            file = path.relative_to(folder).as_posix()
            yield check_required(file, jobs_of(workflow), judging, required)


def _machine() -> Iterator[Check]:
    """Check whether a job on a machine like this can measure memory and limit it."""
    if CURRENT.headroom(None).memory_bytes() is None:
        fix = "set memory of its pool in ciguard.toml"
        yield warning("memory", "memory unknown: ciguard cannot guard the memory of jobs here", fix)
    if CURRENT.LIMITATIONS:
        what = f"not available in a job here: {'; '.join(CURRENT.LIMITATIONS)}"
        yield warning("measuring", what, "docs/reference/platforms.md lists the effects")
