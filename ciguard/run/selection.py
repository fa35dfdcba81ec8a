"""Which of a shard's units a leg takes on: all, those up to one, those that did not end before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, AbstractSet, Final, Mapping, Sequence

from ciguard.errors import InputError
from ciguard.model import SLOTS, LegPolicy
from ciguard.run.policy.rules import MARGIN_BYTES, MARGIN_RATIO, process_limit_bytes
from ciguard.run.policy.simulate import simulate
from ciguard.run.policy.state import State
from ciguard.text import count_of, whole_name

if TYPE_CHECKING:
    from ciguard.model import Shard, Suite, UnitKey
    from ciguard.run.policy.actions import Start

MAX_NAMED: Final = 5  # units in an error


@dataclass(frozen=True, **SLOTS)
class Selection:
    """What the command line says beside plan and shard.

    Attributes:
        until: the last unit to run, by its id or as a log names it; "" for all.
        earlier: folders with records of legs that began this shard.
        goes_on: the earlier ones are steps of this very attempt, and there is at least one.
        unless_ended: where the last attempt ended by itself, everything is to run again.
        for_s: how long units may be begun, seconds from the step's start.
    """

    until: str = ""
    earlier: tuple[str, ...] = ()
    continues_attempt: bool = False
    unless_ended: bool = False
    step_limit_s: float | None = None


ALL_UNITS: Final = Selection()


def up_to(
    shard: Shard, unit: str, suites: Mapping[str, Suite], shards: Sequence[Shard] = ()
) -> Shard:
    """The shard with its units up to and including one, in their order.

    Of a shard with several processes side by side only those of that one's process, as the rules
    share the whole shard out: in other company a test may pass.

    Args:
        unit: its id; where suites or variants share that, its name as `whole_name` gives it. The
            end of an id, or any part of it, where only one has it.
        shards: of the plan; one of them may have it.

    Raises:
        InputError: it is not there, or it is several; names what is near.
    """
    names = [whole_name(one.key) for one in shard.units]
    found = [place for place, one in enumerate(shard.units) if unit in (one.unit, names[place])]
    where = f"--until {unit}"
    if not found:
        ends = (f":{unit}", f".{unit}", f"/{unit}")
        found = [place for place, one in enumerate(shard.units) if one.unit.endswith(ends)]
    if not found and unit:
        found = [place for place, one in enumerate(shard.units) if unit in one.unit]
    if not found:
        near = _close_matches(shard, unit)
        fix = f"did you mean {', '.join(near)}?" if near else "look for its shard in the plan"
        if home := _shard_of_unit(shards, unit):
            fix = f"it is in shard {home}"
        what = f"not among the {count_of(len(names), 'test')} of shard {shard.key}"
        raise InputError(what, where=where, fix=fix)
    if len(found) > 1:
        what = f"{count_of(len(found), 'test')} of shard {shard.key} are called so"
        fix = f"pass one of {', '.join(repr(names[place]) for place in found[:MAX_NAMED])}"
        raise InputError(what, where=where, fix=fix)
    if shard.processes > 1:
        return _single_process_shard(shard, found[0], suites)
    return replace(shard, units=shard.units[: found[0] + 1])


def _shard_of_unit(shards: Sequence[Shard], unit: str) -> str:
    """The first shard that has the unit; "" for none."""
    for shard in shards:
        if any(unit in (one.unit, whole_name(one.key)) for one in shard.units):
            return shard.key
    return ""


def _single_process_shard(shard: Shard, index: int, suites: Mapping[str, Suite]) -> Shard:
    """What the process of a unit does up to it, as a shard with that process alone."""
    state = State(shard, suites, LegPolicy(guard_rail="off"))

    def length_s(start: Start) -> float:
        suite = suites[start.suite]
        tests_s = sum(shard.units[one].wall_s for one in start.units)
        return suite.setup_s + tests_s + suite.teardown_s

    units = next(start.units for start, _ in simulate(state, length_s) if index in start.units)
    company = tuple(shard.units[one] for one in units[: units.index(index) + 1])
    budget_bytes = shard.budget_bytes
    if budget_bytes is not None:
        # The one process is to be recycled where it was as one of several.
        cap = int(process_limit_bytes(state)) + 1
        budget_bytes = min(2 * cap, max(int(cap / (1 - MARGIN_RATIO)) + 1, cap + MARGIN_BYTES))
    return replace(shard, units=company, processes=1, budget_bytes=budget_bytes)


def _close_matches(shard: Shard, unit: str) -> list[str]:
    """Ids that hold what was typed, else those that look like it."""
    ids = list(dict.fromkeys(one.unit for one in shard.units))
    holding = [one for one in ids if unit and unit in one]
    return holding[:MAX_NAMED] or get_close_matches(unit, ids, n=MAX_NAMED)


def without_units(shard: Shard, ended: AbstractSet[UnitKey]) -> Shard:
    """The shard with what is left of its units, in their order."""
    return replace(shard, units=tuple(unit for unit in shard.units if unit.key not in ended))
