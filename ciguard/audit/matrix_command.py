"""`ciguard audit --matrix --tests`: audits a matrix written by hand, and may write its plan."""

from __future__ import annotations

import io
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ciguard import console
from ciguard.audit.filters.base import LANGUAGES, Evaluator
from ciguard.audit.filters.expression import TestSet, positions_in
from ciguard.audit.findings import ORPHANS, Audit, MissingReason, audit
from ciguard.audit.next_step import NextStep, after_workflows
from ciguard.audit.rules.base import WorkflowFile
from ciguard.audit.shard_filters import (
    PLACEHOLDER,
    HandMatrix,
    ShardFilter,
    read_json,
    read_workflow,
)
from ciguard.audit.view import as_json, document, headline
from ciguard.codec import inventory_file
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.tool_listings import read_tests
from ciguard.config.file import Config
from ciguard.config.invocation import Invocation
from ciguard.config.suites import pool_of_suites, pools_of, suites_of, with_runner_pools, with_tool
from ciguard.errors import ExitCode, InputError
from ciguard.history.file import History
from ciguard.history.query import BaseQuery, medians, newest_values
from ciguard.history.stores import LoadedHistory, load, open_store
from ciguard.model import Exclusion, Orphan, UnitKey
from ciguard.model.jobs import whole_minutes
from ciguard.model.shard_names import safe_keys, safe_name
from ciguard.plan.fixed_shards import FixedAssignment, FixedJob, plan_fixed
from ciguard.plan.history_inputs import read_past
from ciguard.plan.inventory import inventory
from ciguard.plan.planner import PlanResult, Provenance
from ciguard.plan.problem import PlanOptions
from ciguard.plan.time_limits import TimeLimits
from ciguard.render.formats import as_format
from ciguard.sources import local
from ciguard.text import count_of
from ciguard.workflow.actions_address import address_and_set_up
from ciguard.workflow.yaml_values import load as load_yaml

DEFAULT_MINUTES: Final = 360  # GitHub's limit of a job that declares none
DEPTH: Final = 5  # newest values of a case, of which the median counts
_FIX: Final = (
    "list the tests as JSON with their files and categories or markers, or give the shards as JSON"
)
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
        stored = load(open_store(history, invocation.folder, invocation.environ))
        if not stored.exists:
            fix = "add runs: ciguard history add"
            raise InputError("there is no history", where=history, fix=fix)
        loaded = stored.history
        walls_s = _durations_s(loaded, [unit.unit for unit in tests.units])
        timed = sum(wall_s is not None for wall_s in walls_s)
        console.err(f"history: has the time of {timed:,} of {count_of(len(walls_s), 'test')}")
    result = audit(shards, Evaluator(tests, shards.language), walls_s)
    if output is not None:
        plan = _plan_matrix(invocation.config(), result, shards, (matrix, listing), loaded)
        local.write(output if output == "-" else invocation.folder / output, plan.content)
        count = count_of(len(plan.plan.shards), "shard")
        console.err(f"plan {plan.plan.id}: {count}, written to {output}")
    if output != "-":
        if format_ == "json":
            console.out(json.dumps(as_json(result, following), indent=1))
        else:
            console.out(as_format(document(result, following), format_))
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


def _plan_matrix(
    config: Config,
    audit: Audit,
    matrix: HandMatrix,
    files: tuple[str, str],
    history: History | None,
) -> PlanResult:
    """Plan the tests of an audit: each is assigned, excluded or an orphan.

    A test is assigned to the shards that select it; `guard` checks results by this plan. A test in
    no shard is excluded by a rule for all shards, or is an orphan.

    Args:
        files: of the matrix and of the tests, for errors.
        history: past runs with times; None for none.

    Raises:
        InputError: the tests of a shard are not known, or a suite is not configured.
    """
    tool = next(name for name, language in LANGUAGES.items() if language is matrix.language)
    config = with_tool(config, audit.tests.units, tool)
    suites = suites_of(config)
    units = inventory_file.resolve_suites(audit.tests.units, suites, files[1])
    runners = [shard.runner for shard in matrix.shards]
    pools, pool_of = with_runner_pools(pools_of(config, ()), runners)
    _reject_unknown(audit, files[0])
    assignment = _assign(audit, units, pool_of)
    common = matrix.common_text.removeprefix(f"({PLACEHOLDER})&")
    rules: dict[MissingReason, str] = {
        "outside_projects": "outside of the projects",
        "common_filter": f"filter of all shards: {common}",
    }
    minutes = max(job.timeout_minutes for job in assignment.jobs.values())
    limit = TimeLimits(minutes, minutes, 60.0 * minutes)
    options = PlanOptions(limit=limit, pool_of=pool_of_suites(config, pools))
    listed = replace(
        inventory(assignment.units, exclude={}, ordered=True),
        excluded=tuple(
            Exclusion(unit.unit, rule, unit.suite, unit.variant)
            for reason, rule in rules.items()
            for unit in _by_key(units, audit.missing[reason])
        ),
        orphans=tuple(
            Orphan(unit.unit, reason, unit.suite, unit.variant)
            for reason in ORPHANS
            for unit in _by_key(units, audit.missing[reason])
        ),
    )
    basis = read_past(
        listed, LoadedHistory(history), BaseQuery(), suites=suites, pools=pools, timeouts={}
    )
    origin = Provenance(history=basis.history_json, notes=basis.notes)
    return plan_fixed(basis.inputs, assignment, options, origin)


def _assign(
    audit: Audit, units: Sequence[InventoryUnit], pool_of: Mapping[str, str]
) -> FixedAssignment:
    """Assign tests to their shards; `pool_of` has the pool by runner, "" for an unknown one."""
    keys = _keys([shard.shard for shard in audit.shards])
    shards: dict[UnitKey, list[str]] = defaultdict(list)
    for shard in audit.shards:
        for position in positions_in(shard.selected.sure):
            shards[units[position].key].append(keys[shard.shard.name])
    return FixedAssignment(
        tuple(unit for unit in units if unit.key in shards),
        {key: tuple(names) for key, names in shards.items()},
        jobs={keys[shard.shard.name]: _job(shard.shard, pool_of) for shard in audit.shards},
    )


def _keys(shards: Sequence[ShardFilter]) -> Mapping[str, str]:
    """Return the key of each shard by its name.

    The key is made of the artifact's name, which is also the folder of the results, unless two
    shards would have the same key; then it is made of the shard's name.
    """
    keys = {shard.name: safe_name(shard.artifact) for shard in shards}
    if all(keys.values()) and len({key.lower() for key in keys.values()}) == len(keys):
        return keys
    return safe_keys(keys)


def _by_key(units: Sequence[InventoryUnit], members: int) -> Iterable[InventoryUnit]:
    listed = (units[position] for position in positions_in(members))
    return sorted(listed, key=lambda unit: unit.key)


def _job(shard: ShardFilter, pool_of: Mapping[str, str]) -> FixedJob:
    minutes = DEFAULT_MINUTES if shard.timeout_s is None else whole_minutes(shard.timeout_s)
    return FixedJob(shard.name, pool_of[shard.runner], minutes)


def _reject_unknown(audit: Audit, where: str) -> None:
    """Raise InputError for the first shard whose tests are not known."""
    unknown = [shard for shard in audit.shards if shard.selected.sure != shard.selected.possible]
    if unknown:
        first = unknown[0]
        line = f":{first.shard.line}" if first.shard.line is not None else ""
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        what = f"no plan: it is not known which tests shard {first.shard.name!r:.120}{more} selects"
        raise InputError(what, where=f"{where}{line}", fix=first.shard.unknown or _FIX)


def _durations_s(history: History, names: Sequence[str]) -> tuple[float | None, ...]:
    """Return the wall time of each test, seconds; None if the history has no time.

    The time of a test is the sum of its cases; of several suites or variants, the longest time
    counts. O(values).
    """
    values = history.values
    table = newest_values(values.wall_s, values.key, len(history.keys), DEPTH)
    sums: dict[tuple[str, str, str], float] = defaultdict(float)
    for key, median in zip(history.keys, medians(table).tolist(), strict=True):
        if median == median:  # noqa: PLR0124  # NaN: never measured
            sums[key.unit_key] += median
    longest: dict[str, float] = {}
    for (_, _, unit), wall_s in sums.items():
        longest[unit] = max(wall_s, longest.get(unit, 0.0))
    return tuple(longest.get(name) for name in names)
