"""A repository on the fake GitHub, and `ciguard audit OWNER/NAME` of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fakegithub.past_runs import AT_LIMIT, SUPERSEDED, WORKFLOW, Audit, Findings, PastRuns
from fakegithub.state import TOKEN, FakeGitHub, Login

if TYPE_CHECKING:
    import subprocess

    from conftest import Ciguard

SHARDS = WORKFLOW.replace(
    "    steps:", "    strategy:\n      matrix:\n        shard: [1, 2, 3]\n    steps:"
)


@pytest.fixture
def server(server: FakeGitHub) -> FakeGitHub:
    server.tokens[TOKEN] = Login(may_write=False)
    return server


@pytest.fixture
def past(server: FakeGitHub) -> PastRuns:
    """A repository with one workflow and no run."""
    found = PastRuns(server)
    found.workflow()
    return found


@pytest.fixture
def shop(past: PastRuns) -> PastRuns:
    """A repository in which each rule about runs has something to say but one."""
    past.workflow(SHARDS)
    for number in range(24):
        if number % 4 == 3:
            run = past.run("cancelled")
            past.job(run, "test (1)", "cancelled", annotations=[SUPERSEDED], minutes=2)
            continue
        died = number in (5, 9)
        run = past.run("cancelled" if died else "success", minutes=46)
        if died:
            past.job(run, "test (1)", "cancelled", annotations=[AT_LIMIT], minutes=45.5)
        else:
            past.job(run, "test (1)", minutes=38)
        past.job(run, "test (2)", minutes=8)
        past.job(run, "test (3)", minutes=7)
    return past


@pytest.fixture
def audit(server: FakeGitHub, ciguard: Ciguard, tmp_path: Path) -> Audit:
    def call(*words: str, expect: int = 0, **environ: str) -> subprocess.CompletedProcess[str]:
        given = {
            "GITHUB_API_URL": server.address,
            "GITHUB_TOKEN": TOKEN,
            "NO_PROXY": "*",
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            **environ,
        }
        done = ciguard("audit", "octo-org/shop", *words, cwd=tmp_path, expect=expect, **given)
        assert TOKEN not in done.stdout + done.stderr
        return done

    return call


@pytest.fixture
def findings(audit: Audit) -> Findings:
    def call(rule: str) -> list[dict[str, Any]]:
        found = json.loads(audit("--format", "json").stdout)
        return [one for one in found["findings"] if one["rule"] == rule]

    return call
