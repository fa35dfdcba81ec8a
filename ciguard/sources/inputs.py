"""What a command judges: files that it was given, or a run that it fetches from GitHub itself."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard import console
from ciguard.errors import InputError, UsageError
from ciguard.git.checkout import remote_url
from ciguard.github.repository_ref import resolve_repository
from ciguard.sources import local
from ciguard.sources.local import ReadInputs
from ciguard.sources.references import RunId, parse
from ciguard.sources.subject_run import open_named_run, open_subject_run
from ciguard.text import duration, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ciguard.invocation import Invocation
    from ciguard.model import Plan
    from ciguard.sources.artifacts import Progress, RunArtifacts
    from ciguard.sources.subject_run import SubjectRun

RUN_HELP: Final = "Run on GitHub (123456 or 123456/2) whose plan and records are downloaded."
EVERY_S: Final = 10.0  # a line
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
class RunInputs:
    """What there is to judge; in the place of a plan that is not there, why it is not."""

    plan: Plan | InputError
    read_inputs: ReadInputs
    subject_run: SubjectRun | None


@contextlib.contextmanager
def open_inputs(invocation: Invocation, sources: Sources) -> Iterator[RunInputs]:
    """Read what the options name; while the block runs GitHub can be asked about the run.

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
            yield _from_files(invocation, sources, asked)
        return
    if sources.records is not None or sources.results:
        what = "both --run and --records or --results"
        raise UsageError(what, fix="of a run that is named the records are its artifacts")
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
        yield _from_run(invocation, sources, subject_run, subject_run.artifacts)


def _from_files(
    invocation: Invocation, sources: Sources, subject_run: SubjectRun | None
) -> RunInputs:
    plan = _plan(invocation, sources.plan or "")
    if isinstance(plan, InputError):
        return RunInputs(plan, ReadInputs(), subject_run)
    arrived = local.read_inputs(invocation.folder, sources.records, sources.results)
    return RunInputs(plan, arrived, subject_run)


def _from_run(
    invocation: Invocation, sources: Sources, subject_run: SubjectRun, artifacts: RunArtifacts
) -> RunInputs:
    plan: Plan | InputError
    try:
        plan = artifacts.plan() if sources.plan is None else _plan(invocation, sources.plan)
    except InputError as error:
        plan = error
    if isinstance(plan, InputError):
        return RunInputs(plan, ReadInputs(), subject_run)
    with progress_display() as on_progress:
        found = artifacts.records(on_progress)
    missing = (
        "" if found.artifacts else f"run {subject_run.run_id} has no records among its artifacts"
    )
    return RunInputs(
        plan, ReadInputs(found.records, missing=missing, problems=found.problems), subject_run
    )


def _plan(invocation: Invocation, path: str) -> Plan | InputError:
    try:
        return local.read_plan(invocation.folder / path)
    except InputError as error:
        return error


@contextlib.contextmanager
def progress_display() -> Iterator[Callable[[Progress], None]]:
    """Tell of a download: a line now and then, and one at the end."""
    started = time.monotonic()
    last: list[Progress] = []
    printed_at = started

    def on_progress(progress: Progress) -> None:
        nonlocal printed_at
        last[:] = [progress]
        if time.monotonic() - printed_at >= EVERY_S:
            printed_at = time.monotonic()
            console.err(f"downloading records: {_progress_text(progress)}")

    yield on_progress
    if last:
        took = duration(time.monotonic() - started)
        console.err(f"downloaded records: {_progress_text(last[0])} in {took}")


def _progress_text(progress: Progress) -> str:
    return f"{progress.done} of {progress.total}, {size(progress.bytes)}"
