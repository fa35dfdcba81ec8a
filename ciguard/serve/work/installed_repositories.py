"""Which repositories the service serves: those of the App's installations, or of `--repo`.

Asked of GitHub each time, so that a webhook that was lost, late or doubled does no lasting harm.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from ciguard.github import models
from ciguard.github.api_errors import GitHubError
from ciguard.serve.state import repositories
from ciguard.serve.state.database import read_clock_ms
from ciguard.serve.state.repositories import Repository
from ciguard.serve.work.thread_map import map_in_threads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ciguard.serve.github_app import App, Installation
    from ciguard.serve.service import Service

LOG: Final = logging.getLogger(__name__)
INSTALLATIONS: Final = 8  # that are asked for at once: each has a rate limit of its own

# By installation (None for a token) what it may see; None where GitHub did not say.
Listing = dict[int | None, list[Repository] | None]


def synchronize_repositories(service: Service, *, removes: bool = True) -> None:
    """Write which repositories there are; those that are gone are shown to nobody any more.

    What a webhook said while GitHub was asked is newer than the answer, and stays.

    Args:
        removes: False where the settings name only some of the service's repositories.

    Raises:
        GitHubError: GitHub did not name the App's installations.
    """
    with service.database.read() as connection:
        asked_at_ms = read_clock_ms(connection)
    app = service.github.app
    listing = _of_app(app) if app else _of_token(service)
    with service.database.write() as connection:
        newer = repositories.changed_since(connection, asked_at_ms)
        known = {one.id: one for one in repositories.active(connection)}
        there = {one.id: one for seen in listing.values() for one in seen or ()}
        repositories.upsert(
            connection,
            [
                one
                for one in there.values()
                if one.id not in newer and not _is_same(known.get(one.id), one)
            ],
        )
        gone = known.keys() - there.keys() - newer if removes else set()
        unsure = {installation for installation, seen in listing.items() if seen is None}
        repositories.remove(
            connection, [one for one in gone if known[one].installation_id not in unsure]
        )


def _of_app(app: App) -> Listing:
    installations = app.installations()
    seen = map_in_threads(partial(_of_installation, app), installations, INSTALLATIONS)
    return {one.id: rows for one, rows in zip(installations, seen, strict=True)}


def _of_installation(app: App, installation: Installation) -> list[Repository] | None:
    if installation.suspended_at is not None:
        return None  # may come back: nothing of it is asked for, and nothing is removed
    try:
        return list(_rows(app.repositories(installation.id), installation.id))
    except GitHubError as error:
        LOG.warning("repositories of installation %d: %s", installation.id, error)
        return None


def _of_token(service: Service) -> Listing:
    seen: list[models.Repository] = []
    with service.github.client(None) as github:
        for name in service.settings.repositories:
            try:
                seen.append(github.item(models.Repository, f"/repos/{name}"))
            except GitHubError as error:
                LOG.warning("%s: %s", name, error)
                if error.status != HTTPStatus.NOT_FOUND:
                    return {None: None}
    return {None: list(_rows(seen, None))}


def _rows(seen: Iterable[models.Repository], installation_id: int | None) -> Iterable[Repository]:
    for one in seen:
        if one.id is not None:
            branch = one.default_branch or ""
            yield Repository(one.id, one.full_name, one.private, branch, installation_id)


def _is_same(known: Repository | None, found: Repository) -> bool:
    return known is not None and replace(known, reconciled_at_ms=None) == found
