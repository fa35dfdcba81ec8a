"""The audit of a repository as blocks and as JSON, schema 1. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ciguard.audit.rule_table import RULES, RepositoryAudit, Rule
from ciguard.document import (
    Bullets,
    Code,
    Facts,
    Headline,
    Item,
    Link,
    Paragraph,
    Section,
    join,
)
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ciguard.audit.repository_runs import RepositoryRuns, Unread
    from ciguard.audit.rules.base import FoundAt, RuleFinding
    from ciguard.document import Block, Content, Format, Span

SCHEMA: Final = 1
NAME_WIDTH: Final = 80
_NAMES: Final[Mapping[str, str]] = {
    "workflows": "workflow files",
    "required_checks": "required checks",
    "runs": "runs",
    "jobs": "jobs",
    "annotations": "annotations",
    "test_results": "result files",
}


def headline(found: RepositoryAudit) -> str:
    """Count the findings and the runs that were read."""
    past = found.past
    total = len(found.all)
    possible = sum(one.certainty == "possible" for one in found.all)
    counts = count_of(total, "finding") if total else "no finding"
    counts += f", {possible} possible" if possible else ""
    with_jobs = [run for run in past.runs if run.id in past.jobs]
    workflows = count_of(len({run.workflow for run in with_jobs}), "workflow")
    if not with_jobs:
        return f"{past.repository}: {counts}; no run was read"
    days = [f"{run.created_at:%Y-%m-%d}" for run in (with_jobs[-1], with_jobs[0])]
    read = f"{count_of(len(with_jobs), 'run')} of {workflows}, {days[0]} to {days[1]}"
    return f"{past.repository}: {counts}; {read}"


def document(found: RepositoryAudit) -> tuple[Block, ...]:
    """The whole audit, for all formats."""
    return (
        Headline(headline(found), "failed" if found.all else "neutral"),
        Facts(tuple(_facts(found))),
        *_sections(found, ("text",)),
        *_sections(found, ("markdown", "html")),
        Paragraph(_without_findings(found), is_note=True),
    )


def _facts(found: RepositoryAudit) -> Iterator[tuple[str, Content]]:
    for one in found.past.unread:
        yield "not read", _unread(one)
    if not found.past.test_workflows:
        words = "no workflow has a step that is known to run tests; name one: --workflow FILE"
        yield "no test workflow", words


def _unread(one: Unread) -> tuple[Span, ...]:
    if one.why == "not_yaml":
        return Code(one.detail, NAME_WIDTH), " is not a workflow that can be read"
    if one.what == "jobs":
        counts = f"jobs of {one.read:,} of {count_of(one.total, 'run')} read"
    elif one.what == "annotations":
        counts = f"annotations of {one.read:,} of {count_of(one.total, 'red run')} read"
    elif one.what in ("workflows", "test_results"):
        counts = f"{_NAMES[one.what]}: {one.read:,} of {one.total:,} read"
    else:
        counts = _NAMES[one.what]
    if one.why == "file_limit":
        return (counts,)
    why = "the calls are used up: run this again, what was read is kept"
    if one.why == "call_limit":
        return f"{counts}: {why}", *((" (", Code(one.detail), ")") if one.detail else ())
    return f"{counts}: ", Code(one.detail or "refused", NAME_WIDTH)


def _sections(found: RepositoryAudit, formats: tuple[Format, ...]) -> Iterator[Section]:
    for rule, findings in found.findings.items():
        in_full = "text" in formats
        items = tuple(
            _item(RULES[rule], finding, found.past, in_full=in_full) for finding in findings
        )
        yield Section(
            f"{rule} {formats[0]}",
            (Bullets(items, "finding"),),
            f"{RULES[rule].TITLE} ({rule})",
            (len(items), "finding"),
            drop=1,
            formats=formats,
        )


def _item(rule: Rule, one: RuleFinding, past: RepositoryRuns, *, in_full: bool) -> Item:
    """Return a finding, with its caveat and its evidence below it.

    Args:
        in_full: with addresses, where no word can lead to one.
    """
    children = []
    if one.caveat:
        children.append(Item(f"possible: {rule.CAVEATS[one.caveat]}"))
    if in_full:
        first = one.evidence[0]
        children.append(Item((Code(_place(first)), f"  {first.url}" if first.url else "")))
    else:
        links: list[Content] = [
            Link(Code(_place(at), NAME_WIDTH), _url(at, past)) for at in one.evidence
        ]
        children.append(Item(("evidence: ", *join(links))))
    return Item((Code(one.subject, NAME_WIDTH), f": {rule.sentence(one.facts)}"), tuple(children))


def _place(at: FoundAt) -> str:
    return at.what if at.line is None else f"{at.what}:{at.line}"


def _url(at: FoundAt, past: RepositoryRuns) -> str:
    """Return the page of evidence; of a place in a file that on the default branch."""
    if at.url or at.line is None:
        return at.url
    return f"{past.url}/blob/{quote(past.branch)}/{quote(at.what)}#L{at.line}"


def _without_findings(found: RepositoryAudit) -> str:
    names = [rule for rule, findings in found.findings.items() if not findings]
    return f"No finding: {', '.join(names)}." if names else ""


def as_json(found: RepositoryAudit) -> dict[str, Any]:
    """Every key is there; null is what is not known."""
    past = found.past
    return {
        "schema": SCHEMA,
        "headline": headline(found),
        "repository": past.repository,
        "branch": past.branch,
        "workflows": [workflow.path for workflow in past.workflows],
        "test_workflows": list(past.test_workflows),
        "required_checks": None if past.required_checks is None else sorted(past.required_checks),
        "runs": [
            {
                "id": run.id,
                "workflow": run.workflow,
                "conclusion": run.conclusion,
                "created_at": run.created_at.isoformat(),
                "jobs": len(past.jobs[run.id]) if run.id in past.jobs else None,
            }
            for run in past.runs
        ],
        "unread": [asdict(one) for one in past.unread],
        "findings": [
            {
                "rule": rule,
                "subject": one.subject,
                "certainty": one.certainty,
                "doubt": one.caveat or None,
                "facts": dict(one.facts),
                "evidence": [
                    {"what": at.what, "url": _url(at, past) or None, "line": at.line}
                    for at in one.evidence
                ],
            }
            for rule, findings in found.findings.items()
            for one in findings
        ],
    }
