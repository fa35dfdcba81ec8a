"""The rules over values that are hardly a workflow: they find something, or nothing."""

from __future__ import annotations

from typing import Any

import yaml
from audit.workflow_findings import find
from hypothesis import given
from hypothesis import strategies as st

from ciguard.audit.rule_table import WORKFLOW_RULES

KEYS = (
    "if", "needs", "name", "uses", "run", "with", "env", "strategy", "matrix", "include", "exclude",
    "steps", "continue-on-error", "command", "path", "id", "on",
)  # fmt: skip
TEXTS = (
    "", "pytest", "pytest || pytest --lf", "exit 1", "echo", "always()", "!cancelled() && (", "a",
    "needs.a.result == 'failure'", "${{ matrix.a }}", "nick-fields/retry@v1", "coverage.xml", "||",
    "actions/upload-artifact@v4", "re-actors/alls-green@v1", "--reruns 2", "until pytest", "${{",
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers(-1, 300) | st.sampled_from(TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=12,
)
JOBS = st.dictionaries(st.sampled_from(("a", "b", "c")), VALUES)
STEPS = st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4), max_size=3)
MADE = st.fixed_dictionaries(
    {"steps": STEPS}, optional={key: VALUES for key in KEYS if key != "steps"}
)


@given(
    jobs=JOBS | st.dictionaries(st.sampled_from(("a", "b")), MADE),
    on=VALUES | st.just("pull_request"),
)
def test_a_value_of_any_shape_is_read(jobs: dict[str, Any], on: Any) -> None:
    text = yaml.safe_dump({"on": on, "jobs": jobs})
    for rule in WORKFLOW_RULES:
        find(rule, text)
        find(rule, text, frozenset({"a"}))
