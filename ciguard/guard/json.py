"""A verdict as JSON for programs (schema 2; docs/reference/json.md describes the keys). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, Final

from ciguard.guard.headline import headline
from ciguard.guard.log_patterns import allocation_of
from ciguard.guard.verdict import Excused, Failure, FailureGroup, Finding, Flaky, Leg, Verdict
from ciguard.model import CaseKey, Result
from ciguard.model.machine_use import MachineUse
from ciguard.model.moved_units import MovedUnits
from ciguard.render.notes import Note

SCHEMA: Final = 2
NO_ANSWERS: Final[Mapping[CaseKey, Any]] = MappingProxyType({})


def as_json(verdict: Verdict, answers: Mapping[CaseKey, Any] = NO_ANSWERS) -> dict[str, Any]:
    """Return the verdict with all keys; the value of an unknown fact is null.

    Args:
        answers: by failed case whose failure it is, as `compare.json.answers_json` has it.
    """
    base = verdict.coverage_base
    total = base[1].total if base is not None else None
    return {
        "schema": SCHEMA,
        "verdict": verdict.state,
        "exit_code": int(verdict.exit_code),
        "headline": headline(verdict),
        "plan_id": verdict.plan.id,
        "drill": verdict.plan.drill,
        "units": {
            "planned": verdict.planned,
            "with_result": verdict.with_result,
            "new": verdict.new,
            "gone": verdict.gone,
        },
        "counts": dict(verdict.counts),
        "endings": dict(verdict.endings),
        "legs": [_leg(leg) for leg in verdict.legs],
        "failures": [_failure(failure, verdict, answers) for failure in verdict.failures],
        "quarantined": [_excused(failure) for failure in verdict.quarantined],
        "failing_on_base": [_excused(failure) for failure in verdict.failing_on_base],
        "failure_groups": [_group(group, verdict, answers) for group in verdict.failure_groups],
        "hotspots": [asdict(hotspot) for hotspot in verdict.hotspots],
        "flaky": [_flaky(unit) for unit in verdict.flaky],
        "passed_after_oom": [_flaky(unit) for unit in verdict.passed_after_oom],
        "missing": [
            {
                **unit.key._asdict(),
                "shard": unit.shard,
                "planned_shard": unit.planned_shard or unit.shard,
                "reason": _reason(unit.reason),
            }
            for unit in verdict.missing
        ],
        "findings": [_finding(finding) for finding in verdict.findings],
        "moved": _moved(verdict.moved) if verdict.moved is not None else None,
        "coverage": asdict(verdict.coverage) if verdict.coverage is not None else None,
        "coverage_base": base and {"branch": base[0], "percent": total and total.percent},
        "repeats": [{**key._asdict(), **asdict(found)} for key, found in verdict.repeats.items()],
    }


def _moved(moved: MovedUnits) -> dict[str, Any]:
    """Return the sums over the tests that moved between shards: of the run, and by shard."""
    names = ("units", "ran_twice", "shards", "makespan_s", "static_makespan_s")
    costs = ("requests", "waited_s", "starts_s")
    totals = {name: getattr(moved, name) for name in (*names, *costs)}
    return {**totals, "legs": [asdict(leg) for leg in moved.legs]}


def result(case_result: Result) -> dict[str, Any]:
    """Return a result with the words that the record uses."""
    return {
        **case_result.key.unit_key._asdict(),
        "case": case_result.case or case_result.unit,
        "outcome": case_result.outcome,
        "ending": case_result.ending,
        "message": case_result.message,
        "file": case_result.file,
        "line": case_result.line,
    }


def _failure(failure: Failure, verdict: Verdict, answers: Mapping[CaseKey, Any]) -> dict[str, Any]:
    request = allocation_of(failure.result)
    owners = verdict.owners.get(failure.result.key.unit_key)
    return {
        "shard": failure.shard,
        **result(failure.result),
        "failed_allocation": dict(request.facts) if request is not None else None,
        "answer": answers.get(failure.result.key),
        "owners": list(owners) if owners is not None else None,
    }


def _flaky(unit: Flaky) -> dict[str, Any]:
    return {**unit.key._asdict(), "shard": unit.shard, "first": result(unit.first)}


def _excused(excused: Excused) -> dict[str, Any]:
    return {"shard": excused.shard, **result(excused.result), "reason": _reason(excused.reason)}


def _reason(reason: Note) -> dict[str, Any]:
    return {"kind": reason.kind, "facts": dict(reason.facts)}


def _group(group: FailureGroup, verdict: Verdict, answers: Mapping[CaseKey, Any]) -> dict[str, Any]:
    first = group.failures[0]
    return {
        "kind": group.kind,
        "frame": group.frame or None,
        "message": group.message or None,
        "caller": group.caller or None,
        "caller_failures": group.caller_failures,
        "dividing": dict(group.dividing),
        "failures": len(group.failures),
        "shards": sorted({failure.shard for failure in group.failures}),
        "first": _failure(first, verdict, answers),
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
        "fewer_at_once": _reason(leg.fewer_at_once) if leg.fewer_at_once is not None else None,
    }


def _machine(use: MachineUse) -> dict[str, Any]:
    """Return the use of a leg's machine; `units` are those that ran at the moment, if known."""
    moments = asdict(use)
    for moment in moments.values():
        if moment and "units" in moment:
            moment["units"] = [key._asdict() for key in moment["units"]]
    return moments


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "level": finding.level,
        "kind": finding.kind,
        "facts": dict(finding.facts),
        "shard": finding.shard or None,
        "units": [key._asdict() for key in finding.units],
        "cause": _reason(finding.cause) if finding.cause is not None else None,
        "evidence": [{**_reason(note), "url": note.url or None} for note in finding.evidence],
        "culprits": [key._asdict() for key in finding.culprits],
    }
