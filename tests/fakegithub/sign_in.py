"""The fake GitHub's sign-in of people: a code for a click, a token for a code with its verifier."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from fakegithub.state import Answer, FakeGitHub, Login, Request, paged

if TYPE_CHECKING:
    from fakegithub.apps import FakeRepository

EXCHANGE: Final = "/login/oauth/access_token"
AUTHORIZE: Final = "/login/oauth/authorize"
# GitHub answers 200 whatever is wrong with a code.
REFUSED: Final = Answer(200, {"error": "bad_verification_code", "error_description": "expired"})
_NUMBERS: Final = itertools.count(1)


@dataclass
class FakeSignIn:
    """Of one client; `private` are the repositories that a person sees, by login."""

    client_id: str
    client_secret: str
    private: dict[str, list[FakeRepository]] = field(default_factory=dict)
    codes: dict[str, tuple[str, str]] = field(default_factory=dict)

    def click(self, address: str, login: str) -> str:
        """Say yes on GitHub's page as `login`; the query of the address to return to."""
        parts = urlsplit(address)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert parts.path == AUTHORIZE
        assert query["client_id"] == self.client_id
        assert query["code_challenge_method"] == "S256"
        code = f"code-{next(_NUMBERS)}"
        self.codes[code] = (login, query["code_challenge"])
        return urlencode({"code": code, "state": query["state"]})

    def exchange(self, github: FakeGitHub, request: Request) -> Answer:
        """A token for a code, once."""
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        login, challenge = self.codes.pop(form.get("code", ""), ("", ""))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        is_known = (form["client_id"], form["client_secret"]) == (
            self.client_id,
            self.client_secret,
        )
        if not is_known or base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != challenge:
            return REFUSED
        token = f"ghu_{next(_NUMBERS)}"
        github.tokens[token] = Login(login, "User", may_read_user=True)
        return Answer(200, {"access_token": token, "token_type": "bearer", "scope": ""})


def list_private(
    github: FakeGitHub, login: Login, _: Mapping[str, str], request: Request
) -> Answer:
    assert github.sign_in is not None
    assert request.query["visibility"] == "private"
    found = [one.as_json() for one in github.sign_in.private.get(login.name, [])]
    shown, link = paged(github.address, request, found)
    return Answer(200, shown, link)


SIGN_IN_ROUTES: Final[Mapping[str, Callable[..., Answer]]] = {"GET /user/repos": list_private}
