"""The false-alarm rate that a report states, by the number of baseline runs. Pure.

tests/compare/test_calibration.py checks the rates in simulated runs of 2,000 unchanged tests.
"""

from __future__ import annotations

from typing import Final

from ciguard.compare.statistics import MIN_RUNS_TO_CONFIRM

RUNS_FOR_LOW_RATE: Final = 20  # baseline runs; with fewer, more confirmed peaks are false alarms
FALSE_ALARMS: Final = (
    "False alarms, simulated: a pull request that changes nothing has at most 0.2 confirmed "
    "durations and {peaks} confirmed peaks in 2,000 tests, and names 0.3 durations unconfirmed."
)


def false_alarm_text(baseline_runs: int) -> str:
    """Word the false-alarm rate; "" if there are too few baseline runs to confirm a change."""
    if baseline_runs < MIN_RUNS_TO_CONFIRM:
        return ""
    return FALSE_ALARMS.format(peaks=0.05 if baseline_runs >= RUNS_FOR_LOW_RATE else 0.2)
