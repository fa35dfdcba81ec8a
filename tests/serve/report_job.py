"""A run at a fake GitHub, its report job, and the service that judges it: all over HTTP."""

from __future__ import annotations

import contextlib
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conftest import Ciguard
from fakegithub.state import STORAGE, FakeGitHub
from guard.fake_jobs import environ_of
from guard.fixtures import World, make_leg, make_plan
from loopback import serving
from serve.api.oidc_issuer import Issuer
from serve.fake_runs import REPOSITORY, upload
from serve.work.judging import judge, opened_service, serving_github
from starlette.applications import Starlette

from ciguard.render.pages import RunRow
from ciguard.serve.application import build_application
from ciguard.serve.service import Service
from ciguard.serve.state.run_key import RunKey

RUN: Final = RunKey(1, 7, 1)
DOWNLOAD: Final = f"GET /repos/{REPOSITORY}/actions/artifacts/N/zip"


def world_of(shards: int, tests: int) -> World:
    """A run with so many tests in each shard, all of which passed."""
    keys = [f"{at + 1:02}" for at in range(shards)]
    plan = make_plan({key: tuple(f"s{key}.t::{at}" for at in range(tests)) for key in keys})
    return World(plan, {key: make_leg(plan, key) for key in keys})


@dataclass(frozen=True)
class ReportJob:
    """The job, in an empty folder, and the service at `address`."""

    folder: Path
    address: str
    issuer: str
    github: FakeGitHub
    service: Service

    def report(self, ciguard: Ciguard, *, without: str = "+", expect: int = 0, **more: str) -> str:
        """Run `ciguard report` as the action does, without some artifacts; its errors."""
        for number, archive in self.github.archives.items():
            if without not in (name := self.github.artifacts[number - 1]):
                zipfile.ZipFile(io.BytesIO(archive)).extractall(self.folder / name)
        event = {"repository": {"default_branch": "main"}}
        (self.folder / "event.json").write_text(json.dumps(event))
        environ = {
            **environ_of(self.folder, self.github),
            "GITHUB_TOKEN": "",
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.issuer}/request?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner",
            **more,
        }
        (plan,) = self.folder.glob("ciguard-plan-*/plan.json")
        store = f"{self.address}/api/v1/repos/{REPOSITORY}/history"
        words = ("report", "--plan", plan, "--records", ".", "--history", store)
        return ciguard(*words, cwd=self.folder, expect=expect, **environ).stderr

    def judge(self) -> tuple[RunRow, Counter[str]]:
        """Judge the run; its row, and the calls of GitHub's API that this took."""
        before = len(self.github.exchanges)
        row = judge(self.service, self.folder, RUN.run_id)
        calls = (call for call in self.github.request_log()[before:] if STORAGE not in call)
        return row, Counter(re.sub(r"/(\d+|[0-9a-f]{40})\b", "/N", call) for call in calls)


@contextlib.contextmanager
def report_job(folder: Path, world: World) -> Iterator[ReportJob]:
    """A completed run of the base branch, whose service has a public address."""
    proxy = Starlette()
    with contextlib.ExitStack() as stack:
        github = stack.enter_context(serving_github())
        upload(github, world, RUN.run_id, event="push", head_branch="main")
        issuer = Issuer(job={"repository_id": str(RUN.repository_id)}).application()
        server, address = (stack.enter_context(serving(one)) for one in (issuer, proxy))
        opened = opened_service(github, folder, address, private=True, GITHUB_SERVER_URL=server)
        service = stack.enter_context(opened)
        proxy.mount("/", build_application(service))
        yield ReportJob(folder, address, server, github, service)
