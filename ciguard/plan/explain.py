"""`ciguard plan --explain`: find a test, and explain its shard and its estimates. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.document import Block, Code, Content, Facts, Headline, identifier
from ciguard.errors import InputError
from ciguard.plan.declared_needs import MIN_PEAKS, peak_counts
from ciguard.plan.estimates import WINDOW, Observations
from ciguard.plan.inventory import file_of
from ciguard.run.policy.state import UNKNOWN_BASE_BYTES, UNKNOWN_DELTA_BYTES
from ciguard.text import (
    count_of,
    duration,
    find_named,
    name_some,
    size,
    unit_name,
    whole_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.config.declared_memory import DeclaredSize, Need
    from ciguard.model import Plan, PlannedUnit, Shard
    from ciguard.plan.problem import PlanInputs

    Rows = Iterator[tuple[str, Content]]

MAX_NAMED: Final = 8  # of the tests that match
MAX_SUGGESTIONS: Final = 3
CUTOFF: Final = 0.5  # of difflib's ratio
ROUNDED_S: Final = 1e-6  # largest difference of an estimate from the value that it was raised to
NAME_WIDTH: Final = 2000
GROUP_WIDTH: Final = 44


@dataclass(frozen=True, slots=True)
class Explained:
    """One unit of a plan, with the inputs of the plan."""

    plan: Plan
    basis: PlanInputs
    observations: Observations
    position: int

    @property
    def shard_and_index(self) -> tuple[Shard, int]:
        """Return the unit's shard, and its index in the shard."""
        key = self.basis.inventory.keys[self.position]
        return next(
            (shard, index)
            for shard in self.plan.shards
            for index, unit in enumerate(shard.units)
            if unit.key == key
        )

    @property
    def unit(self) -> PlannedUnit:
        """Return the planned unit."""
        shard, index = self.shard_and_index
        return shard.units[index]


def find_unit(basis: PlanInputs, text: str) -> int:
    """Find a unit by its id, its name, or a part that only one name contains.

    Raises:
        InputError: no unit or several match; names similar ones.
    """
    keys = basis.inventory.keys
    names = [unit_name(key, NAME_WIDTH) for key in keys]
    matched = find_named(text, [key.unit for key in keys], names)
    if len(matched) == 1:
        return matched[0]
    if matched:
        line = "\n    "
        named = name_some(matched, names.__getitem__, MAX_NAMED, line, f"{line}and ")
        what = f"{count_of(len(matched), 'test')} match {text!r:.100}"
        raise InputError(what, where="--explain", fix=f"pass one of:{line}{named}")
    # Compared also by the last part of the name: long ids of one file are all similar.
    spellings = {name.rpartition("::")[2]: name for name in reversed(names)}
    spellings |= {name: name for name in names}
    close = get_close_matches(text, spellings, MAX_SUGGESTIONS, CUTOFF)
    suggestions = [*dict.fromkeys(map(spellings.__getitem__, close))] or names[:MAX_SUGGESTIONS]
    advice = "did you mean" if close else "pass the name of a test, such as"
    fix = f"{advice} {', '.join(suggestions)}"
    raise InputError(f"no planned test matches {text!r:.100}", where="--explain", fix=fix)


def explanation(case: Explained) -> tuple[Block, ...]:
    """Return the test's name, and the facts that decided its shard and its estimates."""
    shard, index = case.shard_and_index
    return (
        Headline(identifier(whole_name(case.unit.key))),
        Facts(
            (
                ("shard", f"{shard.key} of {len(case.plan.shards)}, pool {shard.pool:.40}"),
                ("place", f"{index + 1} of {count_of(len(shard.units), 'test')}"),
                *_time(case),
                *_overheads(case, shard),
                *_memory(case),
                *_declared(case),
                *_group(case),
                *_candidate(case),
                *_timeout(case),
            )
        ),
    )


def _time(case: Explained) -> Rows:
    wall_s = case.unit.wall_s
    spread_s = float(np.sqrt(case.basis.estimates.variance_s2[case.position]))
    yield "time", f"{duration(wall_s)}, give or take {duration(spread_s)}"
    rows = np.flatnonzero(case.observations.unit == case.position)[-WINDOW:]
    measured = rows[~np.isnan(case.observations.wall_s[rows])]
    flags = case.observations.is_lower_bound[measured].tolist()
    values_s = case.observations.wall_s[measured]
    if measured.size:
        yield "from", f"its last {count_of(len(measured), 'value')}, scaled to the common speed:"
        shown = zip(values_s.tolist(), flags, strict=True)
        yield "", ", ".join(f"{'over ' * flag}{duration(value_s)}" for value_s, flag in shown)
        if np.isclose(values_s[flags], wall_s, rtol=0, atol=ROUNDED_S).any():
            yield "raised", "to the time after which it was stopped"
            return
    if all(flags):
        has_any = case.basis.estimates.has_history.any()
        estimated = "mean of the nearest similar tests that have timings"
        equal = "no timings yet: every test is assumed to take the same time"
        yield "estimated", estimated if has_any else equal


def _overheads(case: Explained, shard: Shard) -> Rows:
    """Yield the times of the shard besides its tests, which are medians of recent jobs."""
    overheads = case.basis.overheads
    file = overheads.file[case.position] if overheads.file else -1
    if file >= 0 and overheads.setup_s[file]:
        setup = duration(overheads.setup_s[file])
        yield "fixtures", f"{setup}, shared by its file, once a process"
    suite, leg = case.basis.suites[case.unit.suite], overheads.leg(shard.pool)
    gap_s = overheads.inter_test_gap_s(case.unit.suite, shard.pool)
    parts = [
        (suite.setup_s, suite.teardown_s, "each process of its suite"),
        (leg.start_s, leg.end_s, "the job"),
    ]
    rows = [
        f"{duration(start_s)} to start and {duration(end_s)} to end {what}"
        for start_s, end_s, what in parts
        if start_s + end_s > 0
    ]
    rows += [f"{1000 * gap_s:.3g} ms after each test of its suite"] * (gap_s > 0)
    wall = f"{duration(shard.predicted.wall_s)} of its shard"
    yield "wall", f"{wall}, with these parts besides the tests:" if rows else wall
    yield from (("", row) for row in rows)


def _memory(case: Explained) -> Rows:
    unit, suite = case.unit, case.basis.suites[case.unit.suite]
    base = size(UNKNOWN_BASE_BYTES if suite.base_bytes is None else suite.base_bytes)
    process = f"{base}{' (not measured)' if suite.base_bytes is None else ''} of its process"
    if unit.peak_delta_bytes is None:
        yield "memory", f"not measured: {size(UNKNOWN_DELTA_BYTES)} reserved, above {process}"
        return
    yield "memory", f"{size(unit.peak_delta_bytes)} above {process}"
    if unit.retained_bytes:
        yield "", f"{size(unit.retained_bytes)} of it is retained after the test"


def _declared(case: Explained) -> Rows:
    need = case.basis.declared.needs.get(case.position)
    if need is None:
        return
    if need.memory is not None:
        count = int(peak_counts(case.observations, len(case.basis.inventory.keys))[case.position])
        used = f"used until {MIN_PEAKS} peaks are measured, {count} so far"
        replaced = f"not used: {count_of(count, 'peak')} measured"
        yield "declared", f"{size(need.memory.bytes)}, {used if count < MIN_PEAKS else replaced}"
        yield from _derived(need, need.memory)
    if need.gpu is not None:
        gpus = "a GPU" if need.gpu.devices == 1 else f"each of {need.gpu.devices:,} GPUs"
        yield "gpu", f"{size(need.gpu.bytes)} on {gpus}"
        yield from _derived(need, need.gpu)


def _derived(need: Need, declared: DeclaredSize) -> Rows:
    """Yield the declared expression, and the effect of checkpointing."""
    yield "", (Code(declared.text), " for ", Code(need.units, GROUP_WIDTH))
    if not declared.checkpointing:
        return
    change = _change(declared.bytes, declared.plain_bytes)
    before = f"{size(declared.plain_bytes)} without checkpointing"
    yield "", f"{before}, {size(declared.bytes)} with it{change}"
    for part in declared.checkpointing:
        layers = f"{part.held:,} of {count_of(part.layers, 'layer')} held at once"
        recomputed = f"{part.recomputed:,} computed again"
        yield "", f"{layers}{_change(part.held, part.layers)}, {recomputed}"


def _change(now: float, before: float) -> str:
    """Return the change in parentheses; "" from 0."""
    return f" ({100 * (now / before - 1):+.2f} %)" if before else ""


def _group(case: Explained) -> Rows:
    unit, inventory = case.basis.inventory.units[case.position], case.basis.inventory
    name = unit.group or file_of(unit)
    if name is None:
        return
    members = {
        other.key
        for other in inventory.units
        if other.key[:2] == unit.key[:2] and (other.group if unit.group else file_of(other)) == name
    }
    shards = sum(any(each.key in members for each in shard.units) for shard in case.plan.shards)
    where = "in one shard" if shards == 1 else f"divided over {shards} shards"
    content = (Code(name, GROUP_WIDTH), f": {count_of(len(members), 'test')}, {where}")
    yield "group" if unit.group else "file", content


def _candidate(case: Explained) -> Rows:
    for each in case.plan.culprit_candidates:
        if (each.suite, each.variant, each.unit) == case.unit.key:
            yield "candidate", f"it may have killed {count_of(each.losses, 'shard')}"
            yield "", "isolated from all other tests" if each.isolated else "spread over the shards"


def _timeout(case: Explained) -> Rows:
    if case.unit.timeout_s is not None:
        yield "timeout", f"{duration(case.unit.timeout_s)}, then it is stopped"
