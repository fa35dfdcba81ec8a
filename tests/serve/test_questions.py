"""The seven questions of one who is on call, asked of planted troubles: by page and by JSON.

350 runs of five repositories; a page with its answer is at most three links away from the first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, Final

import pytest
from conftest import Ciguard
from fakegithub.state import FakeGitHub
from serve.pages.asgi_client import AsgiClient
from serve.planted_runs import CREEP, Planted, plant
from serve.work.judging import server, service
from stored_results import opened_results

from ciguard.serve.application import build_application
from ciguard.serve.service import Service

__all__ = ["server", "service"]

RUNS: Final = 70  # of each repository
CLICKS: Final = 3


@dataclass
class OnCall:
    """The pages, as one reaches them from the first."""

    client: AsgiClient
    planted: dict[str, Planted]

    def json(self, address: str) -> dict[str, Any]:
        path, _, query = address.partition("?")
        answer = self.client.get(f"{path}.json?{query}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def clicks_to(self, *texts: str) -> int:
        """The number of links from the first page to one that has all texts, tags left out."""
        shown, seen = ["/"], {"/"}
        for clicks in range(CLICKS + 1):
            links: list[str] = []
            for address in shown:
                page = self.client.get(address).text
                plain = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", "", page)))
                if all(text in plain for text in texts):
                    return clicks
                links += (unescape(link) for link in re.findall(r' href="(/[^"#]*)', page))
            new = [link for link in dict.fromkeys(links) if self.is_page(link) and link not in seen]
            # Of a list with many links of a kind, the first ones are those of its first rows.
            shown = [*first_of_each_kind(new)]
            seen.update(shown)
        raise AssertionError(f"no page within {CLICKS} clicks has {texts}")

    @staticmethod
    def is_page(link: str) -> bool:
        return not link.startswith("/-/") and ".json" not in link


def first_of_each_kind(links: list[str], most: int = 6) -> Iterator[str]:
    counts: dict[str, int] = {}
    for link in links:
        kind = re.sub(r"\d+", "0", link.partition("?")[0])
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= most:
            yield link


@pytest.fixture
def on_call(service: Service, server: FakeGitHub, tmp_path: Path) -> Iterator[OnCall]:
    planted = plant(service, server, tmp_path, RUNS)
    database, objects = service.database, service.objects
    with opened_results(database, objects, tmp_path / "pages") as results:
        application = build_application(service, results.read)
        local = ("127.0.0.1", 50_000)
        yield OnCall(AsgiClient(application, base_url="http://localhost", peer=local), planted)


def who_broke_main(seen: OnCall) -> None:
    red = seen.planted["red"]
    lines = {line["repository"]: line["base"] for line in seen.json("/index")["repositories"]}
    reds = [base["exit_code"] != 0 for base in lines.values()]
    assert reds == sorted(reds, reverse=True)
    facts = lines["octo-org/red"]["facts"]
    since = red.shas[RUNS - 8]
    assert facts["red_since"]["sha"] == since
    assert facts["red_since"]["green_sha"] == red.shas[RUNS - 9]
    assert (facts["tests"], facts["owners"]) == (["a.t::two"], ["@octo-org/pay"])
    assert seen.clicks_to(f"red since {since[:7]}", "1 test, @octo-org/pay") == 0


def is_it_flaky(seen: OnCall) -> None:
    flaky = seen.planted["flaky"]
    (test,) = seen.json("/octo-org/flaky/flaky")["tests"]
    assert test["unit"] == "b.t::three"
    assert (test["failures"], test["runs"]) == (len(flaky.failed), RUNS)
    assert not test["is_broken"]
    rate = f"{100 * len(flaky.failed) / RUNS:.0f} % of {RUNS} runs"
    assert seen.clicks_to("b.t::three", rate) <= CLICKS
    (broken,) = seen.json("/octo-org/red/flaky")["tests"]
    assert broken["is_broken"]
    assert broken["red_since_sha"] == seen.planted["red"].shas[RUNS - 8]


def why_is_it_slow(seen: OnCall) -> None:
    page = seen.json("/octo-org/slow?days=90")
    changes = {trend["measure"]: trend["change"] for trend in page["trends"]}
    for measure in ("makespan_s", "tests_s"):
        change = changes[measure]
        assert change["ratio"] == pytest.approx(1.03**CREEP - 1, rel=0.25)
        assert abs(change["values"] - CREEP) <= CREEP // 3
        assert abs(change["first"] - (RUNS - CREEP)) <= CREEP // 4
    assert changes["peak_bytes"] is None
    moved = seen.json("/octo-org/slow/movers?days=90")["tests"]
    assert len(moved) == 8
    assert all(test["after"] > 1.6 * test["before"] for test in moved)
    assert seen.clicks_to("Makespan", "grew", "over") <= 1
    quiet = seen.json("/octo-org/flaky?days=90")["trends"]
    assert [trend["measure"] for trend in quiet if trend["change"]] == []


def which_shard_is_next(seen: OnCall) -> None:
    first, *others = seen.json("/octo-org/full/shards")["shards"]
    assert (first["shard"], first["limit"]) == ("02", "memory")
    assert first["last_ratio"] > 0.75
    assert first["risk"] == max(use["risk"] for use in (first, *others))
    assert all(use["risk"] < 0.01 for use in others)
    assert seen.clicks_to("02", "memory", "Next run exceeds it") <= 2
    memory = seen.json("/octo-org/full/movers?by=peak&days=90")["tests"]
    assert {test["unit"] for test in memory[:2]} == {"c.t::four", "c.t::five"}


def what_did_we_pay(seen: OnCall) -> None:
    costs = seen.json("/octo-org/lost/costs?days=90")["costs"]
    by = {(cost["by"], cost["name"]): cost for cost in costs}
    assert by["total", "all runs"]["runs"] == RUNS
    assert by["total", "all runs"]["unpriced"] == 2  # a lost shard's time is not known
    minutes = by["total", "all runs"]["price_usd"] / 0.008 / (RUNS - 2)
    assert 5 <= minutes <= 6  # three shards of 60 to 90 s, each billed by the minute
    assert by["waste", "red without a failed test"]["runs"] == 2
    days = [cost["name"] for cost in costs if cost["by"] == "day"]
    assert days == sorted(days, reverse=True)
    assert by["pool", "default"]["price_usd"] > 0
    assert seen.clicks_to("Wasted", "red without a failed test") <= 2


def who_owns_it(seen: OnCall) -> None:
    run = seen.planted["red"].runs[-1]
    page = seen.json(f"/octo-org/red/runs/{run.run_id}/1")
    assert [failure["owners"] for failure in page["failed"]] == [["@octo-org/pay"]]
    flaky = seen.json("/octo-org/flaky/flaky")
    assert flaky["owners"]["b.t::three"] == []
    assert seen.clicks_to("b.t::three", "no owner") <= CLICKS


def what_happened(seen: OnCall) -> None:
    run = seen.planted["red"].runs[-1]
    page = seen.json(f"/octo-org/red/runs/{run.run_id}/1")
    (failure,) = page["failed"]
    assert (failure["name"], failure["whose"]) == ("a.t::two", "main")
    assert failure["message"].endswith(str(RUNS - 1))
    assert page["run"]["facts"]["jobs"]["01"].startswith("https://")
    assert seen.clicks_to("a.t::two", f"assert total == {RUNS - 1}", "main") <= 2
    died = seen.planted["full"].runs[RUNS - 3]
    page = seen.json(f"/octo-org/full/runs/{died.run_id}/1")
    assert [failure["name"] for failure in page["failed"]] == ["c.t::five"]
    assert "out of memory" in str(page["findings"]) + str(page["legs"]) + str(page["failed"])
    lost = seen.planted["lost"].runs[-1]
    page = seen.json(f"/octo-org/lost/runs/{lost.run_id}/1")
    assert page["run"]["verdict"] == "incomplete"
    assert any("shard 02" in finding["text"] for finding in page["findings"])


QUESTIONS: Final[tuple[Callable[[OnCall], None], ...]] = (
    *(who_broke_main, is_it_flaky, why_is_it_slow, which_shard_is_next),
    *(what_did_we_pay, who_owns_it, what_happened),
)


def site_answers(seen: OnCall, folder: Path, ciguard: Ciguard) -> None:
    """What a history knows, without a server."""
    words = []
    for name in ("red", "slow"):
        content = seen.client.get(f"/api/v1/repos/octo-org/{name}/history").content
        (folder / f"{name}.ciguard").write_bytes(content)
        words += ["--history", f"{name}.ciguard"]
    ciguard("site", "--out", "site", *words, cwd=folder)
    first, *_ = json.loads((folder / "site/index.json").read_text("utf-8"))["repositories"]
    red = seen.planted["red"]
    assert first["repository"] == "octo-org/red"
    assert first["base"]["facts"]["red_since"]["sha"] == red.shas[RUNS - 8]
    slow = json.loads((folder / "site/octo-org/slow.json").read_text("utf-8"))
    changes = {trend["measure"]: trend["change"] for trend in slow["trends"]}
    assert changes["makespan_s"]["ratio"] > 0.4  # a history has the last 20 runs, which all grew


@pytest.mark.soak
def test_pages_answer_the_seven_questions(
    on_call: OnCall, tmp_path: Path, ciguard: Ciguard
) -> None:
    for question in QUESTIONS:
        question(on_call)
    site_answers(on_call, tmp_path, ciguard)
