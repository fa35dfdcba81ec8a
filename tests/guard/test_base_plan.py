"""A plan that lies in the repository: a pull request cannot take tests out of it in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Ciguard
from guard.fixtures import SHARDS, World, make_plan
from guard.test_effective_policy import PolicyCheckout

from ciguard.codec import plan_file
from ciguard.guard.headline import headline
from ciguard.guard.verdict import Policy
from ciguard.guard.wording import finding_message
from ciguard.model import Exclusion, InventorySummary, Orphan, Plan

COMMIT = "0123456789abcdef"
NAMES = [f"many.t::{number:03}" for number in range(200)]


def plan_of(*names: str, orphans: tuple[str, ...] = ()) -> Plan:
    listed = tuple(Orphan(name, "not_requested") for name in orphans)
    inventory = InventorySummary(len(names) + len(orphans), {}, "0", orphans=listed)
    return make_plan({"01": names}, inventory=inventory)


def judged(before: Plan, now: Plan) -> tuple[str, list[str]]:
    world = World(now)
    world.policy = Policy(base_plan=before, commit=COMMIT, orphans=len(now.inventory.orphans))
    found = world.prove()
    return headline(found), [finding_message(one) for one in found.findings]


def test_plan_that_lost_nothing_has_no_finding() -> None:
    _, findings = judged(plan_of(*NAMES[:5]), plan_of(*NAMES[:6]))
    assert findings == []


def test_test_that_is_gone_is_named_in_the_first_line() -> None:
    lost = f"this plan does not have 1 test of the plan of {COMMIT[:10]}: {NAMES[199]}"
    assert judged(plan_of(*NAMES), plan_of(*NAMES[:199])) == (
        f"PASSED: all 199 tests of 1 shard have a result; {lost}",
        [lost],
    )


def test_more_than_the_base_allows_make_the_run_incomplete() -> None:
    first, findings = judged(plan_of(*NAMES), plan_of(*NAMES[:150]))
    assert first.startswith("INCOMPLETE: 150 tests planned, 200 on the base (-25.0 %, plan of 0123")
    assert len(findings) == 2


def test_known_orphans_count_as_tests_of_both() -> None:
    before = plan_of(*NAMES[:4], orphans=(NAMES[4],))
    assert judged(before, plan_of(*NAMES[:5]))[1] == []
    _, findings = judged(before, plan_of(*NAMES[:4]))
    assert findings == [f"this plan does not have 1 test of the plan of {COMMIT[:10]}: {NAMES[4]}"]
    assert judged(plan_of(*NAMES[:5]), plan_of(*NAMES[:4], orphans=(NAMES[4],)))[1] == [
        "1 test in no shard: acknowledged by guard.orphans = 1"
    ]


def test_test_that_is_excluded_now_is_gone() -> None:
    rule = (Exclusion(NAMES[4], "slow"),)
    now = make_plan({"01": tuple(NAMES[:4])}, inventory=InventorySummary(5, {}, "0", excluded=rule))
    assert "does not have 1 test" in judged(plan_of(*NAMES[:5]), now)[0]


@pytest.mark.parametrize(
    ("path", "known"),
    [("ciguard/plan.json", True), ("ciguard", True), ("../elsewhere/plan.json", False)],
)
def test_plan_of_the_base_is_read_where_it_is_a_file_of_the_repository(
    tmp_path: Path, ciguard: Ciguard, path: str, known: bool
) -> None:
    before = make_plan(SHARDS)
    short = make_plan({key: names[:1] for key, names in SHARDS.items()})
    checkout = PolicyCheckout(tmp_path).propose(
        {"ciguard/plan.json": plan_file.encode(before).decode()},
        {"ciguard/plan.json": plan_file.encode(short).decode()},
    )
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/plan.json").write_bytes(plan_file.encode(short))
    words = ("guard", "--plan", path, "--records", "no-records")
    (checkout.folder / "no-records").mkdir()
    answer = ciguard(*words, cwd=checkout.folder, expect=13, **checkout.environ())
    assert ("on the base" in answer.stdout) == known
    assert ("does not have" in answer.stdout) == known


LARGE = plan_file.encode(make_plan({"01": tuple(f"many.t::{n:06}" for n in range(12_000))}))


@pytest.mark.parametrize(
    ("before", "what"),
    [
        (LARGE.decode(), "8 tests planned, 12,000 on the base"),
        ("{", "the plan of the base could not be read"),
    ],
    ids=["large", "damaged"],
)
def test_plan_of_the_base_leaves_its_policy(
    tmp_path: Path, ciguard: Ciguard, before: str, what: str
) -> None:
    assert len(LARGE) > 1 << 20
    now = plan_file.encode(make_plan()).decode()
    checkout = PolicyCheckout(tmp_path).propose({"plan.json": before}, {"plan.json": now})
    words = ("guard", "--plan", "plan.json", "--records", "no-records")
    (checkout.folder / "no-records").mkdir()
    answer = ciguard(*words, cwd=checkout.folder, expect=13, **checkout.environ())
    assert what in " ".join(answer.stdout.split())
    assert "policy of the base" not in answer.stdout
