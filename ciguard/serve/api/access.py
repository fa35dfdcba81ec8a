"""The caller of the API by its token, and its rights: a job of a repository, or a leg of a plan.

The jobs of a repository may read it, and every caller may read a public repository. Only jobs and
legs of a run may claim its blocks. For another caller, a private repository does not exist: the
answer, and the work for it, are those of an unknown name.
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
    """Return the id of the caller's repository; None without a token.

    Args:
        authorization: header of the request.

    Raises:
        TokenRefused: the token is invalid.
        KeysUnavailable: GitHub's keys cannot be fetched.
    """
    if authorization is None:
        return None
    token = _bearer_token(authorization)
    if not token.startswith(tokens.PREFIX):
        return jobs.repository_of(token)
    return _of_token(token, database)


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller with a token of a repository, of a run's job, or of a plan's legs.

    Attributes:
        run: None for a token of the repository.
        plan: None unless the token is of legs.
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
        plan = claim_rows.plan_of(connection, token)
    if plan is None:
        raise TokenRefused("the token is unknown, or was replaced when the plan was sent again")
    return Caller(plan.run.repository_id, plan.run, plan.plan)


def _bearer_token(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != SCHEME or not token:
        raise TokenRefused("expected `Authorization: Bearer TOKEN`")
    return token


def _of_token(token: str, database: Database) -> int:
    with database.read() as connection:
        repository_id = tokens.repository_of(connection, token)
    if repository_id is None:
        raise TokenRefused("the token is unknown or revoked")
    return repository_id
