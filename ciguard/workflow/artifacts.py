"""What later jobs download of a test job: artifacts, and coverage data to merge. Pure."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from ciguard.workflow.positions import Edit
from ciguard.workflow.result_upload import glob_of, uploads_artifact
from ciguard.workflow.yaml_values import dependents_of, get, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.workflow.movable_job import MovableJob

SHARD: Final = "${{ matrix.ciguard }}"
MERGE: Final = "merge-multiple"  # an input: files of all artifacts get into one folder
DATA_FILE: Final = "COVERAGE_FILE"  # the variable by which coverage.py names its data file


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


def data_file_edits(job: MovableJob) -> list[Edit]:
    """Append the shard to the names of coverage data files that a later job merges."""
    environments = [get(owner, "env") for owner in (job.value, *job.value["steps"])]
    names = {str(get(environment, DATA_FILE) or "") for environment in environments}
    texts = "|".join(re.escape(name) for name in names if name and SHARD not in name)
    entry = job.source.find("jobs", job.name)
    if not texts or not entry or not any(inputs.get(MERGE) for *_, inputs in find_downloads(job)):
        return []
    uses = re.compile(rf"(?:{texts})(?![\w.-])")
    found = uses.finditer(job.source.text, entry.start, job.source.content_end(entry))
    return [Edit(match.end(), match.end(), f".{SHARD}") for match in found]
