"""A verdict for programs: schema 1 of `ciguard guard --format json`. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from ciguard.guard.wording import headline

if TYPE_CHECKING:
    from ciguard.guard.verdict import Excused, FailureGroup, Finding, Flaky, Leg, Reason, Verdict
    from ciguard.model import Result, UnitKey

SCHEMA: Final = 1


def as_json(verdict: Verdict) -> dict[str, Any]:
    """Every key is there; null is what is not known."""
    return {
        "schema": SCHEMA,
        "verdict": verdict.state,
        "exit_code": int(verdict.exit_code),
        "headline": headline(verdict),
        "plan_id": verdict.plan_id,
        "units": {"planned": verdict.planned, "with_result": verdict.with_result},
        "counts": dict(verdict.counts),
        "endings": dict(verdict.endings),
        "legs": [_leg(leg) for leg in verdict.legs],
        "failures": [
            {"shard": failure.shard, **result(failure.result)} for failure in verdict.failures
        ],
        "quarantined": [_excused(one) for one in verdict.quarantined],
        "failing_on_base": [_excused(one) for one in verdict.failing_on_base],
        "failure_groups": [_failure_group(group) for group in verdict.failure_groups],
        "hotspots": [asdict(hotspot) for hotspot in verdict.hotspots],
        "flaky": [_flaky(one) for one in verdict.flaky],
        "passed_after_oom": [_flaky(one) for one in verdict.passed_after_oom],
        "missing": [
            {**_key(one.key), "shard": one.shard, "reason": _reason(one.reason)}
            for one in verdict.missing
        ],
        "findings": [_finding(finding) for finding in verdict.findings],
    }


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


def _flaky(one: Flaky) -> dict[str, Any]:
    return {**_key(one.key), "shard": one.shard, "first": result(one.first)}


def _excused(excused: Excused) -> dict[str, Any]:
    return {
        "shard": excused.shard,
        **result(excused.result),
        "reason": _reason(excused.reason),
    }


def _reason(reason: Reason) -> dict[str, Any]:
    return {"kind": reason.kind, "facts": dict(reason.facts)}


def _failure_group(group: FailureGroup) -> dict[str, Any]:
    first = group.failures[0]
    return {
        "kind": group.kind,
        "frame": group.frame or None,
        "message": group.message or None,
        "failures": len(group.failures),
        "shards": sorted({failure.shard for failure in group.failures}),
        "first": {"shard": first.shard, **result(first.result)},
    }


def _leg(leg: Leg) -> dict[str, Any]:
    return {
        "shard": leg.shard,
        "recorded": leg.recorded,
        "ending": leg.ending,
        "run_attempt": leg.run_attempt,
        "units": {"planned": leg.planned, "with_result": leg.with_result},
        "wall_s": {"predicted": leg.predicted_wall_s, "actual": leg.wall_s},
        "peak_bytes": {
            "predicted": leg.predicted_peak_bytes,
            "actual": leg.peak_bytes,
            "measured_by": leg.peak_measured_by,
        },
        "counts": dict(leg.counts),
        "endings": dict(leg.endings),
    }


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
