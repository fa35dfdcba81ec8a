"""Test jobs that upload their results only after a success. Pure.

A step without a status check function in its `if` runs as if it had `success()`: where the tests
fail or the process dies, no later step of this kind uploads what they wrote until then. Source:
GitHub's documentation of status check functions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ciguard.audit.rules.base import RuleFinding
from ciguard.audit.rules.upload_actions import upload_kind
from ciguard.audit.rules.workflow_evidence import job_title, locate
from ciguard.workflow.test_commands import find_test_commands, step_script
from ciguard.workflow.yaml_values import jobs_of, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.audit.rules.base import WorkflowFile
    from ciguard.audit.rules.upload_actions import UploadKind

_AFTER_FAILURE: Final = re.compile(r"\b(always|cancelled)\(\)|(?<!!)\bfailure\(\)", re.I)


class _Upload(NamedTuple):
    number: int
    kind: UploadKind
    is_after_failure: bool


def check_workflow(
    workflow: WorkflowFile, required_checks: frozenset[str] | None
) -> Iterator[RuleFinding]:
    """Find test jobs whose results are lost when their tests fail."""
    del required_checks  # the results of any job are worth reading
    for job_id, job in jobs_of(workflow.content).items():
        lost = _find_lost_uploads(job)
        if not lost:
            continue
        kinds = sorted({upload.kind for upload in lost})
        is_certain = "results" in kinds
        yield RuleFinding(
            "results-only-on-success",
            job_title(job_id, job),
            locate(workflow, *((("jobs", job_id, "steps", one.number), "") for one in lost)),
            {"kinds": kinds},
            certainty="certain" if is_certain else "possible",
            doubt="" if is_certain else "coverage_only",
        )


def _find_lost_uploads(job: Any) -> list[_Upload]:
    """The uploads after the first test step that no upload after a failure stands in for."""
    uploads: list[_Upload] = []
    is_after_tests = False
    for number, step in steps_of(job):
        kind = upload_kind(step)
        if kind and is_after_tests:
            condition = "".join(str(step.get("if", "")).split())
            uploads.append(_Upload(number, kind, bool(_AFTER_FAILURE.search(condition))))
        if not step.get("continue-on-error") and find_test_commands(step_script(step)):
            is_after_tests = True
    safe = {upload.kind for upload in uploads if upload.is_after_failure}
    # Results tell of a failure what coverage cannot: a job that keeps them loses nothing.
    return [
        upload
        for upload in uploads
        if not upload.is_after_failure and upload.kind not in safe and "results" not in safe
    ]
