"""`ciguard audit --matrix --tests`: audits a matrix written by hand, and may write its plan."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Final

from ciguard import console
from ciguard.audit.filters.base import Evaluator
from ciguard.audit.filters.expression import TestSet
from ciguard.audit.findings import audit
from ciguard.audit.next_step import NextStep, after_workflows
from ciguard.audit.rules.base import WorkflowFile
from ciguard.audit.shard_filters import HandMatrix, read_json, read_workflow
from ciguard.audit.view import as_json, document, headline
from ciguard.codec.tool_listings import read_tests
from ciguard.errors import ExitCode, InputError
from ciguard.history.stores import load, open_store
from ciguard.render.formats import as_format
from ciguard.sources import local
from ciguard.text import count_of
from ciguard.workflow.actions_address import address_and_set_up
from ciguard.workflow.yaml_values import load as load_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ciguard.audit.findings import Audit
    from ciguard.config.invocation import Invocation

_TARGET: Final = re.compile(r"(.+\.ya?ml):([\w-]+)")  # workflow and job


def audit_matrix(
    invocation: Invocation,
    *,
    matrix: str,
    filter_key: str,
    listing: str,
    history: str | None,
    format_: str,
    output: str | None,
    fail_on: Mapping[str, Callable[[Audit], bool]],
) -> int:
    """Audit a matrix, print the findings, and write the plan of the matrix to `output`.

    Raises:
        InputError: the matrix, the tests or the history cannot be read.
    """
    shards, following = _matrix(invocation, matrix, filter_key)
    path = listing if listing == "-" else str(invocation.folder / listing)
    # Paths below the working folder become relative to it.
    tests = TestSet(read_tests(local.read(path), listing, invocation.folder.resolve().as_posix()))
    loaded, walls_s = None, tuple[float | None, ...]()
    if history is not None:
        from ciguard.audit.matrix_plan import durations_s  # noqa: PLC0415

        stored = load(open_store(history, invocation.folder, invocation.environ))
        if not stored.exists:
            fix = "add runs: ciguard history add"
            raise InputError("there is no history", where=history, fix=fix)
        loaded = stored.history
        walls_s = durations_s(loaded, [unit.unit for unit in tests.units])
        timed = sum(wall_s is not None for wall_s in walls_s)
        console.err(f"history: has the time of {timed:,} of {count_of(len(walls_s), 'test')}")
    result = audit(shards, Evaluator(tests, shards.language), walls_s)
    if output is not None:
        # Imported here, numpy takes as long as an audit.
        from ciguard.audit.matrix_plan import plan_matrix  # noqa: PLC0415

        plan = plan_matrix(invocation.config(), result, shards, (matrix, listing), loaded)
        local.write(output if output == "-" else invocation.folder / output, plan.content)
        count = count_of(len(plan.plan.shards), "shard")
        console.err(f"plan {plan.plan.id}: {count}, written to {output}")
    if output != "-":
        page = result, following
        is_json = format_ == "json"
        answer = (
            json.dumps(as_json(*page), indent=1) if is_json else as_format(document(*page), format_)
        )
        console.out(answer)
    failed = [name for name, is_found in fail_on.items() if is_found(result)]
    if failed:
        console.err(f"ciguard audit: found {', '.join(failed)}: {headline(result)}")
    elif fail_on and result.undecided:
        # A gate that cannot be decided must not be green.
        console.err(f"ciguard audit: {', '.join(fail_on)} not decided: {headline(result)}")
        failed = [*fail_on]
    return ExitCode.AUDIT_FINDING if failed else ExitCode.OK


def _matrix(
    invocation: Invocation, matrix: str, filter_key: str
) -> tuple[HandMatrix, NextStep | None]:
    """Read the matrix, and what follows its audit if a workflow has it."""
    target = _TARGET.fullmatch(matrix)
    path, job = target.groups() if target else (matrix, "")
    content = local.read(invocation.folder / path)
    if not path.endswith((".yml", ".yaml")):
        return read_json(io.BytesIO(content), matrix), None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: {error}", where=path) from None
    shards = read_workflow(text, path, job, filter_key)
    file = WorkflowFile(path, text, load_yaml(text, path))
    address = address_and_set_up(invocation.folder, invocation.environ)
    return shards, after_workflows([file], *address, str(shards.job))
