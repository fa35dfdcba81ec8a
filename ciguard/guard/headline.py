"""The first sentence of a verdict: the findings, failures and warnings that it names. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from ciguard.guard.verdict import Excused, Failure, Finding, Verdict
from ciguard.guard.wording import finding_message
from ciguard.model import MEMORY_ENDINGS
from ciguard.model.plan import OF_LIST
from ciguard.model.probes import DEPENDENCES
from ciguard.render.notes import name_shards
from ciguard.run.frameworks.registry import FRAMEWORKS
from ciguard.text import count_of

MAX_SHARDS: Final = 3  # shards that the headline names; it counts the others
# Findings that the headline names if there is one, and counts if there are several: their kinds
# (the last is the kind of the omitted rest), noun and verb.
_REPEATED: Final = ("flaky_new_test", *(f"new_test_fails_{how}" for how in DEPENDENCES))
COUNTED: Final[Sequence[tuple[tuple[str, ...], str, str]]] = (
    (("above_limit", "more_above_limit"), "test", "above a limit"),
    ((*_REPEATED, "more_flaky_new_tests"), "new or changed test", "failed when repeated"),
)
SUMMED_UP: Final = (*chain.from_iterable(kinds for kinds, _, _ in COUNTED), "unexplained_exit")
EXCEPTION_PREFIX: Final = "but "
ORPHANS: Final[tuple[str, ...]] = ("orphans", "orphans_of_list", "orphans_lost", "unreached")
# Warnings that the headline names, because many readers see only the headline.
HEADLINE_WARNINGS: Final[tuple[str, ...]] = (
    "absent_shards",
    "base_plan_unread",
    "base_tests_gone",
    "cases_gone",
    "cases_gone_of_changed_file",
    "combination_gone",
    "job_died",
    "policy_changed",
    "policy_unread",
)


def headline(verdict: Verdict, whose: str | None = None) -> str:
    """Return the first sentence of a verdict: its state in capitals, then the worst findings.

    Args:
        whose: origin of the failures in words ("" if unknown), which replaces "FAILED".
    """
    drill = verdict.plan.drill
    if drill is None:
        return _headline(verdict, whose)
    if verdict.is_fault_unnoticed:
        return f"DRILL FAILED: {drill} was not noticed"
    words = dict.fromkeys(MEMORY_ENDINGS, "out of memory")
    endings = [words.get(ending) or ending.replace("_", " ") for ending in verdict.endings]
    causes = f" ({', '.join(endings)})" if endings else ""
    return f"DRILL ({drill}): {_headline(verdict, None)}{causes}"


def _headline(verdict: Verdict, whose: str | None) -> str:
    decisive = [finding for finding in verdict.findings if finding.level == verdict.state]
    parts = [*_incomplete(verdict, decisive)] if verdict.state == "incomplete" else []
    if not parts and not (verdict.state == "failed" and verdict.failures):
        parts = [finding_message(item) for item in decisive[:2] if item.kind not in SUMMED_UP]
    if verdict.state == "passed":
        parts = [_passed(verdict)]
    orphans = [finding_message(finding) for finding in decisive if finding.kind in ORPHANS]
    parts += [text for text in orphans[:2] if text not in parts]
    excused = ((verdict.quarantined, "quarantined"), (verdict.failing_on_base, "ignored"))
    warnings = [
        finding_message(item) for item in verdict.findings if item.kind in HEADLINE_WARNINGS
    ]
    parts += [
        *_failed(verdict, whose or ""),
        *(f"{count_of(_units(cases), f'{word} test')} failed" for cases, word in excused if cases),
        *(text for text in warnings if text not in parts),
    ]
    sentence = "; ".join(parts)
    for accepted in verdict.findings:
        if accepted.kind == "orphans_accepted":  # also named for a green run
            sentence += f", {accepted.facts['count']:,} in no shard (acknowledged)"
    separator = ", " if sentence.startswith(EXCEPTION_PREFIX) else ": "
    if whose is not None and verdict.state == "failed" and verdict.failures:
        return sentence
    return f"{verdict.state.upper()}{separator}{sentence}"


def _units(cases: Sequence[Failure | Excused]) -> int:
    return len({case.result.key.unit_key for case in cases})


def _shards(keys: Sequence[str], verdict: Verdict) -> str:
    """Return text such as "shard 03 of 8" or "shards 03, 05 and 2 more of 8"."""
    return f"{name_shards(keys, MAX_SHARDS)} of {len(verdict.legs)}"


def _incomplete(verdict: Verdict, decisive: Sequence[Finding]) -> Iterator[str]:
    # If all records belong to another plan, all other findings follow from this mistake.
    yield from (finding_message(item) for item in decisive if item.kind == "only_other_plans")
    affected = {finding.shard for finding in decisive}
    absent = [leg for leg in verdict.legs if not leg.recorded and leg.shard in affected]
    stopped = [leg for leg in verdict.legs if leg.recorded and leg.ending != "completed"]
    for legs, singular, plural in (
        (absent, "has no record", "have no record"),
        (stopped, "did not end by itself", "did not end by themselves"),
    ):
        if legs:
            endings = sorted({leg.ending for leg in legs} - {"unknown", "completed"})
            known = f" ({', '.join(endings)})".replace("_", " ") if endings else ""
            shards = _shards([leg.shard for leg in legs], verdict)
            yield f"{shards} {singular if len(legs) == 1 else plural}{known}"
    if verdict.missing:
        lost = verdict.planned - verdict.with_result
        verb = "has" if lost == 1 else "have"
        tests = count_of(verdict.planned, unit_noun(verdict))
        yield f"{lost:,} of {tests} {verb} no result{_difference(verdict)}"


def _failed(verdict: Verdict, whose: str) -> Iterator[str]:
    if verdict.failures:
        failed = _units(verdict.failures)
        unplanned = (len(item.units) for item in verdict.findings if item.kind == "unplanned")
        tests = count_of(verdict.planned + sum(unplanned), unit_noun(verdict))
        difference = "" if verdict.missing else _difference(verdict)
        yield f"{failed:,} of {tests} failed{difference}{whose and f': {whose}'}"
    for (*kinds, rest_kind), noun, verb in COUNTED:
        named = [finding for finding in verdict.findings if finding.kind in kinds]
        rest = [one.facts["count"] for one in verdict.findings if one.kind == rest_kind]
        if named:
            many = f"{count_of(len(named) + sum(rest), noun)} {verb}"
            yield finding_message(named[0]) if len(named) == 1 else many
    bad = {finding.shard for finding in verdict.findings if finding.kind == "unexplained_exit"}
    if bad:
        yield f"a process of {_shards(sorted(bad), verdict)} failed, and no failed test explains it"


def _passed(verdict: Verdict) -> str:
    # Shards without a planned test, whose record is missing and whose job is unknown.
    unknown = sum(not leg.recorded and leg.ending == "unknown" for leg in verdict.legs)
    shards = count_of(len(verdict.legs) - unknown, "shard")
    skipped = verdict.counts.get("skipped", 0)
    tests = count_of(verdict.planned, unit_noun(verdict))
    if verdict.plan.is_of_results and skipped < sum(verdict.counts.values()):
        expected = verdict.expected
        if expected is not None:
            shards = f"{expected:,} of {count_of(expected, 'expected shard')}"
        rest = f", {skipped:,} skipped" if skipped else ""
        if verdict.plan.id == OF_LIST:
            return f"results of all {tests} of the list in {shards}{rest}"
        return f"results of {tests} in {shards}{rest}; no list of planned tests"
    every = f"the one {unit_noun(verdict)}" if verdict.planned == 1 else f"all {tests}"
    if skipped and skipped == sum(verdict.counts.values()):
        was = "was" if verdict.planned == 1 else "were"
        return f"{EXCEPTION_PREFIX}NOTHING RAN: {every} of {shards} {was} skipped"
    has = "has" if verdict.planned == 1 else "have"
    # In most frameworks a unit is a file, which has several cases.
    cases = sum(verdict.counts.values())
    of_cases = "of them" if cases == verdict.planned else f"of {count_of(cases, 'case')}"
    suffix = f", {skipped:,} {of_cases} skipped" if skipped else ""
    rest = f", {count_of(unknown, 'shard')} without tests left no record" if unknown else ""
    return f"{every} of {shards} {has} a result{suffix}{_difference(verdict)}{rest}"


def unit_noun(verdict: Verdict) -> str:
    """Return "test file" if the frameworks of all suites select whole files, otherwise "test"."""
    adapters = [FRAMEWORKS.get(suite.framework) for suite in verdict.plan.suites.values()]
    are_files = all(adapter is not None and adapter.unit == "file" for adapter in adapters)
    return "test file" if are_files and adapters else "test"


def _difference(verdict: Verdict) -> str:
    """Return ", 6 new, 1 gone": unplanned tests that exist, and planned tests that do not."""
    counts = ((verdict.new, "new"), (verdict.gone, "gone"))
    return "".join(f", {count:,} {word}" for count, word in counts if count)
