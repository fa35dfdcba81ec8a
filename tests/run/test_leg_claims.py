"""Legs that ask a service for blocks of tests during the run: what they run and write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from run.claim_service import PATIENT, ClaimService, claim_service
from run.leg_runner import (
    UNGUARDED,
    Leg,
    build_pyz,
    kill_once_there,
    plan_of,
    start,
    start_shard,
    until,
)
from run.replay import replays

from ciguard.codec import plan_file as plan_codec
from ciguard.model import Block, Plan, PlannedUnit, Prediction, Shard

TOKEN = "cgr_0123456789"
TESTS = """
import os, pathlib, time
import pytest
@pytest.fixture(autouse=True)
def _ran(request):
    with open("ran", "a") as stream:
        print(request.node.name[5:], file=stream)
    with open("environ", "a") as stream:
        stream.write(repr(dict(os.environ)))
def test_own(): pass
def test_first(): pass
def test_second(): pass
def test_third(): assert 0
def test_foreign(): pass
def test_waits():
    pathlib.Path("started").touch()
    end_s = time.monotonic() + 40
    while not pathlib.Path("go").exists() and time.monotonic() < end_s:
        time.sleep(0.02)
"""
GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_REPOSITORY": "o/r",
    "GITHUB_RUN_ID": "7",
    "GITHUB_RUN_ATTEMPT": "1",
}
ASKS = {**GITHUB, "CIGUARD_CLAIMS_TOKEN": TOKEN}


def shard(key: str, names: Sequence[str], blocks: int, processes: int = 1) -> Shard:
    """Its last units are a block each."""
    units = tuple(PlannedUnit(f"test_a.py::test_{name}", wall_s=1.0) for name in names)
    parts = (Block(1, 1.0),) * blocks
    return Shard(key, "linux", units, Prediction(1.0, 1.0), processes, blocks=parts)


def lay_out(
    folder: Path,
    address: str,
    own: Sequence[str] = ("own", "first", "second", "third"),
    *,
    other: str = "foreign",
    processes: int = 1,
) -> Plan:
    """Shard 01 has its first unit, and the others as blocks; of shard 02 all is a block."""
    (folder / "test_a.py").write_text(TESTS)
    policy = replace(UNGUARDED, conditions=("CIGUARD_CLAIMS_TOKEN", "GITHUB_RUN_ID"))
    shards = (shard("01", own, len(own) - 1, processes), shard("02", [other], 1, processes))
    plan = replace(plan_of([], policy=policy), shards=shards, claims=address)
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))
    return plan


def ran(folder: Path) -> list[str]:
    return (folder / "ran").read_text().split()


def claims(leg: Leg) -> list[tuple[str, str | None]]:
    """Events about blocks, with the block or the reason."""
    kinds = ("claimed", "taken", "claims_ended")
    events = [event for event in leg.record().events if event.kind in kinds]
    return [(event.kind, event.block or event.reason) for event in events]


def is_secret(folder: Path, leg: Leg) -> None:
    """The token is nowhere but in the leg."""
    texts = [path.read_bytes() for path in leg.record_folder.rglob("*") if path.is_file()]
    assert not any(TOKEN.encode() in text for text in texts)
    assert TOKEN not in (folder / "environ").read_text()
    assert TOKEN not in leg.printed


@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_own_blocks_and_those_of_another_shard(tmp_path: Path, processes: int) -> None:
    with claim_service("01.1", "01.2", "02.1", "01.3") as service:
        plan = lay_out(tmp_path, service.address, processes=processes)
        leg = start_shard(tmp_path, plan, program=PATIENT, **ASKS).wait(10)
        # A leg confirms a block again where the service repeats it before the first one arrives.
        until(lambda: len(set(service.confirmed())) == 4, what="all are confirmed")
    assert sorted(ran(tmp_path)) == ["first", "foreign", "own", "second", "third"]
    assert claims(leg) == [
        *(("claimed", block) for block in ("01.1", "01.2", "02.1", "01.3")),
        ("claims_ended", "nothing_left"),
    ]
    assert service.states().count("begins") == 1
    assert service.states().count("asks") >= 5
    assert "alone" not in service.states()
    assert "runs its own tests: 1 test (block 01.1)" in leg.said
    assert "runs tests of shard 02: 1 test (block 02.1)" in leg.said
    assert "shard 01: 4 passed, 1 failed" in leg.said
    assert "did not run" not in leg.said
    is_secret(tmp_path, leg)


@pytest.mark.soak
def test_every_python_of_a_leg_can_ask(tmp_path: Path, foreign_python: Path) -> None:
    program = (str(foreign_python), str(build_pyz(tmp_path / "run.pyz")))
    with claim_service("02.1") as service:
        plan = lay_out(tmp_path, service.address, ("own", "first"))
        leg = start_shard(tmp_path, plan, program=program, **ASKS).wait(0)
    assert sorted(ran(tmp_path)) == ["first", "foreign", "own"]
    assert claims(leg) == [("claimed", "02.1"), ("claims_ended", "nothing_left")]


@pytest.mark.soak
def test_without_an_answer_it_runs_all_of_its_own(tmp_path: Path) -> None:
    with claim_service("01.1", fault="slow") as service:
        plan = lay_out(tmp_path, service.address, ("own", "first", "waits"))
        leg = start_shard(tmp_path, plan, **ASKS)
        try:
            until((tmp_path / "started").exists, what="its last own unit runs")
            assert ran(tmp_path) == ["own", "first", "waits"]
            assert "alone" not in service.states()
            service.fault = ""
            until(lambda: "alone" in service.states(), what="the service hears of it")
            (tmp_path / "go").touch()
            leg.wait(0)
        finally:
            leg.process.kill()
            leg.process.communicate()
    assert claims(leg) == [("claims_ended", "no_answer")]
    assert "runs its own tests (2 tests): the service did not answer within 2 s" in leg.said


@pytest.mark.parametrize(
    ("words", "environ", "reason", "output"),
    [
        ((), GITHUB, "no_token", "no token for the service: CIGUARD_CLAIMS_TOKEN is not set"),
        pytest.param(
            *((), {"CIGUARD_CLAIMS_TOKEN": TOKEN}, "not_asked", "it belongs to no run on GitHub"),
            marks=pytest.mark.soak,
        ),
        pytest.param(
            *(("--until", "test_third"), ASKS, "not_asked", "it runs a part of its shard"),
            marks=pytest.mark.soak,
        ),
        (("--for", "10m"), ASKS, "not_asked", "it runs a part of its shard"),
    ],
)
def test_a_leg_that_may_not_ask_runs_its_shard_in_one_process(
    tmp_path: Path, words: Sequence[str], environ: dict[str, str], reason: str, output: str
) -> None:
    with claim_service("01.1") as service:
        plan = lay_out(tmp_path, service.address)
        fixed = ("--plan", "plan.json", "--shard", "01", "--record", "record")
        leg = start(tmp_path, *fixed, *words, **environ).wait(10)
    assert ran(tmp_path) == ["own", "first", "second", "third"]
    assert service.states() == ["alone"] * bool(words)  # nobody else is to run its blocks
    assert claims(leg) == [("claims_ended", reason)]
    assert output in leg.said
    assert len(leg.record().processes) == 1
    is_secret(tmp_path, leg)
    if not words:
        replays(leg.record_folder, plan)


def killed_in_the_block_of_another(folder: Path, service: ClaimService) -> Plan:
    """A leg that has run its own unit, and dies in that of shard 02; then the way is free."""
    plan = lay_out(folder, service.address, ("own", "first"), other="waits")
    leg = start_shard(folder, plan, program=PATIENT, **ASKS)
    kill_once_there(leg, folder / "started")
    (folder / "go").touch()
    (folder / "ran").unlink()
    return plan


@pytest.mark.soak
def test_a_leg_that_resumes_runs_what_it_had_claimed(tmp_path: Path) -> None:
    with claim_service("02.1") as service:
        killed_in_the_block_of_another(tmp_path, service)
        before = len(service.states())
        fixed = ("--plan", "plan.json", "--shard", "01", "--record", "second")
        again = {**ASKS, "GITHUB_RUN_ATTEMPT": "2"}
        leg = start(tmp_path, *fixed, "--resume-from", "record", **again).wait(0)
        assert service.states()[before:] == ["alone"]  # and no question
    assert ran(tmp_path) == ["first", "waits"]
    assert "resumed: 1 of 3 tests ended before" in leg.said
    assert "shard 01: 3 passed" in leg.said
