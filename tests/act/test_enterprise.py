"""The workflow for an Enterprise Server, executed: plan, legs, report over generation 3."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from act.test_workflow_run import CART, STOCK, push_event

if TYPE_CHECKING:
    from pathlib import Path

    from act.fake_machine import GitHub


@pytest.mark.soak
def test_workflow_passes_with_artifact_actions_v3(github: GitHub, tmp_path: Path) -> None:
    own = replace(github, folder=tmp_path)
    for words in (["--bare", str(tmp_path / "origin.git")], [str(own.checkout)]):
        subprocess.run(["git", "init", "-q", "-b", "main", *words], check=True)
    own.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    own.git("remote", "add", "github", "https://github.com/octo-org/shop.git")
    own.commit("a shop", {"tests/test_cart.py": CART, "tests/test_stock.py": STOCK})
    answer = own.ciguard("init", "--yes", CIGUARD_INSTALL=str(own.wheel))
    assert answer.returncode == 0, answer.stderr
    config = (own.checkout / "ciguard.toml").read_text("utf-8")
    config = config.replace("# shards = 4", "shards = 2")
    config = config.replace("[workflow]", "[workflow]\nartifacts = 3")
    (own.checkout / "ciguard.toml").write_text(config, "utf-8")
    assert own.ciguard("init", "--yes", CIGUARD_INSTALL=str(own.wheel)).returncode == 0
    own.commit("ciguard", {})
    own.git("push", "--quiet", "origin", "main")
    run = own.run("push", push_event(), run_id=301)
    assert run.green, run.talk
    assert "PASSED" in run.job("ciguard").printed
    assert run.job("history").result == "success"
    names = sorted(item.name for item in (own.artifacts / "301").iterdir())
    assert [name.split("-")[1] for name in names] == ["plan", "record", "record", "report"]
