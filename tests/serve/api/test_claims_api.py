"""Blocks of a run, registered and claimed over HTTP, on SQLite and on PostgreSQL.

Each answer is held against the OpenAPI document, and each request that is taken too.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from serve.api.api_document import PUBLIC_URL, check
from serve.api.oidc_issuer import claims, signed
from serve.api.registered_run import LEGS, PLAN, RUN, nothing

from ciguard.serve.api.problem_details import MEDIA_TYPE
from ciguard.serve.api.routes import BLOCKS_PATH, CLAIM_PATH, CLAIMS_PATH
from ciguard.serve.state import claim_rows, schema

if TYPE_CHECKING:
    from serve.api.registered_run import RegisteredRun


def test_run_from_its_plan_to_its_last_block(run: RegisteredRun) -> None:
    registered = run.register(run.job())
    assert registered.status_code == 201
    token = registered.json()["token"]
    assert token.startswith(claim_rows.PREFIX)
    for leg in LEGS:
        assert run.ask(token, leg, "begins", 0.0) == nothing()
    assert run.ask(token, "01") == nothing(block="01.1")
    assert run.confirm(token, "01", "01.1") == 204
    assert run.ask(token, "01") == nothing(block="02.1")
    assert run.confirm(token, "01", "02.1") == 204
    assert run.confirm(token, "02", "02.1") == 409
    # By GitHub's token of a job of the run as well as by that of the legs.
    assert run.ask(run.job(), "02") == nothing(block="02.2", taken={"02.1": "01"})
    assert run.confirm(run.job(), "02", "02.2") == 204
    assert run.ask(token, "02") == nothing(taken={"02.1": "01"})
    assert run.ask(token, "01") == nothing(held=["02.1"])


def test_plan_that_is_sent_again_keeps_its_claims_and_changes_its_token(run: RegisteredRun) -> None:
    first = run.token()
    assert run.ask(first, "01")["block"] == "01.1"
    again = run.register(run.secrets[11])
    assert again.status_code == 200
    body = {"plan": PLAN, "leg": "01", "state": "asks", "elapsed_s": 1.0}
    refused = run.send(first, body)
    assert refused.status_code == 401
    assert "replaced" in refused.json()["detail"]
    assert run.confirm(again.json()["token"], "01", "01.1") == 204


def test_repeated_job_hears_what_it_had_in_an_earlier_attempt(run: RegisteredRun) -> None:
    token = run.token()
    assert run.confirm(token, "01", "02.1") == 204
    for one in (token, run.job(run_attempt="2")):
        for state in ("begins", "asks", "alone"):
            assert run.ask(one, "01", state, run_attempt="2") == nothing(held=["02.1"])
        assert run.confirm(one, "01", "02.1", run_attempt="2") == 404
    second = run.token(run.job(run_attempt="2"), run_attempt="2")
    assert run.ask(second, "01", "begins", run_attempt="2") == nothing()
    body = {"plan": PLAN, "leg": "01", "state": "asks", "elapsed_s": 1.0}
    for path, block in ((CLAIMS_PATH, ""), (CLAIM_PATH, "02.1")):
        refused = run.send(token, body, path, run_attempt="2", block=block)
        assert refused.status_code == 401
        assert "earlier attempt" in refused.json()["detail"]
    # Nor does one of a later attempt, or of another run.
    assert run.send(second, body).status_code == 401
    other = run.token(run.job(run_id="8"), run_id="8")
    assert run.send(other, body, run_attempt="3").status_code == 401


def test_who_may_register(run: RegisteredRun) -> None:
    now = int(time.time())
    own_legs = run.token()
    for token, status in (
        ("", 401),
        ("no token", 401),
        ("cgs_unknown", 401),
        (own_legs, 401),
        (run.job(exp=now - 90), 401),
        (run.job(aud="https://other.example"), 401),
        (run.job(run_id="8"), 401),
        (run.job(run_attempt="2"), 401),
        (run.job(run_id=None), 401),
        (run.job(run_attempt="x"), 401),
        (signed(claims(run.issuer, PUBLIC_URL, **RUN), "second", kid="first"), 401),
        (run.secrets[14], 404),
        (run.job(14), 404),
        (run.secrets[11], 200),
        (run.job(), 200),
    ):
        assert run.register(token).status_code == status, token


def test_who_may_claim(run: RegisteredRun) -> None:
    own = run.token()
    others = {
        "other repository": run.token(run.job(14), name="other"),
        "other run": run.token(run.job(run_id="8"), run_id="8"),
        "other attempt": run.token(run.job(run_attempt="2"), run_attempt="2"),
    }
    plan = {"plan": "ba9876543210", "legs": LEGS}
    others["other plan"] = run.send(run.job(), plan, BLOCKS_PATH).json()["token"]
    body = {"plan": PLAN, "leg": "01", "state": "begins", "elapsed_s": 0}
    cases = (
        ("", 401),
        (own[:-1], 401),
        (others["other repository"], 404),
        (others["other run"], 401),
        (others["other attempt"], 401),
        (others["other plan"], 401),
        (run.secrets[11], 401),
        (run.secrets[14], 404),
        (run.job(14), 404),
        (run.job(run_id="8"), 401),
        (run.job(run_attempt="2"), 401),
        (own, None),
        (run.job(), None),
    )
    for token, status in cases:
        assert run.send(token, body).status_code == (status or 200), token
        confirmed = run.send(token, body, CLAIM_PATH, block="01.1")
        assert confirmed.status_code == (status or 204), token


def test_private_repository_is_not_there_for_others(run: RegisteredRun) -> None:
    """Nor is a public one, as only its own jobs have anything to do with its runs."""
    run.token()
    body = {"plan": PLAN, "leg": "01", "state": "begins", "elapsed_s": 0, "legs": LEGS}
    for token, status in (
        (run.job(14), 404),
        (run.secrets[14], 404),
        ("", 401),
        ("no token", 401),
        ("cgr_unknown", 401),
    ):
        for path in (BLOCKS_PATH, CLAIMS_PATH, CLAIM_PATH):
            found = [
                run.send(token, body, path, name, block="01.1")
                for name in ("nothing", "private", "public", "removed")
            ]
            assert {one.status_code for one in found} == {status}
            assert len({one.content for one in found}) == 1


def test_run_that_github_cannot_have(run: RegisteredRun) -> None:
    token = run.token()
    body = {"plan": PLAN, "leg": "01", "state": "begins", "elapsed_s": 0, "legs": LEGS}
    for place in (
        *({"run_id": one} for one in ("0", "x", "-7", "7.0", "9" * 19, "9" * 5000, "%D9%A7")),
        *({"run_attempt": one} for one in ("0", "x", "9" * 10)),
    ):
        assert run.send(token, body, **place).status_code == 404
        assert run.send(run.secrets[11], body, BLOCKS_PATH, **place).status_code == 404


def test_plan_leg_or_block_that_is_not_registered(run: RegisteredRun) -> None:
    token = run.token()
    job = run.job()
    body = {"plan": PLAN, "leg": "01", "state": "begins", "elapsed_s": 0}
    for changes, block in (
        ({"plan": "ba9876543210"}, "01.1"),
        ({"leg": "03"}, "01.1"),
    ):
        assert run.send(job, {**body, **changes}).status_code == 404
        assert run.send(job, {**body, **changes}, CLAIM_PATH, block=block).status_code == 404
    for block in ("01.2", "01.0", "01", "03.1", "x" * 999, "01.1%00", "%ED%B3%BF.1"):
        assert run.send(token, body, CLAIM_PATH, block=block).status_code == 404


def test_database_without_its_tables_is_said_as_the_document_has_it(run: RegisteredRun) -> None:
    token = run.token()
    with run.service.database.write() as connection:
        for table in (schema.claim_block, schema.claim_leg, schema.claim_plan):
            table.drop(connection)
    headers = {"Authorization": f"Bearer {token}"}
    path = CLAIMS_PATH.format(owner="o", name="private", **RUN)
    response = run.client.post(path, headers=headers, content=b"{}")
    # SQLite says of a table that is missing what it says of a file that is.
    assert response.status_code == (500 if run.service.database.is_shared else 503)
    assert response.headers["Content-Type"] == MEDIA_TYPE
    assert "claim_plan" not in response.text
    if response.status_code == 503:
        check("POST", path, response)
