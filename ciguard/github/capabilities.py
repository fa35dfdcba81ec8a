"""What a server and a token can do, found out by asking for little and changing nothing."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

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
