"""What exists, by the listings of a run's legs: for a plan with units of the past. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, AbstractSet, Final, Iterable, Mapping, Sequence

from ciguard.model.plan import Exclusion, PlannedUnit, exclusion_rule, repository_path
from ciguard.model.types import SLOTS, UnitKey

if TYPE_CHECKING:
    from ciguard.model.plan import InventorySummary, Plan, Shard, Suite
    from ciguard.model.record import Record

LISTING_EVENT_KINDS: Final = ("unplanned", "gone", "excluded", "listed", "listing")
MAX_ERRORS: Final = 20  # of a combination: a module that all import fails in each file


@dataclass(frozen=True, **SLOTS)
class LegListing:
    """What one leg says of its suite and variant.

    Attributes:
        hash: of all units that it listed; `units` counts those that are not excluded.
        new: by shard, units that the plan does not know.
        gone: units that were planned, and are not there; whether their file is.
        names_all: `new` and `gone` are complete; else they are those of the leg's own shard.
    """

    hash: str
    units: int
    new: Mapping[str, tuple[UnitKey, ...]]
    gone: Mapping[UnitKey, bool]
    names_all: bool
    excluded: tuple[Exclusion, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, **SLOTS)
class Disagreement:
    """Legs of one suite and variant that listed different units.

    Attributes:
        shards: of each listing. units: those that are not in all listings, as far as named.
    """

    suite: str
    variant: str
    shards: tuple[tuple[str, ...], ...]
    units: tuple[UnitKey, ...]


@dataclass(frozen=True, **SLOTS)
class ListedPlan:
    """The plan with the units that exist.

    Attributes:
        new, gone: how many units the plan did not know, and has in vain; None where its units were
            listed before it was made.
        unlisted: shards whose record has no listing.
        empty: suites and variants of which a listing has no unit.
        short: those whose shards together have not as many units as their one listing.
    """

    plan: Plan
    new: int | None = None
    gone: int | None = None
    disagreements: tuple[Disagreement, ...] = ()
    unlisted: tuple[str, ...] = ()
    empty: tuple[tuple[str, str], ...] = ()
    short: tuple[tuple[str, str], ...] = ()


def read_listing(record: Record, suite_key: tuple[str, str]) -> LegListing | None:
    """The listing in a record; None where its leg did not come to it."""
    last = next((one for one in reversed(record.events) if one.kind == "listing"), None)
    if last is None or (last.suite, last.variant) != suite_key:
        return None
    # Once each: every step of a leg lists.
    new: dict[str, dict[UnitKey, None]] = defaultdict(dict)
    gone: dict[UnitKey, bool] = {}
    excluded: dict[Exclusion, None] = {}
    errors: dict[str, None] = {}
    for event in record.events:
        key = UnitKey(event.suite, event.variant, event.unit or "")
        if event.kind == "unplanned":
            new[event.detail][key] = None
        elif event.kind == "gone":
            gone[key] = bool(event.facts.get("file_exists"))
        elif event.kind == "excluded":
            rule = exclusion_rule(key.suite, event.detail)
            excluded[Exclusion(key.unit, rule, *suite_key)] = None
        elif event.kind == "collection_error":
            errors[f"{key.unit}: {event.detail}"] = None
    counts = last.facts
    named = sum(map(len, new.values())) + len(gone)
    return LegListing(
        last.detail,
        int(counts.get("units", 0)),
        {shard: tuple(keys) for shard, keys in new.items()},
        gone,
        named == counts.get("new", 0) + counts.get("gone", 0),
        tuple(excluded),
        tuple(errors)[:MAX_ERRORS],
    )


def with_listings(plan: Plan, records: Iterable[Record]) -> ListedPlan:
    """Put in what the legs listed: new units, each in its shard, and none that are gone.

    A shard without a listing has what the others of its suite and variant say of it.

    Args:
        records: of the plan; of a shard's attempts the last one counts. O(units).
    """
    if not plan.policy.lists:
        return ListedPlan(plan)
    newest: dict[str, Record] = {}
    for record in sorted(records, key=lambda one: one.identity.run_attempt or 0):
        newest[record.identity.shard] = record
    by_suite_key: dict[tuple[str, str], list[Shard]] = defaultdict(list)
    for shard in plan.shards:
        by_suite_key[shard.suite_key].append(shard)
    shards: dict[str, Shard] = {}
    listings: list[LegListing] = []
    disagreements: list[Disagreement] = []
    listed_shards: set[str] = set()
    empty: list[tuple[str, str]] = []
    short: list[tuple[str, str]] = []
    for suite_key, theirs in by_suite_key.items():
        read = {
            shard.key: read_listing(newest[shard.key], suite_key)
            for shard in theirs
            if shard.key in newest
        }
        seen = {key: listing for key, listing in read.items() if listing is not None}
        listed_shards.update(seen)
        disagreements.extend(_disagreement(suite_key, seen))
        known = next((one for one in seen.values() if one.names_all), None)
        listings += seen.values()
        for shard in theirs:
            listing = seen.get(shard.key, known)
            shards[shard.key] = shard if listing is None else _listed(shard, listing)
        if any(listing.units == 0 for listing in seen.values()):
            empty.append(suite_key)
        counts = {listing.units for listing in seen.values()}
        shared = sum(len(shards[shard.key].units) for shard in theirs)
        if len(seen) == len(theirs) and len(counts) == 1 and counts != {shared}:
            short.append(suite_key)
    before = {unit.key for shard in plan.shards for unit in shard.units}
    after = {unit.key for shard in shards.values() for unit in shard.units}
    return ListedPlan(
        replace(
            plan,
            shards=tuple(shards[shard.key] for shard in plan.shards),
            inventory=_inventory(plan, listings, after),
        ),
        len(after - before),
        len(before - after),
        tuple(disagreements),
        tuple(sorted(newest.keys() & shards.keys() - listed_shards)),
        tuple(empty),
        tuple(short),
    )


def _listed(shard: Shard, listing: LegListing) -> Shard:
    there = [unit for unit in shard.units if unit.key not in listing.gone]
    new = [
        PlannedUnit(unit, suite, variant, has_history=False)
        for suite, variant, unit in listing.new.get(shard.key, ())
    ]
    suite, variant = shard.suite_key
    return replace(shard, units=(*there, *new), suite=suite, variant=variant)


def _disagreement(
    suite_key: tuple[str, str], seen: Mapping[str, LegListing]
) -> Sequence[Disagreement]:
    by_hash: dict[str, list[str]] = defaultdict(list)
    for shard, listing in seen.items():
        by_hash[listing.hash].append(shard)
    if len(by_hash) <= 1:
        return ()
    first, *others = (seen[shards[0]] for shards in by_hash.values())
    others = [other for other in others if first.names_all and other.names_all]
    units = set()
    for other in others:
        mine, theirs = (
            {key for keys in one.new.values() for key in keys} for one in (first, other)
        )
        units |= (mine ^ theirs) | (set(first.gone) ^ set(other.gone))
    shards = tuple(map(tuple, by_hash.values()))
    return (Disagreement(*suite_key, shards, tuple(sorted(units))),)


def _inventory(
    plan: Plan, listings: Sequence[LegListing], after: AbstractSet[UnitKey]
) -> InventorySummary:
    """What was collected; files that are there, had a planned unit and have none now."""
    excluded = {
        (one.suite, one.variant, one.unit): one for each in listings for one in each.excluded
    }
    errors = dict.fromkeys(error for each in listings for error in each.errors)
    emptied = {
        file_of_unit(plan.suites, key)
        for each in listings
        for key, file_exists in each.gone.items()
        if file_exists
    } - {file_of_unit(plan.suites, key) for key in after}
    return replace(
        plan.inventory,
        collected=len(after) + len(excluded),
        excluded=tuple(excluded[key] for key in sorted(excluded)),
        errors=tuple(errors)[:MAX_ERRORS],
        files_without_units=tuple(sorted(emptied)),
    )


def file_of_unit(suites: Mapping[str, Suite], key: UnitKey) -> str:
    """Return the file that its id names, from the repository's root, if it names one.

    An id without `::` is the file itself where the unit is a file; else no file has this name.
    """
    return repository_path(suites, key.suite, key.unit.partition("::")[0])
