"""The assignment of tests to the shards of a matrix as written; `guard` checks results by it. Pure.

A test is assigned to the shards that select it. A test in no shard is excluded by a rule for all
shards, or is an orphan.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.audit.filters.expression import positions_in
from ciguard.audit.findings import ORPHANS, Audit, MissingReason, SelectedShard
from ciguard.audit.shard_filters import PLACEHOLDER, ShardFilter
from ciguard.errors import InputError
from ciguard.model import Exclusion, Orphan, UnitKey
from ciguard.model.jobs import whole_minutes
from ciguard.model.shard_names import safe_keys, safe_name
from ciguard.plan.fixed_shards import FixedAssignment, FixedJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.codec.inventory_file import InventoryUnit

DEFAULT_MINUTES: Final = 360  # GitHub's limit of a job that declares none
OUTSIDE: Final = "outside of the projects"


@dataclass(frozen=True, slots=True)
class FixedTests:
    """All tests: in shards, excluded by a rule, or in no shard."""

    assignment: FixedAssignment
    excluded: tuple[Exclusion, ...]
    orphans: tuple[Orphan, ...]


def fixed_tests(
    audit: Audit,
    units: Sequence[InventoryUnit],
    common_text: str,
    pool_of: Mapping[str, str],
    where: str,
) -> FixedTests:
    """Turn an audit into the assignment of a plan.

    Args:
        units: the tests of the audit in its order, with their suites.
        common_text: the filter that all shards share, as written.
        pool_of: pool by runner; "" for an unknown runner.
        where: the file of the matrix.

    Raises:
        InputError: the tests of a shard are not known.
    """
    _reject_unknown(audit, where)
    keys = _keys([shard.shard for shard in audit.shards])
    shards: dict[UnitKey, list[str]] = defaultdict(list)
    for shard in audit.shards:
        for position in positions_in(shard.selected.sure):
            shards[units[position].key].append(keys[shard.shard.name])
    jobs = {keys[shard.shard.name]: _job(shard.shard, pool_of) for shard in audit.shards}
    rules: dict[MissingReason, str] = {
        "outside_projects": OUTSIDE,
        "common_filter": f"filter of all shards: {common_text.removeprefix(f'({PLACEHOLDER})&')}",
    }
    return FixedTests(
        FixedAssignment(
            tuple(unit for unit in units if unit.key in shards),
            {key: tuple(names) for key, names in shards.items()},
            jobs=jobs,
        ),
        tuple(
            Exclusion(unit.unit, rule, unit.suite, unit.variant)
            for reason, rule in rules.items()
            for unit in _by_key(units, audit.missing[reason])
        ),
        tuple(
            Orphan(unit.unit, reason, unit.suite, unit.variant)
            for reason in ORPHANS
            for unit in _by_key(units, audit.missing[reason])
        ),
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
    return sorted(
        (units[position] for position in positions_in(members)), key=lambda unit: unit.key
    )


def _job(shard: ShardFilter, pool_of: Mapping[str, str]) -> FixedJob:
    minutes = DEFAULT_MINUTES
    if shard.timeout_s is not None:
        minutes = whole_minutes(shard.timeout_s)
    return FixedJob(shard.name, pool_of[shard.runner], minutes)


def _reject_unknown(audit: Audit, where: str) -> None:
    """Raise InputError for the first shard whose tests are not known."""
    unknown = [shard for shard in audit.shards if shard.selected.sure != shard.selected.possible]
    if unknown:
        first = unknown[0]
        line = f":{first.shard.line}" if first.shard.line is not None else ""
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        what = f"no plan: it is not known which tests shard {first.shard.name!r:.120}{more} selects"
        raise InputError(what, where=f"{where}{line}", fix=_advice(first))


def _advice(unknown: SelectedShard) -> str:
    if unknown.shard.unknown:
        return unknown.shard.unknown
    names = [term.text for term in unknown.unsure if not term.is_label]
    if not names:  # neither in the shard's own filter nor in the common one
        return "list the tests as JSON with their files and categories"
    fix = "list the tests as JSON with their categories or markers, or give the shards as JSON"
    return f"ciguard cannot evaluate {', '.join(names):.200}: {fix}"
