"""Judges one run, as `ciguard report` and the service do: guard, compare, and one report of both.

Nothing here knows an environment, a checkout or a folder: `RunContext` has them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ciguard.compare.baseline_selection import ancestry_of, base_commit
from ciguard.compare.compare_runs import Context, compare_run
from ciguard.compare.comparison import Comparison, Note, exit_code
from ciguard.compare.confirmation import Confirmation, apply_confirmation, read_confirmation
from ciguard.compare.run_columns import Run, runs_from_records
from ciguard.config.file import metric_directions
from ciguard.errors import CiguardError, ExitCode, InputError
from ciguard.guard.evaluation import Evaluation, EvaluationOptions, PastRuns, evaluate
from ciguard.model.moved_units import find_moved_blocks, with_moved_units
from ciguard.model.record import newest_by_shard
from ciguard.render.links import NO_LINKS, Links
from ciguard.report.view import Report, ReportData, excuses_of, links_of_run
from ciguard.sources.previous_run import load_previous_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ciguard.github.client import GitHub
    from ciguard.github.events import ActionsRun
    from ciguard.guard.github_facts import NeededJob
    from ciguard.guard.policy import RunContext
    from ciguard.history.file import History
    from ciguard.model import Plan, Record
    from ciguard.sources.inputs import RunInputs, SubjectRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """A run to judge, and the means of the judgement.

    Attributes:
        jobs: what the needed jobs came to, by GitHub's `needs`; None where they are unknown.
        past: the history.
        options: of the guard.
        confirmation: of the suspects; None for what the judged run uploaded itself.
        open_github: opens a client for the values of the pull request's run before; None without
            a token.
    """

    inputs: RunInputs
    jobs: tuple[NeededJob, ...] | None
    past: PastRuns
    options: EvaluationOptions
    confirmation: Confirmation | None = None
    open_github: Callable[[], AbstractContextManager[GitHub]] | None = None


def judge(context: RunContext, judging: Judging) -> Report:
    """Prove the run, compare it with its history, and make one report of both.

    Raises:
        CiguardError: it cannot be judged.
    """
    inputs = judging.inputs
    found = evaluate(context, inputs, judging.jobs, judging.past, judging.options)
    confirmed, note = judging.confirmation, None
    if confirmed is None:
        confirmed, note = _uploaded_confirmation(context, inputs.subject_run)
    comparison, why = _compare(context, judging, found)
    if comparison is not None and confirmed is not None:
        comparison = apply_confirmation(comparison, confirmed)
    if comparison is not None and note:
        comparison = replace(comparison, notes=(*comparison.notes, note))
    code = int(found.verdict.exit_code)
    if not code and comparison is not None:
        code = exit_code(comparison, found.policy.fail_on)
    contents = ReportData(
        found.plan,
        found.verdict,
        comparison,
        why,
        links=_site(context.run, inputs.subject_run, found),
        policy=found.policy,
        from_fork=context.is_from_fork,
        records=found.records,
        platform=found.platform,
    )
    return Report(contents, code)


def report_without_plan(error: InputError, jobs: Sequence[NeededJob] = ()) -> Report:
    """The report of a run whose plan is not there, as where the job that plans failed."""
    return Report(None, ExitCode.INCOMPLETE, describe_error(error, jobs))


def describe_error(error: CiguardError, jobs: Sequence[NeededJob] = ()) -> str:
    """An error as a sentence of a comment, with what the jobs before came to."""
    where = f"{error.where}: " if error.where else ""
    bad = ", ".join(f"job {job.name} is {job.result!r}" for job in jobs if job.result != "success")
    parts = [f"{where}{error.what}", bad, f"Fix: {error.fix}" if error.fix else ""]
    return ". ".join(part for part in parts if part) + "."


def records_of_plan(plan: Plan, records: Sequence[Record]) -> list[Record]:
    """The records of the legs of a plan; a run may hold others."""
    return [one for one in records if one.header is not None and one.header.plan_id == plan.id]


def _site(run: ActionsRun | None, named: SubjectRun | None, found: Evaluation) -> Links:
    """Return the links of the judged run: of the one that was named, else of this job's run."""
    subject = run.subject_run if run is not None else None
    jobs = found.platform.job_pages if found.platform is not None else {}
    if named is not None and named.page and (subject is None or subject[0] != named.run_id):
        return Links(named.page, named.run_id, named.run_attempt, jobs=jobs)
    return links_of_run(run, jobs, found.plan.suites) if run is not None else NO_LINKS


def _compare(
    context: RunContext, judging: Judging, found: Evaluation
) -> tuple[Comparison | None, str]:
    """Against the history; else None and why."""
    run = context.run
    records = records_of_plan(found.plan, found.records)
    if not records:
        return None, "no leg left a record"
    history, problem = judging.past.loaded.history, judging.past.loaded.problem
    if history is None:
        return None, problem
    candidates = runs_from_records(records, "this run")
    head = candidates[-1]
    newest = newest_by_shard(records)
    plan = with_moved_units(found.plan, find_moved_blocks(found.plan, newest), newest)
    comparing = _comparison_context(context, head, history, found)
    previous = candidates[-2] if len(candidates) > 1 else None
    compared = compare_run(head, history, previous=previous, plan=plan, context=comparing)
    if previous is not None or run is None or not compared.can_be_confirmed:
        return compared, ""
    earlier, note = _previous_run(context, run, judging)
    if earlier is not None:
        compared = compare_run(head, history, previous=earlier, plan=plan, context=comparing)
    return (replace(compared, notes=(*compared.notes, note)) if note else compared), ""


def _comparison_context(
    context: RunContext, head: Run, history: History, found: Evaluation
) -> Context:
    commits = [one.sha for one in history.runs if one.sha]
    prices = {name: pool.usd_per_minute for name, pool in found.plan.pools.items()}
    files = context.files
    return Context(
        branch=context.run.base_branch if context.run is not None else None,
        lineage=ancestry_of(
            base_commit(head), commits, files.ancestors_among, files.known_ancestors
        ),
        prices={name: price for name, price in prices.items() if price is not None},
        excused=excuses_of(found.verdict),
        directions=metric_directions(context.config),
    )


def _previous_run(
    context: RunContext, run: ActionsRun, judging: Judging
) -> tuple[Run | None, Note | None]:
    """The run of this pull request before this one, which may confirm it; else why not."""
    subject_run_id = run.triggering.id or run.run_id
    if subject_run_id is None or judging.open_github is None:
        return None, None
    try:
        with judging.open_github() as github:
            found = load_previous_run(github, run, subject_run_id)
    except CiguardError as error:
        context.warn(f"the run before this one: {error}")
        return None, Note("no_previous_run", detail=error.what)
    if found is None:
        return None, None
    runs = runs_from_records(found.records, f"run {found.run_id}")
    return (runs[-1] if runs else None), None


def _uploaded_confirmation(
    context: RunContext, subject_run: SubjectRun | None
) -> tuple[Confirmation | None, Note | None]:
    """What a run that is named ran again by itself, and whose word that is; else why not.

    It is as much its own claim as its records are: who made those up could make up this.
    """
    if subject_run is None or subject_run.artifacts is None:
        return None, None
    try:
        found = subject_run.artifacts.confirmation()
        if found is None:
            return None, None
        return read_confirmation(*found), Note("confirmation_by_judged_run")
    except CiguardError as error:
        context.warn(str(error))
        return None, Note("confirmation_unreadable", detail=error.what)
