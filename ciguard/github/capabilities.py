"""What a server and a token can do, found out by asking for little and changing nothing."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ciguard.github.api_errors import GitHubError
from ciguard.github.models import GitHubJson

if TYPE_CHECKING:
    from ciguard.github.client import GitHub


class Meta(GitHubJson):
    """`installed_version` is an Enterprise Server's alone."""

    installed_version: str = ""


class Calls(GitHubJson):
    """Of one hour."""

    limit: int
    remaining: int


class RateLimit(GitHubJson):
    """`rate` is that of ordinary calls."""

    rate: Calls


class RepositoryFacts(GitHubJson):
    """What a token sees of a repository."""

    full_name: str
    default_branch: str = ""
    private: bool = False


class BranchRule(GitHubJson):
    """A rule of a ruleset; `parameters` are those of its type."""

    type: str
    parameters: dict[str, Any] | None = None


class Branch(GitHubJson):
    """A branch; `protection` is what anybody who may read sees of its classic protection."""

    protection: dict[str, Any] | None = None


def rate_of(github: GitHub) -> Calls | None:
    """Calls left, in one that does not count; None where the server has no limits (404)."""
    try:
        return github.item(RateLimit, "/rate_limit").rate
    except GitHubError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise


def version_of(github: GitHub) -> str:
    """Of an Enterprise Server; "" for github.com."""
    return github.item(Meta, "/meta").installed_version


def repository_facts(github: GitHub, repository: str) -> RepositoryFacts:
    """Raises GitHubError: it is not there, or the token may not see it (404)."""
    return github.item(RepositoryFacts, f"/repos/{repository}")


def may_read(github: GitHub, path: str) -> bool:
    """Say whether a token may read things of a kind, by asking for one that is nowhere.

    Raises:
        GitHubError: neither yes nor no.
    """
    try:
        github.item(GitHubJson, path)
    except GitHubError as error:
        if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            return error.status == HTTPStatus.NOT_FOUND
        raise
    return True


def required_checks(github: GitHub, repository: str, branch: str) -> frozenset[str]:
    """Names of the checks that a branch requires, by rulesets and by classic protection.

    Two calls; needs no administrator: `metadata: read` for rules, `contents: read` for a branch.

    Raises:
        GitHubError: one of both is not known.
    """
    name = quote(branch, safe="")
    rules = github.items(BranchRule, f"/repos/{repository}/rules/branches/{name}")
    found = [
        check.get("context")
        for rule in rules
        if rule.type == "required_status_checks"
        for check in (rule.parameters or {}).get("required_status_checks", ())
    ]
    classic = github.item(Branch, f"/repos/{repository}/branches/{name}").protection or {}
    found += (classic.get("required_status_checks") or {}).get("contexts", ())
    return frozenset(map(str, filter(None, found)))
