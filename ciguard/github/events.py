"""Which workflow run this is, by GitHub's own variables and the event's payload in its file.

Source: docs.github.com, "Variables reference" (default environment variables) and "Events that
trigger workflows". A pull request's number comes from the event alone: a record says what a fork
wants it to say.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pydantic

from ciguard.errors import CiguardError, InputError, combine
from ciguard.github.models import Event, FinishedRun
from ciguard.github.repository_ref import API_URL, REPOSITORY, SERVER_URL, is_address
from ciguard.model.jobs import is_github_actions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_SHA: Final = re.compile(r"[0-9a-f]{0,64}")  # act and tests shorten it
_INTEGER: Final = re.compile(r"(?:0*[1-9][0-9]*)?")

# Only these run the base branch's own code because it is the base branch. A `workflow_run` also
# says it runs there, but what it tells about may be a fork.
_BASE_EVENTS: Final = frozenset({"push", "schedule", "workflow_dispatch", "repository_dispatch"})


NO_RUN: Final = FinishedRun(id=None)


@dataclass(frozen=True, slots=True)
class ActionsRun:
    """One job of a workflow run. None means that GitHub did not say.

    Attributes:
        repository: `owner/name`.
        api_url: without a closing slash; on GitHub Enterprise Server not api.github.com.
        workflow: the workflow's file name, which is unique in a repository; its display name
            where GitHub does not tell the file (act).
        head_sha: what was proposed: the pull request's head, else `tested_sha`.
        tested_sha: what was checked out by default: for `pull_request` the merge of the head into
            the base's tip.
        branch: where the change lives; None for a tag, which is no branch even if called `main`.
        base_branch: where it is meant to go; the default branch where the event names none.
        is_fork: the pull request's head lives in another repository, so the token is read-only.
        triggering: the run that a `workflow_run` event is about, as GitHub says and not as that run
            does; without an id for all other events.
        base_sha: a commit of the base branch that the change is to go on; None for another event.
        head_repository: where a pull request's branch lives; None where it was deleted, or is none.
        head_repository_id: GitHub's number of it.
    """

    repository: str
    api_url: str
    server_url: str
    workflow: str
    run_id: int | None
    run_attempt: int | None
    job: str
    event: str
    head_sha: str | None
    tested_sha: str | None
    branch: str | None
    base_branch: str | None
    default_branch: str | None
    pull_request: int | None
    is_fork: bool
    triggering: FinishedRun = NO_RUN
    base_sha: str | None = None
    head_repository: str | None = None
    head_repository_id: int | None = None

    @property
    def is_unmerged(self) -> bool:
        """Say whether this run tests what is to be merged, so that its own tree writes no law."""
        return self.pull_request is not None or self.event == "merge_group"

    @property
    def is_subject_unmerged(self) -> bool:
        """Say whether what is judged is to be merged: in this run, or in the one it tells of."""
        return self.is_unmerged or self.triggering.event in {"pull_request", "merge_group"}

    @property
    def is_triggered(self) -> bool:
        """Say whether this run is about another one."""
        return self.triggering.id is not None

    @property
    def is_subject_from_fork(self) -> bool:
        """Say whether the run that this one is about had another repository's code in it."""
        is_pull_request = self.is_triggered and self.triggering.event == "pull_request"
        return is_pull_request and self.triggering.repository.lower() != self.repository.lower()

    @property
    def subject_workflow(self) -> str:
        """The workflow whose tests are reported."""
        return self.triggering.workflow or self.workflow

    @property
    def subject_branch(self) -> str | None:
        """The branch whose tests are reported."""
        return self.triggering.head_branch if self.is_triggered else self.branch

    @property
    def subject_head_repository(self) -> str | None:
        """The repository of the branch whose pull request is reported; None where it is none."""
        if self.is_triggered:
            is_pull_request = self.triggering.event == "pull_request"
            return self.triggering.repository or None if is_pull_request else None
        if self.pull_request is None:
            return None
        return self.head_repository or (None if self.is_fork else self.repository)

    @property
    def subject_head_repository_id(self) -> int | None:
        """GitHub's number of `subject_head_repository`; None where it did not say."""
        return self.triggering.repository_id if self.is_triggered else self.head_repository_id

    @property
    def subject_run(self) -> tuple[int, int] | None:
        """Run and attempt whose tests are reported; None where nobody says."""
        run_id = self.triggering.id if self.is_triggered else self.run_id
        attempt = self.triggering.run_attempt if self.is_triggered else self.run_attempt
        return None if run_id is None else (run_id, attempt or 1)

    @property
    def is_base_branch(self) -> bool:
        """Say whether this run tests the base branch itself, and so may write history."""
        on_base = self.branch is not None and self.branch == self.base_branch
        return on_base and self.event in _BASE_EVENTS

    @classmethod
    def from_environ(
        cls, environ: Mapping[str, str], event: Mapping[str, Any]
    ) -> ActionsRun | None:
        """Read the run out of `GITHUB_*` and the event payload.

        Args:
            environ: the process's environment, or a part of it.
            event: the parsed JSON of `$GITHUB_EVENT_PATH`; {} where there is none.

        Returns:
            None outside GitHub Actions where no repository is named either.

        Raises:
            InputError: variables or payload are not what GitHub writes; all mistakes together.
        """
        variables = _Variables(environ)
        if not is_github_actions(environ) and not variables.text("GITHUB_REPOSITORY"):
            return None
        payload = variables.payload(event)
        proposed = payload.pull_request
        expected = "a full commit SHA of 40 (or 64) hexadecimal digits"
        tested_sha = variables.checked("GITHUB_SHA", _SHA.fullmatch, expected) or None
        url = partial(variables.checked, is_valid=is_address, expected="an http(s) address")
        default_branch = payload.repository.default_branch if payload.repository else None
        head = payload.head_repository
        run = cls(
            repository=variables.checked("GITHUB_REPOSITORY", REPOSITORY.fullmatch, "owner/name"),
            api_url=url("GITHUB_API_URL", default=API_URL).rstrip("/"),
            server_url=url("GITHUB_SERVER_URL", default=SERVER_URL).rstrip("/"),
            workflow=variables.workflow(),
            run_id=variables.number("GITHUB_RUN_ID"),
            run_attempt=variables.number("GITHUB_RUN_ATTEMPT"),
            job=variables.text("GITHUB_JOB"),
            event=variables.text("GITHUB_EVENT_NAME"),
            head_sha=(proposed.head.sha if proposed else None) or tested_sha,
            tested_sha=tested_sha,
            branch=variables.branch(),
            base_branch=payload.base_branch or default_branch,
            default_branch=default_branch,
            pull_request=proposed.number if proposed else None,
            is_fork=payload.is_of_fork(variables.text("GITHUB_REPOSITORY")),
            triggering=payload.workflow_run or NO_RUN,
            base_sha=payload.base_sha,
            head_repository=head.full_name if head else None,
            head_repository_id=head.id if head else None,
        )
        if variables.mistakes:
            raise combine(variables.mistakes)
        return run


def current_run(environ: Mapping[str, str]) -> ActionsRun | None:
    """The workflow run around us; None outside GitHub Actions.

    Raises:
        InputError: the payload cannot be read or is no JSON object, or a variable is malformed.
    """
    path = environ.get("GITHUB_EVENT_PATH", "")
    payload: Any = {}
    if path:
        try:
            payload = json.loads(Path(path).read_bytes())
        except OSError as error:
            what = f"cannot be read: {error.strerror or error}"
            raise InputError(what, where=f"GITHUB_EVENT_PATH: {path}") from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"no JSON: {error}", where=f"GITHUB_EVENT_PATH: {path}") from error
        if not isinstance(payload, dict):
            raise InputError("expected a JSON object", where=f"GITHUB_EVENT_PATH: {path}")
    return ActionsRun.from_environ(environ, payload)


class _Variables:
    """Reads one variable at a time and collects what is wrong, to be told at once."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.mistakes: list[CiguardError] = []

    def text(self, name: str) -> str:
        return self._environ.get(name, "").strip()

    def checked(
        self, name: str, is_valid: Callable[[str], object], expected: str, default: str = ""
    ) -> str:
        """The variable; a wrong one is a mistake, and so is one that is not set and has a rule."""
        seen = self.text(name) or default
        if not is_valid(seen):
            found = f'found "{seen}"' if seen else "not set"
            fix = f"GitHub sets {name} itself: remove what overwrites it"
            self.mistakes.append(InputError(f"expected {expected}, {found}", where=name, fix=fix))
        return seen

    def number(self, name: str) -> int | None:
        seen = self.checked(name, _INTEGER.fullmatch, "an integer >= 1")
        return int(seen) if seen and _INTEGER.fullmatch(seen) else None

    def workflow(self) -> str:
        """`o/r/.github/workflows/tests.yml@refs/heads/x` -> `tests.yml`."""
        path = self.text("GITHUB_WORKFLOW_REF").partition("@")[0]
        return path.rpartition("/")[2] or self.text("GITHUB_WORKFLOW")

    def branch(self) -> str | None:
        if self.text("GITHUB_REF_TYPE") == "tag":
            return None
        return self.text("GITHUB_HEAD_REF") or self.text("GITHUB_REF_NAME") or None

    def payload(self, event: Mapping[str, Any]) -> Event:
        try:
            return Event.model_validate(event)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            fix = "give the payload that GitHub wrote to this file, unchanged"
            self.mistakes.append(
                InputError(f"{key}: {first['msg']}", where="GITHUB_EVENT_PATH", fix=fix)
            )
            return Event()
