"""The command `ciguard explain`: find a run by its reference, judge it, and explain it briefly."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

import click
from pydantic import TypeAdapter, ValidationError

from ciguard import console
from ciguard.compare.baseline_selection import find_in_history, newest_run_of_branch
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.run_columns import runs_from_records
from ciguard.config.file import process_log_reader
from ciguard.config.invocation import Invocation
from ciguard.config.options import HISTORY, format_option, plan_option, repo_option
from ciguard.errors import ExitCode, InputError, UsageError
from ciguard.explain.explanation import (
    Explanation,
    Found,
    explain_past_run,
    explain_report,
    explain_tests,
)
from ciguard.explain.view import fitting, json_text, plain_text
from ciguard.git.checkout import remote_url
from ciguard.github.repository_ref import resolve_repository, token_of
from ciguard.guard.evaluation import PastRuns, RunOptions, evaluation_options, past_runs_of
from ciguard.guard.policy import context_of
from ciguard.history.file import History
from ciguard.history.query import BaseQuery
from ciguard.history.service_store import ServiceStore
from ciguard.history.stores import load
from ciguard.report.answer import base_of
from ciguard.report.judging import judge, records_of_plan
from ciguard.sources.inputs import open_inputs
from ciguard.sources.references import Branch, PathReference, Reference, RunId, parse

# The page of a run on a service: https://HOST/OWNER/NAME/runs/ID/ATTEMPT
_SERVED: Final = re.compile(
    r"(https?://[^/]+)/([\w.-]+/[\w.-]+)(/runs/(\d+)/\d+)(?:/comparison)?/?"
)
WAIT: Final = "a run is judged when it has ended; runs judged by an older ciguard have no answer"
NO_TOKEN: Final = "set GITHUB_TOKEN: the records are artifacts on GitHub, which need a token"


@click.command()
@click.argument("run")
@click.argument("test", default="")
@plan_option(help="Plan of the run (default: plan.json in RUN).")
@repo_option()
@click.option(
    "--service",
    metavar="URL",
    default="",
    help="Service that judged RUN (token: CIGUARD_HISTORY_TOKEN).",
)
@HISTORY
@format_option("text", "json")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    run: str,
    test: str,
    plan: str | None,
    repo: str,
    service: str,
    history: str | None,
    format_: str,
) -> int:
    """Explain each failure of a run: whose it is, since when, and what to do.

    RUN is a folder of records, a run on GitHub (123456, 123456/2), the address of a run, or
    branch:NAME for the newest run of a branch. TEST, or a part of its name, selects one test.
    """
    past_runs = past_runs_of(invocation, history)
    served = _SERVED.fullmatch(run)
    reference = (
        None if served else parse(run, "RUN", lambda text: (invocation.folder / text).exists())
    )
    if service and reference is not None:
        served = _find_served(invocation, service.rstrip("/"), repo, reference)
        reference = None
    is_path = isinstance(reference, PathReference)
    if is_path and plan is None:
        plan = _only_plan(invocation.folder, run)
    if served:
        found = _read_from_service(invocation, served, test, service or past_runs.location)
    elif not is_path and not (isinstance(reference, RunId) and token_of(invocation.environ)):
        found = _find_past_run(reference, run, past_runs.loaded.history)
    else:
        options = RunOptions(
            plan=plan,
            records=run if is_path else None,
            run=None if is_path else run,
            repo=repo,
            needs=None,
            ignore_base_failures=False,
            history=history,
        )
        found = _judge_run(invocation, options, past_runs)
    explanation = explain_tests(found, test) if test else found.explanation
    console.out(fitting(explanation, json_text if format_ == "json" else plain_text))
    return ExitCode.OK


def _only_plan(folder: Path, records: str) -> str:
    top = folder / records / "plan.json"
    plans = [top] if top.exists() else sorted((folder / records).rglob("plan.json"))
    if len(plans) != 1:
        what = f"{len(plans)} files plan.json are in this folder"
        raise UsageError(what, where=f"RUN: {records}", fix="name the plan of the run by --plan")
    return str(plans[0])


def _judge_run(invocation: Invocation, options: RunOptions, past_runs: PastRuns) -> Found:
    context = context_of(invocation)
    with open_inputs(invocation, options, process_log_reader(context.config)) as inputs:
        settings = evaluation_options(invocation, options, count=True)
        data = judge(context, inputs, past_runs, settings).contents
    assert data is not None
    runs = runs_from_records(records_of_plan(data.plan, data.records), "this run")
    run = runs[-1] if runs else None
    query = BaseQuery(base_of(data.comparison), run_id=run.run_id if run is not None else None)
    return Found(explain_report(data), run, past_runs.loaded.history, query)


def _find_past_run(reference: Reference | None, name: str, history: History | None) -> Found:
    """Explain a run of which only the history has results."""
    where = f"RUN: {name}"
    if history is None:
        raise InputError(
            "there is no history", where=where, fix=f"name one by --history; {NO_TOKEN}"
        )
    if isinstance(reference, RunId):
        run = find_in_history(history, reference, name, where, strict=True)
        assert run is not None
    elif isinstance(reference, Branch):
        run = newest_run_of_branch(history, reference.name, None, name, where)
    else:
        fix = "name a run id, branch:NAME, or a folder of records"
        raise UsageError("no run that can be explained", where=where, fix=fix)
    comparison = compare_run(run, history)
    query = BaseQuery(base_of(comparison), run_id=run.run_id)
    return Found(explain_past_run(comparison), run, history, query)


def _find_served(
    invocation: Invocation, service: str, repo: str, reference: Reference
) -> re.Match[str] | None:
    """Return the address of a run on a service, of the newest attempt if the reference names none.

    Raises:
        InputError: the service has judged no such run.
        UsageError: the reference names no run id or branch, or the service's address has a path.
    """
    query = ""
    if isinstance(reference, RunId):
        query = f"run={reference.run_id}"
    elif isinstance(reference, Branch):
        query = f"branch={quote(reference.name, safe='')}"
    if not query or not _SERVED.fullmatch(f"{service}/o/r/runs/1/1"):
        fix = "name a run id or branch:NAME, and the service as https://HOST"
        raise UsageError("no run of a service", where=f"--service {service}", fix=fix)
    environ = invocation.environ
    name = (isinstance(reference, RunId) and reference.repository) or repo
    if not name:
        name = resolve_repository(environ, remote=remote_url(invocation.folder, environ)).repository
    page = f"{service}/{name}"
    content = ServiceStore(f"{page}.json?{query}", environ).read().content
    try:
        runs = [(run["run_id"], run["run_attempt"]) for run in json.loads(content or b"")["runs"]]
    except (ValueError, LookupError, TypeError):
        fix = "write the address of the service's first page"
        raise InputError("no list of runs", where=f"{page}.json", fix=fix) from None
    for run_id, attempt in runs:
        if not isinstance(reference, RunId) or reference.run_attempt in (None, attempt):
            return _SERVED.fullmatch(f"{page}/runs/{run_id}/{attempt}")
    raise InputError("the service has judged no such run", where=f"{page}: {query}", fix=WAIT)


def _read_from_service(invocation: Invocation, page: re.Match[str], test: str, store: str) -> Found:
    """Explain a run that a service judged; the past of a test comes from the service's history.

    Args:
        store: address of a service, or location of the history. Only this service gets a token,
            because the address of a run may come from a stranger.
    """
    origin, repository, path, run_id = page.groups()
    api = f"{origin}/api/v1/repos/{repository}"
    environ = invocation.environ if f"{store}/".startswith(f"{origin}/") else {}
    content = ServiceStore(f"{api}{path}/explanation", environ).read().content
    where = f"RUN: {page[0]}"
    if content is None:
        raise InputError("the service has no answer for this run", where=where, fix=WAIT)
    try:
        explanation = TypeAdapter(Explanation).validate_json(content)
    except ValidationError as error:
        what = f"no explanation: {error.errors()[0]['msg']}"
        raise InputError(what, where=where, fix="update ciguard") from None
    explanation = replace(explanation, source="service")
    query = BaseQuery(run_id=int(run_id))
    if not test:
        return Found(explanation, None, None, query)
    history = load(ServiceStore(f"{api}/history", environ)).history
    run = find_in_history(history, RunId(int(run_id)), page[0], where, strict=False)
    return Found(explanation, run, history, query)
