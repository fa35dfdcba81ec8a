"""Role x page x format: what is private is nowhere for those who may not see it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest
from httpx import Response
from serve.pages.conftest import EVERYBODY, INSIDERS, OUTSIDERS, TOKENS, client_of, with_token
from serve.pages.filled import NEWEST, SHOP, VAULT, Site

ENDINGS: Final = ("", ".json")
RUN: Final = f"/runs/{NEWEST}/1"
OF_REPOSITORY: Final = (
    *("", "/offenders", "/flaky", "/tests?unit=a.py::flaky", RUN, f"{RUN}/comparison"),
)


def paths(full_name: str) -> Iterator[str]:
    """Every page of a repository, in every format."""
    for page in OF_REPOSITORY:
        for ending in ENDINGS:
            path, _, query = page.partition("?")
            yield f"/{full_name}{path}{ending}?{query}"


@pytest.mark.parametrize("role", EVERYBODY)
def test_private_repository_exists_only_for_those_who_may_see_it(filled: Site, role: str) -> None:
    client = client_of(filled, EVERYBODY[role])
    assert client.get(f"/{SHOP.full_name}").status_code == 200
    for path, unknown in zip(paths(VAULT.full_name), paths("octo-org/unknown"), strict=True):
        private = client.get(path)
        if role in INSIDERS:
            assert private.status_code == 200, path
            continue
        assert private.status_code == 404, path
        assert without_names(private) == without_names(client.get(unknown))
        assert private.headers["cache-control"] == "no-store"
        part = client.get(path, headers={"hx-target": "section#results"})
        assert part.status_code == 404


def without_names(response: Response) -> str:
    text = re.sub("octo-org(/|%2F)(vault|unknown)", "", response.text)
    return re.sub(r'name="token" value="\w+"', "", text)  # another on each page


@pytest.mark.parametrize("role", EVERYBODY)
def test_list_and_search_count_only_what_may_be_seen(filled: Site, role: str) -> None:
    client = client_of(filled, EVERYBODY[role])
    may_see = role in INSIDERS
    for path in ("/", "/index.json", "/?q=vault", "/index.json?q=vault"):
        answer = client.get(path)
        assert answer.status_code == 200
        shown = answer.text.replace("q=vault", "").replace('"vault"', "").replace("“vault”", "")
        shown = shown.replace("q%3Dvault", "")
        assert ("vault" in shown) == may_see, path
    assert client.get("/index.json").json()["total"] == (4 if may_see else 3)
    assert client.get("/index.json?q=vault").json()["total"] == int(may_see)


@pytest.mark.parametrize("role", EVERYBODY)
def test_work_list_is_for_those_who_are_known(filled: Site, role: str) -> None:
    client = client_of(filled, EVERYBODY[role])
    is_known = (role in INSIDERS and role != "token") or role == "outsider"
    for ending in ENDINGS:
        answer = client.get(f"/work{ending}")
        assert answer.status_code == (200 if is_known else 404)
        assert ("octo-org/vault" in answer.text) == (is_known and role in INSIDERS)
    if is_known:
        page = client.get("/work.json").json()
        assert len(page["dead"]) == len(page["unfinished"]) == (2 if role in INSIDERS else 1)
        assert len(page["paused"]) == (1 if role in INSIDERS else 0)


def test_there_are_roles_of_both_kinds() -> None:
    assert len(INSIDERS) == 4
    assert len(OUTSIDERS) == 12


@pytest.mark.parametrize("token", [TOKENS["history"], "cgp_unknown", "of-another-service"])
def test_token_that_reads_no_page_is_refused(filled: Site, token: str) -> None:
    client = client_of(filled, with_token(token))
    for path in ("/", "/work.json", *paths(SHOP.full_name)):
        refused = client.get(path)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
