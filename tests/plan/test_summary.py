from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt
from plan.making import GIB, planned

from ciguard.model import Exclusion
from ciguard.plan.planning import Origin, Planned
from ciguard.plan.summary import markdown, terminal

if TYPE_CHECKING:
    from conftest import Golden

SAMPLES = Path(__file__).parent.parent / "samples" / "plan"


def usual() -> Planned:
    walls_s = {f"tests/test_{file}.py::test_{n}": 7.5 for file in "abcdef" for n in range(80)}
    history = {"source": "branch:ciguard-history", "runs": 20}
    return planned(
        {**walls_s, "tests/test_slow.py::test_import[everything]": 900.0},
        shards=4,
        group="file",
        peaks=dict.fromkeys(walls_s, 100 << 20),
        origin=Origin(history=history),
        spread=0.05,
    )


def unknown() -> Planned:
    walls_s = {f"tests/test_{n}.py::test": 1.0 for n in range(7)}
    note = "there is no history at branch:ciguard-history yet: the units are taken for equal"
    origin = Origin(history={"source": None, "runs": 0}, notes=(note,))
    return planned(walls_s, shards=3, known=False, origin=origin)


def hostile() -> Planned:
    walls_s = {
        "a|b.py::test[`x`\n| # <b>*_@someone]": 5000.0,
        "x" * 5000: 1.0,
        '"><script>alert(1)</script>': 1.0,
        "😀 [link](http://example.invalid)": 1.0,
    }
    origin = Origin(history={"source": "](x)\n# no", "runs": 1})
    return planned(walls_s, shards=2, peaks={"x" * 5000: 9 * GIB}, origin=origin, group="none")


def scattered() -> Planned:
    """Many long file names, each of a file that had to be split."""
    folder = "packages/storage/tests/integration"
    walls_s = {f"{folder}/test_{f}_{'x' * f}.py::t{n}": 60.0 for f in range(40) for n in range(30)}
    made = planned(walls_s, shards=80, group="file")
    excluded = (Exclusion("slow.py::t", "exclude: slow*"),)
    summary = replace(made.plan.inventory, excluded=excluded)
    return replace(made, plan=replace(made.plan, inventory=summary))


CASES = {"scattered": scattered, "usual": usual, "unknown": unknown, "hostile": hostile}


@pytest.mark.parametrize("case", CASES)
def test_the_table_on_a_terminal(case: str, golden: Golden) -> None:
    made = CASES[case]()
    text = terminal(made.plan, made.split)
    assert max(map(len, text.splitlines())) <= 80
    golden(text, SAMPLES / case / "terminal.txt")


@pytest.mark.parametrize("case", CASES)
def test_the_summary_of_the_job(case: str, golden: Golden) -> None:
    made = CASES[case]()
    text = markdown(made.plan, made.split)
    golden(text, SAMPLES / case / "summary.md", scrub={made.plan.id: "<id>"})


def test_nothing_from_outside_becomes_markup() -> None:
    made = hostile()
    html = MarkdownIt("gfm-like", {"linkify": False}).render(markdown(made.plan, made.split))
    assert html.count("<h3>") == 1
    assert html.count("<h") == 1
    assert not any(tag in html for tag in ("<script", "<a ", "<em>", "<code>", "<b>", "<img"))
    assert html.count("<tr>") == 1 + len(made.plan.shards)
    assert "@\u200bsomeone" in html
