"""`tests/real/github.py`, which an owner starts on github.com: here its parts, on a fake GitHub."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from fakegithub.actions import add_job, add_run
from fakegithub.server import serving
from fakegithub.state import ROUTES, Answer, FakeGitHub, Login, Request
from real import github as real

WORKFLOWS = sorted((real.HERE / "workflows").glob("*.yml"))
CLAIMS = tomllib.loads((real.HERE / "claims.toml").read_text("utf-8"))["claim"]
TIME = "2026-11-21T10:00:00.0Z"
LOG = f"{TIME} \x1b[36;1mecho fact first_signal=a\n{TIME} fact first_signal=SIGINT\r\n"


@pytest.mark.parametrize("program", [["actionlint"], ["zizmor", "--offline", "--no-progress"]])
def test_workflows_of_probes_have_no_finding(program: list[str]) -> None:
    words = [str(Path(sys.executable).parent / program[0]), *program[1:], *map(str, WORKFLOWS)]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_claims_are_sentences_of_the_documentation_with_a_probe() -> None:
    jobs = {path.stem: yaml.safe_load(path.read_text("utf-8"))["jobs"] for path in WORKFLOWS}
    jobs |= dict.fromkeys(("fork", "queue"), jobs["pull"])
    jobs["fail-fast"] |= dict.fromkeys(jobs["fail-fast"]["shard"]["strategy"]["matrix"]["shard"])
    own = {("rerun", "expired"), ("pull", "comment")}  # what no job prints
    for claim in CLAIMS:
        job = claim["fact"].partition(".")[0]
        assert job in jobs[claim["probe"]] or (claim["probe"], claim["fact"]) in own, claim
        assert "not tried" in real.row(claim, {}, "no reason")  # finds the line of the page
    assert {claim["probe"] for claim in CLAIMS} == jobs.keys()


def test_probe_is_carried_out_and_its_branch_deleted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deleted = []

    def create(github: FakeGitHub, _: Login, __: object, request: Request) -> Answer:
        ref = json.loads(request.body)
        add_run(github, 7, head_sha=ref["sha"], head_branch=ref["ref"].removeprefix("refs/heads/"))
        said = ["The run was canceled by @octocat."]
        add_job(github, "sleeper", "cancelled", annotations=said, log=LOG)
        add_job(github, "after", log=f"{TIME} fact result=success\n")
        return Answer(201, ref)

    def delete(_: FakeGitHub, __: Login, part: dict[str, str], ___: Request) -> Answer:
        deleted.append(part["branch"])
        return Answer(204)

    routes = {
        "POST /git/(trees|commits)": lambda *_: Answer(201, {"sha": "c" * 40}),
        "POST /git/refs": create,
        "GET /actions/runs/7": lambda github, *_: Answer(200, github.runs[0]),
        "DELETE /git/refs/heads/(?P<branch>.+)": delete,
    }
    for route, answer in routes.items():
        monkeypatch.setitem(ROUTES, route.replace(" ", " /repos/octo-org/shop"), answer)
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    with serving() as github:
        github.tokens["secret"] = Login()
        words = ["octo-org/shop", "--api", github.address, "--only", "cancel", "--only", "fork"]
        assert real.main(words) == 1
        assert deleted == [run["head_branch"] for run in github.runs]
    rows = capsys.readouterr().out.splitlines()[::2]
    answers = {row.partition(": ")[2]: row[:9].strip() for row in rows}
    assert answers["The run was canceled by ..."] == "true"
    assert answers["SIGINT: tests get 3 s for their teardown"] == "true"
    assert answers["SIGTERM: they stop at once"] == "not tried"
    assert answers["contains(needs.*.result, 'cancelled')"] == "false"
    assert answers["A fork's run has a read-only token."] == "not tried"
