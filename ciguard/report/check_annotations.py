"""The annotations of a check: what makes a run red, at a line where one is known. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.github.check_runs import CheckAnnotation
from ciguard.guard.json import annotations_of

if TYPE_CHECKING:
    from ciguard.report.data import ReportData

MAX_ANNOTATIONS: Final = 50  # errors, and as many warnings: GitHub takes 50 in a call


def check_annotations(contents: ReportData, workflow: str) -> tuple[CheckAnnotation, ...]:
    """What makes it incomplete or failed first, then the failures, then warnings.

    Args:
        workflow: the file that stands for what is in no file: GitHub wants one for each.
    """
    place = f".github/workflows/{workflow}" if workflow.endswith((".yml", ".yaml")) else ".github"
    found = annotations_of(contents.verdict, contents.plan.suites, MAX_ANNOTATIONS)
    return tuple(
        CheckAnnotation(
            one.file or place,
            (one.line or 1) if one.file else 1,
            "warning" if one.level == "warning" else "failure",
            one.message,
            one.title,
        )
        for one in found
    )
