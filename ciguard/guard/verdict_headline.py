"""The one sentence that a verdict begins with: the worst first, named. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.guard.wording import finding_message
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.guard.verdict import Finding, Leg, Verdict

MAX_NAMED: Final = 3  # shards in the sentence; the rest is counted
EXCEPTION_PREFIX: Final = "but "
POLICY_KINDS: Final = (
    "policy_changed",
    "policy_unread",
)  # a reader of the first line alone is told


def headline(verdict: Verdict) -> str:
    """The sentence, its state in capitals first."""
    sentences = {"incomplete": _incomplete, "failed": _failed, "passed": _passed}
    policy = [finding_message(one) for one in verdict.findings if one.kind in POLICY_KINDS]
    sentence = "; ".join([sentences[verdict.state](verdict), *_excused(verdict), *policy])
    between = ", " if sentence.startswith(EXCEPTION_PREFIX) else ": "
    return f"{verdict.state.upper()}{between}{sentence}"


def _shards(keys: Sequence[str], all_legs: Sequence[Leg]) -> str:
    """ "shard 03 of 8", "shards 03, 05 and 2 more of 8"."""
    word = "shard" if len(keys) == 1 else "shards"
    named = ", ".join(keys[:MAX_NAMED])
    if len(keys) > MAX_NAMED:
        named += f" and {len(keys) - MAX_NAMED} more"
    return f"{word} {named} of {len(all_legs)}"


def _incomplete(verdict: Verdict) -> str:
    # Where all records are of another plan, nothing that follows can be repaired otherwise.
    parts = [finding_message(one) for one in _decisive(verdict) if one.kind == "only_other_plans"]
    absent = [leg.shard for leg in verdict.legs if not leg.recorded]
    if absent:
        verb = "has" if len(absent) == 1 else "have"
        parts.append(
            f"{_shards(absent, verdict.legs)} {verb} no record{_endings_suffix(verdict, absent)}"
        )
    stopped = [leg.shard for leg in verdict.legs if leg.recorded and leg.ending != "completed"]
    if stopped:
        ended = "itself" if len(stopped) == 1 else "themselves"
        how = _endings_suffix(verdict, stopped)
        parts.append(f"{_shards(stopped, verdict.legs)} did not end by {ended}{how}")
    if verdict.missing:
        lost = verdict.planned - verdict.with_result
        verb = "has" if lost == 1 else "have"
        parts.append(f"{lost:,} of {count_of(verdict.planned, 'test')} {verb} no result")
    if not parts:
        parts = [finding_message(finding) for finding in _decisive(verdict)[:2]]
    return "; ".join([*parts, *_failures(verdict)])


def _endings_suffix(verdict: Verdict, keys: Sequence[str]) -> str:
    """ " (superseded)": the endings that are known of these shards."""
    endings = {leg.ending for leg in verdict.legs if leg.shard in keys} - {"unknown", "completed"}
    return f" ({', '.join(sorted(endings)).replace('_', ' ')})" if endings else ""


def _decisive(verdict: Verdict) -> list[Finding]:
    return [finding for finding in verdict.findings if finding.level == verdict.state]


def _count_of_failures(verdict: Verdict) -> str:
    failed = {failure.result.key.unit_key for failure in verdict.failures}
    return f"{len(failed):,} of {count_of(verdict.planned, 'test')} failed"


def _failures(verdict: Verdict) -> list[str]:
    """What failed, beside what may be missing."""
    parts = [_count_of_failures(verdict)] if verdict.failures else []
    red = {finding.shard for finding in verdict.findings if finding.kind == "unexplained_exit"}
    if red:
        shards = _shards(sorted(red), verdict.legs)
        parts.append(f"a process of {shards} failed, and no failed test explains it")
    return parts


def _excused(verdict: Verdict) -> list[str]:
    """What failed and does not count."""
    parts = []
    for found, named in (
        (verdict.quarantined, "quarantined"),
        (verdict.failing_on_base, "ignored"),
    ):
        if found:
            units = {one.result.key.unit_key for one in found}
            parts.append(f"{count_of(len(units), f'{named} test')} failed")
    return parts


def _failed(verdict: Verdict) -> str:
    return "; ".join(_failures(verdict) or [finding_message(one) for one in _decisive(verdict)[:2]])


def _passed(verdict: Verdict) -> str:
    shards = count_of(len(verdict.legs), "shard")
    skipped = verdict.counts.get("skipped", 0)
    if skipped and skipped == sum(verdict.counts.values()):
        every = "the one test" if verdict.planned == 1 else f"all {verdict.planned:,} tests"
        was = "was" if verdict.planned == 1 else "were"
        return f"{EXCEPTION_PREFIX}nothing ran: {every} of {shards} {was} skipped"
    text = f"all {count_of(verdict.planned, 'test')} of {shards} have a result"
    if verdict.planned == 1:
        text = f"the one test of {shards} has a result"
    return text + (f", {skipped:,} of them skipped" if skipped else "")
