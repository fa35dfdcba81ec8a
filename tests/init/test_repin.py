"""A second `ciguard init --into`: only the address of the actions changes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from init.move_in_samples import ACTIONS, ADDRESS, CI, COMMIT, commit

from ciguard.workflow.actions_address import address_of_checkout, address_of_installation

if TYPE_CHECKING:
    from init.conftest import Init


def test_second_move_updates_the_address_of_the_actions(repository: Path, call: Init) -> None:
    call(repository, "--into", CI, "--yes")
    moved = (repository / CI).read_bytes()
    newer = ACTIONS.replace(COMMIT, "f" * 40).replace("v0.2.0", "v0.3.0")
    (repository / "ciguard.toml").write_text(newer, "utf-8")
    answer = call(repository, "--into", CI)
    changed = [line for line in answer.stdout.splitlines() if line.startswith("+ ")]
    names = [
        re.search(f"uses: octo-org/ciguard/actions/([a-z]+)@{'f' * 40} # v0.3.0$", x)
        for x in changed
    ]
    assert [found and found[1] for found in names] == ["plan", "run", "report", "history"]
    assert (repository / CI).read_bytes() == moved
    call(repository, "--into", CI, "--yes")
    expected = moved.replace(COMMIT.encode(), b"f" * 40).replace(b"v0.2.0", b"v0.3.0")
    assert (repository / CI).read_bytes() == expected
    (repository / "ciguard.toml").write_text(newer.replace(" # v0.3.0", ""), "utf-8")
    again = call(repository, "--into", CI, "--yes")
    assert again.stdout == f"{CI} uses ciguard's actions already\n", "the comment stays"


@pytest.mark.parametrize(
    ("url", "revision", "address"),
    [
        ("https://github.com/octo-org/ciguard.git", "main", f"octo-org/ciguard@{COMMIT}"),
        ("ssh://git@github.com/octo-org/ciguard", "v0.2.0", ADDRESS),
        ("https://git.example/octo-org/ciguard", "v0.2.0", ""),
        ("file:///home/octo/ciguard", "v0.2.0", ""),
    ],
)
def test_address_comes_from_an_installation_from_github(
    url: str, revision: str, address: str
) -> None:
    vcs = {"vcs": "git", "commit_id": COMMIT, "requested_revision": revision}
    assert address_of_installation(json.dumps({"url": url, "vcs_info": vcs})) == address
    assert address_of_installation(json.dumps({"url": url, "archive_info": {}})) == ""
    assert address_of_installation(None) == ""


def test_address_comes_from_a_clean_checkout_that_origin_has(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path / "checkout"), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    folder = tmp_path / "checkout"
    (folder / "actions/plan").mkdir(parents=True)
    (folder / "actions/plan/action.yml").write_text("name: plan\n", "utf-8")
    git("init", "-q", "-b", "main")
    git("remote", "add", "origin", "https://github.com/octo-org/ciguard")
    commit(folder)
    assert address_of_checkout(folder) == "", "no branch of origin has it"
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    head = git("rev-parse", "HEAD")
    assert address_of_checkout(folder) == f"octo-org/ciguard@{head}"
    git("tag", "v0.3.0")
    git("tag", "tried")
    assert address_of_checkout(folder) == f"octo-org/ciguard@{head} # v0.3.0"
    (folder / "notes").touch()
    assert address_of_checkout(folder) == "", "a runner would get something else"
    git("add", "notes")
    commit(folder)
    assert address_of_checkout(folder) == ""
    (folder / "actions/plan/action.yml").unlink()
    assert address_of_checkout(folder) == "", "a project in whose checkout ciguard is installed"
