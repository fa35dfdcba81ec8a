"""Result files of other programs -> results of units (tests), added to records or as records. Pure.

A leg copies result files into its record's folder, and announces each by an event `result_file`;
other files are ignored. A case of a wrapped command belongs to its only unit. A case of a suite
belongs to the unit that matches its name, otherwise it is a new unit, so that no failure is lost. A
result in the record itself overrides those of files for the same case and process. A file that is
truncated, missing or of no known format is damage: its results are not known, and the leg does not
count as completed.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.results.base import FILE, RESULTS_LEFT_OUT
from ciguard.codec.results.formats import format_of, result_members
from ciguard.codec.results.matching import (
    owners_of_cases,
    units_by_suite,
    units_of_cases,
    with_unit,
)
from ciguard.codec.results.result_patterns import ResultFile
from ciguard.codec.unpack_limits import UnpackBudget, gunzip
from ciguard.errors import InputError
from ciguard.model import EndLine, EventLine, Record, Result, ShardLine, StartLine, UnitKey

FOLDER: Final = "results"
NAMING: Final = ("in_files", "not_run")  # events that name units without a result line


def attach_result_files(record: Record, files: Mapping[str, bytes], budget: UnpackBudget) -> Record:
    """Return the record with the results of its result files.

    Args:
        files: by `process-NNN/name`, as the leg announced them.
        budget: for all files of the run.
    """
    announced = dict.fromkeys(
        (event.process or 0, event.suite, event.variant, event.detail)
        for event in record.events
        if event.kind == FILE
    )
    left_out = [event.detail for event in record.events if event.kind == RESULTS_LEFT_OUT]
    damage = [f"{record.source}: left out of it: {detail}" for detail in left_out]
    recorded = {(result.process, result.key) for result in record.results}
    results: list[Result] = []
    for process, suite, variant, detail in announced:
        name = f"process-{process:03d}/{detail}"
        if name not in files:
            damage.append(f"{FOLDER}/{name} is missing")
            continue
        cases, problem = read_cases(files[name], f"{FOLDER}/{name}", budget)
        damage += [problem] if problem else []
        suite_key = (suite, variant)
        for case in _with_units(record, cases, suite_key):
            result = replace(case, suite=suite, variant=variant, process=process)
            if (process, result.key) not in recorded:
                results.append(result)
    return replace(record, results=(*record.results, *results), damage=(*record.damage, *damage))


def read_cases(content: bytes, source: str, budget: UnpackBudget) -> tuple[list[Result], str]:
    """Return the cases of a file that can be read, and the problem of the file or ""."""
    cases: list[Result] = []
    try:
        stream = gunzip(io.BytesIO(content), source, budget)
        cases.extend(format_of(stream, source).read(stream, source))
    except InputError as error:
        return cases, f"{error.where or source}: {error.what}" if content else f"{source}: empty"
    return cases, ""


def _with_units(
    record: Record, cases: Sequence[Result], suite_key: tuple[str, str]
) -> Iterator[Result]:
    units = _units(record, suite_key)
    header = record.header
    if header is not None and not header.plan_id and len(units) == 1:
        for case in cases:
            yield replace(case, unit=units[0], case=case.case or case.unit)
        return
    inventory = [InventoryUnit(unit, *suite_key) for unit in units]
    for case, (target, by_name) in zip(
        cases, units_of_cases(cases, inventory, suite_key), strict=True
    ):
        if target is None:
            yield replace(case, case=case.case or case.unit)
        else:
            yield with_unit(case, suite_key, target, by_name)


def _units(record: Record, suite_key: tuple[str, str]) -> list[str]:
    """Return the units of a suite and variant that the record names, sorted."""
    naming = [event for event in record.events if event.kind in NAMING]
    lines: Iterable[StartLine | Result | EventLine] = chain(record.starts, record.results, naming)
    return sorted(
        {line.unit for line in lines if line.unit and (line.suite, line.variant) == suite_key}
    )


def records_of_results(files: Iterable[ResultFile], source: str) -> tuple[Record, ...]:
    """Make a record for each shard that the paths name, in order.

    Args:
        source: pattern or name by which the files were requested.
    """
    budget = UnpackBudget()
    by_shard: dict[str, list[ResultFile]] = defaultdict(list)
    for file in sorted(files, key=lambda file: file.path):
        by_shard[file.shard].append(file)
    return tuple(_record(shard, by_shard[shard], source, budget) for shard in sorted(by_shard))


def read_result_file(file: ResultFile, budget: UnpackBudget) -> tuple[list[Result], list[str]]:
    """Return the cases of a file, or of the files in an archive, and the problems."""
    cases, damage = [], []
    try:
        for path, content in result_members(file.path, file.content):
            results, problem = read_cases(content, path, budget)
            if file.root:
                results = [replace(one, unit=one.unit.removeprefix(file.root)) for one in results]
            cases += results
            damage += [problem] if problem else []
    except InputError as error:
        damage.append(f"{error.where or file.path}: {error.what}")
    return cases, damage


def _record(shard: str, files: Iterable[ResultFile], source: str, budget: UnpackBudget) -> Record:
    results: list[Result] = []
    damage: list[str] = []
    for file in files:
        cases, problems = read_result_file(file, budget)
        suite, variant = file.suite or "", file.variant or ""
        results += [replace(case, suite=suite, variant=variant) for case in cases]
        damage += problems
    return Record(
        f"{source} ({shard})" if shard else source,
        ShardLine(shard=shard),
        results=tuple(results),
        end=None if damage else EndLine("completed"),
        damage=tuple(damage),
    )


@dataclass(frozen=True, slots=True)
class MatchedRecords:
    """Records with units of the other side; `matched` of all `cases` have such a unit."""

    records: tuple[Record, ...]
    matched: int
    cases: int


def assign_units(records: Sequence[Record], units: Collection[UnitKey]) -> MatchedRecords:
    """Give each case the unit that matches its name, if there is exactly one.

    A record names tests as their framework does, a result file as its format does.

    Args:
        units: of the other side; a case with suite and variant matches only units of these.
    """
    inventories = units_by_suite(units)
    matched = cases = 0
    with_units = []
    for record in records:
        scopes = ((case.suite, case.variant) for case in record.results)
        unknown = (None, None)
        owners = owners_of_cases(
            record.results,
            (unknown if scope == ("", "") else scope for scope in scopes),
            inventories,
        )
        results = [
            with_unit(case, *owned[0]) if len(owned) == 1 else case
            for case, owned in zip(record.results, owners, strict=True)
        ]
        matched += sum(len(owned) == 1 for owned in owners)
        cases += len(results)
        with_units.append(replace(record, results=tuple(results)))
    return MatchedRecords(tuple(with_units), matched, cases)
