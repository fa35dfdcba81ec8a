"""Pages as HTML and JSON: one value, safe in each format, and bad queries in words."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

import pytest
from serve.pages.asgi_client import AsgiClient
from serve.pages.filled import HOSTILE, NEWEST, Site

from ciguard.serve.results.flaky_tests import FlakyTests
from ciguard.serve.results.read_model import Answer

RUN: Final = f"/octo-org/shop/runs/{NEWEST - 3}/1"
TEST: Final = f"/octo-org/shop/tests?suite=unit&variant=py311&unit={quote(f'a.py::{HOSTILE}')}"
PAGES: Final = (
    *("/", "/octo-org/shop", "/octo-org/empty", "/work", "/none", RUN, f"{RUN}/comparison", TEST),
    *("/octo-org/shop/offenders", "/octo-org/shop/flaky", "/octo-org/empty/offenders"),
    *("/octo-org/shop/shards", "/octo-org/empty/shards", "/octo-org/shop/costs"),
)


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_inline_and_hostile_names_are_text(local: AsgiClient, path: str) -> None:
    answer = local.get(path)
    text = answer.text.replace('href="https://github.com/octo-org/', "")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(r"<style|\sstyle=|\son\w+=\"|javascript:|http://|https://", text)
    assert all(" src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    assert "<img" not in text
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for address in re.findall(r'(?:href|src)="(/-/static/[^"]+)"', text):
        assert local.get(address).status_code == 200


def test_hostile_names_are_shown(local: AsgiClient) -> None:
    assert "&lt;script&gt;ale" in local.get("/octo-org/shop").text
    assert HOSTILE in local.get("/work.json").text


def test_partial_numbers_say_since_when_they_are_whole(
    filled: Site, local: AsgiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/octo-org/shop/flaky"
    whole = local.get(f"{path}.json").json()
    assert (whole["is_partial"], whole["days"]) == (False, 30)
    partial = Answer(FlakyTests((), 1_700_000_000_001, is_partial=True))
    monkeypatch.setattr(filled.results.read, "flaky", lambda *_: partial)
    text = local.get(path).text
    assert "Partial: " in text
    assert "since 2023-11-14 22:13 UTC, and none before" in text
    found = local.get(f"{path}.json").json()
    assert (found["is_partial"], found["from_ms"]) == (True, 1_700_000_000_001)


def test_incomplete_run_is_not_called_complete(local: AsgiClient) -> None:
    runs = local.get("/octo-org/shop.json").json()["runs"]
    assert {run["verdict"]: run["is_complete"] for run in runs} == {
        "passed": True,
        "failed": True,
        "incomplete": False,
        "not_evaluated": False,
    }
    (lost,) = [run for run in runs if run["verdict"] == "incomplete"]
    assert [cell["is_green"] for cell in lost["cells"]] == [True, True, False, True]


def test_runs_are_paged_and_filtered(local: AsgiClient) -> None:
    runs = local.get("/octo-org/shop.json").json()["runs"]
    last = runs[2]
    after = local.get(f"/octo-org/shop.json?before={last['run_id']}-{last['run_attempt']}").json()
    assert [run["run_id"] for run in after["runs"]] == [run["run_id"] for run in runs[3:]]
    of_pull = local.get("/octo-org/shop.json?pull_request=401").json()["runs"]
    assert [run["pull_request"] for run in of_pull] == [401]
    assert "No such run was judged: branch" in local.get("/octo-org/shop?branch=none").text


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("branch=main", [0, 2, 3, 5, 6]),
        ("verdict=failed", [1]),
        ("verdict=passed&branch=main", [0, 2, 5]),
        (f"run={NEWEST - 4}", [4]),
        ("workflow=tests.yml&until=2000-01-01", []),
        ("since=2000-01-01T00:00Z", [*range(8)]),
        ("workflow=none", []),
        ("owner=%40octocat", [3]),
        ("owner=%40octo", []),
        ("owner=" + quote(HOSTILE), [3]),
    ],
)
def test_runs_are_filtered(local: AsgiClient, query: str, numbers: list[int]) -> None:
    runs = local.get(f"/octo-org/shop.json?{query}").json()["runs"]
    assert [run["run_id"] for run in runs] == [NEWEST - number for number in numbers]


@pytest.mark.parametrize(
    "path",
    [
        "/?page=0",
        "/?page=x",
        "/?page=99999999999999999999999",
        "/octo-org/shop?before=1",
        "/octo-org/shop?before=1-1",
        "/octo-org/shop?since=yesterday",
        "/octo-org/shop?since=9999-12-31T23:59-23:59",
        "/octo-org/shop?verdict=red",
        "/octo-org/shop?pull_request=-1",
        "/octo-org/shop?pull_request=²",
    ],
)
def test_bad_query_is_400_in_words(local: AsgiClient, path: str) -> None:
    for ending in ("", ".json"):
        place, _, query = path.partition("?")
        answer = local.get(f"{'/index' if place == '/' and ending else place}{ending}?{query}")
        assert answer.status_code == 400
        name = query.partition("=")[0]
        assert name in answer.text
        assert "Traceback" not in answer.text


def test_static_file_is_cached_by_its_hash(local: AsgiClient) -> None:
    (address,) = re.findall(r'href="(/-/static/[^"]+css)"', local.get("/").text)
    answer = local.get(address)
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-type"].startswith("text/css")
    assert answer.headers["content-encoding"] == "gzip"
    assert local.get(address.replace("/-/static/", "/-/static/0")).status_code == 404


def test_pages_are_compressed_and_their_form_tokens_differ(local: AsgiClient) -> None:
    first, second = local.get("/work"), local.get("/work")
    assert first.headers["content-encoding"] == "gzip"
    assert first.headers["vary"] == "Cookie, HX-Target, Accept-Encoding"
    assert int(first.headers["content-length"]) < len(first.content) / 2
    tokens = [set(re.findall(r'name="token" value="(\w+)"', page.text)) for page in (first, second)]
    assert tokens[0]
    assert not tokens[0] & tokens[1]
    plain = local.get("/work", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers


def test_repository_without_runs_names_the_next_step(local: AsgiClient) -> None:
    text = local.get("/octo-org/empty").text
    assert "ciguard init" in text
    assert "ciguard serve backfill --repo octo-org/empty" in text
