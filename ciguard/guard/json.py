"""A verdict for programs: JSON (schema 1), step outputs, annotations beside the code. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from ciguard.guard.failure_groups import summary_line
from ciguard.guard.log_patterns import allocation_of
from ciguard.guard.view import FailedTest, describe_result, group_by_test, how
from ciguard.guard.wording import finding_message, headline
from ciguard.model import Result, Suite, UnitKey, repository_path
from ciguard.render.notes import MAX_NAMED, Note, name_some
from ciguard.text import one_line, unit_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.guard.verdict import Excused, Failure, FailureGroup, Finding, Flaky, Leg, Verdict
    from ciguard.model.machine_use import MachineUse
    from ciguard.model.moved_units import MovedUnits

SCHEMA: Final = 1
SHOWN: Final = 10  # GitHub shows so many errors, and so many warnings, of a step
_CHARS: Final = 400  # of a test's message; GitHub takes 64 KB, too much to read in a margin


def as_json(verdict: Verdict) -> dict[str, Any]:
    """Every key is there; null is what is not known."""
    return {
        "schema": SCHEMA,
        "verdict": verdict.state,
        "exit_code": int(verdict.exit_code),
        "headline": headline(verdict),
        "plan_id": verdict.plan.id,
        "units": {
            "planned": verdict.planned,
            "with_result": verdict.with_result,
            "new": verdict.new,
            "gone": verdict.gone,
        },
        "counts": dict(verdict.counts),
        "endings": dict(verdict.endings),
        "legs": [_leg(leg) for leg in verdict.legs],
        "failures": [_failure(failure) for failure in verdict.failures],
        "quarantined": [_excused(one) for one in verdict.quarantined],
        "failing_on_base": [_excused(one) for one in verdict.failing_on_base],
        "failure_groups": [_failure_group(group) for group in verdict.failure_groups],
        "hotspots": [asdict(hotspot) for hotspot in verdict.hotspots],
        "flaky": [_flaky(one) for one in verdict.flaky],
        "passed_after_oom": [_flaky(one) for one in verdict.passed_after_oom],
        "missing": [
            {
                **_key(one.key),
                "shard": one.shard,
                "planned_shard": one.planned_shard or one.shard,
                "reason": _reason(one.reason),
            }
            for one in verdict.missing
        ],
        "findings": [_finding(finding) for finding in verdict.findings],
        "moved": _moved(verdict.moved) if verdict.moved is not None else None,
    }


def _moved(moved: MovedUnits) -> dict[str, Any]:
    """Return the sums of the moves, as a whole and by shard."""
    names = ("units", "ran_twice", "shards", "makespan_s", "static_makespan_s")
    costs = ("requests", "waited_s", "starts_s")
    totals = {name: getattr(moved, name) for name in (*names, *costs)}
    return {**totals, "legs": [asdict(leg) for leg in moved.legs]}


def _key(key: UnitKey) -> dict[str, str]:
    return {"suite": key.suite, "variant": key.variant, "unit": key.unit}


def result(case_result: Result) -> dict[str, Any]:
    """A result in the record's words."""
    return {
        **_key(case_result.key.unit_key),
        "case": case_result.case or case_result.unit,
        "outcome": case_result.outcome,
        "ending": case_result.ending,
        "message": case_result.message,
        "file": case_result.file,
        "line": case_result.line,
    }


def _failure(failure: Failure) -> dict[str, Any]:
    asked = allocation_of(failure.result)
    return {
        "shard": failure.shard,
        **result(failure.result),
        "failed_allocation": dict(asked.facts) if asked is not None else None,
    }


def _flaky(one: Flaky) -> dict[str, Any]:
    return {**_key(one.key), "shard": one.shard, "first": result(one.first)}


def _excused(excused: Excused) -> dict[str, Any]:
    return {
        "shard": excused.shard,
        **result(excused.result),
        "reason": _reason(excused.reason),
    }


def _reason(reason: Note) -> dict[str, Any]:
    return {"kind": reason.kind, "facts": dict(reason.facts)}


def _failure_group(group: FailureGroup) -> dict[str, Any]:
    first = group.failures[0]
    return {
        "kind": group.kind,
        "frame": group.frame or None,
        "message": group.message or None,
        "failures": len(group.failures),
        "shards": sorted({failure.shard for failure in group.failures}),
        "first": _failure(first),
    }


def _leg(leg: Leg) -> dict[str, Any]:
    return {
        "shard": leg.shard,
        "recorded": leg.recorded,
        "ending": leg.ending,
        "run_attempt": leg.run_attempt,
        "started_at": leg.started_at.isoformat() if leg.started_at is not None else None,
        "units": {"planned": leg.planned, "with_result": leg.with_result},
        "wall_s": {"predicted": leg.predicted_wall_s, "actual": leg.wall_s},
        "peak_bytes": {
            "predicted": leg.predicted_peak_bytes,
            "actual": leg.peak_bytes,
            "measured_by": leg.peak_measured_by,
        },
        "counts": dict(leg.counts),
        "endings": dict(leg.endings),
        "machine": _machine(leg.machine),
    }


def _machine(use: MachineUse) -> dict[str, Any]:
    """`units` are those that ran at a moment, as far as the record says."""
    found = asdict(use)
    for moment in found.values():
        if moment and "units" in moment:
            moment["units"] = [key._asdict() for key in moment["units"]]
    return found


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "level": finding.level,
        "kind": finding.kind,
        "facts": dict(finding.facts),
        "shard": finding.shard or None,
        "units": [_key(key) for key in finding.units],
        "cause": _reason(finding.cause) if finding.cause is not None else None,
        "evidence": [{**_reason(one), "url": one.url or None} for one in finding.evidence],
        "culprits": [_key(key) for key in finding.culprits],
    }


@dataclass(frozen=True, slots=True)
class Annotation:
    """A message at a place, or at none; `file` is relative to the repository's root."""

    level: Literal["error", "warning"]
    message: str
    title: str = ""
    file: str = ""
    line: int | None = None


def annotations_of(
    verdict: Verdict, suites: Mapping[str, Suite], most: int = SHOWN
) -> tuple[Annotation, ...]:
    """At most so many errors, first what makes it incomplete, and at most as many warnings.

    Where the failures are too many, one for each cause of them, the largest first.

    Args:
        suites: of the plan, by name.
    """
    errors = [_of_finding(one, "error") for one in verdict.findings if one.level != "warning"]
    failed = group_by_test(verdict.failures, lambda one: how(one.result))
    if len(errors) + len(failed) > most:
        errors += [_of_cause(cause, suites) for cause in verdict.failure_groups]
    else:
        errors += [_of_failure(test, suites) for test in failed]
    if len(errors) > most:
        hidden = len(errors) - most + 1
        errors[most - 1 :] = [Annotation("error", f"{hidden:,} more: see log")]
    warnings = [_of_finding(one, "warning") for one in verdict.findings if one.level == "warning"]
    return (*errors, *warnings[:most])


def _of_finding(finding: Finding, level: Literal["error", "warning"]) -> Annotation:
    text = "\n".join([one_line(finding_message(finding), 1000), *_name_units(finding.units)])
    return Annotation(level, text, finding.kind.replace("_", " "))


def _of_failure(test: FailedTest, suites: Mapping[str, Suite]) -> Annotation:
    result = test.first.result
    title = unit_name(test.key.unit_key, 120)
    shards = list(dict.fromkeys(one.shard for one in test.failures))
    named = f"{'shard' if len(shards) == 1 else 'shards'} {name_some(shards)}"
    place = ", ".join(filter(None, (test.combinations(suites), named)))
    return _at_place(result, f"{describe_result(result, _CHARS)} ({place})", title, suites)


def _of_cause(cause: FailureGroup, suites: Mapping[str, Suite]) -> Annotation:
    """At the first of its failures that knows a place."""
    failed = group_by_test(cause.failures, lambda _: "")
    if len(failed) == 1:
        return _of_failure(failed[0], suites)
    placed = next((one for one in cause.failures if one.result.file), cause.failures[0]).result
    units = tuple(dict.fromkeys(test.key.unit_key for test in failed))
    text = "\n".join([describe_result(placed, _CHARS), *_name_units(units)])
    return _at_place(placed, text, summary_line(cause, 120), suites)


def _at_place(result: Result, text: str, title: str, suites: Mapping[str, Suite]) -> Annotation:
    file = repository_path(suites, result.suite, result.file)
    return Annotation("error", text, title, file or "", result.line)


def _name_units(keys: Sequence[UnitKey]) -> list[str]:
    """The first few, and how many more."""
    shown = [unit_name(key) for key in keys[:MAX_NAMED]]
    more = len(keys) - len(shown)
    return [*shown, f"and {more:,} more"] if more else shown


def outputs_of(verdict: Verdict) -> dict[str, str]:
    """The step's outputs by name; numbers of results are empty where there is no result."""
    failed = {failure.result.key.unit_key for failure in verdict.failures}
    has_results = any(verdict.counts.values())
    counts = {
        "failed": len(failed),
        "flaky": len(verdict.flaky),
        "quarantined": len(verdict.quarantined),
        "failing_on_base": len(verdict.failing_on_base),
    }
    return {
        "verdict": verdict.state,
        "complete": "false" if verdict.state == "incomplete" else "true",
        "headline": headline(verdict),
        "planned": str(verdict.planned),
        "executed": str(verdict.with_result),
        "new": "" if verdict.new is None else str(verdict.new),
        "gone": "" if verdict.gone is None else str(verdict.gone),
        "missing": str(verdict.planned - verdict.with_result),
        **{name: str(count) if has_results else "" for name, count in counts.items()},
    }


def outputs_without_verdict(headline: str) -> dict[str, str]:
    """The step's outputs where nothing could be judged: no number, as nothing was counted."""
    return {"verdict": "incomplete", "complete": "false", "headline": headline}
