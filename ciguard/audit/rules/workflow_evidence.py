"""Where a finding of a workflow stands, and what GitHub calls its job. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ciguard.audit.rules.base import FoundAt
from ciguard.workflow.positions import SourceText

if TYPE_CHECKING:
    from ciguard.audit.rules.base import WorkflowFile


def locate(
    workflow: WorkflowFile, *places: tuple[tuple[str | int, ...], str]
) -> tuple[FoundAt, ...]:
    """The lines of paths of keys in the file, each with a text to search below it or ""; sorted."""
    source = SourceText(workflow.text)
    lines = {source.line_number(*path, text=text) for path, text in places}
    return tuple(FoundAt(workflow.path, line=line) for line in sorted(lines))


def job_title(job_id: str, job: Any) -> str:
    """The name of a job as GitHub shows it; its id where only a run knows the name."""
    name = job.get("name") if isinstance(job, dict) else None
    return name if isinstance(name, str) and name and "${{" not in name else job_id
