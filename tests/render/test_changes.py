"""Changes in words: ratios of notable values, amounts of small ones, intervals in the same unit."""

from __future__ import annotations

import pytest

from ciguard.render.changes import estimated_change, exact_change, relative_change

MIB = 1 << 20
FROM_0 = float("inf")


def test_exact_changes_have_two_decimals_and_their_amount() -> None:
    assert exact_change(-10_960_000, -0.595652, "bytes") == "-59.57 % (-10.5 MiB)"
    assert exact_change(430, 0.5, "s") == "+50.00 % (+7 min 10 s)"
    assert exact_change(-430, -0.4375, "s") == "-43.75 % (-7 min 10 s)"  # not "-8 min 50 s"
    assert exact_change(5, None, "s") == "+5.00 s"
    assert exact_change(0, 0.0, "bytes") == "+0.00 % (0 B)"
    assert exact_change(101_376, 25_565.0, "B") == "+99.0 KiB"
    assert exact_change(-42, -0.48, "%") == "-42 points"


@pytest.mark.parametrize(
    ("ratio", "low", "high", "words"),
    [
        (8.94, None, None, ("+894 %", "")),
        (9.0, None, None, ("10 times", "")),
        (12345.0, None, None, ("12,346 times", "")),
        (-0.995, None, None, ("-100 %", "")),
        (-0.03, None, None, ("-3.0 %", "")),
        (0.1, 0.08, 0.12, ("+10 %", "+8..+12")),
        (0.085, 0.081, 0.09, ("+8.5 %", "+8.1..+9.0")),
        (11.0, -0.2, 12.0, ("12 times", "0.80..13 times")),
        (7.27, -0.09, 74.0, ("8.3 times", "0.91..75 times")),  # not "+727 %"
        (412.0, 40.0, 41200.0, ("413 times", "41..more")),
    ],
)
def test_interval_has_the_unit_of_its_ratio(
    ratio: float, low: float | None, high: float | None, words: tuple[str, str]
) -> None:
    assert relative_change(ratio, low, high) == words


@pytest.mark.parametrize(
    ("unit", "before", "after", "ends", "words"),
    [
        ("bytes", 4096, 99.9 * MIB, (21138.0, 30905.0), ("+99.9 MiB", "+82.6..+121 MiB")),
        ("bytes", 15.9 * MIB, 4 * MIB, (-0.8, -0.7), ("-11.9 MiB", "-12.7..-11.1 MiB")),
        ("bytes", 1 * MIB, 1.5 * MIB, (-0.5, 1.5), ("+512 KiB", "-512 KiB..+1.50 MiB")),
        ("bytes", 16 * MIB, 24 * MIB, (0.4, 0.6), ("+50 %", "+40..+60")),
        ("bytes", 0, 24 * MIB, (None, None), ("+24.0 MiB", "")),
        ("s", 0.002, 0.392, (100.0, 300.0), ("+0.39 s", "+0.20..+0.60 s")),
        ("s", 0.1, 0.23, (1.2, 1.4), ("+130 %", "+120..+140")),
        ("%", 87.5, 45.5, (-0.6, -0.4), ("-42 points", "-52.5..-35 points")),
        ("tokens", 2.0, 3.0, (0.4, 0.6), ("+50 %", "+40..+60")),
        ("tokens", 0.0, 3.0, (None, None), ("+3 tokens", "")),
    ],
)
def test_change_of_a_small_value_is_an_amount(
    unit: str,
    before: float,
    after: float,
    ends: tuple[float | None, float | None],
    words: tuple[str, str],
) -> None:
    ratio = after / before - 1 if before else FROM_0
    assert estimated_change(before, after, (ratio, *ends), unit) == words
    if not before:
        assert estimated_change(before, after, (None, None, None), unit) == words
