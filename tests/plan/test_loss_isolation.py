from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.history.file import CODE_NAMES, History, of_columns
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import CaseKey, UnitKey
from ciguard.plan.inventory import inventory
from ciguard.plan.loss_isolation import CandidateSet, candidate_sets, place_candidates
from ciguard.plan.observations import map_keys

if TYPE_CHECKING:
    from ciguard.model import Ending

NAMES = "abcdefgh"


def found(*runs: tuple[str, str], ending: Ending = "unknown") -> tuple[CandidateSet, ...]:
    """Runs as (units that ended well, units of the shard that was lost), oldest first."""
    there = inventory([InventoryUnit(name) for name in NAMES], exclude={}, ordered=True)
    known = tuple(
        HistoryRun(
            number,
            legs=(
                HistoryLeg("01", ending="completed", complete=True),
                HistoryLeg("02", ending=ending, lost_units=tuple(UnitKey("", "", u) for u in lost)),
            ),
        )
        for number, (_, lost) in enumerate(runs, 1)
    )
    rows = sorted((name, run) for run, (good, _) in enumerate(runs) for name in good)
    keys = sorted({name for name, _ in rows})
    columns: dict[str, Any] = {
        "key": np.array([keys.index(name) for name, _ in rows], np.int32),
        "run": np.array([run for _, run in rows], np.int32),
        "leg": np.zeros(len(rows), np.int32),
        "outcome": np.full(len(rows), CODE_NAMES["outcome"].index("passed"), np.uint8),
        "ending": np.full(len(rows), CODE_NAMES["ending"].index("completed"), np.uint8),
        "measured_by": np.zeros(len(rows), np.uint8),
        "try_number": np.ones(len(rows), np.uint8),
    }
    history = History(
        of_columns(columns), known, tuple(CaseKey("", "", name, name) for name in keys)
    )
    return candidate_sets(history, there, map_keys(history, there).unit_of_key)


def named(*output: tuple[str, int]) -> tuple[CandidateSet, ...]:
    return tuple(CandidateSet(tuple(map(NAMES.index, units)), losses) for units, losses in output)


def test_units_of_a_lost_shard_are_suspects_until_they_complete() -> None:
    assert found(("ab", "cd")) == named(("cd", 1))
    assert found(("ab", "cd"), ("c", "")) == named(("d", 1))
    assert found(("ab", "cd"), ("cd", "")) == ()


def test_completion_before_the_loss_does_not_clear_a_unit() -> None:
    assert found(("abcd", ""), ("ab", "cd")) == named(("cd", 1))


def test_losses_intersect_to_the_culprit() -> None:
    assert found(("ef", "abcd"), ("cd", "aeg")) == named(("a", 2))
    assert found(("", "abcd"), ("", "abe"), ("", "bfg")) == named(("b", 3))


def test_disjoint_losses_give_two_candidate_sets() -> None:
    assert found(("", "ab"), ("", "cd")) == named(("cd", 1), ("ab", 1))


@pytest.mark.parametrize("ending", ["cancelled", "superseded", "deadline", "setup_failed"])
def test_leg_stopped_for_a_known_reason_gives_no_suspects(ending: Ending) -> None:
    assert found(("", "ab"), ending=ending) == ()


def test_suspects_are_spread_until_each_can_be_isolated() -> None:
    many, few = CandidateSet((0, 1, 2), 1), CandidateSet((5,), 2)
    own, spread = place_candidates((many,), range(8), 2)
    assert (own, sorted(map(len, spread))) == ([], [1, 2])
    own, spread = place_candidates((many, few), range(8), 4)
    assert own == [(5,)], "a set of one unit"
    assert sorted(spread) == [(0,), (1,), (2,)]
    own, _ = place_candidates((CandidateSet((5, 6), 2),), range(32), 16)
    assert own == [(5,), (6,)], "an eighth of 16"
    own, _ = place_candidates((CandidateSet((5, 6, 7), 2),), range(32), 16)
    assert own == []


def test_suspects_are_not_isolated_without_other_units() -> None:
    own, spread = place_candidates((CandidateSet((0, 1), 2),), (0, 1), 2)
    assert (own, sorted(spread)) == ([], [(0,), (1,)])
    assert place_candidates((CandidateSet((0,), 2),), (0, 1), 1) == ([], [(0,)])


@given(
    st.integers(1, 30).flatmap(
        lambda units: st.tuples(
            st.just(units), st.integers(1, units), st.sets(st.integers(0, units - 1))
        )
    ),
    st.integers(1, 3),
    st.sets(st.integers(0, 29)),
)
def test_every_suspect_is_placed_once_and_no_shard_stays_empty(
    sizes: tuple[int, int, set[int]], losses: int, together: set[int]
) -> None:
    units, count, suspects = sizes
    marked = tuple(sorted(unit for unit in together if unit < units))
    groups = (marked,) if marked and count <= units - len(marked) + 1 else ()
    suspicion = (CandidateSet(tuple(sorted(suspects)), losses),) if suspects else ()
    own, spread = place_candidates(suspicion, range(units), count, colocated=groups)
    assert len(own) + len(spread) == count
    if groups and suspects.intersection(marked):
        suspects |= set(marked)
    assert sorted(unit for one in (*own, *spread) for unit in one) == sorted(suspects)
    assert all(own)
    rest = set(range(units)) - suspects
    pieces = len(rest) - (len(marked) - 1 if groups and rest.issuperset(marked) else 0)
    assert pieces >= sum(not one for one in spread), "none stays empty"
