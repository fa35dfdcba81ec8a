"""`ciguard audit`: a matrix written by hand against the tests that exist."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from ciguard import console
from ciguard.audit.evaluator import Evaluator
from ciguard.audit.filters.languages import LANGUAGES
from ciguard.audit.findings import audit
from ciguard.audit.fixed_plan import fixed_tests, longest_minutes
from ciguard.audit.json import as_json
from ciguard.audit.past_durations import durations_s
from ciguard.audit.shard_filters import HandMatrix, read_json
from ciguard.audit.test_set import TestSet
from ciguard.audit.view import document, headline
from ciguard.audit.workflow_filters import read_workflow
from ciguard.codec import inventory_file, tool_listings
from ciguard.codec.results.base import gunzip, read_limited
from ciguard.errors import ExitCode, InputError, UsageError
from ciguard.history.query import BaseQuery
from ciguard.history.stores import load, open_store
from ciguard.plan.deadline import TimeLimits
from ciguard.plan.fixed_shards import plan_fixed
from ciguard.plan.history_inputs import HistorySource, LoadedHistory, read_past
from ciguard.plan.inventory import inventory
from ciguard.plan.planner import Provenance
from ciguard.plan.problem_builder import PlanOptions
from ciguard.render.markdown import as_markdown
from ciguard.render.plaintext import as_text
from ciguard.sources import local
from ciguard.suites_and_pools import (
    pool_of_suites,
    pools_of,
    suites_of,
    with_runner_pools,
    with_tool,
)
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ciguard.audit.findings import Audit
    from ciguard.history.file import History
    from ciguard.invocation import Invocation
    from ciguard.model import UnitKey
    from ciguard.plan.planner import PlanResult


def _html(found: Audit) -> str:
    # Imported here: text and JSON need not pay for Jinja.
    from ciguard.render.html import as_html  # noqa: PLC0415

    return as_html(document(found))


FORMATS: Final[Mapping[str, Callable[[Audit], str]]] = {
    "text": lambda found: as_text(document(found)),
    "markdown": lambda found: as_markdown(document(found), full_text_location="the JSON"),
    "html": _html,
    "json": lambda found: json.dumps(as_json(found), indent=1),
}
_WORKFLOW: Final = re.compile(r"\.ya?ml:[\w-]+$")
CONDITIONS: Final[Mapping[str, Callable[[Audit], bool]]] = {
    "overlap": lambda found: bool(found.in_several),
    "orphan": lambda found: bool(found.orphans),
    "empty": lambda found: any(shard.is_empty for shard in found.shards),
}


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
    "--history", metavar="FILE|branch:NAME", help="Past runs: they add times to the counts."
)
@click.option(
    "--format", "format_", type=click.Choice(list(FORMATS)), default="text", help="Output format."
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
    unknown = [name for name in conditions if name not in CONDITIONS]
    if unknown:
        raise UsageError(
            f"--fail-on: no finding {unknown[0]!r}", fix=f"name: {', '.join(CONDITIONS)}"
        )
    shards = _matrix(invocation, matrix, filter_key)
    tests = _tests(invocation, listing)
    past = _history(invocation, history) if history is not None else None
    walls_s = _durations_s(past, tests) if past is not None else ()
    found = audit(shards, Evaluator(tests, shards.language), walls_s)
    if output is not None:
        made = _plan(invocation, found, shards, (matrix, listing), LoadedHistory(past))
        local.write(output if output == "-" else invocation.folder / output, made.content)
        count = count_of(len(made.plan.shards), "shard")
        console.err(f"plan {made.plan.id}: {count}, written to {output}")
    if output != "-":
        console.out(FORMATS[format_](found))
    failed = [name for name in conditions if CONDITIONS[name](found)]
    if failed:
        console.err(f"ciguard audit: found {', '.join(failed)}: {headline(found)}")
    return ExitCode.AUDIT_FINDING if failed else ExitCode.OK


def _history(invocation: Invocation, location: str) -> History:
    loaded = load(open_store(location, invocation.folder, invocation.environ))
    if not loaded.exists:
        raise InputError("there is no history", where=location, fix="add runs: ciguard history add")
    return loaded.history


def _durations_s(history: History, tests: TestSet) -> tuple[float | None, ...]:
    walls_s = durations_s(history, [unit.unit for unit in tests.units])
    known = sum(wall_s is not None for wall_s in walls_s)
    console.err(f"history: has the time of {known:,} of {count_of(len(walls_s), 'test')}")
    return walls_s


def _plan(
    invocation: Invocation,
    found: Audit,
    matrix: HandMatrix,
    files: tuple[str, str],
    past: LoadedHistory,
) -> PlanResult:
    """The plan of the matrix as it is; `files` are those of the matrix and of the tests."""
    tool = next(name for name, one in LANGUAGES.items() if one is matrix.language)
    config = with_tool(invocation.config(), found.tests.units, tool)
    suites = suites_of(config)
    units = inventory_file.resolve_suites(found.tests.units, suites, files[1])
    runners = [shard.runner for shard in matrix.shards]
    pools, pool_of = with_runner_pools(pools_of(config, ()), runners)
    tests = fixed_tests(found, units, matrix.common_text, pool_of, files[0])
    minutes = longest_minutes(tests.assignment)
    options = PlanOptions(
        limit=TimeLimits(minutes, minutes, 60.0 * minutes), pool_of=pool_of_suites(config, pools)
    )
    there = inventory(tests.assignment.units, exclude={}, ordered=True)
    source = HistorySource("", None, BaseQuery())
    basis = read_past(
        replace(there, excluded=tests.excluded, orphans=tests.orphans),
        past,
        source,
        suites=suites,
        pools=pools,
        timeouts={},
    )
    origin = Provenance(history=basis.history_json, notes=basis.notes)
    return plan_fixed(basis.inputs, tests.assignment, options, origin)


def _matrix(invocation: Invocation, matrix: str, filter_key: str) -> HandMatrix:
    path, _, job = matrix.rpartition(":") if _WORKFLOW.search(matrix) else (matrix, "", "")
    content = local.read(invocation.folder / path)
    if not path.endswith((".yml", ".yaml")):
        return read_json(io.BytesIO(content), matrix)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: {error}", where=path) from None
    return read_workflow(text, path, job, filter_key)


def _tests(invocation: Invocation, listing: str) -> TestSet:
    """The tests of a tool's own listing, else of an inventory file."""
    place = listing if listing == "-" else str(invocation.folder / listing)
    packed = io.BytesIO(local.read(place))
    content = read_limited(gunzip(packed), listing, inventory_file.MAX_BYTES)
    units = tool_listings.read_listing(content.decode("utf-8", "replace"))
    repeated: tuple[UnitKey, ...] = ()
    if units is None:
        read = inventory_file.read(io.BytesIO(content), listing)
        units, repeated = read.units, read.repeated
    if not units:
        raise InputError("no test in it", where=listing, fix="list the tests, one a line")
    counts = Counter(unit.unit for unit in units)
    twice = [name for name in counts if counts[name] > 1] + [key.unit for key in repeated]
    if twice:
        what = f"{count_of(len(twice), 'test')} listed more than once: {twice[0]!r:.120}"
        raise InputError(what, where=listing, fix="list each test once")
    return TestSet(units)
