"""Downloads of a test job's artifacts by later jobs of its workflow. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ciguard.workflow.result_upload import glob_of, uploads_artifact
from ciguard.workflow.yaml_values import dependents_of, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.workflow.movable_job import MovableJob


def find_downloads(job: MovableJob) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield (job, step, inputs) of later steps that download artifacts of a test job."""
    uploading = [step for _, step in steps_of(job.value) if uploads_artifact(step)]
    uploads = [str(step.get("with", {}).get("name", "artifact")) for step in uploading]
    for name in dependents_of(job.workflow, job.name):
        for number, step in steps_of(job.workflow["jobs"][name]):
            inputs = step.get("with", {})
            wanted = str(inputs.get("name", inputs.get("pattern", "*")))
            is_ours = any(
                fnmatchcase(wanted, glob_of(upload)) or fnmatchcase(upload, wanted)
                for upload in uploads
            )
            if is_ours and str(step.get("uses")).startswith("actions/download-artifact@"):
                yield name, number, inputs
