"""Webhooks as GitHub sends them: signed, with the three headers that tell what they are."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fakegithub.actions import FINISHED_RUN

if TYPE_CHECKING:
    from fakegithub.apps import FakeRepository

WEBHOOK_SECRET: Final = "the-secret-of-the-webhooks"
PATH: Final = "/webhooks/github"
NUMBERS: Final = itertools.count(1)


@dataclass(frozen=True, slots=True)
class FakeDelivery:
    """One webhook; `content` overrides what is sent of the payload."""

    event: str
    payload: Mapping[str, Any]
    id: str = field(default_factory=lambda: f"72d3162e-cc78-11e3-81ab-{next(NUMBERS):012}")
    content: bytes | None = None
    secret: str = WEBHOOK_SECRET

    @property
    def body(self) -> bytes:
        return json.dumps(self.payload).encode() if self.content is None else self.content

    def headers(self, **others: str | None) -> dict[str, str]:
        """Those that GitHub sends; another value, or None to leave one out, by `_` for `-`."""
        digest = hmac.new(self.secret.encode(), self.body, hashlib.sha256).hexdigest()
        sent: dict[str, str | None] = {
            "content-type": "application/json",
            "user-agent": "GitHub-Hookshot/044aadd",
            "x-github-event": self.event,
            "x-github-delivery": self.id,
            "x-github-hook-id": "292430182",
            "x-hub-signature-256": f"sha256={digest}",
            **{name.replace("_", "-"): value for name, value in others.items()},
        }
        return {name: value for name, value in sent.items() if value is not None}


def workflow_run(
    repository: FakeRepository,
    run_id: int,
    *,
    action: str = "completed",
    attempt: int = 1,
    installation: int | None = 101,
    **facts: Any,
) -> FakeDelivery:
    """The webhook of a run.

    Args:
        installation: the App's that sends it; None for a webhook of the repository itself.
        facts: of the run.
    """
    shown = repository.as_json()
    run = {
        **FINISHED_RUN,
        "id": run_id,
        "run_attempt": attempt,
        "head_repository": shown,
        "pull_requests": [],
        **facts,
    }
    sender = {} if installation is None else {"installation": {"id": installation}}
    payload = {"action": action, "workflow_run": run, "repository": shown, **sender}
    return FakeDelivery("workflow_run", payload)


def installation(action: str) -> FakeDelivery:
    """The App was installed or uninstalled."""
    return FakeDelivery("installation", {"action": action, "installation": {"id": 101}})


def repositories_removed(*repositories: FakeRepository, number: int = 101) -> FakeDelivery:
    """An installation lost repositories; GitHub says little of each."""
    removed = [
        {"id": one.id, "full_name": one.full_name, "private": one.private} for one in repositories
    ]
    payload = {
        "action": "removed",
        "installation": {"id": number},
        "repositories_removed": removed,
        "repositories_added": [],
    }
    return FakeDelivery("installation_repositories", payload)


def repositories_added(*repositories: FakeRepository, number: int = 101) -> FakeDelivery:
    """An installation has more repositories than before."""
    lost = repositories_removed(*repositories, number=number).payload
    changed = {"action": "added", "repositories_added": lost["repositories_removed"]}
    return FakeDelivery(
        "installation_repositories", {**lost, **changed, "repositories_removed": []}
    )


def repository(action: str, of: FakeRepository) -> FakeDelivery:
    """Something happened to a repository."""
    payload = {"action": action, "repository": of.as_json(), "installation": {"id": 101}}
    return FakeDelivery("repository", payload)
