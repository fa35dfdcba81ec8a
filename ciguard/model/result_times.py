"""When the tests of a result file ran, by its own words: a build cache restores it with the time of
now, and the one in it stays. Pure; Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

_TIME: Final = re.compile(
    rb'\b(?:timestamp|start-time|startTime|start|Time)"?\s*[=:]\s*"'
    rb"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)[\d.]*\s*(Z|[+-]\d\d:\d\d)?"
)


def latest_time_s(content: bytes, behind_utc_s: float) -> float | None:
    """The latest that the first time in a file may mean, in seconds since 1970; None without one.

    Args:
        behind_utc_s: of the clock that a time without a zone may be of, >= 0.
    """
    found = _TIME.search(content[:4096])
    day, time, zone = (part.decode("ascii") for part in found.groups(b"")) if found else [""] * 3
    try:
        at = datetime.fromisoformat(f"{day}T{time}{zone.replace('Z', '') or '+00:00'}")
        return at.timestamp() + (0.0 if zone else behind_utc_s)
    except (ValueError, OverflowError):
        return None
