"""Result files of a plan's shards -> records like those of `ciguard run`. Pure.

Each attempt of a shard has a record. A shard without a file has no record, and is dead. A record
has no end if one of its files is truncated, or shows itself that it is incomplete. A case belongs
to a unit (test) of its shard, otherwise to a unit of another shard, otherwise it is an unplanned
unit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, NamedTuple

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.results.attach import read_result_file
from ciguard.codec.results.base import FILE
from ciguard.codec.results.matching import (
    SuiteKey,
    owners_of_cases,
    spelling,
    suite_folders,
    units_by_suite,
    with_unit,
)
from ciguard.codec.results.result_patterns import ResultFile
from ciguard.codec.unpack_limits import UnpackBudget
from ciguard.model import EndLine, EventLine, Plan, Record, Result, ShardLine
from ciguard.model.result_times import latest_time_s
from ciguard.model.shard_names import shard_lookup

MAX_BEHIND_UTC_S: Final = 12 * 3600.0  # of the machine that wrote a time without a zone


@dataclass(frozen=True, slots=True)
class ImportedRecords:
    """The records of shards with a file, and the paths of files of unknown shards, by shard.

    The results of unknown shards are not read, and might be failures.
    """

    records: tuple[Record, ...]
    unknown_shards: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class _Leg:
    """An attempt of a shard while its files are read; `ways` are the suites of its units."""

    shard: str
    attempt: int | None = None
    ways: Sequence[SuiteKey] = ()
    files: list[EventLine] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


class _Case(NamedTuple):
    """A case without a unit, and the suite and variant in the path of its file."""

    leg: _Leg
    result: Result
    scope: tuple[str | None, str | None]

    def assign(self, suite_key: SuiteKey, unit: str, by_name: bool) -> None:
        """Add the case to the results of its leg, with this unit."""
        self.leg.results.append(with_unit(self.result, suite_key, unit, by_name))


def records_from_files(plan: Plan, files: Iterable[ResultFile]) -> ImportedRecords:
    """Read the files, in any order, and assign every case to a unit."""
    units = {shard.key: shard.units for shard in plan.shards}
    by_leg: dict[tuple[str, int | None], list[ResultFile]] = defaultdict(list)
    unknown_shards: dict[str, tuple[str, ...]] = {}
    shard_of = shard_lookup(plan)
    for file in sorted(files, key=lambda file: (file.shard, file.attempt or 0, file.path)):
        shard = shard_of(file.shard)
        if shard is not None:
            by_leg[shard, file.attempt].append(file)
        else:
            unknown_shards[file.shard] = (*unknown_shards.get(file.shard, ()), file.path)
    if not by_leg:  # the usual case, which needs no units of the plan
        return ImportedRecords((), unknown_shards)
    budget = UnpackBudget()
    legs = [_Leg(shard, attempt) for shard, attempt in by_leg]
    cases = [
        _read_files(leg, files, budget) for leg, files in zip(legs, by_leg.values(), strict=True)
    ]
    inventories = units_by_suite({unit.key for shard in plan.shards for unit in shard.units})
    folders = _suite_folders(cases, inventories)
    unassigned: list[_Case] = []
    for leg, own_cases in zip(legs, cases, strict=True):
        shard_units = units_by_suite(unit.key for unit in units[leg.shard])
        leg.ways = tuple(shard_units)
        unassigned += _assign_cases(own_cases, shard_units, folders)
    for case in _assign_cases(unassigned, inventories, folders):  # each becomes a new unit
        known = case.leg.ways[0] if len(case.leg.ways) == 1 else ("", "")
        suite, variant = case.scope
        suite_key = known[0] if suite is None else suite, known[1] if variant is None else variant
        case.assign(suite_key, case.result.unit, by_name=True)
    return ImportedRecords(tuple(_record(plan, leg) for leg in legs), unknown_shards)


def _read_files(leg: _Leg, files: Sequence[ResultFile], budget: UnpackBudget) -> list[_Case]:
    cases: list[_Case] = []
    for file in files:
        latest_s = latest_time_s(file.content, MAX_BEHIND_UTC_S)
        facts = {} if latest_s is None else {"latest_s": latest_s}
        leg.files.append(EventLine(FILE, detail=file.path, facts=facts))
        results, damage = read_result_file(file, budget)
        cases += [_Case(leg, result, (file.suite, file.variant)) for result in results]
        leg.damage += damage
    return cases


def _suite_folders(
    cases: Sequence[Sequence[_Case]], inventories: Mapping[SuiteKey, Sequence[InventoryUnit]]
) -> dict[SuiteKey, frozenset[str]]:
    """Return the folders of each suite on the runners, by all shards: one may have few files."""
    return {
        (suite, variant): suite_folders(
            (
                spelling(case.result)
                for case in chain(*cases)
                if case.scope[0] in (None, suite) and case.scope[1] in (None, variant)
            ),
            inventory,
        )
        for (suite, variant), inventory in inventories.items()
    }


def _assign_cases(
    cases: Sequence[_Case],
    inventories: Mapping[SuiteKey, Sequence[InventoryUnit]],
    folders: Mapping[SuiteKey, Collection[str]],
) -> list[_Case]:
    """Assign cases to the units of these suites; return the cases without a unit."""
    results, scopes = [case.result for case in cases], [case.scope for case in cases]
    unassigned = []
    owners = owners_of_cases(results, scopes, inventories, folders)
    for case, owned in zip(cases, owners, strict=True):
        if owned:
            case.assign(*owned[0])
        else:
            unassigned.append(case)
    return unassigned


def _number_rows(results: Iterable[Result]) -> Iterator[Result]:
    """Number rows of the same name; consecutive tries are tries of one row."""
    rows: dict[tuple[str, ...], tuple[int, int]] = {}
    for result in results:
        row, last_try = rows.get(result.key, (0, result.try_number))
        row += result.try_number <= last_try
        rows[result.key] = (row, result.try_number)
        yield replace(result, case=f"{result.case} #{row}") if row > 1 else result


def _record(plan: Plan, leg: _Leg) -> Record:
    header = ShardLine(
        plan_id=plan.id,
        shard=leg.shard,
        shards=len(plan.shards),
        run_attempt=leg.attempt,
        repository=plan.repository,
        head_sha=plan.head_sha,
    )
    return Record(
        source=leg.files[0].detail,
        header=header,
        results=tuple(_number_rows(leg.results)),
        events=tuple(leg.files),
        end=None if leg.damage else EndLine("completed"),
        damage=tuple(leg.damage),
    )
