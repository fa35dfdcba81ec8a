"""Effects of webhook deliveries on the state of the service.

A webhook may be late, repeated or lost. So a delivery only adds work, and hides repositories at
once that were removed or made private. New repositories, names and publicity are not taken from a
delivery: the service asks GitHub for the current state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy.engine import Connection

from ciguard.github.models import Webhook
from ciguard.serve.state import deliveries, repositories, work_list
from ciguard.serve.state.database import Database
from ciguard.serve.state.deliveries import Delivery
from ciguard.serve.state.repositories import Repository, RepositoryState
from ciguard.serve.work.run_attempts import latest_attempt

# By event, the actions with an effect; other actions are accepted and ignored.
HANDLED: Final[Mapping[str, frozenset[str]]] = {
    "workflow_run": frozenset({"completed"}),
    "installation": frozenset({"created", "deleted", "unsuspend", "new_permissions_accepted"}),
    "installation_repositories": frozenset({"added", "removed"}),
    "repository": frozenset({"deleted", "renamed", "transferred", "privatized", "publicized"}),
}


@dataclass(frozen=True, slots=True)
class Received:
    """A delivery whose signature was checked, with its payload."""

    delivery: Delivery
    payload: Webhook


def has_subject(event: str, payload: Webhook) -> bool:
    has_repository = payload.repository is not None and payload.repository.id is not None
    if event == "workflow_run":
        return has_repository and payload.workflow_run is not None
    return has_repository if event == "repository" else payload.installation is not None


def apply_deliveries(database: Database, received: Sequence[Received]) -> None:
    """Apply new deliveries, each once, in one transaction; add runs after removals."""
    with database.write() as connection:
        new_ids = deliveries.record(connection, [item.delivery for item in received])
        new = {item.delivery.id: item for item in received if item.delivery.id in new_ids}
        for item in new.values():
            _hide_repositories(connection, item.delivery, item.payload)
        _add_work(connection, [item.payload for item in new.values() if item.payload.workflow_run])


def _hide_repositories(connection: Connection, delivery: Delivery, payload: Webhook) -> None:
    match delivery.event, delivery.action:
        case "installation", "deleted" if payload.installation:
            repositories.remove_installation(connection, payload.installation.id)
        case "installation_repositories", "removed":
            removed = payload.repositories_removed
            ids = [repository.id for repository in removed if repository.id is not None]
            repositories.remove(connection, ids)
        case "repository", "deleted" if delivery.repository_id is not None:
            repositories.remove(connection, [delivery.repository_id])
        case "repository", "privatized" if delivery.repository_id is not None:
            repositories.set_private(connection, delivery.repository_id, is_private=True)


def _add_work(connection: Connection, payloads: Sequence[Webhook]) -> None:
    """Add the runs of active repositories; add unknown repositories first.

    Only an App's installation adds repositories: with a token, `--repo` names them.
    """
    runs = [
        (repository.id, payload.workflow_run)
        for payload in payloads
        if payload.workflow_run and (repository := payload.repository) and repository.id is not None
    ]
    known = repositories.states(connection, {number for number, _ in runs})
    new = [
        Repository(
            id=repository.id,
            full_name=repository.full_name,
            is_private=True,  # until GitHub is asked
            default_branch=repository.default_branch or "",
            installation_id=payload.installation.id,
        )
        for payload in payloads
        if payload.installation and (repository := payload.repository)
        if repository.id is not None and repository.id not in known
    ]
    repositories.add_unknown(connection, new)
    active = {repository.id for repository in new}
    active |= {number for number, state in known.items() if state is RepositoryState.ACTIVE}
    entries = [latest_attempt(number, run, "webhook") for number, run in runs if number in active]
    work_list.add(connection, entries)
