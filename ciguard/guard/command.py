"""`ciguard guard`: reads plan and records, proves, prints."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from ciguard import console, files
from ciguard.codec.placing import HELP
from ciguard.configured import configured_suites
from ciguard.errors import CiguardError, InputError
from ciguard.github.commands import annotation, outputs
from ciguard.guard import needs as jobs
from ciguard.guard.annotations import annotations_of, outputs_of
from ciguard.guard.as_json import as_json
from ciguard.guard.asking import ask
from ciguard.guard.existing import existing
from ciguard.guard.proof import prove
from ciguard.guard.refused import refused
from ciguard.guard.text import render
from ciguard.history.carriers import load, open_carrier, unusable
from ciguard.lookup.fetched import RUN, Sources, fetched
from ciguard.repository.policies import applied

if TYPE_CHECKING:
    from ciguard.codec.history import History
    from ciguard.invocation import Invocation


WITHOUT: Final = "the run is judged without past runs"


@click.command()
@click.option("--plan", "plan_path", metavar="FILE", help="The plan of the run.")
@click.option("--records", metavar="DIR", help="All records, in any folders below it.")
@click.option("--run", "run", metavar="ID|URL", help=RUN)
@click.option("--repo", metavar="OWNER/NAME", default="", help="Whose run; else origin's.")
@click.option("--results", metavar="GLOB", multiple=True, help=HELP)
@click.option(
    "--needs", metavar="JSON", help="GitHub's toJSON(needs): the text, a file that holds it, or -."
)
@click.option(
    "--forgive",
    type=click.Choice(["none", "base"]),
    help="base: what fails on the base too does not fail a pull request.",
)
@click.option("--history", "place", metavar="FILE|branch:NAME", help="Past runs of the base.")
@click.option("--format", "shape", type=click.Choice(["text", "json"]), default="text")
@click.option("--github", is_flag=True, help="Also write annotations, and outputs of the step.")
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
    forgive: str | None,
    place: str | None,
    shape: str,
    github: bool,
) -> int:
    """Prove that every planned unit ran and every leg ended by itself.

    In a run of GitHub Actions it asks GitHub how the jobs ended: pass GITHUB_TOKEN.

    Ends with 0 when it did and all passed, 10 when tests failed, 13 when it is incomplete.
    """
    said = files.read_argument(invocation.folder, "--needs", needs) if needs is not None else None
    needed = None if said is None else jobs.decode(*said)
    with fetched(invocation, Sources(plan_path, records, results, run, repo)) as told:
        plan, arrived = told.plan, told.arrived
        if isinstance(plan, InputError):
            raise plan
        if arrived.missing:
            console.err(f"warning: {arrived.missing}")
        others = existing(plan, arrived.results)
        found = [*arrived.records, *others.records]
        # Jobs that are not ours are called as their owner likes: which is which shard is not known.
        platform = ask(plan, found, None if results else told.asked)
    now = configured_suites(invocation.config()) if plan.policy.remainder else None
    past = partial(_history, invocation)
    judged = applied(invocation, forgive, past, place=place, count=place is not None)
    verdict = prove(
        plan,
        found,
        needed,
        configured=now,
        platform=platform,
        policy=judged.policy,
        also=(*refused(arrived.problems), *others.findings),
    )
    if shape == "json":
        console.out(json.dumps(as_json(verdict), indent=2))
    else:
        console.out(render(verdict))
    if github:
        # The runner reads commands from both streams; stdout stays the answer.
        for one in annotations_of(verdict, plan.suites):
            spelled = annotation(
                one.level, one.message, file=one.file, line=one.line, title=one.title
            )
            console.tell_runner(spelled)
        files.append_output(invocation.environ, outputs(outputs_of(verdict)))
    return verdict.exit_code


def _history(invocation: Invocation, where: str) -> History | None:
    """Past runs; without them nothing is forgiven, and the verdict says so."""
    try:
        loaded = load(open_carrier(where, invocation.folder, invocation.environ))
    except CiguardError as error:
        console.err(f"warning: {unusable(where, error, WITHOUT)}")
        return None
    if not loaded.found:
        console.err(f"warning: there is no history at {where} yet: {WITHOUT}")
        return None
    return loaded.history
