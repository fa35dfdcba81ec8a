"""Which units a leg takes on: all of its shard, those up to one, or those that did not end before.
Where the plan has the units of a past run or commit, those that are gone are left out, and new ones
each fall to one shard by a hash.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, AbstractSet, Final, Iterable, Mapping, Sequence

from ciguard.errors import InputError
from ciguard.model import SLOTS, EventLine, LegPolicy, Plan, Shard, Suite, UnitKey
from ciguard.model.listings import file_of_unit
from ciguard.run.frameworks.id_limit import is_too_long, too_long
from ciguard.run.frameworks.listing import list_units
from ciguard.run.frameworks.registry import framework
from ciguard.run.policy.recycling import MARGIN_BYTES, MARGIN_RATIO, process_limit_bytes
from ciguard.run.policy.simulate import simulate
from ciguard.run.policy.state import State
from ciguard.text import count_of, whole_name

if TYPE_CHECKING:
    from typing import List, Optional, Tuple

    from ciguard.run.frameworks.base import ListedUnit
    from ciguard.run.policy.actions import Start

MAX_NAMED: Final = 5  # units in an error
MAX_DIFFERENCE: Final = 10_000  # units that every leg names; more are named by the first one


@dataclass(frozen=True, **SLOTS)
class Selection:
    """What the command line says besides plan and shard.

    Attributes:
        until: the last unit to run, by its id or as a log names it; "" for all.
        earlier: folders with records of legs that began this shard.
        continues_attempt: the earlier legs are steps of this attempt, and there is one.
        unless_ended: where the last attempt ended by itself, everything is to run again.
        step_limit_s: how long units may be begun, seconds from the step's start.
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
    """The shard with its units up to and including one, in their order.

    Of a shard with several processes side by side only those of that one's process, as the rules
    share the whole shard out: in other company a test may pass.

    Args:
        unit: its id; where suites or variants share that, its name as `whole_name` gives it. The
            end of an id, or any part of it, where only one has it.
        shards: of the plan; one of them may have it.

    Raises:
        InputError: it is not there, or it is several; names what is near.
    """
    names = [whole_name(one.key) for one in shard.units]
    found = [place for place, one in enumerate(shard.units) if unit in (one.unit, names[place])]
    where = f"--until {unit}"
    if not found:
        ends = (f":{unit}", f".{unit}", f"/{unit}")
        found = [place for place, one in enumerate(shard.units) if one.unit.endswith(ends)]
    if not found:
        found = [place for place, one in enumerate(shard.units) if unit in one.unit]
    if not found:
        near = get_close_matches(unit, dict.fromkeys(one.unit for one in shard.units), n=MAX_NAMED)
        fix = f"did you mean {', '.join(near)}?" if near else "look for its shard in the plan"
        for other in shards:
            if any(unit in (one.unit, whole_name(one.key)) for one in other.units):
                fix = f"it is in shard {other.key}"
        what = f"not among the {count_of(len(names), 'test')} of shard {shard.key}"
        raise InputError(what, where=where, fix=fix)
    if len(found) > 1:
        what = f"{count_of(len(found), 'test')} of shard {shard.key} are called so"
        fix = f"pass one of {', '.join(repr(names[place]) for place in found[:MAX_NAMED])}"
        raise InputError(what, where=where, fix=fix)
    if shard.processes > 1:
        return _single_process_shard(shard, found[0], suites)
    return replace(shard, units=shard.units[: found[0] + 1])


def _single_process_shard(shard: Shard, index: int, suites: Mapping[str, Suite]) -> Shard:
    """What the process of a unit does up to it, as a shard with that process alone."""
    state = State(shard, suites, LegPolicy(guard_rail="off"))

    def length_s(start: Start) -> float:
        suite = suites[start.suite]
        tests_s = sum(shard.units[one].wall_s for one in start.units)
        return suite.setup_s + tests_s + suite.teardown_s

    units = next(start.units for start, _ in simulate(state, length_s) if index in start.units)
    company = tuple(shard.units[one] for one in units[: units.index(index) + 1])
    budget_bytes = shard.budget_bytes
    if budget_bytes is not None:
        # The one process is to be recycled where it was as one of several.
        cap = int(process_limit_bytes(state)) + 1
        budget_bytes = min(2 * cap, max(int(cap / (1 - MARGIN_RATIO)) + 1, cap + MARGIN_BYTES))
    return replace(shard, units=company, processes=1, budget_bytes=budget_bytes)


def without_units(shard: Shard, ended: AbstractSet[UnitKey]) -> Shard:
    """The shard with what is left of its units, in their order."""
    return replace(shard, units=tuple(unit for unit in shard.units if unit.key not in ended))


def listed_shard(
    plan: Plan, shard: Shard, private: str, environ: Mapping[str, str]
) -> Tuple[Shard, List[EventLine]]:
    """The shard with the units that exist, by a listing of its own, and what is recorded of that.

    Args:
        plan: one whose legs list.
        private: the leg's own folder, with `inside` in it.

    Raises:
        InputError: its suite cannot be listed.
    """
    lines = listing_lines(plan, shard, _list_suite(plan, shard, private, environ))
    state = State(shard, plan.suites, plan.policy)
    for line in lines:
        state.observe(line)
    return replace(shard, units=state.units), lines


def read_answer(plan: Plan, shard: Shard, answer: bytes) -> Tuple[ListedUnit, ...]:
    """The units that a tested process of the shard listed."""
    suite = plan.suites[shard.suite_key[0]]
    return framework(suite.framework).read_listing(suite, answer, b"", 0).units


def listing_lines(plan: Plan, shard: Shard, units: Iterable[ListedUnit]) -> List[EventLine]:
    """What a leg found out about its suite and variant, where the plan has units of the past.

    An `unplanned` line, with its shard, for each unit that is new; a `gone` line for each that is
    no longer there, and whether its file is; an `excluded` line for each that nobody is to run; a
    `listed` line for each of the shard's own, in the framework's order; and `listing` with counts
    and a hash, by which legs of a combination are compared. Of many differences each leg names its
    own, and the first one all. O(units).

    Args:
        units: all that exist. One whose id no line of a record can hold is an error, and not run.
    """
    suite_key = suite, variant = shard.suite_key
    keys = [one.key for one in plan.shards if one.suite_key == suite_key]
    listed, errors = _checked(units)
    patterns = plan.suites[suite].exclude
    excluded = {unit: pattern for unit in listed if (pattern := _excluding_pattern(unit, patterns))}
    there = [unit for unit in listed.values() if unit.unit not in excluded]
    planned = {
        unit.key: one.key for one in plan.shards if one.suite_key == suite_key for unit in one.units
    }
    homes = _homes(there, suite_key, planned, keys)
    new = {key: home for key, home in homes.items() if key not in planned}
    gone = {key: home for key, home in sorted(planned.items()) if key not in homes}
    names_all = shard.key == min(keys) or len(new) + len(gone) <= MAX_DIFFERENCE
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
        EventLine("listed", None, None, *key) for key, home in homes.items() if home == shard.key
    ]
    counts = {
        "units": len(there),
        "new": len(new),
        "gone": len(gone),
        "excluded": len(excluded),
        "files": len({unit.file for unit in listed.values()}),
    }
    seen = "\n".join(f"{unit.unit}\0{unit.group or ''}" for _, unit in sorted(listed.items()))
    digest = hashlib.sha256(seen.encode("utf-8", "surrogatepass")).hexdigest()
    lines.append(EventLine("listing", None, None, suite, variant, detail=digest, facts=counts))
    return lines


def _checked(units: Iterable[ListedUnit]) -> Tuple[dict[str, ListedUnit], List[str]]:
    """The units by id, in their order, without those that cannot run; and what is wrong."""
    found: dict[str, ListedUnit] = {}
    errors = []
    for unit in units:
        if is_too_long(unit.unit):
            errors.append(too_long(unit.unit))
        elif unit.unit in found:
            errors.append(f"{unit.unit}: listed more than once, and a test runs once")
        else:
            found[unit.unit] = unit
    return found, errors


def _homes(
    units: Iterable[ListedUnit],
    suite_key: Tuple[str, str],
    planned: Mapping[UnitKey, str],
    shards: List[str],
) -> dict[UnitKey, str]:
    """By unit, in their order, the shard that runs it: the planned one, else that of its group or
    file, else by a hash of that. A file with more than a shard's share of the units is divided.
    """
    all_units = [(UnitKey(*suite_key, unit.unit), unit) for unit in units]
    sizes = Counter(unit.file for _, unit in all_units)
    known: dict[Tuple[str, str], str] = {}
    for key, unit in all_units:
        if key in planned:
            known.setdefault(("group", unit.group or ""), planned[key])
            known.setdefault(("file", unit.file), planned[key])
    found = {}
    for key, unit in all_units:
        kind, name = ("group", unit.group) if unit.group else ("file", unit.file)
        if not name or (kind == "file" and sizes[name] * len(shards) > len(all_units)):
            kind, name = "unit", unit.unit
        home = known.get((kind, name)) or shard_by_hash(key._replace(unit=name), shards)
        found[key] = planned.get(key, home)
    return found


def shard_by_hash(key: UnitKey, shards: List[str]) -> str:
    """The shard that a unit of no shard falls to: the same in every leg and on every machine."""
    return shards[zlib.crc32("\0".join(key).encode("utf-8", "surrogatepass")) % len(shards)]


def _excluding_pattern(unit: str, patterns: Iterable[str]) -> Optional[str]:
    return next((one for one in patterns if unit == one or fnmatch.fnmatchcase(unit, one)), None)


def _list_suite(
    plan: Plan, shard: Shard, private: str, environ: Mapping[str, str]
) -> Tuple[ListedUnit, ...]:
    """All units of the shard's suite and variant that exist now."""
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
    return listing.units
