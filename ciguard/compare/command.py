"""The command `ciguard compare`: find two runs and their history, compare the runs and print."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import click

from ciguard import console
from ciguard.codec.quarantine import FILE as QUARANTINE
from ciguard.compare.baseline_selection import (
    ancestry_of,
    base_commit,
    find_in_history,
    join_by_name,
    newest_run_of_branch,
)
from ciguard.compare.compare_runs import Context, compare_run
from ciguard.compare.comparison import AnyComparison, Comparison, exit_code, moved_notes, with_state
from ciguard.compare.jobs import (
    JobsComparison,
    compare_jobs_only,
    pair_jobs,
    run_of_jobs,
    with_job_endings,
)
from ciguard.compare.json import jobs_json_text, json_text, logs_json_text
from ciguard.compare.log_comparison import LogComparison
from ciguard.compare.log_inputs import Rules, are_logs, compare_log_inputs, compare_run_logs
from ciguard.compare.log_view import logs_document
from ciguard.compare.run_columns import Run, runs_from_records
from ciguard.compare.steps_and_artifacts import compare_artifacts, compare_steps
from ciguard.compare.transitions import Excuse, quarantined
from ciguard.compare.view import document, jobs_document
from ciguard.config.invocation import Invocation
from ciguard.config.options import HISTORY, OUTPUT, RESULTS, format_option, repo_option
from ciguard.document import Block
from ciguard.errors import InputError, RemoteError, UsageError
from ciguard.guard.log_patterns import first_match
from ciguard.history.file import History
from ciguard.logs.pattern import LogPattern
from ciguard.logs.pattern_table import PATTERNS, Direction, directions
from ciguard.logs.process_logs import ProcessLogs
from ciguard.model import FAIL_CONDITIONS, CaseKey, Record
from ciguard.model.jobs import Job
from ciguard.model.record import drill_of
from ciguard.render.formats import as_format
from ciguard.render.plaintext import as_text
from ciguard.sources import local
from ciguard.sources.record_finder import FoundRecords, RecordFinder
from ciguard.sources.references import (
    Base,
    Branch,
    CurrentRun,
    PathReference,
    Reference,
    RunId,
    parse,
)
from ciguard.sources.repository_files import CheckoutFiles

CONFIGURED: Final = ("ciguard.toml", "pyproject.toml")
STORE_VARIABLE: Final = "CIGUARD_HISTORY_STORE"
WITHOUT_HISTORY: Final = "the two runs are compared without past runs"


# For each kind of comparison: noun of its inputs, function to its blocks, function to its JSON.
_OUTPUTS: Final[Mapping[type, tuple[str, Callable[..., tuple[Block, ...]], Callable[..., str]]]] = {
    Comparison: ("runs", document, json_text),
    JobsComparison: ("runs without records", jobs_document, jobs_json_text),
    LogComparison: ("logs", logs_document, logs_json_text),
}


def _rendered(format_: str, comparison: AnyComparison) -> str:
    _, blocks, as_json = _OUTPUTS[type(comparison)]
    if format_ == "json":
        return as_json(comparison)
    return as_format(blocks(comparison), format_, full_text_location="the JSON and the HTML page")


FORMATS: Final[Mapping[str, Callable[[AnyComparison], str]]] = {
    name: partial(_rendered, name) for name in ("text", "markdown", "json", "html")
}


@click.command()
@click.argument("base")
@click.argument("head")
@HISTORY
@repo_option("repository", default=None)
@RESULTS
@format_option(*FORMATS)
@OUTPUT
@click.option(
    "--fail-on",
    metavar="NAME,...",
    default="",
    help=f"Findings that fail: {', '.join(FAIL_CONDITIONS)}.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="End with 12 if memory or durations could not be judged.",
)
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    base: str,
    head: str,
    history: str | None,
    repository: str | None,
    results: tuple[str, ...],
    format_: str,
    output: str | None,
    fail_on: str,
    strict: bool,
) -> int:
    """Compare two runs.

    \b
    BASE and HEAD each name a run:
      123456, 123456/2  run on GitHub, or one of its attempts
      URL               address of a run or a job on GitHub
      FOLDER, FILE      records, result files ('out/*.xml') or text logs
      branch:NAME       newest finished run of a branch
      this              current workflow run
      base              newest suitable run of the base branch

    The command ends with 0, unless --fail-on or --strict selects a finding.
    """
    conditions = _fail_on(fail_on)
    comparison: AnyComparison
    if are_logs(invocation.folder, (base, head)):
        unused = {"--results": "".join(results[:1]), "--history": history or ""}
        comparison = _compare_logs(invocation, (base, head), unused)
    else:
        lookup = RecordFinder(
            invocation.environ,
            invocation.folder,
            repository,
            results,
            lambda: ProcessLogs(_log_patterns(invocation)),
        )
        past = (
            _history(invocation, history)
            if history is not None
            else _configured_history(invocation)
        )
        comparison = _compare(invocation, (base, head), past, lookup, results)
    answer = FORMATS[format_](comparison)
    noun, blocks, _ = _OUTPUTS[type(comparison)]
    if output is None or output == "-":
        console.out(answer)
    else:
        local.write(invocation.folder / output, answer.encode("utf-8", "backslashreplace"))
        console.out(as_text(blocks(comparison)[:1]))
    if unknown := sorted(conditions - {*comparison.conditions_met}):
        console.err(f"warning: --fail-on {','.join(unknown)}: unknown for {noun}")
    return exit_code(comparison, conditions, strict=strict)


def _compare_logs(
    invocation: Invocation, names: tuple[str, str], unused: Mapping[str, str]
) -> LogComparison:
    for option, value in unused.items():
        if value:
            fix = f"leave {option} out"
            raise UsageError("not used for logs", where=f"{option} {value}", fix=fix)
    finder = RecordFinder(invocation.environ, invocation.folder, None)
    return compare_log_inputs(invocation.folder, names, _log_rules(invocation), finder)


def _log_patterns(invocation: Invocation) -> tuple[LogPattern, ...]:
    if not _has_configuration(invocation):
        return PATTERNS
    from ciguard.config.file import log_patterns  # noqa: PLC0415 - it imports pydantic

    return log_patterns(invocation.config())


def _log_rules(invocation: Invocation) -> Rules:
    """Return the patterns of values in logs, and the rules by which these values are judged."""
    table, (known, _) = _log_patterns(invocation), _configured_facts(invocation)
    return table, {name: known[name] for name in directions(table)}


def _configured_facts(
    invocation: Invocation,
) -> tuple[Mapping[str, Direction], Mapping[str, float]]:
    """Return the better direction of each metric, and the price of a minute in each pool."""
    if not _has_configuration(invocation):
        return directions(), {}
    # Imported here: a folder without configuration does not need pydantic (0.1 s).
    from ciguard.config.file import metric_directions  # noqa: PLC0415
    from ciguard.config.suites import prices_of  # noqa: PLC0415

    config = invocation.config()
    return metric_directions(config), prices_of(config)


def _fail_on(text: str) -> frozenset[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word not in FAIL_CONDITIONS]
    if unknown:
        what = f"no such finding: {', '.join(unknown)}"
        raise UsageError(what, where="--fail-on", fix=f"there are {', '.join(FAIL_CONDITIONS)}")
    return frozenset(words)


def _history(invocation: Invocation, location: str) -> History | None:
    # Imported here: a comparison without a history needs no store.
    from ciguard.history.stores import load, open_store  # noqa: PLC0415

    loaded = load(open_store(location, invocation.folder, invocation.environ))
    if not loaded.exists:
        console.err(f"warning: {location}: there is no history yet")
    return loaded.history if loaded.exists else None


def _configured_history(invocation: Invocation) -> History | None:
    """Return the configured history; print a note and return None if it cannot be read."""
    if not (_has_configuration(invocation) or invocation.environ.get(STORE_VARIABLE)):
        return None
    from ciguard.history.stores import load_or_explain  # noqa: PLC0415

    config = invocation.config()
    if not config.model_fields_set and not (invocation.folder / CONFIGURED[0]).exists():
        return None  # pyproject.toml has no section of ciguard
    loaded = load_or_explain(
        config.history.store, invocation.folder, invocation.environ, WITHOUT_HISTORY
    )
    if loaded.problem:
        console.err(f"note: {loaded.problem}")
    return loaded.history


def _has_configuration(invocation: Invocation) -> bool:
    return any((invocation.folder / name).exists() for name in CONFIGURED)


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs that an argument names, oldest first; empty for `base`, a run of the history."""

    runs: tuple[Run, ...]
    recorded: FoundRecords = field(default_factory=lambda: FoundRecords(()))


def _compare(
    invocation: Invocation,
    arguments: tuple[str, str],
    history: History | None,
    lookup: RecordFinder,
    results: tuple[str, ...],
) -> Comparison | JobsComparison:
    resolver = _Resolver(lookup, history)
    references = [
        parse(word, side, lookup.exists)
        for word, side in zip(arguments, ("BASE", "HEAD"), strict=True)
    ]
    if isinstance(references[1], Base):
        fix = "name a run, a folder of records, or `this`"
        raise UsageError("base cannot be the candidate", where="HEAD: base", fix=fix)
    head = resolver.resolve(references[1], arguments[1], "HEAD")
    newest = head.runs[-1] if head.runs else None
    base = resolver.resolve(references[0], arguments[0], "BASE", newest)
    if results and base.recorded.run_id is None and head.recorded.run_id is None:
        fix = "name a run of GitHub by its id, or name result files as BASE and HEAD"
        raise UsageError("no artifacts of a run are read", where=f"--results {results[0]}", fix=fix)
    for side, argument in zip((base, head), arguments, strict=True):
        if drill := drill_of(side.recorded.records):
            raise InputError(f"is a drill ({drill})", where=argument, fix="name another run")
        for problem in (*side.recorded.problems, *side.recorded.damages()):
            prefix = "" if argument in problem else f"{argument}: "
            console.err(f"warning: {prefix}{problem}")
    if base.recorded.has_only_jobs or head.recorded.has_only_jobs:
        return _compare_jobs(invocation, lookup, base.recorded, head.recorded, arguments)
    bases, heads = _join_names(base, head, history, arguments)
    old, new = base.recorded, head.recorded
    context = _context(invocation, lookup, heads[-1], history, (old, new))
    previous = heads[-2] if len(heads) > 1 else None
    comparison = compare_run(heads[-1], history, bases, previous=previous, context=context)
    commits = {sha for run in (*bases[-1:], heads[-1]) for sha in (run.sha, run.head_sha) if sha}
    logs = _compare_run_logs(invocation, lookup, (old, new), arguments, commits)
    if logs is not None:
        facts = replace(comparison, log_doubts=logs.doubts, log_missing=logs.missing)
        comparison = with_state(replace(facts, log_failures=logs.failures))
    return replace(
        comparison,
        notes=(*comparison.notes, *moved_notes(new.records)),
        steps=compare_steps(old.jobs, new.jobs, commits),
        artifacts=compare_artifacts(old.artifacts, new.artifacts, commits),
    )


def _compare_jobs(
    invocation: Invocation,
    lookup: RecordFinder,
    base: FoundRecords,
    head: FoundRecords,
    arguments: tuple[str, str],
) -> JobsComparison:
    """Compare the jobs of two runs without records.

    Raises:
        InputError: only one run has records, so that neither tests nor jobs can be compared.
    """
    for recorded, side, argument in zip((base, head), ("BASE", "HEAD"), arguments, strict=True):
        if not recorded.has_only_jobs:
            other = arguments[side == "BASE"]
            what = f"run {other} has no ciguard records to compare with"
            fix = "name the result files of both by --results, or compare the jobs of two such runs"
            raise InputError(what, where=f"{side}: {argument}", fix=fix)
    runs = (
        run_of_jobs(arguments[0], base.run_id, base.jobs),
        run_of_jobs(arguments[1], head.run_id, head.jobs),
    )
    logs = _compare_run_logs(invocation, lookup, (base, head), arguments)
    return compare_jobs_only(base.jobs, head.jobs, runs, (base.artifacts, head.artifacts), logs)


def _compare_run_logs(
    invocation: Invocation,
    lookup: RecordFinder,
    runs: tuple[FoundRecords, FoundRecords],
    names: tuple[str, str],
    commits: Collection[str] = (),
) -> LogComparison | None:
    """Compare the logs of two runs' jobs; warn and return None if GitHub refuses them."""
    pairs = pair_jobs(runs[0].jobs, runs[1].jobs, commits)
    try:
        return compare_run_logs(runs, names, pairs, _log_rules(invocation), lookup)
    except (InputError, RemoteError) as error:
        console.err(f"warning: the logs of the jobs are not compared: {error.what}")
        return None


def _with_ending(job: Job, annotations: Mapping[str, tuple[str, ...]]) -> Job:
    """Return the job with the reason of its cancellation, if an annotation names the reason."""
    match = first_match(annotations.get(job.name, ()))
    return replace(job, ending=match[0].ending) if match is not None else job


@dataclass(frozen=True, slots=True)
class _Resolver:
    lookup: RecordFinder
    history: History | None

    def resolve(
        self, reference: Reference, argument: str, side: str, head: Run | None = None
    ) -> _Runs:
        """Find the runs that an argument names.

        Args:
            head: the candidate, when its baseline is searched.
        """
        where = f"{side}: {argument}"
        if isinstance(reference, PathReference):
            return _read(self.lookup.on_disk(reference), argument)
        if isinstance(reference, RunId):
            return self._run(reference, argument, where)
        if isinstance(reference, CurrentRun):
            current = self.lookup.current(where)
            run_id = current.triggering.id or current.run_id or 0
            return _read(self.lookup.on_github(RunId(run_id), where), argument)
        if isinstance(reference, Branch):
            return self._newest(reference.name, argument, where, head)
        if self.history is not None:
            return _Runs(())
        current_run = self.lookup.current_run()
        branch = current_run.base_branch if current_run is not None else None
        if branch is None:
            what = "base is chosen from the history, and there is no history"
            fix = "pass --history FILE or branch:NAME, or name a run or branch:NAME of GitHub"
            raise UsageError(what, where=where, fix=fix)
        return self._newest(branch, argument, where, head)

    def _run(self, reference: RunId, argument: str, where: str) -> _Runs:
        # A run id is looked up in the history first; an address names the host that has the run.
        if self.history is not None and not reference.server:
            run = find_in_history(
                self.history, reference, argument, where, strict=not self.lookup.can_query_github
            )
            if run is not None:
                return _Runs((run,))
        if self.history is None and not reference.server and not self.lookup.can_query_github:
            what = "a run id needs a history or GitHub, and neither is there"
            fix = (
                "pass --history FILE or branch:NAME, or --repo OWNER/NAME with a GITHUB_TOKEN, or "
                "name a folder of records"
            )
            raise UsageError(what, where=where, fix=fix)
        return _read(self.lookup.on_github(reference, where), argument)

    def _newest(self, branch: str, argument: str, where: str, head: Run | None) -> _Runs:
        if self.history is not None:
            return _Runs((newest_run_of_branch(self.history, branch, head, argument, where),))
        return _read(self.lookup.on_github(self.lookup.newest_of(branch, where), where), argument)


def _read(recorded: FoundRecords, name: str) -> _Runs:
    """Return the runs of records.

    Raises:
        InputError: no record or result file could be read.
    """
    damages = [damage for record in recorded.records for damage in record.damage]
    # A record with a header counts as read: its job may have been killed at its start.
    usable = (
        record.results or (record.header and not recorded.from_result_files)
        for record in recorded.records
    )
    if damages and not any(usable):
        fix = "name a folder of records, or result files such as JUnit XML or TRX"
        raise InputError(damages[0], fix=fix)
    jobs = tuple(_with_ending(job, recorded.annotations) for job in recorded.jobs)
    recorded = replace(recorded, jobs=jobs)
    return _Runs(_runs(recorded, recorded.records, name), recorded)


def _runs(recorded: FoundRecords, records: tuple[Record, ...], name: str) -> tuple[Run, ...]:
    runs = runs_from_records(records, name)
    if not recorded.from_result_files:
        return runs
    return tuple(with_job_endings(run, recorded.jobs) for run in runs)


def _join_names(
    base: _Runs, head: _Runs, history: History | None, arguments: tuple[str, str]
) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    """Return both sides' runs; units of result files get the names of the other side or history."""
    joined = []
    for side, other, name in ((base, head, arguments[0]), (head, base, arguments[1])):
        if not side.recorded.from_result_files:
            joined.append(side.runs)
            continue
        records, note = join_by_name(
            side.recorded.records, () if other.recorded.from_result_files else other.runs, history
        )
        if note:
            console.err(f"{name}: {note}")
        joined.append(_runs(side.recorded, records, name))
    return joined[0], joined[1]


def _context(
    invocation: Invocation,
    lookup: RecordFinder,
    head: Run,
    history: History | None,
    recorded: tuple[FoundRecords, FoundRecords],
) -> Context:
    commits = [run.sha for run in history.runs if run.sha] if history is not None else []
    better, prices = _configured_facts(invocation)
    by_git = CheckoutFiles(invocation.folder, invocation.environ).ancestors_among
    return Context(
        lineage=ancestry_of(base_commit(head), commits, by_git, lookup.ancestor_query()),
        prices=prices,
        jobs_before=recorded[0].jobs,
        jobs_after=recorded[1].jobs,
        excused=_quarantined(invocation, head),
        directions=better,
    )


def _quarantined(invocation: Invocation, head: Run) -> Mapping[CaseKey, Excuse]:
    """Return the quarantined failures; none if the folder has no quarantine.toml."""
    if not (invocation.folder / QUARANTINE).is_file():
        return {}
    # Imported here: the module needs pydantic, which takes 0.1 s.
    from ciguard.guard.policy import context_of, quarantine_of  # noqa: PLC0415

    return quarantined(head, quarantine_of(context_of(invocation)).entries)
