"""The rule which changes of a test's duration or memory a comment lists, and which it counts. Pure.

Most unconfirmed changes of durations in a single run are noise: a comment only counts them, and a
page or the JSON has them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ciguard.compare.statistics import Tier


def is_listed(measure: str, tier: Tier, *, is_large: bool) -> bool:
    """Return whether a comment lists a change: of durations only confirmed or large changes."""
    return measure != "wall_s" or tier == "confirmed" or is_large


def is_counted(measure: str, tier: Tier, *, is_large: bool) -> bool:
    """Return whether a comment only counts a change.

    False over too few baseline runs: without a verdict every test has a change.
    """
    return tier != "unjudged" and not is_listed(measure, tier, is_large=is_large)
