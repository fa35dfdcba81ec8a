"""A second `ciguard init --into`: only the address of the actions changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from init.move_in_samples import ACTIONS, CI, COMMIT

from ciguard.workflow.actions_address import address_of_installation

if TYPE_CHECKING:
    from pathlib import Path

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
    ("url", "address"),
    [
        ("https://github.com/octo-org/ciguard.git", f"octo-org/ciguard@{COMMIT}"),
        ("ssh://git@github.com/octo-org/ciguard", f"octo-org/ciguard@{COMMIT}"),
        ("https://git.example/octo-org/ciguard", ""),
    ],
)
def test_address_comes_from_an_installation_from_github(url: str, address: str) -> None:
    direct = f'{{"url": "{url}", "vcs_info": {{"vcs": "git", "commit_id": "{COMMIT}"}}}}'
    assert address_of_installation(direct) == address
    assert address_of_installation(f'{{"url": "{url}", "archive_info": {{}}}}') == ""
    assert address_of_installation(None) == ""
