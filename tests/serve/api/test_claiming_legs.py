"""A plan job and real legs that claim blocks at a real service."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import call_in_process
from loopback import serving
from plan.plan_factories import planned
from run.claim_service import PATIENT
from run.leg_runner import Leg, plan_of, start, until
from run.replay import replays
from serve.api.registered_run import RUN, RegisteredRun, nothing
from starlette.applications import Starlette

from ciguard.codec import plan_file as plan_codec
from ciguard.errors import RemoteError
from ciguard.github.events import ActionsRun
from ciguard.history import service_credentials
from ciguard.model import Block, Plan, PlannedUnit, Prediction, Shard
from ciguard.plan import block_registration
from ciguard.plan.block_registration import registration
from ciguard.serve.api.routes import BLOCKS_PATH
from ciguard.serve.application import build_application


def test_plan_job_registers_what_the_planner_made(
    run: RegisteredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's client, the issuer and the service are real; the job is of a busy machine."""
    monkeypatch.setattr(block_registration, "PATIENCE_S", 30.0)
    monkeypatch.setattr(service_credentials, "REQUEST_S", 30.0)
    proxy = Starlette()
    with serving(proxy) as address:
        settings_ = replace(run.service.settings, public_url=address)
        proxy.mount("/", build_application(replace(run.service, settings=settings_)))
        walls_s = {f"a.py::t{number}": 2.0 for number in range(200)}
        plan = planned(walls_s, shards=2, claims=address).plan
        environ = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_REPOSITORY": "o/private",
            "GITHUB_RUN_ID": RUN["run_id"],
            "GITHUB_RUN_ATTEMPT": RUN["run_attempt"],
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{run.issuer}/request?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner",
        }
        job = ActionsRun.from_environ(environ, {})
        assert job is not None
        with pytest.raises(RemoteError, match="names another service"):
            block_registration.register(replace(plan, claims=run.issuer), job, environ, address)
        token = block_registration.register(plan, job, environ, address)
        body = {"plan": plan.id, "leg": "02", "state": "asks", "elapsed_s": 100.0}
        assert run.send(token, body).json() == nothing(block="02.1")
        with pytest.raises(RemoteError, match="HTTP 401"):
            block_registration.register(plan, replace(job, run_id=8), environ, address)


TESTS = """
import pathlib, time
import pytest
@pytest.mark.parametrize("number", range(5))
def test_01(number): pass
@pytest.mark.parametrize("number", range(5))
def test_02(number):
    end_s = time.monotonic() + 60
    while number == 0 and not pathlib.Path("go").exists() and time.monotonic() < end_s:
        time.sleep(0.02)
"""


def lay_out_run(folder: Path, run: RegisteredRun) -> tuple[Plan, str]:
    """Two shards of a short own part and four long blocks, and the token of the run's legs.

    A block is predicted to be longer than a busy machine takes to start a shard.
    """
    shards = tuple(
        Shard(
            key,
            "linux",
            tuple(
                PlannedUnit(f"test_a.py::test_{key}[{number}]", wall_s=30.0 if number else 0.1)
                for number in range(5)
            ),
            Prediction(120.1, 120.1),
            blocks=(Block(1, 30.0),) * 4,
        )
        for key in ("01", "02")
    )
    units = [unit for shard in shards for unit in shard.units]
    address = str(run.client.base_url).rstrip("/")
    plan = replace(plan_of(units), shards=shards, claims=address, repository="o/private")
    (folder / "test_a.py").write_text(TESTS)
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))
    plan = plan_codec.decode((folder / "plan.json").read_bytes(), "plan.json")
    token: str = run.send(run.job(), registration(plan), BLOCKS_PATH).json()["token"]
    return plan, token


def start_leg(folder: Path, key: str, token: str, attempt: int = 1) -> Leg:
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_REPOSITORY": "o/private",
        "GITHUB_RUN_ID": RUN["run_id"],
        "GITHUB_RUN_ATTEMPT": str(attempt),
        "CIGUARD_CLAIMS_TOKEN": token,
    }
    record = f"records/{key}-{attempt}"
    words = ("--plan", "plan.json", "--shard", key, "--record", record)
    return start(folder, *words, program=PATIENT, **environ)


def test_legs_move_tests_and_the_guard_proves_all(run: RegisteredRun, tmp_path: Path) -> None:
    """Shard 01 runs blocks of shard 02, whose own test waits for that; then it is run again."""
    plan, token = lay_out_run(tmp_path, run)
    late = start_leg(tmp_path, "02", token)
    lines = tmp_path / "records" / "02-1" / "supervisor.jsonl"
    try:
        until(lambda: lines.exists() and b'"02.1"' in lines.read_bytes(), what="its first block")
        early = start_leg(tmp_path, "01", token).wait(0)
        moved = early.said.count("runs tests of shard 02: 1 test")
        assert moved
        assert f"shard 01: {5 + moved} passed" in early.said
        (tmp_path / "go").touch()
        late.wait(0)
    finally:
        late.process.kill()
        late.process.communicate()
    assert f"shard 02: {5 - moved} passed" in late.said
    assert late.said.count("shard 01 runs 1 test of this shard") == moved
    for key in ("01", "02"):
        replays(tmp_path / "records" / f"{key}-1", plan, key=key)
    words = ("guard", "--plan", "plan.json", "--records", "records", "--format", "json")
    done = call_in_process(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    shutil.rmtree(tmp_path / "records" / "01-1")
    done = call_in_process(*words, cwd=tmp_path)
    assert done.returncode == 13
    lost = [(one["shard"], one["planned_shard"]) for one in json.loads(done.stdout)["missing"]]
    assert sorted(lost) == [("01", "01")] * 5 + [("01", "02")] * moved
    # "Re-run failed jobs": no plan job, an earlier token, and what the leg had claimed before.
    again = start_leg(tmp_path, "01", token, attempt=2).wait(0)
    assert f"shard 01: {5 + moved} passed" in again.said
    assert call_in_process(*words, cwd=tmp_path).returncode == 0
