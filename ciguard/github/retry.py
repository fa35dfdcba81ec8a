"""The wait that GitHub asks for after a rate limit, and the limits of ciguard's waits and retries.

Source: docs.github.com, "Rate limits for the REST API", "Exceeding the rate limit".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from stamina import retry_context

__all__ = ["RetryPolicy", "rate_limit_wait_s", "retry_context", "server_time_s"]

# stamina logs each retry; without a handler, Python would print to standard error, where only
# console.py may print.
logging.getLogger("stamina").addHandler(logging.NullHandler())

_FORBIDDEN: Final = 403
_TOO_MANY_REQUESTS: Final = 429


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits of waits and retries.

    Attributes:
        attempts: maximum number of sends of a request, >= 1; rate limits and faults are counted
            separately.
        total_s: limit of all waits for rate limits of a client; a wait beyond it does not begin.
            Five minutes: a waiting report job is billed, and people wait for it.
        first_s: wait after a transport error or 5xx; doubles up to `longest_s`, with jitter.
        fetch_s: limit of one attempt to download an artifact: 256 MiB at 450 KB/s.
        secondary_s: first wait for a secondary limit that names no time; doubles.
    """

    attempts: int = 5
    total_s: float = 300.0
    first_s: float = 0.5
    longest_s: float = 8.0
    fetch_s: float = 600.0
    secondary_s: float = 60.0


def rate_limit_wait_s(
    status: int,
    headers: Mapping[str, str],
    message: str,
    *,
    attempt: int,
    now_s: float,
    secondary_s: float,
) -> float | None:
    """Read from a refusal how long to wait before the next attempt.

    Args:
        headers: with lower-case keys, or a mapping that ignores case.
        attempt: number of sends of the request, >= 1.
        now_s: seconds since the epoch, as `x-ratelimit-reset`, by the clock of the server.

    Returns:
        Seconds >= 0; None if the refusal is no rate limit, so that a wait does not help.
    """
    retry_after_s = _seconds(headers.get("retry-after"))
    is_exhausted = headers.get("x-ratelimit-remaining") == "0"
    is_secondary = "rate limit" in message.lower()
    is_limited = retry_after_s is not None or is_exhausted or is_secondary
    if status != _TOO_MANY_REQUESTS and not (status == _FORBIDDEN and is_limited):
        return None
    if retry_after_s is not None:
        return retry_after_s
    reset_s = _seconds(headers.get("x-ratelimit-reset"))
    if is_exhausted and reset_s is not None:
        return max(0.0, reset_s - now_s)
    return secondary_s * 2.0 ** (attempt - 1)


def _seconds(text: str | None) -> float | None:
    """Parse whole seconds; None for another text."""
    return float(text) if text and text.isascii() and text.isdigit() else None


def server_time_s(date: str | None) -> float | None:
    """Return the server's clock by the `date` of its answer, as seconds since the epoch.

    The clock of this machine may be wrong by hours.
    """
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (ValueError, OverflowError):
        return None
