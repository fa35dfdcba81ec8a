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
    from ciguard.audit.rules.base import Evidence, RuleFinding
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


def headline(audit: RepositoryAudit) -> str:
    """Count the findings and the runs that were read."""
    repository = audit.repository
    total = len(audit.all_findings)
    possible = sum(finding.certainty == "possible" for finding in audit.all_findings)
    counts = count_of(total, "finding") if total else "no finding"
    counts += f", {possible} possible" if possible else ""
    with_jobs = [run for run in repository.runs if run.id in repository.jobs]
    workflows = count_of(len({run.workflow for run in with_jobs}), "workflow")
    if not with_jobs:
        return f"{repository.name}: {counts}; no run was read"
    days = [f"{run.created_at:%Y-%m-%d}" for run in (with_jobs[-1], with_jobs[0])]
    runs = f"{count_of(len(with_jobs), 'run')} of {workflows}, {days[0]} to {days[1]}"
    return f"{repository.name}: {counts}; {runs}"


def document(audit: RepositoryAudit) -> tuple[Block, ...]:
    """Return the whole audit, for all formats."""
    clean = [rule for rule, findings in audit.findings.items() if not findings]
    return (
        Headline(headline(audit), "failed" if audit.all_findings else "neutral"),
        Facts(tuple(_facts(audit))),
        *_sections(audit, ("text",)),
        *_sections(audit, ("markdown", "html")),
        Paragraph(f"No finding: {', '.join(clean)}." if clean else "", is_note=True),
    )


def _facts(audit: RepositoryAudit) -> Iterator[tuple[str, Content]]:
    for unread in audit.repository.unread:
        yield "not read", _unread(unread)
    if not audit.repository.test_workflows:
        words = "no workflow has a step that is known to run tests; name one: --workflow FILE"
        yield "no test workflow", words


def _unread(unread: Unread) -> tuple[Span, ...]:
    if unread.why == "not_yaml":
        return Code(unread.detail, NAME_WIDTH), " is not a workflow that can be read"
    if unread.what == "jobs":
        counts = f"jobs of {unread.read:,} of {count_of(unread.total, 'run')} read"
    elif unread.what == "annotations":
        counts = f"annotations of {unread.read:,} of {count_of(unread.total, 'red run')} read"
    elif unread.what in ("workflows", "test_results"):
        counts = f"{_NAMES[unread.what]}: {unread.read:,} of {unread.total:,} read"
    else:
        counts = _NAMES[unread.what]
    if unread.why == "file_limit":
        return (counts,)
    why = "the calls are used up: run this again, what was read is kept"
    if unread.why == "call_limit":
        return f"{counts}: {why}", *((" (", Code(unread.detail), ")") if unread.detail else ())
    return f"{counts}: ", Code(unread.detail or "refused", NAME_WIDTH)


def _sections(audit: RepositoryAudit, formats: tuple[Format, ...]) -> Iterator[Section]:
    for rule, findings in audit.findings.items():
        in_full = "text" in formats
        items = tuple(
            _item(RULES[rule], finding, audit.repository, in_full=in_full) for finding in findings
        )
        yield Section(
            f"{rule} {formats[0]}",
            (Bullets(items, "finding"),),
            f"{RULES[rule].TITLE} ({rule})",
            (len(items), "finding"),
            drop=1,
            formats=formats,
        )


def _item(rule: Rule, finding: RuleFinding, repository: RepositoryRuns, *, in_full: bool) -> Item:
    """Return a finding, with its caveat and its evidence below it.

    Args:
        in_full: write addresses in full, for a format without links.
    """
    children = []
    if finding.caveat:
        children.append(Item(f"possible: {rule.CAVEATS[finding.caveat]}"))
    if in_full:
        first = finding.evidence[0]
        children.append(Item((Code(_location(first)), f"  {first.url}" if first.url else "")))
    else:
        links: list[Content] = [
            Link(Code(_location(at), NAME_WIDTH), _url(at, repository)) for at in finding.evidence
        ]
        children.append(Item(("evidence: ", *join(links))))
    words = f": {rule.sentence(finding.facts)}"
    return Item((Code(finding.subject, NAME_WIDTH), words), tuple(children))


def _location(at: Evidence) -> str:
    return at.what if at.line is None else f"{at.what}:{at.line}"


def _url(at: Evidence, repository: RepositoryRuns) -> str:
    """Return the page of evidence; for a line of a file, the file's page on the default branch."""
    if at.url or at.line is None:
        return at.url
    return f"{repository.url}/blob/{quote(repository.branch)}/{quote(at.what)}#L{at.line}"


def as_json(audit: RepositoryAudit) -> dict[str, Any]:
    """Return the audit as JSON values; every key is present, null if not known."""
    repository = audit.repository
    required = repository.required_checks
    return {
        "schema": SCHEMA,
        "headline": headline(audit),
        "repository": repository.name,
        "branch": repository.branch,
        "workflows": [workflow.path for workflow in repository.workflows],
        "test_workflows": list(repository.test_workflows),
        "required_checks": None if required is None else sorted(required),
        "runs": [
            {
                "id": run.id,
                "workflow": run.workflow,
                "conclusion": run.conclusion,
                "created_at": run.created_at.isoformat(),
                "jobs": len(repository.jobs[run.id]) if run.id in repository.jobs else None,
            }
            for run in repository.runs
        ],
        "unread": [asdict(unread) for unread in repository.unread],
        "findings": [
            {
                "rule": rule,
                "subject": finding.subject,
                "certainty": finding.certainty,
                "doubt": finding.caveat or None,
                "facts": dict(finding.facts),
                "evidence": [
                    {"what": at.what, "url": _url(at, repository) or None, "line": at.line}
                    for at in finding.evidence
                ],
            }
            for rule, findings in audit.findings.items()
            for finding in findings
        ],
    }
