"""`ciguard report`: guard and compare, told once: on stdout, in the summary, in the comment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click
from pydantic import SecretStr

from ciguard import console
from ciguard.compare.ancestry import ancestry_of
from ciguard.compare.baseline_selection import base_commit
from ciguard.compare.compare_runs import Context, compare_run
from ciguard.compare.comparison import Note, exit_code
from ciguard.compare.confirmation import apply_confirmation, read_confirmation
from ciguard.compare.json import json_text
from ciguard.compare.run_columns import runs_from_records
from ciguard.config import metric_directions, process_log_reader
from ciguard.document import Headline
from ciguard.errors import CiguardError, ExitCode, InputError
from ciguard.github.client import GitHub
from ciguard.github.events import current_run
from ciguard.guard.evaluation import PastRuns, evaluate, run_options, write_annotations
from ciguard.guard.json import outputs_without_verdict
from ciguard.links import NO_LINKS, Links
from ciguard.render.markdown import SizeLimit, utf8_bytes
from ciguard.render.plaintext import as_text
from ciguard.report.pr_values import encode_values, is_usable
from ciguard.report.publish import publish
from ciguard.report.view import NOT_EVALUATED, Report, ReportData, excuses_of, links_of_run
from ciguard.sources import local
from ciguard.sources.inputs import open_inputs
from ciguard.sources.previous_run import artifact_name, load_previous_run
from ciguard.sources.record_finder import RecordFinder
from ciguard.text import step_outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.compare.comparison import Comparison
    from ciguard.compare.confirmation import Confirmation
    from ciguard.compare.run_columns import Run
    from ciguard.github.events import ActionsRun
    from ciguard.guard.evaluation import Evaluation, RunOptions
    from ciguard.guard.github_facts import NeededJob
    from ciguard.history.file import History
    from ciguard.invocation import Invocation
    from ciguard.model import Plan, Record
    from ciguard.sources.inputs import SubjectRun

SUMMARY: Final = SizeLimit(
    1024 * 1024 - 4096, utf8_bytes
)  # GitHub takes 1 MiB a step, with the notes


@click.command()
@run_options
@click.option(
    "--comment", "comments", is_flag=True, help="Write or update one comment on the pull request."
)
@click.option("--check", "checks", is_flag=True, help="Add a check with annotations.")
@click.option(
    "--issue", "issues", is_flag=True, help="Keep one issue open while the base branch fails."
)
@click.option("--html", "page", metavar="FILE", help="Write an HTML page.")
@click.option("--comparison", metavar="FILE", help="Write the comparison as JSON.")
@click.option(
    "--confirmation", metavar="FILE", help="Result of `ciguard experiment` for the suspects (JSON)."
)
@click.option(
    "--values",
    metavar="FILE",
    help=(
        "Write this run's measurements; the pull request's next run needs them to confirm suspects."
    ),
)
@click.option(
    "--github",
    is_flag=True,
    help="Write the job summary and annotations, and set the outputs of the step.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["markdown", "html"]),
    default="markdown",
    help="Output format. For JSON use --comparison, or `ciguard guard --format json`.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the report to this file and print only the verdict.",
)
@click.pass_obj
def command(
    invocation: Invocation,
    options: RunOptions,
    /,
    *,
    comments: bool,
    checks: bool,
    issues: bool,
    page: str | None,
    comparison: str | None,
    confirmation: str | None,
    values: str | None,
    github: bool,
    format_: str,
    output: str | None,
) -> int:
    """Judge a run, compare it with its history, and publish one report.

    The command ends with the exit code of `guard`; if that is 0, with the exit code of `compare`
    for the findings in policy.fail_on.
    """
    try:
        past = PastRuns(invocation, options.history, github=github)
        answer = _build_report(invocation, options, past, confirmation)
    except CiguardError as error:
        if not (comments or checks or issues) or current_run(invocation.environ) is None:
            raise
        # What an earlier push left there must not stay green.
        console.err(f"ciguard report: {error}")
        answer = Report(None, int(error.exit_code), _describe_error(error), problem=NOT_EVALUATED)
    text = answer.text(SUMMARY)
    rendered = {"markdown": text}
    if page is not None or format_ == "html":
        rendered["html"] = answer.page()
    is_written = output not in {None, "-"}
    short = "".join(as_text((Headline(one),)) for one in answer.headlines)
    console.out(short.rstrip("\n") if is_written else rendered[format_])
    for path, form in ((output if is_written else None, format_), (page, "html")):
        if path is not None:
            local.write(invocation.folder / path, rendered[form].encode("utf-8", "replace"))
    published = publish(invocation.environ, answer, comment=comments, check=checks, issue=issues)
    for line in (*published.done, *published.notes):
        console.err(line)
    more = {
        "values_artifact": _write_values(invocation, answer, values) if values is not None else "",
        "suspects": _write_comparison(invocation, answer, comparison) if comparison else "",
    }
    if github:
        if target := invocation.environ.get("GITHUB_STEP_SUMMARY"):
            local.append(target, "\n\n".join([text.rstrip(), *published.notes]) + "\n")
        if answer.contents is not None:
            write_annotations(invocation, answer.contents.plan, answer.contents.verdict, more)
        else:
            outputs = outputs_without_verdict(answer.headlines[0])
            local.append_output(invocation.environ, step_outputs(outputs))
    return answer.exit_code or published.exit_code


def _build_report(
    invocation: Invocation, options: RunOptions, past: PastRuns, confirmation: str | None
) -> Report:
    confirmed, note = None, None
    if confirmation is not None:
        content = local.read(invocation.folder / confirmation)
        confirmed = read_confirmation(content, confirmation)
    jobs = options.needed_jobs(invocation)
    with open_inputs(invocation, options, process_log_reader(invocation.config())) as inputs:
        if isinstance(inputs.plan, InputError) and (jobs is not None or options.run is not None):
            # The job that plans failed: the run is not judged, and its comment must not stay green.
            console.err(f"ciguard report: {inputs.plan}")
            return Report(None, ExitCode.INCOMPLETE, _describe_error(inputs.plan, jobs or ()))
        found = evaluate(invocation, options, inputs, jobs, past, count=True)
        if confirmed is None:
            confirmed, note = _uploaded_confirmation(inputs.subject_run)
    comparison, why = _compare(invocation, found, past)
    if comparison is not None and confirmed is not None:
        comparison = apply_confirmation(comparison, confirmed)
    if comparison is not None and note:
        comparison = replace(comparison, notes=(*comparison.notes, note))
    code = int(found.verdict.exit_code)
    if not code and comparison is not None:
        code = exit_code(comparison, found.policy.fail_on)
    run = current_run(invocation.environ)
    contents = ReportData(
        found.plan,
        found.verdict,
        comparison,
        why,
        links=_site(run, inputs.subject_run, found),
        policy=found.policy,
        from_fork=run is not None and run.is_subject_from_fork,
        records=found.records,
    )
    return Report(contents, code)


def _describe_error(error: CiguardError, jobs: Sequence[NeededJob] = ()) -> str:
    """An error as a sentence of a comment, with what the jobs before came to."""
    where = f"{error.where}: " if error.where else ""
    bad = ", ".join(f"job {job.name} is {job.result!r}" for job in jobs if job.result != "success")
    parts = [f"{where}{error.what}", bad, f"Fix: {error.fix}" if error.fix else ""]
    return ". ".join(part for part in parts if part) + "."


def _site(run: ActionsRun | None, named: SubjectRun | None, found: Evaluation) -> Links:
    """Of the run that is judged: the one that was named, else the one that this is a job of."""
    subject = run.subject_run if run is not None else None
    jobs = found.platform.job_pages if found.platform is not None else {}
    if named is not None and named.page and (subject is None or subject[0] != named.run_id):
        return Links(named.page, named.run_id, named.run_attempt, jobs=jobs)
    return links_of_run(run, jobs, found.plan.suites) if run is not None else NO_LINKS


def _compare(
    invocation: Invocation, found: Evaluation, past: PastRuns
) -> tuple[Comparison | None, str]:
    """Against the history; else None and why."""
    plan = found.plan
    candidates = runs_from_records(_of_plan(plan, found.records), "this run")
    if not candidates:
        return None, "no leg left a record"
    history, why, _ = past.loaded
    if history is None:
        return None, why
    run = current_run(invocation.environ)
    head = candidates[-1]
    context = _context(invocation, head, history, found, run)
    previous = candidates[-2] if len(candidates) > 1 else None
    compared = compare_run(head, history, previous=previous, plan=plan, context=context)
    if previous is not None or run is None or not compared.can_be_confirmed:
        return compared, ""
    earlier, note = _previous_run(invocation, run)
    if earlier is not None:
        compared = compare_run(head, history, previous=earlier, plan=plan, context=context)
    return (replace(compared, notes=(*compared.notes, note)) if note else compared), ""


def _context(
    invocation: Invocation, head: Run, history: History, found: Evaluation, run: ActionsRun | None
) -> Context:
    folder, environ = invocation.folder, invocation.environ
    commits = [one.sha for one in history.runs if one.sha]
    query = RecordFinder(environ, folder, None).ancestor_query()
    prices = {name: pool.usd_per_minute for name, pool in found.plan.pools.items()}
    return Context(
        branch=run.base_branch if run is not None else None,
        lineage=ancestry_of(folder, environ, base_commit(head), commits, query),
        prices={name: price for name, price in prices.items() if price is not None},
        excused=excuses_of(found.verdict),
        directions=metric_directions(invocation.config()),
    )


def _previous_run(invocation: Invocation, run: ActionsRun) -> tuple[Run | None, Note | None]:
    """The run of this pull request before this one, which may confirm it; else why not."""
    token = invocation.environ.get("GITHUB_TOKEN") or invocation.environ.get("GH_TOKEN") or ""
    subject_run_id = run.triggering.id or run.run_id
    if subject_run_id is None or not token:
        return None, None
    try:
        with GitHub(run.api_url, SecretStr(token)) as github:
            found = load_previous_run(github, run, subject_run_id)
    except CiguardError as error:
        console.err(f"warning: the run before this one: {error}")
        return None, Note("no_previous_run", detail=error.what)
    if found is None:
        return None, None
    runs = runs_from_records(found.records, f"run {found.run_id}")
    return (runs[-1] if runs else None), None


def _write_values(invocation: Invocation, answer: Report, path: str) -> str:
    """Write what the next run of the pull request needs; what its artifact is called, else ""."""
    run, contents = current_run(invocation.environ), answer.contents
    # Whoever judges another run leaves it to that one: its successor looks there.
    if run is None or run.is_triggered or contents is None:
        return ""
    name = artifact_name(run)
    if not name or not is_usable(contents.verdict):
        return ""
    ours = _of_plan(contents.plan, contents.records)
    local.write(invocation.folder / path, encode_values(ours))
    return name


def _uploaded_confirmation(
    subject_run: SubjectRun | None,
) -> tuple[Confirmation | None, Note | None]:
    """What a run that is named ran again by itself, and whose word that is; else why not.

    It is as much its own claim as its records are: whoever made those up could make up this.
    """
    if subject_run is None or subject_run.artifacts is None:
        return None, None
    try:
        found = subject_run.artifacts.confirmation()
        if found is None:
            return None, None
        return read_confirmation(*found), Note("confirmation_by_judged_run")
    except CiguardError as error:
        console.err(f"warning: {error}")
        return None, Note("confirmation_unreadable", detail=error.what)


def _write_comparison(invocation: Invocation, answer: Report, path: str) -> str:
    """Write it as JSON; how many suspects are worth running again, "" for none."""
    found = answer.contents.comparison if answer.contents is not None else None
    if found is None:
        return ""
    local.write(invocation.folder / path, json_text(found).encode("utf-8", "backslashreplace"))
    return str(len(found.suspects) or "")


def _of_plan(plan: Plan, records: Sequence[Record]) -> list[Record]:
    return [one for one in records if one.header is not None and one.header.plan_id == plan.id]
