"""The audit of a repository as one screen, as a page and as JSON, schema 1. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from textwrap import wrap
from typing import Any, Final
from urllib.parse import quote

from ciguard.audit.next_step import NextStep, as_section
from ciguard.audit.repository_runs import RepositoryRuns, Unread
from ciguard.audit.rule_table import RULES, RUN_RULES, RepositoryAudit, Rule
from ciguard.audit.rules.base import Evidence, RuleFinding
from ciguard.document import (
    Block,
    Bullets,
    Code,
    Content,
    Facts,
    Headline,
    Item,
    Link,
    Paragraph,
    Section,
    Span,
    join,
    plain,
)
from ciguard.text import count_of
from ciguard.workflow.rewrite import is_moved

SCHEMA: Final = 1
NAME_WIDTH: Final = 80
SCREEN_LINES: Final = 13  # of headline, findings and lines to add; a terminal has 24
SCREEN_COLUMNS: Final = 78  # of a line of a finding
MAX_NAMED: Final = 2  # subjects of a line
_PARTS_OF: Final = {"jobs": "run", "annotations": "red run"}
RULES_PAGE: Final = "docs/reference/audit-rules.md"  # of ciguard


def headline(audit: RepositoryAudit) -> str:
    """Count what makes checks wrong, by rule, and the runs that were read."""
    repository = audit.repository
    counts = ", ".join(_count(rule, len(findings)) for rule, findings in _ordered(audit))
    counts = counts or f"no finding in {count_of(audit.files, 'workflow file')}"
    with_jobs = [run for run in repository.runs if run.id in repository.jobs]
    workflows = count_of(len({run.workflow for run in with_jobs}), "workflow")
    if not with_jobs:
        is_named = any(unread.what == "runs" for unread in repository.unread)
        return f"{repository.name}: {counts}{'' if is_named else '; no run was read'}"
    days = [f"{run.created_at:%Y-%m-%d}" for run in (with_jobs[-1], with_jobs[0])]
    runs = f"{count_of(len(with_jobs), 'run')} of {workflows}, {days[0]} to {days[1]}"
    return f"{repository.name}: {counts}; {runs}"


def _count(rule: str, findings: int) -> str:
    noun, words = RULES[rule].COUNTED
    return f"{count_of(findings, noun)} {words}"


def screen(audit: RepositoryAudit, following: NextStep | None = None) -> tuple[Block, ...]:
    """Return the answer for a terminal: each finding that fits, with its first evidence."""
    items, shown = [*_lines(audit)], []
    room = SCREEN_LINES - (4 if following and following.lines else 0)
    lines = len(wrap(headline(audit), SCREEN_COLUMNS))
    for item in items:
        lines += len(wrap(plain(item.content), SCREEN_COLUMNS))
        if lines <= room:
            shown.append(item)
    more = f"{count_of(len(items) - len(shown), 'more finding')}: --format markdown; "
    rules = f"{more if len(shown) < len(items) else ''}rules: {RULES_PAGE}#RULE"
    return (
        _headline(audit),
        Bullets(tuple(shown), "finding"),
        Paragraph(rules[0].upper() + rules[1:] if items else ""),
        Facts(tuple(_facts(audit))),
        *([as_section(following)] if following else ()),
    )


def document(audit: RepositoryAudit, following: NextStep | None = None) -> tuple[Block, ...]:
    """Return the whole audit, for Markdown and HTML."""
    applied = RULES if audit.repository.runs else [rule for rule in RULES if rule not in RUN_RULES]
    clean = [rule for rule in applied if not audit.findings[rule]]
    return (
        _headline(audit),
        Facts(tuple(_facts(audit))),
        *_sections(audit),
        Paragraph(f"Rules: {RULES_PAGE}#RULE" if any(audit.findings.values()) else ""),
        Paragraph(f"No finding: {', '.join(clean)}." if clean else "", is_note=True),
        *([as_section(following)] if following else ()),
    )


def _headline(audit: RepositoryAudit) -> Headline:
    return Headline(headline(audit), "failed" if any(audit.findings.values()) else "neutral")


def _ordered(audit: RepositoryAudit) -> list[tuple[str, tuple[RuleFinding, ...]]]:
    """Return the rules with findings: those about past runs first, which have happened."""
    rules = [*RUN_RULES, *(rule for rule in RULES if rule not in RUN_RULES)]
    return [(rule, audit.findings[rule]) for rule in rules if audit.findings[rule]]


def _lines(audit: RepositoryAudit) -> Iterator[Item]:
    """Yield the findings; those of one rule with the same sentence are one entry."""
    for rule, findings in _ordered(audit):
        groups: dict[str, list[RuleFinding]] = defaultdict(list)
        for finding in findings:
            caveat = "possible: " if finding.caveat else ""
            groups[caveat + RULES[rule].sentence(finding.facts)].append(finding)
        for sentence, group in groups.items():
            named = join([Code(item.subject, NAME_WIDTH) for item in group], most=MAX_NAMED)
            places: dict[str, list[str]] = defaultdict(list)
            for item in group[:MAX_NAMED]:  # of lines in one file, the file is named once
                at = item.evidence[0]
                places[at.url or at.what] += [] if at.url or at.line is None else [str(at.line)]
            pairs = ((place, ",".join(lines)) for place, lines in places.items())
            positions = ", ".join(":".join(filter(None, pair)) for pair in pairs)
            yield Item((*named, f": {sentence} ({positions}; {rule})"))


def _facts(audit: RepositoryAudit) -> Iterator[tuple[str, Content]]:
    for unread in audit.repository.unread:
        yield "not read", _unread(unread)
    files = audit.repository.workflows
    if moved := [Code(file.path, NAME_WIDTH) for file in files if is_moved(file.content)]:
        yield "run by ciguard", ("tests of ", *join(moved))
    elif not audit.repository.test_workflows:
        words = "no workflow has a step that is known to run tests; name one: "
        yield "no test workflow", (words, Code("ciguard init --into FILE --job JOB --step N"))


def _unread(unread: Unread) -> tuple[Span, ...]:
    if unread.why == "not_yaml":
        return Code(unread.detail, NAME_WIDTH), " cannot be read as a workflow"
    counts = unread.what.replace("_", " ")
    if unread.what in _PARTS_OF:
        total = count_of(unread.total, _PARTS_OF[unread.what])
        counts = f"{counts} of {unread.read:,} of {total} read"
    elif unread.what == "workflows":
        counts = f"workflow files: {unread.read:,} of {unread.total:,} read"
    why = "no calls are left: run this again; what was read is kept"
    if unread.why == "call_limit":
        return f"{counts}: {why}", *((" (", Code(unread.detail), ")") if unread.detail else ())
    return f"{counts}: ", Code(unread.detail or "refused", NAME_WIDTH)


def _sections(audit: RepositoryAudit) -> Iterator[Section]:
    for rule, findings in audit.findings.items():
        items = tuple(_item(RULES[rule], finding, audit.repository) for finding in findings)
        title, size = f"{_count(rule, len(items))} ({rule})", (len(items), "finding")
        yield Section(rule, (Bullets(items, "finding"),), title, size, drop=1)


def _item(rule: Rule, finding: RuleFinding, repository: RepositoryRuns) -> Item:
    """Return a finding, with its caveat and its evidence below it."""
    links: list[Content] = [
        Link(Code(f"{at.what}:{at.line}" if at.line else at.what, NAME_WIDTH), _url(at, repository))
        for at in finding.evidence
    ]
    children = [Item(("evidence: ", *join(links)))]
    if finding.caveat:
        children.insert(0, Item(f"possible: {rule.CAVEATS[finding.caveat]}"))
    words = f": {rule.sentence(finding.facts)}"
    return Item((Code(finding.subject, NAME_WIDTH), words), tuple(children))


def _url(at: Evidence, repository: RepositoryRuns) -> str:
    """Return the page of evidence; for a line of a file, the file's page on the default branch."""
    if at.url or at.line is None or not repository.url:
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
