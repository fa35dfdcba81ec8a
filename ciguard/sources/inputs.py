"""What a command judges: files that it was given, or a run that it fetches from GitHub itself."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from ciguard.codec.results import result_patterns
from ciguard.errors import InputError, UsageError
from ciguard.git.checkout import remote_url
from ciguard.github.events import current_run
from ciguard.github.repository_ref import RepositoryRef, resolve_repository
from ciguard.github.retry import RetryPolicy
from ciguard.model.jobs import is_github_actions
from ciguard.sources import local
from ciguard.sources.local import ReadInputs
from ciguard.sources.references import RunId, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ciguard.config.invocation import Invocation
    from ciguard.github.client import GitHub
    from ciguard.github.run_client import RunClient
    from ciguard.logs.process_logs import ProcessLogs
    from ciguard.model import Plan
    from ciguard.sources.artifacts import RunArtifacts

RUN_HELP: Final = "Run on GitHub (123456 or 123456/2) whose plan and records are downloaded."
# What these calls tell only explains: a job that is billed does not wait for it as for a comment.
RETRY_POLICY: Final = RetryPolicy(attempts=3, total_s=120.0)
TIMEOUT_S: Final = 15.0
NO_PLAN: Final = (
    "neither --plan nor --run is given: without the plan, missing tests cannot be known"
)
NO_PLAN_FIX: Final = (
    "pass the plan that the jobs ran with, or a run. A record of `ciguard run -- COMMAND` has no "
    "plan: the exit code of the command is its verdict. To guard a command, give it a plan: "
    "ciguard plan --inventory FILE --artifact DIR"
)


@dataclass(frozen=True, slots=True)
class Sources:
    """What a command was told by its options; "" or empty for nothing."""

    plan: str | None = None
    records: str | None = None
    results: tuple[str, ...] = ()
    run: str | None = None
    repo: str = ""


@dataclass(frozen=True, slots=True)
class SubjectRun:
    """The run that is judged: one that is named, else the one around us, or the one that a
    `workflow_run` event tells of.

    `source` is None where there is no token to ask it with.

    `head_shas` are the commits that the event tells it is of; none where it tells nothing.
    `page` is the address of its repository, of a run that is named.
    """

    run_id: int
    run_attempt: int | None
    source: RunClient | None
    artifacts: RunArtifacts | None = None  # of one that is named
    head_shas: frozenset[str] = frozenset()
    page: str = ""


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What there is to judge; in the place of a plan that is not there, why it is not."""

    plan: Plan | InputError
    read_inputs: ReadInputs
    subject_run: SubjectRun | None


@contextlib.contextmanager
def open_inputs(
    invocation: Invocation, sources: Sources, logs: ProcessLogs | None = None
) -> Iterator[RunInputs]:
    """Read what the options name; while the block runs GitHub can be asked about the run.

    Args:
        logs: reads what the processes of records printed.

    Raises:
        UsageError: too much or too little was named.
        GitHubError: a run that was named is not to be had.
    """
    if sources.plan == "":  # an empty variable; "." would be taken for it
        raise UsageError("no file", where="--plan", fix="name it, or the folder that it is in")
    if sources.run is None:
        if sources.plan is None:
            raise UsageError(NO_PLAN, fix=NO_PLAN_FIX)
        with open_subject_run(invocation.environ) as asked:
            yield _from_files(invocation, sources, asked, logs)
        return
    if sources.records is not None:
        what = "both --run and --records"
        raise UsageError(what, fix="of a run that is named the records are its artifacts")
    patterns = tuple(map(result_patterns.pattern, sources.results))
    named = parse(sources.run, "--run", lambda _: False)
    if not isinstance(named, RunId):
        fix = "pass a run id (123456, 123456/2) or a run's address"
        raise UsageError(f'expected a run, found "{sources.run}"', where="--run", fix=fix)
    place = resolve_repository(
        invocation.environ,
        repository=named.repository or sources.repo,
        server=named.server,
        remote=remote_url(invocation.folder, invocation.environ),
    )
    with open_named_run(invocation.environ, place, named.run_id, named.run_attempt) as subject_run:
        assert subject_run.artifacts is not None
        plan = _plan_of_run(invocation, sources, subject_run.artifacts)
        if isinstance(plan, InputError):
            yield RunInputs(plan, ReadInputs(), subject_run)
        elif patterns:
            yield RunInputs(plan, subject_run.artifacts.result_files(patterns), subject_run)
        else:
            yield RunInputs(plan, subject_run.artifacts.records(logs), subject_run)


def _from_files(
    invocation: Invocation,
    sources: Sources,
    subject_run: SubjectRun | None,
    logs: ProcessLogs | None,
) -> RunInputs:
    plan = _plan(invocation, sources.plan or "")
    if isinstance(plan, InputError):
        return RunInputs(plan, ReadInputs(), subject_run)
    arrived = local.read_inputs(invocation.folder, sources.records, sources.results, logs)
    return RunInputs(plan, arrived, subject_run)


def _plan_of_run(
    invocation: Invocation, sources: Sources, artifacts: RunArtifacts
) -> Plan | InputError:
    try:
        return artifacts.plan() if sources.plan is None else _plan(invocation, sources.plan)
    except InputError as error:
        return error


def _plan(invocation: Invocation, path: str) -> Plan | InputError:
    try:
        return local.read_plan(invocation.folder / path)
    except InputError as error:
        return error


def token_of(environ: Mapping[str, str]) -> str:
    """The token for GitHub; "" where there is none."""
    return environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or ""


def explaining_client(api_url: str, token: str) -> GitHub:
    """A client for calls whose answers explain and decide nothing; whoever takes it closes it.

    Raises:
        UsageError: the token or the API's address cannot be meant.
    """
    # Here and below: httpx costs 0.2 s that a laptop need not pay.
    from ciguard.github.client import GitHub  # noqa: PLC0415

    return GitHub(api_url, SecretStr(token), retry_policy=RETRY_POLICY, timeout_s=TIMEOUT_S)


@contextlib.contextmanager
def open_subject_run(environ: Mapping[str, str]) -> Iterator[SubjectRun | None]:
    """Open a client for the run; None outside of a run of GitHub Actions.

    Raises:
        InputError: variables or payload are malformed.
        UsageError: the token or the API's address cannot be meant.
    """
    run = current_run(environ)
    if run is None or run.run_id is None or not is_github_actions(environ):
        yield None
        return
    attempt = run.triggering.run_attempt if run.is_triggered else run.run_attempt
    # A leg says the pull request's own commit where the event has one, else GITHUB_SHA.
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
    """Open a client for a run that somebody named, whose artifacts are to be had as well.

    Raises:
        UsageError: there is no token, or it or the API's address cannot be meant.
    """
    from ciguard.github.run_client import RunClient  # noqa: PLC0415
    from ciguard.sources.artifacts import RunArtifacts  # noqa: PLC0415

    token, repository = token_of(environ), repository_ref.repository
    if not token:
        what = "artifacts are given to nobody without a token"
        fix = "set GITHUB_TOKEN or GH_TOKEN to one that may read the repository's actions"
        raise UsageError(what, where=f"run {run_id} of {repository}", fix=fix)
    with explaining_client(repository_ref.api_url, token) as github:
        source = RunClient(github, repository, run_id, attempt)
        artifacts = RunArtifacts(github, repository, run_id, attempt)
        page = f"{repository_ref.server_url}/{repository}"
        yield SubjectRun(run_id, attempt, source, artifacts=artifacts, page=page)
