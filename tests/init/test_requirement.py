"""PEP 610: only what a runner can fetch again becomes a requirement."""

from __future__ import annotations

import json

import pytest
from packaging.requirements import Requirement

from ciguard.init.generated_files import direct_requirement

GIT = {"vcs": "git", "requested_revision": "main", "commit_id": "0123abcd"}


@pytest.mark.parametrize(
    ("origin", "url"),
    [
        (
            {"url": "https://git.example/o/ciguard.git.commands", "vcs_info": GIT},
            "git+https://git.example/o/ciguard.git.commands@0123abcd",
        ),
        (
            {"url": "ssh://git@git.example/o/mono.git", "vcs_info": GIT, "subdirectory": "py/ci"},
            "git+ssh://git@git.example/o/mono.git@0123abcd#subdirectory=py/ci",
        ),
    ],
)
def test_vcs_installation_gives_a_requirement_with_its_commit(
    origin: dict[str, object], url: str
) -> None:
    requirement = Requirement(direct_requirement(json.dumps(origin)))
    assert requirement.name == "ciguard-shards"
    assert requirement.url == url


@pytest.mark.parametrize(
    "origin",
    [
        None,
        {"url": "file:///home/somebody/ciguard", "dir_info": {"editable": True}},
        {"url": "file:///home/somebody/ciguard", "vcs_info": GIT},
        {"url": "https://files.example/ciguard_shards-1-py3-none-any.whl", "archive_info": {}},
    ],
)
def test_other_installations_give_no_requirement(origin: dict[str, object] | None) -> None:
    assert direct_requirement(None if origin is None else json.dumps(origin)) == ""
