"""What of a verdict GitHub shows beside the code, and hands to later steps. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ciguard.guard.naming import some
from ciguard.guard.text import how
from ciguard.text import one_line, unit_name

if TYPE_CHECKING:
    from ciguard.guard.verdict import Verdict

SHOWN: Final = 10  # GitHub shows so many errors, and so many warnings, of a step


@dataclass(frozen=True, slots=True)
class Annotation:
    """A message at a place, or at none; `file` is relative to the repository's root."""

    level: Literal["error", "warning"]
    message: str
    title: str = ""
    file: str = ""
    line: int | None = None


def annotations_of(verdict: Verdict) -> tuple[Annotation, ...]:
    """At most `SHOWN` errors, first what makes it incomplete, and at most as many warnings."""
    errors = [
        Annotation("error", "\n".join([finding.what, *some(finding.units)]), finding.level)
        for finding in verdict.findings
        if finding.level != "warning"
    ]
    for failure in verdict.failures:
        result = failure.result
        title = one_line(unit_name(result.key.unit_key, 120), 120)
        text = f"{how(result)} (shard {failure.shard})"
        errors.append(Annotation("error", text, title, result.file or "", result.line))
    if len(errors) > SHOWN:
        hidden = len(errors) - SHOWN + 1
        errors[SHOWN - 1 :] = [Annotation("error", f"and {hidden:,} more: see the step's log")]
    warnings = [
        Annotation("warning", finding.what)
        for finding in verdict.findings
        if finding.level == "warning"
    ]
    return (*errors, *warnings[:SHOWN])


def outputs_of(verdict: Verdict) -> dict[str, str]:
    """The step's outputs by name."""
    failed = {failure.result.key.unit_key for failure in verdict.failures}
    return {
        "verdict": verdict.state,
        "complete": "false" if verdict.state == "incomplete" else "true",
        "headline": verdict.headline,
        "planned": str(verdict.planned),
        "missing": str(verdict.planned - verdict.ended),
        "failed": str(len(failed)),
    }
