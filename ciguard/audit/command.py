"""The command `ciguard audit`: check the workflows of a repository, or a matrix of tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import click

from ciguard.config.options import format_option
from ciguard.errors import UsageError

if TYPE_CHECKING:
    from ciguard.audit.findings import Audit
    from ciguard.config.invocation import Invocation

# Findings of a matrix that `--fail-on` names.
CONDITIONS: Final[Mapping[str, Callable[[Audit], bool]]] = {
    "overlap": lambda audit: bool(audit.in_several),
    "orphan": lambda audit: bool(audit.orphans),
    "empty": lambda audit: any(shard.is_empty for shard in audit.shards),
}


@click.command()
@click.argument("repository", metavar="[OWNER/NAME]", required=False)
@click.option(
    "--workflow",
    metavar="FILE",
    default="",
    help="Workflow to audit (default: all that run tests).",
)
@click.option(
    "--runs",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="Largest number of past runs to read.",
)
@click.option(
    "--matrix",
    metavar="WORKFLOW[:JOB]|FILE",
    help="Workflow with the matrix, or JSON file of its shards.",
)
@click.option(
    "--filter-key",
    metavar="KEY",
    default="",
    help="Matrix key of the filter, such as shard.filter.",
)
@click.option(
    "--tests",
    "listing",
    metavar="FILE|-",
    help="List of the existing tests, as a tool prints it.",
)
@click.option(
    "--history", metavar="FILE|branch:NAME|URL", help="Past runs, to show times of shards."
)
@format_option("text", "markdown", "html", "json")
@click.option(
    "-o", "--output", metavar="FILE|-", help="File for a plan of the matrix, for `ciguard guard`."
)
@click.option(
    "--fail-on",
    metavar="NAME,...",
    default="",
    help=f"Findings that fail: {', '.join(CONDITIONS)}, or names of rules.",
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
    """Audit the workflows and past runs of a repository, or the shards of a matrix.

    Without OWNER/NAME, the command audits the checkout. With --matrix and --tests, it shows tests
    in no shard or in several, empty shards, and useless filters.
    """
    conditions = [name.strip() for name in fail_on.split(",") if name.strip()]
    if repository is not None and matrix is not None:
        fix = "ciguard audit OWNER/NAME, or ciguard audit --matrix FILE --tests FILE"
        raise UsageError("OWNER/NAME and --matrix", fix=fix)
    if matrix is None:
        if listing or history or output or filter_key:
            fix = "leave them out, or pass --matrix FILE"
            raise UsageError("--tests, --history, --filter-key and -o need --matrix", fix=fix)
        # Imported here: the rules take 0.3 s, and a matrix does not need them.
        from ciguard.audit.workflow_command import audit_workflows  # noqa: PLC0415

        return audit_workflows(
            invocation,
            repository=repository,
            workflow=PurePosixPath(workflow).name,
            runs=runs,
            format_=format_,
            fail_on=conditions,
        )
    if listing is None:
        raise UsageError("--matrix without --tests", fix="name the tests: --tests FILE")
    unknown = [name for name in conditions if name not in CONDITIONS]
    if unknown:
        fix = f"name: {', '.join(CONDITIONS)}"
        raise UsageError(f"--fail-on: no finding {unknown[0]!r}", fix=fix)
    # Imported here: numpy takes 0.3 s, and an audit of workflows does not need it.
    from ciguard.audit.matrix_command import audit_matrix  # noqa: PLC0415

    return audit_matrix(
        invocation,
        matrix=matrix,
        filter_key=filter_key,
        listing=listing,
        history=history,
        format_=format_,
        output=output,
        fail_on={name: CONDITIONS[name] for name in conditions},
    )
