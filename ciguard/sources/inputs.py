"""The plan and the records that a command judges: from files, or from a run on GitHub."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from ciguard.codec.results import result_patterns
from ciguard.codec.tool_listings import read_tests
from ciguard.errors import InputError, UsageError
from ciguard.git.checkout import remote_url
from ciguard.github.events import current_run
from ciguard.github.repository_ref import (
    RepositoryRef,
    required_token,
    resolve_repository,
    token_of,
)
from ciguard.github.retry import RetryPolicy
from ciguard.model.jobs import is_github_actions
from ciguard.sources import local
from ciguard.sources.local import ReadInputs
from ciguard.sources.references import RunId, parse

if TYPE_CHECKING:
    from ciguard.config.invocation import Invocation
    from ciguard.github.client import GitHub
    from ciguard.github.run_client import RunClient
    from ciguard.logs.process_logs import ProcessLogs
    from ciguard.model import Plan
    from ciguard.sources.artifacts import RunArtifacts

# These calls only explain a verdict: a billed job waits less for their answers than for a comment.
RETRY_POLICY: Final = RetryPolicy(attempts=3, total_s=120.0)
TIMEOUT_S: Final = 15.0
NO_PLAN: Final = (
    "neither --plan, --run nor --results is given: without the plan, missing tests cannot be known"
)
NO_PLAN_FIX: Final = (
    "pass the plan that the jobs ran with, or a run. A record of `ciguard run -- COMMAND` has no "
    "plan: the exit code of the command is its verdict. To guard a command, give it a plan: "
    "ciguard plan --inventory FILE --artifact DIR"
)


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources that the options of a command name; None, "" or () for an absent option."""

    plan: str | None = None
    records: str | None = None
    results: tuple[str, ...] = ()
    run: str | None = None
    repo: str = ""
    tests: str | None = None
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class SubjectRun:
    """The judged run: a named run, the current run, or the run of a `workflow_run` event.

    Attributes:
        source: client for the run; None without a token.
        artifacts: only of a named run.
        head_shas: commits of the run by the event; empty if the event names none.
        page: address of the repository of a named run; otherwise "".
    """

    run_id: int
    run_attempt: int | None
    source: RunClient | None
    artifacts: RunArtifacts | None = None
    head_shas: frozenset[str] = frozenset()
    page: str = ""


@dataclass(frozen=True, slots=True)
class RunInputs:
    """Plan and records to judge; an error in the place of the plan if it cannot be read.

    `plan` is None for result files without a plan; `tests` are then those of a list, if any.
    """

    plan: Plan | InputError | None
    read_inputs: ReadInputs
    subject_run: SubjectRun | None
    tests: frozenset[str] | None = None


@contextlib.contextmanager
def open_inputs(
    invocation: Invocation, sources: Sources, logs: ProcessLogs | None = None
) -> Iterator[RunInputs]:
    """Read the sources that the options name; during the block, the run on GitHub can be queried.

    Args:
        logs: reads the logs of the records' processes.

    Raises:
        UsageError: options are missing or contradict one another.
        GitHubError: the named run cannot be read.
    """
    if sources.plan == "":  # an empty variable, which would mean the current folder
        raise UsageError("no file", where="--plan", fix="name it, or the folder that it is in")
    is_unplanned = bool(sources.results) and sources.plan is None
    if not is_unplanned and (sources.tests is not None or sources.expected is not None):
        fix = "leave --plan out, and name the files by --results"
        raise UsageError("--tests and --expect are for results without a plan", fix=fix)
    if sources.run is None:
        if sources.plan is None and not sources.results:
            raise UsageError(NO_PLAN, fix=NO_PLAN_FIX)
        with open_subject_run(invocation.environ) as current:
            if sources.plan is None:
                names_shards = any("{" in text for text in sources.results)
                read = local.find_result_files if names_shards else local.glob_result_files
                files = read(invocation.folder, sources.results)
                yield RunInputs(None, files, current, listed_tests(invocation, sources.tests))
                return
            plan = _plan(invocation, sources.plan)
            inputs = ReadInputs()
            if not isinstance(plan, InputError):
                given = (sources.records, sources.results)
                inputs = local.read_inputs(invocation.folder, *given, logs)
            yield RunInputs(plan, inputs, current)
        return
    if sources.records is not None:
        what = "both --run and --records"
        raise UsageError(what, fix="leave one out: the records of a run are its artifacts")
    patterns = tuple(map(result_patterns.pattern, sources.results))
    reference = parse(sources.run, "--run", lambda _: False)
    if not isinstance(reference, RunId):
        fix = "pass a run id (123456, 123456/2) or a run's address"
        raise UsageError(f'expected a run, found "{sources.run}"', where="--run", fix=fix)
    repository_ref = resolve_repository(
        invocation.environ,
        repository=reference.repository or sources.repo,
        server=reference.server,
        remote=remote_url(invocation.folder, invocation.environ),
    )
    with open_named_run(
        invocation.environ, repository_ref, reference.run_id, reference.run_attempt
    ) as subject_run:
        artifacts = subject_run.artifacts
        assert artifacts is not None
        if patterns and not sources.plan:
            found = artifacts.result_files(patterns)
            yield RunInputs(None, found, subject_run, listed_tests(invocation, sources.tests))
            return
        plan = _plan(invocation, sources.plan) if sources.plan else _try(artifacts.plan)
        if isinstance(plan, InputError):
            yield RunInputs(plan, ReadInputs(), subject_run)
        elif patterns:
            yield RunInputs(plan, artifacts.result_files(patterns), subject_run)
        else:
            yield RunInputs(plan, artifacts.records(logs), subject_run)


def listed_tests(invocation: Invocation, path: str | None) -> frozenset[str] | None:
    """Return the tests of a list, by whose names results are then known; None without a list."""
    if path is None:
        return None
    content = local.read(invocation.folder / path)
    units = read_tests(content, path, invocation.folder.resolve().as_posix())
    return frozenset(unit.unit for unit in units)


def _plan(invocation: Invocation, path: str) -> Plan | InputError:
    return _try(lambda: local.read_plan(invocation.folder / path))


def _try(read: Callable[[], Plan]) -> Plan | InputError:
    try:
        return read()
    except InputError as error:
        return error


def explaining_client(api_url: str, token: str) -> GitHub:
    """Return a client for calls whose answers explain a verdict; the caller closes the client.

    Raises:
        UsageError: the token or the address of the API is malformed.
    """
    # Here and below: the import of httpx takes 0.2 s, which runs without GitHub save.
    from ciguard.github.client import GitHub  # noqa: PLC0415

    return GitHub(api_url, SecretStr(token), retry_policy=RETRY_POLICY, timeout_s=TIMEOUT_S)


@contextlib.contextmanager
def open_subject_run(environ: Mapping[str, str]) -> Iterator[SubjectRun | None]:
    """Open a client for the current run; None outside of GitHub Actions.

    Raises:
        InputError: variables or payload are malformed.
        UsageError: the token or the address of the API is malformed.
    """
    run = current_run(environ)
    if run is None or run.run_id is None or not is_github_actions(environ):
        yield None
        return
    attempt = run.triggering.run_attempt if run.is_triggered else run.run_attempt
    # A record has the head commit of the pull request if the event has one, else GITHUB_SHA.
    shas = (run.triggering.head_sha,) if run.is_triggered else (run.head_sha, run.tested_sha)
    head_shas = frozenset(filter(None, shas))
    subject_run = SubjectRun(run.triggering.id or run.run_id, attempt, None, head_shas=head_shas)
    token = token_of(environ)
    if not token:
        yield subject_run
        return
    from ciguard.github.run_client import RunClient  # noqa: PLC0415

    with explaining_client(run.api_url, token) as github:
        source = RunClient(github, run.repository, subject_run.run_id)
        yield replace(subject_run, source=source)


@contextlib.contextmanager
def open_named_run(
    environ: Mapping[str, str], repository_ref: RepositoryRef, run_id: int, attempt: int | None
) -> Iterator[SubjectRun]:
    """Open a client for a named run and its artifacts.

    Raises:
        UsageError: no token, or the token or the address of the API is malformed.
    """
    from ciguard.github.run_client import RunClient  # noqa: PLC0415
    from ciguard.sources.artifacts import RunArtifacts  # noqa: PLC0415

    repository = repository_ref.repository
    token = required_token(environ, f"run {run_id} of {repository}")
    with explaining_client(repository_ref.api_url, token) as github:
        source = RunClient(github, repository, run_id, attempt)
        artifacts = RunArtifacts(github, repository, run_id, attempt)
        page = f"{repository_ref.server_url}/{repository}"
        yield SubjectRun(run_id, attempt, source, artifacts=artifacts, page=page)
