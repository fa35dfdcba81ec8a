"""Finds the unit that `--explain` asks for, and holds all that its plan was made of. Pure."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.errors import InputError
from ciguard.text import count_of, unit_name

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
