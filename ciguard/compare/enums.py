"""The words of a comparison: closed sets, and what a reader sees of them. Pure."""

from __future__ import annotations

from typing import Final, Literal

NAME_WIDTH: Final = 200
TIME_UNITS: Final = ("s", "ms", "us", "µs", "ns", "min", "h")  # of metrics
MIN_BASELINE_RUNS: Final = 3  # baseline values without which no number is judged
MIN_RUNS_TO_CONFIRM: Final = 10  # baseline values without which nothing is confirmed
State = Literal["incomplete", "worse", "mixed", "better", "suspect", "same", "inconclusive"]
Measure = Literal["wall_s", "peak_delta_bytes"]
# "unjudged": too few baseline runs for a verdict; "not confirmed": re-runs did not show it again.
MEASURE_NOUN: Final[dict[Measure, str]] = {"wall_s": "duration", "peak_delta_bytes": "peak memory"}
Tier = Literal["confirmed", "suspect", "not confirmed", "unjudged"]
MeasureState = Literal[
    "regressed",
    "improved",
    "mixed",
    "suspects",
    "no significant difference",
    "not enough data",
    "too noisy to judge",
    "not measured",
    "incomplete",
    "baseline incomplete",
]
# "incomplete": an improvement of an incomplete run; "baseline incomplete": measured before only in
# legs that did not end by themselves.
UnjudgedReason = Literal["same run", "baseline incomplete", "few baseline runs"]
TransitionKind = Literal[
    "newly_out_of_memory",
    "newly_timed_out",
    "newly_crashed",
    "newly_failing",
    "failing_added",
    "no_longer_run",
    "newly_skipped",
    "failing_on_both",
    "quarantined",
    "ignored",
    "flaky",
    "fixed",
    "renamed",
    "removed",
    "added",
]
JobTransition = Literal[
    "unblocked", "newly cancelled", "newly failing", "fixed", "newly skipped", "added", "removed"
]
SuiteSpeedState = Literal[
    "slower",
    "maybe slower",
    "faster",
    "maybe faster",
    "no significant difference",
    "unclear",
    "not enough data",
    "not measured",
]
TrendName = Literal["makespan_s", "sum_s", "peak_bytes"]
# In the order in which a reader needs them, with their words.
KINDS: Final[dict[TransitionKind, str]] = {
    "newly_out_of_memory": "newly out of memory",
    "newly_timed_out": "newly timed out",
    "newly_crashed": "newly crashed",
    "newly_failing": "newly failing",
    "failing_added": "failing, added",
    "no_longer_run": "no longer run",
    "newly_skipped": "newly skipped",
    "failing_on_both": "failing on both",
    "quarantined": "quarantined",
    "ignored": "ignored",
    "flaky": "flaky",
    "fixed": "fixed",
    "renamed": "renamed",
    "removed": "removed",
    "added": "added",
}
WORSE_KINDS: Final[tuple[TransitionKind, ...]] = (
    "newly_out_of_memory",
    "newly_timed_out",
    "newly_crashed",
    "newly_failing",
    "failing_added",
)
EXCUSABLE: Final[tuple[TransitionKind, ...]] = (*WORSE_KINDS, "failing_on_both")
