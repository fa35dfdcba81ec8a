from __future__ import annotations

import pytest
from fakegithub.state import PRIMARY_LIMIT, READ_ONLY, SECONDARY_LIMIT

from ciguard.github.retry import rate_limit_wait_s


def wait_s(
    status: int, headers: dict[str, str], message: str = "", attempt: int = 1
) -> float | None:
    return rate_limit_wait_s(
        status, headers, message, attempt=attempt, now_s=1000.0, secondary_s=60.0
    )


@pytest.mark.parametrize("status", [403, 429])
def test_retry_after_header_takes_precedence(status: int) -> None:
    headers = {"retry-after": "17", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "4000"}
    assert wait_s(status, headers) == 17.0


@pytest.mark.parametrize("status", [403, 429])
def test_exhausted_quota_waits_for_the_reset(status: int) -> None:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1090"}
    assert wait_s(status, headers, PRIMARY_LIMIT) == 90.0
    assert wait_s(status, {**headers, "x-ratelimit-reset": "900"}, PRIMARY_LIMIT) == 0.0


def test_secondary_limit_without_header_waits_a_minute_and_doubles() -> None:
    left = {"x-ratelimit-remaining": "41", "x-ratelimit-reset": "4000"}
    waits = [wait_s(403, left, SECONDARY_LIMIT, attempt) for attempt in (1, 2, 3)]
    assert waits == [60.0, 120.0, 240.0]
    assert wait_s(429, {}) == 60.0


@pytest.mark.parametrize("odd", ["", "soon", "-5", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT", "²"])
def test_invalid_retry_after_waits_a_minute(odd: str) -> None:
    assert wait_s(429, {"retry-after": odd}) == 60.0


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422])
def test_other_client_errors_are_not_retried(status: int) -> None:
    assert wait_s(status, {"retry-after": "5", "x-ratelimit-remaining": "0"}) is None


def test_missing_permission_is_not_retried() -> None:
    assert wait_s(403, {"x-ratelimit-remaining": "41"}, READ_ONLY) is None
