"""Bars with a line over them as a Mermaid chart, which GitHub draws in Markdown. Pure.

https://mermaid.js.org/syntax/xyChart.html; bars lie, because labels below standing ones overlap.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_BARS: Final = 50
KEY_WIDTH: Final = 12
MINUTE_S: Final = 60.0
MINUTES_FROM_S: Final = 180.0
# Readable on GitHub's white and on its dark background; Mermaid's own first colour is not on white.
COLOURS: Final = "#4a8ccc, #d1495b"
MIN_HEIGHT: Final = 240  # below, Mermaid leaves the axis without numbers
BAR_HEIGHT: Final = 16
FRAME_HEIGHT: Final = 90
HEADROOM: Final = 1.05
# A key in a plan file may be anything: quotes, fences and entities would end the label.
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9 ._-]")


def bar_chart(
    title: str,
    line_title: str,
    keys: Sequence[str],
    bars_s: Sequence[float],
    line_s: Sequence[float] = (),
) -> str:
    """Return the fenced block; with more than 50 keys, neighbours share a bar of their maximum.

    Args:
        title, line_title: texts of ciguard, which need no escape.
        keys: at least one, as many as values of `bars_s` and of `line_s`, if there is a line.
    """
    each = math.ceil(len(keys) / MAX_BARS)
    groups = [slice(start, start + each) for start in range(0, len(keys), each)]
    bars = [max(bars_s[group]) for group in groups]
    line = [max(line_s[group]) for group in groups] if line_s else []
    most_s = max(*bars, *line, 0.01) * HEADROOM
    unit, unit_s = ("minutes", MINUTE_S) if most_s >= MINUTES_FROM_S else ("seconds", 1.0)
    line_caption = f"; line: {line_title}" if line else ""
    longest = ", the longest of each bar's" if each > 1 else ""
    labels = [f'"{label}"' for label in _labels([keys[group] for group in groups])]
    return "\n".join(
        (
            "```mermaid",
            _settings(len(bars)),
            "xychart-beta horizontal",
            f'    title "{title}{longest}{line_caption}"',
            f"    x-axis [{', '.join(labels)}]",
            f'    y-axis "{unit}" 0 --> {most_s / unit_s:.2f}',
            *(
                f"    {kind} [{', '.join(f'{value / unit_s:.2f}' for value in values)}]"
                for kind, values in (("bar", bars), ("line", line))
                if values
            ),
            "```",
        )
    )


def _settings(bars: int) -> str:
    height = max(MIN_HEIGHT, FRAME_HEIGHT + BAR_HEIGHT * bars)
    shape = {"height": height, "titleFontSize": 16, "xAxis": {"labelFontSize": 12}}
    settings = {"xyChart": shape, "themeVariables": {"xyChart": {"plotColorPalette": COLOURS}}}
    return f"%%{{init: {json.dumps(settings)}}}%%"


def _labels(groups: Sequence[Sequence[str]]) -> list[str]:
    """Return distinct labels of the bars: Mermaid draws bars of one label over each other."""
    labels: list[str] = []
    for number, group in enumerate(groups, 1):
        first, last = (_UNSAFE.sub("-", key[:KEY_WIDTH]) for key in (group[0], group[-1]))
        label = first if len(group) == 1 else f"{first} to {last}"
        is_usable = label.strip() and label not in labels
        labels.append(label if is_usable else f"{label} no. {number}")
    return labels
