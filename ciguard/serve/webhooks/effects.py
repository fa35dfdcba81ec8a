"""What a delivery does to the service's state.

A webhook may be late, doubled or lost. So it adds work, and takes away at once what GitHub takes
away: a repository that was removed or made private. What it would give (a repository, a name,
publicity) is asked of GitHub, which says what holds now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.serve.state import deliveries, repositories, work_list
from ciguard.serve.state.repositories import Repository, RepositoryState
from ciguard.serve.work.run_attempts import latest_attempt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import Connection

    from ciguard.github.models import Webhook
    from ciguard.serve.state.deliveries import Delivery

# By event, the actions that matter; all others are accepted and ignored.
HANDLED: Final[Mapping[str, frozenset[str]]] = {
    "workflow_run": frozenset({"completed"}),
    "installation": frozenset({"created", "deleted", "unsuspend", "new_permissions_accepted"}),
    "installation_repositories": frozenset({"added", "removed"}),
    "repository": frozenset({"deleted", "renamed", "transferred", "privatized", "publicized"}),
}


@dataclass(frozen=True, slots=True)
class Received:
    """A delivery that was checked, with what it holds."""

    delivery: Delivery
    payload: Webhook


def has_subject(event: str, payload: Webhook) -> bool:
    """Say whether a payload names what its event is about."""
    has_repository = payload.repository is not None and payload.repository.id is not None
    if event == "workflow_run":
        return has_repository and payload.workflow_run is not None
    return has_repository if event == "repository" else payload.installation is not None


def apply_deliveries(connection: Connection, received: Sequence[Received]) -> None:
    """Write what deliveries say, each once; those of runs last."""
    unknown = deliveries.record(connection, [delivery.delivery for delivery in received])
    by_id = {
        delivery.delivery.id: delivery for delivery in received if delivery.delivery.id in unknown
    }
    for delivery in by_id.values():
        _take_away(connection, delivery.delivery, delivery.payload)
    _add_work(
        connection,
        [delivery.payload for delivery in by_id.values() if delivery.payload.workflow_run],
    )


def _take_away(connection: Connection, delivery: Delivery, payload: Webhook) -> None:
    match delivery.event, delivery.action:
        case "installation", "deleted" if payload.installation:
            repositories.remove_installation(connection, payload.installation.id)
        case "installation_repositories", "removed":
            ids = [one.id for one in payload.repositories_removed if one.id is not None]
            repositories.remove(connection, ids)
        case "repository", "deleted" if delivery.repository_id is not None:
            repositories.remove(connection, [delivery.repository_id])
        case "repository", "privatized" if delivery.repository_id is not None:
            repositories.set_private(connection, delivery.repository_id, is_private=True)


def _add_work(connection: Connection, payloads: Sequence[Webhook]) -> None:
    """Add the runs of active repositories; one that is unknown is known from now on.

    Only where an App's installation sent it: with a token the repositories are those of `--repo`.
    """
    runs = [
        (repository.id, one.workflow_run)
        for one in payloads
        if one.workflow_run and (repository := one.repository) and repository.id is not None
    ]
    known = repositories.states(connection, {number for number, _ in runs})
    new = [
        Repository(
            id=repository.id,
            full_name=repository.full_name,
            is_private=True,  # until GitHub was asked
            default_branch=repository.default_branch or "",
            installation_id=one.installation.id,
        )
        for one in payloads
        if one.installation and (repository := one.repository)
        if repository.id is not None and repository.id not in known
    ]
    repositories.add_unknown(connection, new)
    active = {one.id for one in new}
    active |= {number for number, state in known.items() if state is RepositoryState.ACTIVE}
    entries = [latest_attempt(number, run, "webhook") for number, run in runs if number in active]
    work_list.add(connection, entries)
