"""Which workflow run this is, told by GitHub's own variables and event payload; pure.

Source: docs.github.com, "Variables reference" (default environment variables) and "Events that
trigger workflows". A pull request's number comes from the event alone: a record says what a fork
wants it to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pydantic

from ciguard.errors import CiguardError, InputError, combine
from ciguard.github.models import Event
from ciguard.github.repository_names import API_URL, REPOSITORY, SERVER_URL, is_address
from ciguard.model.jobs import is_github_actions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.github.models import Repository

_SHA: Final = re.compile(r"[0-9a-f]{1,64}")  # act and tests shorten it

# Only these run the base branch's own code because it is the base branch. A `workflow_run` also
# says it runs there, but what it tells about may be a fork.
_BASE_EVENTS: Final = frozenset({"push", "schedule", "workflow_dispatch", "repository_dispatch"})


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
        triggering_run_id: the run that a `workflow_run` event tells of; None for all other events.
            `triggering_event`, `triggering_workflow`, `triggering_sha`, `triggering_branch`,
            `triggering_repository`
            and its number are that run's, as GitHub says and not as the run does.
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
    triggering_run_id: int | None = None
    triggering_run_attempt: int | None = None
    triggering_event: str = ""
    triggering_workflow: str = ""
    triggering_sha: str | None = None
    triggering_branch: str | None = None
    triggering_repository: str = ""
    triggering_repository_id: int | None = None
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
        return self.is_unmerged or self.triggering_event in {"pull_request", "merge_group"}

    @property
    def is_subject_from_fork(self) -> bool:
        """Say whether the run that this one tells of had another repository's code in it."""
        is_triggered = (
            self.triggering_run_id is not None and self.triggering_event == "pull_request"
        )
        return is_triggered and self.triggering_repository.lower() != self.repository.lower()

    @property
    def subject_workflow(self) -> str:
        """The workflow whose tests are told of."""
        return self.triggering_workflow or self.workflow

    @property
    def subject_branch(self) -> str | None:
        """The branch whose tests are told of."""
        return self.branch if self.triggering_run_id is None else self.triggering_branch

    @property
    def subject_head_repository(self) -> str | None:
        """The repository of the branch whose pull request is told of; None where it is none."""
        if self.triggering_run_id is not None:
            return (
                self.triggering_repository or None
                if self.triggering_event == "pull_request"
                else None
            )
        if self.pull_request is None:
            return None
        return self.head_repository or (None if self.is_fork else self.repository)

    @property
    def subject_head_repository_id(self) -> int | None:
        """GitHub's number of `subject_head_repository`; None where it did not say."""
        is_triggered = self.triggering_run_id is not None
        return self.triggering_repository_id if is_triggered else self.head_repository_id

    @property
    def subject_run(self) -> tuple[int, int] | None:
        """Run and attempt whose tests are told of; None where nobody says."""
        is_triggered = self.triggering_run_id is not None
        run_id = self.triggering_run_id if is_triggered else self.run_id
        attempt = self.triggering_run_attempt if is_triggered else self.run_attempt
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
        if not variables.in_actions and not variables.text("GITHUB_REPOSITORY"):
            return None
        payload = variables.payload(event)
        proposed = payload.pull_request
        tested_sha = variables.sha("GITHUB_SHA")
        default_branch = payload.repository.default_branch if payload.repository else None
        head = _head_repository(payload)
        run = cls(
            repository=variables.repository(),
            api_url=variables.url("GITHUB_API_URL", API_URL),
            server_url=variables.url("GITHUB_SERVER_URL", SERVER_URL),
            workflow=variables.workflow(),
            run_id=variables.number("GITHUB_RUN_ID"),
            run_attempt=variables.number("GITHUB_RUN_ATTEMPT"),
            job=variables.text("GITHUB_JOB"),
            event=variables.text("GITHUB_EVENT_NAME"),
            head_sha=(proposed.head.sha if proposed else None) or tested_sha,
            tested_sha=tested_sha,
            branch=variables.branch(),
            base_branch=_base_branch(payload) or default_branch,
            default_branch=default_branch,
            pull_request=proposed.number if proposed else None,
            is_fork=_is_fork(payload, variables.text("GITHUB_REPOSITORY")),
            triggering_run_id=payload.workflow_run.id if payload.workflow_run else None,
            triggering_run_attempt=payload.workflow_run.run_attempt
            if payload.workflow_run
            else None,
            base_sha=_base_sha(payload),
            head_repository=head.full_name if head else None,
            head_repository_id=head.id if head else None,
            **_triggering_run(payload),
        )
        if variables.mistakes:
            raise combine(variables.mistakes)
        return run


class _Variables:
    """Reads one variable at a time and collects what is wrong, to be told at once."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.mistakes: list[CiguardError] = []

    @property
    def in_actions(self) -> bool:
        return is_github_actions(self._environ)

    def text(self, name: str) -> str:
        return self._environ.get(name, "").strip()

    def add_mistake(self, name: str, expected: str) -> None:
        seen = self.text(name)
        what = f'expected {expected}, found "{seen}"' if seen else f"expected {expected}, not set"
        fix = f"GitHub sets {name} itself: remove what overwrites it"
        self.mistakes.append(InputError(what, where=name, fix=fix))

    def repository(self) -> str:
        seen = self.text("GITHUB_REPOSITORY")
        if not REPOSITORY.fullmatch(seen):
            self.add_mistake("GITHUB_REPOSITORY", "owner/name")
        return seen

    def number(self, name: str) -> int | None:
        seen = self.text(name)
        if not seen:
            return None
        if not (seen.isascii() and seen.isdigit() and int(seen) >= 1):
            self.add_mistake(name, "an integer >= 1")
            return None
        return int(seen)

    def sha(self, name: str) -> str | None:
        seen = self.text(name)
        if seen and not _SHA.fullmatch(seen):
            self.add_mistake(name, "a full commit SHA of 40 (or 64) hexadecimal digits")
        return seen or None

    def url(self, name: str, default: str) -> str:
        seen = self.text(name) or default
        if not is_address(seen):
            self.add_mistake(name, "an http(s) address")
        return seen.rstrip("/")

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


def _triggering_run(payload: Event) -> dict[str, Any]:
    triggering = payload.workflow_run
    if triggering is None:
        return {}
    return {
        "triggering_event": triggering.event,
        "triggering_workflow": triggering.path.partition("@")[0].rpartition("/")[2],
        "triggering_sha": triggering.head_sha,
        "triggering_branch": triggering.head_branch,
        "triggering_repository": triggering.head_repository.full_name
        if triggering.head_repository
        else "",
        "triggering_repository_id": triggering.head_repository.id
        if triggering.head_repository
        else None,
    }


def _base_branch(payload: Event) -> str | None:
    if payload.pull_request:
        return payload.pull_request.base.ref
    if payload.merge_group:
        return payload.merge_group.base_ref.removeprefix("refs/heads/")
    return None


def _base_sha(payload: Event) -> str | None:
    if payload.pull_request:
        return payload.pull_request.base.sha
    return payload.merge_group.base_sha if payload.merge_group else None


def _head_repository(payload: Event) -> Repository | None:
    head = payload.pull_request.head if payload.pull_request else None
    return head.repo if head is not None else None


def _is_fork(payload: Event, repository: str) -> bool:
    """Compare the names: `head.repo.fork` is also true of a repository that is a fork itself.

    A null `head.repo` is a fork that was deleted; no key at all is a payload written for act.
    """
    head = payload.pull_request.head if payload.pull_request else None
    if head is None or "repo" not in head.model_fields_set:
        return False
    return head.repo is None or head.repo.full_name.lower() != repository.lower()
