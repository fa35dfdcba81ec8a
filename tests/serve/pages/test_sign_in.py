"""Signing in with a GitHub, what it shows, and forms that are not ours."""

from __future__ import annotations

import itertools
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa
from fakegithub.apps import FakeRepository
from fakegithub.server import serving
from fakegithub.sign_in import FakeSignIn
from fakegithub.state import FakeGitHub, Fault
from serve.pages.asgi_client import AsgiClient
from serve.pages.conftest import EVERYBODY, INSIDERS, OAUTH, PEER, client_of, with_oauth, with_proxy
from serve.pages.filled import REFUSAL, VAULT, Site

from ciguard.serve.application import build_application
from ciguard.serve.pages import viewers
from ciguard.serve.pages.viewers import RETRY_S, TURNS, VISIBLE_S
from ciguard.serve.pages.visit import own_path
from ciguard.serve.request_threads import THREADS
from ciguard.serve.state import pauses, schema

PRIVATE = f"/{VAULT.full_name}"


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    """A GitHub with two people, of whom octocat sees the private repository and one unknown."""
    with serving() as found:
        found.sign_in = FakeSignIn(OAUTH["CIGUARD_OAUTH_ID"], OAUTH["CIGUARD_OAUTH_SECRET"])
        vault = FakeRepository(VAULT.id, VAULT.full_name)
        found.sign_in.private = {"octocat": [vault, FakeRepository(999, "octo-org/other")]}
        yield found


@pytest.fixture
def signed(filled: Site, github: FakeGitHub) -> Site:
    settings = with_oauth(filled.service.settings)
    settings = replace(settings, server_url=github.address, api_url=github.address)
    return replace(filled, service=replace(filled.service, settings=settings))


def browser(site: Site) -> AsgiClient:
    application = build_application(site.service, site.results.read)
    return AsgiClient(application, base_url="https://ci.example", peer=PEER)


def sign_in(client: AsgiClient, github: FakeGitHub, login: str, return_to: str = "/") -> str:
    """Sign in as a browser does; where it is sent to."""
    started = client.get(f"/-/sign-in?return_to={return_to}")
    assert started.status_code == 303
    assert github.sign_in is not None
    query = github.sign_in.click(started.headers["location"], login)
    finished = client.get(f"/-/sign-in/return?{query}")
    assert finished.status_code == 303, finished.text
    for cookie in finished.headers.get_list("set-cookie"):
        assert cookie.startswith("__Host-")
        assert {"HttpOnly", "Path=/", "SameSite=lax", "Secure"} <= set(cookie.split("; "))
    return finished.headers["location"]


def test_person_sees_what_github_shows_them(signed: Site, github: FakeGitHub) -> None:
    client = browser(signed)
    link = re.search(r'href="(/-/sign-in[^"]+)"', client.get(PRIVATE).text)
    assert link is not None
    assert parse_qs(urlsplit(link[1]).query) == {"return_to": [PRIVATE]}
    assert sign_in(client, github, "octocat", PRIVATE) == PRIVATE
    page = client.get(PRIVATE)
    assert page.status_code == 200
    assert "octocat" in page.text
    other = browser(signed)
    sign_in(other, github, "mallory")
    assert other.get(PRIVATE).status_code == 404


def test_secrets_are_not_in_the_database(signed: Site, github: FakeGitHub) -> None:
    client = browser(signed)
    sign_in(client, github, "octocat")
    with signed.service.database.read() as connection:
        rows = str(connection.execute(sa.select(schema.session)).all())
    secrets = [value for name, value in client.cookies.items() if "session" in name]
    assert len(secrets) == 1
    assert secrets[0] not in rows
    assert not [token for token in github.tokens if token in rows]
    assert "[12]" in rows
    assert "999]" not in rows
    assert not [value for value in client.cookies.values() if "ghu_" in value]


def age_sessions(site: Site, seconds: float) -> None:
    with site.service.database.write() as connection:
        old = schema.session.c.visible_at_ms - round(seconds * 1000)
        connection.execute(sa.update(schema.session).values(visible_at_ms=old))


def test_visibility_is_asked_again_after_five_minutes(signed: Site, github: FakeGitHub) -> None:
    client = browser(signed)
    sign_in(client, github, "octocat")
    assert github.sign_in is not None
    github.sign_in.private["octocat"] = []
    assert client.get(PRIVATE).status_code == 200
    age_sessions(signed, VISIBLE_S + 1)
    assert client.get(PRIVATE).status_code == 404
    assert "octocat" in client.get("/").text


def test_silent_github_shows_nothing_private(signed: Site, github: FakeGitHub) -> None:
    client = browser(signed)
    sign_in(client, github, "octocat")
    age_sessions(signed, VISIBLE_S + 1)
    github.faults.append(Fault(path="/user/repos", status=403, message="Forbidden", times=9))
    for _ in range(3):  # GitHub is not asked at each page
        assert client.get(PRIVATE).status_code == 404
        assert "GitHub does not answer" in client.get("/").text
    asked = len(github.request_log())
    github.faults.clear()
    age_sessions(signed, RETRY_S + 1)
    assert client.get(PRIVATE).status_code == 200
    assert len(github.request_log()) == asked + 1


def test_github_that_hangs_holds_half_of_the_threads(
    signed: Site, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewers, "TURN_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor() as pool:
        hangs = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = replace(signed.service.settings, api_url=hangs)
        service = replace(signed.service, settings=settings)
        application = build_application(service, signed.results.read)
        person = browser(signed)
        sign_in(person, github, "octocat")
        age_sessions(signed, VISIBLE_S + 1)
        stranger, same = (
            AsgiClient(application, base_url="https://ci.example", peer=PEER) for _ in range(2)
        )
        same.cookies.update(person.cookies)
        asked = [pool.submit(same.get, PRIVATE) for _ in range(THREADS)]
        accepted = [silent.accept()[0] for _ in range(TURNS)]
        for one in itertools.islice(as_completed(asked), THREADS - TURNS):  # without a turn
            assert one.result().status_code == 404
        assert stranger.get("/").status_code == 200
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody else asks it
            silent.accept()
        silent.close()
        for connection in accepted:
            connection.close()
        assert {one.result().status_code for one in asked} == {404}


def test_all_pages_of_one_person_wait_for_github(
    signed: Site, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewers, "TURN_S", 30.0)
    client = browser(signed)
    sign_in(client, github, "octocat")
    age_sessions(signed, VISIBLE_S + 1)
    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(client.get, [PRIVATE] * THREADS))
    assert {one.status_code for one in answers} == {200}


def test_revoked_token_ends_the_session(signed: Site, github: FakeGitHub) -> None:
    client = browser(signed)
    sign_in(client, github, "octocat")
    age_sessions(signed, VISIBLE_S + 1)
    github.tokens.clear()
    assert client.get(PRIVATE).status_code == 404
    assert "Sign in with GitHub" in client.get("/").text


def test_sign_in_of_another_browser_is_refused(signed: Site, github: FakeGitHub) -> None:
    victim, attacker = browser(signed), browser(signed)
    assert github.sign_in is not None
    started = attacker.get("/-/sign-in")
    query = github.sign_in.click(started.headers["location"], "mallory")
    for path in (f"/-/sign-in/return?{query}", "/-/sign-in/return", "/-/sign-in/return?state=x"):
        assert victim.get(path).status_code == 400
    victim.get("/-/sign-in")
    assert victim.get(f"/-/sign-in/return?{query}").status_code == 400
    forged = re.sub("state=[^&]+", "state=ä", query)
    assert attacker.get(f"/-/sign-in/return?{forged}").status_code == 400


def test_refused_code_is_told_in_words(signed: Site, github: FakeGitHub) -> None:
    client = browser(signed)
    state = parse_qs(urlsplit(client.get("/-/sign-in").headers["location"]).query)["state"][0]
    answer = client.get(f"/-/sign-in/return?code=forged&state={state}")
    assert answer.status_code == 502
    assert "bad_verification_code" in answer.text
    assert not github.tokens


def test_sign_out_needs_the_form_of_our_page(signed: Site, github: FakeGitHub) -> None:
    client = browser(signed)
    sign_in(client, github, "octocat")
    token = form_token(client.get("/").text)
    sent = {"origin": "https://evil.example"}
    assert client.post("/-/sign-out", {"token": ""}).status_code == 403
    assert client.post("/-/sign-out", {"token": token}, headers=sent).status_code == 403
    sent = {"sec-fetch-site": "cross-site"}
    assert client.post("/-/sign-out", {"token": token}, headers=sent).status_code == 403
    assert client.get("/-/sign-out").status_code == 404
    assert client.get(PRIVATE).status_code == 200
    secret = dict(client.cookies)
    sent = {"origin": "https://ci.example", "sec-fetch-site": "same-origin"}
    assert client.post("/-/sign-out", {"token": token}, headers=sent).status_code == 303
    assert not client.cookies
    client.cookies.update(secret)
    assert client.get(PRIVATE).status_code == 404


def form_token(page: str) -> str:
    found = re.search(r'name="token" value="([^"]+)"', page)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    "text",
    ["//evil.example", "/\\evil.example", "https://evil.example", "/\t/evil.example", "", "/a b"],
)
def test_sign_in_returns_to_this_site_only(text: str) -> None:
    assert own_path(text) == "/"


def test_own_path_keeps_its_query() -> None:
    assert own_path("/o/r?branch=a%2Fb&page=2") == "/o/r?branch=a%2Fb&page=2"


def test_own_origin_is_as_browsers_write_it(filled: Site) -> None:
    insider = INSIDERS["behind-proxy"]
    who = replace(
        insider, settings=lambda one: replace(with_proxy(one), public_url="https://CI.Example:443")
    )
    client = client_of(filled, who)
    token = form_token(client.get("/work").text)
    sent = {"origin": "https://ci.example"}
    assert client.post("/work", {"token": token}, headers=sent).status_code == 404  # not 403


def test_dead_work_is_tried_again(filled: Site) -> None:
    client = client_of(filled, INSIDERS["local"])
    page = client.get("/work").text
    names = ("token", "repository_id", "run_id", "run_attempt")
    values = {name: re.findall(rf'name="{name}" value="([^"]+)"', page)[-1] for name in names}
    other = client_of(filled, INSIDERS["local"])
    assert other.post("/work", values).status_code == 403
    stranger = client_of(filled, INSIDERS["behind-proxy"])
    assert stranger.post("/work", {**values, "run_id": "²"}).status_code == 403
    assert client.post("/work", {**values, "token": "x"}).status_code == 403
    assert client.post("/work", {**values, "run_id": "²"}).status_code == 404
    assert client.post("/work", {**values, "repository_id": "999"}).status_code == 404
    answer = client.post("/work", values)
    assert (answer.status_code, answer.headers["location"]) == (303, "/work")
    with filled.service.database.write() as connection:
        row = schema.work.c.run_id == int(values["run_id"])
        number = int(values["repository_id"])
        state = sa.select(schema.work.c.state).where(row, schema.work.c.repository_id == number)
        assert connection.execute(state).scalar_one() == "waiting"
        connection.execute(sa.update(schema.work).where(row).values(state="done"))
    assert client.post("/work", values).status_code == 303
    with filled.service.database.write() as connection:
        assert connection.execute(state).scalar_one() == "done"  # its verdict stays
        connection.execute(sa.update(schema.work).where(row).values(state="dead"))


def test_all_is_tried_again_that_one_may_see(filled: Site) -> None:
    client, outsider = (client_of(filled, EVERYBODY[role]) for role in ("local", "outsider"))

    def post(by: AsgiClient, token: str = "") -> int:
        token = token or form_token(by.get("/work").text)
        return by.post("/work", {"token": token, "all": "1"}).status_code

    def left() -> list[int]:
        page = client.get("/work.json").json()
        return [len(page[name]) for name in ("paused", "dead", "unfinished")]

    assert left() == [1, 2, 2]
    assert post(outsider, token="x") == 403
    assert [post(outsider), *left()] == [303, 1, 1, 3]
    assert [post(client), *left()] == [303, 0, 0, 4]
    with filled.service.database.write() as connection:
        given_up = schema.work.c.run_id > 7
        connection.execute(sa.update(schema.work).where(given_up).values(state="dead"))
        pauses.start(connection, VAULT.id, REFUSAL)
