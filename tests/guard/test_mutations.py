"""A real green run, damaged at random, passes only where every unit still has its result."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from conftest import clean_environment
from guard import damages
from guard.law import HEAD, Run, broken, passes
from guard.mutations import mutated
from guard.world import World
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.codec.gathering import read_records
from ciguard.folders import record_files
from ciguard.guard.proof import prove

if TYPE_CHECKING:
    from pathlib import Path

SUITE = {
    "test_cart.py": """
import pytest

@pytest.mark.parametrize("count", [1, 2, 3])
def test_total(count):
    assert sum([5] * count) == 5 * count

@pytest.mark.skip(reason="not sold any more")
def test_empty():
    raise AssertionError
""",
    "test_stock.py": """
import pytest, unittest

class TestStock(unittest.TestCase):
    def test_reserve(self):
        self.assertEqual({"apple": 3}["apple"], 3)

    def test_refill(self):
        self.assertEqual([0] * 3, [0, 0, 0])

@pytest.mark.xfail(reason="rounding")
def test_price():
    assert 0.1 + 0.2 == 0.3
""",
    "test_tills.py": "def test_open(): pass\n\ndef test_shut(): pass\n",
}


OF_RUN = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_REPOSITORY": "octo-org/shop",
    "GITHUB_RUN_ID": "7",
    "GITHUB_RUN_ATTEMPT": "1",
    "GITHUB_SHA": HEAD,
}


@pytest.fixture(scope="module")
def green(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A plan and three legs as they really come."""
    folder = tmp_path_factory.mktemp("green")
    for name, text in SUITE.items():
        (folder / name).write_text(text)
    call(folder, "plan", "--shards", "3", "--history", "none", "--artifact", "plan")
    for shard in ("01", "02", "03"):
        words = ("run", "--plan", "plan", "--shard", shard, "--record", f"records/{shard}")
        call(folder, *words, **OF_RUN, CIGUARD_JOB=f"tests ({shard})")
    plan = (folder / "plan" / "plan.json").read_bytes()
    return Run.green(plan, dict(record_files(folder / "records").files))


def call(folder: Path, *words: str, **environ: str) -> None:
    command = [sys.executable, "-m", "ciguard", *words]
    environment = clean_environment(**environ)
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_law_passes_what_is_green(green: Run) -> None:
    verdict = green.verdict()
    assert verdict is not None
    assert verdict.headline == "PASSED: all 9 units of 3 shards have a result, 2 of them skipped"
    assert passes(green)
    assert broken(green, green) == ""
    assert len(green.files) >= 6


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


def test_no_damage_passes_unless_every_unit_still_has_its_result(green: Run) -> None:
    seen = hunt(green, range(400))
    # Many runs are broken, and some damages hurt nothing: the law is neither idle nor blind.
    assert seen["not green, and broken"] > 150
    assert seen["green"] > 20


@pytest.mark.soak
def test_twenty_thousand_damages(green: Run) -> None:
    seen = hunt(green, range(1_000_000, 1_020_000))
    assert seen.total() == 20_000


@settings(max_examples=25, deadline=None)
@given(st.permutations(sorted(World().files())))
def test_the_order_of_files_does_not_matter(order: list[str]) -> None:
    world = World()
    damages.failed(world)
    damages.record_removed(world)
    files = world.files()
    records = read_records((path, files[path]) for path in order if path in files)
    assert prove(world.plan, reversed(records)) == world.prove()
