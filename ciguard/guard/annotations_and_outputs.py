"""The annotations and step outputs that the guarding job sets from a verdict. Pure.

`evaluation.write_annotations_and_outputs` writes them. A result count is empty if no test has a
result, and only `verdict`, `complete` and `headline` are set if the run could not be judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ciguard.guard.failure_groups import summary_line
from ciguard.guard.headline import headline
from ciguard.guard.verdict import FailureGroup, Finding, Verdict
from ciguard.guard.view import FailedTest, describe_result, failure_kind, group_by_test
from ciguard.guard.wording import finding_message
from ciguard.model import Result, Suite, UnitKey, repository_path
from ciguard.render.notes import name_shards
from ciguard.text import name_some, one_line, unit_name

SHOWN: Final = 10  # GitHub shows so many errors, and so many warnings, of a step
_CHARS: Final = 400  # of a test's message; GitHub takes 64 KB, too much to read in a margin


@dataclass(frozen=True, slots=True)
class Annotation:
    """A message, at a line of a file or at none; `file` is relative to the repository's root."""

    level: Literal["error", "warning"]
    message: str
    title: str = ""
    file: str = ""
    line: int | None = None


def annotations_of(verdict: Verdict, most: int = SHOWN) -> tuple[Annotation, ...]:
    """Return at most `most` errors and as many warnings, the findings before the failed tests.

    If not all failed tests fit, each cause of failures gets one annotation, the largest first.
    """
    suites = verdict.plan.suites
    errors = [_of_finding(item, "error") for item in verdict.findings if item.level != "warning"]
    failed = group_by_test(verdict.failures, lambda failure: failure_kind(failure.result))
    if len(errors) + len(failed) > most:
        errors += [_of_cause(cause, suites) for cause in verdict.failure_groups]
    else:
        errors += [_of_failure(test, suites) for test in failed]
    if len(errors) > most:
        hidden = len(errors) - most + 1
        errors[most - 1 :] = [Annotation("error", f"{hidden:,} more: see log")]
    warnings = [finding for finding in verdict.findings if finding.level == "warning"]
    return (*errors, *(_of_finding(finding, "warning") for finding in warnings[:most]))


def _of_finding(finding: Finding, level: Literal["error", "warning"]) -> Annotation:
    text = _with_units(one_line(finding_message(finding), 1000), finding.units)
    return Annotation(level, text, finding.kind.replace("_", " "))


def _of_failure(test: FailedTest, suites: Mapping[str, Suite]) -> Annotation:
    result = test.first.result
    title = unit_name(test.key.unit_key, 120)
    shards = list(dict.fromkeys(failure.shard for failure in test.failures))
    origin = ", ".join(filter(None, (test.combinations(suites), name_shards(shards))))
    return _at_line(result, f"{describe_result(result, _CHARS)} ({origin})", title, suites)


def _of_cause(cause: FailureGroup, suites: Mapping[str, Suite]) -> Annotation:
    """Annotate the line of the first failure of this cause whose file is known."""
    failed = group_by_test(cause.failures, lambda _: "")
    if len(failed) == 1:
        return _of_failure(failed[0], suites)
    with_file = (failure for failure in cause.failures if failure.result.file)
    first = next(with_file, cause.failures[0]).result
    units = tuple(dict.fromkeys(test.key.unit_key for test in failed))
    text = _with_units(describe_result(first, _CHARS), units)
    return _at_line(first, text, summary_line(cause, 120), suites)


def _at_line(result: Result, text: str, title: str, suites: Mapping[str, Suite]) -> Annotation:
    file = repository_path(suites, result.suite, result.file)
    return Annotation("error", text, title, file or "", result.line)


def _with_units(message: str, keys: Sequence[UnitKey]) -> str:
    """Return a message, with the first few units and the number of the others below it."""
    names = name_some(keys, unit_name, separator="\n", last="\nand ")
    return f"{message}\n{names}" if keys else message


def outputs_of(verdict: Verdict) -> dict[str, str]:
    """Return the step's outputs by name; counts of results are empty if no test has a result."""
    failed = {failure.result.key.unit_key for failure in verdict.failures}
    promised = verdict.promised
    has_results = any(verdict.counts.values())
    counts = {
        "failed": len(failed),
        "flaky": len(verdict.flaky),
        "quarantined": len(verdict.quarantined),
        "failing_on_base": len(verdict.failing_on_base),
    }
    return {
        "verdict": verdict.state,
        "complete": "false" if verdict.state == "incomplete" else "true",
        "headline": headline(verdict),
        "planned": "" if promised is None else str(promised),
        "executed": str(verdict.with_result),
        "new": "" if verdict.new is None else str(verdict.new),
        "gone": "" if verdict.gone is None else str(verdict.gone),
        "missing": "" if promised is None else str(promised - verdict.with_result),
        **{name: str(count) if has_results else "" for name, count in counts.items()},
    }


def outputs_without_verdict(headline: str) -> dict[str, str]:
    """Return the step's outputs of a run that could not be judged: no numbers, none was counted."""
    return {"verdict": "incomplete", "complete": "false", "headline": headline}
