"""The check of a commit with annotations on its code, created with one call per 50 annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ciguard.github.api_errors import MaybeDone
from ciguard.github.models import CheckRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.github.client import GitHub
    from ciguard.guard.annotations_and_outputs import Annotation

MAX_CHARS: Final = 65_535  # GitHub's limit for a check's summary
BATCH: Final = 50  # annotations that GitHub takes in a call
MAX_TITLE: Final = 255
MAX_MESSAGE: Final = 16_000  # GitHub takes 64 KB; a character may have four


def create_check(
    github: GitHub,
    repository: str,
    head_sha: str,
    *,
    name: str,
    external_id: str,
    passed: bool,
    title: str,
    summary: str,
    annotations: Sequence[Annotation] = (),
    details_url: str = "",
) -> CheckRun:
    """Create a completed check; GitHub shows the newest check of a name.

    Args:
        external_id: distinguishes this check from others of its name, so that a lost answer does
            not create a second check.
        annotations: each with a file and a line, as GitHub requires both.

    Raises:
        Forbidden: the token may not write checks.
        GitHubError: the check was not created for another reason.
    """
    batches = [annotations[at : at + BATCH] for at in range(0, len(annotations), BATCH)] or [()]
    output = {"title": title[:MAX_TITLE], "summary": summary}
    data: dict[str, Any] = {
        "name": name,
        "head_sha": head_sha,
        "external_id": external_id,
        "status": "completed",
        "conclusion": "success" if passed else "failure",
        "output": _with_annotations(output, batches[0]),
    }
    if details_url:
        data["details_url"] = details_url
    path = f"/repos/{repository}/check-runs"
    try:
        check = github.post(CheckRun, path, data)
    except MaybeDone:
        existing = _existing_check(github, repository, head_sha, name, external_id)
        check = existing or github.post(CheckRun, path, data)
    for batch in batches[1:]:
        # GitHub adds these annotations to the existing ones.
        github.patch(CheckRun, f"{path}/{check.id}", {"output": _with_annotations(output, batch)})
    return check


def _with_annotations(output: dict[str, str], batch: Sequence[Annotation]) -> dict[str, Any]:
    return {**output, "annotations": [_as_json(annotation) for annotation in batch]}


def _as_json(annotation: Annotation) -> dict[str, Any]:
    titled = {"title": annotation.title[:MAX_TITLE]} if annotation.title else {}
    return {
        "path": annotation.file,
        "start_line": annotation.line,
        "end_line": annotation.line,
        "annotation_level": "warning" if annotation.level == "warning" else "failure",
        "message": annotation.message[:MAX_MESSAGE],
        **titled,
    }


def _existing_check(
    github: GitHub, repository: str, head_sha: str, name: str, external_id: str
) -> CheckRun | None:
    sha, query = quote(head_sha, safe=""), f"check_name={quote(name, safe='')}&filter=all"
    path = f"/repos/{repository}/commits/{sha}/check-runs?{query}"
    checks = github.items(CheckRun, path, key="check_runs")
    return next((check for check in checks if check.external_id == external_id), None)
