"""Lost cases: those that the base's last runs had and this run has not. Pure.

A case belongs to a unit that holds several, such as a test file. A program that ends within a file
writes a well-formed result file of the cases before, and may end with exit code 0; a file may also
define its cases under a condition. A loss may be intended only if a change of the file deleted it.
"""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.guard.inventory_checks import lost_too_many
from ciguard.guard.verdict import Finding, Level
from ciguard.model.execution import unplanned_settings
from ciguard.run.frameworks.node import path_of
from ciguard.run.frameworks.registry import FRAMEWORKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ciguard.history.query import StableCases
    from ciguard.model import Plan, Record, UnitKey

# A unit with such an outcome is a failure already, and has no cases.
_WITHOUT_CASES: Final = ("errored", "died")


@dataclass(frozen=True, slots=True)
class CaseLoss:
    """The lost cases of one unit.

    Attributes:
        file: path of the unit below the plan's folder; "" if the unit is not a file.
        is_emptied: no case of the unit ran.
    """

    key: UnitKey
    cases: tuple[str, ...]
    base: StableCases
    file: str
    is_emptied: bool = False


def units_with_cases(plan: Plan, *, foreign: bool) -> frozenset[UnitKey]:
    """Return the planned units that may hold several cases.

    Args:
        foreign: the results are files of jobs of the user's own.
    """
    units = (unit for shard in plan.shards for unit in shard.units)
    # If the framework's unit is a test, no case is lost without its unit.
    tests = {name for name, adapter in FRAMEWORKS.items() if adapter.unit.startswith("test")}
    single = {name for name, suite in plan.suites.items() if suite.framework in tests}
    return frozenset(unit.key for unit in units if foreign or unit.suite not in single)


def find_case_losses(
    plan: Plan, records: Iterable[Record], base: Mapping[UnitKey, StableCases]
) -> tuple[CaseLoss, ...]:
    """Find the lost cases, by unit. O(results).

    Other findings cover these units: a unit without any result, the units of a leg with a focus or
    a filter that is not in the plan, and the unit at which a leg was cut short.

    Args:
        records: the records that count.
        base: the cases of the base.
    """
    ran: dict[UnitKey, set[str]] = defaultdict(set)
    explained: set[UnitKey] = set()
    for record in records:
        if unplanned_settings(record.events, plan.suites):
            continue
        is_cut = bool(record.starts) and (record.end is None or record.end.ending != "completed")
        closed = {
            (event.suite, event.variant, event.unit)
            for event in record.events
            if is_cut and event.kind == "closed"
        }
        for result in record.results:
            if (key := result.unit_key) in base:
                ran[key].add(result.key.case)
                if result.outcome in _WITHOUT_CASES or (is_cut and key not in closed):
                    explained.add(key)
    return tuple(
        CaseLoss(
            key,
            tuple(sorted(base[key].cases - ran[key])),
            base[key],
            _file(plan, key),
            is_emptied=ran[key] == {key.unit},
        )
        for key in sorted(ran.keys() - explained)
        if base[key].cases - ran[key]
    )


def _file(plan: Plan, key: UnitKey) -> str:
    """Return the path of a unit that is named as its file; "" for any other name."""
    suite = plan.suites.get(key.suite)
    path = posixpath.normpath(posixpath.join(suite.cwd if suite else ".", path_of(key.unit)))
    is_path = "." in path and not path.startswith(("/", "..")) and path.isprintable()
    return path if is_path else ""


def case_loss_findings(
    losses: Sequence[CaseLoss],
    changed: Mapping[str, bool],
    base: Mapping[UnitKey, StableCases],
    max_drop: float,
) -> Iterator[Finding]:
    """Judge the lost cases: those of unchanged files make the run incomplete, others warn.

    A file whose cases are all gone makes the run incomplete, changed or not. If the change is not
    known, as for a class, a share of the combination's cases may be gone.

    Args:
        changed: by file, whether it differs from the version that the base's run tested.
        base: all cases of the base.
        max_drop: the share, 0..1.
    """
    totals: Counter[tuple[str, str]] = Counter()
    for key, known in base.items():
        totals[key[:2]] += len(known.cases)
    kinds: dict[tuple[str, Level | None], list[CaseLoss]] = defaultdict(list)
    unknown: dict[tuple[str, str], list[CaseLoss]] = defaultdict(list)
    for loss in losses:
        if loss.is_emptied:
            kinds["all_cases_gone", None].append(loss)
        elif loss.file not in changed:
            unknown[loss.key[:2]].append(loss)
        elif changed[loss.file]:
            kinds["cases_gone_of_changed_file", None].append(loss)
        else:
            kinds["cases_gone_of_unchanged_file", None].append(loss)
    for suite_key, of_suite in unknown.items():
        total, count = totals[suite_key], sum(len(loss.cases) for loss in of_suite)
        is_too_many = lost_too_many(total, total - count, max_drop)
        kinds["cases_gone", "incomplete" if is_too_many else None].extend(of_suite)
    for (kind, level), lost in kinds.items():
        names = tuple(f"{loss.key.unit}: {case}" for loss in lost for case in loss.cases)
        newest = max(loss.base.run.run_id for loss in lost)
        total = sum(len(loss.base.cases) for loss in lost)
        facts = {"count": len(names), "total": total, "run_id": newest, "cases": names}
        yield Finding(kind, units=tuple(loss.key for loss in lost), facts=facts, stated_level=level)
