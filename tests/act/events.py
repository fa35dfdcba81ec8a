"""Payloads of GitHub's events, as far as the workflows look at them."""

from __future__ import annotations

from typing import Any


def pull_request_event(head: str, base: str) -> dict[str, Any]:
    repository = {"full_name": "octo-org/shop", "default_branch": "main"}
    ends = {
        "head": {"ref": "crash", "sha": head, "repo": repository},
        "base": {"ref": "main", "sha": base, "repo": repository},
    }
    return {
        "action": "synchronize",
        "number": 7,
        "pull_request": {"number": 7, **ends},
        "repository": repository,
    }
