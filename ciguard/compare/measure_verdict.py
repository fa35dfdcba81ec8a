"""The verdict on one measure: its word and its sentence. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.compare.enums import MEASURE_NOUN
from ciguard.compare.wording import MIN_BASELINE_RUNS
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.compare.enums import Measure, MeasureState
    from ciguard.compare.test_changes import CaseChange, MeasureVerdict


def classify_measure(
    measured: int, judged_tests: int, losses: Sequence[CaseChange], gains: Sequence[CaseChange]
) -> MeasureState:
    """The verdict on a measure.

    Args:
        measured: cases with a value and a baseline.
        judged: those of them with enough baseline values for a verdict.
    """
    if not measured:
        return "not measured"
    if not judged_tests:
        return "not enough data"
    worse = any(change.tier == "confirmed" for change in losses)
    better = any(change.tier == "confirmed" for change in gains)
    if worse and better:
        return "mixed"
    if worse:
        return "regressed"
    if any(change.tier == "suspect" for change in losses):
        return "suspects"
    return "improved" if better else "no significant difference"


def describe_verdict(
    measure: Measure,
    state: MeasureState,
    *,
    judged_tests: int = 0,
    n: int = 0,
    suspects: int = 0,
    losses: Sequence[CaseChange] = (),
    gains: Sequence[CaseChange] = (),
    noise_ratio: float | None = None,
) -> str:
    """The sentence for a verdict.

    Args:
        n: baseline values of a typical case.
    """
    large = sum(one.is_large and one.tier in ("suspect", "unjudged") for one in losses)
    words = _describe_reason(
        measure,
        state,
        judged_tests=judged_tests,
        n=n,
        suspects=suspects,
        losses=losses,
        gains=gains,
        noise_ratio=noise_ratio,
    )
    if not large:
        return words
    return f"{words}; {count_of(large, 'test')} took at least 3 times as long"


def with_measured_otherwise(judgement: MeasureVerdict, cases: int) -> str:
    """The sentence of a judgement, and how many cases it leaves out.

    Args:
        cases: not judged, as memory of their baseline was measured in another way.
    """
    why = "not judged: their baseline was measured in another way"
    if judgement.verdict == "not measured":
        return f"{MEASURE_NOUN[judgement.measure]}: {count_of(cases, 'test')} {why}"
    return f"{judgement.said}, {cases:,} of {judgement.judged_tests + cases:,} {why}"


def _describe_reason(
    measure: Measure,
    word: MeasureState,
    *,
    judged_tests: int,
    n: int,
    suspects: int,
    losses: Sequence[CaseChange],
    gains: Sequence[CaseChange],
    noise_ratio: float | None,
) -> str:
    noun, tests = MEASURE_NOUN[measure], count_of(judged_tests, "test")
    if word == "not measured":
        if measure == "wall_s":
            return f"{noun}: no test of 50 ms or more was measured in both"
        return f"{noun}: not measured in both"
    if word == "not enough data":
        # Numbers of durations move by chance in every run: only those of memory are counted.
        both = (("up", losses), ("down", gains)) if measure == "peak_delta_bytes" else ()
        moved = [
            f"{count_of(len(found), 'test')} {direction}" for direction, found in both if found
        ]
        if moved:
            return f"{noun}: {', '.join(moved)}, no verdict"
        values = count_of(n, "baseline value")
        return f"{noun}: no verdict from {values} a test ({MIN_BASELINE_RUNS} are needed)"
    if word == "too noisy to judge":
        return f"{noun}: too noisy to judge: {noise_ratio:.1f} times the baseline's noise"
    worse = sum(1 for change in losses if change.tier == "confirmed")
    better = sum(1 for change in gains if change.tier == "confirmed")
    parts = []
    if worse:
        parts.append(f"{count_of(worse, 'confirmed regression')}")
    if better:
        parts.append(f"{count_of(better, 'confirmed gain')}")
    if suspects:
        parts.append(f"{count_of(suspects, 'suspect')}")
    if not worse and not better:
        parts.insert(0, "nothing confirmed" if suspects else "no significant difference")
    found = ", ".join(parts)
    return f"{noun}: {found} ({tests} judged, n={n})"
