"""The page of the rules: each has its section, and its examples are found or not, as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from audit.workflow_findings import find
from fakegithub.past_runs import WORKFLOW, Findings, PastRuns

from ciguard.audit.rule_table import RULES, RUN_RULES, WORKFLOW_RULES

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/reference/audit-rules.md"
_TITLE = re.compile(r"(?m)^## `([a-z-]+)`$")
_BLOCK = re.compile(r"(?ms)^```yaml\n(.*?)^```$")


def _sections() -> dict[str, str]:
    _, *parts = _TITLE.split(PAGE.read_text(encoding="utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_page_has_each_rule() -> None:
    assert [*_sections()] == list(RULES)


@pytest.mark.parametrize("rule", WORKFLOW_RULES)
def test_example_has_a_certain_finding_and_counter_example_none(rule: str) -> None:
    example, counter_example = _BLOCK.findall(_sections()[rule])
    texts = (example, counter_example)
    found = [[finding.certainty for finding in find(rule, text)] for text in texts]
    assert found == [["certain"], []]


@pytest.mark.parametrize("rule", RUN_RULES)
@pytest.mark.parametrize(("example", "expected"), [(0, ["certain"]), (1, [])])
def test_runs_of_the_example_have_a_certain_finding_and_of_the_other_none(
    past: PastRuns, findings: Findings, rule: str, example: int, expected: list[str]
) -> None:
    past.workflow(
        WORKFLOW.replace("    steps:", "    strategy: {matrix: {shard: [1, 2, 3]}}\n    steps:")
    )
    for entry in yaml.safe_load(_BLOCK.findall(_sections()[rule])[example]):
        for _ in range(entry["runs"]):
            ends = {job.get("ended", "success") for job in entry["jobs"]}
            run = past.run("success" if ends == {"success"} else min(ends))
            for job in entry["jobs"]:
                says = [job["says"]] if "says" in job else []
                ended, minutes = job.get("ended", "success"), job.get("minutes", 5)
                past.job(run, job["name"], ended, minutes=minutes, annotations=says)
    assert [finding["certainty"] for finding in findings(rule)] == expected


@pytest.mark.parametrize("name", RULES)
def test_each_caveat_has_its_words(name: str) -> None:
    path = ROOT / "ciguard/audit/rules" / f"{name.replace('-', '_')}.py"
    text = path.read_text("utf-8")
    keys = {key for key in RULES[name].CAVEATS if text.count(f'"{key}"') > 1}
    assert keys == RULES[name].CAVEATS.keys()
