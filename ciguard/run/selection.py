"""Selection of a leg's units: all of its shard, those up to one unit, or unfinished ones.

If the plan has the units of an earlier run or commit, or none, the leg lists its suite. Units that
no longer exist are omitted, and each new unit belongs to one shard, which is the same in all legs.
"""

from __future__ import annotations

import hashlib
import heapq
import os
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import AbstractSet, Final, Iterable, Mapping, Sequence

from ciguard.errors import InputError
from ciguard.model import SLOTS, EventLine, LegPolicy, Plan, Shard, Suite, UnitKey
from ciguard.model.listings import file_of_unit
from ciguard.model.plan import excluding_pattern
from ciguard.run.frameworks.base import ListedUnit
from ciguard.run.frameworks.id_limit import is_too_long, too_long
from ciguard.run.frameworks.listing import list_units
from ciguard.run.frameworks.registry import framework
from ciguard.run.policy.recycling import MARGIN_BYTES, MARGIN_RATIO, process_limit_bytes
from ciguard.run.policy.simulate import simulate_processes
from ciguard.run.policy.state import State
from ciguard.text import count_of, find_named, whole_name

MAX_NAMED: Final = 5  # units in an error
MAX_DIFFERENCE: Final = 10_000  # units that every leg records; the first shard's leg records more


@dataclass(frozen=True, **SLOTS)
class Selection:
    """Options of the command line that select units of a shard.

    Attributes:
        until: last unit to run, by its id or its name in a log; "" for all.
        earlier: folders with records of earlier legs of this shard.
        continues_attempt: the earlier legs are steps of this attempt; there must be one.
        unless_ended: run all units if the last attempt ended by itself.
        step_limit_s: time after the step's start in which units may begin.
    """

    until: str = ""
    earlier: tuple[str, ...] = ()
    continues_attempt: bool = False
    unless_ended: bool = False
    step_limit_s: float | None = None


ALL_UNITS: Final = Selection()


def up_to(
    shard: Shard, unit: str, suites: Mapping[str, Suite], shards: Sequence[Shard] = ()
) -> Shard:
    """Return the shard with its units up to and including one, in their order.

    In a shard with several processes, only the units of this unit's process remain, as the rules
    would divide the whole shard: among other units a test may pass.

    Args:
        unit: as in `find_named`; must name a single unit.
        shards: shards of the plan, for the error message.

    Raises:
        InputError: no unit matches, or several do; the error has similar names.
    """
    names = [whole_name(planned.key) for planned in shard.units]
    ids = [planned.unit for planned in shard.units]
    where = f"--until {unit}"
    positions = find_named(unit, ids, names)
    if not positions:
        near = get_close_matches(unit, dict.fromkeys(ids), n=MAX_NAMED)
        fix = f"did you mean {', '.join(near)}?" if near else "look for its shard in the plan"
        for other in shards:
            if any(unit in (planned.unit, whole_name(planned.key)) for planned in other.units):
                fix = f"it is in shard {other.key}"
        what = f"not among the {count_of(len(names), 'test')} of shard {shard.key}"
        raise InputError(what, where=where, fix=fix)
    if len(positions) > 1:
        what = f"{count_of(len(positions), 'test')} of shard {shard.key} have this name"
        fix = f"pass one of {', '.join(repr(names[index]) for index in positions[:MAX_NAMED])}"
        raise InputError(what, where=where, fix=fix)
    if shard.processes > 1:
        return _single_process_shard(shard, positions[0], suites)
    return replace(shard, units=shard.units[: positions[0] + 1])


def _single_process_shard(shard: Shard, index: int, suites: Mapping[str, Suite]) -> Shard:
    """Return a shard with one process: the units of the unit's process, up to this unit."""
    processes = simulate_processes(shard, suites)
    units = next(start.units for start, *_ in processes if index in start.units)
    planned = tuple(shard.units[unit] for unit in units[: units.index(index) + 1])
    budget_bytes = shard.budget_bytes
    if budget_bytes is not None:
        # The process is recycled at the same size as a process of the whole shard.
        limit = int(process_limit_bytes(State(shard, suites, LegPolicy()))) + 1
        with_margin = max(int(limit / (1 - MARGIN_RATIO)) + 1, limit + MARGIN_BYTES)
        budget_bytes = min(2 * limit, with_margin)
    return replace(shard, units=planned, processes=1, budget_bytes=budget_bytes)


def without_units(shard: Shard, finished: AbstractSet[UnitKey]) -> Shard:
    """Return the shard without its finished units, in the same order."""
    return replace(shard, units=tuple(unit for unit in shard.units if unit.key not in finished))


def listed_shard(
    plan: Plan, shard: Shard, private: str, environ: Mapping[str, str]
) -> tuple[Shard, list[EventLine]]:
    """List the suite of a shard; return the shard with existing units, and lines for the record.

    Args:
        plan: a plan whose legs list.
        private: private folder of the leg, which contains `inside`.

    Raises:
        InputError: the suite cannot be listed.
    """
    name, variant = shard.suite_key
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
        what = "cannot be listed, so that new tests would be missed"
        where = " ".join(filter(None, ("suite", name, variant)))
        raise InputError(f"{what}:\n" + "\n".join(listing.errors), where=where)
    lines = listing_lines(plan, shard, listing.units)
    state = State(shard, plan.suites, plan.policy)
    for line in lines:
        state.observe(line)
    lines += [EventLine("untried", None, None, name, variant, None, one) for one in listing.untried]
    return replace(shard, units=state.units), lines


def listing_lines(plan: Plan, shard: Shard, units: Iterable[ListedUnit]) -> list[EventLine]:
    """Return the record's lines on a listing: differences from the plan, and the shard's units.

    A `collection_error` line for each error; an `unplanned` line, with its shard, for each new
    unit; a `gone` line for each unit that no longer exists, with whether its file does; an
    `excluded` line for each excluded unit; a `listed` line for each unit of the shard, in the
    framework's order; and `listing` with counts and a hash, by which legs of a combination are
    compared. If there are many differences, each leg records its own, and the first one all.
    O(units).

    Args:
        units: all that exist. A unit whose id is too long for a line of the record does not run.
    """
    suite_key = suite, variant = shard.suite_key
    shards = [other for other in plan.shards if other.suite_key == suite_key]
    listed, errors = _check(units)
    patterns = plan.suites[suite].exclude
    excluded = {unit: pattern for unit in listed if (pattern := excluding_pattern(unit, patterns))}
    existing = [unit for unit in listed.values() if unit.unit not in excluded]
    planned = {unit.key: other.key for other in shards for unit in other.units}
    assigned = _assign(existing, suite_key, shards)
    new = {key: home for key, home in assigned.items() if key not in planned}
    gone = {key: home for key, home in sorted(planned.items()) if key not in assigned}
    names_all = (
        shard.key == min(other.key for other in shards) or len(new) + len(gone) <= MAX_DIFFERENCE
    )
    lines = [
        EventLine("collection_error", None, None, suite, variant, detail=error) for error in errors
    ]
    lines += [
        EventLine("unplanned", None, None, *key, detail=home)
        for key, home in new.items()
        if names_all or home == shard.key
    ]
    for key, home in gone.items():
        if names_all or home == shard.key:
            exists = {"file_exists": float(os.path.isfile(file_of_unit(plan.suites, key)))}
            lines.append(EventLine("gone", None, None, *key, detail=home, facts=exists))
    if names_all:
        lines += [
            EventLine("excluded", None, None, suite, variant, unit, detail=pattern)
            for unit, pattern in sorted(excluded.items())
        ]
    lines += [
        EventLine("listed", None, None, *key) for key, home in assigned.items() if home == shard.key
    ]
    counts = {
        "units": len(existing),
        "new": len(new),
        "gone": len(gone),
        "excluded": len(excluded),
        "files": len({unit.file for unit in listed.values()}),
    }
    texts = (f"{unit.unit}\0{unit.group or ''}" for _, unit in sorted(listed.items()))
    digest = hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
    lines.append(EventLine("listing", None, None, suite, variant, detail=digest, facts=counts))
    return lines


def _check(units: Iterable[ListedUnit]) -> tuple[dict[str, ListedUnit], list[str]]:
    """Return the units that can run, by id, in their order; and the errors of the others."""
    valid: dict[str, ListedUnit] = {}
    errors = []
    for unit in units:
        if is_too_long(unit.unit):
            errors.append(too_long(unit.unit))
        elif unit.unit in valid:
            errors.append(f"{unit.unit}: listed more than once, and a test runs once")
        else:
            valid[unit.unit] = unit
    return valid, errors


def _assign(
    units: Iterable[ListedUnit], suite_key: tuple[str, str], shards: Sequence[Shard]
) -> dict[UnitKey, str]:
    """Return the shard of each unit: the planned one, otherwise that of its group or file.

    A group or file without a shard, the largest first, goes to the shard with the least time. A
    unit without an estimate takes the mean of the others. A file with more than a shard's share of
    the units is divided. The order of the units has no effect, because it may differ between legs.
    """
    all_units = {UnitKey(*suite_key, unit.unit): unit for unit in units}
    sizes = Counter(unit.file for unit in all_units.values())
    assigned: dict[UnitKey, str] = {}
    homes: dict[tuple[str, str], str] = {}
    loads_us = {shard.key: 0 for shard in shards}  # whole numbers: a sum in any order is the same
    for shard in shards:
        for unit in (unit for unit in shard.units if unit.key in all_units):
            assigned[unit.key] = shard.key
            loads_us[shard.key] += round(unit.wall_s * 1e6)
            homes.setdefault(("group", all_units[unit.key].group or ""), shard.key)
            homes.setdefault(("file", all_units[unit.key].file), shard.key)
    mean_us = sum(loads_us.values()) // max(len(assigned), 1) or 1
    new: dict[tuple[str, str], list[UnitKey]] = defaultdict(list)
    for key in sorted(all_units.keys() - assigned.keys()):
        listed = all_units[key]
        kind, name = ("group", listed.group) if listed.group else ("file", listed.file)
        if not name or (kind == "file" and sizes[name] * len(shards) > len(all_units)):
            kind, name = "unit", listed.unit
        if (kind, name) in homes:
            assigned[key] = homes[kind, name]
            loads_us[assigned[key]] += mean_us
        else:
            new[kind, name].append(key)
    shortest = [(load_us, key) for key, load_us in loads_us.items()]
    heapq.heapify(shortest)
    for _, members in sorted(new.items(), key=lambda group: (-len(group[1]), group[0])):
        load_us, home = shortest[0]
        heapq.heapreplace(shortest, (load_us + mean_us * len(members), home))
        assigned.update(dict.fromkeys(members, home))
    return {key: assigned[key] for key in all_units}
