"""Asks GitHub which repositories there are and which of their runs are complete.

Repositories and the work list follow from GitHub's state, not from webhooks: those only make it
sooner, so that one that was lost, late or doubled does no lasting harm.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeVar

from ciguard.errors import UsageError
from ciguard.github import models
from ciguard.github.api_errors import GitHubError
from ciguard.github.run_client import completed_runs
from ciguard.serve.state import deliveries, lanes, repositories, work_list
from ciguard.serve.state.database import read_clock_ms
from ciguard.serve.state.repositories import Repository
from ciguard.serve.work.run_attempts import all_attempts
from ciguard.serve.work.worker import LaneLease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ciguard.serve.github_clients import App, Installation
    from ciguard.serve.service import Service
    from ciguard.serve.state.work_list import NewWork

T = TypeVar("T")
R = TypeVar("R")
# By installation (None for a token) the repositories that it may see; None where GitHub did not
# answer.
Listing = dict[int | None, list[Repository] | None]

LOG: Final = logging.getLogger(__name__)
INSTALLATIONS: Final = 8  # asked for side by side: each has a rate limit
INTERVAL_S: Final = 300.0
# Webhooks after which GitHub is asked what holds now.
RECONCILED: Final = ("installation", "installation_repositories", "repository")
COMMIT_MS: Final = 2_000  # from the time of a delivery until others see it
LANE: Final = "reconcile"  # one process at a time
# A pass asks for so many repositories of an installation: 2,400 calls an hour of at least 5,000,
# the rest of which are the jobs'. Where there are more, those come next whose turn is oldest.
TURNS: Final = 200
PASS_S: Final = INTERVAL_S  # an installation that answers slowly leaves the rest to the next pass
# GitHub filters by when a run was created, not by when it ended. A hosted job ends within 6 hours;
# once a day the look goes back as far as a run can last or be run again.
LOOK_BACK: Final = timedelta(hours=6)
DAILY_LOOK_BACK: Final = timedelta(days=35)
# Of those, the ones that ended before it are older than the service; our clock may be wrong.
OVERLAP: Final = timedelta(days=1)


class Reconciler:
    """Reconciles every five minutes; soon after a webhook told of a repository, only the new ones.

    Whichever process received that webhook: the database is asked.

    Args:
        worker: the name of this process.
        clock: seconds, monotonic.
    """

    def __init__(
        self, service: Service, worker: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._service = service
        self._worker = worker
        self._clock = clock
        self._due_s = clock()
        self._began_ms = 0

    def reconcile_when_due(self) -> int:
        """Reconcile if that is due, and return the number of runs added; call it every few seconds.

        Raises:
            RemoteError: as `reconcile`; it is due again after five minutes, or the next webhook.
        """
        with self._service.database.read() as connection:
            now = read_clock_ms(connection)
            is_asked_for = deliveries.has_received(connection, RECONCILED, self._began_ms)
        is_due = self._clock() >= self._due_s
        if not is_due and not is_asked_for:
            return 0
        self._began_ms = now - COMMIT_MS
        if is_due:
            self._due_s = self._clock() + INTERVAL_S
        added = reconcile(self._service, self._worker, only_new=not is_due)
        if added is None:
            # Whoever is at it may be dead: then this process is next, once that lease has ended.
            self._due_s = self._clock() + lanes.LEASE_S
        return added or 0


def reconcile(service: Service, worker: str, *, only_new: bool = False) -> int | None:
    """Make one pass over all repositories; count new runs, or None where another process does.

    Args:
        worker: the name of this process.
        only_new: ask for no runs of repositories that were asked for before.

    Raises:
        RemoteError: no installation is known, or the database cannot be reached.
    """
    with service.database.write() as connection:
        if not lanes.acquire(connection, LANE, worker):
            return None
    try:
        with LaneLease(service.database, LANE, worker) as lease:
            synchronize_repositories(service)
            until_s = time.monotonic() + PASS_S

            def is_over() -> bool:
                return lease.is_lost or time.monotonic() > until_s

            act = partial(_add_of_installation, service, is_over)
            return sum(map_in_threads(act, _turns(service, only_new=only_new), INSTALLATIONS))
    finally:
        with service.database.write() as connection:
            lanes.release(connection, LANE, worker)


def _add_of_installation(
    service: Service, is_over: Callable[[], bool], turns: Sequence[Repository]
) -> int:
    """Count new runs, of the first repository at least; after a refusal of no other."""
    added = 0
    for repository in turns:
        try:
            added += add_missing_runs(service, repository)
        except GitHubError as error:
            LOG.warning("runs of %s: %s", repository.full_name, error)
            if error.is_lasting:
                break
        if is_over():
            break
    return added


def _turns(service: Service, *, only_new: bool) -> Sequence[Sequence[Repository]]:
    """Select the repositories of this pass, by installation; those that waited longest first."""
    with service.database.read() as connection:
        known = repositories.active(connection)
    turns: dict[int | None, list[Repository]] = {}
    for one in sorted(known, key=lambda one: one.reconciled_at_ms or 0):
        if only_new and one.reconciled_at_ms is not None:
            break
        turns.setdefault(one.installation_id, []).append(one)
    return [one[:TURNS] for one in turns.values()]


def add_missing_runs(service: Service, repository: Repository) -> int:
    """Add runs completed since the repository was asked for last; return their number.

    Raises:
        GitHubError: GitHub refused or did not answer; it is asked for the same the next time.
    """
    with service.database.read() as connection:
        now = _time(read_clock_ms(connection))
    last = None if repository.reconciled_at_ms is None else _time(repository.reconciled_at_ms)
    since = now - LOOK_BACK if last is None else last
    is_first_of_day = last is not None and last.date() != now.date()
    created_from = since - (DAILY_LOOK_BACK if is_first_of_day else LOOK_BACK)
    with service.github.client(repository.installation_id) as github:
        runs = completed_runs(github, repository.full_name, created_from=created_from)
    entries = [
        entry
        for run in runs
        if run.updated_at is None or run.updated_at >= since - OVERLAP
        for entry in all_attempts(repository.id, run, "reconcile")
    ]
    return _add(service, repository, entries, is_reconciled=True)


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _add(
    service: Service, repository: Repository, entries: Sequence[NewWork], *, is_reconciled: bool
) -> int:
    with service.database.write() as connection:
        added = work_list.add(connection, entries)
        if is_reconciled:
            repositories.set_reconciled(connection, repository.id)
    return added


def backfill(service: Service, full_name: str, runs: int) -> int:
    """Add the newest runs of a repository, of any age; return the number of attempts added.

    Raises:
        UsageError: the service does not serve this repository.
        GitHubError: GitHub refused or did not answer.
    """
    synchronize_repositories(service, removes=False)
    with service.database.read() as connection:
        repository = repositories.find(connection, full_name)
    if repository is None:
        fix = "install the App there, or name it with --repo where the service has a token"
        raise UsageError("this repository is not served", where=full_name, fix=fix)
    with service.github.client(repository.installation_id) as github:
        listed = completed_runs(github, repository.full_name, limit=runs)
    entries = [entry for run in listed for entry in all_attempts(repository.id, run, "backfill")]
    return _add(service, repository, entries, is_reconciled=False)


def synchronize_repositories(service: Service, *, removes: bool = True) -> None:
    """Write the repositories of the App's installations, or of `--repo`; remove the others.

    A webhook that came while GitHub was asked is newer than the answer, and stays.

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
        known = {repository.id: repository for repository in repositories.active(connection)}
        listed = {
            repository.id: repository for seen in listing.values() for repository in seen or ()
        }
        repositories.upsert(
            connection,
            [
                repository
                for number, repository in listed.items()
                if number not in newer and not _is_same(known.get(number), repository)
            ],
        )
        gone = known.keys() - listed.keys() - newer if removes else set()
        unsure = {installation for installation, seen in listing.items() if seen is None}
        repositories.remove(
            connection,
            [repository for repository in gone if known[repository].installation_id not in unsure],
        )


def _of_app(app: App) -> Listing:
    installations = app.installations()
    seen = map_in_threads(partial(_of_installation, app), installations, INSTALLATIONS)
    return {installation.id: rows for installation, rows in zip(installations, seen, strict=True)}


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
    for repository in seen:
        if repository.id is not None:
            branch = repository.default_branch or ""
            yield Repository(
                repository.id, repository.full_name, repository.private, branch, installation_id
            )


def _is_same(known: Repository | None, listed: Repository) -> bool:
    return known is not None and replace(known, reconciled_at_ms=None) == listed


def map_in_threads(act: Callable[[T], R], values: Iterable[T], threads: int) -> list[R]:
    """Call `act` for each value, side by side; return the results in the order of the values.

    The first exception is raised, if there is one.
    A process that ends does not wait for these threads, as it would for those of `concurrent`.
    """
    calls = [(value, Future[R]()) for value in values]
    waiting = deque(calls)

    def work() -> None:
        while True:
            try:
                value, call = waiting.popleft()
            except IndexError:
                return
            try:
                call.set_result(act(value))
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
                call.set_exception(error)

    for _ in range(min(threads, len(calls))):
        threading.Thread(target=work, daemon=True).start()
    return [call.result() for _, call in calls]
