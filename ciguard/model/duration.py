"""Durations as people write them, in the configuration and on the command line."""

from __future__ import annotations

import re
from typing import Final

SECONDS_BY_UNIT: Final = {"s": 1, "m": 60, "h": 3600}


def parse_seconds(text: str) -> float:
    """5400.0 for "1h30m" or "1.5h"; raises ValueError for a text without units, or of others."""
    if not re.fullmatch(r"(\d+(\.\d+)?[smh])+", text):
        raise ValueError('expected a time like "45m", "1h30m" or "90s"')
    parts = re.findall(r"([\d.]+)([smh])", text)
    return float(sum(float(number) * SECONDS_BY_UNIT[unit] for number, unit in parts))
