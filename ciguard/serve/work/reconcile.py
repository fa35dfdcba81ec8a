"""Reconciliation with GitHub: lists repositories and completed runs, and adds what is missing.

Repositories and the work list follow from GitHub's state. Webhooks only make changes known earlier,
so that a lost, late or repeated webhook does no lasting harm.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar

from ciguard.errors import UsageError
from ciguard.github import models
from ciguard.github.api_errors import GitHubError
from ciguard.github.client import GitHub
from ciguard.github.events import BASE_EVENTS
from ciguard.github.models import WorkflowRun
from ciguard.github.run_client import completed_runs
from ciguard.history.daemon_thread import in_thread
from ciguard.history.file import VALUES_PER_KEY
from ciguard.serve.github_clients import App, Installation, refusal_of
from ciguard.serve.service import Service
from ciguard.serve.state import lanes, pauses, repositories, work_list
from ciguard.serve.state.database import read_clock_ms
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.work_list import NewWork
from ciguard.serve.webhooks import all_attempts, has_received, latest_attempt
from ciguard.serve.work.worker import LaneLease
from ciguard.sources.artifacts import PLAN, RECORD, RunArtifacts

T = TypeVar("T")
R = TypeVar("R")
# The repositories of each installation (None: of the token); None where GitHub did not answer.
Listing = dict[int | None, list[Repository] | None]

LOG: Final = logging.getLogger(__name__)
INSTALLATIONS: Final = 8  # queried in parallel: each has its own rate limit
INTERVAL_S: Final = 300.0
# Webhooks after which the repositories are listed at once.
RECONCILED: Final = ("installation", "installation_repositories", "repository")
COMMIT_MS: Final = 2_000  # from the time of a delivery until other transactions see it
LANE: Final = "reconcile"  # one process at a time
# Repositories of an installation in one pass: 2,400 calls an hour of at least 5,000; jobs need the
# rest. The repositories that were reconciled longest ago come first.
TURNS: Final = 200
PASS_S: Final = INTERVAL_S  # if an installation answers slowly, the next pass does the rest
# GitHub filters runs by their creation, not by their end. A hosted job ends within 6 hours; once a
# day, the list goes back as far as a run can last or be run again.
LOOK_BACK: Final = timedelta(hours=6)
DAILY_LOOK_BACK: Final = timedelta(days=35)
# Runs of that list that ended before this time are older than the service; clocks may differ.
OVERLAP: Final = timedelta(days=1)


class Reconciler:
    """Reconciles every five minutes; soon after a webhook about a repository, only new ones.

    The database has such a webhook, whichever process received it.

    Args:
        worker: name of this process.
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
        """Reconcile if due, and return the number of runs added; call it every few seconds.

        Raises:
            RemoteError: as `reconcile`; the next pass is due after five minutes, or a webhook.
        """
        with self._service.database.read() as connection:
            now_ms = read_clock_ms(connection)
            has_webhook = has_received(connection, RECONCILED, self._began_ms)
        is_due = self._clock() >= self._due_s
        if not is_due and not has_webhook:
            return 0
        self._began_ms = now_ms - COMMIT_MS
        if is_due:
            self._due_s = self._clock() + INTERVAL_S
        added = reconcile(self._service, self._worker, only_new=not is_due)
        if added is None:
            # The process that has the lease may be dead: try again after the end of its lease.
            self._due_s = self._clock() + lanes.LEASE_S
        return added or 0


def reconcile(service: Service, worker: str, *, only_new: bool = False) -> int | None:
    """Make one pass over all repositories; count new runs, or None if another process does.

    Args:
        worker: name of this process.
        only_new: list only runs of repositories that were never reconciled.

    Raises:
        RemoteError: the installations cannot be listed, or the database cannot be reached.
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
    """Add runs of at least the first repository; return their number. A lasting error ends it."""
    added = 0
    for repository in turns:
        try:
            added += add_missing_runs(service, repository)
        except GitHubError as error:
            LOG.warning("runs of %s: %s", repository.full_name, error)
            refusal = refusal_of(error)
            if refusal is not None:
                with service.database.write() as connection:
                    pauses.start(connection, repository.id, refusal)
            if error.is_lasting and not (refusal and refusal.is_of_repository):
                break
        if is_over():
            break
    return added


def _turns(service: Service, *, only_new: bool) -> Sequence[Sequence[Repository]]:
    """Select the repositories of this pass, by installation, the longest waiting first."""
    with service.database.read() as connection:
        active = repositories.active(connection)
    turns: dict[int | None, list[Repository]] = {}
    for repository in sorted(active, key=lambda repository: repository.reconciled_at_ms or 0):
        if only_new and repository.reconciled_at_ms is not None:
            break
        turns.setdefault(repository.installation_id, []).append(repository)
    return [turn[:TURNS] for turn in turns.values()]


def add_missing_runs(service: Service, repository: Repository) -> int:
    """Add runs that completed since the last reconciliation; return their number.

    The first time, past runs of the base branch are added too, which fill the history.

    Raises:
        GitHubError: GitHub refused or did not answer; the next call lists the same runs.
    """
    with service.database.read() as connection:
        now = _time(read_clock_ms(connection))
    last = None if repository.reconciled_at_ms is None else _time(repository.reconciled_at_ms)
    since = now - LOOK_BACK if last is None else last
    is_first_of_day = last is not None and last.date() != now.date()
    created_from = since - (DAILY_LOOK_BACK if is_first_of_day else LOOK_BACK)
    with service.github.client(repository.installation_id) as github:
        runs = completed_runs(github, repository.full_name, created_from=created_from)
        is_new = last is None and repository.default_branch
        entries = _history_runs(github, repository) if is_new else []
    entries += [
        entry
        for run in runs
        if run.updated_at is None or run.updated_at >= since - OVERLAP
        for entry in all_attempts(repository.id, run, "reconcile")
    ]
    with service.database.write() as connection:
        added = work_list.add(connection, entries)
        repositories.set_reconciled(connection, repository.id)
        pauses.end(connection, [repository.id])
    return added


def _history_runs(github: GitHub, repository: Repository) -> list[NewWork]:
    """List the last runs of the base branch, VALUES_PER_KEY of each workflow with our artifacts."""
    name, branch = repository.full_name, repository.default_branch

    def list_past(workflow: str = "") -> list[WorkflowRun]:
        runs = completed_runs(github, name, workflow=workflow, branch=branch, limit=100)
        # A fork's branch may have the name of the base. A cancelled run may lack results.
        ended = (run for run in runs if run.conclusion in {"success", "failure"})
        return [run for run in ended if run.event in BASE_EVENTS]

    newest = {run.workflow: run.id for run in reversed(list_past())}
    return [
        latest_attempt(repository.id, run, "backfill")
        for workflow, run_id in newest.items()
        if RunArtifacts(github, name, run_id).has_any((PLAN, RECORD))
        for run in list_past(workflow)[:VALUES_PER_KEY]
    ]


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


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
        newest = completed_runs(github, repository.full_name, limit=runs)
    entries = [entry for run in newest for entry in all_attempts(repository.id, run, "backfill")]
    with service.database.write() as connection:
        return work_list.add(connection, entries)


def synchronize_repositories(service: Service, *, removes: bool = True) -> None:
    """Write the repositories of the App's installations, or of `--repo`; remove the others.

    Changes by webhooks that arrive during the requests to GitHub are newer than the answers and
    stay.

    Args:
        removes: False if the settings name only some of the service's repositories.

    Raises:
        GitHubError: GitHub did not list the App's installations.
    """
    with service.database.read() as connection:
        asked_at_ms = read_clock_ms(connection)
    app = service.github.app
    listing = _list_of_app(app) if app else _list_of_token(service)
    with service.database.write() as connection:
        newer = repositories.changed_since(connection, asked_at_ms)
        known = {repository.id: repository for repository in repositories.active(connection)}
        listed = {
            repository.id: repository for rows in listing.values() for repository in rows or ()
        }
        changed = [
            repository
            for number, repository in listed.items()
            if number not in newer and not _is_same(known.get(number), repository)
        ]
        repositories.upsert(connection, changed)
        absent = known.keys() - listed.keys() - newer if removes else set()
        unanswered = {installation for installation, rows in listing.items() if rows is None}
        gone = [number for number in absent if known[number].installation_id not in unanswered]
        repositories.remove(connection, gone)


def _list_of_app(app: App) -> Listing:
    installations = app.installations()
    lists = map_in_threads(partial(_list_of_installation, app), installations, INSTALLATIONS)
    return {installation.id: rows for installation, rows in zip(installations, lists, strict=True)}


def _list_of_installation(app: App, installation: Installation) -> list[Repository] | None:
    if installation.suspended_at is not None:
        return None  # a suspended installation may return: remove none of its repositories
    try:
        return list(_rows(app.repositories(installation.id), installation.id))
    except GitHubError as error:
        LOG.warning("repositories of installation %d: %s", installation.id, error)
        return None


def _list_of_token(service: Service) -> Listing:
    listed: list[models.Repository] = []
    with service.github.client(None) as github:
        for name in service.settings.repositories:
            try:
                listed.append(github.item(models.Repository, f"/repos/{name}"))
            except GitHubError as error:
                LOG.warning("%s: %s", name, error)
                if error.status != HTTPStatus.NOT_FOUND:
                    return {None: None}
    return {None: list(_rows(listed, None))}


def _rows(listed: Iterable[models.Repository], installation_id: int | None) -> Iterable[Repository]:
    for repository in listed:
        if repository.id is not None:
            branch = repository.default_branch or ""
            yield Repository(
                repository.id, repository.full_name, repository.private, branch, installation_id
            )


def _is_same(known: Repository | None, listed: Repository) -> bool:
    return known is not None and replace(known, reconciled_at_ms=None) == listed


def map_in_threads(act: Callable[[T], R], values: Iterable[T], threads: int) -> list[R]:
    """Call `act` for each value, at most so many at once; return the results in their order.

    The first exception is raised. The end of the process does not wait for these threads, as it
    would for threads of `concurrent.futures`.
    """
    turns = threading.Semaphore(threads)

    def act_in_turn(value: T) -> R:
        try:
            return act(value)
        finally:
            turns.release()

    calls = []
    for value in values:
        turns.acquire()
        calls.append(in_thread(partial(act_in_turn, value)))
    return [call.result() for call in calls]
