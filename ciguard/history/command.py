"""The command `ciguard history`: add runs to a history, show it, and copy it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import reduce
from io import BytesIO
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click
import numpy as np

from ciguard import console
from ciguard.codec.archive import SIGNATURE
from ciguard.codec.results.formats import result_members
from ciguard.codec.results.planned_shards import records_from_files
from ciguard.codec.results.result_patterns import ResultFile, newest_attempts, pattern
from ciguard.codec.results.unplanned import read_unplanned, units_with_variants
from ciguard.codec.unpack_limits import UnpackBudget, gunzip
from ciguard.config.file import process_log_reader
from ciguard.config.options import EXPECT, HISTORY, RESULTS, RUN, TESTS, format_option, plan_option
from ciguard.document import Block, Column, Paragraph, Table
from ciguard.errors import CiguardError, ExitCode, InputError, UsageError
from ciguard.git.checkout import Checkout
from ciguard.github.events import ActionsRun, current_run
from ciguard.github.repository_ref import token_of
from ciguard.history import age, branch_store, stores
from ciguard.history import file as history_codec
from ciguard.history.branch_store import BranchStore
from ciguard.history.file import FILE_NAME, History
from ciguard.history.ingest import (
    ACCEPTED_INPUTS,
    RunMetadata,
    check_is_merged,
    history_of,
    history_of_file,
    parse_time,
)
from ciguard.history.merge import merge
from ciguard.history.metric_series import MAX_SERIES, series_of
from ciguard.history.query import BaseQuery, base_runs
from ciguard.history.runs import MERGED_GROUP, UNDATED, HistoryRun
from ciguard.history.stores import FileStore, load, open_store, open_writable_store, update
from ciguard.model.jobs import Job, last_attempts
from ciguard.model.record import drill_of
from ciguard.model.shard_names import shard_lookup
from ciguard.render.formats import as_format
from ciguard.render.plaintext import as_text
from ciguard.sources import local
from ciguard.sources.inputs import Sources, explaining_client, listed_tests, open_inputs
from ciguard.sources.repository_files import CheckoutFiles
from ciguard.text import count_of, one_line, size, step_outputs

if TYPE_CHECKING:
    from ciguard.config.invocation import Invocation
    from ciguard.github.client import GitHub
    from ciguard.history.stores import HistoryStore, ReadableStore
    from ciguard.logs.process_logs import ProcessLogs
    from ciguard.model import Plan, Record

# The result files from which `fetch` takes times if there is no history.
BASE_RESULTS: Final = (pattern("**/*.xml"), pattern("**/*.trx"))
MAX_FILE_BYTES: Final = 1 << 26  # unpacked
MAX_BYTES: Final = 1 << 23  # of an artifact; builds are larger, and delay the plan

_BRANCH: Final = click.option(
    "--branch",
    metavar="NAME",
    help=f"Branch (default: that of history.store, or {branch_store.DEFAULT}).",
)


@click.group()
def command() -> None:
    """Add, show or copy past runs."""


@command.command(short_help="Add records, or results of other programs.")
@click.argument("paths", metavar="[FILE|DIR]...", nargs=-1)
@HISTORY
@click.option("--run-id", metavar="ID", type=click.IntRange(min=1), help="Id of the run.")
@click.option("--run-attempt", metavar="N", type=click.IntRange(min=1), help="Attempt of the run.")
@click.option("--sha", help="Tested commit.")
@click.option("--branch", help="Branch of the run.")
@click.option("--event", help="Event that started the run, such as push.")
@click.option("--at", metavar="TIME", help="Start of the run, such as 2026-11-21T10:00:00Z.")
@click.option(
    "--merged",
    is_flag=True,
    help="Add a merge group's run that the checked-out branch contains.",
)
@click.option("--suite", help="Suite of results that name no suite.")
@click.option("--variant", help="Variant of results that name no variant.")
@plan_option("plan_path")
@RESULTS
@RUN
@EXPECT
@TESTS
@click.option("--coverage", metavar="FILE", help="Output of `ciguard coverage`.")
@click.option("--github", is_flag=True, help="Write outputs of the step.")
@click.pass_obj
def add(
    invocation: Invocation,
    /,
    *,
    paths: tuple[str, ...],
    history: str | None,
    at: str | None,
    plan_path: str | None,
    results: tuple[str, ...],
    run: str | None,
    merged: bool,
    expected: int | None,
    tests: str | None,
    coverage: str | None,
    github: bool,
    **overrides: Any,
) -> int:
    """Add records (folders, *.jsonl), result files or durations of other programs.

    Options supply facts that the files do not contain.
    """
    base = overrides.pop("branch") if merged else None  # a record has that of the merge queue
    facts = RunMetadata(at=parse_time(at, "--at") if at is not None else None, **overrides)
    plan = local.read_plan(invocation.folder / plan_path) if plan_path is not None else None
    _check_event(invocation.environ)
    budget = UnpackBudget()
    all_paths = [invocation.folder / path for path in paths]
    histories = [_read(path, facts, plan, budget) for path in all_paths if not _is_record(path)]
    # All records are read at once, because a run's metric is the median over all its jobs.
    if folders := [path for path in all_paths if _is_record(path)]:
        config = invocation.config()
        logs = process_log_reader(config)
        records = [record for path in folders for record in _read_records(path, logs)]
        if drill := drill_of(records):
            console.out(f"nothing is added: {drill} is the plan of a drill")
            return ExitCode.OK
        histories.append(_of_records(records, facts, plan, config.metrics.keep))
    if run is not None and not results:
        fix = "pass --results '{shard}/**/*.xml'; records are added from their folder"
        raise UsageError("--run without --results", where=f"--run {run}", fix=fix)
    if results:
        sources = Sources(plan_path, results=results, run=run)
        files, run_id = _result_files(invocation, sources, plan)
        own = replace(facts, run_id=facts.run_id or run_id)
        own = _with_current_run(own, invocation)
        if plan is not None:
            histories.append(_from_planned_shards(files, results, own, plan))
        else:
            past = stores.load_optional(*_store_arguments(invocation, history)).history
            several = units_with_variants(past.keys if past is not None else ())
            found = read_unplanned(files, listed_tests(invocation, tests), several)
            histories.append(_from_results(*found, own, expected))
    if not histories:
        raise UsageError("nothing to add", fix=ACCEPTED_INPUTS)
    addition = reduce(merge, histories)
    if merged:
        addition = _as_merged(invocation, addition, facts.sha, base)
    _check_runs(addition, (*paths, *results))
    known = local.read_coverage(invocation.folder / coverage) if coverage is not None else None
    if known is not None and known.total is not None:
        runs = tuple(replace(run, coverage=known) for run in addition.runs)
        addition = replace(addition, runs=runs)
    for added in addition.runs if plan is not None else ():
        if not added.complete:
            console.err(f"warning: {incomplete_run(added)}")
    read = sum(len(each.values) for each in histories)
    code = _add(open_writable_store(*_store_arguments(invocation, history)), addition, read)
    if github:
        local.append_output(invocation.environ, step_outputs({"added": str(len(addition.values))}))
    return code


@command.command(short_help="Copy the history of a branch into a file.")
@click.argument("path", metavar="[FILE]", default=FILE_NAME)
@_BRANCH
@click.pass_obj
def pull(invocation: Invocation, path: str, branch: str | None) -> int:
    """Add the history of a branch to FILE (default: history.ciguard)."""
    source = _branch(invocation, branch)
    if path == "-":
        stored = source.read()
        if stored.content is None:
            raise _nothing_yet(source)
        local.write("-", stored.content)
        return ExitCode.OK
    loaded = load(source)
    if not loaded.exists:
        raise _nothing_yet(source)
    return _add(FileStore(path, invocation.folder, invocation.environ), loaded.history)


@command.command(short_help="Copy the history for a step without a token.")
@click.argument("path", metavar="DIR")
@HISTORY
@click.pass_obj
def fetch(invocation: Invocation, path: str, history: str | None) -> int:
    """Copy the history into DIR, for `ciguard plan --history copy:DIR`.

    Only this step needs a token, and not the one that plans. If the history cannot be read, the
    plan names the reason and continues without it. If there is no history, the command copies the
    times in result files of the base branch's last run.
    """
    folder = invocation.folder / path
    store = open_store(*_store_arguments(invocation, history))
    problem = stores.copy_to(folder, store)
    is_copied = (folder / FILE_NAME).exists()
    console.out(f"{store.location}: {problem or ('copied' if is_copied else 'no history yet')}")
    run, token = current_run(invocation.environ), token_of(invocation.environ)
    if run is not None and token and not is_copied:
        _copy_base_timings(folder / stores.TIMINGS, run, token)
    return ExitCode.OK


def _copy_base_timings(folder: Path, run: ActionsRun, token: str) -> None:
    """Copy the times in the result files of a base run; the files of an artifact become one run."""
    try:
        with explaining_client(run.api_url, token) as github:
            source, artifacts = _read_base_results(github, run)
        histories = [
            history_of(records, RunMetadata(number, event="pull_request"))
            for number, records in enumerate(artifacts, 1)
        ]
    except CiguardError as error:
        console.out(f"no times for a plan without a history: {error}")
        return
    timings = reduce(merge, histories)
    stores.write_copy(folder, source, history_codec.encode(timings))
    console.out(f"{source}: times of {count_of(len(timings.keys), 'test')} copied")


def _read_base_results(github: GitHub, run: ActionsRun) -> tuple[str, list[tuple[Record, ...]]]:
    """Return the description of the source, and the records of each artifact, in order.

    A run costs three requests to GitHub's API, and one for each artifact that may have results.

    Raises:
        InputError: no run has results that can be read.
        GitHubError: GitHub did not list the runs or their artifacts.
    """
    # Imported here: no other `history` command needs httpx.
    from ciguard.github.run_client import runs_of_base  # noqa: PLC0415
    from ciguard.sources.artifacts import RunArtifacts  # noqa: PLC0415

    for past in runs_of_base(github, run.repository, run.base_branch or "", ("push",), run=run):
        artifacts = RunArtifacts(
            *(github, run.repository, past.id),
            max_archive_bytes=MAX_BYTES,
            max_file_bytes=MAX_FILE_BYTES,
        )
        with suppress(InputError):  # the artifacts have expired
            files = newest_attempts(artifacts.result_files(BASE_RESULTS).results)
            # A history of result files does not distinguish the attempts of a job.
            single = [replace(file, attempt=None) for file in files]
            by_artifact = groupby(single, attrgetter("shard"))
            read = [records for _, own in by_artifact if (records := read_unplanned(own)[1])]
            if any(record.results for records in read for record in records):  # others are damaged
                return f"result files of run {past.id} of {run.base_branch}", read
    raise InputError(f"no result files in the artifacts of the last runs of {run.base_branch}")


@command.command(short_help="Add the runs of files to a branch.")
@click.argument("paths", metavar="[FILE]...", nargs=-1)
@_BRANCH
@click.pass_obj
def push(invocation: Invocation, paths: tuple[str, ...], branch: str | None) -> int:
    """Add the runs of history files (default: history.ciguard) to a branch."""
    named = paths or (FILE_NAME,)
    _check_event(invocation.environ)
    sources = ((path if path == "-" else invocation.folder / path, path) for path in named)
    decoded = (history_codec.decode(local.read(source), path) for source, path in sources)
    addition = reduce(merge, decoded)
    _check_runs(addition, named)
    return _add(_branch(invocation, branch), addition)


@command.command()
@HISTORY
@click.pass_obj
def show(invocation: Invocation, history: str | None) -> int:
    """Show the runs, oldest first."""
    known, size_bytes = _load_known(invocation, history)
    console.out(as_text(document(known, size_bytes), rows=len(known.runs)))
    return ExitCode.OK


@command.command(short_help="List the tests that have not run for days.")
@click.argument("paths", metavar="[FILE|DIR]...", nargs=-1)
@HISTORY
@click.option(
    "--days", type=click.IntRange(min=1), default=age.DAYS, help=f"Least age (default: {age.DAYS})."
)
@format_option("text", "markdown", "json")
@click.pass_obj
def stale(
    invocation: Invocation, paths: tuple[str, ...], history: str | None, days: int, format_: str
) -> int:
    """List the tests of the base's newest complete run that have not run for days, oldest first.

    A skipped test has not run. Name the records of the run to see the reasons of its skips.
    """
    run = current_run(invocation.environ)
    branch = run.base_branch if run is not None else None
    known, _ = _load_known(invocation, history)
    runs = (known.runs[position] for position in base_runs(known, BaseQuery(branch)))
    newest = next((run for run in runs if run.complete), None)
    if newest is None:
        raise InputError("the history has no complete run", fix="add one: ciguard history add")
    listed = age.listed_on_base(known, newest)
    for path in paths:
        listed |= age.listed_cases(_read_records(invocation.folder / path, None))
    branch = branch or newest.branch or "the base"
    green = age.age_of_green(known, branch, listed, newest.at, days)
    if format_ == "json":
        console.out(json.dumps({"schema": 1, **asdict(green)}))
    else:
        console.out(as_format(age.document(green), format_).rstrip("\n"))
    return ExitCode.OK


def _result_files(
    invocation: Invocation, sources: Sources, plan: Plan | None
) -> tuple[tuple[ResultFile, ...], int | None]:
    """Return the result files; the second value is the id of the run that has them as artifacts."""
    if sources.run is None:
        return local.read_result_files(invocation.folder, sources.results), None
    with open_inputs(invocation, sources) as inputs:
        read_inputs = inputs.read_inputs
        if read_inputs.missing or read_inputs.problems:
            what = read_inputs.missing or read_inputs.problems[0]
            raise InputError(what, where=f"run {sources.run}", fix="check --results")
        run = inputs.subject_run
        assert run is not None
        assert run.source is not None
        files = _of_last_attempts(read_inputs.results, plan, run.source.jobs())
        return files, run.run_id


def _of_last_attempts(
    files: Sequence[ResultFile], plan: Plan | None, jobs: Sequence[Job]
) -> tuple[ResultFile, ...]:
    """Return each shard's newest files; none of a job whose last attempt left no files."""
    by_name = last_attempts(jobs)
    ran_last = {
        shard.key: by_name[shard.job][0].run_attempt
        for shard in (plan.shards if plan is not None else ())
        if shard.job in by_name
    }
    shard_of = shard_lookup(plan) if plan is not None else str
    # A history of result files does not distinguish the attempts of a job.
    return tuple(
        replace(file, attempt=None)
        for file in newest_attempts(files)
        if file.attempt is None or file.attempt >= ran_last.get(shard_of(file.shard) or "", 0)
    )


def _with_current_run(facts: RunMetadata, invocation: Invocation) -> RunMetadata:
    """Add the facts of the current run; in GitHub Actions, files without --run-id are of it."""
    run = current_run(invocation.environ)
    if run is None or facts.run_id not in (None, run.run_id):
        return facts
    return replace(
        facts,
        run_id=run.run_id,
        run_attempt=facts.run_attempt or run.run_attempt,
        sha=facts.sha or run.tested_sha,
        branch=facts.branch or run.branch,
        event=facts.event or run.event,
        at=facts.at or datetime.now(UTC),
    )


def _check_event(environ: Mapping[str, str]) -> None:
    """Refuse to write in a run of an unmerged change, or in a run that such a run triggered."""
    check_is_merged(environ.get("GITHUB_EVENT_NAME"), "this", "GITHUB_EVENT_NAME")
    if environ.get("GITHUB_EVENT_NAME") == "workflow_run" and (run := current_run(environ)):
        where = "GITHUB_EVENT_PATH: workflow_run.event"
        check_is_merged(run.triggering.event, "what this is about", where)


def _as_merged(
    invocation: Invocation, addition: History, sha: str | None, branch: str | None
) -> History:
    """Return the run of a merge group as a run of the checked-out branch, which contains it.

    Args:
        sha: head of the run as GitHub reports it, because a record may claim any commit.
    """
    run = current_run(invocation.environ)
    branch = branch or (run.base_branch if run is not None else None)
    if sha is None or branch is None or (run is not None and not run.is_base_branch):
        fix = "pass --sha and --branch, in GitHub Actions in a job of the default branch"
        raise UsageError("--merged without a commit or a base branch", fix=fix)
    if any((added.event, added.sha) != ("merge_group", sha) for added in addition.runs):
        raise InputError("not the run of a merge group", where=sha, fix="leave --merged out")
    files = CheckoutFiles(invocation.folder, invocation.environ, run)
    tip = Checkout(invocation.folder, invocation.environ).commit("HEAD")
    is_merged = files.ancestors_among(tip, [sha]).get(sha)
    if not (sha in files.known_ancestors(sha, tip) if is_merged is None else is_merged):
        fix = "add the run once it is merged; check out with `fetch-depth: 0`"
        raise InputError(f"not known to be in {branch} ({tip[:10]})", where=sha, fix=fix)
    runs = (replace(added, event=MERGED_GROUP, branch=branch) for added in addition.runs)
    return replace(addition, runs=tuple(runs))


def _check_runs(addition: History, paths: Sequence[str]) -> None:
    for run in addition.runs:
        check_is_merged(run.event, f"run {run.run_id}", " ".join(paths))


def _store_arguments(
    invocation: Invocation, location: str | None
) -> tuple[str, Path, Mapping[str, str]]:
    location = location if location is not None else invocation.config().history.store
    return location, invocation.folder, invocation.environ


def _branch(invocation: Invocation, name: str | None) -> BranchStore:
    if name is None:
        word, _, rest = invocation.config().history.store.partition(":")
        name = rest if word == "branch" else branch_store.DEFAULT
    return BranchStore(name, invocation.folder, invocation.environ)


def _add(store: HistoryStore, addition: History, read: int = 0) -> int:
    """Add runs to a store and print the result, with the number of values that were read."""
    result = update(store, addition)
    if result.tries > 1:
        console.err(f"other writers changed the history: added at try {result.tries}")
    if result.dropped_metrics:
        dropped = count_of(result.dropped_metrics, "older metric")
        console.err(
            f"warning: {dropped} dropped from the history, "
            f"which keeps {MAX_SERIES} of different name, unit or key"
        )
    read = read or len(addition.values)
    values = f"{count_of(read, 'value')} of {count_of(len(addition.runs), 'run')}"
    joined = result.values_before + read - len(result.history.values)
    others = f", {joined:,} replaced others" if joined > 0 else ""
    what = f"{values} added{others}" if result.changed else f"nothing new in {values}"
    console.out(f"{store.location}: {what}; {contents(result.history, result.size_bytes)}")
    return ExitCode.OK


def _load_known(invocation: Invocation, location: str | None) -> tuple[History, int]:
    store = open_store(*_store_arguments(invocation, location))
    loaded = load(store)
    if not loaded.exists:
        raise _nothing_yet(store)
    return loaded.history, loaded.size_bytes


def _nothing_yet(store: ReadableStore) -> InputError:
    fix = "add a run first (ciguard history add RECORDS), or name the history with --history"
    return InputError("there is no history yet", where=store.location, fix=fix)


def _read(path: Path, facts: RunMetadata, plan: Plan | None, budget: UnpackBudget) -> History:
    """Read a file of another program as a history."""
    if plan is not None:
        what = "a result file does not name its shard, so --plan cannot be applied to it"
        fix = "pass --results 'FOLDER/{shard}/**/*.xml' instead of files, or leave --plan out"
        raise UsageError(what, where=str(path), fix=fix)
    with local.opened(path) as stream:
        is_archive = stream.read(len(SIGNATURE)) == SIGNATURE
        stream.seek(0)
        if not is_archive:
            return _from_result_file(gunzip(stream, str(path), budget), str(path), facts)
        histories = (
            _from_result_file(gunzip(BytesIO(content), name, budget), name, facts)
            for name, content in result_members(str(path), stream.read())
        )
        return reduce(merge, histories)


def _is_record(path: Path) -> bool:
    return local.is_directory(path) or path.suffix == ".jsonl"


def _read_records(path: Path, logs: ProcessLogs | None) -> tuple[Record, ...]:
    records = local.read_record_tree(path, logs)
    if not records:
        fix = "name the folder of a record; other formats are named file by file"
        raise InputError("no record (*.jsonl) in it", where=str(path), fix=fix)
    return records


def _of_records(
    records: Sequence[Record], facts: RunMetadata, plan: Plan | None, keep: Sequence[str] = ()
) -> History:
    for damage in (damage for record in records for damage in record.damage):
        console.err(f"warning: {damage}")
    lines = (line for record in records for line in record.metrics)
    if (series := len(series_of(lines, keep, 0, 0))) > MAX_SERIES:
        what = f"{series:,} metrics of different name, unit or key match [metrics] keep"
        console.err(f"warning: {what}: {series - MAX_SERIES:,} of them are not kept")
    return history_of(records, facts, plan, keep)


def _from_planned_shards(
    files: Sequence[ResultFile], patterns: Sequence[str], facts: RunMetadata, plan: Plan
) -> History:
    """Make a history of the result files of a plan's shards; a shard without a file is lost."""
    where = f"--results {patterns[0]}"
    shard_files = records_from_files(plan, files)
    for key, paths in shard_files.unknown_shards.items():
        what = f"shard {key!r:.200} is not in the plan"
        keys = ", ".join(shard.key for shard in plan.shards)
        raise InputError(what, where=paths[0], fix=f"its shards are {one_line(keys, 300)}")
    if not shard_files.records:
        raise InputError("no file has such a name", where=where, fix="check the pattern")
    # A plan may be older than the run, and a result file names no commit.
    records = []
    for record in shard_files.records:
        head_sha = facts.sha or record.identity.head_sha
        records.append(replace(record, header=replace(record.identity, head_sha=head_sha)))
    return _of_records(records, facts, plan)


def _from_results(
    plan: Plan, records: Sequence[Record], facts: RunMetadata, expected: int | None
) -> History:
    """Make a history of the result files of a run without a plan.

    Raises:
        InputError: the number of artifacts with results is not the expected one.
    """
    if not records or expected not in (None, len(records)):
        number = f"{expected} expected " if expected is not None else ""
        what = f"{len(records)} of {number}artifacts have results"
        raise InputError(what, where="--results", fix="add the run once its jobs uploaded them")
    return _of_records(records, facts, plan)


def _from_result_file(stream: IO[bytes], source: str, facts: RunMetadata) -> History:
    history, untimed = history_of_file(stream, source, facts)
    if untimed:
        what = f"{count_of(untimed, 'case')} that passed have no time that can be used"
        console.err(f"warning: {source}: {what}")
    return history


_COLUMNS: Final = (
    Column("run", "right"),
    Column("at (UTC)"),
    Column("branch", drop=2),
    Column("event", drop=3),
    Column("sha", drop=1),
    Column("complete", "right"),
    Column("lost", "right"),
    Column("values", "right"),
)


def document(history: History, size_bytes: int) -> tuple[Block, ...]:
    """Return the table of runs, and the size of the history."""
    counts = np.bincount(history.values.run, minlength=len(history.runs)).tolist()
    rows = tuple(
        (
            f"{run.run_id}" + (f"/{run.run_attempt}" if run.run_attempt > 1 else ""),
            "-" if run.at == UNDATED else f"{run.at:%Y-%m-%d %H:%M}",
            run.branch or "-",
            run.event or "-",
            (run.sha or "-")[:7],
            f"{sum(leg.complete for leg in run.legs)}/{len(run.legs)}",
            f"{sum(len(leg.lost_units) for leg in run.legs):,}",
            f"{count:,}",
        )
        for run, count in zip(history.runs, counts, strict=True)
    )
    return Table(_COLUMNS, rows, noun="run"), Paragraph(contents(history, size_bytes))


def contents(history: History, size_bytes: int) -> str:
    """Return the numbers of runs, cases and values, and the size of the file."""
    counts = (
        count_of(len(history.runs), "run"),
        count_of(len(history.keys), "case"),
        count_of(len(history.values), "value"),
        *([count_of(len(history.metrics), "metric")] if history.metrics else []),
    )
    return f"{', '.join(counts)} ({size(size_bytes)})"


def incomplete_run(run: HistoryRun) -> str:
    """Return a sentence with the lost shards of a run and the number of their tests."""
    lost = [leg for leg in run.legs if not leg.complete]
    names = one_line(", ".join(leg.shard or leg.job or "-" for leg in lost), 300)
    units = count_of(sum(len(leg.lost_units) for leg in lost), "test")
    of_all = f"{len(lost):,} of {count_of(len(run.legs), 'shard')}"
    return f"run {run.run_id} is incomplete: {of_all} and {units} lost: {names}"
