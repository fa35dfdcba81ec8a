"""The failure rate of a test on the default branch, on the pages of tests and runs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import pytest
from serve.pages.conftest import INSIDERS, client_of, opened_site
from serve.pages.filled import FACTS, NEWEST, SHOP, Site, add_answer, make_run
from stored_results import row

from ciguard.errors import RemoteError
from ciguard.render.pages import RunSuiteRow
from ciguard.serve.results.rows import RunResults
from ciguard.serve.state import run_rows
from ciguard.serve.state.run_key import RunKey

RUN: Final = f"/{SHOP.full_name}/runs/{NEWEST + 79}/1"
TEST: Final = f"/{SHOP.full_name}/tests%s?suite=&variant=&unit=a.t::two"
QUARANTINED: Final = {"quarantined": {"a.t::two": "2026-12-24", "b.t::three": ""}}
FORGED: Final = {"quarantined": {"a.t::two": "2099-01-01"}, "owners_of": {"a.t::two": ["@fork"]}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A test that fails in 6 of 40 runs of main, and one that broke in the 36th."""
    with opened_site(tmp_path_factory.mktemp("rated"), runs=0) as opened:
        now_ms = round(time.time() * 1000)
        name = add_answer(opened.service, SHOP, 1, now_ms)
        for number in range(80):  # every second one of a pull request
            at, is_other = divmod(number, 2)
            run = replace(
                make_run(SHOP, is_other, now_ms, name),
                key=RunKey(SHOP.id, NEWEST + number, 1),
                started_at_ms=now_ms - (80 - number) * 3_600_000,
                head_sha=f"{number:040x}",
                facts=FACTS | (FORGED if is_other else QUARANTINED),
                branch="main",  # also of a fork
                cells=(RunSuiteRow("", "", 2, 0, {}, None, None, None),),
            )
            with opened.service.database.write() as connection:
                run_rows.record_run(connection, run)
            two = "failed" if at in (3, 9, 17, 20, 21, 33) or is_other else "passed"
            message = f"no answer of db-{at} in {number} s" if at % 2 else "expected <one>"
            rows = (
                row("a.t::two", two, suite="", variant="", message=message),
                row("b.t::three", "failed" if at >= 35 else "passed", suite="", variant=""),
            )
            opened.results.writer.write([RunResults(run.key, run.started_at_ms, rows)])
        yield opened


def read(site: Site, path: str) -> str:
    page = client_of(site, INSIDERS["local"]).get(path).text
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", page))


def test_flaky_page_tells_rate_interval_and_broken_tests(site: Site) -> None:
    text = read(site, f"/{SHOP.full_name}/flaky")
    assert "15 % of 40 runs (7..29 %)" in text
    assert "broken in 5 runs since 0000000 , 12 % of 40 runs" in text
    assert (text.count("quarantined"), text.count("quarantined until 2026-12-24")) == (1, 1)
    assert "@fork" not in text


def test_failed_tests_of_a_run_show_their_rate(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    text = read(site, RUN)
    assert "a.t::two @octo-org/api flaky: fails 15 % of 40 runs of main" in text
    assert "b.t::three no owner broken: failed in the last 5 runs of main" in text

    def refuse(*_: object) -> None:
        raise RemoteError("timed out")

    monkeypatch.setattr(site.results.read, "flaky", refuse)
    assert read(site, RUN).count("failure rate unknown: results cannot be read") == 2


def test_test_page_has_the_default_branch(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    get = client_of(site, INSIDERS["local"]).get
    runs = get(TEST % ".json").json()["runs"]
    assert [run["head_sha"] for run in runs] == [f"{at:040x}" for at in range(78, -1, -2)]
    assert len(get(TEST % ".json" + "&branch=all").json()["runs"]) == 80
    assert get(TEST % ".json" + "&branch=main").json()["runs"] == runs
    of_main = get(f"/{SHOP.full_name}.json?branch=main").json()["runs"]
    assert {run["event"] for run in of_main} == {"push"}
    assert get(TEST % "").text.count('<tr class="') == 20
    assert get(TEST % "" + "&rows=all").text.count('<tr class="') == 40
    text = read(site, TEST % "")
    assert "flaky: fails 15 % of 40 runs of main" in text
    assert f"20 runs no answer of db-39 in 78 s first in {NEWEST + 2} , last in" in text
    assert "test on none is stored" in read(site, TEST % "" + "&branch=none")
    # More runs of pull requests than are read do not hide those of the default branch.
    last = partial(site.results.read.unit_runs, limit=2)
    monkeypatch.setattr(site.results.read, "unit_runs", last)
    assert get(TEST % ".json").json()["runs"] == runs[:2]
