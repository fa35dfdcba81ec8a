"""What a plan that was written down earlier does not know: units that are in none of its shards.

Each shard lists the suites that it runs itself and takes the part that falls to it by a hash, so
that every new unit runs exactly once without anybody planning it.
"""

from __future__ import annotations

import fnmatch
import os
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Iterator, Mapping

from ciguard.errors import InputError
from ciguard.model import PlannedUnit, UnitKey
from ciguard.run.frameworks.asking import asked
from ciguard.run.frameworks.table import framework

if TYPE_CHECKING:
    from typing import List, Tuple

    from ciguard.model import Plan, Shard


def with_remainder(
    plan: Plan, shard: Shard, private: str, environ: Mapping[str, str]
) -> Tuple[Shard, Tuple[UnitKey, ...]]:
    """The shard with the new units that fall to it, and those alone.

    Args:
        private: the leg's own folder, with `inside` in it.

    Raises:
        InputError: a suite cannot be listed: then nobody knows what is new.
    """
    planned = {unit.key for one in plan.shards for unit in one.units}
    ways = sorted({(unit.suite, unit.variant) for unit in shard.units})
    found = [
        key
        for way in ways
        for key in _there(plan, shard, way, private, environ)
        if key not in planned and place(key, _holders(plan, way)) == shard.key
    ]
    limits = {(unit.suite, unit.variant): unit.timeout_s for unit in shard.units}
    units = tuple(
        PlannedUnit(unit, suite, variant, timeout_s=limits[suite, variant], known=False)
        for suite, variant, unit in found
    )
    return replace(shard, units=(*shard.units, *units)), tuple(found)


def place(key: UnitKey, shards: List[str]) -> str:
    """The shard that a unit of no shard falls to: the same in every leg and on every machine."""
    return shards[zlib.crc32("\0".join(key).encode("utf-8", "surrogatepass")) % len(shards)]


def _holders(plan: Plan, way: Tuple[str, str]) -> List[str]:
    """Shards that run this suite and variant anyway: they list it, and have its processes."""
    return [
        shard.key
        for shard in plan.shards
        if any((unit.suite, unit.variant) == way for unit in shard.units)
    ]


def _there(
    plan: Plan, shard: Shard, way: Tuple[str, str], private: str, environ: Mapping[str, str]
) -> Iterator[UnitKey]:
    """All units of a suite's variant that exist now and are not excluded."""
    name, variant = way
    suite = plan.suites[name]
    listing = asked(
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
    for unit in listing.units:
        patterns = suite.exclude
        if not any(unit.unit == one or fnmatch.fnmatchcase(unit.unit, one) for one in patterns):
            yield UnitKey(name, variant, unit.unit)
