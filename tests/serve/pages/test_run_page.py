"""A run's page: verdict, shards and findings of the guard's JSON; and pages of its results."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from serve.pages.asgi_client import AsgiClient
from serve.pages.filled import FACTS, HOSTILE, NEWEST, RED, SEARCHED, SHOP, Site, key_of

from ciguard.render.pages import FILTERS
from ciguard.serve.state import schema
from ciguard.serve.state.run_key import is_run

INCOMPLETE = f"/{SHOP.full_name}/runs/{NEWEST - 3}/1"
OF_TEST = f"/{SHOP.full_name}/tests.json?suite=unit&variant=py311&unit="


def test_incomplete_run_is_called_so_in_its_first_line(local: AsgiClient) -> None:
    found = re.search(r"<h1[^>]*>(.*?)</h1>", local.get(INCOMPLETE).text, re.DOTALL)
    assert found is not None
    assert found[1].startswith("INCOMPLETE: shard 03 of 3 has no record")
    assert local.get(f"{INCOMPLETE}.json").json()["run"]["is_complete"] is False


def test_index_begins_with_red_repositories_and_what_broke_them(local: AsgiClient) -> None:
    lines = local.get("/index.json").json()["repositories"]
    shown = [(one["repository"], one["base"] and one["base"]["is_red"]) for one in lines]
    assert shown == [
        ("octo-org/api", True),
        ("octo-org/empty", None),
        ("octo-org/shop", False),
        ("octo-org/vault", False),
    ]
    assert lines[0]["base"]["facts"] == SEARCHED
    text = re.sub("<[^>]+>", "", local.get("/").text)
    assert (
        "red since bbbbbbb (aaaaaaa..bbbbbbb, 4 commits), 5 tests, @octo-org/api, @octocat, "
        in text
    )
    compared = f"/octo-org/api/compare/{'a' * 40}...{'b' * 40}"
    for address in (f"/octo-org/api/runs/{NEWEST - 3}/1", compared):
        assert f'{address}">' in local.get("/").text


def test_culprits_are_on_the_page_of_the_run_and_on_the_index(local: AsgiClient) -> None:
    def shown(page: str) -> list[str]:
        texts = re.findall('<span class="from cause">(culprit.*?)</span>', page, re.DOTALL)
        return [html.unescape(re.sub("<[^>]+>", "", text)) for text in texts]

    path = f"/{RED.full_name}/runs/{NEWEST - 3}/1"
    text = local.get(path).text
    many, few, none = shown(text)
    names = f"[unit] {HOSTILE}, [unit] a.t::0, [unit] a.t::4 and 16 more"
    assert many == f"culprit of {names}: ccccccc with 97 % (break {HOSTILE})"
    possible = ", ".join(f"{sha * 7} with 32 %" for sha in "def")
    few_found = f"one of 3 commits: {possible}, none of the range with 4 %"
    assert few == f"culprit of [unit] a.t::1: {few_found}"
    assert none == "culprit of [unit] a.t::2: no commit of the range"
    assert "<script>alert" not in text
    assert f'/{RED.full_name}/commit/{"c" * 40}"><code>ccccccc</code>' in text
    assert shown(local.get("/").text) == [
        f"culprit: ccccccc with 97 % (break {HOSTILE})",
        "culprit: one of 3 commits",
    ]
    assert local.get(f"{path}.json").json()["run"]["facts"] == SEARCHED


def test_shards_that_went_wrong_come_first(local: AsgiClient) -> None:
    legs = local.get(f"{INCOMPLETE}.json").json()["legs"]
    shown = [(leg["shard"], leg["is_bad"], leg["ending"], leg["wall_s"]) for leg in legs]
    assert shown == [
        ("02", True, "unknown", 2.0),
        ("03", True, "no record", None),
        ("01", False, "completed", 3.1),
    ]
    causes = "its record is truncated; last line 2.00 s after its start"
    assert [leg["causes"] for leg in legs] == [[causes], [], []]
    assert [leg["predicted_wall_s"] for leg in legs] == [2.0, 3.0, 3.0]


def test_run_of_the_base_names_a_smaller_runner(local: AsgiClient) -> None:
    smaller, full = local.get(f"{INCOMPLETE}.json").json()["runners"]
    assert (smaller["smaller"]["runner"], len(smaller["runs"])) == ("ubuntu-latest", 20)
    assert full["near"] == [[HOSTILE, 3, 0.08]]
    text = local.get(INCOMPLETE).text
    assert "A 2-core runner (ubuntu-latest) is enough: a run costs 0.151 to 0.216 USD less" in text
    assert f'/actions/runs/{NEWEST}">{NEWEST}</a>' in text
    assert "is enough" not in local.get(f"/{SHOP.full_name}/runs/{NEWEST - 1}/1").text


def test_failed_tests_are_first_with_whose_they_are_and_their_owners(local: AsgiClient) -> None:
    failed = local.get(f"{INCOMPLETE}.json").json()["failed"]
    assert [(one["name"], one["whose"], one["owners"]) for one in failed] == [
        ("a.t::two", "main", ["@octo-org/api"]),
        ("b.t::three", "main", []),
    ]
    page = local.get(INCOMPLETE).text
    begin, end = page.index('<h2 id="failed">'), page.index('<dl class="facts">')
    assert begin < page.index('unit=a.t%3A%3Atwo">a.t::two</a>') < end
    assert "AssertionError: 1 != 2\nmore</span>" in page
    text = re.sub(r"<[^>]+>|\s+", " ", page[begin:end])
    for words in ("main : red since bbbbbbb (4 commits)", "@octo-org/api", "no owner"):
        assert words in text
    assert page.count(f'href="{FACTS["jobs"]["01"]}"') == 3  # of two tests and of their shard
    older = local.get(f"/{SHOP.full_name}/runs/{NEWEST - 5}/1")
    assert "job of shard" not in older.text


def test_findings_are_in_words_with_their_cause(local: AsgiClient) -> None:
    findings = local.get(f"{INCOMPLETE}.json").json()["findings"]
    assert [one["level"] for one in findings] == ["incomplete"] * 3 + ["warning"] * 2
    died = findings[2]
    assert died["text"] == f"shard 02 {HOSTILE}: GitHub lost its runner: out of memory"
    assert died["evidence"] == [
        "free memory fell from 6.00 GiB at 40 s to 90.0 MiB at 1 min 02 s, the last sample",
        "of another version",
    ]
    assert (died["running"], died["tests"]) == ([f"c.t::{HOSTILE}"], [])
    assert "memory" in died["fix"]


def units(found: dict[str, Any]) -> list[str]:
    return [one["unit"] for one in found["results"]]


def test_results_are_sorted_searched_and_paged(local: AsgiClient) -> None:
    def ask(query: str) -> dict[str, Any]:
        page: dict[str, Any] = local.get(f"{INCOMPLETE}.json?{query}").json()
        return page

    first, second = ask("size=25"), ask("size=25&page=2")
    assert (first["pages"], first["sums"]["total"]) == (7, 156)
    assert units(first)[:2] == ["a.py::lost", f"a.py::{HOSTILE}"]  # missing, failed
    assert len(set(units(first) + units(second))) == 50
    assert first["sums"]["outcomes"] == {"skipped": 1, "passed": 153, "failed": 1, "missing": 1}
    assert (first["sums"]["flaky"], first["sums"]["unfinished"]) == (1, 1)
    assert units(ask("sort=name"))[0] == f"a.py::{HOSTILE}"
    assert units(ask("sort=-wall"))[0] == "b.py"
    assert ask("sort=-peak")["results"][0]["peak_bytes"] == 900 << 20
    assert units(ask("text=TEST_149")) == ["c/2.py::test_149"]
    assert units(ask("outcome=failed")) == [f"a.py::{HOSTILE}"]
    assert ask("shard=unit-2&suite=&variant=")["sums"]["total"] == 0
    assert ask("shard=unit-2")["sums"]["total"] == 50
    assert ask("shard=&text=&outcome=")["sums"]["total"] == 156  # as the form sends it
    assert len(units(ask("size=500"))) == 156


def test_links_keep_the_filters(local: AsgiClient) -> None:
    text = local.get(f"{INCOMPLETE}?size=25&text=test&suite=unit&page=2").text
    sort = re.search(r'href="([^"]+)#results">Wall time', text)
    assert sort is not None
    assert sort[1].replace("&amp;", "&") == f"{INCOMPLETE}?size=25&text=test&suite=unit&sort=-wall"
    assert f'href="{INCOMPLETE}?size=25&amp;text=test&amp;suite=unit&amp;page=3#results"' in text


def test_script_that_sorts_gets_the_results_alone(local: AsgiClient) -> None:
    address, asks = f"{INCOMPLETE}?sort=-wall", {"HX-Target": "section#results"}
    page, part = local.get(address), local.get(address, headers=asks)
    results = slice(page.text.index('<section id="results"'), None)
    assert page.text[results] in part.text
    assert "Shards" in page.text
    assert "Shards" not in part.text
    assert part.headers["vary"] == page.headers["vary"] == "Cookie, HX-Target, Accept-Encoding"
    assert local.get(f"{INCOMPLETE}.json", headers=asks).json()["legs"]


def test_page_beyond_the_end_says_so(local: AsgiClient) -> None:
    for path in (INCOMPLETE, "/"):
        text = local.get(f"{path}?page=9").text
        assert "There is no page 9 of these re" in text
        assert f'href="{path}' in text.partition("There is no page 9")[2]


@pytest.mark.parametrize(
    "path",
    ["/runs/1/1", f"/runs/{'9' * 5000}/1", f"/runs/{'9' * 16}/1", "/runs/x/1", f"/runs/1/{2**31}"],
)
def test_unknown_run_is_404(local: AsgiClient, path: str) -> None:
    assert local.get(f"/{SHOP.full_name}{path}").status_code == 404


def test_run_that_was_not_judged_has_no_comparison(local: AsgiClient) -> None:
    path = f"/{SHOP.full_name}/runs/{NEWEST - 6}/1"
    assert "could not be read" in local.get(path).text
    assert local.get(f"{path}/comparison").status_code == 404


def test_comparison_is_that_of_compare(local: AsgiClient) -> None:
    page = local.get(f"{INCOMPLETE}/comparison.json").json()
    assert page["comparison"]["schema"] == 2
    assert "Tests that changed" in local.get(f"{INCOMPLETE}/comparison").text


def test_test_over_its_runs(local: AsgiClient) -> None:
    page = local.get(OF_TEST + "a.py::sometimes&branch=all").json()
    assert [one["outcome"] for one in page["runs"]].count("failed") == 2
    assert [one["run_id"] for one in page["runs"]] == [NEWEST - at for at in range(8)]
    assert page["runs"][0]["wall_s"] == 0.4
    hostile = local.get(OF_TEST.replace(".json", "") + quote(f"a.py::{HOSTILE}") + "&branch=all")
    assert "n = 8 runs" in hostile.text
    assert "AssertionError" in hostile.text
    one_case = local.get(OF_TEST + "b.py&case=case%20two").json()["runs"]
    assert {(run["cases"], run["outcome"]) for run in one_case} == {(1, "skipped")}
    assert "No result of this test" in local.get(OF_TEST.replace(".json", "") + "none").text
    assert local.get(f"/{SHOP.full_name}/tests").status_code == 400


def test_slowest_and_flaky_tests(local: AsgiClient) -> None:
    base = f"/{SHOP.full_name}"
    slow = local.get(f"{base}/offenders.json").json()["tests"]
    assert (slow[0]["unit"], slow[0]["wall_s"], slow[0]["measured"]) == ("b.py", 20.0, 8)
    failing = local.get(f"{base}/offenders.json?by=failures").json()["tests"]
    assert [(one["unit"], one["failed"]) for one in failing] == [
        (f"a.py::{HOSTILE}", 8),
        ("a.py::sometimes", 2),
    ]
    assert local.get(f"{base}/offenders?by=age").status_code == 400
    assert local.get(f"{base}/flaky?days=0").status_code == 400
    # A name that a page does not know is ignored.
    assert local.get(f"{base}/flaky?by=x").status_code == 200
    flaky = {one["unit"]: one for one in local.get(f"{base}/flaky.json").json()["tests"]}
    assert (flaky["a.py::flaky"]["retried"], flaky["a.py::sometimes"]["contradicted"]) == (4, 2)
    assert local.get(f"{base}/offenders").text.count('<th scope="row"') == 30


def test_pages_of_tests_name_their_owners(local: AsgiClient) -> None:
    """As far as a run is known in which they failed: of `b.py`, there is none."""
    owners = {"a.py::sometimes": [HOSTILE], "a.py::flaky": [], "b.py": None}
    pages = {unit: local.get(OF_TEST + unit).json()["owners"] for unit in owners}
    assert pages == owners
    for path in (f"/{SHOP.full_name}/flaky", OF_TEST.replace(".json", "") + "a.py::flaky"):
        assert "no owner</span>" in local.get(path).text
    assert "owner" not in local.get(OF_TEST.replace(".json", "") + "b.py").text
    assert local.get(f"/{SHOP.full_name}/flaky.json").json()["owners"] == FACTS["owners_of"]


def test_pruned_run_says_so(filled: Site, local: AsgiClient) -> None:
    run = is_run(schema.run, key_of(SHOP, 3))
    with filled.service.database.write() as connection:
        name = connection.execute(sa.select(schema.run.c.answer).where(run)).scalar_one()
        connection.execute(sa.update(schema.run).where(run).values(answer=""))
    page = local.get(f"{INCOMPLETE}.json").json()
    with filled.service.database.write() as connection:
        connection.execute(sa.update(schema.run).where(run).values(answer=name))
    assert (page["legs"], page["run"]["headline"][:10]) == ([], "INCOMPLETE")
    assert page["problem"].endswith("were deleted by `ciguard serve prune`.")


@pytest.fixture
def damaged(filled: Site) -> Iterator[Site]:
    """The document of the incomplete run is gone, and every file of results has another hash."""
    with filled.service.database.write() as connection:
        run = is_run(schema.run, key_of(SHOP, 3))
        name = connection.execute(sa.select(schema.run.c.answer).where(run)).scalar_one()
        hashes = connection.execute(sa.select(schema.file.c.name, schema.file.c.sha256)).all()
        connection.execute(sa.update(schema.run).where(run).values(answer="answers/none"))
        connection.execute(sa.update(schema.file).values(sha256="0" * 64))
    yield filled
    with filled.service.database.write() as connection:
        connection.execute(sa.update(schema.run).where(run).values(answer=name))
        for file, sha256 in hashes:
            changed = sa.update(schema.file).where(schema.file.c.name == file)
            connection.execute(changed.values(sha256=sha256))


@pytest.mark.usefixtures("damaged")
def test_damage_is_named_and_gives_no_number(local: AsgiClient) -> None:
    page = local.get(f"{INCOMPLETE}.json").json()
    assert (page["legs"], page["results"], page["sums"]["total"]) == ([], [], 0)
    assert page["missing_runs"] == [f"{NEWEST - 3}/1"]
    text = local.get(INCOMPLETE).text
    assert "cannot be read" in text
    assert "damaged or missing" in text
    for path in ("/offenders?", "/flaky?", "/tests?unit=a", f"/runs/{NEWEST}/1?"):
        for address in (path, path.replace("?", ".json?")):
            assert f"{NEWEST}/1" in local.get(f"/{SHOP.full_name}{address}").text


@pytest.mark.parametrize(
    ("value_s", "words"),
    [(None, "–"), (0.0, "0.00 s"), (0.0004, "< 0.01 s"), (0.005, "0.01 s"), (75, "1 min 15 s")],
)
def test_short_times_are_no_zeros(value_s: float | None, words: str) -> None:
    assert FILTERS["duration"](value_s) == words
