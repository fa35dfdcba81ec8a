"""Tests in no shard: acknowledged in the configuration of the base branch, or one too many."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Ciguard
from guard.fixtures import SHARDS, World, make_leg, make_plan
from guard.test_effective_policy import PolicyCheckout

from ciguard.codec import plan_file
from ciguard.codec.record.reader import read_records
from ciguard.config.invocation import Invocation
from ciguard.guard.headline import headline
from ciguard.guard.policy import Questions, context_of, effective_policy
from ciguard.guard.verdict import Policy, Verdict
from ciguard.guard.view import document
from ciguard.guard.wording import finding_fix, finding_message
from ciguard.history.file import History, encode
from ciguard.history.ingest import history_of
from ciguard.history.merge import merge
from ciguard.history.query import last_shards
from ciguard.model import InventorySummary, Orphan, Plan, UnitKey
from ciguard.render.plaintext import as_text

LOST = "d.t::eight"
NEVER = "e.t::nine"


def plan_with_orphans(*names: str, shards: dict[str, tuple[str, ...]] = SHARDS) -> Plan:
    orphans = tuple(Orphan(name, "not_requested") for name in names)
    count = sum(map(len, shards.values())) + len(names)
    return make_plan(shards, inventory=InventorySummary(count, {}, "0", orphans=orphans))


def verdict(plan: Plan, accepted: int = 0) -> Verdict:
    world = World(plan)
    world.policy = Policy(orphans=accepted)
    return world.prove()


def test_plan_without_orphans_has_nothing_to_tell() -> None:
    assert verdict(make_plan()).findings == ()


@pytest.mark.parametrize(
    ("accepted", "output", "fix"),
    [
        (0, "INCOMPLETE: 2 tests in no shard", "or set guard.orphans = 2"),
        (1, "INCOMPLETE: 2 tests in no shard, 1 acknowledged", "guard.orphans = 2"),
        (2, "PASSED: all 8 tests of 3 shards have a result, 2 in no shard (acknowledged)", ""),
        (5, "PASSED: all 8 tests of 3 shards have a result, 2 in no shard (acknowledged)", "to 2"),
    ],
)
def test_more_orphans_than_acknowledged_are_incomplete(
    accepted: int, output: str, fix: str
) -> None:
    found = verdict(plan_with_orphans(NEVER, "e.t::ten"), accepted)
    assert headline(found) == output
    (finding,) = found.findings
    assert fix in finding_fix(finding)
    # Each is collected: that it is not planned is said once.
    assert (NEVER in as_text(document(found))) == (accepted < 2)


def test_lost_tests_are_named_beside_orphans() -> None:
    world = World(plan_with_orphans(NEVER))
    world.result("01", "a.t::one", outcome="failed")
    assert headline(world.prove()) == ("INCOMPLETE: 1 test in no shard; 1 of 8 tests failed")
    del world.legs["02"]
    assert headline(world.prove()) == (
        "INCOMPLETE: shard 02 of 3 has no record; 2 of 8 tests have no result; "
        "1 test in no shard; 1 of 8 tests failed"
    )


def history() -> History:
    """Of run 6, in which another shard had the test, and of run 7."""
    plans = {
        6: make_plan({**SHARDS, "02": (*SHARDS["02"], LOST), "03": SHARDS["03"][:-1]}),
        7: make_plan(),
    }
    found = [
        history_of(read_records({path: content for leg in legs for path, content in leg}.items()))
        for run, plan in plans.items()
        if (legs := [make_leg(plan, key, run=run).files().items() for key in SHARDS])
    ]
    return merge(*found)


def test_history_knows_where_a_test_ran_last() -> None:
    found = last_shards(history(), [UnitKey("", "", LOST), UnitKey("", "", NEVER)])
    assert [(one.shard, one.run_id) for one in found.values()] == [("03", 7)]


def test_shard_that_lost_a_test_is_named(tmp_path: Path, ciguard: Ciguard) -> None:
    """With two orphans and one acknowledged, the one that ran is the one that is named."""
    shards = {**SHARDS, "03": SHARDS["03"][:-1]}
    plan = plan_with_orphans(LOST, NEVER, shards=shards)
    (tmp_path / "plan.json").write_bytes(plan_file.encode(plan))
    (tmp_path / "past").write_bytes(encode(history()))
    (tmp_path / "ciguard.toml").write_text("[guard]\norphans = 1\n")
    for path, content in World(plan).files().items():
        (tmp_path / "records" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "records" / path).write_bytes(content)
    words = ("guard", "--plan", "plan.json", "--records", "records", "--history", "past")
    done = ciguard(*words, cwd=tmp_path, expect=13)
    assert " ".join(done.stdout.split()).startswith(
        "INCOMPLETE: 2 tests in no shard, 1 acknowledged; "
        "shard 03: 1 missing test last ran in this shard in run 7: d.t::eight"
    )
    assert NEVER not in done.stdout
    (tmp_path / "ciguard.toml").write_text("[guard]\norphans = 2\n")
    assert "2 in no shard (acknowledged)" in ciguard(*words, cwd=tmp_path).stdout


def test_number_is_that_of_the_base(tmp_path: Path) -> None:
    checkout = PolicyCheckout(tmp_path).propose(
        {"ciguard.toml": "[guard]\norphans = 2\n"}, {"ciguard.toml": "[guard]\norphans = 3\n"}
    )
    found = checkout.applied()
    assert found.orphans == 2
    assert [finding_message(one) for one in found.findings] == [
        "this pull request changes guard.orphans"
    ]
    orphans = [UnitKey("", "", LOST), *(UnitKey("", "", f"x{at}") for at in range(2))]
    context = context_of(Invocation(checkout.environ(), checkout.folder))
    assert effective_policy(context, False, history).last_shards == {}
    asked = effective_policy(context, False, history, questions=Questions(orphans=orphans))
    assert [one.shard for one in asked.last_shards.values()] == ["03"]


def test_base_that_cannot_be_read_acknowledges_none(tmp_path: Path) -> None:
    checkout = PolicyCheckout(tmp_path).propose({"ciguard.toml": "[guard"}, {})
    orphans = [UnitKey("", "", LOST)]
    (checkout.folder / "ciguard.toml").write_text("[guard]\norphans = 1\n")
    context = context_of(Invocation(checkout.environ(), checkout.folder))
    questions = Questions(orphans=orphans)
    found = effective_policy(context, False, history, questions=questions)
    assert (found.source, found.orphans) == ("strictest", 0)
    assert found.last_shards.keys() == {*orphans}


def test_tests_of_a_list_after_a_panic_are_lost_with_their_package(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    """Of Go's packages: one ends in a test, and one before its first test."""
    events = [
        {"Action": "run", "Package": "shop/cart", "Test": "TestBoom"},
        {"Action": "output", "Package": "shop/cart", "Test": "TestBoom", "Output": "panic: no"},
        {"Action": "fail", "Package": "shop/cart", "Test": "TestBoom"},
        {"Action": "fail", "Package": "shop/cart"},
        {"Action": "output", "Package": "shop/db", "Output": "panic: no database"},
        {"Action": "fail", "Package": "shop/db"},
    ]
    (tmp_path / "go").mkdir()
    lines = (json.dumps({"Time": "2026", **event}, separators=(",", ":")) for event in events)
    (tmp_path / "go/results.json").write_text("\n".join(lines) + "\n")
    listed = "TestBoom\nTestLast\nok  \tshop/cart\t0.1s\nTestA\nok  \tshop/db\t0.1s\n"
    (tmp_path / "list").write_text(listed)
    words = ("report", "--results", "go/*.json", "--tests", "list")
    text = ciguard(*words, cwd=tmp_path, expect=13).stdout
    assert text.startswith("### :warning: INCOMPLETE: 2 listed tests without a result; ")
    assert "1 listed test of shop/cart did not run: TestBoom failed (crash). Repair" in text
    assert "1 listed test of shop/db did not run: shop/db failed (crash). Repair" in text
    assert "; 2 of 2 tests failed" in text.partition("\n")[0]
    assert "in no shard" not in text
