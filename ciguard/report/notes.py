"""The annotations of a check: what makes a run red, at a line where one is known. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.github.checks import LineNote
from ciguard.guard.causes import line_of
from ciguard.guard.naming import some
from ciguard.guard.text import how
from ciguard.model import repository_path
from ciguard.text import one_line, unit_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.guard.verdict import Failure
    from ciguard.report.contents import Contents

MOST: Final = 100  # two calls; where there are more failures, one for each cause
NAME_WIDTH: Final = 200


def line_notes(contents: Contents, workflow: str) -> tuple[LineNote, ...]:
    """What makes it incomplete or failed first, then the failures, at most `MOST`.

    Args:
        workflow: the file that stands for what is in no file: GitHub wants one for each.
    """
    verdict = contents.verdict
    place = f".github/workflows/{workflow}" if workflow.endswith((".yml", ".yaml")) else ".github"
    found = [
        LineNote(
            place,
            1,
            "warning" if finding.level == "warning" else "failure",
            "\n".join([one_line(finding.what, 1000), *some(finding.units)]),
            finding.kind.replace("_", " "),
        )
        for finding in verdict.findings
    ]
    found.sort(key=lambda note: note.level == "warning")
    many = len(found) + len(verdict.failures) > MOST
    tests = _of_causes(contents, place) if many else _of_failures(contents, place)
    return tuple([*found, *tests][:MOST])


def _of_failures(contents: Contents, place: str) -> Iterator[LineNote]:
    for failure in contents.verdict.failures:
        yield _at(contents, failure, place, unit_name(failure.result.key.unit_key, NAME_WIDTH))


def _of_causes(contents: Contents, place: str) -> Iterator[LineNote]:
    """At the first of its failures that knows a place."""
    for cause in contents.verdict.causes:
        placed = next((one for one in cause.failures if one.result.file), cause.failures[0])
        units = tuple(dict.fromkeys(one.result.key.unit_key for one in cause.failures))
        yield _at(contents, placed, place, line_of(cause, NAME_WIDTH), *some(units))


def _at(contents: Contents, failure: Failure, place: str, title: str, *more: str) -> LineNote:
    result = failure.result
    file = repository_path(contents.plan.suites, result.suite, result.file)
    text = "\n".join([f"{how(result, 400)} (shard {one_line(failure.shard, 40)})", *more])
    return LineNote(file or place, (result.line or 1) if file else 1, "failure", text, title)
