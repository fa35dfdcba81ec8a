"""The time at which the tests of a result file ran, by the file's content. Pure; Python 3.8+.

A build cache restores a file with a new modification time, but its content keeps the old times.
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
    """Return the latest meaning of a file's first time, in seconds since 1970; None without a time.

    Args:
        behind_utc_s: seconds to add to a time without a zone, whose clock may be late, >= 0.
    """
    match = _TIME.search(content[:4096])
    day, time, zone = (part.decode("ascii") for part in match.groups(b"")) if match else [""] * 3
    try:
        at = datetime.fromisoformat(f"{day}T{time}{zone.replace('Z', '') or '+00:00'}")
        return at.timestamp() + (0.0 if zone else behind_utc_s)
    except (ValueError, OverflowError):
        return None
