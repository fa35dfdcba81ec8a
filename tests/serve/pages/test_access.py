"""Role x page x format: what is private is nowhere for those who may not see it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest
from serve.pages.conftest import EVERYBODY, INSIDERS, OUTSIDERS, client_of
from serve.pages.filled import SHOP, VAULT

if TYPE_CHECKING:
    from httpx import Response

    from ciguard.serve.service import Service

ENDINGS: Final = ("", ".json", ".csv")
RUN: Final = "/runs/19500000000/1"
OF_REPOSITORY: Final = ("",)


@pytest.mark.parametrize("role", EVERYBODY)
def test_private_repository_exists_only_for_those_who_may_see_it(
    filled: Service, role: str
) -> None:
    client = client_of(filled, EVERYBODY[role])
    may_see = role in INSIDERS
    for page in OF_REPOSITORY:
        for ending in ENDINGS:
            public = client.get(f"/{SHOP.full_name}{page}{ending}")
            private = client.get(f"/{VAULT.full_name}{page}{ending}")
            unknown = client.get(f"/octo-org/unknown{page}{ending}")
            assert public.status_code == 200
            assert private.status_code == (200 if may_see else 404), page + ending
            if not may_see:
                assert without_names(private) == without_names(unknown)
                assert "etag" not in private.headers
                tag = {"if-none-match": etag_of_insider(filled, f"{page}{ending}")}
                again = client.get(f"/{VAULT.full_name}{page}{ending}", headers=tag)
                assert again.status_code == 404


def without_names(response: Response) -> str:
    return re.sub("octo-org(/|%2F)(vault|unknown)", "", response.text)


def etag_of_insider(service: Service, page: str) -> str:
    client = client_of(service, INSIDERS["local"])
    return client.get(f"/{VAULT.full_name}{page}").headers["etag"]


@pytest.mark.parametrize("role", EVERYBODY)
def test_list_and_search_count_only_what_may_be_seen(filled: Service, role: str) -> None:
    client = client_of(filled, EVERYBODY[role])
    may_see = role in INSIDERS
    for path in ("/", "/index.json", "/index.csv", "/?q=vault", "/index.json?q=vault"):
        answer = client.get(path)
        assert answer.status_code == 200
        shown = answer.text.replace("q=vault", "").replace('"vault"', "").replace("“vault”", "")
        shown = shown.replace("q%3Dvault", "")
        assert ("vault" in shown) == may_see, path
    assert client.get("/index.json").json()["total"] == (3 if may_see else 2)
    assert client.get("/index.json?q=vault").json()["total"] == int(may_see)


@pytest.mark.parametrize("role", EVERYBODY)
def test_work_list_is_for_those_who_are_known(filled: Service, role: str) -> None:
    client = client_of(filled, EVERYBODY[role])
    is_known = role in INSIDERS or role == "outsider"
    for ending in ENDINGS:
        answer = client.get(f"/work{ending}")
        assert answer.status_code == (200 if is_known else 404)
        assert ("octo-org/vault" in answer.text) == (role in INSIDERS)
    if is_known:
        counts = client.get("/work.json").json()["counts"]
        expected = 2 if role in INSIDERS else 1
        assert (counts["dead"], counts["waiting"]) == (expected, expected)


def test_there_are_roles_of_both_kinds() -> None:
    assert len(INSIDERS) == 3
    assert len(OUTSIDERS) == 11
