"""Who gets which history, asked over HTTP; each answer is held against the OpenAPI document."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve.api.api_document import PUBLIC_URL, REPOSITORIES, check
from serve.api.registered_run import RegisteredRun

from ciguard.history import file as history_codec
from ciguard.history.file import StoredBytes
from ciguard.serve.api.routes import (
    EXPLANATION_PATH,
    HISTORY_PATH,
    OPENAPI_PATH,
    PROBLEM_TYPE,
    openapi_document,
)
from ciguard.serve.history_objects import ObjectHistory
from ciguard.serve.state import repositories

CONTENT: Final = history_codec.encode(history_codec.empty())
CALLERS: Final = ("nobody", "own token", "own job", "other token", "other job")


class Api(RegisteredRun):
    """A service with histories of its repositories, of which the new one has none."""

    def get(self, name: str, token: str = "", **headers: str) -> httpx.Response:
        """An answer that is as the document says."""
        path = HISTORY_PATH.format(owner="o", name=name)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        response = self.client.get(path, headers=headers)
        check("GET", path, response)
        return response

    def token_of(self, caller: str, repository_id: int) -> str:
        kind = caller.rpartition(" ")[2]
        of = repository_id if caller.startswith("own") else 14
        if kind == "job":
            return self.job(of)
        return self.secrets[of] if kind == "token" else ""


@pytest.fixture
def api(run: RegisteredRun) -> Api:
    for repository_id in (10, 11, 12, 14):
        store = ObjectHistory(run.service.database, run.service.objects, repository_id)
        store.write(CONTENT, StoredBytes(None, "0"))
    return Api(**vars(run))


def test_who_reads_which_history(api: Api) -> None:
    nothing = api.get("nothing")
    assert nothing.status_code == 404
    del nothing.headers["Date"]
    for repository in REPOSITORIES:
        for caller in CALLERS:
            token = api.token_of(caller, repository.id)
            response = api.get(repository.full_name.partition("/")[2], token)
            is_own = caller.startswith("own") or (repository.id == 14 and caller != "nobody")
            is_readable = not repository.is_private or is_own
            case = (repository.full_name, caller)
            if repository.id == 12 or not is_readable:
                assert response.status_code == 404, case
                assert response.content == nothing.content, case
                del response.headers["Date"]
                assert response.headers == nothing.headers, case
            elif repository.id == 13:
                assert response.status_code == 204, case
            else:
                assert response.status_code == 200, case
                assert response.content == CONTENT, case
                assert response.headers["Content-Length"] == str(len(CONTENT)), case
                assert response.headers["Cache-Control"] == "private, no-cache", case


def test_name_is_found_in_any_case_and_under_its_newest_name(api: Api) -> None:
    assert api.get("PubLic").status_code == 200
    with api.service.database.write() as connection:
        known = repositories.get(connection, 10)
        assert known is not None
        repositories.upsert(connection, [replace(known, full_name="o/renamed")])
    assert api.get("public").status_code == 404
    assert api.get("renamed").content == CONTENT
    with api.service.database.write() as connection:
        repositories.set_private(connection, 10)
    assert api.get("renamed").status_code == 404
    assert api.get("renamed", api.secrets[10]).status_code == 200


def test_token_that_is_none_is_refused_for_every_repository(api: Api) -> None:
    for header in ("", "Bearer", "Basic bzpw", "Bearer cgs_unknown", "Bearer x.y.z", "cgs_x"):
        refused = [
            api.get(name, **{"Authorization": header}) for name in ("public", "private", "nothing")
        ]
        assert {one.status_code for one in refused} == {401}
        assert len({one.content for one in refused}) == 1
        assert refused[0].headers["WWW-Authenticate"].startswith("Bearer")


def test_damaged_or_missing_file_is_no_answer(api: Api) -> None:
    row = ObjectHistory(api.service.database, api.service.objects, 10).current()
    assert row is not None
    path = api.service.objects.local_path(row.object)
    assert path is not None
    path.write_bytes(CONTENT[:-1])
    response = api.get("public")
    assert (response.status_code, response.json()["detail"]) == (
        503,
        "the stored history is damaged",
    )
    path.unlink()
    assert api.get("public").json()["detail"] == "the stored history is missing"
    path.mkdir()
    response = api.get("public")
    assert "cannot do this now" in response.json()["detail"]
    assert str(path) not in response.text


@given(
    form=st.sampled_from([HISTORY_PATH, EXPLANATION_PATH]),
    place=st.tuples(st.text(min_size=1), st.text(min_size=1))
    | st.sampled_from(REPOSITORIES).map(lambda one: tuple(one.full_name.split("/"))),
    authorization=st.binary(max_size=40)
    | st.binary(max_size=40).map(b"Bearer ".__add__)
    | st.sampled_from(CALLERS),
)
@settings(database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_request_gets_an_answer_of_the_document(
    api: Api, form: str, place: tuple[str, str], authorization: bytes | str
) -> None:
    owner, name = (quote(part, safe="") for part in place)
    numbers = {"run_id": "7", "run_attempt": name}
    path = form.format(owner=owner, name=name, **numbers)
    if isinstance(authorization, str):
        authorization = f"Bearer {api.token_of(authorization, 11)}".encode()
    shown = bytes(byte for byte in authorization if byte >= 32).strip()
    response = api.client.get(path, headers=[(b"Authorization", shown)])
    is_known = any(one.full_name == "/".join(place) for one in REPOSITORIES)
    assert response.status_code in ({200, 204, 401, 404} if is_known else {401, 404})
    # A slash in a part of the path makes it another's.
    if is_known or response.headers["Content-Type"] == PROBLEM_TYPE:
        check("GET", form.format(owner="o", name="n", run_id="1", run_attempt="1"), response)


def test_document_is_served_as_it_is_tested(api: Api) -> None:
    response = api.client.get(OPENAPI_PATH)
    check("GET", OPENAPI_PATH, response)
    document: dict[str, Any] = response.json()
    assert document["openapi"] == "3.1.0"
    assert document["servers"] == [{"url": f"{PUBLIC_URL}/ciguard"}]
    assert document["paths"] == openapi_document("", "1")["paths"]
    for path, methods in document["paths"].items():
        assert api.client.delete(path).status_code == 405
        assert "delete" not in methods
