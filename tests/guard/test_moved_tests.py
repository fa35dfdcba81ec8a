"""Which leg a unit of a block belongs to, in the verdict over records as legs write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Golden
from guard.fixtures import VERDICT_SCHEMA, text_of
from guard.moved_runs import MOVED, SHARDS, MovedRun, run_with_a_move

from ciguard.guard.json import as_json
from ciguard.guard.verdict import Verdict
from ciguard.guard.view import document
from ciguard.model import EventLine, Result, StartLine, UnitKey
from ciguard.render.markdown import as_markdown

SAMPLES = Path(__file__).parents[1] / "samples" / "guard"


@pytest.fixture
def run() -> MovedRun:
    return run_with_a_move()


def missing(verdict: Verdict) -> list[tuple[str, str, str, str]]:
    return [
        (one.key.unit, one.shard, one.planned_shard, one.reason.kind) for one in verdict.missing
    ]


def kinds(verdict: Verdict) -> list[tuple[str, str]]:
    return [(one.kind, one.shard) for one in verdict.findings]


def rows(verdict: Verdict) -> dict[str, str]:
    return {leg.shard: f"{leg.with_result} of {leg.planned}" for leg in verdict.legs}


def test_run_without_moves_is_green_and_says_nothing() -> None:
    verdict = MovedRun().world.prove()
    assert (verdict.state, kinds(verdict)) == ("passed", [])
    assert verdict.moved is not None
    assert (verdict.moved.units, verdict.moved.shards, verdict.moved.requests) == (0, 0, 9)
    assert "moved" not in text_of(verdict)


def test_result_of_the_claimer_counts(run: MovedRun) -> None:
    verdict = run.world.prove()
    assert (verdict.state, verdict.missing, verdict.findings) == ("passed", (), ())
    assert rows(verdict) == {"01": "3 of 3", "02": "4 of 4", "03": "5 of 5"}
    assert verdict.moved is not None
    assert (verdict.moved.units, verdict.moved.shards, verdict.moved.ran_twice) == (1, 2, 0)


def test_report_of_moves_matches_golden_files(run: MovedRun, golden: Golden) -> None:
    verdict = run.world.prove()
    content = as_json(verdict)
    VERDICT_SCHEMA.validate(content)
    golden(text_of(verdict), SAMPLES / "moved.txt")
    golden(json.dumps(content, indent=2) + "\n", SAMPLES / "moved.json")


@pytest.mark.parametrize(("failing", "both"), [("03", False), ("01", True), ("03", True)])
def test_pass_of_another_execution_hides_no_failure(
    run: MovedRun, failing: str, both: bool
) -> None:
    if both:  # the owner got no answer, and ran what the service had given to another leg
        run.leg("01", SHARDS["01"], claimed=["01.1"])
    run.fail(failing, MOVED)
    verdict = run.world.prove()
    assert verdict.state == "failed"
    assert [(one.shard, one.result.unit) for one in verdict.failures] == [(failing, MOVED)]
    assert verdict.flaky == ()


def test_unit_that_both_legs_ran_is_no_warning(run: MovedRun) -> None:
    run.leg("01", SHARDS["01"], claimed=["01.1"])
    verdict = run.world.prove()
    assert (verdict.state, verdict.findings) == ("passed", ())
    assert rows(verdict)["01"] == "4 of 4"
    assert rows(verdict)["03"] == "4 of 4"
    assert verdict.moved is not None
    assert (verdict.moved.units, verdict.moved.ran_twice) == (1, 1)


def test_leg_that_claimed_and_died_is_to_blame(run: MovedRun) -> None:
    """The record of the owner says "taken", and the claimer did not begin it."""
    run.leg("03", SHARDS["03"], claimed=["03.1", "03.2", "01.2"], dies=True)
    verdict = run.world.prove()
    assert verdict.state == "incomplete"
    assert missing(verdict) == [(MOVED, "03", "01", "not_started")]
    assert {shard for _, shard in kinds(verdict)} == {"03"}
    assert rows(verdict) == {"01": "3 of 3", "02": "4 of 4", "03": "4 of 5"}
    assert "claimed by shard 03 from shard 01" in " ".join(text_of(verdict).split())


def test_culprit_of_the_claimer_is_what_it_had_begun(run: MovedRun) -> None:
    run.leg("03", (*SHARDS["03"], MOVED), claimed=["03.1", "03.2", "01.2"], dies=True)
    run.world.drop("03", Result, unit=MOVED)
    verdict = run.world.prove()
    assert missing(verdict) == [(MOVED, "03", "01", "unfinished")]
    (finding,) = verdict.findings
    assert finding.culprits == (UnitKey("", "", MOVED),)


def test_leg_that_died_owes_only_what_nobody_claimed(run: MovedRun) -> None:
    run.leg("01", SHARDS["01"][:2], dies=True)
    verdict = run.world.prove()
    assert missing(verdict) == [("a.t::three", "01", "", "not_started")]
    assert rows(verdict)["01"] == "2 of 3"
    del run.world.legs["01"]
    verdict = run.world.prove()
    units = [unit for unit, *_ in missing(verdict)]
    assert units == ["a.t::one", "a.t::three", "a.t::two"]
    assert {shard for _, shard, *_ in missing(verdict)} == {"01"}


def test_block_that_no_record_claims_is_missing(run: MovedRun) -> None:
    run.leg("03", SHARDS["03"], claimed=["03.1", "03.2"])
    verdict = run.world.prove()
    assert verdict.state == "incomplete"
    assert missing(verdict) == [(MOVED, "01", "", "claim_without_record")]
    assert kinds(verdict) == [("claim_without_record", "01")]
    assert "1 test moved to another job, that of shard 03, and no record claims them" in " ".join(
        text_of(verdict).split()
    )


def test_leg_without_a_record_is_to_blame_for_what_it_had(run: MovedRun) -> None:
    """Its runner died, and only the owner's record says that it had the block."""
    del run.world.legs["03"]
    verdict = run.world.prove()
    lost = [(unit, "03", "", "shard_without_record") for unit in SHARDS["03"]]
    lost.append((MOVED, "03", "01", "shard_without_record"))
    assert missing(verdict) == sorted(lost)
    (finding,) = verdict.findings
    assert (finding.kind, finding.shard, len(finding.units)) == ("no_record", "03", 5)
    assert rows(verdict)["03"] == "0 of 5"


def test_owner_that_ran_what_a_leg_without_a_record_had(run: MovedRun) -> None:
    """It had heard that 03 has the block, and got it back: a result counts wherever it is."""
    run.leg("01", SHARDS["01"], claimed=["01.1", "01.2"], taken={"01.2": "03"})
    del run.world.legs["03"]
    assert {one[0] for one in missing(run.world.prove())} == set(SHARDS["03"])
    run.world.drop("01", StartLine, Result, unit=MOVED)
    assert (MOVED, "01", "", "not_mentioned") in missing(run.world.prove())


def test_result_without_the_result_line_is_missing_in_the_claimer(run: MovedRun) -> None:
    """It says that it runs the block, ends well, and has no word of the unit."""
    run.leg("03", SHARDS["03"], claimed=["03.1", "03.2", "01.2"])
    verdict = run.world.prove()
    assert verdict.state == "incomplete"
    assert missing(verdict) == [(MOVED, "03", "01", "not_mentioned")]
    assert kinds(verdict) == [("no_reason_recorded", "03")]


def test_blocks_of_two_shards_that_are_not_claimed_again_have_a_finding_each() -> None:
    run = MovedRun()
    run.leg("01", SHARDS["01"][:3], claimed=["01.1"], taken={"01.2": "03"})
    run.leg("02", SHARDS["02"][:3], claimed=["02.1"], taken={"02.2": "03"})
    run.leg("03", SHARDS["03"], claimed=["03.1", "03.2", "02.2", "01.2"])
    run.leg("03", SHARDS["03"], claimed=["03.1", "03.2"], attempt=2)
    verdict = run.world.prove()
    assert [(one.facts["owner"], [key.unit for key in one.units]) for one in verdict.findings] == [
        ("01", [MOVED]),
        ("02", ["b.t::four"]),
    ]
    assert [one.planned_shard for one in verdict.missing] == ["01", "02"]


def test_claimer_that_runs_again_claims_again(run: MovedRun) -> None:
    run.fail("03", MOVED)
    run.leg("03", (*SHARDS["03"], MOVED), claimed=["03.1", "03.2", "01.2"], attempt=2)
    verdict = run.world.prove()
    assert verdict.state == "passed"
    assert [(one.shard, one.key.unit) for one in verdict.flaky] == [("03", MOVED)]


def test_failure_of_an_older_claimer_makes_the_unit_flaky_elsewhere(run: MovedRun) -> None:
    """Both ran again, without the service: the owner has all of its units."""
    run.fail("03", MOVED)
    run.leg("03", SHARDS["03"], attempt=2)
    run.leg("01", SHARDS["01"], attempt=2)
    verdict = run.world.prove()
    assert verdict.state == "passed"
    assert [(one.shard, one.key.unit) for one in verdict.flaky] == [("01", MOVED)]


def test_unit_of_another_shard_without_a_claim_counts_as_before() -> None:
    """It is told that the unit ran in several shards, and the worst result counts."""
    run = MovedRun()
    run.leg("03", (*SHARDS["03"], MOVED), claimed=["03.1", "03.2"])
    verdict = run.world.prove()
    assert (verdict.state, kinds(verdict)) == ("passed", [("ran_in_several_shards", "")])
    run.fail("03", MOVED)
    assert run.world.prove().state == "failed"


def test_unit_that_ran_in_a_leg_that_never_claimed_it_is_a_warning(run: MovedRun) -> None:
    run.leg("02", (*SHARDS["02"], MOVED), claimed=["02.1", "02.2"])
    verdict = run.world.prove()
    assert (verdict.state, kinds(verdict)) == ("passed", [("ran_in_several_shards", "")])
    assert verdict.findings[0].units == (UnitKey("", "", MOVED),)


def test_command_for_a_failure_that_moved_runs_its_own_shard(run: MovedRun) -> None:
    run.fail("03", MOVED)
    text = as_markdown(document(run.world.prove()))
    assert f"--shard 01 --record again --until {MOVED}" in text


@pytest.mark.parametrize(("key", "unit"), [(k, u) for k, units in SHARDS.items() for u in units])
def test_no_result_can_be_lost_unseen(run: MovedRun, key: str, unit: str) -> None:
    ran = "03" if unit == MOVED else key
    run.world.drop(ran, Result, unit=unit)
    verdict = run.world.prove()
    assert verdict.state == "incomplete"
    assert missing(verdict) == [(unit, ran, "01" if unit == MOVED else "", "unfinished")]


@pytest.mark.parametrize("kind", ["claimed", "taken"])
def test_lost_event_loses_no_result_and_makes_none(run: MovedRun, kind: str) -> None:
    """A result counts wherever it is, and what has none is missing whoever says what."""
    for leg in run.world.legs.values():
        leg.own = [
            line for line in leg.own if not (isinstance(line, EventLine) and line.kind == kind)
        ]
    verdict = run.world.prove()
    assert (verdict.state, verdict.findings) == ("passed", ())
    run.world.drop("03", StartLine, Result, unit=MOVED)
    run.world.end("03", counts={"passed": 4})
    verdict = run.world.prove()
    assert verdict.state == "incomplete"
    assert [one.key.unit for one in verdict.missing] == [MOVED]
