"""Real legs that ran blocks of each other, and what the guard says of their records."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from run.claim_service import PATIENT, claim_service
from run.leg_runner import LEG, kill_once_there, start
from run.test_leg_claims import ASKS, lay_out, shard

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.record.reader import read_records
from ciguard.guard.prove import prove

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ciguard.guard.verdict import Verdict
    from ciguard.model import Plan


def run_leg(
    folder: Path, plan: Plan, key: str, code: int, program: Sequence[str] = PATIENT
) -> None:
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))
    words = ("--plan", "plan.json", "--shard", key, "--record", f"records/{key}")
    start(folder, *words, program=program, **ASKS).wait(code)


def verdict_of(folder: Path, plan: Plan) -> Verdict:
    records = folder / "records"
    files = [(f"{one.relative_to(records)}", one.read_bytes()) for one in records.rglob("*.jsonl")]
    return prove(plan, read_records(files))


def two_shards(folder: Path, address: str, moves: str = "third") -> Plan:
    """Shard 01 has its first test for itself, and two blocks; shard 02 one test and one block."""
    plan = lay_out(folder, address)
    shards = (shard("01", ("own", "first", moves), 2), shard("02", ("second", "foreign"), 1))
    inventory = replace(plan.inventory, collected=5)
    plan = replace(plan, shards=shards, inventory=inventory)
    return plan_codec.decode(plan_codec.encode(plan), "plan.json")


def test_failure_of_a_moved_test_is_of_the_shard_that_ran_it(tmp_path: Path) -> None:
    with claim_service("01.1", taken={"01.2": "02"}) as service:
        plan = two_shards(tmp_path, service.address)
        run_leg(tmp_path, plan, "01", 0)
        service.free, service.taken = ["02.1", "01.2"], {}
        run_leg(tmp_path, plan, "02", 10)
    verdict = verdict_of(tmp_path, plan)
    assert (verdict.state, verdict.missing, verdict.findings) == ("failed", (), ())
    assert [(one.shard, one.result.unit) for one in verdict.failures] == [
        ("02", "test_a.py::test_third")
    ]
    assert [(one.shard, one.with_result, one.planned) for one in verdict.legs] == [
        ("01", 2, 2),
        ("02", 3, 3),
    ]
    moved = verdict.moved
    assert moved is not None
    assert (moved.units, moved.shards, moved.ran_twice, moved.requests) == (1, 2, 0, 5)
    assert moved.makespan_s is not None
    assert moved.static_makespan_s is not None
    assert 0 < moved.static_makespan_s < moved.makespan_s


def test_owner_that_got_no_answer_ran_what_another_leg_had(tmp_path: Path) -> None:
    with claim_service("01.1", fault="error") as service:
        plan = two_shards(tmp_path, service.address)
        run_leg(tmp_path, plan, "01", 10, LEG)
        service.free, service.fault = ["02.1", "01.2"], ""
        run_leg(tmp_path, plan, "02", 10)
    verdict = verdict_of(tmp_path, plan)
    assert (verdict.state, verdict.missing, verdict.findings) == ("failed", (), ())
    assert [one.shard for one in verdict.failures] == ["01", "02"]
    assert verdict.moved is not None
    assert verdict.moved.ran_twice == 1


def test_block_of_a_leg_that_never_said_so_is_missing(tmp_path: Path) -> None:
    with claim_service("01.1", taken={"01.2": "02"}) as service:
        plan = two_shards(tmp_path, service.address)
        run_leg(tmp_path, plan, "01", 0)
        service.free, service.taken = ["02.1"], {}
        run_leg(tmp_path, plan, "02", 0)
    verdict = verdict_of(tmp_path, plan)
    assert verdict.state == "incomplete"
    assert [(one.kind, one.shard) for one in verdict.findings] == [("claim_without_record", "01")]
    assert [one.key.unit for one in verdict.missing] == ["test_a.py::test_third"]


def test_leg_that_is_killed_in_the_block_of_another(tmp_path: Path) -> None:
    with claim_service("01.1", taken={"01.2": "02"}) as service:
        plan = two_shards(tmp_path, service.address, moves="waits")
        run_leg(tmp_path, plan, "01", 0)
        service.free, service.taken = ["02.1", "01.2"], {}
        words = ("--plan", "plan.json", "--shard", "02", "--record", "records/02")
        leg = start(tmp_path, *words, program=PATIENT, **ASKS)
        kill_once_there(leg, tmp_path / "started")
    verdict = verdict_of(tmp_path, plan)
    assert [(one.key.unit, one.shard, one.planned_shard) for one in verdict.missing] == [
        ("test_a.py::test_waits", "02", "01")
    ]
    assert [(one.kind, one.shard, len(one.culprits)) for one in verdict.findings] == [
        ("truncated", "02", 1)
    ]
