"""Result files of a plan's shards -> the records that `ciguard run` would have left. Pure.

Each attempt of a shard has a record. A shard without a file has none and is dead; one whose file
is cut, or says itself that it is not whole, has no end. A case belongs to a unit of its own shard,
else to one of another, else it is a unit that nobody planned.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.results.attach import read_result_file, units_of_cases
from ciguard.codec.results.base import FILE, UnpackBudget
from ciguard.model import EndLine, EventLine, Record, ShardLine
from ciguard.model.shard_names import shard_lookup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ciguard.codec.results.result_patterns import ResultFile
    from ciguard.model import Plan, PlannedUnit, Result

SuiteKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ImportedRecords:
    """The records of shards that left a file, and the paths of files of other shards, by shard.

    What those say is not known, and might be a failure.
    """

    records: tuple[Record, ...]
    unknown_shards: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class _Leg:
    """One attempt of a shard while its files are read."""

    shard: str
    attempt: int | None = None
    ways: Sequence[SuiteKey] = ()
    files: list[str] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


class _Case(NamedTuple):
    """A case that has no unit yet, and what the path of its file said of suite and variant."""

    leg: _Leg
    result: Result
    suite: str | None
    variant: str | None

    def may_be(self, suite_key: SuiteKey) -> bool:
        """Nothing says that it is of another suite or variant."""
        return self.suite in (None, suite_key[0]) and self.variant in (None, suite_key[1])

    def assign(self, suite_key: SuiteKey, unit: str, name: str) -> None:
        """Tell its leg."""
        case = self.result.case or name
        one = replace(self.result, suite=suite_key[0], variant=suite_key[1], unit=unit, case=case)
        self.leg.results.append(one)


def records_from_files(plan: Plan, files: Iterable[ResultFile]) -> ImportedRecords:
    """Read the files and give every case its unit.

    Args:
        files: in any order; the result is the same.
    """
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
    legs, left = [], []
    budget = UnpackBudget()
    for (shard, attempt), found in by_leg.items():
        leg = _Leg(shard, attempt)
        legs.append(leg)
        left += _read_shard(leg, units[shard], found, budget)
    _match_in_other_shards(plan, left)
    return ImportedRecords(tuple(_record(plan, leg) for leg in legs), unknown_shards)


def _read_shard(
    leg: _Leg, units: Sequence[PlannedUnit], files: Sequence[ResultFile], budget: UnpackBudget
) -> list[_Case]:
    """Read a shard's files; gives the cases that are of none of its units."""
    by_suite_key = _by_suite_key(units)
    leg.ways = tuple(by_suite_key)
    leg.files = [file.path for file in files]
    cases: list[_Case] = []
    for file in files:
        found, damage = read_result_file(file, budget)
        cases += [_Case(leg, case, file.suite, file.variant) for case in found]
        leg.damage += damage
    for suite_key, inventory in by_suite_key.items():
        cases = _assign_cases(cases, suite_key, inventory)
    return cases


def _by_suite_key(units: Iterable[PlannedUnit]) -> dict[SuiteKey, list[InventoryUnit]]:
    found: dict[SuiteKey, list[InventoryUnit]] = defaultdict(list)
    for unit in sorted(units, key=lambda unit: unit.key):
        found[unit.suite, unit.variant].append(InventoryUnit(unit.unit, unit.suite, unit.variant))
    return found


def _assign_cases(
    cases: list[_Case], suite_key: SuiteKey, inventory: Sequence[InventoryUnit]
) -> list[_Case]:
    """Give cases to units of this suite and variant; gives those that belong to none of them."""
    tried = [case.result for case in cases if case.may_be(suite_key)]
    targets = units_of_cases(tried, inventory, suite_key) if tried else iter(())
    rest = []
    for case in cases:
        unit, by_name = next(targets) if case.may_be(suite_key) else (None, False)
        if unit is None:
            rest.append(case)
        else:
            case.assign(suite_key, unit, unit if by_name else case.result.unit)
    return rest


def _match_in_other_shards(plan: Plan, cases: list[_Case]) -> None:
    """Cases that are of no unit of their shard: of another's, or of nobody's."""
    if cases:
        units = {unit.key: unit for shard in plan.shards for unit in shard.units}
        for suite_key, inventory in _by_suite_key(units.values()).items():
            cases = _assign_cases(cases, suite_key, inventory)
    for case in cases:
        own = case.leg.ways[0] if len(case.leg.ways) == 1 else ("", "")
        suite = own[0] if case.suite is None else case.suite
        variant = own[1] if case.variant is None else case.variant
        case.assign((suite, variant), case.result.unit, case.result.unit)


def _number_rows(results: Iterable[Result]) -> Iterator[Result]:
    """Rows of one name, told apart; tries of one row, which follow each other, stay together."""
    rows: dict[tuple[str, ...], tuple[int, int]] = {}
    for one in results:
        row, last_try = rows.get(one.key, (0, one.try_number))
        row += one.try_number <= last_try
        rows[one.key] = (row, one.try_number)
        yield replace(one, case=f"{one.case} #{row}") if row > 1 else one


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
        source=leg.files[0],
        header=header,
        results=tuple(_number_rows(leg.results)),
        events=tuple(EventLine(FILE, detail=path) for path in leg.files),
        end=None if leg.damage else EndLine("completed"),
        damage=tuple(leg.damage),
    )
