"""How long GitHub asks a client to wait, and how long ciguard is willing to. Retries by stamina.

Source: docs.github.com, "Rate limits for the REST API", "Exceeding the rate limit".
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from stamina import retry_context

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = ["RetryPolicy", "rate_limit_wait_s", "retry_context", "server_time_s"]

# stamina reports each retry by logging; without a handler Python would print it to standard error,
# which is console.py's alone.
logging.getLogger("stamina").addHandler(logging.NullHandler())

_FORBIDDEN: Final = 403
_TOO_MANY_REQUESTS: Final = 429


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds of waiting, in seconds.

    Attributes:
        attempts: how often one request is sent at most, >= 1; rate limits and faults of network
            or server are counted apart.
        total_s: waits for rate limits over the client's whole life; the one that would pass it is
            not begun. Five minutes: a report job idles, it is billed, and somebody looks at it.
        first_s: wait after a transport error or 5xx; doubles up to `longest_s`, with jitter.
        fetch_s: for one attempt at an artifact: 256 MiB at 450 KB/s.
        secondary_s: first wait for a secondary limit that names none; doubles.
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
    """Read out of a refusal how long to wait before the same request is sent again.

    Args:
        headers: with lower-case keys, or a mapping that ignores case.
        attempt: how often the request was sent, >= 1.
        now_s: seconds since the epoch, as `x-ratelimit-reset`, by the clock of the server.

    Returns:
        Seconds >= 0; None where the refusal is no rate limit, so that waiting does not help.
    """
    retry_after_s = _seconds(headers.get("retry-after"))
    spent = headers.get("x-ratelimit-remaining") == "0"
    secondary = "rate limit" in message.lower()
    limited = retry_after_s is not None or spent or secondary
    if status != _TOO_MANY_REQUESTS and not (status == _FORBIDDEN and limited):
        return None
    if retry_after_s is not None:
        return retry_after_s
    reset_s = _seconds(headers.get("x-ratelimit-reset"))
    if spent and reset_s is not None:
        return max(0.0, reset_s - now_s)
    return secondary_s * 2.0 ** (attempt - 1)


def _seconds(text: str | None) -> float | None:
    """Read GitHub's whole seconds; anything else counts as not said."""
    return float(text) if text and text.isascii() and text.isdigit() else None


def server_time_s(date: str | None) -> float | None:
    """The server's clock, by the `date` of its answer; ours may be wrong by hours (seconds since
    the epoch).
    """
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (ValueError, OverflowError):
        return None
