"""A plan of past units, corrected by the units that the run's jobs list. Pure.

A plan without a list of tests is made of the units of past runs. Each of its jobs then lists the
tests of its suite and variant, and the job's record contains the difference from the plan.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, AbstractSet, Final, Iterable, Mapping, Sequence

from ciguard.model.plan import Exclusion, PlannedUnit, exclusion_rule, repository_path
from ciguard.model.record import Record, newest_by_shard
from ciguard.model.types import SLOTS, UnitKey

if TYPE_CHECKING:
    from ciguard.model.plan import InventorySummary, Plan, Shard, Suite

LISTING_EVENT_KINDS: Final = ("unplanned", "gone", "excluded", "listed", "listing")
MAX_ERRORS: Final = 20  # for a suite and variant; one broken module can cause an error in each file


@dataclass(frozen=True, **SLOTS)
class LegListing:
    """The listing of one leg, for its suite and variant.

    Attributes:
        hash: hash of all listed units; `units` counts them without the excluded ones.
        new: units that are not in the plan, by shard.
        gone: planned units that do not exist, and whether their file exists.
        names_all: `new` and `gone` are complete; otherwise they cover only the leg's own shard.
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
        shards: the shards, grouped by listing.
        units: the known units that are not in all listings.
    """

    suite: str
    variant: str
    shards: tuple[tuple[str, ...], ...]
    units: tuple[UnitKey, ...]


@dataclass(frozen=True, **SLOTS)
class ListedPlan:
    """The plan with the units that exist.

    Attributes:
        new: number of existing units that were not in the plan; None if the plan has a list of
            tests.
        gone: number of planned units with a history that do not exist; None likewise.
        unlisted: shards whose record has no listing.
        empty: suites and variants for which a leg listed no unit.
        short: suites and variants whose shards together have another number of units than the legs
            listed.
    """

    plan: Plan
    new: int | None = None
    gone: int | None = None
    disagreements: tuple[Disagreement, ...] = ()
    unlisted: tuple[str, ...] = ()
    empty: tuple[tuple[str, str], ...] = ()
    short: tuple[tuple[str, str], ...] = ()


def read_listing(record: Record, suite_key: tuple[str, str]) -> LegListing | None:
    """Return the listing in a record; None if the leg ended before its listing was complete."""
    last = next((event for event in reversed(record.events) if event.kind == "listing"), None)
    if last is None or (last.suite, last.variant) != suite_key:
        return None
    # Every step of a leg lists the units again: dictionaries keep each unit once.
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
    """Add the listed new units to their shards, and remove units that do not exist. O(units).

    A shard without a listing gets its units from the other listings of its suite and variant.

    Args:
        records: records of the plan; the last attempt of each shard counts.
    """
    if not plan.policy.lists:
        return ListedPlan(plan)
    newest = newest_by_shard(records)
    by_suite_key: dict[tuple[str, str], list[Shard]] = defaultdict(list)
    for shard in plan.shards:
        by_suite_key[shard.suite_key].append(shard)
    shards: dict[str, Shard] = {}
    listings: list[LegListing] = []
    disagreements: list[Disagreement] = []
    listed_shards: set[str] = set()
    empty: list[tuple[str, str]] = []
    short: list[tuple[str, str]] = []
    for suite_key, group in by_suite_key.items():
        optional_listings = {
            shard.key: read_listing(newest[shard.key], suite_key)
            for shard in group
            if shard.key in newest
        }
        by_shard = {key: each for key, each in optional_listings.items() if each is not None}
        listed_shards.update(by_shard)
        disagreements.extend(_disagreement(suite_key, by_shard))
        complete = next((listing for listing in by_shard.values() if listing.names_all), None)
        listings += by_shard.values()
        for shard in group:
            listing = by_shard.get(shard.key, complete)
            shards[shard.key] = shard if listing is None else _listed(shard, listing)
        counts = {listing.units for listing in by_shard.values()}
        if 0 in counts:
            empty.append(suite_key)
        total = sum(len(shards[shard.key].units) for shard in group)
        if len(by_shard) == len(group) and len(counts) == 1 and counts != {total}:
            short.append(suite_key)
    before = {unit.key: unit.has_history for shard in plan.shards for unit in shard.units}
    after = {unit.key for shard in shards.values() for unit in shard.units}
    return ListedPlan(
        replace(
            plan,
            shards=tuple(shards[shard.key] for shard in plan.shards),
            inventory=_inventory(plan, listings, after),
        ),
        len(after - before.keys()),
        sum(before[key] for key in before.keys() - after),
        tuple(disagreements),
        tuple(sorted(newest.keys() & shards.keys() - listed_shards)),
        tuple(empty),
        tuple(short),
    )


def _listed(shard: Shard, listing: LegListing) -> Shard:
    existing = [unit for unit in shard.units if unit.key not in listing.gone]
    new = [
        PlannedUnit(unit, suite, variant, has_history=False)
        for suite, variant, unit in listing.new.get(shard.key, ())
    ]
    suite, variant = shard.suite_key
    return replace(shard, units=(*existing, *new), suite=suite, variant=variant)


def _disagreement(
    suite_key: tuple[str, str], by_shard: Mapping[str, LegListing]
) -> Sequence[Disagreement]:
    by_hash: dict[str, list[str]] = defaultdict(list)
    for shard, listing in by_shard.items():
        by_hash[listing.hash].append(shard)
    if len(by_hash) <= 1:
        return ()
    first, *others = (by_shard[shards[0]] for shards in by_hash.values())
    others = [other for other in others if first.names_all and other.names_all]
    units = set()
    for other in others:
        new_in_first, new_in_other = (
            {key for keys in listing.new.values() for key in keys} for listing in (first, other)
        )
        units |= (new_in_first ^ new_in_other) | (set(first.gone) ^ set(other.gone))
    shards = tuple(map(tuple, by_hash.values()))
    return (Disagreement(*suite_key, shards, tuple(sorted(units))),)


def _inventory(
    plan: Plan, listings: Sequence[LegListing], after: AbstractSet[UnitKey]
) -> InventorySummary:
    """Return the inventory of the listings, with existing files that lost all planned units."""
    excluded = {
        (exclusion.suite, exclusion.variant, exclusion.unit): exclusion
        for listing in listings
        for exclusion in listing.excluded
    }
    errors = dict.fromkeys(error for listing in listings for error in listing.errors)
    emptied = {
        file_of_unit(plan.suites, key)
        for listing in listings
        for key, file_exists in listing.gone.items()
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
    """Return the file that a unit's id names, relative to the repository's root.

    An id without `::` is returned whole: it is the file itself if units are files.
    """
    return repository_path(suites, key.suite, key.unit.partition("::")[0])
