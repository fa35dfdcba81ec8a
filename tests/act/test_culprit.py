"""The generated workflow with `culprit`: a red push is searched, and its issue names the commit."""

from __future__ import annotations

import pytest
from act.fake_machine import PUSH, GitHub
from act.test_confirming import set_up_repository

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
TEST = "import shop\ndef test_price(): assert shop.price() == 3\ndef test_small(): pass\n"
CONFIGURATION = """
[culprit]
on_red = true
budget = "2m"
[experiment]
setup = "true"
[plan]
shards = 1
"""


def price(value: int) -> dict[str, str]:
    return {"shop.py": f"def price(): return {value}\n"}


def test_red_push_is_searched_and_answered_in_the_issue(github: GitHub) -> None:
    set_up_repository(github, {**price(3), "test_shop.py": TEST, "ciguard.toml": CONFIGURATION})
    github.commit("innocent", {"other.py": "x = 1\n"})
    bad = github.commit("dearer", price(4))
    github.commit("innocent too", {"other.py": "x = 2\n"})
    github.git("push", "--quiet", "origin", "main")
    event = {**PUSH, "after": github.git("rev-parse", "HEAD")}
    found = github.run("push", event, run_id=201)
    assert found.jobs["ciguard (culprit)"].result == "success", found.talk
    (comment,) = github.comments()
    assert f"since {bad[:10]} (98 %, dearer): failed in " in comment["body"]
