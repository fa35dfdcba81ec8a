"""The caller of the API by its token, and its rights: a job of a repository, or a leg of a plan.

The jobs of a repository may read it, and every caller may read a public repository. Only jobs and
legs of a run may claim its blocks. For another caller, a private repository does not exist: the
answer, and the work for it, are those of an unknown name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ciguard.serve.api.oidc import JobTokens, TokenRefused
from ciguard.serve.state import claim_rows, tokens
from ciguard.serve.state.database import Database
from ciguard.serve.state.run_key import RunKey

SCHEME: Final = "bearer"


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


def caller_repository(authorization: str | None, database: Database, jobs: JobTokens) -> int | None:
    """Return the id of the caller's repository; None without a token; raises as `find_caller`."""
    if authorization is None:
        return None
    caller = find_caller(authorization, database, jobs)
    if caller.plan is not None:
        raise TokenRefused("the token of a plan's legs is for their blocks alone")
    return caller.repository_id


def find_caller(authorization: str | None, database: Database, jobs: JobTokens) -> Caller:
    """Find the caller of a request that needs a token.

    Args:
        authorization: header of the request.

    Raises:
        TokenRefused: the token is missing or invalid.
        KeysUnavailable: GitHub's keys cannot be fetched.
    """
    token = _bearer_token(authorization or "")
    if not token.startswith((tokens.PREFIX, tokens.PAGES_PREFIX, claim_rows.PREFIX)):
        run = jobs.run_of(token)
        return Caller(run.repository_id, run)
    with database.read() as connection:
        plan = claim_rows.plan_of(connection, token)
        repository_id = tokens.repository_of(connection, token)
    if plan is not None:
        return Caller(plan.run.repository_id, plan.run, plan.plan)
    if repository_id is None:
        raise TokenRefused("the token is unknown, revoked, or was replaced by a newer plan")
    return Caller(repository_id)


def _bearer_token(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != SCHEME or not token:
        raise TokenRefused("expected `Authorization: Bearer TOKEN`")
    return token
