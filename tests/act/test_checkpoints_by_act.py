"""The generated workflow with checkpoints, executed."""

from __future__ import annotations

import pytest
from act.fake_machine import PUSH, GitHub
from act.test_workflow_run import CART, STOCK

CONFIGURATION = """
[plan]
shards = 2
[workflow]
checkpoint = "15m"
"""


@pytest.mark.soak
def test_push_passes(github: GitHub) -> None:
    tests = {"tests/test_cart.py": CART, "tests/test_stock.py": STOCK}
    github.commit("a shop", {**tests, "ciguard.toml": CONFIGURATION})
    answer = github.ciguard("init", "--yes")
    assert answer.returncode == 0, answer.stderr
    github.commit("ciguard", {})
    github.git("push", "--quiet", "origin", "main")
    run = github.run("push", PUSH, run_id=401)
    assert run.green, run.talk
    assert "all 6 tests of 2 shards have a result" in run.job("ciguard").printed
    assert run.job("history").result == "success"
    names = [item.name.split("-")[1] for item in (github.artifacts / "401").iterdir()]
    assert sorted(names) == ["plan", "record", "record", "report"]
