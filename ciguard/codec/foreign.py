"""Result files of other programs -> records, as if their jobs had been legs. Pure.

Nothing of a plan is known here (`guard.existing` has one). A file that is cut or of no known format
is damage: its leg is not taken for one that ended by itself.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ciguard.codec.inventory import InventoryUnit
from ciguard.codec.placing import members
from ciguard.codec.resultfiles import cases_of, targets_of
from ciguard.errors import InputError
from ciguard.model import EndLine, Record, ShardLine

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ciguard.codec.placing import Placed
    from ciguard.model import Result, UnitKey


@dataclass(slots=True)
class _Leg:
    results: list[Result]
    damage: list[str]


def records_of_results(files: Iterable[Placed], source: str) -> tuple[Record, ...]:
    """A record for each shard that the paths name, in order.

    Args:
        source: what the files were asked for by.
    """
    legs: dict[str, _Leg] = defaultdict(lambda: _Leg([], []))
    for file in sorted(files, key=lambda file: file.path):
        leg = legs[file.shard]
        try:
            for path, content in members(file.path, file.content):
                found, problem = cases_of(content, path)
                leg.damage += [problem] if problem else []
                suite, variant = file.suite or "", file.variant or ""
                leg.results += [replace(one, suite=suite, variant=variant) for one in found]
        except InputError as error:
            leg.damage.append(f"{error.where or file.path}: {error.what}")
    return tuple(_record(shard, leg, source) for shard, leg in sorted(legs.items()))


def _record(shard: str, leg: _Leg, source: str) -> Record:
    return Record(
        f"{source} ({shard})" if shard else source,
        ShardLine(shard=shard),
        results=tuple(leg.results),
        end=None if leg.damage else EndLine("completed"),
        damage=tuple(leg.damage),
    )


@dataclass(frozen=True, slots=True)
class Joined:
    """Records whose cases have their unit's name, and how many of them are some unit's."""

    records: tuple[Record, ...]
    joined: int
    cases: int


def with_units(records: Sequence[Record], units: Collection[UnitKey]) -> Joined:
    """Give each case the unit that its name stands for, where one alone does.

    A record spells tests as their framework does, a result file as its format does.

    Args:
        units: of the other side; a file that says its suite and variant is joined to those alone.
    """
    by_way: dict[tuple[str, str], list[InventoryUnit]] = defaultdict(list)
    for key in units:
        by_way[key[:2]].append(InventoryUnit(key.unit, *key[:2]))
    joined = cases = 0
    found = []
    for record in records:
        results, count = _joined(record.results, by_way)
        joined, cases = joined + count, cases + len(results)
        found.append(replace(record, results=tuple(results)))
    return Joined(tuple(found), joined, cases)


def _joined(
    results: Sequence[Result], by_way: dict[tuple[str, str], list[InventoryUnit]]
) -> tuple[list[Result], int]:
    owners: list[set[tuple[str, str, str, bool]]] = [set() for _ in results]
    for way, inventory in sorted(by_way.items()):
        meant = [
            at for at, one in enumerate(results) if (one.suite, one.variant) in (("", ""), way)
        ]
        chosen = [results[at] for at in meant]
        for at, (target, by_name) in zip(meant, targets_of(chosen, inventory, way), strict=True):
            if target is not None:
                owners[at].add((*way, target, by_name))
    found, count = [], 0
    for one, owned in zip(results, owners, strict=True):
        if len(owned) != 1:
            found.append(one)
            continue
        ((suite, variant, unit, by_name),) = owned
        case = one.case or (unit if by_name else one.unit)
        found.append(replace(one, suite=suite, variant=variant, unit=unit, case=case))
        count += 1
    return found, count
