"""The current workflow run, by GitHub's variables and the payload of the event.

Source: docs.github.com, "Variables reference" (default environment variables) and "Events that
trigger workflows". The number of a pull request comes from the event alone, because a fork can
forge its records. The *subject* is the run whose tests are judged: this run, or for a
`workflow_run` event the run that triggered it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pydantic

from ciguard.errors import CiguardError, InputError, combine
from ciguard.github.models import Event, FinishedRun
from ciguard.github.repository_ref import API_URL, REPOSITORY, SERVER_URL, is_address
from ciguard.model.jobs import is_github_actions

_SHA: Final = re.compile(r"[0-9a-f]{0,64}")  # act and tests shorten it
_INTEGER: Final = re.compile(r"(?:0*[1-9][0-9]*)?")
# For each variable: its check, the expected value in words, and the default.
_RULES: Final[Mapping[str, tuple[Callable[[str], object], str, str]]] = {
    "GITHUB_SHA": (_SHA.fullmatch, "a full commit SHA of 40 (or 64) hexadecimal digits", ""),
    "GITHUB_REPOSITORY": (REPOSITORY.fullmatch, "owner/name", ""),
    "GITHUB_API_URL": (is_address, "an http(s) address", API_URL),
    "GITHUB_SERVER_URL": (is_address, "an http(s) address", SERVER_URL),
    "GITHUB_RUN_ID": (_INTEGER.fullmatch, "an integer >= 1", ""),
    "GITHUB_RUN_ATTEMPT": (_INTEGER.fullmatch, "an integer >= 1", ""),
}

# Only these events run the code of the base branch as such. A `workflow_run` runs on the base
# branch too, but the run that triggered it may be of a fork.
BASE_EVENTS: Final = ("push", "schedule", "workflow_dispatch", "repository_dispatch")


NO_RUN: Final = FinishedRun(id=None)


@dataclass(frozen=True, slots=True)
class ActionsRun:
    """A workflow run. None means unknown.

    Attributes:
        repository: `owner/name`.
        api_url: without a closing slash; on GitHub Enterprise Server not api.github.com.
        workflow: file name of the workflow, which is unique in a repository; the display name where
            the file is unknown (act).
        head_sha: head of the pull request, otherwise `tested_sha`.
        tested_sha: commit that is checked out by default: for `pull_request` the merge of the head
            into the tip of the base branch.
        branch: branch of the change; None for a tag, even if called `main`.
        base_branch: target of the change; the default branch where the event names none.
        is_fork: the head of the pull request is in another repository: the token is read-only.
        triggering: the run that triggered a `workflow_run` event, with GitHub's facts; without an
            id for all other events.
        base_sha: commit of the base branch for the change; None for another event.
        head_repository: repository of a pull request's branch; None if deleted, or without one.
        head_repository_id: GitHub's number of `head_repository`.
    """

    repository: str
    api_url: str
    server_url: str
    workflow: str
    run_id: int | None
    run_attempt: int | None
    event: str
    head_sha: str | None
    tested_sha: str | None
    branch: str | None
    base_branch: str | None
    pull_request: int | None
    is_fork: bool
    triggering: FinishedRun = NO_RUN
    base_sha: str | None = None
    head_repository: str | None = None
    head_repository_id: int | None = None

    @property
    def is_unmerged(self) -> bool:
        """Return whether this run tests an unmerged change, whose own policy does not count."""
        # A pull request may have no number: GitHub may know none of the commit any more.
        return self.event in {"pull_request", "merge_group"} or self.pull_request is not None

    @property
    def is_subject_unmerged(self) -> bool:
        """Return whether the subject is an unmerged change: of this or the triggering run."""
        return self.is_unmerged or self.triggering.event in {"pull_request", "merge_group"}

    @property
    def is_of_base(self) -> bool:
        """Return whether the subject is a run of the base branch itself."""
        return not self.is_subject_unmerged and self.subject_branch == (self.base_branch or "")

    @property
    def is_triggered(self) -> bool:
        """Return whether another run triggered this run (`workflow_run`)."""
        return self.triggering.id is not None

    @property
    def is_subject_from_fork(self) -> bool:
        """Return whether the triggering run tested a pull request of another repository."""
        is_pull_request = self.is_triggered and self.triggering.event == "pull_request"
        return is_pull_request and self.triggering.repository.lower() != self.repository.lower()

    @property
    def subject_workflow(self) -> str:
        return self.triggering.workflow or self.workflow

    @property
    def subject_branch(self) -> str | None:
        return self.triggering.head_branch if self.is_triggered else self.branch

    @property
    def subject_head_repository(self) -> str | None:
        """Return the repository of the subject's branch; None without a pull request."""
        if self.is_triggered:
            is_pull_request = self.triggering.event == "pull_request"
            return self.triggering.repository or None if is_pull_request else None
        if self.pull_request is None:
            return None
        return self.head_repository or (None if self.is_fork else self.repository)

    @property
    def subject_head_repository_id(self) -> int | None:
        """Return GitHub's number of `subject_head_repository`; None if unknown."""
        return self.triggering.repository_id if self.is_triggered else self.head_repository_id

    @property
    def subject_run(self) -> tuple[int, int] | None:
        """Return run id and attempt of the subject; None if unknown."""
        run_id = self.triggering.id if self.is_triggered else self.run_id
        attempt = self.triggering.run_attempt if self.is_triggered else self.run_attempt
        return None if run_id is None else (run_id, attempt or 1)

    @property
    def is_base_branch(self) -> bool:
        """Return whether this run tests the base branch itself, and so may write history."""
        has_base_name = self.branch is not None and self.branch == self.base_branch
        return has_base_name and self.event in BASE_EVENTS

    @classmethod
    def from_environ(
        cls, environ: Mapping[str, str], event: Mapping[str, Any]
    ) -> ActionsRun | None:
        """Read the run from `GITHUB_*` and the event payload.

        Args:
            environ: environment of the process, or a part of it.
            event: parsed JSON of `$GITHUB_EVENT_PATH`; {} without an event.

        Returns:
            None outside GitHub Actions if no repository is named either.

        Raises:
            InputError: all mistakes in the variables and the payload.
        """
        variables = {name: text.strip() for name, text in environ.items()}
        if not is_github_actions(environ) and not variables.get("GITHUB_REPOSITORY"):
            return None
        mistakes: list[CiguardError] = []
        payload = _payload(event, mistakes)
        for name, (is_valid, expected, default) in _RULES.items():
            value = variables[name] = variables.get(name) or default
            if not is_valid(value):
                found = f'found "{value}"' if value else "not set"
                fix = f"GitHub sets {name} itself: remove what overwrites it"
                mistakes.append(InputError(f"expected {expected}, {found}", where=name, fix=fix))
        if mistakes:
            raise combine(mistakes)
        proposed, head = payload.pull_request, payload.head_repository
        tested_sha = variables["GITHUB_SHA"] or None
        default_branch = payload.repository.default_branch if payload.repository else None
        # o/r/.github/workflows/tests.yml@refs/heads/x
        workflow_file = variables.get("GITHUB_WORKFLOW_REF", "").partition("@")[0]
        branch = variables.get("GITHUB_HEAD_REF") or variables.get("GITHUB_REF_NAME") or None
        return cls(
            repository=variables["GITHUB_REPOSITORY"],
            api_url=variables["GITHUB_API_URL"].rstrip("/"),
            server_url=variables["GITHUB_SERVER_URL"].rstrip("/"),
            workflow=workflow_file.rpartition("/")[2] or variables.get("GITHUB_WORKFLOW", ""),
            run_id=int(variables["GITHUB_RUN_ID"] or 0) or None,
            run_attempt=int(variables["GITHUB_RUN_ATTEMPT"] or 0) or None,
            event=variables.get("GITHUB_EVENT_NAME", ""),
            head_sha=(proposed.head.sha if proposed else None) or tested_sha,
            tested_sha=tested_sha,
            branch=None if variables.get("GITHUB_REF_TYPE") == "tag" else branch,
            base_branch=payload.base_branch or default_branch,
            pull_request=proposed.number if proposed else None,
            is_fork=payload.is_of_fork(variables["GITHUB_REPOSITORY"]),
            triggering=payload.workflow_run or NO_RUN,
            base_sha=payload.base_sha,
            head_repository=head.full_name if head else None,
            head_repository_id=head.id if head else None,
        )


def current_run(environ: Mapping[str, str]) -> ActionsRun | None:
    """Return the current workflow run; None outside GitHub Actions.

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


def _payload(event: Mapping[str, Any], mistakes: list[CiguardError]) -> Event:
    """Return the validated payload; add a mistake, and return an empty one, if it is invalid."""
    try:
        return Event.model_validate(event)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        fix = "give the payload that GitHub wrote to this file, unchanged"
        what = f"{key}: {first['msg']}"
        mistakes.append(InputError(what, where="GITHUB_EVENT_PATH", fix=fix))
        return Event()
