"""The generated workflow without a plan job, and with checkpoints, executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from act.test_workflow_run import CART, STOCK, WORKFLOW, push_event

if TYPE_CHECKING:
    from act.fake_machine import GitHub

CONFIGURATION = """
[plan]
shards = 2
[workflow]
checkpoint = "15m"
"""


@pytest.mark.soak
def test_push_passes_with_the_plan_of_the_checkout(github: GitHub) -> None:
    tests = {"tests/test_cart.py": CART, "tests/test_stock.py": STOCK}
    github.commit("a shop", {**tests, "ciguard.toml": CONFIGURATION})
    for words in (("init", "--yes", "--static"), ("plan", "--static", WORKFLOW)):
        answer = github.ciguard(*words)
        assert answer.returncode == 0, answer.stderr
    github.commit("ciguard", {})
    github.git("push", "--quiet", "origin", "main")
    run = github.run("push", push_event(), run_id=401)
    assert run.green, run.talk
    assert "all 6 tests of 2 shards have a result" in run.job("ciguard").printed
    assert run.job("history").result == "success"
    names = sorted(item.name for item in (github.artifacts / "401").iterdir())
    assert names == ["ciguard-record-01-1", "ciguard-record-02-1", "ciguard-report-401-1"]
