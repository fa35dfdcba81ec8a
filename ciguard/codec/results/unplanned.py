"""Result files of a run without a plan, and a list of tests if there is one -> plan, records. Pure.

Such a plan promises nothing but the list: each artifact or folder with results is a shard, with the
tests of its files. A test with results in several shards ran in several ways, such as versions of
Python: each of these shards is then a variant of the test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from ciguard.codec import archive
from ciguard.codec.results.formats import has_results
from ciguard.codec.results.planned_shards import records_from_files
from ciguard.codec.results.result_patterns import ResultFile
from ciguard.model import (
    CaseKey,
    InventorySummary,
    LegPolicy,
    Orphan,
    Plan,
    PlannedUnit,
    Pool,
    Prediction,
    Record,
    Shard,
    Suite,
    UnitKey,
    Variant,
)
from ciguard.model.plan import OF_LIST, OF_RESULTS

_POOL: Final = "runner"


def read_unplanned(
    files: Iterable[ResultFile],
    listed: Collection[str] | None = None,
    in_several: Collection[str] = (),
) -> tuple[Plan, tuple[Record, ...]]:
    """Return a plan of the run's own result files, and their records.

    Args:
        listed: the tests that were to run; None without a list.
        in_several: tests with results in several shards of other runs: here, a shard may be lost.
    """
    results = [file for file in files if may_be_of_results(file)]
    keys = sorted({file.shard for file in results})
    # The last shard lends its tests their names; none is called so.
    names = {**{key: set() for key in keys}, "": {UnitKey("", "", unit) for unit in listed or ()}}
    records = records_from_files(_plan(names, listed), results).records
    shards: Mapping[str, set[str]] = defaultdict(set)
    for record in records:
        for result in record.results:
            shards[result.unit].add(record.identity.shard)
    several = {*in_several, *(unit for unit, of_unit in shards.items() if len(of_unit) > 1)}
    records = tuple(_with_variants(record, several) for record in records) if several else records
    units: dict[str, set[UnitKey]] = {key: set() for key in keys}
    for record in records:
        units[record.identity.shard] |= {
            result.key.unit_key
            for result in record.results
            if listed is None or result.unit in listed
        }
    return _plan(units, listed), records


def may_be_of_results(file: ResultFile) -> bool:
    """Return whether a file may have test results: `**/*.xml` also fits coverage and pages."""
    is_archive = file.content.startswith(archive.SIGNATURE)
    return is_archive or has_results(file.path, file.content)


def units_with_variants(keys: Iterable[CaseKey]) -> frozenset[str]:
    """Return the units that ran in several ways."""
    return frozenset(key.unit for key in keys if key.variant)


def _with_variants(record: Record, several: Collection[str]) -> Record:
    shard = record.identity.shard
    results = (
        replace(result, variant=result.variant or shard) if result.unit in several else result
        for result in record.results
    )
    return replace(record, results=tuple(results))


def _plan(units: Mapping[str, set[UnitKey]], listed: Collection[str] | None) -> Plan:
    """Return the plan of these shards; listed tests in none of them are its orphans."""
    planned = sorted({key for of_shard in units.values() for key in of_shard})
    missing = sorted(frozenset(listed or ()) - {key.unit for key in planned})
    variants: dict[str, dict[str, Variant]] = defaultdict(dict)
    for suite, variant, _ in planned or [UnitKey("", "", "")]:
        variants[suite][variant] = Variant()
    return Plan(
        id=OF_RESULTS if listed is None else OF_LIST,
        suites={suite: Suite("command", (), variants=own) for suite, own in variants.items()},
        pools={_POOL: Pool(None)},
        policy=LegPolicy(),
        shards=tuple(
            Shard(
                key,
                _POOL,
                tuple(
                    PlannedUnit(unit, suite, variant, has_history=False)
                    for suite, variant, unit in sorted(of_shard)
                ),
                Prediction(0.0, 0.0),
            )
            for key, of_shard in units.items()
        ),
        lower_bound_s=0.0,
        gap=0.0,
        inventory=InventorySummary(
            collected=len(planned) + len(missing),
            files={},
            hash="",
            orphans=tuple(Orphan(unit, "not_requested") for unit in missing),
        ),
    )
