"""Checks of `ciguard doctor` as values, their levels, and their output as text and JSON. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any, Final, Literal

from ciguard.document import Block, Content, Facts, Listing, Paragraph, Section
from ciguard.text import count_of
from ciguard.workflow.aggregation import UndetectedSkip
from ciguard.workflow.check_names import names_check, unexpanded_name
from ciguard.workflow.conditions import evaluate, runs_on_push
from ciguard.workflow.yaml_values import get, jobs_of

Level = Literal["ok", "warning", "error"]
SCHEMA: Final = 1
_OWN_GROUP: Final = re.compile(r"\bgithub\.(run_id|run_number|sha)\b")  # of each push


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: the state (`what`), and the advice if something is wrong.

    `command`: repairs the problem as it stands; "" if no command does.
    """

    level: Level
    name: str
    what: str
    fix: str = ""
    command: str = ""


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
    """Return all checks in their order, the numbers of errors and warnings, and the commands."""
    rows: list[tuple[str, Content]] = []
    width = max((len(check.name) for check in checks), default=0)
    for check in checks:
        rows.append((f"{check.level:<8} {check.name:<{width}}", check.what))
        if fix := check.fix or check.command:
            rows.append(("", f"fix: {fix}"))
    levels = [check.level for check in checks]
    errors, warnings = levels.count("error"), levels.count("warning")
    counts = f"{count_of(errors, 'error')}, {count_of(warnings, 'warning')}"
    commands = "\n".join(dict.fromkeys(check.command for check in checks if check.command))
    repair = Section("commands", (Listing(commands),), "Commands that repair this")
    return (Facts(tuple(rows)), Paragraph(counts), repair)


def warn_of_cancelled_pushes(file: str, workflow: Any, branch: str) -> Iterator[Check]:
    """Warn of a group of runs in which each push to a branch cancels the run of the last one."""
    holders = (workflow, *jobs_of(workflow).values()) if runs_on_push(workflow, branch) else ()
    for group in (get(holder, "concurrency") for holder in holders):
        is_shared = not _OWN_GROUP.search(str(get(group, "group")))
        if is_shared and evaluate(str(get(group, "cancel-in-progress")), "push"):
            what = f"{file}: a push to {branch} cancels the run of the previous push: few complete"
            fix = "set cancel-in-progress: ${{ github.event_name == 'pull_request' }}"
            yield warning("concurrency", what, fix)


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
        return ok("required check", f"{file}: a required check fails if a test is lost")
    others = [f"{check} (job {name})" for check, name in owners]
    passing = f"; green if a test is lost: {', '.join(others)}" if others else ""
    what = f"{file}: no required check fails if a test is lost{passing}"
    name = unexpanded_name(judging[0], jobs[judging[0]])
    return warning("required check", what, f"require the check {name} in the rules of the branch")
