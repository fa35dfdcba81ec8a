"""The half of `ciguard audit` that reads a matrix written by hand, and the tests that exist."""

from __future__ import annotations

import io
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from ciguard import console
from ciguard.audit import tool_listings
from ciguard.audit.filters.base import Evaluator
from ciguard.audit.findings import Audit, audit
from ciguard.audit.output_formats import FORMATS
from ciguard.audit.proposal import Outlook, WorkflowChange, propose_by_count
from ciguard.audit.shard_filters import HandMatrix, read_json, read_workflow
from ciguard.audit.test_set import TestSet
from ciguard.audit.view import as_json, document, headline
from ciguard.codec import inventory_file
from ciguard.codec.unpack_limits import gunzip, read_limited
from ciguard.errors import ExitCode, InputError, UsageError
from ciguard.history.stores import load, open_store
from ciguard.sources import local
from ciguard.text import count_of
from ciguard.workflow.guard_job import split_target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ciguard.config.invocation import Invocation
    from ciguard.history.file import History
    from ciguard.model import UnitKey


CONDITIONS: Final[Mapping[str, Callable[[Audit], bool]]] = {
    "overlap": lambda found: bool(found.in_several),
    "orphan": lambda found: bool(found.orphans),
    "empty": lambda found: any(shard.is_empty for shard in found.shards),
}


def audit_matrix(
    invocation: Invocation,
    *,
    matrix: str,
    filter_key: str,
    listing: str,
    history: str | None,
    format_: str,
    output: str | None,
    fail_on: Sequence[str],
) -> int:
    """Audit a matrix, print what was found, and write its plan where one is wanted.

    Raises:
        UsageError: no finding has that name.
        InputError: the matrix, the tests or the history cannot be read.
    """
    unknown = [name for name in fail_on if name not in CONDITIONS]
    if unknown:
        raise UsageError(
            f"--fail-on: no finding {unknown[0]!r}", fix=f"name: {', '.join(CONDITIONS)}"
        )
    shards = _matrix(invocation, matrix, filter_key)
    tests = _tests(invocation, listing)
    past = _history(invocation, history) if history is not None else None
    walls_s = _durations_s(past, tests) if past is not None else ()
    found = audit(shards, Evaluator(tests, shards.language), walls_s)
    proposal = propose_by_count(found)
    # Without times, a plan has nothing to add to the counts.
    if output is not None or (past is not None and not found.undecided):
        # Imported here, as what `init` would write: numpy and templates cost as much as an audit.
        from ciguard.audit.matrix_plan import plan_as_it_is, plan_basis, propose  # noqa: PLC0415

        basis = plan_basis(invocation.config(), found, shards, (matrix, listing), past)
        made = plan_as_it_is(basis)
        proposal = propose(basis, made.plan) if past is not None else proposal
        if output is not None:
            local.write(output if output == "-" else invocation.folder / output, made.content)
            count = count_of(len(made.plan.shards), "shard")
            console.err(f"plan {made.plan.id}: {count}, written to {output}")
    if output != "-":
        outlook = Outlook(proposal, _next_change(invocation, matrix, shards, filter_key))
        blocks, values = partial(document, found, outlook), partial(as_json, found, outlook)
        console.out(FORMATS[format_](blocks, values))
    failed: Sequence[str] = [name for name in fail_on if CONDITIONS[name](found)]
    if failed:
        console.err(f"ciguard audit: found {', '.join(failed)}: {headline(found)}")
    elif fail_on and found.undecided:
        # A gate that nothing can decide must not be green.
        console.err(f"ciguard audit: {', '.join(fail_on)} not decided: {headline(found)}")
        failed = fail_on
    return ExitCode.AUDIT_FINDING if failed else ExitCode.OK


def _next_change(
    invocation: Invocation, matrix: str, shards: HandMatrix, filter_key: str
) -> WorkflowChange | None:
    path, job = split_target(matrix)
    if not _is_workflow(path):
        return None
    from ciguard.audit.next_change import next_change  # noqa: PLC0415

    folder, config = invocation.folder, invocation.config()
    labels = shards.has_labels
    return next_change(folder, config, path, job, filter_key=filter_key, needs_labels=labels)


def _is_workflow(path: str) -> bool:
    return path.endswith((".yml", ".yaml"))


def _history(invocation: Invocation, location: str) -> History:
    loaded = load(open_store(location, invocation.folder, invocation.environ))
    if not loaded.exists:
        raise InputError("there is no history", where=location, fix="add runs: ciguard history add")
    return loaded.history


def _durations_s(history: History, tests: TestSet) -> tuple[float | None, ...]:
    from ciguard.audit.matrix_plan import durations_s  # noqa: PLC0415

    walls_s = durations_s(history, [unit.unit for unit in tests.units])
    known = sum(wall_s is not None for wall_s in walls_s)
    console.err(f"history: has the time of {known:,} of {count_of(len(walls_s), 'test')}")
    return walls_s


def _matrix(invocation: Invocation, matrix: str, filter_key: str) -> HandMatrix:
    path, job = split_target(matrix)
    content = local.read(invocation.folder / path)
    if not _is_workflow(path):
        return read_json(io.BytesIO(content), matrix)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: {error}", where=path) from None
    return read_workflow(text, path, job, filter_key)


def _tests(invocation: Invocation, listing: str) -> TestSet:
    """The tests of a tool's own listing, else of an inventory file.

    Paths below the working folder are relative to it, as in result files.

    Raises:
        InputError: no test, a test twice, or a listing that is damaged.
    """
    place = listing if listing == "-" else str(invocation.folder / listing)
    packed = io.BytesIO(local.read(place))
    content = _as_utf8(read_limited(gunzip(packed), listing, inventory_file.MAX_BYTES), listing)
    try:
        units = tool_listings.read_listing(content.decode("utf-8-sig", "replace"))
    except InputError as error:
        raise InputError(error.what, where=listing, fix=error.fix) from error
    repeated: tuple[UnitKey, ...] = ()
    if units is None:
        read = inventory_file.read(io.BytesIO(content), listing)
        units, repeated = read.units, read.repeated
    if not units:
        raise InputError("no test in it", where=listing, fix="list the tests, one a line")
    units = tool_listings.relative_to(units, invocation.folder.resolve().as_posix())
    counts = Counter(unit.unit for unit in units)
    twice = [name for name in counts if counts[name] > 1] + [key.unit for key in repeated]
    if twice:
        what = f"{count_of(len(twice), 'test')} listed more than once: {twice[0]!r:.120}"
        raise InputError(what, where=listing, fix="list each test once")
    return TestSet(units)


def _as_utf8(content: bytes, listing: str) -> bytes:
    """Bytes as they are, or UTF-16 by its byte order mark: `>` of Windows PowerShell writes it."""
    if not content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return content
    try:
        return content.decode("utf-16").encode()
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-16: {error}", where=listing, fix="write UTF-8") from None
