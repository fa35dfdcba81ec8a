"""The headline of a comparison: its state, and what led to it, the worst first. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ciguard.compare.metric_wording import conditions_text, verdicts_text
from ciguard.compare.transitions import WORSE_KINDS
from ciguard.compare.wording import (
    doubled_texts,
    incomplete_text,
    job_counts,
    kind_text,
    leak_text,
    lost_text,
    measure_text,
    state_text,
    suite_speed_text,
    unjudged_text,
)
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.compare.comparison import Comparison
    from ciguard.compare.jobs_only import JobsComparison
    from ciguard.compare.transitions import Transition, TransitionKind
    from ciguard.model import CaseKey, UnitKey

# What a headline can say: what is missing, a verdict, the first leak, why nothing is judged.
Fact = Literal["missing", "wall_s", "peak_delta_bytes", "suite_speed", "leak", "unjudged"]

HEADLINE_KINDS: Final[tuple[TransitionKind, ...]] = (
    *(*WORSE_KINDS, "no_longer_run", "removed", "newly_skipped", "newly_xfailed", "fixed"),
    *("quarantined", "ignored"),
)

HEADLINE_JOBS: Final = ("still cancelled", "newly cancelled", "unblocked")
UNMEASURED: Final = ("not measured", "baseline incomplete")


@dataclass(frozen=True, slots=True)
class Shown:
    """What the document has above the comparison.

    Attributes:
        missing: what the run lacks: shards, and tests without a result.
        excused: failures that are quarantined or forgiven.
        flaky: units that are named as flaky.
        failed: failures that are named, with what changed about them.
    """

    missing: bool = False
    excused: bool = False
    flaky: frozenset[UnitKey] = frozenset()
    failed: frozenset[CaseKey] = frozenset()

    def has(self, transition: Transition) -> bool:
        """Say that a transition is named above."""
        if transition.kind == "flaky":
            return transition.key.unit_key in self.flaky
        return transition.key in self.failed or (self.excused and bool(transition.excuse))


NOTHING_SHOWN: Final = Shown()


class Headline(NamedTuple):
    """The sentence of a comparison, and the facts that it has."""

    text: str
    facts: frozenset[Fact]


def headline(comparison: Comparison, shown: Shown = NOTHING_SHOWN) -> Headline:
    """The sentence of a comparison, the worst first; nothing that was shown above it."""
    parts: list[tuple[Fact | None, str]] = []
    if not (shown.missing and comparison.state == "incomplete"):
        parts += [("missing", text) for text in _missing(comparison)]
    parts += [(None, text) for text in _counts(comparison)]
    parts += _numbers(comparison)
    if not parts and comparison.unjudged_reason:
        parts = [("unjudged", unjudged_text(comparison))]
    elif not parts and comparison.base is None:
        parts = [(None, f"{count_of(comparison.candidate.cases or 0, 'test')}, no base")]
    elif not parts:
        parts = [
            (one.measure, measure_text(one)) for one in (comparison.memory, comparison.durations)
        ]
    if conditions := conditions_text(comparison.conditions):
        parts.insert(0, (None, conditions))
    text = "; ".join(text for _, text in parts)
    facts = frozenset(fact for fact, _ in parts if fact is not None)
    return Headline(f"{state_text(comparison.state)}: {text}", facts)


def _missing(comparison: Comparison) -> Iterator[str]:
    yield from map(incomplete_text, comparison.incomplete_reasons)
    sure = [one for one in comparison.lost_units if one.certain]
    if len(sure) == len(comparison.incomplete_reasons) == 1:
        yield f"{count_of(len(sure[0].units), 'test')} lost with it"
    elif len(sure) == 1:
        yield lost_text(sure[0])
    elif sure:
        units = sum(len(one.units) for one in sure)
        yield f"{count_of(units, 'test')} lost with {len(sure):,} shards"
    for one in comparison.lost_units:
        if not one.certain:
            yield f"{count_of(len(one.units), 'test')} of the base without a result"


def _counts(comparison: Comparison) -> Iterator[str]:
    for word in HEADLINE_JOBS:
        yield from job_counts(one for one in comparison.jobs if one.transition == word)
    counts: Counter[str] = Counter()
    for kind in HEADLINE_KINDS:
        counts[kind_text(kind)] += len(comparison.of_kind(kind))
    yield from (f"{number:,} {text}" for text, number in counts.items() if number)
    for ending, number in comparison.deaths_on_both.items():
        yield f"{number:,} {kind_text('failing_on_both')} ({ending.replace('_', ' ')})"


def _numbers(comparison: Comparison) -> Iterator[tuple[Fact | None, str]]:
    """The verdicts; without any, only what has numbers to show."""
    for leak in comparison.leaks[:1]:
        more = len(comparison.leaks) - 1
        yield "leak", leak_text(leak) + (f", and {more} more" if more else "")
    if comparison.suite_speed.verdict in ("slower", "maybe slower", "faster"):
        yield "suite_speed", suite_speed_text(comparison.suite_speed)
    for text in doubled_texts(comparison):
        yield None, text
    if text := verdicts_text(comparison.metrics):
        yield None, f"metrics: {text}"
    for verdict in comparison.verdicts:
        if verdict.verdict not in UNMEASURED or verdict.measured_otherwise:
            yield verdict.measure, measure_text(verdict, brief=comparison.state == "same")


def jobs_headline(comparison: JobsComparison) -> str:
    """The sentence of two runs without records."""
    unchanged = f"{count_of(len(comparison.unchanged), 'job')} with the same conclusion"
    parts = (*job_counts(comparison.changes), unchanged)
    state = "NO DIFFERENCE" if comparison.state == "same" else comparison.state.upper()
    return f"{state}: no ciguard records, so only jobs are compared: {', '.join(parts)}"
