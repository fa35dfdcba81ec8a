"""What a command judges: files that it was given, or a run that it fetches from GitHub itself."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard import console, files
from ciguard.errors import InputError, UsageError
from ciguard.files import Arrived
from ciguard.github.judged import judged_run, named_run
from ciguard.github.place import place_of
from ciguard.lookup.references import RunId, parse
from ciguard.repository.checkout import remote_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ciguard.github.artifacts import Progress, RunArtifacts
    from ciguard.github.judged import JudgedRun
    from ciguard.invocation import Invocation
    from ciguard.model import Plan

RUN: Final = "Instead: a run of GitHub, 123456 or 123456/2; plan and records are downloaded."
EVERY_S: Final = 10.0  # a line in the log of a job
NO_PLAN: Final = (
    "no --plan and no --run: what should have run is said nowhere, and records cannot say what is "
    "missing"
)
NO_PLAN_FIX: Final = (
    "pass the plan that the legs ran with, or a run; what `ciguard run -- COMMAND` measured has "
    "none: that command's own exit code is its verdict, and `ciguard compare` reads its record. To "
    "have a command guarded, give it a plan: ciguard plan --inventory FILE --artifact DIR"
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
class Fetched:
    """What there is to judge; in the place of a plan that is not there, why it is not."""

    plan: Plan | InputError
    arrived: Arrived
    asked: JudgedRun | None


@contextlib.contextmanager
def fetched(invocation: Invocation, sources: Sources) -> Iterator[Fetched]:
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
        with judged_run(invocation.environ) as asked:
            yield _given(invocation, sources, asked)
        return
    if sources.records is not None or sources.results:
        what = "both --run and --records or --results"
        raise UsageError(what, fix="of a run that is named the records are its artifacts")
    named = parse(sources.run, "--run", lambda _: False)
    if not isinstance(named, RunId):
        fix = "pass a run id (123456, 123456/2) or a run's address"
        raise UsageError(f'expected a run, found "{sources.run}"', where="--run", fix=fix)
    place = place_of(
        invocation.environ,
        repository=named.repository or sources.repo,
        server=named.server,
        remote=remote_url(invocation.folder, invocation.environ),
    )
    with named_run(invocation.environ, place, named.run_id, named.run_attempt) as asked:
        assert asked.artifacts is not None
        yield _of_run(invocation, sources, asked, asked.artifacts)


def _given(invocation: Invocation, sources: Sources, asked: JudgedRun | None) -> Fetched:
    plan = _plan(invocation, sources.plan or "")
    if isinstance(plan, InputError):
        return Fetched(plan, Arrived(), asked)
    arrived = files.arrived(invocation.folder, sources.records, sources.results)
    return Fetched(plan, arrived, asked)


def _of_run(
    invocation: Invocation, sources: Sources, asked: JudgedRun, artifacts: RunArtifacts
) -> Fetched:
    plan: Plan | InputError
    try:
        plan = artifacts.plan() if sources.plan is None else _plan(invocation, sources.plan)
    except InputError as error:
        plan = error
    if isinstance(plan, InputError):
        return Fetched(plan, Arrived(), asked)
    with shown() as heard:
        found = artifacts.records(heard)
    missing = "" if found.artifacts else f"run {asked.run_id} has no records among its artifacts"
    return Fetched(plan, Arrived(found.records, missing=missing, problems=found.problems), asked)


def _plan(invocation: Invocation, path: str) -> Plan | InputError:
    try:
        return files.read_plan(invocation.folder / path)
    except InputError as error:
        return error


@contextlib.contextmanager
def shown() -> Iterator[Callable[[Progress], None]]:
    """Tell of a download: a bar on a terminal, else a line now and then and one at the end."""
    if sys.stderr.isatty():
        with _bar() as heard:
            yield heard
        return
    begun = time.monotonic()
    last: list[Progress] = []
    said_at = begun

    def hear(progress: Progress) -> None:
        nonlocal said_at
        last[:] = [progress]
        if time.monotonic() - said_at >= EVERY_S:
            said_at = time.monotonic()
            console.err(f"downloading records: {_so_far(progress)}")

    yield hear
    if last:
        took = console.duration(time.monotonic() - begun)
        console.err(f"downloaded records: {_so_far(last[0])} in {took}")


def _so_far(progress: Progress) -> str:
    return f"{progress.done} of {progress.of}, {console.size(progress.bytes)}"


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    # Imported here: rich costs 0.1 s that a job without a terminal need not pay.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    columns = (
        TextColumn("downloading records"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[size]}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, size="")

        def hear(progress: Progress) -> None:
            size = console.size(progress.bytes)
            bar.update(task, completed=progress.done, total=progress.of, size=size)

        yield hear
