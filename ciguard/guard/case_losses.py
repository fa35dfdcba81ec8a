"""Cases that the base's last runs had and this run has not, of units that hold several. Pure.

A program that ends in the midst of a file writes a well-formed result file of what ran before, and
may end with exit code 0. A file that defines its cases under a condition may define none. A case is
deleted by a change of its file: only there a loss may be meant.
"""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.guard.inventory_checks import lost_too_many
from ciguard.guard.verdict import Finding
from ciguard.model import Plan, Record, UnitKey
from ciguard.model.execution import unplanned_settings
from ciguard.run.frameworks.node import path_of
from ciguard.run.frameworks.registry import FRAMEWORKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ciguard.guard.state import Level
    from ciguard.history.query import StableCases

# A unit that could not be read, or died, is a failure already, and has no cases.
_WITHOUT_CASES: Final = ("errored", "died")


@dataclass(frozen=True, slots=True)
class CaseLoss:
    """The cases that are gone of one unit.

    `file` is the unit's own, below the plan's folder, if it is one. `is_emptied`: no case is left.
    """

    key: UnitKey
    cases: tuple[str, ...]
    base: StableCases
    file: str
    is_emptied: bool = False


def units_with_cases(plan: Plan, *, foreign: bool) -> frozenset[UnitKey]:
    """Return the planned units that may hold several cases.

    Args:
        foreign: there are result files of jobs of the user's own.
    """
    units = (unit for shard in plan.shards for unit in shard.units)
    # Where the framework's unit is a test, no case gets lost without its unit.
    tests = {name for name, one in FRAMEWORKS.items() if one.unit.startswith("test")}
    single = {name for name, one in plan.suites.items() if one.framework in tests}
    return frozenset(unit.key for unit in units if foreign or unit.suite not in single)


def find_case_losses(
    plan: Plan, records: Iterable[Record], base: Mapping[UnitKey, StableCases]
) -> tuple[CaseLoss, ...]:
    """By unit; a unit without any result is missing as a whole, and no loss of cases. O(results).

    Neither is it in a leg with a focus, or a filter that the plan has not: that is found already.
    So is the unit at which a leg was cut short.

    Args:
        records: that count.
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
            key = UnitKey(result.suite, result.variant, result.unit)
            if key in base:
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
    """The path that the unit would have if it is named as its file; "" for none."""
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
    """Lost cases of unchanged files make the run incomplete, those of changed ones are stated.

    A file of which all cases are gone makes it incomplete, changed or not. Where the change is not
    known, as of a class, a share of the combination's cases may be gone.

    Args:
        changed: by file, whether it differs from what the base's run tested.
        base: all cases of the base.
        max_drop: that share.
    """
    totals: Counter[tuple[str, str]] = Counter()
    for key, known in base.items():
        totals[key[:2]] += len(known.cases)
    kinds: dict[str, list[CaseLoss]] = defaultdict(list)
    unknown: dict[tuple[str, str], list[CaseLoss]] = defaultdict(list)
    for loss in losses:
        if loss.is_emptied:
            kinds["all_cases_gone"].append(loss)
        elif loss.file not in changed:
            unknown[loss.key[:2]].append(loss)
        elif changed[loss.file]:
            kinds["cases_gone_of_changed_file"].append(loss)
        else:
            kinds["cases_gone_of_unchanged_file"].append(loss)
    few: list[CaseLoss] = []
    many: list[CaseLoss] = []
    for suite_key, found in unknown.items():
        total, count = totals[suite_key], sum(len(loss.cases) for loss in found)
        (many if lost_too_many(total, total - count, max_drop) else few).extend(found)
    kinds["cases_gone"] = few
    for kind, found in sorted(kinds.items()):
        yield from _case_loss(kind, found)
    yield from _case_loss("cases_gone", many, "incomplete")


def _case_loss(
    kind: str, losses: Sequence[CaseLoss], level: Level | None = None
) -> Iterator[Finding]:
    if losses:
        names = tuple(f"{loss.key.unit}: {case}" for loss in losses for case in loss.cases)
        runs = sorted({loss.base.run.run_id for loss in losses})
        total = sum(len(loss.base.cases) for loss in losses)
        facts = {"count": len(names), "total": total, "run_id": runs[-1], "cases": names}
        yield Finding(
            kind, units=tuple(loss.key for loss in losses), facts=facts, stated_level=level
        )
