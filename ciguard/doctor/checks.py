"""Checks of `ciguard doctor` as values, their levels, and their output as text and JSON. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal

from ciguard.document import Block, Content, Facts, Paragraph
from ciguard.text import count_of
from ciguard.workflow.check_names import names_check, unexpanded_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from ciguard.workflow.aggregation import UndetectedSkip

Level = Literal["ok", "warning", "error"]
SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: the state (`what`), and the advice if something is wrong."""

    level: Level
    name: str
    what: str
    fix: str = ""


ok: Final = partial(Check, "ok")
warning: Final = partial(Check, "warning")  # ciguard works in spite of the problem
error: Final = partial(Check, "error")


def as_json(checks: Sequence[Check]) -> dict[str, Any]:
    """Return the checks as in docs/reference/json.md."""
    levels = [check.level for check in checks]
    return {
        "schema": SCHEMA,
        "errors": levels.count("error"),
        "warnings": levels.count("warning"),
        "checks": [{"name": check.name, **asdict(check)} for check in checks],
    }


def document(checks: Sequence[Check]) -> tuple[Block, ...]:
    """Return all checks in their order, then the numbers of errors and warnings."""
    rows: list[tuple[str, Content]] = []
    width = max((len(check.name) for check in checks), default=0)
    for check in checks:
        rows.append((f"{check.level:<8} {check.name:<{width}}", check.what))
        if check.fix:
            rows.append(("", f"fix: {check.fix}"))
    levels = [check.level for check in checks]
    errors, warnings = levels.count("error"), levels.count("warning")
    counts = f"{count_of(errors, 'error')}, {count_of(warnings, 'warning')}"
    return (Facts(tuple(rows)), Paragraph(counts))


def warn_of_undetected_skip(skip: UndetectedSkip) -> Check:
    """Warn of an aggregation job that stays green when the job that plans fails."""
    planning = skip.planning_job
    what = f"{skip.file}: job {skip.job} is green if job {planning} fails: tests are skipped"
    fixes = [] if skip.is_needed else [f"add `{planning}` to its needs"]
    if skip.reads_single_results:
        fixes.append(f"test needs.{planning}.result as well")
    return warning("aggregation", what, ", and ".join(fixes))


def check_required(
    file: str, jobs: Mapping[str, Any], judging: Sequence[str], required: Set[str]
) -> Check:
    """Check that a required check of the default branch fails if a test is lost.

    Args:
        judging: the jobs of the workflow that fail then, the best one to require first.
        required: names of the required checks, at least one.
    """
    owners = [
        (check, name)
        for check, (name, job) in product(sorted(required), jobs.items())
        # Checks of a reusable workflow are named `CALLER / JOB`.
        if any(names_check(name, job, text) for text in {check, check.rpartition(" / ")[2]})
    ]
    if any(name in judging for _, name in owners):
        return ok("required check", f"{file}: a lost test fails what is required")
    others = [f"{check} (job {name})" for check, name in owners]
    passing = f"; green if a test is lost: {', '.join(others)}" if others else ""
    what = f"{file}: no required check fails if a test is lost{passing}"
    name = unexpanded_name(judging[0], jobs[judging[0]])
    return warning("required check", what, f"require the check {name} in the rules of the branch")
