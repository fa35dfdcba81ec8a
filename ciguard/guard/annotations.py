"""What of a verdict GitHub shows beside the code, and hands to later steps. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ciguard.guard.failure_groups import summary_line
from ciguard.guard.view import describe_result
from ciguard.guard.wording import MAX_NAMED, finding_message, headline
from ciguard.model import repository_path
from ciguard.text import one_line, unit_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.guard.verdict import Failure, FailureGroup, Finding, Verdict
    from ciguard.model import Result, Suite, UnitKey


SHOWN: Final = 10  # GitHub shows so many errors, and so many warnings, of a step
_CHARS: Final = 400  # of what a test said; GitHub takes 64 KB, and nobody reads them in a margin


@dataclass(frozen=True, slots=True)
class Annotation:
    """A message at a place, or at none; `file` is relative to the repository's root."""

    level: Literal["error", "warning"]
    message: str
    title: str = ""
    file: str = ""
    line: int | None = None


def annotations_of(verdict: Verdict, suites: Mapping[str, Suite]) -> tuple[Annotation, ...]:
    """At most `SHOWN` errors, first what makes it incomplete, and at most as many warnings.

    Where the failures are too many, one for each cause of them, the largest first.

    Args:
        suites: of the plan, by name.
    """
    errors = [
        Annotation(
            "error",
            "\n".join([finding_message(finding), *name_units(finding.units)]),
            finding.level,
        )
        for finding in verdict.findings
        if finding.level != "warning"
    ]
    many = len(errors) + len(verdict.failures) > SHOWN
    if many:
        errors += [_of_cause(cause, suites) for cause in verdict.failure_groups]
    else:
        errors += [_of_failure(failure, suites) for failure in verdict.failures]
    if len(errors) > SHOWN:
        hidden = len(errors) - SHOWN + 1
        errors[SHOWN - 1 :] = [Annotation("error", f"{hidden:,} more: see log")]
    warnings = [
        Annotation("warning", finding_message(finding))
        for finding in verdict.findings
        if finding.level == "warning"
    ]
    return (*errors, *warnings[:SHOWN])


def _of_failure(failure: Failure, suites: Mapping[str, Suite]) -> Annotation:
    result = failure.result
    title = one_line(unit_name(result.key.unit_key, 120), 120)
    text = f"{describe_result(result, _CHARS)} (shard {failure.shard})"
    return Annotation("error", text, title, _file(result, suites), result.line)


def _of_cause(cause: FailureGroup, suites: Mapping[str, Suite]) -> Annotation:
    """At the first of its failures that knows a place."""
    if len(cause.failures) == 1:
        return _of_failure(cause.failures[0], suites)
    placed = next((one for one in cause.failures if one.result.file), cause.failures[0])
    units = tuple(dict.fromkeys(one.result.key.unit_key for one in cause.failures))
    text = "\n".join([describe_result(placed.result, _CHARS), *name_units(units)])
    file = _file(placed.result, suites)
    return Annotation("error", text, summary_line(cause, 120), file, placed.result.line)


def _file(result: Result, suites: Mapping[str, Suite]) -> str:
    return repository_path(suites, result.suite, result.file) or result.file or ""


def outputs_of(verdict: Verdict) -> dict[str, str]:
    """The step's outputs by name."""
    failed = {failure.result.key.unit_key for failure in verdict.failures}
    return {
        "verdict": verdict.state,
        "complete": "false" if verdict.state == "incomplete" else "true",
        "headline": headline(verdict),
        "planned": str(verdict.planned),
        "missing": str(verdict.planned - verdict.with_result),
        "failed": str(len(failed)),
        "quarantined": str(len(verdict.quarantined)),
        "failing_on_base": str(len(verdict.failing_on_base)),
    }


def text_with_units(finding: Finding) -> str:
    """Its message, and the first few of its units below it."""
    return "\n".join([finding_message(finding), *name_units(finding.units)])


def name_units(keys: Sequence[UnitKey], width: int = 72) -> list[str]:
    """The first few, and how many more."""
    shown = [unit_name(key, width) for key in keys[:MAX_NAMED]]
    more = len(keys) - len(shown)
    return [*shown, f"and {more:,} more"] if more else shown
