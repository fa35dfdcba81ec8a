"""A check of a commit, with annotations beside its code: created whole, 50 annotations a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ciguard.github.api_errors import MaybeDone
from ciguard.github.models import CheckRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.github.client import GitHub
    from ciguard.guard.json import Annotation

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
    """Create a finished check; GitHub shows the newest of a name. One call per 50 annotations.

    Args:
        external_id: what tells this check from others of its name; an answer that was lost does
            not make a second one.
        annotations: each with a file and a line: GitHub has none without both.

    Raises:
        Forbidden: the token may not write checks.
        GitHubError: otherwise not done.
    """
    batches = [annotations[at : at + BATCH] for at in range(0, len(annotations), BATCH)] or [()]
    output = {"title": title[:MAX_TITLE], "summary": summary}
    data: dict[str, Any] = {
        "name": name,
        "head_sha": head_sha,
        "external_id": external_id,
        "status": "completed",
        "conclusion": "success" if passed else "failure",
        "output": _with(output, batches[0]),
    }
    if details_url:
        data["details_url"] = details_url
    path = f"/repos/{repository}/check-runs"
    try:
        made = github.post(CheckRun, path, data)
    except MaybeDone:
        there = _existing_check(github, repository, head_sha, name, external_id)
        made = there or github.post(CheckRun, path, data)
    for batch in batches[1:]:
        # What is sent is added to what is there.
        github.patch(CheckRun, f"{path}/{made.id}", {"output": _with(output, batch)})
    return made


def _with(output: dict[str, str], batch: Sequence[Annotation]) -> dict[str, Any]:
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
    found = github.items(CheckRun, path, key="check_runs")
    return next((one for one in found if one.external_id == external_id), None)
