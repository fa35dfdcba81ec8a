"""The judgement that guard, report and export share: options -> run, policy, GitHub -> verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial, wraps
from typing import TYPE_CHECKING, Any, Final

import click

from ciguard import console
from ciguard.codec import codeowners
from ciguard.codec.results.planned_shards import records_from_files
from ciguard.codec.results.unplanned import may_be_of_results, read_unplanned, units_with_variants
from ciguard.config.options import (
    EXPECT,
    HISTORY,
    RESULTS,
    RUN,
    TESTS,
    plan_option,
    records_option,
    repo_option,
)
from ciguard.errors import CiguardError, InputError, RemoteError
from ciguard.guard.annotations_and_outputs import annotations_of, outputs_of
from ciguard.guard.github_facts import (
    NeededJob,
    RunFacts,
    check_died_jobs,
    decode_needs,
    query_jobs,
    select_of_run,
)
from ciguard.guard.inventory_checks import (
    case_loss_findings,
    check_unplanned,
    find_case_losses,
    units_with_cases,
)
from ciguard.guard.limits import check_coverage
from ciguard.guard.policy import (
    Questions,
    RunContext,
    base_query,
    context_of,
    effective_policy,
    past_runs_location,
)
from ciguard.guard.prove import check_unknown_shards, check_unread_files, prove
from ciguard.guard.wording import LEFT_OUT, WITHOUT_HISTORY
from ciguard.model import Plan, Record, UnitKey, repository_path
from ciguard.model.listings import file_of_unit
from ciguard.sources import local
from ciguard.sources.inputs import RunInputs, Sources, SubjectRun
from ciguard.sources.repository_files import changed_files
from ciguard.text import annotation, one_line, step_outputs

if TYPE_CHECKING:
    from ciguard.codec.coverage_file import Coverage
    from ciguard.config.invocation import Invocation
    from ciguard.guard.record_selection import Selection
    from ciguard.guard.verdict import Finding, Policy, Verdict
    from ciguard.history.file import History
    from ciguard.history.stores import LoadedHistory

MAX_COMPARED: Final = 100  # files with lost cases; each may cost a request
_OPTIONS: Final = (
    plan_option(),
    records_option(),
    RUN,
    repo_option(),
    RESULTS,
    TESTS,
    EXPECT,
    click.option("--needs", metavar="JSON|FILE", help="Value of GitHub's `toJSON(needs)`."),
    click.option("--coverage", metavar="FILE", help="Output of `ciguard coverage`."),
    click.option(
        "--ignore-base-failures",
        is_flag=True,
        help="Ignore failures that the base branch has, too.",
    ),
    HISTORY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(Sources):
    """The options that name a run and its policy."""

    needs: str | None
    ignore_base_failures: bool
    history: str | None
    coverage: str | None = None

    def needed_jobs(self, invocation: Invocation) -> tuple[NeededJob, ...] | None:
        """Return the jobs that --needs lists; None without the option."""
        if self.needs is None:
            return None
        return decode_needs(*local.read_argument(invocation.folder, "--needs", self.needs))


def run_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of `RunOptions`, and their values as one argument."""

    @wraps(command)
    def with_options(**given: Any) -> int:
        named = {field.name: given.pop(field.name) for field in fields(RunOptions)}
        return command(RunOptions(**named), **given)

    for option in reversed(_OPTIONS):
        option(with_options)
    return with_options


class PastRuns:
    """The history, read once, on demand; an unreachable history does not stop the evaluation.

    Args:
        load: reads the history.
        location: location of the history that judges the run; "" if it has no name.
    """

    def __init__(self, load: Callable[[], LoadedHistory], location: str = "") -> None:
        self._load, self.location = load, location

    @cached_property
    def loaded(self) -> LoadedHistory:
        """The history, or the problem of reading it, which `load` reports."""
        return self._load()


def past_runs_of(
    invocation: Invocation,
    location: str | None,
    *,
    github: bool = False,
    instead: Callable[[], LoadedHistory] | None = None,
) -> PastRuns:
    """Return the history that a command reads, on demand.

    Args:
        location: location on the command line; None for the configured one, which the base
            configures for an unmerged run.
        github: show a problem as an annotation of the run.
        instead: reads past runs as long as there is no history.
    """

    context, refused = context_of(invocation), ""
    try:
        store = past_runs_location(context, location)
    except CiguardError as error:
        store, refused = context.config.history.store, str(error)

    def load() -> LoadedHistory:
        # Imported here: the module needs numpy, and most runs are guarded without a history.
        from ciguard.history.stores import LoadedHistory, load_or_explain  # noqa: PLC0415

        if refused:
            loaded = LoadedHistory(None, store, refused)
        else:
            folder, environ = invocation.folder, invocation.environ
            loaded = load_or_explain(store, folder, environ, WITHOUT_HISTORY)
        loaded = instead() if instead is not None and loaded.is_new else loaded
        if loaded.problem and github and not loaded.is_new:
            console.workflow_command(annotation("warning", loaded.problem, title="ciguard report"))
        elif loaded.problem:
            console.err(f"warning: {loaded.problem}")
        return loaded

    return PastRuns(load, store)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A verdict and its inputs.

    `plan` has the units that exist; `platform` is None if GitHub was not asked.
    """

    plan: Plan
    records: tuple[Record, ...]
    platform: RunFacts | None
    policy: Policy
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOptions:
    """The options of an evaluation.

    Attributes:
        ignore_base_failures: ignore tests that also fail on the base.
        from_results: the results are files of the user's own jobs.
        plan_path: path of the plan in the repository; "" if the plan is not one of its files.
        count: take the number of tests of the base from past runs, if the plan does not have it.
        expected: number of shards that need results, for a run without a plan; None: any.
        coverage: coverage of the run; None if unknown.
    """

    ignore_base_failures: bool = False
    from_results: bool = False
    plan_path: str = ""
    count: bool = True
    expected: int | None = None
    coverage: Coverage | None = None


def evaluation_options(
    invocation: Invocation, options: RunOptions, *, count: bool
) -> EvaluationOptions:
    """Return the options of the command line."""
    path = options.coverage
    return EvaluationOptions(
        ignore_base_failures=options.ignore_base_failures,
        from_results=bool(options.results),
        plan_path=local.path_below(invocation.folder, options.plan),
        count=count,
        expected=options.expected,
        coverage=local.read_coverage(invocation.folder / path) if path is not None else None,
    )


def evaluate(
    context: RunContext,
    inputs: RunInputs,
    jobs: tuple[NeededJob, ...] | None,
    past_runs: PastRuns,
    options: EvaluationOptions,
) -> Evaluation:
    """Judge a run by the policy that applies to the run.

    Raises:
        InputError: there is no plan.
    """
    plan, uploads = inputs.plan, inputs.read_inputs
    if isinstance(plan, InputError):
        raise plan
    if uploads.missing:
        context.warn(uploads.missing)
    if plan is None:
        history = past_runs.loaded.history if options.count else None
        plan, records, findings = _read_unplanned(context, inputs, history, options.expected)
    else:
        imported = records_from_files(plan, uploads.results)
        records = (*uploads.records, *imported.records)
        findings = check_unknown_shards(plan, imported.unknown_shards)
    platform = query_jobs(plan, records, inputs.subject_run, foreign=options.from_results)
    policy = effective_policy(
        context,
        options.ignore_base_failures,
        lambda: past_runs.loaded.history,
        questions=Questions(
            suites=plan.suites if options.count else None,
            orphans=[orphan.key for orphan in plan.inventory.orphans],
            with_cases=units_with_cases(plan, foreign=options.from_results)
            if options.count
            else (),
        ),
        plan_path=options.plan_path,
    )
    is_proposal = context.run is not None and context.run.pull_request is not None
    verdict = prove(
        plan,
        records,
        jobs,
        platform=platform,
        policy=policy,
        extra_findings=(
            *check_unread_files(uploads.problems),
            *findings,
            *check_coverage(options.coverage, policy, plan, is_pull_request=is_proposal),
            *_check_cases(context, plan, policy, lambda: select_of_run(plan, records, platform)),
        ),
    )
    if options.coverage is not None and options.count and (history := past_runs.loaded.history):
        from ciguard.history.query import base_runs  # noqa: PLC0415 - numpy is only then loaded

        runs = (history.runs[at] for at in base_runs(history, base_query(context.run)))
        past = ((run.branch or "base", run.coverage) for run in runs if run.coverage is not None)
        verdict = replace(verdict, coverage_base=next(past, None))
    owners = _find_owners(context, policy, verdict)
    verdict = replace(verdict, expected=options.expected, coverage=options.coverage, owners=owners)
    return Evaluation(verdict.plan, records, platform, policy, verdict)


def _find_owners(
    context: RunContext, policy: Policy, verdict: Verdict
) -> Mapping[UnitKey, tuple[str, ...]]:
    """Find the owners of the tests that failed, by the files at the commit of the policy."""
    failures = (*verdict.failures, *verdict.quarantined, *verdict.failing_on_base)
    results = [*(failure.result for failure in failures), *(unit.first for unit in verdict.flaky)]
    if not results or policy.source == "strictest":
        return {}
    read = partial(context.files.at, policy.commit) if policy.commit else context.files.own
    try:
        content = next(filter(None, (read([name]).get(name) for name in codeowners.FILES)), b"")
    except CiguardError as error:
        context.warn(f"owners of tests: {error}")
        return {}
    rules = (*codeowners.decode(content), *policy.owners)
    suites, owners = verdict.plan.suites, {}
    for result in results if rules else ():
        file = "" if "::" in result.unit else repository_path(suites, result.suite, result.file)
        key = result.key.unit_key
        owners[key] = codeowners.find_owners(rules, file or file_of_unit(suites, key))
    return owners


def _read_unplanned(
    context: RunContext, inputs: RunInputs, history: History | None, expected: int | None
) -> tuple[Plan, tuple[Record, ...], Iterable[Finding]]:
    """Return a plan of the run's own result files, their records, and findings on missing ones."""
    files, last, in_several = inputs.read_inputs, None, frozenset[str]()
    others = (item.path for item in files.results if not may_be_of_results(item))
    if left_out := ", ".join((*files.left_out, *others)):
        context.warn(f"{LEFT_OUT}: {one_line(left_out, 1000)}")
    if history is not None:
        from ciguard.history.query import base_runs  # noqa: PLC0415 - numpy is only then loaded

        last = next((history.runs[at] for at in base_runs(history, base_query(context.run))), None)
        in_several = units_with_variants(history.keys)
    plan, records = read_unplanned(files.results, inputs.tests, in_several)
    facts = _facts_of_run(context, inputs.subject_run)
    records = tuple(replace(record, header=replace(record.identity, **facts)) for record in records)
    findings = list(check_unplanned(plan, expected, files.missing, last))
    if inputs.subject_run is not None and inputs.subject_run.source is not None:
        with suppress(RemoteError):  # these facts only explain a failure that `needs` has
            findings += check_died_jobs(inputs.subject_run.source)
    return plan, records, findings


def _facts_of_run(context: RunContext, named: SubjectRun | None) -> dict[str, Any]:
    """Return the facts of the judged run, which its result files do not have."""
    run = context.run
    if run is None or named is None or run.subject_run is None:
        return {"run_id": named.run_id} if named is not None else {}
    facts: dict[str, Any] = {"run_id": named.run_id}
    if named.run_id == run.subject_run[0]:
        base = context.files.base_of_merge(run.tested_sha, run.head_sha)
        facts |= {
            "workflow": run.subject_workflow or None,
            "event": run.triggering.event or run.event,
            "branch": run.subject_branch,
            "head_sha": run.triggering.head_sha or run.head_sha,
            "tested_sha": None if run.is_triggered else run.tested_sha,
            "tested_parents": (base, run.head_sha) if base and run.pull_request else (),
        }
    return facts


def _check_cases(
    context: RunContext, plan: Plan, policy: Policy, selected: Callable[[], Selection]
) -> Iterator[Finding]:
    """Find the cases of the base's runs that this run does not have.

    Each file is compared with the version that the base's run tested, if both can be read.
    """
    if not policy.base_cases:
        return
    records = tuple(selected().newest.values())
    losses = find_case_losses(plan, records, policy.base_cases)
    # The commit of the records, or that of the run; "" if unknown.
    commits = {record.header.tested_sha for record in records if record.header is not None} - {None}
    commits = commits or {context.run.tested_sha if context.run is not None else None}
    tested = next(iter(commits)) or "" if len(commits) == 1 else ""
    by_commit: dict[str, list[str]] = defaultdict(list)
    for loss in losses[:MAX_COMPARED]:
        if loss.file and loss.base.run.sha and tested:
            by_commit[loss.base.run.sha].append(loss.file)
    changed: dict[str, bool] = {}
    for commit, names in by_commit.items():
        changed |= changed_files(context.files, (commit, tested), names)
    yield from case_loss_findings(losses, changed, policy.base_cases, policy.max_drop)


def write_annotations_and_outputs(
    invocation: Invocation, verdict: Verdict, outputs: Mapping[str, str]
) -> None:
    """Annotate the run, and set the step's outputs: those of the verdict, and `outputs`."""
    for item in annotations_of(verdict):
        # The runner reads commands from both streams; stdout stays the answer.
        console.workflow_command(
            annotation(item.level, item.message, file=item.file, line=item.line, title=item.title)
        )
    local.append_output(invocation.environ, step_outputs({**outputs_of(verdict), **outputs}))
