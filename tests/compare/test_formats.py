"""What a comparison looks like in each format."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from compare.compare_factories import case, died, run_of
from compare.samples import COMPARISONS, confirmed, hurt
from conftest import Golden
from guard.fixtures import make_plan
from markdown_it import MarkdownIt

from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import Context, compare_run
from ciguard.compare.json import as_json
from ciguard.compare.legs import Total
from ciguard.compare.transitions import Excuse
from ciguard.compare.wording import leak_text, measure_text, suite_speed_text
from ciguard.model import Result

SAMPLES = Path(__file__).parent.parent / "samples" / "compare"
SCRUB = {r"sha256-[^']+": "sha256-HASH"}
STYLE = re.compile(r"<style>.*?</style>|<script>.*?</script>", re.DOTALL)
SUFFIX = {"text": "txt", "markdown": "md", "json": "json", "html": "html"}


# All as text; `hurt` in each format, `leaking` where a format has something of its own for leaks.
SHOWN = [
    *((name, "text") for name in COMPARISONS),
    *(("hurt", shape) for shape in FORMATS if shape != "text"),
    *(("leaking", shape) for shape in ("markdown", "html")),
]


@pytest.mark.parametrize(("name", "shape"), SHOWN)
def test_comparison_in_each_format(golden: Golden, name: str, shape: str) -> None:
    text = FORMATS[shape](COMPARISONS[name]())
    if shape == "html":  # what all pages have in common is in none of the samples
        text = STYLE.sub("", text)
    golden(text, SAMPLES / f"{name}.{SUFFIX[shape]}", scrub=SCRUB)


@pytest.mark.parametrize("shape", ["text", "markdown", "html"])
@pytest.mark.parametrize("name", COMPARISONS)
def test_no_sentence_is_repeated(name: str, shape: str) -> None:
    found = COMPARISONS[name]()
    text = FORMATS[shape](found).partition("</title>")[2 * (shape == "html")]
    text = " ".join(text.split())  # a terminal breaks lines
    output = [measure_text(found.memory), measure_text(found.durations)]
    for sentence in (*output, suite_speed_text(found.suite_speed), *map(leak_text, found.leaks)):
        assert text.count(sentence) <= 1, sentence


def test_long_leg_names_are_shortened_uniquely() -> None:
    keys = [f"integration-tests-of-the-shop-on-net{n}-with-a-database" for n in (8, 9, 471)]
    run = run_of({key: [case(f"{key}::t")] for key in keys})
    lines = FORMATS["text"](compare_run(run, None, [run])).splitlines()
    start = lines.index("3 shards, 1 baseline run:")
    assert len({line.split()[0] for line in lines[start + 2 : start + 5]}) == 3


def test_numbers_have_unit_sample_size_and_interval() -> None:
    text = FORMATS["text"](confirmed())
    assert "confirmed  513 MiB  641 MiB  +25 % (n=12, 95 % CI +" in text


def test_change_of_a_small_value_is_shown_as_an_amount() -> None:
    for before, after, shown in (
        ((0.0, 4 / 1024), (0.39, 99.9), "+99.9 MiB (n=12, 95 % CI +86.6..+115 MiB)<"),
        ((0.002, 20.0), (0.392, 20.0), "+0.39 s (n=12, 95 % CI +0.39..+0.39 s)<"),
        ((0.11, 20.0), (2.09, 20.0), "19 times (n=12, 95 % CI 19..19 times)<"),
        ((0.2, 120.0), (0.2, 200.0), "+67 % (n=12, 95 % CI +66.5..+66.9)<"),
    ):
        runs = [run_of({"01": [case("a", *before)]}, run_id=n) for n in range(1, 13)]
        found = compare_run(run_of({"01": [case("a", *after)]}, run_id=13), None, runs)
        assert shown in FORMATS["html"](found)


def test_duration_suspects_of_one_run_are_named_in_json_and_html_only() -> None:
    walls = [[1 + ((7 * n + t) % 5) / 100 for t in range(25)] for n in range(13)]
    walls[12][3] = 3.0
    runs = [
        run_of({"01": [case(f"t{t:02}", wall) for t, wall in enumerate(row)]}, run_id=n + 1)
        for n, row in enumerate(walls)
    ]
    found = compare_run(runs[-1], None, runs[:-1])
    assert found.durations.suspects == 1
    output = {shape: render(found) for shape, render in FORMATS.items()}
    for shape in ("text", "markdown"):
        assert "1 suspect" in output[shape]
        assert "t03" not in output[shape]
        assert "Duration: 1 suspect: see the JSON" in output[shape]
    for shape in ("json", "html"):
        assert "t03" in output[shape]


def test_suspects_have_one_number() -> None:
    runs = [
        run_of({"01": [case(f"t{t:02}", 1.0, 200 + n / 10) for t in range(18)]}, run_id=n)
        for n in range(1, 13)
    ]
    legs = {"01": [case(f"t{t:02}", 1.0, 400 if t else 50) for t in range(18)]}
    text = FORMATS["text"](compare_run(run_of(legs, run_id=20), None, runs))
    assert text.startswith("SUSPECT: peak memory: nothing confirmed, 17 suspects (")
    assert "\n17 suspects, 1 possible gain\n" in text


def test_tests_that_fail_on_both_sides_did_not_change() -> None:
    """An entry of the quarantine changes that no more than its lack does."""
    base = run_of({"01": [case("a"), case("b", outcome="failed"), case("c", outcome="failed")]})
    head = run_of({"01": [died("a", "crash"), *(case(u, outcome="failed") for u in "bc")]})
    excused = {base.keys[2]: Excuse("quarantined", "issue 7")}
    found = compare_run(head, None, [base], context=Context(excused=excused))
    text = FORMATS["text"](found)
    changed, _, both = text.partition("2 failing in both runs\n")
    assert "newly crashed  passed" in changed
    assert "failed" not in changed.partition("Tests that changed")[2]
    assert "quarantined" in both


def test_duration_without_a_verdict_is_no_unconfirmed_change() -> None:
    found = hurt()
    both = (*found.durations.losses, *found.durations.gains)
    assert [one.tier for one in both] == ["unjudged"] * 2  # the numbers are there, in JSON and HTML
    for shape in ("text", "markdown"):
        assert "see the JSON" not in FORMATS[shape](found)
    assert "no verdict" in FORMATS["html"](found)


def test_totals_of_an_incomplete_run_are_not_shown() -> None:
    legs = {"01": [case("a")], "02": [case("b")]}
    base, head = run_of(legs), run_of({"01": legs["01"]}, run_id=2)
    output = {shape: render(compare_run(head, None, [base])) for shape, render in FORMATS.items()}
    assert "10 s (1 baseline run) -> not shown: the run is incomplete\n" in output["text"]
    assert "500 MiB (1 baseline run) -> not shown: the run is incomplete\n" in output["text"]
    assert "10 s (1 baseline run) → not shown: the run is incomplete" in output["html"]
    assert "10 s (1 baseline run) &#8594; not shown: the run is incomplete" in output["markdown"]
    assert json.loads(output["json"])["totals"][0] == {
        "name": "makespan_s",
        "before": 10.0,
        "after": None,
        "n": 1,
        "device": "",
        "tier": None,
    }


@pytest.mark.parametrize("planned", [True, False])
def test_removed_test_leaves_the_run_complete(*, planned: bool) -> None:
    base, head = (
        run_of({"01": [case(name) for name in names]}, run_id=n)
        for n, names in enumerate((("a", "b"), ("a",)), 1)
    )
    plan = make_plan({"01": ("a",)}) if planned else None
    found = compare_run(head, None, [base], plan=plan)
    assert [one.kind for one in found.transitions] == ["removed" if planned else "no_longer_run"]
    assert found.totals[0] == Total("makespan_s", 10.0, 10.0, 1)
    assert found.cost_after is not None
    assert "10 s -> 10 s" in FORMATS["text"](found)


def test_reason_for_no_verdict_is_given_once() -> None:
    sentence = "emory and time are judged from 3 baseline runs on; there is 1"
    base = run_of({"01": [case("a", 1.0, 100)]})
    for mib, outcome in ((100, "passed"), (160, "passed"), (100, "failed")):
        head = run_of({"01": [case("a", 1.0, mib, outcome=outcome)]}, run_id=2)
        found = compare_run(head, None, [base])
        for shape in ("text", "markdown"):
            output = " ".join(FORMATS[shape](found).split())
            assert output.count(sentence) == 1
            assert "baseline value" not in output
    quiet = FORMATS["markdown"](
        compare_run(replace(base, run_id=2, wall_s=base.wall_s * 2), None, [base])
    )
    assert quiet.startswith(f"### INCONCLUSIVE: m{sentence}\n")


def test_markdown_renders_as_intended() -> None:
    html = (
        MarkdownIt("commonmark", {"html": True}).enable("table").render(FORMATS["markdown"](hurt()))
    )
    assert html.count("<table>") == 4
    assert "<td>flaky</td>" in html
    assert "<h4>Peak memory of tests</h4>" in html
    assert "\n|" not in html


def test_json_is_versioned_and_has_no_nan() -> None:
    found = as_json(hurt())
    assert found["schema"] == 2
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_test_of_several_combinations_is_one_row() -> None:
    """With the numbers of the first; the page has each."""
    variants = ("linux, 3.11", "linux, 3.12", "mac, 3.12")

    def legs(wall_s: float, outcome: str) -> dict[str, list[Result]]:
        return {
            f"{number:02}": [
                case("t.py::slow", wall_s + number * (wall_s > 1), variant=name),
                case("t.py::bad", variant=name, message=f"assert {number}", outcome=outcome),
            ]
            for number, name in enumerate(variants, 1)
        }

    base, head = run_of(legs(0.2, "passed")), run_of(legs(9.0, "failed"))
    found = compare_run(head, bases=[base])
    text = " ".join(FORMATS["text"](found).split())
    named = "in 3 combinations: linux, 3.11; linux, 3.12; mac, 3.12"
    assert f"t.py::bad {named} change newly failing, before passed" in text
    assert "shard 01, 02, 03, message assert 1" in text
    assert text.count("t.py::bad") == 1
    slow = "mac, 3.12; linux, 3.12; linux, 3.11; the numbers are those of mac, 3.12"
    assert f"{slow} verdict no verdict, before 0.20 s, after 12 s" in text
    assert text.count("t.py::slow") == 1
    assert FORMATS["html"](found).count("t.py::slow") == 3
