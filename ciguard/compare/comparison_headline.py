"""The one word that a comparison comes to, and its sentence: the worst first. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ciguard.compare.enums import KINDS, WORSE_KINDS
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.compare.comparison import Comparison
    from ciguard.compare.enums import State, TransitionKind
    from ciguard.compare.run_changes import JobChange
    from ciguard.compare.test_changes import Transition
    from ciguard.model import CaseKey, UnitKey

# What a headline can say: what is missing, a verdict, the first leak, why nothing is judged.
Fact = Literal["missing", "wall_s", "peak_delta_bytes", "suite_speed", "leak", "unjudged"]

STATE_TEXT: Final[dict[State, str]] = {
    "incomplete": "INCOMPLETE",
    "worse": "WORSE",
    "mixed": "MIXED",
    "better": "BETTER",
    "suspect": "SUSPECT",
    "same": "NO SIGNIFICANT DIFFERENCE",
    "inconclusive": "INCONCLUSIVE",
}
UNBLOCKED_OUTCOMES: Final = ("cancelled", "success")
HEADLINE_KINDS: Final[tuple[TransitionKind, ...]] = (
    *WORSE_KINDS, "no_longer_run", "newly_skipped", "fixed", "quarantined", "ignored"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    """What the document has above the comparison.

    Attributes:
        missing: what the run lacks: shards, and tests without a result.
        excused: failures that are quarantined or ignored.
        flaky: units that are named as flaky.
        failed: failures that are named, with what changed about them.
        jobs: names and addresses of the jobs that fail by those.
    """

    missing: bool = False
    excused: bool = False
    flaky: frozenset[UnitKey] = frozenset()
    failed: frozenset[CaseKey] = frozenset()
    jobs: frozenset[str] = frozenset()

    def has(self, transition: Transition) -> bool:
        """Say that a transition is named above."""
        if transition.kind == "flaky":
            return transition.key.unit_key in self.flaky
        return transition.key in self.failed or (self.excused and bool(transition.excuse))

    def has_job(self, job: JobChange) -> bool:
        """Say that a job fails by what is named above."""
        return job.transition == "newly failing" and not self.jobs.isdisjoint((job.name, job.url))


NOTHING_SHOWN: Final = Shown()


class Headline(NamedTuple):
    """The sentence of a comparison, and the facts that it has."""

    text: str
    facts: frozenset[Fact]


def with_headline(comparison: Comparison) -> Comparison:
    """The comparison with its state and its sentence, whatever it had."""
    comparison = replace(comparison, state=state_of(comparison))
    return replace(comparison, headline=headline(comparison).text)


def headline(comparison: Comparison, shown: Shown = NOTHING_SHOWN) -> Headline:
    """The sentence of a comparison, the worst first; nothing that was shown above it."""
    parts: list[tuple[Fact | None, str]] = []
    if not (shown.missing and comparison.state == "incomplete"):
        parts += [("missing", text) for text in _missing(comparison)]
    parts += [(None, text) for text in _counts(comparison)]
    parts += _numbers(comparison)
    if not parts and comparison.unjudged_reason:
        parts = [("unjudged", comparison.unjudged_reason)]
    elif not parts and comparison.base is None:
        parts = [(None, f"{count_of(comparison.candidate.cases, 'test')}, no base")]
    elif not parts:
        parts = [(one.measure, one.said) for one in (comparison.memory, comparison.durations)]
    text = "; ".join(text for _, text in parts)
    facts = frozenset(fact for fact, _ in parts if fact is not None)
    return Headline(f"{STATE_TEXT[comparison.state]}: {text}", facts)


def _missing(comparison: Comparison) -> Iterator[str]:
    yield from comparison.incomplete_reasons
    sure = [one for one in comparison.lost_units if one.certain]
    if len(sure) == len(comparison.incomplete_reasons) == 1:
        yield f"{count_of(len(sure[0].units), 'test')} lost with it"
    elif len(sure) == 1:
        yield sure[0].describe
    elif sure:
        units = sum(len(one.units) for one in sure)
        yield f"{count_of(units, 'test')} lost with {len(sure):,} shards"
    for one in comparison.lost_units:
        if not one.certain:
            yield f"{count_of(len(one.units), 'test')} of the base without a result"


def _counts(comparison: Comparison) -> Iterator[str]:
    for word in ("unblocked", "newly cancelled"):
        if number := sum(one.transition == word for one in comparison.jobs):
            yield f"{count_of(number, 'job')} {word}"
    for kind in HEADLINE_KINDS:
        if number := len(comparison.of_kind(kind)):
            yield f"{number:,} {KINDS[kind]}"


def _numbers(comparison: Comparison) -> Iterator[tuple[Fact | None, str]]:
    """The verdicts; without any, only what has numbers to show."""
    for leak in comparison.leaks[:1]:
        more = len(comparison.leaks) - 1
        yield "leak", leak.describe + (f", and {more} more" if more else "")
    if comparison.suite_speed.verdict in ("slower", "maybe slower", "faster"):
        yield "suite_speed", comparison.suite_speed.said
    for text in comparison.doubled:
        yield None, text
    for verdict in comparison.verdicts:
        if verdict.verdict != "not measured" or verdict.measured_otherwise:
            is_same = comparison.state == "same"
            yield verdict.measure, verdict.brief if is_same else verdict.said


def state_of(comparison: Comparison) -> State:
    """What all that was found comes to."""
    found, pace = comparison.transitions, comparison.suite_speed.verdict
    kinds = {one.kind for one in found}
    words = {comparison.durations.verdict, comparison.memory.verdict}
    leaks = {one.tier for one in comparison.leaks}
    if comparison.incomplete_reasons:
        return "incomplete"
    worse = bool(kinds & set(WORSE_KINDS)) or bool(words & {"regressed", "mixed"})
    worse |= pace == "slower" or "confirmed" in leaks
    # Units that are gone take their failures, time and memory with them: that is no gain.
    better = "fixed" in kinds or "improved" in words or pace == "faster"
    better |= any((one.before, one.after) == UNBLOCKED_OUTCOMES for one in comparison.jobs)
    better &= not has_missing_tests(found)
    if worse:
        return "mixed" if better or "mixed" in words else "worse"
    if comparison.memory.verdict == "suspects" or pace == "maybe slower" or "suspect" in leaks:
        return "suspect"
    if comparison.doubled:
        return "suspect"
    if better:
        return "better"
    if has_missing_tests(found) or comparison.base is None:
        return "inconclusive"
    # What did not run this time is no proof of anything, least of all of no difference.
    stopped = any(one.transition == "newly cancelled" for one in comparison.jobs)
    if "newly_skipped" in kinds or stopped:
        return "inconclusive"
    # Nearly every run has a duration suspect by chance: alone, they are no difference.
    known = words & {"no significant difference", "suspects"}
    return "same" if known else "inconclusive"


def has_missing_tests(transitions: Sequence[Transition]) -> bool:
    """Say that a case has no result any more; a whole leg may be gone with it."""
    return any(one.kind == "no_longer_run" for one in transitions)
