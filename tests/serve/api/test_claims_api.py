"""Blocks of a run, registered and claimed over HTTP, on SQLite and on PostgreSQL.

Each answer is held against the OpenAPI document, and each request that is taken too.
"""

from __future__ import annotations

import json
import time
from typing import Any, Final
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve.api.api_document import PUBLIC_URL, check
from serve.api.oidc_issuer import claims, signed
from serve.api.registered_run import LEGS, PLAN, RUN, RegisteredRun, nothing

from ciguard.serve.api.routes import (
    BLOCKS_PATH,
    CLAIM_PATH,
    CLAIMS_PATH,
    MAX_BLOCKS,
    MAX_LEGS,
    PROBLEM_TYPE,
)
from ciguard.serve.state import claim_rows, schema


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
    for changes, block in (({"plan": "ba9876543210"}, "01.1"), ({"leg": "03"}, "01.1")):
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
    assert response.headers["Content-Type"] == PROBLEM_TYPE
    assert "claim_plan" not in response.text
    if response.status_code == 503:
        check("POST", path, response)


def legs_with(**changes: Any) -> dict[str, Any]:
    return {"01": {**LEGS["01"], **changes}}


BAD_LEGS: Final[tuple[tuple[Any, str], ...]] = (
    ({}, "legs"),
    ({f"{n:03}": {**LEGS["01"], "blocks": {}} for n in range(MAX_LEGS + 1)}, "256"),
    (legs_with(blocks={f"01.{n}": 1.0 for n in range(1, MAX_BLOCKS + 2)}), "32"),
    (legs_with(blocks={"02.1": 1.0}), "expected names of blocks as 01.1, found 02.1"),
    (legs_with(blocks={"01.0": 1.0}), "pattern"),
    (legs_with(blocks={"01.1.1": 1.0}), "expected names"),
    (legs_with(blocks={"01.1\n": 1.0}), "pattern"),
    (legs_with(blocks={"01.1": -1.0}), "greater than or equal to 0"),
    (legs_with(blocks={"01.1": float("nan")}), "finite"),
    (legs_with(own_s=float("inf")), "finite"),
    (legs_with(own_s=1e300), "less than or equal"),
    (legs_with(own_s="60"), "valid number"),
    (legs_with(own_s=True), "valid number"),
    (legs_with(group="g" * 257), "256"),
    ({"../01": LEGS["01"]}, "pattern"),
    ({"x" * 101: {**LEGS["01"], "blocks": {}}}, "pattern"),
    ({"": {**LEGS["01"], "blocks": {}}}, "pattern"),
    ([], "object"),
)


def test_registration_beyond_a_limit(run: RegisteredRun) -> None:
    for legs, words in BAD_LEGS:
        response = run.register(run.job(), legs)
        assert response.status_code == 400, words
        assert words in response.json()["detail"]
        assert len(response.json()["detail"]) < 500


def test_largest_plan_is_taken(run: RegisteredRun) -> None:
    names = [f"{number:03}-" + "x" * 96 for number in range(MAX_LEGS)]
    blocks = {
        name: {f"{name}.{number}": 1.0 for number in range(1, MAX_BLOCKS + 1)}
        for name in names[:200]
    }
    legs = {name: {"group": "g", "own_s": 9.0, "blocks": blocks.get(name, {})} for name in names}
    token = run.token(legs=legs)
    assert run.ask(token, names[0])["block"] == f"{names[0]}.1"


def test_claim_beyond_a_limit(run: RegisteredRun) -> None:
    token = run.token()
    wrong: tuple[dict[str, Any], ...] = (
        {"plan": "0123456789AB"},
        {"plan": "0123456789ab\n"},
        {"plan": None},
        {"leg": "a/b"},
        {"leg": 1},
        {"state": "ends"},
        {"elapsed_s": -1},
        {"elapsed_s": float("nan")},
        {"elapsed_s": 10**400},
        {"ready_in_s": "0"},
    )
    for changes in wrong:
        body = {"plan": PLAN, "leg": "01", "state": "asks", "elapsed_s": 1.0, **changes}
        response = run.send(token, body)
        assert response.status_code == 400
        assert next(iter(changes)) in response.json()["detail"]


def test_body_that_is_none(run: RegisteredRun) -> None:
    token = run.token()
    for body in (b"", b"{", b"\xff", b"[" * 100_000, b"5", b'{"plan": "\\ud800"}'):
        for path in (CLAIMS_PATH, CLAIM_PATH):
            assert run.send(token, body, path, block="01.1").status_code == 400
        assert run.send(run.job(), body, BLOCKS_PATH).status_code == 400
    assert run.send(token, b" " * ((1 << 20) + 1)).status_code == 413


def test_run_attempt_with_too_many_plans(
    run: RegisteredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_rows, "MAX_PLANS", 0)
    refused = run.register(run.job())
    assert refused.status_code == 400
    assert "other plans" in refused.json()["detail"]


@given(
    place=st.fixed_dictionaries(
        {
            **dict.fromkeys(("owner", "name", "run_attempt", "block"), st.text(min_size=1)),
            "run_id": st.text(min_size=1) | st.integers(1).map(str),
        }
    ),
    authorization=st.binary(max_size=40).map(b"Bearer ".__add__) | st.just(b"job"),
    body=st.binary(max_size=100)
    | st.recursive(
        st.none() | st.floats() | st.text() | st.sampled_from([PLAN, "01", "asks", "01.1"]),
        lambda some: st.dictionaries(
            st.sampled_from(["plan", "leg", "legs", "state", "elapsed_s", "01", "blocks", "01.1"]),
            some,
        ),
    ).map(lambda found: json.dumps(found).encode()),
)
@settings(database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_request_gets_an_answer_of_the_document(
    run: RegisteredRun, place: dict[str, str], authorization: bytes, body: bytes
) -> None:
    shown, places = authorization, [place]
    if authorization == b"job":
        shown = f"Bearer {run.job()}".encode()
        places.append({"owner": "o", "name": "private", **RUN, "block": "01.1"})
    header = bytes(byte for byte in shown if byte >= 32).strip()
    for one in places:
        quoted = {key: quote(value, safe="") for key, value in one.items()}
        for path in (BLOCKS_PATH, CLAIMS_PATH, CLAIM_PATH):
            method = "POST" if path == CLAIMS_PATH else "PUT"
            response = run.client.request(
                method, path.format(**quoted), content=body, headers=[(b"Authorization", header)]
            )
            # A slash in a part of the path makes it another's.
            assert response.status_code in {400, 401, 404, 405}
            if response.headers["Content-Type"] == PROBLEM_TYPE:
                plain = path.format(owner="o", name="n", **RUN, block="01.1")
                check(method, plain, response)
