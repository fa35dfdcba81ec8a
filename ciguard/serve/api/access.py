"""The caller by its token: a job of a repository, the legs of a plan, or none that is known.

Its own jobs may read a repository, and every caller where it is public. Only the jobs and legs of a
run may claim its blocks. A private repository does not exist for another caller, who gets the
answer, and causes the work, of an unknown name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.serve.api.oidc import JobTokens, TokenRefused
from ciguard.serve.state import claim_rows, tokens

if TYPE_CHECKING:
    from ciguard.serve.state.database import Database
    from ciguard.serve.state.run_key import RunKey

SCHEME: Final = "bearer"


def caller_repository(authorization: str | None, database: Database, jobs: JobTokens) -> int | None:
    """Return the id of the repository that a request is made for; None without a token.

    Args:
        authorization: the header of the request.

    Raises:
        TokenRefused: a token is shown that is none.
        KeysUnavailable: GitHub's keys cannot be had now.
    """
    if authorization is None:
        return None
    token = _bearer_token(authorization)
    if not token.startswith(tokens.PREFIX):
        return jobs.repository_of(token)
    return _of_token(token, database)


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller in a run: by a token of its repository, of the run's jobs, or of its legs.

    Attributes:
        run: None for a token of the repository.
        plan: of a token of the legs; None for others.
    """

    repository_id: int
    run: RunKey | None = None
    plan: str | None = None


def find_caller(authorization: str | None, database: Database, jobs: JobTokens) -> Caller:
    """Find the caller of a request that needs a token; raises as `caller_repository`."""
    token = _bearer_token(authorization or "")
    if token.startswith(tokens.PREFIX):
        return Caller(_of_token(token, database))
    if not token.startswith(claim_rows.PREFIX):
        run = jobs.run_of(token)
        return Caller(run.repository_id, run)
    with database.read() as connection:
        found = claim_rows.plan_of(connection, token)
    if found is None:
        raise TokenRefused("the token is unknown, or was replaced when the plan was sent again")
    return Caller(found.run.repository_id, found.run, found.plan)


def _bearer_token(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != SCHEME or not token:
        raise TokenRefused("expected `Authorization: Bearer TOKEN`")
    return token


def _of_token(token: str, database: Database) -> int:
    with database.read() as connection:
        found = tokens.repository_of(connection, token)
    if found is None:
        raise TokenRefused("the token is unknown or revoked")
    return found
