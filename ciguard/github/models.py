"""What ciguard reads out of GitHub's JSON: only the keys it uses, the rest is ignored.

Event payloads differ by event and by who sent them (act sends what the user wrote), so every key
of an event may be absent. Source: docs.github.com, "Webhook events and payloads", "REST API".
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, PositiveInt


class GitHubJson(BaseModel):
    """Frozen; unknown keys are GitHub's business."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Account(GitHubJson):
    """Who did something; `type` is User, Bot or Organization."""

    login: str
    type: str


class Comment(GitHubJson):
    """A comment of an issue or pull request; `user` is None for a deleted account."""

    id: int
    html_url: str
    body: str = ""
    user: Account | None


class Repository(GitHubJson):
    full_name: str = ""
    default_branch: str | None = None


class Tip(GitHubJson):
    """One end of a pull request; `repo` is None where the fork was deleted."""

    sha: str | None = None
    ref: str | None = None
    repo: Repository | None = None


class PullRequest(GitHubJson):
    number: PositiveInt
    head: Tip
    base: Tip


class MergeGroup(GitHubJson):
    """An entry of a merge queue; `base_ref` is spelt `refs/heads/main`."""

    base_ref: str


class Event(GitHubJson):
    """The payload in `$GITHUB_EVENT_PATH`."""

    pull_request: PullRequest | None = None
    merge_group: MergeGroup | None = None
    repository: Repository | None = None
