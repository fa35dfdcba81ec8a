"""How long a row of the work list waits after each failed try: exponential, with jitter."""

from __future__ import annotations

from typing import Final

MAX_TRIES: Final = 8  # the last one about 20 hours after the first: a night's outage is survived
FIRST_DELAY_S: Final = 20.0
FACTOR: Final = 4.0
MAX_DELAY_S: Final = 12 * 60 * 60.0
JITTER_RATIO: Final = 0.25  # what failed together, when GitHub did, is not retried together
LONGEST_DELAY_S: Final = MAX_DELAY_S * (1 + JITTER_RATIO)


def retry_delay_s(tries: int, jitter: float) -> float | None:
    """Say how long to wait after so many tries, all failed.

    Args:
        tries: >= 1.
        jitter: from 0 to 1; 0.5 changes nothing.

    Returns:
        Seconds; None after MAX_TRIES.
    """
    if tries >= MAX_TRIES:
        return None
    delay_s = min(MAX_DELAY_S, FIRST_DELAY_S * FACTOR ** (tries - 1))
    return delay_s * (1 + JITTER_RATIO * (2 * jitter - 1))
