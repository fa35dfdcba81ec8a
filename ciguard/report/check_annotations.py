"""The annotations of a check: what makes a run red, at a line where one is known. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.github.check_runs import CheckAnnotation
from ciguard.guard.annotations import name_units, text_with_units
from ciguard.guard.failure_groups import summary_line
from ciguard.guard.view import describe_result
from ciguard.model import repository_path
from ciguard.text import one_line, unit_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.guard.verdict import Failure
    from ciguard.report.data import ReportData

MAX_ANNOTATIONS: Final = 100  # two calls; where there are more failures, one for each cause
NAME_WIDTH: Final = 200


def check_annotations(contents: ReportData, workflow: str) -> tuple[CheckAnnotation, ...]:
    """What makes it incomplete or failed first, then the failures, at most `MAX_ANNOTATIONS`.

    Args:
        workflow: the file that stands for what is in no file: GitHub wants one for each.
    """
    verdict = contents.verdict
    place = f".github/workflows/{workflow}" if workflow.endswith((".yml", ".yaml")) else ".github"
    found = [
        CheckAnnotation(
            place,
            1,
            "warning" if finding.level == "warning" else "failure",
            text_with_units(finding),
            finding.kind.replace("_", " "),
        )
        for finding in verdict.findings
    ]
    found.sort(key=lambda note: note.level == "warning")
    many = len(found) + len(verdict.failures) > MAX_ANNOTATIONS
    tests = _group_annotations(contents, place) if many else _failure_annotations(contents, place)
    return tuple([*found, *tests][:MAX_ANNOTATIONS])


def _failure_annotations(contents: ReportData, workflow_path: str) -> Iterator[CheckAnnotation]:
    for failure in contents.verdict.failures:
        yield _annotation(
            contents, failure, workflow_path, unit_name(failure.result.key.unit_key, NAME_WIDTH)
        )


def _group_annotations(contents: ReportData, workflow_path: str) -> Iterator[CheckAnnotation]:
    """At the first of its failures that knows a place."""
    for cause in contents.verdict.failure_groups:
        placed = next((one for one in cause.failures if one.result.file), cause.failures[0])
        units = tuple(dict.fromkeys(one.result.key.unit_key for one in cause.failures))
        yield _annotation(
            contents, placed, workflow_path, summary_line(cause, NAME_WIDTH), *name_units(units)
        )


def _annotation(
    contents: ReportData, failure: Failure, workflow_path: str, title: str, *more: str
) -> CheckAnnotation:
    result = failure.result
    file = repository_path(contents.plan.suites, result.suite, result.file)
    text = "\n".join(
        [f"{describe_result(result, 400)} (shard {one_line(failure.shard, 40)})", *more]
    )
    return CheckAnnotation(
        file or workflow_path, (result.line or 1) if file else 1, "failure", text, title
    )
