"""The generated workflow with a service that keeps the history and moves tests.

The service and the issuer of GitHub's tokens listen on loopback; the fake machine gives jobs what a
runner gives them that may ask for a token.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import yaml
from act.fake_machine import PUSH, TOKEN, GitHub
from act.test_workflow_run import SPY, spied
from loopback import serving
from serve.api.oidc_issuer import Issuer
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from ciguard.codec import plan_file
from ciguard.codec.record.reader import read_records
from ciguard.model.record import Record
from ciguard.serve.api import oidc
from ciguard.serve.application import build_application
from ciguard.serve.service import open_service
from ciguard.serve.settings import Role, Settings, read_settings
from ciguard.serve.state import claim_rows, repositories
from ciguard.serve.state.repositories import Repository
from ciguard.workflow.yaml_values import load

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]
RUN_ID: Final = 7  # of which the issuer signs, as of the id of the repository
SHOP: Final = Repository(11, "octo-org/shop", is_private=True)
HISTORY: Final = "/api/v1/repos/octo-org/shop/history"
WORKFLOW: Final = ".github/workflows/ciguard.yml"
TESTS: Final = 48  # without history 1 s each: enough for blocks in both shards
SUITE: Final = f"""
import pytest

@pytest.mark.parametrize("number", range({TESTS}))
def test_shelf(number):
    assert number >= 0
"""
# The first test of shard 01 waits until the other leg has run one of that shard, at most 60 s.
CONFTEST: Final = """
import json, os, pathlib, time
import pytest

MOVED = pathlib.Path("FOLDER/moved")

@pytest.fixture(autouse=True)
def slow(request):
    plan = json.loads(pathlib.Path(os.environ["RUNNER_TEMP"], "ciguard-plan/plan.json").read_text())
    units = {shard["key"]: [one["unit"] for one in shard["units"]] for shard in plan["shards"]}
    if job != "01" and request.node.nodeid in units["01"]:
        MOVED.touch()
    end_s = time.monotonic() + 60
    while job == "01" and not MOVED.exists():
        time.sleep(0.02)
        if time.monotonic() > end_s:
            MOVED.touch()
"""


@dataclass(frozen=True)
class Service:
    """Where a service and the issuer listen, and what was shown to the service: (path, token)."""

    address: str
    issuer: str
    shown: list[tuple[str, str]] = field(default_factory=list)

    def tokens(self, resource: str) -> set[str]:
        """What was shown for blocks, or for claims."""
        return {token for path, token in self.shown if f"/{resource}" in path}

    def recorded(self, application: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                header = dict(scope["headers"]).get(b"authorization", b"").decode()
                self.shown.append((scope["path"], header.removeprefix("Bearer ")))
            await application(scope, receive, send)

        return answer


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """The web part of a service that knows the repository; its address is its public one."""
    monkeypatch.setattr(oidc, "FETCH_S", 30.0)  # the machine runs all jobs at once
    door = Starlette()
    with serving(Issuer().application()) as issuer, serving(door) as address:
        settings = read_settings(
            {"GITHUB_SERVER_URL": issuer, "CIGUARD_WEBHOOK_SECRET": "x"},
            Settings(
                database=f"sqlite:///{tmp_path / 'ciguard.db'}",
                results=str(tmp_path / "objects"),
                role=Role.WEB,
                public_url=address,
            ),
        )
        with open_service(settings, {}) as opened:
            with opened.database.write() as connection:
                repositories.upsert(connection, [SHOP])
            made = Service(address, issuer)
            door.mount("/", made.recorded(build_application(opened)))
            yield made


def set_up_repository(github: GitHub, service: Service) -> None:
    """Commit a suite, and what `ciguard init` writes, again once claims are configured."""
    conftest = (SPY + CONFTEST).replace("FOLDER", str(github.folder))
    github.commit("a shop", {"tests/test_shelves.py": SUITE, "tests/conftest.py": conftest})
    init = ("init", "--yes")
    answer = github.ciguard(*init)
    assert answer.returncode == 0, answer.stderr
    config = (github.checkout / "ciguard.toml").read_text("utf-8")
    config += f'[plan]\nshards = 2\nclaims = "{service.address}"\n'
    store = f'\n[history]\nstore = "{service.address}{HISTORY}"\n'
    github.commit("claims", {"ciguard.toml": config + store.replace("http:", "https:")})
    answer = github.ciguard(*init)
    assert answer.returncode == 0, answer.stderr
    github.commit("the workflow with claims", {})
    github.git("push", "--quiet", "origin", "main")


def workflow_of_runner(github: GitHub, issuer: str) -> str:
    """The generated workflow; a job with `id-token: write` can ask for a token, as on GitHub."""
    text = (github.checkout / WORKFLOW).read_text("utf-8")
    address = re.escape(HISTORY)
    content = load(re.sub(rf"https(://127[^\"]*{address})", r"http\1", text), WORKFLOW)
    given = {
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{issuer}/request?api-version=2.0",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner",
    }
    for job in content["jobs"].values():
        if job["permissions"].get("id-token") == "write":
            job["env"] = {**job.get("env", {}), **given}
    file = github.folder / "runner.yml"
    file.write_text(yaml.safe_dump(content), "utf-8")
    return str(file)


def records_of(artifacts: Path) -> dict[str, Record]:
    files = [
        (path.relative_to(artifacts).as_posix(), path.read_bytes())
        for path in artifacts.glob("ciguard-record-*/**/*.jsonl")
    ]
    return {record.header.shard: record for record in read_records(files) if record.header}


def blocks(record: Record, kind: str, owner: str) -> set[str]:
    """Blocks of a shard in the events of a leg."""
    named = {event.block or "" for event in record.events if event.kind == kind}
    return {block for block in named if block.startswith(f"{owner}.")}


def uploaded(artifacts: Path) -> Iterator[tuple[str, bytes]]:
    """All files of all artifacts by their paths, and what archives among them hold."""
    for path in filter(Path.is_file, artifacts.rglob("*")):
        shown = path.relative_to(artifacts).as_posix()
        yield shown, path.read_bytes()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                yield from ((f"{shown}/{name}", archive.read(name)) for name in archive.namelist())


def test_tests_of_a_slow_job_move_to_another(github: GitHub, service: Service) -> None:
    set_up_repository(github, service)
    workflow = workflow_of_runner(github, service.issuer)
    run = github.execute(workflow, "push", PUSH, run_id=RUN_ID)
    assert run.green, run.talk
    artifacts = github.artifacts / str(RUN_ID)
    records = records_of(artifacts)
    assert sorted(records) == ["01", "02"]
    claimed, taken = blocks(records["02"], "claimed", "01"), blocks(records["01"], "taken", "01")
    assert claimed, run.talk
    assert taken, run.talk
    assert taken <= claimed

    # What moved by the results, and what the report says.
    (file,) = artifacts.glob("ciguard-plan-*/plan.json")
    plan = plan_file.decode(file.read_bytes(), str(file))
    planned = {unit.key: shard.key for shard in plan.shards for unit in shard.units}
    ran = {(one.key.unit_key, shard) for shard, record in records.items() for one in record.results}
    moved = {unit for unit, shard in ran if planned[unit] != shard}
    report = run.job("ciguard")
    assert report.result == "success"
    assert f"all {TESTS} tests of 2 shards" in report.printed
    told = re.search(r"(\d+) tests? moved between 2 shards", report.printed)
    assert told is not None, report.printed
    assert int(told[1]) == len(moved) > 0

    # Jobs that run none of the tests' code showed GitHub's token, the legs the one of the run.
    (of_job,), (of_legs,) = service.tokens("blocks"), service.tokens("claims")
    assert of_job.count(".") == 2, "a JSON web token"
    assert of_legs.startswith(claim_rows.PREFIX)
    assert {one.count(".") for one in service.tokens("history")} == {2}
    found = spied(github)
    assert found.keys() == {"plan", "01", "02"}
    # act gives the shell steps of an action its inputs as variables; GitHub's runner does not.
    given = {one for texts in found.values() for one in texts if not one.startswith("INPUT_")}
    tokens = {one for one in given if "TOKEN" in one or TOKEN in one}
    assert tokens == {f"CIGUARD_CLAIMS_TOKEN={of_legs}"}
    assert not [one for one in found["plan"] if of_legs in one]
    secrets = [of_job.encode(), of_legs.encode()]
    contents = dict(uploaded(artifacts))
    names = [name.rpartition("/")[2] for name in contents]
    assert names.count("plan.json") == names.count("ciguard-report.html") == 1
    assert names.count("supervisor.jsonl") == len(records)
    assert not [name for name, found in contents.items() if any(one in found for one in secrets)]
