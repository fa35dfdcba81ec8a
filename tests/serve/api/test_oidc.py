"""Tokens of GitHub's jobs, and of those who would like to have one."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from loopback import answering, serving
from serve.api.oidc_issuer import PATH, Issuer, assembled, claims, encoded, jwk, private_key, signed
from starlette.responses import JSONResponse, Response

from ciguard.serve.api import oidc
from ciguard.serve.api.oidc import JobTokens, KeysUnavailable, SigningKeys, TokenRefused, issuer_of

AUDIENCE = "https://ciguard.example"
ISSUER = Issuer()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving(ISSUER.application()) as address:
        yield address


@pytest.fixture
def issuer() -> Issuer:
    ISSUER.keys, ISSUER.answer, ISSUER.asked = [jwk("first")], None, 0
    return ISSUER


class Clock:
    """Seconds that pass where a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def tokens_of(server: str, clock: Clock | None = None) -> JobTokens:
    issuer = issuer_of(server)
    return JobTokens(issuer, AUDIENCE, SigningKeys(issuer, clock or Clock()))


def test_token_tells_the_repository(issuer: Issuer, server: str) -> None:
    tokens = tokens_of(server)
    assert tokens.run_of(signed(claims(server, AUDIENCE))).repository_id == 11
    assert tokens.run_of(signed(claims(server, AUDIENCE, repository_id="12"))).repository_id == 12
    now = int(time.time())
    for changes in ({"exp": now - 30}, {"nbf": now + 30}, {"iat": now + 30}):
        assert tokens.run_of(signed(claims(server, AUDIENCE, **changes))).repository_id == 11
    assert issuer.asked == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"exp": -90}, "expired"),
        ({"nbf": 90}, "not yet valid"),
        ({"iat": 90}, "not yet valid"),
        ({"exp": None}, "exp"),
        ({"nbf": None}, "nbf"),
        ({"iat": None}, "iat"),
        ({"aud": None}, "aud"),
        ({"iss": None}, "iss"),
        ({"aud": "https://other.example"}, "not made for https://ciguard.example"),
        ({"aud": ""}, "aud"),
        ({"aud": [AUDIENCE + "/"]}, "not made for"),
        ({"iss": "https://token.actions.githubusercontent.com"}, "issuer"),
        ({"repository_id": None}, "not valid"),
        ({"repository_id": "o/private"}, "not valid"),
        ({"repository_id": ["11"]}, "not valid"),
    ],
)
def test_token_with_wrong_claims_is_refused(
    issuer: Issuer, server: str, changes: dict[str, Any], expected: str
) -> None:
    now = int(time.time())
    found = {
        name: now + value if isinstance(value, int) else value for name, value in changes.items()
    }
    with pytest.raises(TokenRefused) as raised:
        tokens_of(server).run_of(signed(claims(server, AUDIENCE, **found)))
    assert expected in str(raised.value)


def _hmac_with_the_public_key(found: dict[str, Any]) -> str:
    """What fools a library that takes the algorithm from the token."""
    public = private_key("first").public_key()
    secret = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    unsigned = assembled({"alg": "HS256", "kid": "first"}, found).rpartition(".")[0]
    digest = hmac.digest(secret, unsigned.encode(), hashlib.sha256)
    return assembled({"alg": "HS256", "kid": "first"}, found, digest)


def test_forged_token_is_refused(issuer: Issuer, server: str) -> None:
    found = claims(server, AUDIENCE)
    genuine = signed(found)
    head, body, signature = genuine.split(".")
    others = signed(claims(server, AUDIENCE, repository_id="99")).split(".")
    forged = [
        signed(found, "second", kid="first"),  # another key under the same id
        signed(found, "second"),  # a key that GitHub does not have
        assembled({"alg": "RS256"}, found, b"x"),
        assembled({"alg": "RS256", "kid": ["first"]}, found, b"x"),
        # A key of the token's own.
        signed(found, "second", kid="first", jku=f"{server}/evil", jwk=jwk("second")),
        assembled({"alg": "none", "kid": "first"}, found),
        assembled({"alg": "None", "kid": "first"}, found),
        assembled({"alg": "RS256", "kid": "first"}, found),
        _hmac_with_the_public_key(found),
        f"{head}.{others[1]}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}",
        genuine[:-4],
        *(f"{encoded(one)}.{body}.{signature}" for one in (b"[" * 30_000, b"{", b"5", b"\xff")),
        "",
        "...",
        "no token",
        "\udcff.\udcff.\udcff",
        assembled({"alg": "RS256", "kid": "first"}, found) * 100,
    ]
    tokens = tokens_of(server)
    for token in forged:
        with pytest.raises(TokenRefused):
            tokens.run_of(token)
    assert tokens.run_of(genuine).repository_id == 11
    assert issuer.asked == 1


def test_new_key_is_fetched_once_a_minute_and_an_old_one_forgotten(
    issuer: Issuer, server: str
) -> None:
    clock = Clock()
    tokens = tokens_of(server, clock)
    first = signed(claims(server, AUDIENCE))
    second = signed(claims(server, AUDIENCE), "second")
    assert tokens.run_of(first).repository_id == 11
    issuer.keys = [jwk("second")]
    for _ in range(3):
        with pytest.raises(TokenRefused):
            tokens.run_of(second)
    assert issuer.asked == 1
    clock.now_s += oidc.REFETCH_S
    assert tokens.run_of(second).repository_id == 11
    with pytest.raises(TokenRefused):
        tokens.run_of(first)
    assert issuer.asked == 2
    issuer.keys = []
    clock.now_s += oidc.KEYS_AGE_S
    with pytest.raises(TokenRefused):
        tokens.run_of(second)


@pytest.mark.parametrize(
    "answer",
    [
        Response("no JSON"),
        JSONResponse({"keys": 5}),
        JSONResponse({"keys": [5]}),
        JSONResponse([]),
        Response(status_code=500),
        JSONResponse({"keys": []}, 302, {"Location": "/elsewhere"}),
    ],
)
def test_issuer_that_answers_nonsense_is_asked_again_later(
    issuer: Issuer, server: str, answer: Response
) -> None:
    clock = Clock()
    tokens = tokens_of(server, clock)
    token = signed(claims(server, AUDIENCE))
    issuer.answer = answer
    for _ in range(2):
        with pytest.raises(KeysUnavailable, match="keys cannot be fetched"):
            tokens.run_of(token)
    assert issuer.asked == 1
    issuer.answer = None
    clock.now_s += oidc.REFETCH_S
    assert tokens.run_of(token).repository_id == 11


def test_only_rsa_keys_of_enough_bits_are_used(issuer: Issuer, server: str) -> None:
    issuer.keys = [
        {"kty": "oct", "kid": "first", "k": "AAAA"},
        {"kty": "EC", "kid": "first", "crv": "P-256"},
        {"kty": "RSA", "kid": "first", "n": "!", "e": "AQAB"},
        {**jwk("first"), "use": "enc"},
        {**jwk("weak"), "kid": "first"},
    ]
    with pytest.raises(TokenRefused):
        tokens_of(server).run_of(signed(claims(server, AUDIENCE)))


def test_hanging_issuer_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "FETCH_S", 0.2)
    with answering([], closes=False) as server:
        tokens = tokens_of(server)
        token = signed(claims(server, AUDIENCE))
        start = time.monotonic()
        for _ in range(20):
            with pytest.raises(KeysUnavailable):
                tokens.run_of(token)
        assert time.monotonic() - start < 2


def test_issuer_of_each_kind_of_server() -> None:
    assert issuer_of("https://github.com") == "https://token.actions.githubusercontent.com"
    assert issuer_of("https://o.ghe.com") == "https://token.actions.o.ghe.com"
    assert issuer_of("https://git.o.example") == f"https://git.o.example{PATH}"


def test_service_without_an_address_takes_no_token(server: str) -> None:
    with pytest.raises(TokenRefused, match="no public address"):
        JobTokens(issuer_of(server), "").run_of(signed(claims(server, "")))
