"""What GitHub's refusals mean for the user: one error type, with the words and what to do."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from ciguard.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Mapping


STORAGE: Final = "GitHub's storage"  # its address is a password for a minute


class GitHubError(RemoteError):
    """GitHub said no, something odd, or nothing (`status` None).

    `wait_s`: seconds that GitHub asks to wait; None where the refusal is no rate limit.
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
        # Of one thing only: it is not there, not there any more, or of another kind or size.
        of_one_thing = status is not None and status < HTTPStatus.INTERNAL_SERVER_ERROR
        self.is_lasting = not of_one_thing or status in _ACCOUNT_WIDE_STATUSES

    @property
    def is_transient(self) -> bool:
        """Say that the same call may be answered later: a limit, a fault, or no answer at all."""
        if self.wait_s is not None or self.status is None:
            return True
        is_fault = self.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        return is_fault or self.status == HTTPStatus.TOO_MANY_REQUESTS


class Forbidden(GitHubError):
    """The token may not do this: read-only on a fork's pull request, or a permission is missing.

    A caller that has another place to write to (the job summary) may go on there and say so.
    """


class MaybeDone(GitHubError):
    """A POST met a fault or no answer, and may be done: read again before sending it again."""


_ACCOUNT_WIDE_STATUSES: Final = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}
)

# The permission for a path where GitHub's own header does not name it; the first that fits.
_PERMISSIONS: Final[Mapping[str, str]] = {
    "/comments": "pull-requests: write",
    "/issues": "issues: write",
    "/actions/": "actions: read",
    "POST /repos/[^ ]+/check-runs": "checks: write",
    "PATCH /repos/[^ ]+/check-runs": "checks: write",
    "/check-runs": "checks: read",
    "/contents/": "contents: read",
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
    description: str, status: int, message: str, headers: Mapping[str, str]
) -> GitHubError:
    """Turn an answer of 3xx or above into an error.

    Args:
        description: method and path, such as `PATCH /repos/o/r/issues/comments/1`.
        message: GitHub's own, shown verbatim.
        headers: of the answer, case ignored or lower.
    """
    what = f"answered {status}: {message}"
    if status == HTTPStatus.FORBIDDEN:
        fix = _permission_advice(description, headers)
        return Forbidden(what, where=description, fix=fix, status=status)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        kind = MaybeDone if description.startswith("POST ") else GitHubError
        fix = "GitHub has a fault: look at its status page and run this again later"
        return kind(what, where=description, fix=fix, status=status)
    moved = status < HTTPStatus.BAD_REQUEST
    fix = "the repository was moved: use its present name" if moved else _ADVICE.get(status, "")
    # An App that GitHub does not know is not found; an installation has a path of its own.
    is_unknown_app = status == HTTPStatus.NOT_FOUND and description.startswith("GET /app")
    if is_unknown_app or (status == HTTPStatus.UNAUTHORIZED and " /app" in description):
        fix = _APP_ADVICE
    return GitHubError(what, where=description, fix=fix, status=status)


def rate_limited(description: str, status: int, message: str, *, wait_s: float) -> GitHubError:
    """Say that GitHub asks for more patience than is left."""
    fix = f"GitHub asks to wait {wait_s:.0f} s, and ciguard waits no longer: run this again then"
    what = f"answered {status}: {message}"
    return GitHubError(what, where=description, fix=fix, status=status, wait_s=wait_s)


def unreachable(description: str, why: str, *, api_url: str, perhaps_done: bool) -> GitHubError:
    """Say that no whole answer came.

    Args:
        why: what the network said.
        perhaps_done: the request was sent, and is not one that can simply be sent twice.
    """
    kind = MaybeDone if perhaps_done else GitHubError
    fix = f"check the network and that GITHUB_API_URL is right ({api_url})"
    return kind(f"no answer: {why}", where=description, fix=fix)


def unexpected_response(description: str, why: str, *, api_url: str) -> GitHubError:
    """Say that what answered is not GitHub, or is a GitHub that ciguard does not know."""
    fix = f"check that GITHUB_API_URL names GitHub's API and no proxy's page ({api_url})"
    return GitHubError(f"answered something else than expected: {why}", where=description, fix=fix)


def _permission_advice(description: str, headers: Mapping[str, str]) -> str:
    """Name the permission in the words of a workflow: `issues=write` -> `issues: write`."""
    named = headers.get("x-accepted-github-permissions", "")
    words = named.replace("=", ": ").replace("_", "-").replace(";", " or")
    known = (word for path, word in _PERMISSIONS.items() if re.search(path, description))
    permission = words or next(known, "")
    if not permission:
        return "use a token that may do this"
    advice = f"give the job `permissions:` {permission}"
    if "write" not in permission:
        return advice
    return f"{advice}; in a fork's pull request the token is read-only whatever the workflow says"
