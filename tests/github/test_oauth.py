"""Signing people in: what goes to GitHub, and that its refusals tell no secret."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from fakegithub.apps import FakeRepository
from fakegithub.server import serving
from fakegithub.sign_in import FakeSignIn
from fakegithub.state import Fault
from pydantic import SecretStr

from ciguard.github.api_errors import GitHubError
from ciguard.serve.oauth import authorize_url, exchange_code, login_of, private_repositories

SECRET = SecretStr("secret-of-the-client")


def exchange(server_url: str, code: str, verifier: str = "v" * 43) -> SecretStr:
    return exchange_code(server_url, "client", SECRET, code=code, verifier=verifier)


def test_address_has_no_secret_and_a_digest_of_the_verifier() -> None:
    # The pair is that of RFC 7636, appendix B.
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    address = authorize_url("https://github.com", "client", state="s & t", verifier=verifier)
    assert {name: one for name, (one,) in parse_qs(urlsplit(address).query).items()} == {
        "client_id": "client",
        "state": "s & t",
        "scope": "repo",
        "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "code_challenge_method": "S256",
    }


def test_code_counts_once_and_with_its_verifier() -> None:
    with serving() as github:
        github.sign_in = FakeSignIn("client", SECRET.get_secret_value())
        github.sign_in.private["octocat"] = [FakeRepository(at, f"o/r{at}") for at in range(130)]
        address = authorize_url(github.address, "client", state="s", verifier="v" * 43)
        (code,) = parse_qs(github.sign_in.click(address, "octocat"))["code"]
        token = exchange(github.address, code)
        assert login_of(github.address, token) == "octocat"
        assert private_repositories(github.address, token) == set(range(130))
        (second,) = parse_qs(github.sign_in.click(address, "octocat"))["code"]
        for again, verifier in ((code, "v" * 43), (second, "w" * 43)):
            with pytest.raises(GitHubError, match="bad_verification_code"):
                exchange(github.address, again, verifier)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=0),
        Fault(text="<html>oops"),
        Fault(status=200, text="[1]"),
        Fault(status=200, text='{"access_token": 7}'),
    ],
)
def test_what_is_no_answer_is_an_error_without_secrets(fault: Fault) -> None:
    with serving() as github:
        github.sign_in = FakeSignIn("client", SECRET.get_secret_value())
        github.faults.append(fault)
        with pytest.raises(GitHubError) as caught:
            exchange(github.address, "code-of-somebody")
    assert "secret" not in str(caught.value)
    assert "code-of" not in str(caught.value)
