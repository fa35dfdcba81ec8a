"""`ciguard guard`: reads plan and records, proves, prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ciguard import console, files
from ciguard.configured import configured_suites
from ciguard.github.commands import annotation, outputs
from ciguard.github.judged import judged_run
from ciguard.guard import needs as jobs
from ciguard.guard.annotations import annotations_of, outputs_of
from ciguard.guard.as_json import as_json
from ciguard.guard.asking import ask
from ciguard.guard.proof import prove
from ciguard.guard.text import render

if TYPE_CHECKING:
    from ciguard.invocation import Invocation


@click.command()
@click.option("--plan", "plan_path", required=True, metavar="FILE", help="The plan of the run.")
@click.option(
    "--records", required=True, metavar="DIR", help="All records, in any folders below it."
)
@click.option(
    "--needs", metavar="JSON", help="GitHub's toJSON(needs): the text, a file that holds it, or -."
)
@click.option("--json", "wants_json", is_flag=True, help="Print the verdict as JSON.")
@click.option("--github", is_flag=True, help="Also write annotations, and outputs of the step.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    plan_path: str,
    records: str,
    needs: str | None,
    wants_json: bool,
    github: bool,
) -> int:
    """Prove that every planned unit ran and every leg ended by itself.

    In a run of GitHub Actions it asks GitHub how the jobs ended: pass GITHUB_TOKEN.

    Ends with 0 when it did and all passed, 10 when tests failed, 13 when it is incomplete.
    """
    plan = files.read_plan(invocation.folder / plan_path)
    place = invocation.folder / records
    if not place.exists():
        console.err(f"warning: {records}: no such folder, so there are no records")
    found = files.read_record_tree(place) if place.exists() else ()
    said = files.read_argument(invocation.folder, "--needs", needs) if needs is not None else None
    needed = None if said is None else jobs.decode(*said)
    now = configured_suites(invocation.config()) if plan.policy.remainder else None
    with judged_run(invocation.environ) as judged:
        platform = ask(plan, found, judged)
    verdict = prove(plan, found, needed, now, platform)
    if wants_json:
        console.out(json.dumps(as_json(verdict), indent=2))
    else:
        console.out(render(verdict))
    if github:
        # The runner reads commands from both streams; stdout stays the answer.
        for one in annotations_of(verdict):
            spelled = annotation(
                one.level, one.message, file=one.file, line=one.line, title=one.title
            )
            console.tell_runner(spelled)
        files.append_output(invocation.environ, outputs(outputs_of(verdict)))
    return verdict.exit_code
