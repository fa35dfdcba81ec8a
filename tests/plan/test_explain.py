from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from plan.plan_factories import GIB, POOLS, ancestors, suite

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError
from ciguard.model import UnitKey
from ciguard.plan.estimates import Observations, estimate_units, no_observations
from ciguard.plan.explain import Explained, explanation, find_unit
from ciguard.plan.inventory import inventory
from ciguard.plan.loss_isolation import CandidateSet
from ciguard.plan.overheads import LegCost, Overheads
from ciguard.plan.planner import Provenance, plan
from ciguard.plan.problem import PlanInputs, PlanOptions
from ciguard.plan.time_limits import time_limits
from ciguard.render.plaintext import as_text

if TYPE_CHECKING:
    from typing import Any

UNITS = ("a.py::one", "a.py::two", "b.py::three", "b.py::three[x]")
NAN = float("nan")
MIB = 1 << 20


def past(*rows: tuple[int, float, bool], peak: float = NAN) -> Observations:
    return Observations(
        unit=np.array([unit for unit, _, _ in rows], np.int32),
        wall_s=np.array([wall_s for _, wall_s, _ in rows]),
        peak_delta_bytes=np.full(len(rows), peak),
        retained_bytes=np.full(len(rows), peak / 2),
        is_lower_bound=np.array([stopped for _, _, stopped in rows], np.bool_),
    )


def explain_unit(observations: Observations, unit: str, **basis: Any) -> str:
    there = inventory([InventoryUnit(one) for one in UNITS], exclude={}, ordered=True)
    names = there.ancestors({"": ancestors})
    found = PlanInputs(
        inventory=there,
        estimates=estimate_units(observations, len(UNITS), names, there.members({"": ancestors})),
        suites={"": suite(base_bytes=100 * MIB)},
        pools={"linux": POOLS["linux"]},
        limits_s=(60.0,) * len(UNITS),
        **basis,
    )
    options = PlanOptions(time_limits(2700.0, 300.0), {"": "linux"}, shards=2)
    made = plan(found, options, Provenance())
    case = Explained(made.plan, found, observations, find_unit(found, unit))
    return as_text(explanation(case))


def test_explanation_has_values_and_shard_of_the_unit() -> None:
    text = explain_unit(past((0, 2.0, False), (0, 3.0, False), (0, 9.0, True), peak=GIB), "one")
    assert text.startswith("a.py::one\n\nshard    0")
    assert "time     9.00 s, give or take" in text
    assert "2.00 s, 3.00 s, over 9.00 s" in text
    assert "memory   1.00 GiB above 100 MiB of its process" in text
    assert "512 MiB of it is retained after the test" in text
    assert "file     a.py: 2 tests, divided over 2 shards" in text
    assert "timeout  1 min 00 s, then it is stopped" in text
    assert "estimated" not in text
    assert "raised   to the time after which it was stopped" in text


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([(0, 9.0, True)], "raised"),
        ([(0, 9.0, True), (1, 50.0, False)], "estimated"),
        ([(0, 9.0, True), (0, 2.0, False)], ""),
        ([(0, 2.0, False)], ""),
    ],
)
def test_explanation_marks_raised_and_estimated_times(
    rows: list[tuple[int, float, bool]], word: str
) -> None:
    """A sibling took longer than the unit had run; or it has completed since."""
    text = explain_unit(past(*rows), "one")
    assert [one for one in ("raised", "estimated") if f"\n{one} " in text] == [word] * bool(word)


def test_explanation_of_a_new_unit_names_similar_tests() -> None:
    reported = past((0, 2.0, False), (3, 8.0, False))
    assert "mean of the nearest similar tests that have timings" in explain_unit(reported, "two")
    no_one = explain_unit(no_observations(), "two")
    assert "no timings yet: every test is assumed to take the same time" in no_one
    assert "memory     not measured: 50.0 MiB reserved, above" in no_one


def test_explanation_has_overheads_and_suspects() -> None:
    text = explain_unit(
        past((0, 2.0, False)),
        "one",
        overheads=Overheads(
            {("", "linux"): 0.0021}, (0, 0, 1, 1), (0.5, 0.0), {"linux": LegCost(0.4, 0.1)}
        ),
        candidate_sets=(CandidateSet((0, 1), 2),),
    )
    assert "of its shard, with these parts besides the tests:" in text
    assert "0.40 s to start and 0.10 s to end the job" in text
    assert "2.1 ms after each test of its suite" in text
    assert "fixtures   0.50 s, shared by its file, once a process" in text
    assert "it may have killed 2 shards" in text
    assert "spread over the shards" in text


@pytest.mark.parametrize(
    ("suspects", "where"), [((0, 1), "spread over the shards"), ((0,), "isolated from all other")]
)
def test_explanation_names_a_suspect(suspects: tuple[int, ...], where: str) -> None:
    text = explain_unit(past((0, 2.0, False)), "one", candidate_sets=(CandidateSet(suspects, 1),))
    assert "it may have killed 1 shard" in text
    assert where in text


def test_unique_part_of_an_id_selects_the_unit() -> None:
    assert explain_unit(no_observations(), "three").startswith("b.py::three\n"), (
        "the end of an id is meant first"
    )
    assert explain_unit(no_observations(), "three[").startswith("b.py::three[x]\n")
    with pytest.raises(InputError, match=r"2 tests match 'a\.py'") as raised:
        explain_unit(no_observations(), "a.py")
    assert raised.value.fix == "pass one of:\n    a.py::one\n    a.py::two"
    with pytest.raises(InputError, match="no planned test matches") as raised:
        explain_unit(no_observations(), "a.py::oen")
    assert raised.value.fix == "did you mean a.py::one, a.py::two, b.py::three"
    with pytest.raises(InputError) as raised:
        explain_unit(no_observations(), "thrre")
    assert raised.value.fix == "did you mean b.py::three, b.py::three[x]"
    with pytest.raises(InputError) as raised:
        explain_unit(no_observations(), "qqq")
    assert raised.value.fix == "pass the name of a test, such as a.py::one, a.py::two, b.py::three"


def test_unit_with_several_variants_is_selected_by_displayed_name() -> None:
    units = [
        InventoryUnit(one, "web", suite_key) for one in UNITS for suite_key in ("cov", "plain")
    ]
    there = inventory(units, exclude={}, ordered=True)
    estimates = estimate_units(no_observations(), 8, lambda _: [""], lambda _: range(8))
    found = PlanInputs(there, estimates, {}, {})
    with pytest.raises(InputError, match="2 tests match") as raised:
        find_unit(found, "a.py::one")
    shown = raised.value.fix.split("\n    ")[1:]
    assert shown == ["[web/cov] a.py::one", "[web/plain] a.py::one"]
    keys = [UnitKey("web", suite_key, "a.py::one") for suite_key in ("cov", "plain")]
    assert [there.keys[find_unit(found, name)] for name in shown] == keys
    with pytest.raises(InputError) as raised:
        find_unit(found, "a.py::oen")
    assert raised.value.fix.startswith("did you mean [web/cov] a.py::one, [web/plain] a.py::one")
    with pytest.raises(InputError) as raised:
        find_unit(found, "web")
    assert raised.value.fix.count("[web/") == 8


def test_control_characters_in_error_names_are_escaped() -> None:
    there = inventory([InventoryUnit("\x1b[2Ja"), InventoryUnit("b\nc")], exclude={}, ordered=True)
    estimates = estimate_units(no_observations(), 2, lambda _: [""], lambda _: range(2))
    found = PlanInputs(there, estimates, {}, {})
    with pytest.raises(InputError) as raised:
        find_unit(found, "qqqqq")
    assert raised.value.fix.isprintable()
    assert find_unit(found, "b\nc") == 1
