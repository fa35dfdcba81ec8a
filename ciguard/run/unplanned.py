"""What a plan that was written down earlier does not know: units that are in none of its shards.

Each shard lists the suites that it runs itself and takes the part that falls to it by a hash, so
that every new unit runs exactly once without anybody planning it.
"""

from __future__ import annotations

import fnmatch
import os
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Iterable, Mapping

from ciguard.errors import InputError
from ciguard.model import PlannedUnit, UnitKey
from ciguard.run.frameworks.listing import list_units
from ciguard.run.frameworks.registry import framework

if TYPE_CHECKING:
    from typing import List, Tuple

    from ciguard.model import Plan, Shard
    from ciguard.run.frameworks.base import ListedUnit


def with_unplanned_units(
    plan: Plan, shard: Shard, private: str, environ: Mapping[str, str]
) -> Tuple[Shard, Tuple[UnitKey, ...]]:
    """The shard with the new units that fall to it, and those alone.

    Args:
        private: the leg's own folder, with `inside` in it.

    Raises:
        InputError: a suite cannot be listed: then nobody knows what is new.
    """
    suite_keys = sorted({(unit.suite, unit.variant) for unit in shard.units})
    listed = {key: _list_suite(plan, shard, key, private, environ) for key in suite_keys}
    found = unplanned_units(plan, shard.key, listed)
    units = tuple(
        PlannedUnit(
            unit, suite, variant, timeout_s=_limit_s(shard, suite, variant), has_history=False
        )
        for suite, variant, unit in found
    )
    return replace(shard, units=(*shard.units, *units)), found


def unplanned_units(
    plan: Plan, shard: str, listed: Mapping[Tuple[str, str], Iterable[ListedUnit]]
) -> Tuple[UnitKey, ...]:
    """Units that fall to a shard, are in no shard of the plan and are not excluded. Pure.

    Args:
        listed: by suite and variant, all units that exist now.
    """
    planned = {unit.key for one in plan.shards for unit in one.units}
    found = []
    for (suite, variant), units in listed.items():
        groups = {
            UnitKey(suite, variant, unit.unit): unit.group
            for unit in units
            if not _is_excluded(unit.unit, plan.suites[suite].exclude)
        }
        holders = _shards_with_suite(plan, (suite, variant))
        homes = _shard_by_group(plan, groups)
        for key, group in groups.items():
            group_key = key._replace(unit=group) if group else key
            home = homes.get(group or "") or shard_by_hash(group_key, holders)
            if key not in planned and home == shard:
                found.append(key)
    return tuple(found)


def shard_by_hash(key: UnitKey, shards: List[str]) -> str:
    """The shard that a unit of no shard falls to: the same in every leg and on every machine."""
    return shards[zlib.crc32("\0".join(key).encode("utf-8", "surrogatepass")) % len(shards)]


def _shard_by_group(plan: Plan, groups: Mapping[UnitKey, str | None]) -> dict[str, str]:
    """By group of the project's own, the first shard that has a unit of it."""
    found: dict[str, str] = {}
    for shard in plan.shards:
        for unit in shard.units:
            group = groups.get(unit.key)
            if group:
                found.setdefault(group, shard.key)
    return found


def _limit_s(shard: Shard, suite: str, variant: str) -> float | None:
    """The longest that a unit of this suite and variant may take here; None if one has no limit."""
    limits = [one.timeout_s for one in shard.units if (one.suite, one.variant) == (suite, variant)]
    known = [limit for limit in limits if limit is not None]
    return max(known) if known and len(known) == len(limits) else None


def _shards_with_suite(plan: Plan, suite_key: Tuple[str, str]) -> List[str]:
    """Shards that run this suite and variant anyway: they list it, and have its processes."""
    return [
        shard.key
        for shard in plan.shards
        if any((unit.suite, unit.variant) == suite_key for unit in shard.units)
    ]


def _is_excluded(unit: str, patterns: Iterable[str]) -> bool:
    return any(unit == one or fnmatch.fnmatchcase(unit, one) for one in patterns)


def _list_suite(
    plan: Plan, shard: Shard, suite_key: Tuple[str, str], private: str, environ: Mapping[str, str]
) -> Tuple[ListedUnit, ...]:
    """All units of a suite's variant that exist now."""
    name, variant = suite_key
    suite = plan.suites[name]
    listing = list_units(
        framework(suite.framework),
        suite,
        variant,
        folder=os.getcwd(),
        private=private,
        inside=os.path.join(private, "inside"),
        environ=environ,
        pool_env=plan.pools[shard.pool].env,
    )
    if listing.errors:
        what = "cannot be listed, so that new units would be missed"
        where = " ".join(filter(None, ("suite", name, variant)))
        raise InputError(f"{what}:\n" + "\n".join(listing.errors), where=where)
    return listing.units
