"""The judgement of a run for `ciguard report` and the service: guard, compare, one report.

The module reads no environment, checkout or folder: `RunContext` has these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

from ciguard.compare.baseline_selection import ancestry_of, base_commit
from ciguard.compare.compare_runs import Context, compare_run
from ciguard.compare.comparison import Comparison, Note, exit_code
from ciguard.compare.confirmation import Confirmation, apply_confirmation, read_confirmation
from ciguard.compare.run_columns import Run, runs_from_records
from ciguard.config.file import metric_directions
from ciguard.config.suites import HOSTED
from ciguard.errors import CiguardError, RemoteError
from ciguard.github.client import GitHub
from ciguard.github.events import ActionsRun
from ciguard.guard.evaluation import Evaluation, EvaluationOptions, PastRuns, evaluate
from ciguard.guard.github_facts import NeededJob
from ciguard.guard.policy import RunContext, base_query
from ciguard.history.age import AgeOfGreen, age_of_green, listed_cases
from ciguard.history.file import History
from ciguard.model import Plan, Record
from ciguard.model.moved_units import find_moved_blocks, with_moved_units
from ciguard.model.record import newest_by_shard
from ciguard.render.links import NO_LINKS, Links
from ciguard.report.runner_sizing import RunnerUse, runner_uses
from ciguard.report.view import Report, ReportData, excuses_of, links_of_run
from ciguard.sources.inputs import RunInputs, SubjectRun
from ciguard.sources.previous_run import load_previous_run
from ciguard.sources.repository_files import RepositoryFiles

GitHubOpener = Callable[[], AbstractContextManager[GitHub]]

MAX_COUNTED: Final = 3  # first bad commits; each may need a call of GitHub
MAX_LISTED: Final = 101  # commits; GitHub lists 100 and the old one, of more also the new one


def judge(
    context: RunContext,
    inputs: RunInputs,
    past_runs: PastRuns,
    options: EvaluationOptions,
    *,
    jobs: tuple[NeededJob, ...] | None = None,
    confirmation: Confirmation | None = None,
    open_github: GitHubOpener | None = None,
) -> Report:
    """Judge the run, compare it with its history, and return one report of both.

    Args:
        jobs: results of the needed jobs by GitHub's `needs`; None if they are unknown.
        confirmation: result of running the suspects again; None: the one that the run uploaded.
        open_github: opens a client that reads the values of the pull request's previous run; None
            without a token.

    Raises:
        CiguardError: the run cannot be judged.
    """
    evaluation = evaluate(context, inputs, jobs, past_runs, options)
    note: Note | None = None
    if confirmation is None:
        confirmation, note = _uploaded_confirmation(context, inputs.subject_run)
    comparison, why_not = _compare(context, past_runs, open_github, evaluation)
    if comparison is not None and confirmation is not None:
        comparison = apply_confirmation(comparison, confirmation)
    if comparison is not None and note:
        comparison = replace(comparison, notes=(*comparison.notes, note))
    code = int(evaluation.verdict.exit_code)
    if not code and comparison is not None:
        code = exit_code(comparison, evaluation.policy.fail_on)
    contents = ReportData(
        evaluation.plan,
        evaluation.verdict,
        comparison,
        why_not,
        links=_links(context.run, inputs.subject_run, evaluation),
        policy=evaluation.policy,
        from_fork=context.is_from_fork,
        records=evaluation.records,
        platform=evaluation.platform,
        runners=_runners(context, past_runs, evaluation),
        age=_age(context.run, past_runs, evaluation),
    )
    return Report(contents, code)


def _runners(
    context: RunContext, past_runs: PastRuns, evaluation: Evaluation
) -> tuple[RunnerUse, ...]:
    """Return the use of the runners by the last runs, in the report of a run of the base branch."""
    history = past_runs.loaded.history if context.is_of_base else None
    if history is None:
        return ()
    return runner_uses(history, base_query(context.run), evaluation.plan, HOSTED, context.today)


def records_of_plan(plan: Plan, records: Sequence[Record]) -> list[Record]:
    """Return the records of the legs of a plan; a run may hold other records."""
    return [record for record in records if record.header and record.header.plan_id == plan.id]


def _links(run: ActionsRun | None, named: SubjectRun | None, evaluation: Evaluation) -> Links:
    """Return the links of the judged run: the named run, otherwise the run of this job."""
    subject = run.subject_run if run is not None else None
    known = evaluation.platform.jobs if evaluation.platform is not None else {}
    jobs = {shard: job.url for shard, job in known.items()}
    if named is not None and named.page and (subject is None or subject[0] != named.run_id):
        return Links(named.page, named.run_id, named.run_attempt, jobs=jobs)
    return links_of_run(run, jobs, evaluation.plan.suites) if run is not None else NO_LINKS


def _compare(
    context: RunContext,
    past_runs: PastRuns,
    open_github: GitHubOpener | None,
    evaluation: Evaluation,
) -> tuple[Comparison | None, str]:
    """Compare the run with the history; otherwise return None and the reason."""
    if evaluation.plan.drill is not None:
        return None, "it is a drill"
    run = context.run
    records = records_of_plan(evaluation.plan, evaluation.records)
    if not records:
        return None, "no shard left a record"
    history, problem = past_runs.loaded.history, past_runs.loaded.problem
    if history is None:
        return None, "" if past_runs.loaded.is_new else problem
    candidates = runs_from_records(records, "this run")
    head = candidates[-1]
    newest = newest_by_shard(records)
    plan = with_moved_units(evaluation.plan, find_moved_blocks(evaluation.plan, newest), newest)
    comparison_context = _comparison_context(context, head, history, evaluation)
    previous = candidates[-2] if len(candidates) > 1 else None
    compared = compare_run(head, history, previous=previous, plan=plan, context=comparison_context)
    if previous is None and run is not None and compared.can_be_confirmed:
        earlier, note = _previous_run(context, run, open_github)
        if earlier is not None:
            compared = compare_run(
                head, history, previous=earlier, plan=plan, context=comparison_context
            )
        compared = replace(compared, notes=(*compared.notes, note)) if note else compared
    if past_runs.loaded.is_new and compared.base is not None:
        compared = replace(compared, base=replace(compared.base, in_history=False))
    return _with_commits(compared, base_commit(head), context.files), ""


def _with_commits(compared: Comparison, commit: str | None, files: RepositoryFiles) -> Comparison:
    """Count the commits from the first bad ones of the base to the judged base."""
    red = [
        case.answer.red_since.sha if case.answer and case.answer.red_since else None
        for case in compared.transitions
    ]
    known = [sha for sha in dict.fromkeys(red) if sha is not None][:MAX_COUNTED] if commit else []
    counts = {sha: count_commits(files, sha, commit or "") for sha in known}
    cases = (
        replace(case, answer=replace(case.answer, commits=counts[sha]))
        if case.answer and sha in counts
        else case
        for case, sha in zip(compared.transitions, red, strict=True)
    )
    return replace(compared, transitions=tuple(cases))


def count_commits(files: RepositoryFiles, old: str, new: str) -> int | None:
    """Return the number of commits after `old` up to `new`; None if unknown or over 100."""
    try:
        listed = files.known_ancestors(old, new)
    except RemoteError:
        return None
    return len(listed) - 1 if old in listed and len(listed) <= MAX_LISTED else None


def _age(run: ActionsRun | None, past_runs: PastRuns, evaluation: Evaluation) -> AgeOfGreen | None:
    """Return the age of a run of the base branch or of a proposal; None without past runs."""
    records = records_of_plan(evaluation.plan, evaluation.records)
    starts = [record.started_at for record in records if record.started_at is not None]
    history = past_runs.loaded.history if starts else None
    branch = run.base_branch if run is not None and not run.is_subject_unmerged else None
    if run is None or history is None or branch not in {None, run.subject_branch}:
        return None
    return age_of_green(history, branch, listed_cases(records), min(starts))


def _comparison_context(
    context: RunContext, head: Run, history: History, evaluation: Evaluation
) -> Context:
    commits = [run.sha for run in history.runs if run.sha]
    prices = {name: pool.usd_per_minute for name, pool in evaluation.plan.pools.items()}
    files = context.files
    return Context(
        branch=context.run.base_branch if context.run is not None else None,
        lineage=ancestry_of(
            base_commit(head), commits, files.ancestors_among, files.known_ancestors
        ),
        prices={name: price for name, price in prices.items() if price is not None},
        excused=excuses_of(evaluation.verdict),
        directions=metric_directions(context.config),
    )


def _previous_run(
    context: RunContext, run: ActionsRun, open_github: GitHubOpener | None
) -> tuple[Run | None, Note | None]:
    """Return the previous run of this pull request, which may confirm changes, or the reason."""
    subject_run_id = run.triggering.id or run.run_id
    if subject_run_id is None or open_github is None:
        return None, None
    try:
        with open_github() as github:
            previous = load_previous_run(github, run, subject_run_id)
    except CiguardError as error:
        context.warn(f"the run before this one: {error}")
        return None, Note("no_previous_run", detail=error.what)
    if previous is None:
        return None, None
    runs = runs_from_records(previous.records, f"run {previous.run_id}")
    return (runs[-1] if runs else None), None


def _uploaded_confirmation(
    context: RunContext, subject_run: SubjectRun | None
) -> tuple[Confirmation | None, Note | None]:
    """Return the confirmation that a named run uploaded, with a note on its origin or problem.

    The confirmation is the run's own claim, as its records are: both could be forged together.
    """
    if subject_run is None or subject_run.artifacts is None:
        return None, None
    try:
        uploaded = subject_run.artifacts.confirmation()
        if uploaded is None:
            return None, None
        return read_confirmation(*uploaded), Note("confirmation_by_judged_run")
    except CiguardError as error:
        context.warn(str(error))
        return None, Note("confirmation_unreadable", detail=error.what)
