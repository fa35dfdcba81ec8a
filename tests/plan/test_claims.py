"""`ciguard plan --claims`: which plans have blocks, and what the service is told of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Ciguard
from plan.plan_factories import planned
from plan.plan_requests import LISTED, NONE, plan_of

from ciguard.codec import plan_file as codec
from ciguard.model.plan import claimable_blocks
from ciguard.plan.block_registration import registration

HOST = "https://ci.example.org"


def test_the_service_is_told_of_each_shard(listed: Path) -> None:
    walls_s = {f"a.py::t{number}": 2.0 for number in range(200)}
    plan = planned(walls_s, shards=2, claims=HOST).plan
    body = registration(codec.decode(codec.encode(plan), ""))
    assert body["plan"] == codec.decode(codec.encode(plan), "").id
    assert list(body["legs"]) == ["01", "02"]
    assert body["legs"]["02"]["group"] == body["legs"]["01"]["group"] == "01"
    assert body["legs"]["02"]["own_s"] == 100.0
    assert list(body["legs"]["02"]["blocks"])[:2] == ["02.1", "02.2"]
    assert sum(body["legs"]["02"]["blocks"].values()) == 100.0
    assert list(claimable_blocks(plan, "01")) == list(body["legs"]["02"]["blocks"])


@pytest.mark.parametrize(
    ("url", "output"),
    [
        ("http://ci.example.org", "not the https address of a service"),
        ("ci.example.org", "not the https address of a service"),
        (f"{HOST}/api/v1", "not the https address of a service"),
    ],
)
def test_bad_addresses_are_refused(listed: Path, ciguard: Ciguard, url: str, output: str) -> None:
    arguments = ("--inventory", "-", "--claims", url)
    done = ciguard("plan", *arguments, *NONE, cwd=listed, stdin=LISTED, expect=2)
    assert output in done.stderr
    assert "write https://HOST" in done.stderr


def test_plans_whose_tests_cannot_move_are_refused(listed: Path, ciguard: Ciguard) -> None:
    given = "\n".join(json.dumps({"unit": f"t{n}", "shard": "a"}) for n in range(3))
    done = ciguard(
        "plan", "--inventory", "-", "--claims", HOST, *NONE, cwd=listed, stdin=given, expect=2
    )
    assert "tests can move only if the plan lists them" in done.stderr


def test_outside_of_github_a_plan_has_blocks_too(listed: Path, ciguard: Ciguard) -> None:
    arguments = ("--inventory", "-", "--claims", f"{HOST}:443/", "--shards", "2")
    done = ciguard("plan", *arguments, "--format", "json", *NONE, cwd=listed, stdin=LISTED)
    assert plan_of(done.stdout)["claims"] == HOST
    done = ciguard("plan", *arguments, "--dry-run", *NONE, cwd=listed, stdin=LISTED)
    assert "16 tests in 12 blocks may move during the run, by" in done.stdout


def test_registration_never_fails_and_shows_no_token_to_the_service_of_a_plan(
    listed: Path, ciguard: Ciguard
) -> None:
    """The plan is made by a job that runs a pull request's code: it may name any service."""
    here = "http://127.0.0.1:9"  # where nothing listens
    making = ("--inventory", "-", "--claims", here, "--shards", "2", "-o", "plan.json")
    ciguard("plan", *making, *NONE, cwd=listed, stdin=LISTED)
    for url, said in ((HOST, f"another service than {HOST}"), (here, "cannot be asked")):
        words = ("--register", "plan.json", "--claims", url, "--github")
        done = ciguard(
            *("plan", *words),
            cwd=listed,
            GITHUB_ACTIONS="true",
            GITHUB_REPOSITORY="o/r",
            GITHUB_RUN_ID="7",
            GITHUB_OUTPUT=str(listed / "outputs"),
        )
        assert "no test moves during this run" in done.stderr
        assert said in done.stderr
    assert not (listed / "outputs").exists()
    done = ciguard("plan", "--register", "plan.json", "--claims", here, cwd=listed, expect=2)
    assert "GITHUB_OUTPUT is not set" in done.stderr
