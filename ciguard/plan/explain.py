"""Why one unit is where it is, and what its numbers come from. Pure."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.errors import InputError
from ciguard.plan.base_plan import shard_number
from ciguard.plan.estimates import WINDOW
from ciguard.plan.inventory import file_of
from ciguard.run.policy.state import UNKNOWN_BASE_BYTES, UNKNOWN_DELTA_BYTES
from ciguard.text import count_of, duration, one_line, size, table, unit_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ciguard.model import Plan, PlannedUnit, Shard, UnitKey
    from ciguard.plan.estimates import Observations
    from ciguard.plan.problem_builder import PlanInputs

MAX_VALUES: Final = 8
ROUNDED_S: Final = 1e-6  # so far an estimate is from the value that it was raised to
WIDTH: Final = 80
MAX_SUGGESTIONS: Final = 3  # ids that are named where none is called so
NAME_WIDTH: Final = 2000


@dataclass(frozen=True, slots=True)
class Explained:
    """One unit of a plan, and all that the plan was made of."""

    plan: Plan
    basis: PlanInputs
    observations: Observations
    position: int

    @property
    def shard_and_index(self) -> tuple[Shard, int]:
        """Its shard, and where it stands in it."""
        key = self.basis.inventory.keys[self.position]
        for shard in self.plan.shards:
            for place, unit in enumerate(shard.units):
                if unit.key == key:
                    return shard, place
        raise AssertionError(f"{key} is in no shard")

    @property
    def unit(self) -> PlannedUnit:
        """As planned."""
        shard, number = self.shard_and_index
        return shard.units[number]


def find_unit(basis: PlanInputs, text: str) -> int:
    """Find the unit that is meant: its id, its name, or a part that only one has.

    Raises:
        InputError: none or several; names those that are near.
    """
    keys = basis.inventory.keys
    tests: tuple[Callable[[UnitKey], bool], ...] = (
        lambda key: key.unit == text,
        lambda key: _quoted_name(key) == text,
        lambda key: key.unit.endswith((f":{text}", f".{text}", f"/{text}")),
        lambda key: text in _quoted_name(key),
    )
    alike = ([place for place, key in enumerate(keys) if test(key)] for test in tests)
    found = next((places for places in alike if places), [])
    if len(found) == 1:
        return found[0]
    if found:
        named = [f"\n    {_quoted_name(keys[place])}" for place in found[:MAX_VALUES]]
        if len(found) > MAX_VALUES:
            named.append(f"\n    and {len(found) - MAX_VALUES:,} more")
        what = f"{count_of(len(found), 'unit')} are called like {text!r:.100}"
        fix = f"give one as it stands here:{''.join(named)}"
        raise InputError(what, where="--explain", fix=fix)
    first = {key.unit: key for key in reversed(keys)}
    near = [
        _quoted_name(first[unit])
        for unit in _closest(text, [*dict.fromkeys(key.unit for key in keys)])
    ]
    some = ", ".join(_quoted_name(key) for key in keys[:MAX_SUGGESTIONS])
    there = f"give one of {count_of(len(keys), 'unit')}, such as {some}"
    fix = f"did you mean {', '.join(near)}?" if near else there
    raise InputError(f"no planned unit is called {text!r:.100}", where="--explain", fix=fix)


def _quoted_name(key: UnitKey) -> str:
    return unit_name(key, NAME_WIDTH)


def _closest(text: str, ids: Sequence[str]) -> list[str]:
    """Ids that look like it, else those whose last part does."""
    found = difflib.get_close_matches(text, ids, n=MAX_SUGGESTIONS, cutoff=0.5)
    if found:
        return found
    last: dict[str, str] = {}
    for one in ids:
        last.setdefault(_last_part(one).lower(), one)
    return [
        last[name] for name in difflib.get_close_matches(text.lower(), last, MAX_SUGGESTIONS, 0.4)
    ]


def _last_part(unit: str) -> str:
    """A test's own name: without folder, file, class and parameters."""
    name = unit.split("[", 1)[0]
    separator = next((one for one in ("::", "/", ".") if one in name), None)
    return name.rsplit(separator, 1)[1] if separator else name


def explain(case: Explained) -> str:
    """All there is to say, a line or more for each fact; 80 columns but for the id."""
    shard, number = case.shard_and_index
    rows: list[tuple[str, ...]] = [
        ("shard", f"{shard.key} of {len(case.plan.shards)}, pool {one_line(shard.pool, 40)}"),
        ("place", f"{number + 1} of {count_of(len(shard.units), 'unit')}"),
        *_time(case),
        *_overheads(case, shard),
        *_memory(case),
        *_group(case),
        *_base(case, shard),
        *_suspect(case),
    ]
    if case.unit.timeout_s is not None:
        rows.append(("limit", f"{duration(case.unit.timeout_s)}: over it, the leg stops it"))
    return f"{_quoted_name(case.unit.key)}\n\n{table(rows)}\n"


def _values(column: Sequence[float], flags: Sequence[bool]) -> str:
    return ", ".join(
        f"{'over ' * flag}{duration(value)}" for value, flag in zip(column, flags, strict=True)
    )


def _time(case: Explained) -> list[tuple[str, str]]:
    wall_s = case.unit.wall_s
    spread_s = float(np.sqrt(case.basis.estimates.variance_s2[case.position]))
    rows = [("time", f"{duration(wall_s)}, give or take {duration(spread_s)}")]
    mine = np.flatnonzero(case.observations.unit == case.position)[-WINDOW:]
    measured = mine[~np.isnan(case.observations.wall_s[mine])]
    if measured.size:
        flags = case.observations.is_lower_bound[measured].tolist()
        values = _values(case.observations.wall_s[measured].tolist(), flags)
        rows.append(("from", f"its last {count_of(len(measured), 'value')}, oldest first,"))
        rows.append(("", "scaled to the common speed:"))
        rows += [("", line) for line in _wrapped(values)]
        if np.isclose(
            case.observations.wall_s[measured][flags], wall_s, rtol=0, atol=ROUNDED_S
        ).any():
            rows.append(("raised", "to what it took at least, for it was stopped"))
            return rows
    if not measured.size or all(case.observations.is_lower_bound[measured]):
        rows.append(("guessed", _siblings(case)))
    return rows


def _wrapped(text: str) -> list[str]:
    lines, line = [], ""
    for word in text.split(", "):
        if line and len(line) + len(word) > WIDTH - 16:
            lines.append(line + ",")
            line = ""
        line = f"{line}, {word}" if line else word
    return [*lines, line]


def _siblings(case: Explained) -> str:
    """Whose mean its time is."""
    names = case.basis.inventory.ancestors(case.basis.ancestors)
    clean = ~case.observations.is_lower_bound & ~np.isnan(case.observations.wall_s)
    measured = {int(unit) for unit in np.unique(case.observations.unit[clean])}
    held = {unit: set(names(unit)) for unit in measured}
    for name in names(case.position):
        count = sum(name in of_unit for of_unit in held.values())
        if count:
            text = str(name[-1] if isinstance(name, tuple) else name)
            where = f"below {one_line(text, 40)}" if text else "of the suite"
            return f"the mean of {count_of(count, 'measured unit')} {where}"
    return "nobody has measured anything: all units are taken for equal"


def _overheads(case: Explained, shard: Shard) -> list[tuple[str, str]]:
    """What its shard takes besides its tests: each number is a median of recent legs."""
    overheads = case.basis.overheads
    rows = []
    place = overheads.file[case.position] if overheads.file else -1
    if place >= 0 and overheads.setup_s[place]:
        what = duration(overheads.setup_s[place])
        rows.append(("fixtures", f"{what}, shared by its file, paid once a process"))
    suite, leg = case.basis.suites[case.unit.suite], overheads.leg(shard.pool)
    gap_s = overheads.inter_test_gap_s(case.unit.suite, shard.pool)
    parts = [
        (suite.setup_s, suite.teardown_s, "of each process of its suite"),
        (leg.start_s, leg.end_s, "of the leg"),
    ]
    sentences = [
        f"{duration(start_s)} start, {duration(end_s)} end {of}"
        for start_s, end_s, of in parts
        if start_s + end_s > 0
    ]
    sentences += [f"{1000 * gap_s:.3g} ms behind each unit of its suite"] * (gap_s > 0)
    wall = f"{duration(shard.predicted.wall_s)} of its shard"
    rows.append(("wall", f"{wall}, beside its tests:" if sentences else wall))
    rows += [("", one) for one in sentences]
    return rows


def _memory(case: Explained) -> list[tuple[str, str]]:
    unit, suite = case.unit, case.basis.suites[case.unit.suite]
    base = size(UNKNOWN_BASE_BYTES if suite.base_bytes is None else suite.base_bytes)
    guessed = " (a guess)" if suite.base_bytes is None else ""
    if unit.peak_delta_bytes is None:
        text = f"not known: {size(UNKNOWN_DELTA_BYTES)} are kept free for it,"
        return [("memory", text), ("", f"over {base}{guessed} of its process")]
    rows = [("memory", f"{size(unit.peak_delta_bytes)} over {base}{guessed} of its process")]
    if unit.retained_bytes:
        rows.append(("", f"{size(unit.retained_bytes)} of them stay behind"))
    return rows


def _group(case: Explained) -> list[tuple[str, str]]:
    unit = case.basis.inventory.units[case.position]
    file = file_of(unit)
    name = unit.group or file
    if name is None:
        return []
    there = {
        one.key
        for one in case.basis.inventory.units
        if (one.suite, one.variant) == (unit.suite, unit.variant)
        and (one.group == unit.group if unit.group else file_of(one) == file)
    }
    shards = [s.key for s in case.plan.shards if any(one.key in there for one in s.units)]
    where = "whole" if len(shards) == 1 else f"divided over {len(shards)} shards"
    word = "group" if unit.group else "file"
    return [(word, f"{one_line(name, 44)}: {count_of(len(there), 'unit')}, {where}")]


def _base(case: Explained, shard: Shard) -> list[tuple[str, str]]:
    base = case.basis.base
    if base is None:
        return []
    before = next((one.key for one in base.shards if case.unit.key in one.units), None)
    if before is None:
        return [("base", f"{base.name} did not have it")]
    if shard_number(before) == shard_number(shard.key):
        return [("base", f"{base.name} had it in the same shard")]
    return [("base", f"{base.name} had it in shard {before}")]


def _suspect(case: Explained) -> list[tuple[str, str]]:
    for one in case.basis.candidate_sets:
        if case.position in one.units:
            killed = count_of(one.losses, "shard")
            suspected = {case.basis.inventory.keys[place] for place in one.units}
            shard, _ = case.shard_and_index
            is_apart = one.is_isolated and all(unit.key in suspected for unit in shard.units)
            place = "apart from all others" if is_apart else "spread over the shards"
            if len(one.units) == 1:
                where = place if is_apart else "among others"
                return [("suspect", f"it may have killed {killed}, and runs {where}")]
            text = (
                f"one of {count_of(len(one.units), 'unit')} of which one may have killed {killed}"
            )
            return [("suspect", text), ("", f"they run {place}")]
    return []
