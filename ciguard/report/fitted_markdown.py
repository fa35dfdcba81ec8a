"""The Markdown of comment, summary, check and issue: rendered to fit GitHub's limits. Pure.

What does not fit is left out in whole rows and then in whole sections, in a stated order, and is
counted where it is missing: nothing is cut in its middle. The first line, which is the verdict,
always stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ciguard.mermaid import bar_chart
from ciguard.report.data import deduplicated
from ciguard.template_loader import render
from ciguard.text import collapse_blank_lines, escaped, linked, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ciguard.report.data import ReportData

TEMPLATE: Final = "comment.md.j2"
ROWS: Final = (200, 50, 15)  # of a table, tried in this order
# Then sections go one after the other, what a reviewer needs least first.
DROP_ORDER: Final = (
    *("chart", "compared_legs", "commands", "offenders", "flaky", "excused", "durations"),
    *("memory", "legs", "jobs", "transitions", "failures", "causes", "findings"),
)
HEADLINE_WIDTH: Final = 160
ICONS: Final = {"passed": ":white_check_mark:", "failed": ":x:", "incomplete": ":warning:"}


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """How long a text may be, in what GitHub counts there."""

    amount: int
    length: Callable[[str], int]

    def allows(self, text: str) -> bool:
        """Say whether a text is short enough."""
        return self.length(text) <= self.amount


def utf16_units(text: str) -> int:
    """As GitHub may count them: what lies above U+FFFF may count twice."""
    return len(text) + sum(character > "\uffff" for character in text)


def utf8_bytes(text: str) -> int:
    """As UTF-8."""
    return len(text.encode("utf-8", "replace"))


def markdown(contents: ReportData, limit: SizeLimit) -> str:
    """The text, as long as it may be; without any markup of those whose names are in it."""
    if contents.comparison is not None:
        comparison = deduplicated(contents.comparison, contents.verdict)
        contents = replace(contents, comparison=comparison)
    for values in _candidates(contents):
        text = collapse_blank_lines(render(TEMPLATE, **values))
        if limit.allows(text):
            return text
    return _headline(contents)


def _candidates(contents: ReportData) -> Iterator[dict[str, Any]]:
    values = {
        "report": contents,
        "verdict": contents.verdict,
        "comparison": contents.comparison,
        "chart": chart(contents),
        "place": linked("the report", contents.links.run),
        "icon": ICONS[contents.verdict.state],
        "left_out": [],
        "shed": (),
    }
    for rows in ROWS:
        yield {**values, "rows": rows}
    for number in range(1, len(DROP_ORDER) + 1):
        shed = DROP_ORDER[:number]
        yield {
            **values,
            "rows": ROWS[-1],
            "shed": shed,
            "left_out": omitted_sections(contents, shed),
        }


def omitted_sections(contents: ReportData, shed: tuple[str, ...]) -> list[tuple[int, str]]:
    """How much is in the sections that are left out, the most important first."""
    counts = contents.counts
    return [counts[name] for name in reversed(shed) if counts.get(name, (0, ""))[0]]


def chart(contents: ReportData) -> str:
    """Wall time of the legs that have one, beside what was predicted of all of them."""
    known = [
        (leg.shard, leg.wall_s, leg) for leg in contents.verdict.legs if leg.wall_s is not None
    ]
    if len(known) < 2:  # noqa: PLR2004  # a chart of one bar says nothing
        return ""
    shards, walls_s, legs = zip(*known, strict=True)
    predicted_s = [leg.predicted_wall_s for leg in legs if leg.predicted_wall_s is not None]
    # A line needs a value at each bar, and what was not predicted is not 0.
    line_s = predicted_s if len(predicted_s) == len(legs) else []
    return bar_chart("Wall time by shard", "predicted", shards, walls_s, line_s)


def _headline(contents: ReportData) -> str:
    """When nothing else fits: the verdict in a line, short enough for any place."""
    place = linked("the report", contents.links.run)
    text = escaped(one_line(contents.verdict.headline, HEADLINE_WIDTH), HEADLINE_WIDTH)
    first = f"### {ICONS[contents.verdict.state]} {text}"
    return f"{first}\n\nThe rest does not fit here: it is in {place}.\n"


def not_evaluated(headline: str, why: str) -> str:
    """What is said of a run that could not be judged: nothing is known to have run."""
    return f"### :warning: {escaped(headline)}\n\n{escaped(why)}\n"
