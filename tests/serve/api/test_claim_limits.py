"""What the service refuses of plans and of questions about blocks, and in which words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve.api.api_document import check
from serve.api.registered_run import LEGS, PLAN, RUN

from ciguard.serve.api.claim_requests import MAX_BLOCKS, MAX_LEGS
from ciguard.serve.api.problem_details import MEDIA_TYPE
from ciguard.serve.api.routes import BLOCKS_PATH, CLAIM_PATH, CLAIMS_PATH
from ciguard.serve.state import claim_rows

if TYPE_CHECKING:
    import pytest
    from serve.api.registered_run import RegisteredRun


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
@settings(
    max_examples=60,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
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
                method,
                path.format(**quoted),
                content=body,
                headers=[(b"Authorization", header)],
            )
            # A slash in a part of the path makes it another's.
            assert response.status_code in {400, 401, 404, 405}
            if response.headers["Content-Type"] == MEDIA_TYPE:
                plain = path.format(owner="o", name="n", **RUN, block="01.1")
                check(method, plain, response)
