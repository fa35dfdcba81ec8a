"""The page with the shard picture: what is drawn, how large it may be, and that it is readable."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan.plan_factories import planned, suite
from plan.test_view import CASES, SAMPLES, hostile, unknown

from ciguard.model import PlanNote
from ciguard.plan.planner import Provenance
from ciguard.plan.view import LEFT, MAX_BARS, WIDTH, ShardChart, document
from ciguard.plan.view import shard_chart as draw
from ciguard.render.formats import as_html

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from conftest import Golden

    from ciguard.model import Plan
    from ciguard.plan.planner import PlanResult
    from ciguard.plan.view import Bar, Lane

TEMPLATES = Path(__file__).parents[2] / "templates"
STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
SEEN = Provenance(history={"source": "past.ciguard", "runs": 3})


def html(plan: Plan, split: Sequence[str]) -> str:
    return as_html(document(plan, split, drawn=True))


def shard_chart(plan: Plan) -> ShardChart:
    return draw(plan, is_measured=plan.has_timings)


class Page(HTMLParser):
    """Tags with their attributes, and whether each was closed."""

    EMPTY = frozenset({"meta", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("case", ["plan_with_all_facts", "unknown", "hostile"])
def test_plan_page_matches_golden_file(case: str, golden: Golden) -> None:
    made = CASES[case]()
    text = html(made.plan, made.split)
    Page(text)
    golden(STYLE.sub("", text), SAMPLES / case / "plan.html", scrub={made.plan.id: "PLAN"})


def test_foreign_text_adds_no_markup() -> None:
    made = hostile()
    shard = replace(made.plan.shards[0], key='"><script>x</script>', pool="</title><b>")
    plan = replace(
        made.plan,
        shards=(shard, *made.plan.shards[1:]),
        warnings=(PlanNote("history_missing", {"location": "<img src=x>"}),),
    )
    page = Page(html(plan, made.split))
    tags = [tag for tag, given in page.tags if (tag, "class" in given) != ("b", True)]
    assert not {"img", "a", "b"} & set(tags)
    assert tags.count("script") == 1, "our own"
    assert any("<img src=x>" in text for text in page.text)


@pytest.mark.parametrize("case", CASES)
def test_page_is_self_contained(case: str) -> None:
    made = CASES[case]()
    text = html(made.plan, made.split)
    names = {name for _, given in Page(text).tags for name in given}
    assert not names & {"src", "href", "srcset", "xlink:href", "onload", "onclick", "style"}
    assert "url(" not in text
    assert "@import" not in text


def rectangles(lane: Lane) -> list[Bar]:
    return [block for block in lane.blocks if block.kind not in ("setup", "late")]


def many(units: int, shards: int) -> PlanResult:
    """40 units a file, of which a few are long."""
    walls_s = {
        f"tests/package_{n // 400}/test_module_{n // 40}.py::TestCase::test_{n}": 0.1
        + 1000.0 / (1 + n * 7919 % units)
        for n in range(units)
    }
    return planned(walls_s, shards=shards, origin=SEEN, group="file", spread=0.05)


@pytest.mark.soak
def test_page_of_100000_units_is_small() -> None:
    made = many(100_000, 64)
    text = html(made.plan, made.split)
    assert len(text.encode()) < 2_000_000
    found = shard_chart(made.plan)
    assert sum(len(lane.blocks) for lane in found.lanes) <= MAX_BARS


@pytest.mark.parametrize(("units", "shards"), [(30, 1), (300, 3), (2_000, 200)])
def test_units_fill_their_lane_in_order(units: int, shards: int) -> None:
    plan = many(units, shards).plan
    found = shard_chart(plan)
    assert [lane.key for lane in found.lanes] == [shard.key for shard in plan.shards]
    for lane, shard in zip(found.lanes, plan.shards, strict=True):
        x = LEFT
        blocks = rectangles(lane)
        for block in blocks:
            assert block.x == pytest.approx(x, abs=0.11 * len(blocks))
            x = block.x + block.width
        # As wide as its time is of the longest lane's, and nothing beyond the frame.
        first = rectangles(found.lanes[0])
        assert lane.blocks[-1].x < found.scale.right
        ratio = shard.predicted.wall_s / plan.shards[0].predicted.wall_s
        drawn = sum(block.width for block in blocks)
        drawn_first = sum(block.width for block in first)
        rounding = 0.05 * (len(blocks) + len(first))  # each block's, in pixels
        assert drawn == pytest.approx(ratio * drawn_first, rel=0.02, abs=rounding)


@given(
    st.lists(st.floats(0, 5000, allow_nan=False), min_size=1, max_size=60),
    st.integers(1, 9),
    st.integers(1, 4),
    st.floats(0, 60),
)
def test_lanes_stay_inside_the_frame(
    walls_s: list[float], shards: int, processes: int, setup_s: float
) -> None:
    named = {f"tests/test_{n % 5}.py::test_{n}": wall_s for n, wall_s in enumerate(walls_s)}
    made = planned(
        named,
        shards=shards,
        processes=processes,
        suites={"": suite(setup_s=setup_s)},
        spread=0.1,
        origin=SEEN,
    )
    found = shard_chart(made.plan)
    for lane in found.lanes:
        assert all(part.width >= 0 and part.x >= LEFT for part in lane.blocks)
        assert all(part.x + part.width <= found.scale.right + 0.2 for part in lane.blocks)
    assert sum(_units_in(rectangles(lane)) for lane in found.lanes) == len(walls_s)
    assert all(LEFT <= mark.x <= WIDTH for mark in (*found.marks, *found.ticks))


def _units_in(blocks: Iterable[Bar]) -> int:
    """As their titles tell."""
    reported = (re.match(r"([\d,]+) tests?: ", block.title) for block in blocks)
    return sum(int(found[1].replace(",", "")) if found else 1 for found in reported)


def test_adjacent_units_of_one_file_share_a_shade() -> None:
    walls_s = {f"tests/test_{file}.py::test_{n}": 10.0 for file in "abc" for n in range(3)}
    (lane,) = shard_chart(planned(walls_s, shards=1, origin=SEEN, group="file").plan).lanes
    assert [block.kind for block in rectangles(lane)] == ["even"] * 3 + ["odd"] * 3 + ["even"] * 3


def test_narrow_neighbours_merge_into_one_labelled_block() -> None:
    walls_s = {"a.py::long": 1000.0} | {f"a.py::t{n}": 0.01 for n in range(9)}
    walls_s |= {"b.py::long": 1000.0} | {f"{'cd'[n % 2]}.py::t{n}": 0.01 for n in range(8)}
    peaks = {"a.py::t3": 300 << 20, "a.py::long": 100 << 20}
    (lane,) = shard_chart(planned(walls_s, shards=1, peaks=peaks, origin=SEEN).plan).lanes
    assert [(block.kind, block.title) for block in rectangles(lane)] == [
        ("even", "a.py::long\n16 min 40 s, peak 100 MiB"),
        ("even", "9 tests: a.py\n0.09 s together, largest peak 300 MiB"),
        ("odd", "b.py::long\n16 min 40 s, peak not measured"),
        ("merged", "8 tests: c.py to d.py\n0.08 s together"),
    ]


@pytest.mark.parametrize(
    ("wall_s", "output"),
    [
        (0.5, ["0 s", "0.1 s", "0.2 s", "0.3 s", "0.4 s", "0.5 s"]),
        (50.0, ["0 s", "10 s", "20 s", "30 s", "40 s", "50 s"]),
        (400.0, ["0 min", "1 min", "2 min", "3 min", "4 min", "5 min", "6 min", "7 min"]),
        (20_000.0, ["0 h", "1 h", "2 h", "3 h", "4 h", "5 h"]),
        (900_000.0, ["0 h", "267 h"]),
    ],
)
def test_axis_has_round_tick_labels(wall_s: float, output: list[str]) -> None:
    made = planned({"a.py::t": wall_s}, shards=1, limit_s=1e7, origin=SEEN)
    assert [tick.label for tick in shard_chart(made.plan).ticks] == output


def test_unmeasured_units_are_marked_and_listed() -> None:
    made = planned({"a.py::t": 60.0, "a.py::u": 60.0}, shards=1, origin=SEEN)
    (shard,) = made.plan.shards
    guessed = replace(shard.units[1], has_history=False)
    plan = replace(made.plan, shards=(replace(shard, units=(shard.units[0], guessed)),))
    (lane,) = shard_chart(plan).lanes
    assert [block.kind for block in rectangles(lane)] == ["even", "guessed"]
    assert "1 test without history" in html(plan, ())


def test_without_history_no_time_is_shown() -> None:
    made = unknown()
    found = shard_chart(made.plan)
    assert not found.ticks
    assert not found.marks
    page = Page(html(made.plan, made.split))
    times = re.compile(r"\d (s|min|h)\b")
    shown = [text for text in page.text if times.search(text) and "{" not in text]
    assert [text for text in shown if "a job stops itself" not in text] == []


def test_without_a_deadline_only_the_bound_is_drawn() -> None:
    made = planned({"a.py::t": 400.0}, shards=1, origin=SEEN)
    plan = replace(made.plan, policy=replace(made.plan.policy, deadline_s=None))
    found = shard_chart(plan)
    assert [mark.kind for mark in found.marks] == ["bound"]


def test_classes_replace_files_for_ids_without_a_file() -> None:
    walls_s = {f"Space.{name}.Test{n}": 10.0 for name in ("A", "B") for n in range(2)}
    (lane,) = shard_chart(planned(walls_s, shards=1, origin=SEEN).plan).lanes
    assert [block.kind for block in rectangles(lane)] == ["even", "even", "odd", "odd"]


@pytest.mark.parametrize(("limit_s", "is_drawn"), [(600.0, True), (6000.0, False)])
def test_deadline_is_drawn_only_if_near(limit_s: float, is_drawn: bool) -> None:
    made = planned({"a.py::t": 400.0}, shards=1, limit_s=limit_s, origin=SEEN)
    found = shard_chart(made.plan)
    assert ("deadline" in [mark.kind for mark in found.marks]) is is_drawn
    assert made.plan.policy.deadline_s is not None


def test_setup_is_drawn_separately_from_the_units() -> None:
    made = planned({"a.py::t": 75.0}, shards=1, suites={"": suite(setup_s=25.0)}, origin=SEEN)
    (lane,) = shard_chart(made.plan).lanes
    test, setup, late = lane.blocks
    assert test.width == pytest.approx(3 * setup.width, abs=0.5)
    assert (setup.kind, setup.title) == ("setup", "25 s of set-up and overhead")
    assert late.kind == "late", "every shard may take longer than is expected"


def luminance(colour: str) -> float:
    """WCAG 2.2: https://www.w3.org/TR/WCAG22/#dfn-relative-luminance."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_every_colour_is_readable_in_both_schemes() -> None:
    style, own = (
        (TEMPLATES / name).read_text("utf-8") for name in ("document.html.j2", "charts.html.j2")
    )
    light, dark = (
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root \{([^}]*)\}", style)
    )
    assert set(light) == set(dark) == set(re.findall(r"var\(--(\w+)\)", style + own))
    assert ":root" not in own, "all pages have one set of colours"
    for scheme in (light, dark):
        back = scheme["back"]
        for name in ("text", "quiet", "link", "bad", "other"):
            assert contrast(scheme[name], back) >= 4.5, name
        for name in ("one", "two", "dull", "good", "warn"):
            assert contrast(scheme[name], back) >= 3, name
        assert contrast(scheme["one"], scheme["two"]) >= 1.7
