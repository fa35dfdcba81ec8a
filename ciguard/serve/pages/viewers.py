"""The viewer of a page, and the repositories that they may see: one rule for every page and format.

Viewers sign in with GitHub, and see the private repositories that GitHub shows them. Or a proxy
sends their login in a header, and they see all repositories. Or neither is configured and the
service is for this machine only, whose requests see all repositories. A script sees the repository
of its token. For other viewers, a private repository does not exist.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import sqlalchemy as sa
from pydantic import SecretStr
from starlette.exceptions import HTTPException
from starlette.requests import Request

from ciguard.github.api_errors import GitHubError
from ciguard.serve.oauth import private_repositories
from ciguard.serve.pages import cookies
from ciguard.serve.service import Service
from ciguard.serve.settings import LOOPBACK, Settings
from ciguard.serve.state import repositories, schema, sessions, tokens
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.sessions import Session

LOG: Final = logging.getLogger(__name__)
VISIBLE_S: Final = 300.0  # validity of GitHub's answer about a person
RETRY_S: Final = 30.0  # after which GitHub is asked again, if it did not answer
# If GitHub does not answer, a request waits 20 s; the other half of the threads of pages
# (`request_threads.THREADS`) answers other requests.
TURNS: Final = 4
TURN_S: Final = 2.0  # GitHub answers in less, so that several pages of one person all get a turn
_TURNS: Final = threading.Semaphore(TURNS)
# Headers of proxies: the sender of such a request is not the connecting address.
FORWARDED: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


@dataclass(frozen=True, slots=True)
class Viewer:
    """The person, or program, that sends a request.

    Attributes:
        login: "" without a sign-in.
        sees_all: the viewer sees all private repositories.
        visible: numbers of the private repositories that the viewer sees.
        bound_to: secret to which forms of this browser are bound; "" before the first form.
        is_stale: GitHub did not answer, so that no private repository is shown.
    """

    login: str = ""
    sees_all: bool = False
    visible: frozenset[int] = frozenset()
    bound_to: str = ""
    is_stale: bool = False

    @property
    def may_act(self) -> bool:
        """Return whether they may see the work list, and retry its rows."""
        return self.sees_all or bool(self.login)

    def may_see(self, repository: Repository) -> bool:
        return not repository.is_private or self.sees_all or repository.id in self.visible

    @property
    def are_visible(self) -> sa.ColumnElement[bool]:
        """Return the same rule as a condition for rows, without removed repositories."""
        column = schema.repository.c
        may_see = column.is_private.is_(False) | column.id.in_(self.visible)
        return repositories.ARE_ACTIVE & (sa.true() if self.sees_all else may_see)


def find_viewer(request: Request, service: Service) -> Viewer:
    """Find the sender of a request.

    Raises:
        HTTPException: status 401, the request has a token, but none of pages.
        RemoteError: the database cannot be reached.
    """
    settings = service.settings
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    is_ours = token.startswith((tokens.PREFIX, tokens.PAGES_PREFIX))
    if scheme.lower() == "bearer" and (is_ours or not settings.proxy_header):
        with service.database.read() as connection:
            repository_id = tokens.repository_of(connection, token)
        if repository_id is None or not token.startswith(tokens.PAGES_PREFIX):
            raise HTTPException(HTTPStatus.UNAUTHORIZED, headers={"WWW-Authenticate": "Bearer"})
        return Viewer(visible=frozenset((repository_id,)))
    forms = cookies.read(request, cookies.FORMS)
    if settings.proxy_header:
        login = request.headers.get(settings.proxy_header, "").strip()
        is_known = bool(login) and is_from(request, settings.proxies)
        return Viewer(login if is_known else "", sees_all=is_known, bound_to=forms)
    if settings.oauth is not None:
        return _signed_in(request, service) or Viewer(bound_to=forms)
    sees_all = trusts_this_machine(settings) and is_local(request)
    return Viewer(sees_all=sees_all, bound_to=forms)


def is_from(request: Request, networks: Iterable[str]) -> bool:
    """Return whether the connection comes from one of these addresses or networks."""
    try:
        address = ipaddress.ip_address(request.client.host if request.client else "")
    except ValueError:  # a Unix socket has no address
        return False
    return any(address in ipaddress.ip_network(network) for network in networks)


def trusts_this_machine(settings: Settings) -> bool:
    """Return whether requests of this machine see all pages: the service is for this machine."""
    names = (settings.host, urlsplit(settings.public_url).hostname or settings.host)
    has_sign_in = settings.proxy_header or settings.oauth is not None
    return not has_sign_in and all(map(cookies.is_loopback_name, names))


def is_local(request: Request) -> bool:
    """Return whether a program of this machine sends the request, without a proxy.

    The host of the request counts too: the name of another site can resolve to this machine.
    """
    return (
        is_from(request, LOOPBACK)
        and cookies.is_loopback_name(request.url.hostname)
        and not any(name in request.headers for name in FORWARDED)
    )


def _signed_in(request: Request, service: Service) -> Viewer | None:
    secret = cookies.read(request, cookies.SESSION)
    session = _find_session(service, secret)
    if session is not None and _is_old(session):
        with _turn() as has_turn:
            session = _find_session(service, secret)  # another request may have renewed it
            if session is not None and _is_old(session):
                session = _renew(request, service, secret, session, may_ask=has_turn)
    if session is None:
        return None
    if session.visible is None:
        return Viewer(session.login, bound_to=secret, is_stale=True)
    return Viewer(session.login, visible=session.visible, bound_to=secret)


def _find_session(service: Service, secret: str) -> Session | None:
    if not secret:
        return None
    with service.database.read() as connection:
        return sessions.find(connection, secret)


def _is_old(session: Session) -> bool:
    return session.age_s > (RETRY_S if session.visible is None else VISIBLE_S)


@contextlib.contextmanager
def _turn() -> Iterator[bool]:
    """Yield whether this request may ask GitHub; False after a wait of `TURN_S`."""
    has_turn = _TURNS.acquire(timeout=TURN_S)
    try:
        yield has_turn
    finally:
        if has_turn:
            _TURNS.release()


def _renew(
    request: Request, service: Service, secret: str, session: Session, *, may_ask: bool
) -> Session | None:
    """Renew the session by a current answer of GitHub; None if the session has ended."""
    try:
        if not may_ask:
            raise GitHubError("others wait for its answer")
        visible = _visible_now(request, service)
    except GitHubError as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            with service.database.write() as connection:
                sessions.end(connection, secret)
            return None
        LOG.warning("what %s may see: %s", session.login, error)
        visible = None
    with service.database.write() as connection:
        sessions.set_visible(connection, secret, visible)
    return replace(session, visible=visible)


def _visible_now(request: Request, service: Service) -> frozenset[int]:
    """Ask GitHub for the private repositories that the person may see.

    Raises:
        GitHubError: status 401 if their token is invalid or missing.
    """
    oauth = service.settings.oauth
    assert oauth is not None
    token = cookies.unseal(oauth.secret, cookies.read(request, cookies.GITHUB))
    if token is None:
        raise GitHubError("no token of this session", status=HTTPStatus.UNAUTHORIZED)
    return visible_repositories(service, SecretStr(token))


def visible_repositories(service: Service, token: SecretStr) -> frozenset[int]:
    """Return the private repositories of the service that a person may see.

    Raises:
        GitHubError: GitHub refused or did not answer.
    """
    visible = private_repositories(service.settings.api_url, token)
    with service.database.read() as connection:
        known = {
            repository.id for repository in repositories.active(connection) if repository.is_private
        }
    return visible & known
