"""The page of the rules: each has its section, and its examples are found or not, as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from audit.workflow_findings import find

from ciguard.audit.rules.base import RULE_IDS, RuleId
from ciguard.audit.rules.workflow_rules import WORKFLOW_RULES

PAGE = Path(__file__).parents[3] / "docs/reference/audit-rules.md"
_TITLE = re.compile(r"(?m)^## `([a-z-]+)`$")
_BLOCK = re.compile(r"(?ms)^```yaml\n(.*?)^```$")


def _sections() -> dict[str, str]:
    _, *parts = _TITLE.split(PAGE.read_text(encoding="utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_page_has_each_rule() -> None:
    sections = _sections()
    row = re.compile(r"(?m)^\| `([a-z-]+)` \| .+ \| .+ \| .+ \|$")
    assert [*sections, *row.findall(PAGE.read_text(encoding="utf-8"))] == list(RULE_IDS)
    assert set(sections) == set(WORKFLOW_RULES)


@pytest.mark.parametrize("rule", WORKFLOW_RULES)
def test_example_has_a_certain_finding_and_counter_example_none(rule: RuleId) -> None:
    example, counter_example = _BLOCK.findall(_sections()[rule])
    found = [_findings(rule, text) for text in (example, counter_example)]
    assert found == [["certain"], []]


def _findings(rule: RuleId, text: str) -> list[str]:
    named = frozenset(re.findall(r"(?m)^# required check: (.*)$", text))
    return [finding.certainty for finding in find(rule, text, named or None)]
