"""Which of a shard's units a leg takes on, over literals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run.leg_runner import plan_of

from ciguard.errors import InputError, UsageError
from ciguard.model import LegPolicy, PlannedUnit, Suite, UnitKey
from ciguard.run.options import argument_parser, seconds, selection_of
from ciguard.run.policy.recycling import process_limit_bytes
from ciguard.run.policy.state import MIB, State
from ciguard.run.selection import ALL_UNITS, Selection, up_to, without_units

SUITES = {"": Suite("any", ("any",))}
SHARD = replace(
    plan_of(["a.py::x", PlannedUnit("a.py::y", variant="v"), "a.py::y", "b.py::z"]).shards[0],
    key="47",
)


def test_up_to_preserves_the_order_of_the_shard() -> None:
    part = up_to(SHARD, "b.py::z", SUITES)
    assert part == SHARD
    assert up_to(SHARD, "a.py::x", SUITES) == replace(SHARD, units=SHARD.units[:1])


def test_displayed_name_distinguishes_variants() -> None:
    assert up_to(SHARD, "[v] a.py::y", SUITES).units == SHARD.units[:2]
    with pytest.raises(InputError) as caught:
        up_to(SHARD, "a.py::y", SUITES)
    assert caught.value.what == "2 tests of shard 47 have this name"
    assert caught.value.fix == "pass one of '[v] a.py::y', 'a.py::y'"


@pytest.mark.parametrize(
    ("unit", "fix"),
    [
        ("b.py:z", "did you mean b.py::z"),
        ("b.py::z ", "did you mean b.py::z"),
        ("#", "look for its shard in the plan"),
    ],
)
def test_unknown_unit_error_suggests_a_fix(unit: str, fix: str) -> None:
    with pytest.raises(InputError, match="not among the 4 tests of shard 47") as caught:
        up_to(SHARD, unit, SUITES)
    assert caught.value.where == f"--until {unit}"
    assert caught.value.fix.startswith(fix)
    other = replace(SHARD, key="48", units=(PlannedUnit(unit),))
    with pytest.raises(InputError) as caught:
        up_to(SHARD, unit, SUITES, [SHARD, other])
    assert caught.value.fix == "it is in shard 48"


def test_finished_units_are_removed() -> None:
    left = without_units(SHARD, {UnitKey("", "", "a.py::y"), UnitKey("", "", "gone")})
    assert left.units == (*SHARD.units[:2], SHARD.units[3])


@pytest.mark.parametrize(
    ("text", "expected_s"), [("90s", 90), ("15m", 900), ("1.5h", 5400), ("1h30m", 5400)]
)
def test_duration_formats(text: str, expected_s: float) -> None:
    assert seconds(text, where="--for") == expected_s


@pytest.mark.parametrize("text", ["", "15", "m", "0s", "0.0h", "-1s", "15 m", "15min"])
def test_invalid_duration_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="no time") as caught:
        seconds(text, where="--for")
    assert caught.value.where == "--for"


def test_selection_from_command_line_options() -> None:
    def scope(*words: str) -> Selection:
        return selection_of(argument_parser().parse_args(("--record", "r", *words)))

    assert scope() == ALL_UNITS
    assert scope("--until", "u") == Selection(until="u")
    assert scope("--resume-from", "a", "--resume-from", "b", "--for", "2m") == Selection(
        earlier=("a", "b"), step_limit_s=120.0
    )
    assert scope("--continue", "a") == Selection(earlier=("a",), continues_attempt=True)
    for word in ("--until", "--resume-from", "--continue"):
        with pytest.raises(UsageError, match=f"{word} is empty"):
            scope(word, "")
    for words in (("--until", "u", "--continue", "a"), ("--resume-from", "a", "--continue", "b")):
        with pytest.raises(SystemExit, match="2"):
            scope(*words)


@pytest.mark.parametrize("part", ["b.py::z", "z", "py::z", "b."])
def test_unique_part_of_an_id_selects_the_unit(part: str) -> None:
    assert up_to(SHARD, part, SUITES).units[-1].unit == "b.py::z"


def test_ambiguous_part_of_an_id_is_an_error() -> None:
    with pytest.raises(InputError, match="tests of shard 47 have this name"):
        up_to(SHARD, "py", SUITES)


@pytest.mark.parametrize(
    ("unit", "expected"), [("d", "ad"), ("c", "bc"), ("a", "a"), ("b", "b"), ("e", "ade")]
)
def test_until_selects_only_units_of_the_same_process(unit: str, expected: str) -> None:
    """Shared out longest first: 6, 3, 1 to the one and 5, 4 to the other."""
    walls = {"a": 6.0, "b": 4.0, "c": 5.0, "d": 3.0, "e": 1.0}
    planned = [PlannedUnit(name, wall_s=wall_s) for name, wall_s in walls.items()]
    (shard,) = plan_of(planned, processes=2).shards
    part = up_to(shard, unit, SUITES)
    assert "".join(one.unit for one in part.units) == expected
    assert part.processes == 1


@given(st.integers(1, 64 << 10), st.integers(2, 8))
def test_process_run_by_itself_has_the_same_memory_limit(budget_mib: int, processes: int) -> None:
    (shard,) = plan_of("ab", processes=processes, budget_bytes=budget_mib * MIB).shards
    caps = [
        process_limit_bytes(State(one, SUITES, LegPolicy()))
        for one in (shard, up_to(shard, "b", SUITES))
    ]
    assert caps[0] <= caps[1] <= caps[0] + 4
