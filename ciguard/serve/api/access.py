"""Who may read a repository: its own jobs, and everybody where it is public.

A private repository does not exist for anybody else: whoever may not read it gets the answer, and
causes the work, of a name that nothing has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.serve.api.oidc import TokenRefused
from ciguard.serve.state import tokens

if TYPE_CHECKING:
    from ciguard.serve.api.oidc import JobTokens
    from ciguard.serve.state.database import Database

SCHEME: Final = "bearer"


def caller_repository(authorization: str | None, database: Database, jobs: JobTokens) -> int | None:
    """The id of the repository that a request is made for; None for one by nobody known.

    Args:
        authorization: the header of the request.

    Raises:
        TokenRefused: a token is shown that is none.
        KeysUnavailable: GitHub's keys cannot be had now.
    """
    if authorization is None:
        return None
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != SCHEME or not token:
        raise TokenRefused("expected `Authorization: Bearer TOKEN`")
    if not token.startswith(tokens.PREFIX):
        return jobs.repository_of(token)
    with database.read() as connection:
        found = tokens.repository_of(connection, token)
    if found is None:
        raise TokenRefused("the token is unknown or revoked")
    return found
