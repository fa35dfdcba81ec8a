from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from conftest import Golden
from markdown_it import MarkdownIt
from plan.plan_factories import GIB, POOLS, planned, suite
from render.test_html_page import Structure

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.model import Exclusion, Plan, PlanNote, PlanNoteKind
from ciguard.plan.loss_isolation import CandidateSet
from ciguard.plan.planner import PlanResult, Provenance
from ciguard.plan.view import WORDS, document, note_text
from ciguard.render.formats import as_html
from ciguard.render.markdown import as_markdown
from ciguard.render.plaintext import as_text
from ciguard.text import price

SAMPLES = Path(__file__).parent.parent / "samples" / "plan"
STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)


def terminal(plan: Plan, split: Sequence[str] = ()) -> str:
    return as_text(document(plan, split), rows=256)


def markdown(plan: Plan, split: Sequence[str] = ()) -> str:
    return as_markdown(document(plan, split), full_text_location="the plan file")


def html(plan: Plan, split: Sequence[str]) -> str:
    return as_html(document(plan, split))


def usual() -> PlanResult:
    walls_s = {f"tests/test_{file}.py::test_{n}": 7.5 for file in "abcdef" for n in range(80)}
    history = {"source": "branch:ciguard-history", "runs": 20}
    return planned(
        {**walls_s, "tests/test_slow.py::test_import[everything]": 900.0},
        shards=4,
        group="file",
        peaks=dict.fromkeys(walls_s, 100 << 20),
        origin=Provenance(history=history),
        spread=0.05,
    )


def unknown() -> PlanResult:
    walls_s = {f"tests/test_{n}.py::test": 1.0 for n in range(7)}
    note = PlanNote("history_missing", {"location": "branch:ciguard-history"})
    origin = Provenance(history={"source": None, "runs": 0}, notes=(note,))
    return planned(walls_s, shards=3, known=False, origin=origin)


def hostile() -> PlanResult:
    walls_s = {
        "a|b.py::test[`x`\n| # <b>*_@someone]": 5000.0,
        "x" * 5000: 1.0,
        '"><script>alert(1)</script>': 1.0,
        "😀 [link](http://example.invalid)": 1.0,
    }
    origin = Provenance(history={"source": "](x)\n# no", "runs": 1})
    return planned(walls_s, shards=2, peaks={"x" * 5000: 9 * GIB}, origin=origin, group="none")


def scattered() -> PlanResult:
    """Many long file names, each of a file that had to be split."""
    folder = "packages/storage/tests/integration"
    walls_s = {f"{folder}/test_{f}_{'x' * f}.py::t{n}": 60.0 for f in range(40) for n in range(30)}
    made = planned(walls_s, shards=80, group="file")
    excluded = (Exclusion("slow.py::t", "exclude: slow*"),)
    summary = replace(made.plan.inventory, excluded=excluded)
    return replace(made, plan=replace(made.plan, inventory=summary))


def plan_with_all_facts() -> PlanResult:
    """All there can be to say: two pools, prices, a cap, moved units, suspects, guesses."""
    walls_s = {f"tests/test_{n // 10}.py::test_{n}": 4.0 + n % 7 for n in range(240)}
    pools = {
        "linux": replace(POOLS["linux"], usd_per_minute=0.008, concurrency=5, setup_s=30.0),
        "large": replace(POOLS["large"], usd_per_minute=0.064),
    }
    suites = {"unit": suite(10.0, 200 << 20), "slow": suite(5.0)}
    slow = {f"slow/test_{n}.py::test[{'x' * n}]": 100.0 + n for n in range(6)}
    units = [(InventoryUnit(unit, "unit"), wall_s) for unit, wall_s in walls_s.items()]
    units += [(InventoryUnit(unit, "slow"), wall_s) for unit, wall_s in slow.items()]
    origin = Provenance(history={"source": "past.ciguard", "runs": 1}, repository="owner/name")
    common: dict[str, Any] = {
        "suites": suites,
        "pools": pools,
        "pool_of": {"unit": "linux", "slow": "large"},
    }
    made = planned(
        units,
        shards=8,
        group="file",
        peaks=dict.fromkeys(walls_s, 300 << 20),
        spread=0.1,
        origin=origin,
        candidate_sets=[CandidateSet(tuple(range(40, 57)), 1), CandidateSet((90, 91), 2)],
        **common,
    )
    guessed = [
        replace(
            one,
            units=tuple(
                replace(unit, has_history=not unit.unit.endswith("0")) for unit in one.units
            ),
        )
        for one in made.plan.shards
    ]
    return replace(made, plan=replace(made.plan, shards=tuple(guessed)))


CASES = {
    "scattered": scattered,
    "usual": usual,
    "unknown": unknown,
    "hostile": hostile,
    "plan_with_all_facts": plan_with_all_facts,
}


@pytest.mark.parametrize("case", CASES)
def test_terminal_table_matches_golden_file(case: str, golden: Golden) -> None:
    made = CASES[case]()
    text = terminal(made.plan, made.split)
    assert max(map(len, text.splitlines())) <= 80
    golden(text, SAMPLES / case / "terminal.txt")


@pytest.mark.parametrize("case", ["scattered", "hostile", "plan_with_all_facts"])
def test_job_summary_matches_golden_file(case: str, golden: Golden) -> None:
    made = CASES[case]()
    text = markdown(made.plan, made.split)
    golden(text, SAMPLES / case / "summary.md", scrub={made.plan.id: "<id>"})


@pytest.mark.parametrize("case", ["plan_with_all_facts", "unknown", "hostile"])
def test_plan_page_matches_golden_file(case: str, golden: Golden) -> None:
    made = CASES[case]()
    text = STYLE.sub("", html(made.plan, made.split))
    golden(text, SAMPLES / case / "plan.html", scrub={made.plan.id: "PLAN"})


def test_foreign_text_adds_no_markup() -> None:
    made = hostile()
    shard = replace(made.plan.shards[0], key='"><script>x</script>', pool="</title><b>")
    plan = replace(
        made.plan,
        shards=(shard, *made.plan.shards[1:]),
        warnings=(PlanNote("history_unrelated", {"location": "<img src=x>"}),),
    )
    text = html(plan, made.split)
    tags = [tag for tag, _ in Structure(text).tags]
    assert not {"img", "a", "b"} & set(tags)
    assert tags.count("script") == 1, "our own"
    assert "&lt;img src=x&gt;" in text


@pytest.mark.parametrize("case", CASES)
def test_page_is_self_contained(case: str) -> None:
    made = CASES[case]()
    text = html(made.plan, made.split)
    names = {name for _, given in Structure(text).tags for name in given}
    assert not names & {"src", "href", "srcset", "xlink:href", "onload", "onclick", "style"}
    assert "url(" not in text
    assert "@import" not in text


def test_hostile_keys_are_escaped() -> None:
    made = plan_with_all_facts()
    shards = [
        replace(shard, key=f'"]\n```\n<b>%%{{x}}%%#quot;{number}')
        for number, shard in enumerate(made.plan.shards)
    ]
    plan = replace(made.plan, shards=tuple(shards))
    text = markdown(plan, ())
    html = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(text)
    assert html.count("<h3>") == 1
    assert html.count("<h") == html.count("<h3>") + html.count("<h4>") == 3
    assert not any(tag in html for tag in ("<pre>", "<em>", "<b>"))
    assert max(map(len, terminal(plan, ()).splitlines())) <= 80


def bars_of(text: str) -> list[str]:
    """What is drawn beside each shard."""
    return re.findall(r"(?m)^\d+ .*  ([#.]+)$", text)


def test_bars_show_wall_time_and_95_percent_margin() -> None:
    walls_s = {"a.py::t": 200.0, "b.py::t": 100.0, "c.py::t": 5.0}
    plan = planned(walls_s, shards=3, group="none", spread=0.2).plan
    text = terminal(plan)
    bars = {shard.units[0].unit: bars_of(line) for shard in plan.shards
            for line in text.splitlines() if line.startswith(f"{shard.key} ")}  # fmt: skip
    assert bars == {"a.py::t": ["#########..."], "b.py::t": ["####.."], "c.py::t": []}


def test_without_history_there_are_no_times_bars_or_prices() -> None:
    made = unknown()
    for text in (terminal(made.plan, made.split), markdown(made.plan, made.split)):
        (limit,) = [line for line in text.splitlines() if "deadline" in line]
        assert not re.search(r"\d (s|min|h|USD)\b", text.replace(limit, ""))
        assert "#" not in re.sub("(?m)^#+ ", "", text)


@pytest.mark.parametrize(
    ("limits_s", "output"),
    [
        ((None, None, None), "; no test has a timeout"),
        ((60.0, None, None), "; 2 tests without a timeout"),
        ((60.0, 60.0, 60.0), ""),
    ],
)
def test_deadline_line_counts_tests_without_a_timeout(
    limits_s: tuple[float | None, ...], output: str
) -> None:
    made = planned({f"a.py::t{n}": 10.0 for n in range(3)}, shards=1).plan
    (shard,) = made.shards
    units = [
        replace(unit, timeout_s=limit_s)
        for unit, limit_s in zip(shard.units, limits_s, strict=True)
    ]
    plan = replace(made, shards=(replace(shard, units=tuple(units)),))
    (line,) = [line for line in terminal(plan, ()).splitlines() if line.startswith("deadline")]
    assert line.endswith(f"43 min 30 s, then a job stops itself{output}")


def test_unisolated_suspects_are_not_called_isolated() -> None:
    walls_s = {f"a.py::t{n}": 10.0 for n in range(4)}
    plan = planned(walls_s, shards=1, candidate_sets=[CandidateSet((1, 2), 3)]).plan
    assert not any(one.isolated for one in plan.culprit_candidates)
    text = terminal(plan, ())
    assert "2 tests from 3 lost shards, spread over" in text
    assert "isolated" not in text


@pytest.mark.parametrize(
    ("value_usd", "words"),
    [(None, "-"), (0.0, "0.000 USD"), (0.0963, "0.096 USD"), (1234.5, "1,234.50 USD")],
)
def test_prices(value_usd: float | None, words: str) -> None:
    assert price(value_usd) == words


def test_many_shards_are_folded() -> None:
    for count in (19, 20):
        walls_s = {f"test_{n}.py::t": 100.0 for n in range(count)}
        text = markdown(planned(walls_s, shards=count, group="none").plan, ())
        assert ("<details><summary>20 shards</summary>" in text) is (count == 20)


def test_long_shard_keys_are_shortened_uniquely() -> None:
    made = planned({f"{name}.py::t": 60.0 for name in "abc"}, shards=3, group="none").plan
    keys = [f"integration-tests-of-the-shop-on-net{n}-with-a-database" for n in (8, 9, 471)]
    shards = [replace(one, key=key) for one, key in zip(made.shards, keys, strict=True)]
    text = terminal(replace(made, shards=tuple(shards)), ())
    rows = text[text.index("shard ") :].splitlines()[1:4]
    assert len({row.split()[0] for row in rows}) == 3


def test_missing_plan_facts_are_omitted() -> None:
    made = planned({"a.py::t": 60.0, "b.py::t": 60.0}, shards=2)
    pools = {name: replace(pool, setup_s=0.0) for name, pool in made.plan.pools.items()}
    chosen = tuple(one for one in made.plan.alternatives if one.chosen)
    plan = replace(
        made.plan, floor=None, shard_count_limited_by=(), pools=pools, alternatives=chosen
    )
    plan = replace(plan, policy=replace(plan.policy, deadline_s=None))
    text = terminal(plan, ())
    words = "longest|deadline|memory|moved|candidates|2 shards |set-up|alternatives"
    assert not re.search(words, text)
    assert text.endswith("\n     2       1 min 00 s               2  chosen\n")
    assert "billed" not in terminal(replace(plan, alternatives=()), ())
    assert "billed" not in markdown(replace(plan, alternatives=()), ())


def test_every_note_kind_has_a_text() -> None:
    assert set(WORDS) == set(get_args(PlanNoteKind))


def test_facts_are_formatted_with_units_and_worst_first() -> None:
    shards = {f"{number:02}": 60.0 * number for number in range(1, 8)}
    facts = {"deadline_s": 30.0, "risk_ratio": 0.001, "shards_s": shards, "tests_s": {"a\nb": 5.0}}
    assert note_text(PlanNote("risk_exceeded", facts)) == (
        "above the accepted risk of 0.1% to exceed the deadline of 30 s: shard 07 (7 min 00 s), "
        "06 (6 min 00 s), 05 (5 min 00 s), 04 (4 min 00 s), 03 (3 min 00 s) and 2 more; "
        "longest tests: a\\nb (5.00 s)"
    )
