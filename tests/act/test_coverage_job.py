"""The generated workflow with `[coverage]`: two shards, one number, and that of the change."""

from __future__ import annotations

import json

import pytest
from act.fake_machine import GitHub

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
SHOP = "def add(a, b):\n    return a + b\n\n\ndef pay(a):\n    return -a\n"
NEW = "\n\ndef ship(a):\n    if a:\n        return 1\n    return 0\n"
TEST = "import shop\n\ndef test_{0}(): assert shop.{0}({1})\n"
CONFIGURATION = """
[coverage]
format = "coverage.py"

[plan]
shards = 2

[suite.""]
args = ["--cov=shop", "--cov-report="]
"""


def test_coverage_of_all_shards_is_combined(github: GitHub) -> None:
    tests = {
        f"tests/test_{name}.py": TEST.format(name, given)
        for name, given in (("add", "1, 2"), ("pay", "3"))
    }
    # Under act, each job has its own folder.
    tests[".coveragerc"] = "[run]\nrelative_files = true\n"
    github.commit("a shop", {"shop.py": SHOP, "ciguard.toml": CONFIGURATION, **tests})
    answer = github.ciguard("init", "--yes")
    assert answer.returncode == 0, answer.stderr
    github.commit("ciguard", {})
    github.git("push", "--quiet", "origin", "main")
    change = {"shop.py": SHOP + NEW, "tests/test_ship.py": TEST.format("ship", "1")}
    run = github.run("pull_request", github.propose("ship", change), run_id=201)
    job = run.jobs["ciguard-coverage"]
    assert job.result == "success", run.talk
    assert "coverage 88 % of 8 lines" in job.printed
    (output,) = (github.artifacts / "201").glob("ciguard-coverage-201/*.json")
    numbers = json.loads(output.read_text("utf-8"))
    assert numbers["diff"] == {"covered": 3, "total": 4, "percent": 75.0}
    assert numbers["uncovered"] == {"shop.py": [12]}
