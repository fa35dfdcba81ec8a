"""Predicted wall time by shard as a Mermaid chart, which GitHub draws in Markdown. Pure.

https://mermaid.js.org/syntax/xyChart.html; bars lie, because labels below standing ones overlap.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.model import Plan, Shard

MOST_BARS: Final = 50
KEY_WIDTH: Final = 12
MINUTE_S: Final = 60.0
MINUTES_FROM_S: Final = 180.0
# Readable on GitHub's white and on its dark background; Mermaid's own first colour is not on white.
COLOURS: Final = "#4a8ccc, #d1495b"
LEAST_HEIGHT: Final = 240  # below, Mermaid leaves the axis without numbers
BAR_HEIGHT: Final = 16
FRAME_HEIGHT: Final = 90
HEADROOM: Final = 1.05
# A key in a plan file may be anything: quotes, fences and entities would end the label.
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9 ._-]")


def mermaid(plan: Plan) -> str:
    """The fenced block; over 50 shards, neighbours share a bar as long as their longest."""
    each = math.ceil(len(plan.shards) / MOST_BARS)
    bars = [plan.shards[start : start + each] for start in range(0, len(plan.shards), each)]
    walls_s = [max(shard.predicted.wall_s for shard in bar) for bar in bars]
    most_s = max(*walls_s, plan.lower_bound_s, 0.01) * HEADROOM
    unit, unit_s = ("minutes", MINUTE_S) if most_s >= MINUTES_FROM_S else ("seconds", 1.0)
    longest = ", the longest of each bar's" if each > 1 else ""
    labels = [f'"{label}"' for label in _labels(bars)]
    bound = _number(plan.lower_bound_s / unit_s)
    return "\n".join(
        (
            "```mermaid",
            _settings(len(bars)),
            "xychart-beta horizontal",
            f'    title "Predicted wall by shard{longest}; line: lower bound"',
            f"    x-axis [{', '.join(labels)}]",
            f'    y-axis "{unit}" 0 --> {_number(most_s / unit_s)}',
            f"    bar [{', '.join(_number(wall_s / unit_s) for wall_s in walls_s)}]",
            f"    line [{', '.join([bound] * len(bars))}]",
            "```",
        )
    )


def _settings(bars: int) -> str:
    height = max(LEAST_HEIGHT, FRAME_HEIGHT + BAR_HEIGHT * bars)
    shape = {"height": height, "titleFontSize": 16, "xAxis": {"labelFontSize": 12}}
    settings = {"xyChart": shape, "themeVariables": {"xyChart": {"plotColorPalette": COLOURS}}}
    return f"%%{{init: {json.dumps(settings)}}}%%"


def _labels(bars: Sequence[Sequence[Shard]]) -> list[str]:
    """One a bar, all different: Mermaid would draw bars of one label over each other."""
    found: list[str] = []
    for number, bar in enumerate(bars, 1):
        first, last = _safe(bar[0].key), _safe(bar[-1].key)
        label = first if len(bar) == 1 else f"{first} to {last}"
        found.append(label if label.strip() and label not in found else f"{label} no. {number}")
    return found


def _safe(key: str) -> str:
    return _UNSAFE.sub("-", key[:KEY_WIDTH])


def _number(value: float) -> str:
    return f"{value:.2f}"
