"""The text that a pull request and a job summary are given: rendered to fit GitHub's limits. Pure.

Sections are shed whole and in a stated order: first the rows of long tables, then the comparison's
details, then the guard's. The first line, which is the verdict, always stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.rendering import environment
from ciguard.text import escaped

if TYPE_CHECKING:
    from ciguard.compare.comparison import Comparison
    from ciguard.guard.verdict import Verdict
    from ciguard.model import Plan

ROWS: Final = (200, 50, 15, 5)  # of a table, tried in this order until the text fits
TEMPLATE: Final = "comment.md.j2"


def comment(
    plan: Plan,
    verdict: Verdict,
    comparison: Comparison | None,
    *,
    limit: int,
    why: str = "",
) -> str:
    """Markdown of at most `limit` characters; what was shed is counted in it.

    Args:
        plan: the contract that was judged.
        comparison: None where there is nothing to compare with; then `why` says so.
    """
    template = environment().get_template(TEMPLATE)
    text = ""
    if comparison is not None:
        comparison = _without_what_is_told(comparison, verdict)
    for rows in ROWS:
        text = template.render(
            plan=plan,
            verdict=verdict,
            comparison=comparison,
            why=why,
            rows=rows,
        )
        if len(text) <= limit:
            return text
    first_line = text.strip().partition("\n")[0]
    return f"{first_line[: limit - 100]}\n\nThe rest does not fit into a comment.\n"


def _without_what_is_told(comparison: Comparison, verdict: Verdict) -> Comparison:
    """The comparison without flaky and lost units, which the verdict above it has named."""
    flaky = {one.key for one in (*verdict.flaky, *verdict.starved)}
    shown = tuple(
        one
        for one in comparison.transitions
        if one.kind != "flaky" or one.key.unit_key not in flaky
    )
    return replace(comparison, transitions=shown, lost=())


def without_excused(comparison: Comparison, verdict: Verdict) -> Comparison:
    """The comparison without failures that the guard has excused: they fail nothing here either."""
    excused = {one.result.key for one in (*verdict.quarantined, *verdict.forgiven)}
    counting = tuple(one for one in comparison.transitions if one.key not in excused)
    return replace(comparison, transitions=counting)


def without_plan(why: str) -> str:
    """What is said of a run whose plan was never made: nothing is known to have run."""
    return f"### :warning: INCOMPLETE: this run has no plan\n\n{escaped(why)}\n"
