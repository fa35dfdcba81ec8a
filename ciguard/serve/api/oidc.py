"""Checks of GitHub's OIDC tokens: the run of a job, if GitHub signed the token for this service.

Source: docs.github.com, "OpenID Connect reference"; RFC 7519; RFC 8725 (one algorithm, which the
token does not choose).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import RSAAlgorithm

from ciguard.errors import InputError, RemoteError
from ciguard.github.repository_ref import RESIDENT, SERVER_URL
from ciguard.history.daemon_thread import in_thread
from ciguard.serve.state.run_key import RUN_COLUMNS, RunKey

ALGORITHM: Final = "RS256"  # of all of GitHub's tokens
LEEWAY_S: Final = 60.0  # between GitHub's clock and this machine's
FETCH_S: Final = 2.0
REFETCH_S: Final = 60.0  # a token names its key, so a sender can name keys that do not exist
KEYS_AGE_S: Final = 3600.0  # after which a key that GitHub has withdrawn is refused
MIN_KEY_BITS: Final = 2048
# The last three are for a proxy's JSON that is no JWKS.
_FETCH_ERRORS: Final = (
    *(httpx.HTTPError, ValueError, TimeoutError),
    *(TypeError, LookupError, AttributeError),
)


class TokenRefused(InputError):
    """The token identifies no caller."""


class KeysUnavailable(RemoteError):
    """GitHub's keys cannot be fetched now, so no token can be checked."""

    is_lasting = False


def issuer_of(server_url: str) -> str:
    """Return the issuer that signs tokens of a server's jobs."""
    if server_url == SERVER_URL:
        return "https://token.actions.githubusercontent.com"
    scheme, _, host = server_url.partition("://")
    if host.endswith(RESIDENT):
        return f"{scheme}://token.actions.{host}"
    return f"{server_url}/_services/token"


class SigningKeys:
    """The keys of an issuer, fetched on demand. Threads may share it."""

    def __init__(self, issuer: str, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._address = f"{issuer}/.well-known/jwks"
        self._clock_s = clock_s
        self._lock = Lock()
        self._keys: Mapping[str, RSAPublicKey] = {}
        self._fetched_at_s = self._tried_at_s = float("-inf")
        self._problem = ""

    def key(self, key_id: str) -> RSAPublicKey:
        """Return the key of this id.

        Raises:
            TokenRefused: the issuer has no such key.
            KeysUnavailable: the keys cannot be fetched.
        """
        key = self._fresh(key_id)
        if key is None:
            with self._lock:
                if self._fresh(key_id) is None and self._clock_s() - self._tried_at_s >= REFETCH_S:
                    self._tried_at_s = self._clock_s()
                    self._fetch()
                key = self._fresh(key_id)
        if key is None and self._problem:
            raise KeysUnavailable(self._problem, where=self._address)
        if key is None:
            raise TokenRefused("the token is signed with a key that GitHub does not have")
        return key

    def _fresh(self, key_id: str) -> RSAPublicKey | None:
        is_fresh = self._clock_s() - self._fetched_at_s < KEYS_AGE_S
        return self._keys.get(key_id) if is_fresh else None

    def _fetch(self) -> None:
        try:
            self._keys = in_thread(self._request).result(FETCH_S)
        except _FETCH_ERRORS as error:
            self._problem = f"GitHub's keys cannot be fetched: {type(error).__name__}"
        else:
            self._problem = ""
            self._fetched_at_s = self._clock_s()

    def _request(self) -> Mapping[str, RSAPublicKey]:
        answer = httpx.get(self._address, timeout=FETCH_S).raise_for_status()
        return dict(filter(None, map(_usable_key, answer.json()["keys"])))


def _usable_key(jwk: Mapping[str, Any]) -> tuple[str, RSAPublicKey] | None:
    """Return the id and the key; None for a key of another kind."""
    if jwk.get("kty") != "RSA" or jwk.get("use", "sig") != "sig" or not jwk.get("kid"):
        return None
    try:
        key = RSAAlgorithm.from_jwk(dict(jwk))
    except (jwt.InvalidKeyError, ValueError):
        return None
    if not isinstance(key, RSAPublicKey) or key.key_size < MIN_KEY_BITS:
        return None
    return str(jwk["kid"]), key


class JobTokens:
    """Checks tokens of one issuer for one audience.

    Args:
        audience: scheme, host and port of the service; "" without a public address.
    """

    def __init__(self, issuer: str, audience: str, keys: SigningKeys | None = None) -> None:
        self._issuer = issuer
        self._audience = audience
        self._keys = keys or SigningKeys(issuer)

    def run_of(self, token: str) -> RunKey:
        """Return the run attempt whose job has this token.

        Raises:
            TokenRefused: the token is forged, expired, or made for another service.
            KeysUnavailable: the token cannot be checked now.
        """
        if not self._audience:
            raise TokenRefused("the service has no public address that a token can be made for")
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") != ALGORITHM or not isinstance(header.get("kid"), str):
                raise TokenRefused("the token is not signed as GitHub signs")
            claims = jwt.decode(
                token,
                self._keys.key(header["kid"]),
                algorithms=[ALGORITHM],
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={"require": ["aud", "exp", "iat", "iss", "nbf"]},
            )
            return RunKey(*(int(claims[name]) for name in RUN_COLUMNS))
        except jwt.InvalidAudienceError as error:
            what = f"the token is not made for {self._audience}"
            raise TokenRefused(what) from error
        except (jwt.PyJWTError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise TokenRefused(f"the token is not valid: {error}") from error
