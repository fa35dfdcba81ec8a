"""Sign-in with GitHub, and sign-out.

The state of a sign-in (`state`, the verifier of PKCE, the page to return to) is sealed in a cookie
for ten minutes: any web process can finish a sign-in that another began.
"""

from __future__ import annotations

import hmac
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ciguard.github.api_errors import GitHubError
from ciguard.serve.oauth import authorize_url, exchange_code, login_of
from ciguard.serve.pages import cookies
from ciguard.serve.pages.page_formats import error_page
from ciguard.serve.pages.viewers import find_viewer, visible_repositories
from ciguard.serve.pages.visit import SIGN_IN, SIGN_IN_RETURN, SIGN_OUT, own_path
from ciguard.serve.request_threads import answer_in
from ciguard.serve.service import Service
from ciguard.serve.state import sessions

BEGUN_S: Final = 600.0


async def start(request: Request) -> Response:
    """Redirect the person to GitHub."""
    service: Service = request.app.state.service
    oauth = service.settings.oauth
    if oauth is None:
        return error_page(request, HTTPStatus.NOT_FOUND)
    begun = {
        "state": cookies.new_secret(),
        "verifier": cookies.new_secret(),
        "return_to": own_path(request.query_params.get("return_to", "/")),
    }
    public_url = service.settings.public_url
    address = authorize_url(
        service.settings.server_url,
        oauth.id,
        state=begun["state"],
        verifier=begun["verifier"],
        redirect_uri=public_url + SIGN_IN_RETURN if public_url else "",
    )
    response = RedirectResponse(address, HTTPStatus.SEE_OTHER)
    sealed = cookies.seal(oauth.secret, begun)
    cookies.write(request, response, cookies.SIGN_IN, sealed, BEGUN_S)
    return response


def finish(request: Request) -> Response:
    """Begin a session, with a new secret, for the code in GitHub's redirect; waits for GitHub."""
    service: Service = request.app.state.service
    settings, oauth = service.settings, service.settings.oauth
    begun = _unseal_start(request, oauth.secret) if oauth else None
    if oauth is None or begun is None:
        words = "this sign-in was not begun here, or more than 10 minutes ago; sign in again"
        return error_page(request, HTTPStatus.BAD_REQUEST, words)
    try:
        token = exchange_code(
            settings.server_url,
            oauth.id,
            oauth.secret,
            code=request.query_params.get("code", "")[:200],
            verifier=begun["verifier"],
        )
        login = login_of(settings.api_url, token)
        visible = visible_repositories(service, token)
    except GitHubError as error:
        words = f"GitHub did not let you in: {error.what}"
        return error_page(request, HTTPStatus.BAD_GATEWAY, words)
    secret = cookies.new_secret()
    with service.database.write() as connection:
        sessions.end(connection, cookies.read(request, cookies.SESSION))
        sessions.add(connection, secret, login, visible)
    response = RedirectResponse(own_path(begun["return_to"]), HTTPStatus.SEE_OTHER)
    sealed = cookies.seal(oauth.secret, token.get_secret_value())
    cookies.write(request, response, cookies.SESSION, secret, sessions.LIFETIME_S)
    cookies.write(request, response, cookies.GITHUB, sealed, sessions.LIFETIME_S)
    cookies.clear(request, response, cookies.SIGN_IN)
    return response


def _unseal_start(request: Request, secret: SecretStr) -> dict[str, Any] | None:
    """Return the values that `start` sealed; None if `state` of the request is another."""
    sealed = cookies.read(request, cookies.SIGN_IN)
    begun: dict[str, Any] | None = cookies.unseal(secret, sealed, BEGUN_S)
    state = request.query_params.get("state", "")
    if begun is None or not hmac.compare_digest(begun["state"].encode(), state.encode()):
        return None
    return begun


async def sign_out(request: Request) -> Response:
    """End the session: delete its cookies and its row."""
    form = await read_form(request)
    return await answer_in(request, "pages", _sign_out, request, form)


async def read_form(request: Request) -> dict[str, str]:
    """Return the last value of each field of a form; `BodyLimit` limits its length."""
    text = (await request.body()).decode("utf-8", "replace")
    try:
        return dict(parse_qsl(text, max_num_fields=20))
    except ValueError:  # more fields than any of our forms
        return {}


def _sign_out(request: Request, form: dict[str, str]) -> Response:
    service: Service = request.app.state.service
    viewer = find_viewer(request, service)
    if not cookies.is_own_form(request, form.get("token", ""), viewer.bound_to):
        return error_page(request, HTTPStatus.FORBIDDEN)
    with service.database.write() as connection:
        sessions.end(connection, viewer.bound_to)
    response = RedirectResponse("/", HTTPStatus.SEE_OTHER)
    cookies.clear(request, response, cookies.SESSION, cookies.GITHUB)
    return response


ROUTES: Final = (
    Route(SIGN_IN, start),
    Route(SIGN_IN_RETURN, finish),
    Route(SIGN_OUT, sign_out, methods=["POST"]),
)
