"""`ciguard guard`: reads plan and records, proves, prints."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from ciguard import console
from ciguard.codec.results.result_patterns import HELP
from ciguard.errors import InputError
from ciguard.github.workflow_commands import outputs
from ciguard.guard.annotations import annotations_of, outputs_of
from ciguard.guard.effective_policy import effective_policy
from ciguard.guard.github_facts import query_jobs
from ciguard.guard.job_checks import decode_needs
from ciguard.guard.json import as_json
from ciguard.guard.prove import prove
from ciguard.guard.result_files import records_from_files
from ciguard.guard.run_checks import check_unread_files
from ciguard.guard.view import document
from ciguard.render.plaintext import as_text
from ciguard.sources import local
from ciguard.sources.inputs import RUN_HELP, Sources, open_inputs
from ciguard.suites_and_pools import configured_suites
from ciguard.text import annotation

if TYPE_CHECKING:
    from ciguard.history.file import History
    from ciguard.invocation import Invocation


WITHOUT_HISTORY: Final = "the run is judged without past runs"


@click.command()
@click.option("--plan", "plan_path", metavar="FILE", help="Plan of the run.")
@click.option("--records", metavar="DIR", help="Folder of the records.")
@click.option("--run", "run", metavar="ID|URL", help=RUN_HELP)
@click.option(
    "--repo", metavar="OWNER/NAME", default="", help="Repository of --run (default: origin)."
)
@click.option("--results", metavar="GLOB", multiple=True, help=HELP)
@click.option(
    "--needs",
    metavar="JSON",
    help="GitHub's toJSON(needs): the text, a file, or - for standard input.",
)
@click.option(
    "--ignore-base-failures",
    is_flag=True,
    help="Ignore tests that also fail on the base branch.",
)
@click.option(
    "--history",
    "history_location",
    metavar="FILE|branch:NAME",
    help="Past runs: a file or a branch (default: the configured store).",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Output format.",
)
@click.option("--github", is_flag=True, help="Write annotations and set the outputs of the step.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    plan_path: str | None,
    records: str | None,
    run: str | None,
    repo: str,
    results: tuple[str, ...],
    needs: str | None,
    ignore_base_failures: bool,
    history_location: str | None,
    format_: str,
    github: bool,
) -> int:
    """Prove that every planned test ran and every job completed.

    In GitHub Actions, pass GITHUB_TOKEN: the command then reads from GitHub how each job ended.

    The command ends with 0 if all tests passed, 10 if tests failed, 13 if the run is incomplete.
    """
    needs_argument = (
        local.read_argument(invocation.folder, "--needs", needs) if needs is not None else None
    )
    needed = None if needs_argument is None else decode_needs(*needs_argument)
    with open_inputs(invocation, Sources(plan_path, records, results, run, repo)) as inputs:
        plan, arrived = inputs.plan, inputs.read_inputs
        if isinstance(plan, InputError):
            raise plan
        if arrived.missing:
            console.err(f"warning: {arrived.missing}")
        imported = records_from_files(plan, arrived.results)
        found = [*arrived.records, *imported.records]
        # Jobs that are not ours are called as their owner likes: which is which shard is not known.
        platform = query_jobs(plan, found, None if results else inputs.subject_run)
    now = configured_suites(invocation.config()) if plan.policy.run_unplanned else None
    past = partial(_history, invocation)
    policy = effective_policy(
        invocation,
        ignore_base_failures,
        past,
        location=history_location,
        count=history_location is not None,
    )
    verdict = prove(
        plan,
        found,
        needed,
        configured=now,
        platform=platform,
        policy=policy.policy,
        extra_findings=(*check_unread_files(arrived.problems), *imported.findings),
    )
    if format_ == "json":
        console.out(json.dumps(as_json(verdict), indent=2))
    else:
        console.out(as_text(document(verdict)))
    if github:
        # The runner reads commands from both streams; stdout stays the answer.
        for one in annotations_of(verdict, plan.suites):
            spelled = annotation(
                one.level, one.message, file=one.file, line=one.line, title=one.title
            )
            console.workflow_command(spelled)
        local.append_output(invocation.environ, outputs(outputs_of(verdict)))
    return verdict.exit_code


def _history(invocation: Invocation, where: str) -> History | None:
    """Past runs; without them no failure is ignored, and the verdict says so."""
    # Imported here: it needs numpy, and most runs are judged without past ones.
    from ciguard.history.stores import load_or_explain  # noqa: PLC0415

    found = load_or_explain(where, invocation.folder, invocation.environ, WITHOUT_HISTORY)
    if found.problem:
        console.err(f"warning: {found.problem}")
    return found.history
