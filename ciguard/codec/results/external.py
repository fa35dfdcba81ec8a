"""Result files of other programs -> records, as if their jobs had been legs. Pure.

Nothing of a plan is known here (`guard.records_from_files` has one). A file that is cut or of no
known format
is damage: its leg is not taken for one that ended by itself.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.results.attach import read_cases, units_of_cases
from ciguard.codec.results.base import UnpackBudget
from ciguard.codec.results.result_patterns import result_members
from ciguard.errors import InputError
from ciguard.model import EndLine, Record, ShardLine

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ciguard.codec.results.result_patterns import ResultFile
    from ciguard.model import Result, UnitKey


@dataclass(slots=True)
class _Leg:
    results: list[Result]
    damage: list[str]


def records_of_results(files: Iterable[ResultFile], source: str) -> tuple[Record, ...]:
    """A record for each shard that the paths name, in order.

    Args:
        source: what the files were asked for by.
    """
    budget = UnpackBudget()
    legs: dict[str, _Leg] = defaultdict(lambda: _Leg([], []))
    for file in sorted(files, key=lambda file: file.path):
        leg = legs[file.shard]
        try:
            for path, content in result_members(file.path, file.content):
                found, problem = read_cases(content, path, budget)
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
class MatchedRecords:
    """Records whose cases have their unit's name, and how many of them are some unit's."""

    records: tuple[Record, ...]
    matched: int
    cases: int


def assign_units(records: Sequence[Record], units: Collection[UnitKey]) -> MatchedRecords:
    """Give each case the unit that its name stands for, where one alone does.

    A record spells tests as their framework does, a result file as its format does.

    Args:
        units: of the other side; a file that says its suite and variant is joined to those alone.
    """
    by_suite_key: dict[tuple[str, str], list[InventoryUnit]] = defaultdict(list)
    for key in units:
        by_suite_key[key[:2]].append(InventoryUnit(key.unit, *key[:2]))
    joined = cases = 0
    found = []
    for record in records:
        results, count = _assign_units(record.results, by_suite_key)
        joined, cases = joined + count, cases + len(results)
        found.append(replace(record, results=tuple(results)))
    return MatchedRecords(tuple(found), joined, cases)


def _assign_units(
    results: Sequence[Result], by_suite_key: dict[tuple[str, str], list[InventoryUnit]]
) -> tuple[list[Result], int]:
    owners: list[set[tuple[str, str, str, bool]]] = [set() for _ in results]
    for suite_key, inventory in sorted(by_suite_key.items()):
        eligible = [
            at
            for at, one in enumerate(results)
            if (one.suite, one.variant) in (("", ""), suite_key)
        ]
        chosen = [results[at] for at in eligible]
        for at, (target, by_name) in zip(
            eligible, units_of_cases(chosen, inventory, suite_key), strict=True
        ):
            if target is not None:
                owners[at].add((*suite_key, target, by_name))
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
