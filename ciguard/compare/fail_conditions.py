"""Which findings fail a run: the words of `--fail-on`, and the exit code they come to. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.errors import ExitCode
from ciguard.model import FAIL_CONDITIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ciguard.compare.comparison import Comparison
    from ciguard.compare.run_changes import LegChange
    from ciguard.compare.test_changes import TransitionKind
    from ciguard.model import Ending

_KINDS: Final[Mapping[str, tuple[TransitionKind, ...]]] = {
    "new-failure": ("newly_failing", "failing_added", "newly_crashed"),
    "timeout": ("newly_timed_out",),
    "oom": ("newly_out_of_memory",),
}
_ENDINGS: Final[Mapping[str, tuple[Ending, ...]]] = {
    "timeout": ("timeout", "deadline"),
    "oom": ("out_of_memory", "memory_guard"),
}
# Nothing could be said of these.
_INCONCLUSIVE: Final = (
    "not enough data", "too noisy to judge", "not measured", "baseline incomplete"
)  # fmt: skip


def triggered(comparison: Comparison, fail_on: Collection[str]) -> tuple[str, ...]:
    """What of `fail_on` this comparison gives a reason for, as `FAIL_CONDITIONS` are ordered."""
    leaked = any(leak.tier == "confirmed" for leak in comparison.leaks)
    slower = comparison.suite_speed.verdict == "slower"
    found = {
        "memory": bool(comparison.memory.of_tier("confirmed")) or leaked,
        "duration": bool(comparison.durations.of_tier("confirmed")) or slower,
        "incomplete": bool(comparison.incomplete_reasons),
    }
    for word, kinds in _KINDS.items():
        found[word] = any(one.kind in kinds for one in comparison.transitions)
    for word, endings in _ENDINGS.items():
        found[word] |= any(_newly(leg, endings) for leg in comparison.legs)
    return tuple(word for word in FAIL_CONDITIONS if word in fail_on and found[word])


def _newly(leg: LegChange, endings: tuple[Ending, ...]) -> bool:
    return leg.after in endings and leg.before not in endings


def exit_code(
    comparison: Comparison, fail_on: Collection[str], *, strict: bool = False
) -> ExitCode:
    """Incomplete outranks failed tests outrank a regression outranks inconclusive.

    Args:
        strict: end with 12 when memory or durations could not be judged.
    """
    found = triggered(comparison, fail_on)
    if "incomplete" in found:
        return ExitCode.INCOMPLETE
    if any(word in _KINDS for word in found):
        return ExitCode.TESTS_FAILED
    if found:
        return ExitCode.REGRESSION
    verdicts = (comparison.durations, comparison.memory)
    if strict and any(verdict.verdict in _INCONCLUSIVE for verdict in verdicts):
        return ExitCode.INCONCLUSIVE
    return ExitCode.OK
