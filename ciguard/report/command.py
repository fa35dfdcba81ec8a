"""The command `ciguard report`: judge a run, compare it with its history, publish one report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import islice
from typing import Final

import click
from pydantic import SecretStr

from ciguard import console
from ciguard.codec.archive import pack
from ciguard.codec.results.result_patterns import newest_attempts, pattern
from ciguard.codec.results.unplanned import read_unplanned, units_with_variants
from ciguard.codec.unpack_limits import PUSH_BYTES
from ciguard.compare.baseline_selection import EVENTS
from ciguard.compare.confirmation import read_confirmation
from ciguard.compare.json import json_text
from ciguard.config.file import process_log_reader
from ciguard.config.invocation import Invocation
from ciguard.config.options import OUTPUT, format_option
from ciguard.config.sections import CulpritConfig
from ciguard.document import Headline
from ciguard.errors import CiguardError, InputError
from ciguard.github.client import PAGE_SIZE, GitHub
from ciguard.github.events import ActionsRun, current_run
from ciguard.github.models import Artifact
from ciguard.github.repository_ref import token_of
from ciguard.github.run_client import runs_of_base
from ciguard.guard.annotations_and_outputs import outputs_without_verdict
from ciguard.guard.evaluation import (
    PastRuns,
    RunOptions,
    evaluation_options,
    past_runs_of,
    run_options,
    write_annotations_and_outputs,
)
from ciguard.guard.policy import context_of
from ciguard.history.file import History
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.history.merge import merge
from ciguard.history.service_store import ServiceStore
from ciguard.history.stores import SERVICE_SCHEMES, LoadedHistory
from ciguard.model.service_address import REQUEST_URL
from ciguard.render.markdown import SizeLimit, utf8_bytes
from ciguard.render.plaintext import as_text
from ciguard.report.judging import GitHubOpener, judge, records_of_plan
from ciguard.report.publish import Channels, publish_in_job
from ciguard.report.view import Report, ReportData
from ciguard.sources import local
from ciguard.sources.artifacts import PLAN_FILE, RECORD, RunArtifacts
from ciguard.sources.inputs import listed_tests, open_inputs
from ciguard.sources.previous_run import INTERRUPTED, artifact_name, encode_values
from ciguard.text import duration, one_line, step_outputs

MAX_BASE_RUNS: Final = 5
SUMMARY: Final = SizeLimit(1024 * 1024 - 4096, utf8_bytes)  # GitHub's limit is 1 MiB, with notes
# The upload of this artifact starts a search for a culprit. Searches are counted by it, so that a
# search whose job dies counts, too. All runs use one name, because GitHub lists artifacts by name.
ARTIFACT: Final = "ciguard-culprit-comparison"
PERIOD: Final = timedelta(hours=24)
SPENT: Final = (
    "ciguard does not search for the commit: the searches of 24 hours could then take {time}, and "
    "`culprit.per_day` is {per_day}."
)
UNKNOWN: Final = "ciguard does not search for the commit: earlier searches are not known ({error})."


@click.command()
@run_options
@click.option("--comment", "comments", is_flag=True, help="Comment on the pull request.")
@click.option("--check", "checks", is_flag=True, help="Write a check run with annotations.")
@click.option(
    "--issue", "issues", is_flag=True, help="Keep an issue open while the base branch fails."
)
@click.option("--html", "page", metavar="FILE", help="File for an HTML page.")
@click.option("--comparison", metavar="FILE", help="File for the comparison (JSON).")
@click.option(
    "--confirmation", metavar="FILE", help="JSON of `ciguard experiment` for the suspects."
)
@click.option(
    "--values",
    metavar="FILE",
    help="File for measurements by which the next run confirms suspects.",
)
@click.option(
    "--github",
    is_flag=True,
    help="Write outputs, summary and annotations of the step.",
)
@format_option("markdown", "html")
@OUTPUT
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

    The exit code is that of `ciguard guard`. If it is 0, findings in policy.fail_on decide.
    """
    channels = Channels(comment=comments, check=checks, issue=issues)
    try:
        instead = _base_runs(invocation, options)
        past_runs = past_runs_of(invocation, options.history, github=github, instead=instead)
        answer = _build_report(invocation, options, past_runs, confirmation)
        if confirmation is None and answer.contents is not None:  # else nothing new, or no plan
            _push_records(invocation, options, past_runs)
    except CiguardError as error:
        if not channels or current_run(invocation.environ) is None:
            raise  # nothing is published in this case
        answer = Report.of_error(error)
        console.err(f"ciguard report: {error}")
    text = answer.text(SUMMARY)
    rendered = {"markdown": text}
    if page is not None or format_ == "html":
        rendered["html"] = answer.page()
    is_written = output not in {None, "-"}
    short = as_text((Headline(answer.headline),)).rstrip("\n")
    console.out(short if is_written else rendered[format_])
    for path, form in ((output if is_written else None, format_), (page, "html")):
        if path is not None:
            local.write(invocation.folder / path, rendered[form].encode("utf-8", "replace"))
    published = publish_in_job(
        invocation.environ, answer, channels, comment_by=_comment_by(invocation, answer)
    )
    run, config = current_run(invocation.environ), invocation.config().culprit
    opener = _github_opener(run, invocation.environ) if comparison else None
    culprit, note = _start_search(opener, run, answer.contents, config)
    notes = (*published.notes, note) if note else published.notes
    for line in (*published.done, *notes):
        console.err(line)
    outputs = {
        "values_artifact": _write_values(invocation, answer, values) if values is not None else "",
        "suspects": _write_comparison(invocation, answer, comparison) if comparison else "",
        "culprit": culprit,
    }
    if github:
        if target := invocation.environ.get("GITHUB_STEP_SUMMARY"):
            local.append(target, "\n\n".join([text.rstrip(), *notes]) + "\n")
        if answer.contents is not None:
            write_annotations_and_outputs(invocation, answer.contents.verdict, outputs)
        else:
            outputs = outputs_without_verdict(answer.headline)
            local.append_output(invocation.environ, step_outputs(outputs))
    return answer.exit_code or published.exit_code


def _build_report(
    invocation: Invocation, options: RunOptions, past_runs: PastRuns, confirmation: str | None
) -> Report:
    confirmed = None
    if confirmation is not None:
        content = local.read(invocation.folder / confirmation)
        confirmed = read_confirmation(content, confirmation)
    jobs = options.needed_jobs(invocation)
    context = context_of(invocation)
    with open_inputs(invocation, options, process_log_reader(context.config)) as inputs:
        if isinstance(inputs.plan, InputError) and (jobs is not None or options.run is not None):
            # The planning job failed.
            console.err(f"ciguard report: {inputs.plan}")
            return Report.without_plan(inputs.plan, jobs or ())
        return judge(
            context,
            inputs,
            past_runs,
            evaluation_options(invocation, options, count=True),
            jobs=jobs,
            confirmation=confirmed,
            open_github=_github_opener(context.run, invocation.environ),
        )


def _base_runs(invocation: Invocation, options: RunOptions) -> Callable[[], LoadedHistory] | None:
    """Return the reader of the base's runs, for results in artifacts and without a plan."""
    run = current_run(invocation.environ)
    open_github = _github_opener(run, invocation.environ)
    if run is None or open_github is None or options.plan or not (options.run and options.results):
        return None
    listed = listed_tests(invocation, options.tests)
    return lambda: _read_base_runs(run, open_github, options, listed)


def _read_base_runs(
    run: ActionsRun, open_github: GitHubOpener, options: RunOptions, listed: Collection[str] | None
) -> LoadedHistory:
    """Return a history of the newest complete runs of the base before a run.

    A run costs three requests to GitHub's API, and one for each artifact that may have results.

    Args:
        listed: names of the judged run's tests; None for the names in the result files.
    """
    location = f"runs of {run.base_branch}"
    try:
        with open_github() as github:
            histories = tuple(islice(_histories(github, run, options, listed), MAX_BASE_RUNS))
    except CiguardError as error:
        why = "; ".join(filter(None, (error.what, error.fix)))
        return LoadedHistory(None, location, f"the {location} cannot be read: {why}")
    if not histories:
        problem = f"no complete run of {run.base_branch} has results"
        return LoadedHistory(None, location, problem, is_new=True)
    return LoadedHistory(reduce(merge, histories), location, is_new=True)


def _histories(
    github: GitHub, run: ActionsRun, options: RunOptions, listed: Collection[str] | None
) -> Iterator[History]:
    """Yield the histories of single runs, the newest first."""
    patterns = [pattern(text) for text in options.results]
    in_several: frozenset[str] = frozenset()
    base, workflow = run.base_branch or "", run.subject_workflow
    for past in runs_of_base(github, run.repository, base, EVENTS, run=run, workflow=workflow):
        artifacts = RunArtifacts(github, run.repository, past.id)
        try:
            inputs = artifacts.result_files(patterns)
        except InputError:
            return  # the artifacts have expired, and those of older runs as well
        # A history of result files does not distinguish the attempts of a job.
        files = [replace(file, attempt=None) for file in newest_attempts(inputs.results)]
        plan, records = read_unplanned(files, listed, in_several)
        is_complete = bool(records) and not inputs.problems
        if not is_complete or options.expected not in (None, len(plan.shards)):
            continue
        in_several |= units_with_variants(
            result.key for record in records for result in record.results
        )
        facts = RunMetadata(
            run_id=past.id,
            run_attempt=past.run_attempt,
            sha=past.head_sha or None,
            branch=past.head_branch,
            event=past.event,
            at=past.created_at,
        )
        yield history_of(records, facts, plan)


def _github_opener(run: ActionsRun | None, environ: Mapping[str, str]) -> GitHubOpener | None:
    token = token_of(environ)
    if run is None or not token:
        return None
    return lambda: GitHub(run.api_url, SecretStr(token))


def _push_records(invocation: Invocation, options: RunOptions, past_runs: PastRuns) -> None:
    """Send plan and records to the service of the history, so that it need not download them.

    The folders of the files have the names of their artifacts, as the report action has them. A
    service whose history could not be read gets nothing. Only a job with an OIDC token sends
    records, and only those of its own run.
    """
    run, environ, store = current_run(invocation.environ), invocation.environ, past_runs.location
    if run is None or run.is_triggered or not (environ.get(REQUEST_URL) and options.records):
        return
    is_service = store.partition(":")[0] in SERVICE_SCHEMES
    if not (options.plan and is_service and (past_runs.loaded.history or past_runs.loaded.is_new)):
        return
    plan = invocation.folder / options.plan
    plan = plan / PLAN_FILE if plan.is_dir() else plan
    try:
        zips = {plan.absolute().parent.name: pack({PLAN_FILE: local.read(plan)})}
        for folder in (invocation.folder / options.records).glob(f"{RECORD}*"):
            files = [path for path in folder.rglob("*") if path.is_file()]
            contents = {path.relative_to(folder).as_posix(): local.read(path) for path in files}
            zips[folder.name] = pack(contents)
        archive = pack(zips)
        if len(archive) > PUSH_BYTES:
            raise InputError(f"they have more than {PUSH_BYTES >> 20} MiB")
        ServiceStore(store, environ).push_records(f"{run.run_id}/{run.run_attempt}", archive)
    except CiguardError as error:
        console.err(f"warning: the service gets the records from GitHub instead: {error}")


def _comment_by(invocation: Invocation, answer: Report) -> str:
    """Return the author of comments by the policy; without a verdict, by the configuration."""
    if answer.contents is not None:
        return answer.contents.policy.comment_by
    try:
        return invocation.config().report.by
    except CiguardError:
        return "workflow"


def _write_values(invocation: Invocation, answer: Report, path: str) -> str:
    """Write the values for the pull request's next run; return their artifact's name, or ""."""
    run, contents = current_run(invocation.environ), answer.contents
    # A job that judges another run writes no values: the next run reads those of the judged run.
    if run is None or run.is_triggered or contents is None:
        return ""
    name = artifact_name(run)
    if not name or any(leg.ending in INTERRUPTED for leg in contents.verdict.legs):
        return ""
    records = records_of_plan(contents.plan, contents.records)
    local.write(invocation.folder / path, encode_values(records))
    return name


def _write_comparison(invocation: Invocation, answer: Report, path: str) -> str:
    """Write the comparison as JSON; return the number of suspects, "" for none."""
    comparison = answer.contents.comparison if answer.contents is not None else None
    if comparison is None:
        return ""
    content = json_text(comparison).encode("utf-8", "backslashreplace")
    local.write(invocation.folder / path, content)
    return str(len(comparison.suspects) or "")


def _start_search(
    open_github: GitHubOpener | None,
    run: ActionsRun | None,
    judged: ReportData | None,
    config: CulpritConfig,
) -> tuple[str, str]:
    """Decide whether a search for a culprit starts.

    Returns:
        The name of the artifact that starts the search and "", or "" and a note why none starts.
    """
    comparison = judged.comparison if judged is not None else None
    if open_github is None or run is None or comparison is None or not config.on_red:
        return "", ""
    is_worse = comparison.newly_failing or comparison.clear_losses
    # A re-run would replace the artifact of its earlier attempt, whose search must be counted.
    is_first_push = run.event == "push" and run.is_base_branch and run.run_attempt in (None, 1)
    if not (is_worse and is_first_push):
        return "", ""
    path = f"/repos/{run.repository}/actions/artifacts?name={ARTIFACT}"
    try:
        with open_github() as github:
            artifacts = github.items(Artifact, path, key="artifacts", limit=PAGE_SIZE)
    except CiguardError as error:
        return "", UNKNOWN.format(error=one_line(error.what, 400))
    since = datetime.now(UTC) - PERIOD
    searches = [one for one in artifacts if _is_recent_search(one, run, since)]
    time_s = (len(searches) + 1) * config.budget
    if time_s <= config.per_day:
        return ARTIFACT, ""
    return "", SPENT.format(time=duration(time_s), per_day=duration(config.per_day))


def _is_recent_search(artifact: Artifact, run: ActionsRun, since: datetime) -> bool:
    """Return whether a run of this branch uploaded it; a pull request can use the same name."""
    uploading, created_at = artifact.workflow_run, artifact.created_at
    return (
        uploading is not None
        and uploading.head_branch == run.branch
        and uploading.head_repository_id == uploading.repository_id
        and (created_at is None or created_at >= since)
    )
