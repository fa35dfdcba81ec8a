"""A real green run, damaged at random, passes only where every unit still has its result."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from guard import damages, green_runs
from guard.fixtures import World
from guard.mutations import mutated
from guard.oracle import Run, broken, passes
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.codec.record.reader import read_records
from ciguard.guard.headline import headline
from ciguard.guard.prove import prove


@pytest.fixture(scope="module")
def green(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return green_runs.first(tmp_path_factory.mktemp("green"))


@pytest.fixture(scope="module")
def run_with_flaky_unit(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return green_runs.second(tmp_path_factory.mktemp("mended"))


def test_invariant_holds_for_a_passed_run(green: Run) -> None:
    verdict = green.verdict()
    assert verdict is not None
    assert headline(verdict) == "PASSED: all 9 tests of 3 shards have a result, 1 of them skipped"
    assert passes(green)
    assert broken(green, green) == ""
    assert len(green.files) >= 6


@pytest.mark.soak
def test_invariant_holds_for_a_run_with_flaky_units(run_with_flaky_unit: Run) -> None:
    verdict = run_with_flaky_unit.verdict()
    assert verdict is not None
    assert (
        headline(verdict)
        == "PASSED: all 10 tests of 3 shards have a result; 1 quarantined test failed"
    )
    assert [one.key.unit for one in verdict.flaky] == [
        "test_cart.py::test_price",
        "test_stock.py::test_till",
    ]
    assert passes(run_with_flaky_unit)
    assert broken(run_with_flaky_unit, run_with_flaky_unit) == ""


def hunt(green: Run, seeds: range) -> Counter[str]:
    """What came of each seed; the first that passes and may not is named with all it did."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        run, done = mutated(random.Random(seed), green)
        passed = passes(run)
        why = broken(green, run)
        assert not (passed and why), f"seed {seed} is green although {why}: {'; '.join(done)}"
        seen["green" if passed else "not green, and broken" if why else "not green"] += 1
    return seen


def test_damaged_run_passes_only_if_every_unit_has_a_result(green: Run) -> None:
    seen = hunt(green, range(100))
    # Many runs are broken, and some damages hurt nothing: the law is neither idle nor blind.
    assert seen["not green, and broken"] > 37
    assert seen["green"] > 4


@pytest.mark.soak
def test_damaged_flaky_run_passes_only_if_every_unit_has_a_result(run_with_flaky_unit: Run) -> None:
    seen = hunt(run_with_flaky_unit, range(60))
    assert seen["not green, and broken"] > 20
    assert seen["green"] > 8


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("run", "seeds"),
    [("green", range(10**6, 1_020_000)), ("run_with_flaky_unit", range(2 * 10**6, 2_010_000))],
    ids=["passed", "flaky"],
)
def test_thousands_of_mutations(run: str, seeds: range, request: pytest.FixtureRequest) -> None:
    hunt(request.getfixturevalue(run), seeds)


@settings(max_examples=25, deadline=None)
@given(st.permutations(sorted(World().files())))
def test_verdict_is_independent_of_file_order(order: list[str]) -> None:
    world = World()
    damages.failed(world)
    damages.record_removed(world)
    files = world.files()
    records = read_records((path, files[path]) for path in order if path in files)
    assert prove(world.plan, reversed(records)) == world.prove()
