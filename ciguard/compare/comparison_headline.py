"""The one word that a comparison comes to, and its sentence: the worst first. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.compare.enums import KINDS, WORSE_KINDS
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.compare.comparison import Comparison
    from ciguard.compare.enums import State, TransitionKind
    from ciguard.compare.test_changes import LostUnits, Transition

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


def with_headline(comparison: Comparison) -> Comparison:
    """The comparison with its state and its sentence, whatever it had."""
    comparison = replace(comparison, state=state_of(comparison))
    return replace(comparison, headline=headline_of(comparison))


def headline_of(comparison: Comparison, *, include_missing: bool = True) -> str:
    """The sentence of a comparison that has its state.

    Args:
        include_missing: what the run lacks is part of it: False where that was just said.
    """
    gaps = _missing_parts(comparison) if include_missing else ()
    parts = [*gaps, *_parts(comparison), *_numbers(comparison)]
    parts_or_reason = parts or [comparison.unjudged or _uninformative(comparison)]
    return f"{STATE_TEXT[comparison.state]}: {'; '.join(parts_or_reason)}"


def state_of(comparison: Comparison) -> State:
    """What all that was found comes to."""
    found, pace = comparison.transitions, comparison.pace.word
    kinds = {one.kind for one in found}
    words = {comparison.durations.word, comparison.memory.word}
    leaks = {one.tier for one in comparison.leaks}
    if comparison.reasons:
        return "incomplete"
    worse = bool(kinds & set(WORSE_KINDS)) or bool(words & {"regressed", "mixed"})
    worse |= pace == "slower" or "confirmed" in leaks
    # Units that are gone take their failures, time and memory with them: that is no gain.
    better = "fixed" in kinds or "improved" in words or pace == "faster"
    better |= any((one.before, one.after) == UNBLOCKED_OUTCOMES for one in comparison.jobs)
    better &= not has_missing_tests(found)
    if worse:
        return "mixed" if better or "mixed" in words else "worse"
    if comparison.memory.word == "suspects" or pace == "maybe slower" or "suspect" in leaks:
        return "suspect"
    if comparison.doubled:
        return "suspect"
    if better:
        return "better"
    if has_missing_tests(found) or comparison.base is None:
        return "inconclusive"
    # What did not run this time is no proof of anything, least of all of no difference.
    stopped = any(one.word == "newly cancelled" for one in comparison.jobs)
    if "newly_skipped" in kinds or stopped:
        return "inconclusive"
    # Nearly every run has a duration suspect by chance: alone, they are no difference.
    known = words & {"no significant difference", "suspects"}
    return "same" if known else "inconclusive"


def has_missing_tests(transitions: Sequence[Transition]) -> bool:
    """Say that a case has no result any more; a whole leg may be gone with it."""
    return any(one.kind == "no_longer_run" for one in transitions)


def _missing_parts(comparison: Comparison) -> Iterator[str]:
    yield from comparison.reasons
    yield from _lost(comparison.lost, comparison.reasons)


def _parts(comparison: Comparison) -> Iterator[str]:
    unblocked = sum(one.word == "unblocked" for one in comparison.jobs)
    if unblocked:
        yield f"{count_of(unblocked, 'job')} unblocked"
    cancelled = sum(one.word == "newly cancelled" for one in comparison.jobs)
    if cancelled:
        yield f"{count_of(cancelled, 'job')} newly cancelled"
    kinds: tuple[TransitionKind, ...] = (
        *WORSE_KINDS, "no_longer_run", "newly_skipped", "fixed", "quarantined", "forgiven"
    )  # fmt: skip
    for kind in kinds:
        found = len(comparison.of_kind(kind))
        if found:
            yield f"{found:,} {KINDS[kind]}"


def _lost(lost: Sequence[LostUnits], reasons: Sequence[str]) -> Iterator[str]:
    sure = [one for one in lost if one.sure]
    if len(sure) == len(reasons) == 1:
        yield f"{count_of(len(sure[0].units), 'unit')} lost with it"
    elif len(sure) == 1:
        yield sure[0].describe
    elif sure:
        units = sum(len(one.units) for one in sure)
        yield f"{count_of(units, 'unit')} lost with {len(sure):,} shards"
    for one in lost:
        if not one.sure:
            yield f"{count_of(len(one.units), 'unit')} of the base without a result"


def _numbers(comparison: Comparison) -> Iterator[str]:
    """The verdicts; without any, only what has numbers to show."""
    for leak in comparison.leaks[:1]:
        more = len(comparison.leaks) - 1
        yield leak.describe + (f", and {more} more" if more else "")
    if comparison.pace.word in ("slower", "maybe slower", "faster"):
        yield comparison.pace.said
    yield from comparison.doubled
    for verdict in comparison.verdicts:
        if verdict.word != "not measured" or verdict.measured_otherwise:
            yield verdict.brief if comparison.state == "same" else verdict.said


def _uninformative(comparison: Comparison) -> str:
    if comparison.base is None:
        return f"{count_of(comparison.candidate.cases, 'case')}, no base"
    return f"{comparison.memory.said}; {comparison.durations.said}"
