"""The Markdown of comment, summary, check and issue: rendered to fit GitHub's limits. Pure.

What does not fit is left out in whole rows and then in whole sections, in a stated order, and is
counted where it is missing: nothing is cut in its middle. The first line, which is the verdict,
always stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ciguard.mermaid import bars_of_times
from ciguard.rendering import render
from ciguard.report.contents import without_what_is_told
from ciguard.text import escaped, linked, one_line, tidied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ciguard.report.contents import Contents

TEMPLATE: Final = "comment.md.j2"
ROWS: Final = (200, 50, 15)  # of a table, tried in this order
# Then sections go one after the other, what a reviewer needs least first.
SHED: Final = (
    *("chart", "compared_legs", "commands", "offenders", "flaky", "excused", "durations"),
    *("memory", "legs", "jobs", "transitions", "failures", "causes", "findings"),
)
HEADLINE_WIDTH: Final = 160
ICONS: Final = {"passed": ":white_check_mark:", "failed": ":x:", "incomplete": ":warning:"}


@dataclass(frozen=True, slots=True)
class Limit:
    """How long a text may be, in what GitHub counts there."""

    amount: int
    length: Callable[[str], int]

    def takes(self, text: str) -> bool:
        """Say whether a text is short enough."""
        return self.length(text) <= self.amount


def characters(text: str) -> int:
    """As GitHub may count them: what lies above U+FFFF may count twice."""
    return len(text) + sum(character > "\uffff" for character in text)


def octets(text: str) -> int:
    """As UTF-8."""
    return len(text.encode("utf-8", "replace"))


def markdown(contents: Contents, limit: Limit) -> str:
    """The text, as long as it may be; without any markup of those whose names are in it."""
    if contents.comparison is not None:
        told = without_what_is_told(contents.comparison, contents.verdict)
        contents = replace(contents, comparison=told)
    for values in _tries(contents):
        text = tidied(render(TEMPLATE, **values))
        if limit.takes(text):
            return text
    return _headline(contents)


def _tries(contents: Contents) -> Iterator[dict[str, Any]]:
    values = {
        "report": contents,
        "verdict": contents.verdict,
        "comparison": contents.comparison,
        "chart": chart(contents),
        "place": linked("the report", contents.site.run),
        "icon": ICONS[contents.verdict.state],
        "left_out": [],
        "shed": (),
    }
    for rows in ROWS:
        yield {**values, "rows": rows}
    for number in range(1, len(SHED) + 1):
        shed = SHED[:number]
        yield {**values, "rows": ROWS[-1], "shed": shed, "left_out": left_out(contents, shed)}


def left_out(contents: Contents, shed: tuple[str, ...]) -> list[tuple[int, str]]:
    """How much is in the sections that are left out, the most important first."""
    counts = contents.counts
    return [counts[name] for name in reversed(shed) if counts.get(name, (0, ""))[0]]


def chart(contents: Contents) -> str:
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
    return bars_of_times("Wall time by shard", "predicted", shards, walls_s, line_s)


def _headline(contents: Contents) -> str:
    """When nothing else fits: the verdict in a line, short enough for any place."""
    place = linked("the report", contents.site.run)
    said = escaped(one_line(contents.verdict.headline, HEADLINE_WIDTH), HEADLINE_WIDTH)
    first = f"### {ICONS[contents.verdict.state]} {said}"
    return f"{first}\n\nThe rest does not fit here: it is in {place}.\n"


def not_judged(headline: str, why: str) -> str:
    """What is said of a run that could not be judged: nothing is known to have run."""
    return f"### :warning: {escaped(headline)}\n\n{escaped(why)}\n"
