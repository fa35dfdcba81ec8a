"""The delays between tries."""

from __future__ import annotations

from ciguard.serve.state.backoff import MAX_TRIES, retry_delay_s


def test_delays_grow_to_about_a_day_in_all_and_then_end() -> None:
    delays = [retry_delay_s(tries, 0.5) for tries in range(1, MAX_TRIES)]
    assert delays == [20, 80, 320, 1_280, 5_120, 20_480, 43_200]
    assert retry_delay_s(MAX_TRIES, 0.5) is None
    assert retry_delay_s(MAX_TRIES + 1, 0.5) is None


def test_jitter_is_a_quarter_to_either_side() -> None:
    assert [retry_delay_s(1, jitter) for jitter in (0.0, 1.0)] == [15, 25]
