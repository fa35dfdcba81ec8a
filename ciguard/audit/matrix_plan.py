"""The plan of a matrix as written, and the plan of the same tests by `ciguard plan`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ciguard.audit.filters.languages import LANGUAGES
from ciguard.audit.fixed_plan import fixed_tests
from ciguard.audit.proposal import Proposal, layout_of
from ciguard.codec import inventory_file
from ciguard.config.suites import pool_of_suites, pools_of, suites_of, with_runner_pools, with_tool
from ciguard.history.query import BaseQuery, medians, newest_values
from ciguard.history.stores import LoadedHistory
from ciguard.plan.history_inputs import read_past
from ciguard.plan.inventory import inventory
from ciguard.plan.planner import Provenance, plan
from ciguard.plan.problem import PlanInputs, PlanOptions
from ciguard.plan.time_limits import TimeLimits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.audit.findings import Audit
    from ciguard.audit.shard_filters import HandMatrix
    from ciguard.config.file import Config
    from ciguard.history.file import History
    from ciguard.model import Plan
    from ciguard.plan.fixed_shards import FixedAssignment

DEPTH: Final = 5  # newest values of a case, of which the median counts


@dataclass(frozen=True, slots=True)
class PlanBasis:
    """The inputs of a plan of the tests of a matrix.

    Attributes:
        assignment: the tests that run, each in the shards that select it.
        options: of the matrix, without a number of shards.
    """

    assignment: FixedAssignment
    inputs: PlanInputs
    options: PlanOptions
    origin: Provenance


def plan_basis(
    config: Config,
    audit: Audit,
    matrix: HandMatrix,
    files: tuple[str, str],
    history: History | None,
) -> PlanBasis:
    """Sort the tests of an audit into assigned, excluded and orphaned tests.

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
    tests = fixed_tests(audit, units, matrix.common_text, pool_of, files[0])
    minutes = max(job.timeout_minutes for job in tests.assignment.jobs.values())
    options = PlanOptions(
        limit=TimeLimits(minutes, minutes, 60.0 * minutes), pool_of=pool_of_suites(config, pools)
    )
    listed = inventory(tests.assignment.units, exclude={}, ordered=True)
    basis = read_past(
        replace(listed, excluded=tests.excluded, orphans=tests.orphans),
        LoadedHistory(history),
        BaseQuery(),
        suites=suites,
        pools=pools,
        timeouts={},
    )
    origin = Provenance(history=basis.history_json, notes=basis.notes)
    return PlanBasis(tests.assignment, basis.inputs, options, origin)


def propose(basis: PlanBasis, matrix: Plan) -> Proposal | None:
    """Plan the tests of the matrix as `ciguard plan` would.

    Returns:
        None without a test, and for jobs of several runners: the matrix does not show which test
        needs which runner.
    """
    used = {shard.pool for shard in matrix.shards}
    if not basis.assignment.units or len(used) > 1:
        return None
    pools = {name: pool for name, pool in basis.inputs.pools.items() if name in used}
    inputs = replace(basis.inputs, pools=pools)
    options = replace(basis.options, pool_of=dict.fromkeys(basis.options.pool_of, *used))
    layouts = [layout_of(matrix)]
    count = min(len(matrix.shards), len(basis.assignment.units))
    layouts.append(layout_of(plan(inputs, replace(options, shards=count), basis.origin).plan))
    if matrix.has_timings:
        longest_s = max(shard.predicted.wall_s for shard in matrix.shards)
        same_time = replace(options, shards=None, target_wall_s=longest_s)
        layouts.append(layout_of(plan(inputs, same_time, basis.origin).plan))
    return Proposal(*layouts)


def durations_s(history: History, names: Sequence[str]) -> tuple[float | None, ...]:
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
