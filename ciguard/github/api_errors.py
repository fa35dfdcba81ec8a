"""Errors of GitHub's API: one type, with GitHub's message, advice, and whether a retry helps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from ciguard.errors import RemoteError

STORAGE: Final = "GitHub's storage"  # instead of its address, which grants access for a minute


class GitHubError(RemoteError):
    """A refusal by GitHub, an unexpected answer, or no answer (`status` None).

    Attributes:
        wait_s: seconds that GitHub asks to wait; None if the refusal is no rate limit.
        is_lasting: other calls would fail too; False for an error of one object.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        fix: str = "",
        status: int | None = None,
        wait_s: float | None = None,
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.status = status
        self.wait_s = wait_s
        # An error of one object: it does not exist, or has another type or size.
        is_of_object = status is not None and status < HTTPStatus.INTERNAL_SERVER_ERROR
        self.is_lasting = not is_of_object or status in _ACCOUNT_WIDE_STATUSES

    @property
    def is_transient(self) -> bool:
        """Return whether a later retry may succeed: after a limit, a fault, or no answer."""
        if self.wait_s is not None or self.status is None:
            return True
        is_fault = self.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        return is_fault or self.status == HTTPStatus.TOO_MANY_REQUESTS


class Forbidden(GitHubError):
    """The token lacks a permission, as the read-only token of a fork's pull request.

    A caller may write to the job summary instead.
    """


class MaybeDone(GitHubError):
    """A POST without an answer that GitHub may have carried out: read before sending it again."""


_ACCOUNT_WIDE_STATUSES: Final = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}
)

# The permission for a path, if GitHub's header does not name it; the first match counts.
_PERMISSIONS: Final[Mapping[str, str]] = {
    "/comments": "pull-requests: write",
    "/issues": "issues: write",
    "/actions/": "actions: read",
    "POST /repos/[^ ]+/check-runs": "checks: write",
    "PATCH /repos/[^ ]+/check-runs": "checks: write",
    "/check-runs": "checks: read",
    "/(contents|branches|compare)/": "contents: read",
}

_ADVICE: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "pass a token that is valid now: GITHUB_TOKEN: ${{ github.token }} in "
    "a workflow, CIGUARD_TOKEN for ciguard serve",
    HTTPStatus.NOT_FOUND: "check that it exists and that the token may see it (a private "
    "repository answers 404 to strangers)",
    HTTPStatus.GONE: "it was deleted, or the repository has this feature switched off",
}

_APP_ADVICE: Final = (
    "check that CIGUARD_APP_ID and CIGUARD_APP_KEY are of the same App, and that the clock of this "
    "machine is right"
)


def error_of_response(
    description: str,
    status: int,
    message: str,
    headers: Mapping[str, str],
    *,
    wait_s: float | None = None,
) -> GitHubError:
    """Turn an answer of 3xx or above into an error.

    Args:
        description: method and path, such as `PATCH /repos/o/r/issues/comments/1`.
        message: message of GitHub, shown verbatim.
        headers: headers of the answer, in lower case, or a mapping that ignores case.
        wait_s: wait for a rate limit, which is too long; None for another refusal.
    """
    what = f"answered {status}: {message}"
    if wait_s is not None:
        fix = f"GitHub asks to wait {wait_s:.0f} s, longer than ciguard waits: run this again later"
        return GitHubError(what, where=description, fix=fix, status=status, wait_s=wait_s)
    if status == HTTPStatus.FORBIDDEN:
        fix = _permission_advice(description, headers)
        return Forbidden(what, where=description, fix=fix, status=status)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        kind = MaybeDone if description.startswith("POST ") else GitHubError
        fix = "GitHub has a fault: look at its status page and run this again later"
        return kind(what, where=description, fix=fix, status=status)
    fix = _ADVICE.get(status, "")
    if status < HTTPStatus.BAD_REQUEST:
        fix = "the repository was moved: use its present name"
    # GitHub answers 404 for an unknown App; paths of installations do not begin so.
    is_unknown_app = status == HTTPStatus.NOT_FOUND and description.startswith("GET /app")
    if is_unknown_app or (status == HTTPStatus.UNAUTHORIZED and " /app" in description):
        fix = _APP_ADVICE
    return GitHubError(what, where=description, fix=fix, status=status)


def unreachable(description: str, why: str, *, api_url: str, perhaps_done: bool) -> GitHubError:
    """Make the error of a missing or incomplete answer.

    Args:
        why: error of the network.
        perhaps_done: GitHub may have carried out the request, which must not be done twice.
    """
    kind = MaybeDone if perhaps_done else GitHubError
    fix = f"check the network and that GITHUB_API_URL is right ({api_url})"
    return kind(f"no answer: {why}", where=description, fix=fix)


def unexpected_response(description: str, why: str, *, api_url: str) -> GitHubError:
    """Make the error of an answer that is not GitHub's, or of an unknown version of GitHub."""
    fix = f"check that GITHUB_API_URL names GitHub's API and no proxy's page ({api_url})"
    return GitHubError(f"answered with unexpected content: {why}", where=description, fix=fix)


def _permission_advice(description: str, headers: Mapping[str, str]) -> str:
    """Name the permission in the syntax of a workflow: `issues=write` -> `issues: write`."""
    accepted = headers.get("x-accepted-github-permissions", "")
    words = accepted.replace("=", ": ").replace("_", "-").replace(";", " or")
    by_path = (word for path, word in _PERMISSIONS.items() if re.search(path, description))
    permission = words or next(by_path, "")
    if not permission:
        return "use a token that may do this"
    advice = f"give the job, or the App, `permissions:` {permission}"
    if "write" not in permission:
        return advice
    return f"{advice}; in a fork's pull request the token is always read-only"
