"""CTRF, the Common Test Report Format: JSON, schema of github.com/ctrf-io/ctrf, 2026-11. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ciguard import __version__
from ciguard.export.cases import Combination, ExportedCase, count_outcomes, status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.model import Record, Result, ShardLine

SPEC_VERSION: Final = "1.0.0"
_STATUS: Final = {"passed": "passed", "skipped": "skipped", "failed": "failed", "error": "failed"}
_MS: Final = 1000


def to_ctrf(combination: Combination, records: Sequence[Record]) -> bytes:
    """Encode a document; a case without a result is `failed`, with the raw status "no result"."""
    headers = [record.header for record in records if record.header is not None]
    cases = combination.cases
    counts = count_outcomes(cases)
    start_ms, stop_ms = _span_ms(records)
    content = {
        "reportFormat": "CTRF",
        "specVersion": SPEC_VERSION,
        "generatedBy": f"ciguard {__version__}",
        "results": {
            "tool": {"name": "ciguard", "version": __version__},
            "summary": {
                "tests": len(cases),
                "passed": counts["passed"],
                "failed": counts["failed"] + counts["error"],
                "skipped": counts["skipped"],
                "pending": 0,
                "other": 0,
                "flaky": sum(case.is_flaky for case in cases),
                "start": start_ms,
                "stop": stop_ms,
            },
            "tests": [_test(case, combination) for case in cases],
            "environment": _environment(combination, headers),
        },
    }
    return json.dumps(content, indent=1).encode("ascii") + b"\n"


def _span_ms(records: Sequence[Record]) -> tuple[int, int]:
    """Return start of the first job and end of the last, ms since 1970; zeros where unknown."""
    starts, ends = [], []
    for record in records:
        if record.started_at is not None:
            start_s = record.started_at.timestamp()
            starts.append(start_s)
            ends.append(start_s + (record.wall_s or 0.0))
    return (int(min(starts) * _MS), int(max(ends) * _MS)) if starts else (0, 0)


def _test(case: ExportedCase, combination: Combination) -> dict[str, Any]:
    result = case.result
    suite = [part for part in (combination.name, case.file or case.classname) if part]
    test: dict[str, Any] = {
        "name": case.name,
        "status": _STATUS[status(case)],
        "duration": round(_MS * (result.wall_s or 0.0)) if result is not None else 0,
        "suite": suite,
        "rawStatus": _raw_status(case),
        "retries": len(case.failures),
        "flaky": case.is_flaky,
        "extra": {"id": case.key.case, "shard": case.shard},
    }
    if case.file:
        test["filePath"] = case.file
    if result is not None and result.line is not None:
        test["line"] = result.line
    message = case.reason or (result.message if result is not None else None)
    if message and status(case) != "passed":
        test["message"] = message.partition("\n")[0]
        test["trace"] = message
    if result is not None and result.peak_bytes is not None:
        test["extra"]["memory"] = {"peakBytes": result.peak_bytes}
    attempts = [_attempt(number, failure) for number, failure in enumerate(case.failures, 1)]
    return {**test, "retryAttempts": attempts} if attempts else test


def _raw_status(case: ExportedCase) -> str:
    if case.result is None or case.reason:
        return "no result"
    ending = case.result.ending
    return case.result.outcome if ending == "completed" else ending


def _attempt(number: int, result: Result) -> dict[str, Any]:
    attempt: dict[str, Any] = {"attempt": number, "status": "failed"}
    if result.wall_s is not None:
        attempt["duration"] = round(_MS * result.wall_s)
    return {**attempt, "message": result.message} if result.message else attempt


def _environment(combination: Combination, headers: Sequence[ShardLine]) -> dict[str, Any]:
    header = headers[0] if headers else None
    values: dict[str, Any] = {
        "reportName": combination.name,
        "repositoryName": header.repository if header else None,
        "commit": header.tested_sha if header else None,
        "branchName": header.branch if header else None,
        "buildId": str(header.run_id) if header and header.run_id else None,
    }
    return {name: value for name, value in values.items() if value}
