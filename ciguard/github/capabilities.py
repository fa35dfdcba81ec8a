"""Capabilities of a server and a token, found by a few read requests."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ciguard.github.api_errors import GitHubError
from ciguard.github.models import Branch, GitHubJson, Repository

if TYPE_CHECKING:
    from ciguard.github.client import GitHub


class BranchRule(GitHubJson):
    """A rule of a ruleset, with the parameters of its type."""

    type: str
    parameters: dict[str, Any] | None = None


def repository_facts(github: GitHub, repository: str) -> Repository:
    """Read a repository; GitHubError of status 404 if it does not exist for the token."""
    return github.item(Repository, f"/repos/{repository}")


def may_read(github: GitHub, path: str) -> bool:
    """Return whether a token may read objects of a kind, by the path of a nonexistent object.

    Raises:
        GitHubError: the answer allows neither conclusion.
    """
    try:
        github.item(GitHubJson, path)
    except GitHubError as error:
        if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            return error.status == HTTPStatus.NOT_FOUND
        raise
    return True


def required_checks(github: GitHub, repository: str, branch: str) -> frozenset[str]:
    """Return the names of a branch's required checks, by rulesets and by classic protection.

    Two calls, which need `metadata: read` for rules and `contents: read` for the branch.

    Raises:
        GitHubError: rules or protection cannot be read.
    """
    quoted = quote(branch, safe="")
    rules = github.items(BranchRule, f"/repos/{repository}/rules/branches/{quoted}")
    names = [
        check.get("context")
        for rule in rules
        if rule.type == "required_status_checks"
        for check in (rule.parameters or {}).get("required_status_checks", ())
    ]
    classic = github.item(Branch, f"/repos/{repository}/branches/{quoted}").protection or {}
    names += (classic.get("required_status_checks") or {}).get("contexts", ())
    return frozenset(map(str, filter(None, names)))
