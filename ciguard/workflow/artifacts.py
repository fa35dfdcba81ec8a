"""Artifacts of a test job: uploads of test results and coverage, and later downloads. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from ciguard.workflow.positions import Edit
from ciguard.workflow.test_commands import COVERAGE, RESULTS
from ciguard.workflow.yaml_values import dependents_of, get, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.workflow.movable_job import MovableJob

SHARD: Final = "${{ matrix.ciguard }}"
MERGE: Final = "merge-multiple"  # an input: files of all artifacts get into one folder
DATA_FILE: Final = "COVERAGE_FILE"  # the variable by which coverage.py names its data file


@dataclass(frozen=True, slots=True)
class ResultUpload:
    """An upload of test results.

    Attributes:
        artifact: name of the artifact, with expressions.
        paths: of the uploaded files, as written.
    """

    artifact: str
    paths: tuple[str, ...]

    @property
    def result_patterns(self) -> tuple[str, ...]:
        """Patterns of `--results`; the first folder is an artifact, whose name names the shard."""
        files = []
        for path in self.paths:
            name = _glob(path.rstrip("/").rpartition("/")[2])
            is_file = name.lower().endswith((".trx", ".xml"))
            files += [name] if is_file else ["*.trx", "*.xml"]
        return tuple(f"{_glob(self.artifact)}/**/{name}" for name in dict.fromkeys(files))


def _glob(text: str) -> str:
    """Replace each expression in a text by a star."""
    return re.sub(r"\*+", "*", re.sub(r"\$\{\{.*?\}\}", "*", text, flags=re.DOTALL))


def find_result_upload(job: Any) -> ResultUpload | None:
    """Find the first step that uploads test results, by its paths or the artifact's name."""
    for _, step in steps_of(job):
        inputs = step.get("with")
        if not uploads_artifact(step) or not isinstance(inputs, dict):
            continue
        lines = [line.strip() for line in str(inputs.get("path", "")).splitlines()]
        paths = [line for line in lines if line and not line.startswith(("!", "#"))]
        name = str(inputs.get("name", "artifact"))
        results = [path for path in paths if _is_of_results(path) or path.endswith(".xml")]
        results = [path for path in results if not COVERAGE.search(path)]
        if not results and _is_of_results(name):
            results = paths
        if results:
            return ResultUpload(name, tuple(results))
    return None


def _is_of_results(text: str) -> bool:
    return bool(RESULTS.search(text) and not COVERAGE.search(text))


def uploads_artifact(step: Any) -> bool:
    """Return whether the step uploads an artifact."""
    uses = get(step, "uses")
    return isinstance(uses, str) and uses.startswith("actions/upload-artifact@")


def find_downloads(job: MovableJob) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield (job, step, inputs) of later steps that download artifacts of a test job."""
    uploading = [step for _, step in steps_of(job.value) if uploads_artifact(step)]
    uploads = [str(step.get("with", {}).get("name", "artifact")) for step in uploading]
    for name in dependents_of(job.workflow, job.name):
        for number, step in steps_of(job.workflow["jobs"][name]):
            inputs = step.get("with", {})
            wanted = str(inputs.get("name", inputs.get("pattern", "*")))
            is_ours = any(
                fnmatchcase(wanted, _glob(upload)) or fnmatchcase(upload, wanted)
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
