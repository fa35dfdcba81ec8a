"""Models of GitHub's JSON, with the keys that ciguard uses; other keys are ignored.

Event payloads differ by event and by sender (act sends a payload of the user), so every key of an
event may be absent. Source: docs.github.com, "Webhook events and payloads", "REST API".
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AliasChoices, AwareDatetime, BaseModel, ConfigDict, Field

# GitHub's numbers are below the limit of exact integers in JavaScript, which fits databases.
MAX_NUMBER: Final = 2**53
PositiveInt = Annotated[int, Field(gt=0, le=MAX_NUMBER)]
MAX_ATTEMPT: Final = 2**31 - 1  # limit of a column of four bytes
Attempt = Annotated[int, Field(gt=0, le=MAX_ATTEMPT)]


class GitHubJson(BaseModel):
    """Base of all models: frozen, and unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Account(GitHubJson):
    """An account; `type` is User, Bot or Organization."""

    login: str
    type: str


class Text(GitHubJson):
    """A comment, issue or pull request; a comment has neither title nor state.

    `id` is the number in the address; `user` is None for a deleted account; `state` is open or
    closed.
    """

    id: PositiveInt = Field(validation_alias=AliasChoices("number", "id"))
    html_url: str
    body: str | None = None
    user: Account | None
    title: str = ""
    state: str = ""
    pull_request: dict[str, object] | None = None


class CheckRun(GitHubJson):
    """A check of a commit; `external_id` is the author's id of the check."""

    id: int
    html_url: str | None
    name: str = ""
    external_id: str | None = None


class Repository(GitHubJson):
    """A repository; it counts as private if the payload lacks the key."""

    id: Annotated[int, Field(ge=0, le=MAX_NUMBER)] | None = None
    full_name: str = ""
    default_branch: str | None = None
    private: bool = True


class PullRequestRef(GitHubJson):
    """One end of a pull request; `repo` is None if the fork was deleted."""

    sha: str | None = None
    ref: str | None = None
    repo: Repository | None = None


class PullRequest(GitHubJson):
    """`merge_commit_sha` is the tested merge of an open pull request, later the final merge."""

    number: PositiveInt
    state: str = "open"
    head: PullRequestRef
    base: PullRequestRef
    merge_commit_sha: str | None = None


class MergeGroup(GitHubJson):
    """An entry of a merge queue; `base_ref` has the form `refs/heads/main`."""

    base_ref: str
    base_sha: str | None = None


class FinishedRun(GitHubJson):
    """The run that triggered a `workflow_run` event; `path` is the file of its workflow."""

    id: PositiveInt | None
    run_attempt: Attempt | None = None
    event: str = ""
    path: str = ""
    head_sha: str | None = None
    head_branch: str | None = None
    head_repository: Repository | None = None

    @property
    def workflow(self) -> str:
        """Return the name of its workflow's file."""
        return self.path.partition("@")[0].rpartition("/")[2]

    @property
    def repository(self) -> str:
        """Return the repository of its branch; "" if deleted."""
        return self.head_repository.full_name if self.head_repository else ""

    @property
    def repository_id(self) -> int | None:
        """Return GitHub's number of that repository."""
        return self.head_repository.id if self.head_repository else None


class Event(GitHubJson):
    """The payload in `$GITHUB_EVENT_PATH`."""

    pull_request: PullRequest | None = None
    workflow_run: FinishedRun | None = None
    merge_group: MergeGroup | None = None
    repository: Repository | None = None

    @property
    def base_branch(self) -> str | None:
        """Return the target branch of the change; None if the event does not name it."""
        if self.pull_request:
            return self.pull_request.base.ref
        return self.merge_group.base_ref.removeprefix("refs/heads/") if self.merge_group else None

    @property
    def base_sha(self) -> str | None:
        """Return the commit of the target branch for the change."""
        if self.pull_request:
            return self.pull_request.base.sha
        return self.merge_group.base_sha if self.merge_group else None

    @property
    def head_repository(self) -> Repository | None:
        """Return the repository of a pull request's branch; None if deleted, or without one."""
        return self.pull_request.head.repo if self.pull_request else None

    def is_of_fork(self, repository: str) -> bool:
        """Return whether the pull request is of another repository, by comparing the names.

        `head.repo.fork` is also true in a repository that is a fork itself. A null `head.repo` is a
        deleted fork; a payload without the key was written for act.
        """
        if self.pull_request is None or "repo" not in self.pull_request.head.model_fields_set:
            return False
        home = self.head_repository
        return home is None or home.full_name.lower() != repository.lower()


class WorkflowRun(FinishedRun):
    id: PositiveInt
    run_attempt: Attempt = 1
    status: str | None = None
    conclusion: str | None = None
    head_sha: str = ""
    html_url: str = ""
    created_at: AwareDatetime | None = None
    run_started_at: AwareDatetime | None = None
    updated_at: AwareDatetime | None = None


class InstallationRef(GitHubJson):
    """The App's installation that sent a webhook; the webhook of a repository has none."""

    id: PositiveInt


class Webhook(GitHubJson):
    """The payload of a webhook; its keys depend on the event.

    Source: docs.github.com, "Webhook events and payloads".
    """

    action: str = ""
    repository: Repository | None = None
    installation: InstallationRef | None = None
    workflow_run: WorkflowRun | None = None
    repositories_removed: tuple[Repository, ...] = ()


class JobStep(GitHubJson):
    """A step; words of GitHub are no enum, so that new words are shown and not refused."""

    name: str
    number: int
    conclusion: str | None = None
    started_at: AwareDatetime | None = None
    completed_at: AwareDatetime | None = None

    @property
    def wall_s(self) -> float | None:
        """Return its duration; None for a step that did not run to its end."""
        if self.started_at is None or self.completed_at is None:
            return None
        if self.conclusion not in ("success", "failure"):
            return None
        # GitHub has reported brief steps that end a second before their start.
        return max(0.0, (self.completed_at - self.started_at).total_seconds())


class RunJob(GitHubJson):
    """A job in one run attempt; a server that reports no attempt means the first."""

    id: int
    name: str
    run_attempt: Attempt = 1
    status: str
    conclusion: str | None = None
    started_at: AwareDatetime | None = None
    completed_at: AwareDatetime | None = None
    html_url: str | None = None
    head_sha: str | None = None
    steps: tuple[JobStep, ...] | None = None
    labels: tuple[str, ...] = ()


class JobAnnotation(GitHubJson):
    """An annotation of a job by GitHub, the runner or a step."""

    message: str | None = None
    title: str | None = None


class UploadingRun(GitHubJson):
    """The run that uploaded an artifact; the head of a fork's pull request is the fork's."""

    id: PositiveInt
    repository_id: int | None = None
    head_repository_id: int | None = None
    head_branch: str | None = None


class Artifact(GitHubJson):
    """An uploaded artifact; its attempt follows from its time only.

    `digest` is the digest of the archive (`sha256:...`); None for generation 3.
    """

    id: int
    name: str
    expired: bool
    created_at: AwareDatetime | None = None
    digest: str | None = None
    size_in_bytes: int = 0
    workflow_run: UploadingRun | None = None


class Commit(GitHubJson):
    sha: str


class Branch(GitHubJson):
    """A branch; `protection` is its classic protection as far as readers may see it."""

    commit: Commit
    protection: dict[str, Any] | None = None


class Comparison(GitHubJson):
    """A comparison of two commits, with their merge base."""

    status: str
    merge_base_commit: Commit
    behind_by: int = 0  # commits of the first that the second has not
    commits: tuple[Commit, ...] = ()


class Content(GitHubJson):
    """A file at a commit, or a blob; `content` is base64 with line ends, for files up to 1 MB."""

    type: str = "file"
    sha: str = ""
    encoding: str = ""
    content: str = ""
    size: int = 0
