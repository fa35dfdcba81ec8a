"""Findings of one rule in a workflow that a test writes."""

from __future__ import annotations

from ciguard.audit.rule_table import WORKFLOW_RULES
from ciguard.audit.rules.base import RuleFinding, WorkflowFile
from ciguard.workflow.test_commands import NO_TASKS, Tasks
from ciguard.workflow.yaml_values import load

FILE = ".github/workflows/ci.yml"


def find(
    rule: str, text: str, required: frozenset[str] | None = None, tasks: Tasks = NO_TASKS
) -> list[RuleFinding]:
    workflow = WorkflowFile(FILE, text, load(text, FILE), tasks)
    findings = list(WORKFLOW_RULES[rule].check_workflow(workflow, required))
    for finding in findings:
        assert finding.evidence
        assert finding.caveat in ("", *WORKFLOW_RULES[rule].CAVEATS)
        assert WORKFLOW_RULES[rule].sentence(finding.facts)
    return findings


def lines(finding: RuleFinding, text: str) -> list[str]:
    written = text.splitlines()
    return [written[place.line - 1].strip() for place in finding.evidence if place.line]


def job(steps: str, name: str = "test") -> str:
    """A workflow with one job; `steps` is indented by two."""
    indented = "".join(f"    {line}\n" for line in steps.strip("\n").splitlines())
    return f"on: push\njobs:\n  {name}:\n    runs-on: ubuntu-latest\n    steps:\n{indented}"
