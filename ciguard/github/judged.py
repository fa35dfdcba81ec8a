"""The run that is judged: the one around us, or the one that a `workflow_run` event tells of."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from ciguard.github.patience import Patience
from ciguard.github.payload import current_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ciguard.github.runs import RunOnGitHub

# What these calls tell only explains: a job that is billed does not wait for it as for a comment.
PATIENCE: Final = Patience(attempts=3, total_s=120.0)
TIMEOUT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """`source` is None where it cannot be asked: then `why`, and `fix`, what to do about it."""

    run_id: int
    run_attempt: int | None
    source: RunOnGitHub | None
    why: str = ""
    fix: str = ""


@contextlib.contextmanager
def judged_run(environ: Mapping[str, str]) -> Iterator[JudgedRun | None]:
    """Open a client for the run; None outside of a run of GitHub Actions.

    Raises:
        InputError: variables or payload are malformed.
        UsageError: the token or the API's address cannot be meant.
    """
    run = current_run(environ)
    if run is None or run.run_id is None or not environ.get("GITHUB_ACTIONS"):
        yield None
        return
    told = run.judged_run_id is not None
    run_id = run.judged_run_id or run.run_id
    attempt = run.judged_run_attempt if told else run.run_attempt
    token = environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or ""
    if not token:
        why = "GitHub was not asked how the jobs of this run ended: there is no token"
        fix = "set GITHUB_TOKEN: ${{ github.token }} in env; it needs actions: read, checks: read"
        yield JudgedRun(run_id, attempt, None, why, fix)
        return
    # Imported here: httpx costs 0.2 s that a laptop need not pay.
    from ciguard.github.client import GitHub  # noqa: PLC0415
    from ciguard.github.runs import RunOnGitHub  # noqa: PLC0415

    with GitHub(run.api_url, SecretStr(token), patience=PATIENCE, timeout_s=TIMEOUT_S) as github:
        yield JudgedRun(run_id, attempt, RunOnGitHub(github, run.repository, run_id))
