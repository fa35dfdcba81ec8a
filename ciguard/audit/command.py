"""`ciguard audit`: a matrix written by hand against its tests, or a repository on GitHub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from ciguard.audit.matrix_command import CONDITIONS, audit_matrix
from ciguard.errors import UsageError

if TYPE_CHECKING:
    from ciguard.config.invocation import Invocation

FORMATS: Final = ("text", "markdown", "html", "json")


@click.command()
@click.argument("repository", metavar="[OWNER/NAME]", required=False)
@click.option(
    "--workflow",
    metavar="FILE",
    default="",
    help="Workflow of OWNER/NAME to audit (default: all that run tests).",
)
@click.option(
    "--runs",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="Runs of OWNER/NAME to read at most.",
)
@click.option(
    "--matrix",
    metavar="WORKFLOW[:JOB]|FILE",
    help="Workflow with the matrix, or its shards as JSON.",
)
@click.option(
    "--filter-key",
    metavar="KEY",
    default="",
    help="Matrix key of a shard's filter, as shard.filter (default: found in the command).",
)
@click.option(
    "--tests",
    "listing",
    metavar="FILE|-",
    help="Tests that exist: what a tool lists, or --inventory of `ciguard plan` takes.",
)
@click.option(
    "--history", metavar="FILE|branch:NAME|URL", help="Past runs: they add times to the counts."
)
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="text", help="Output format."
)
@click.option(
    "-o", "--output", metavar="FILE|-", help="File for the plan of the matrix, for `ciguard guard`."
)
@click.option(
    "--fail-on",
    metavar="LIST",
    default="",
    help=f"Findings that end with 14: {', '.join(CONDITIONS)}, or rules; comma-separated.",
)
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    repository: str | None,
    workflow: str,
    runs: int,
    matrix: str | None,
    filter_key: str,
    listing: str | None,
    history: str | None,
    format_: str,
    output: str | None,
    fail_on: str,
) -> int:
    """Compare a matrix written by hand with the tests that exist, or audit a repository.

    With --matrix and --tests, shows the tests in no shard and in several, empty shards, terms of
    filters that match nothing or everything; -o writes the plan of the matrix as it is, for
    `ciguard guard --results`. With OWNER/NAME, reads the workflows and the last runs from GitHub,
    and shows what the rules find in them. The command changes nothing else.
    """
    conditions = [name.strip() for name in fail_on.split(",") if name.strip()]
    if (repository is None) == (matrix is None):
        what = "neither OWNER/NAME nor --matrix" if matrix is None else "OWNER/NAME and --matrix"
        fix = "ciguard audit OWNER/NAME, or ciguard audit --matrix FILE --tests FILE"
        raise UsageError(what, fix=fix)
    if repository is not None:
        if listing or history or output or filter_key:
            fix = "leave them out, or pass --matrix FILE in the place of OWNER/NAME"
            raise UsageError("--tests, --history, --filter-key and -o need --matrix", fix=fix)
        # Imported here: pydantic and httpx cost 0.2 s that a matrix need not pay.
        from ciguard.audit.repository_command import audit_remote  # noqa: PLC0415

        return audit_remote(
            invocation,
            repository=repository,
            workflow=workflow,
            runs=runs,
            format_=format_,
            fail_on=conditions,
        )
    if matrix is None or listing is None:
        raise UsageError("--matrix without --tests", fix="name the tests: --tests FILE")
    return audit_matrix(
        invocation,
        matrix=matrix,
        filter_key=filter_key,
        listing=listing,
        history=history,
        format_=format_,
        output=output,
        fail_on=conditions,
    )
