"""Asks GitHub which runs are complete, and adds to the work list what no webhook told of.

The work list follows from GitHub's state, not from webhooks: those only make it sooner.
"""

from __future__ import annotations

import logging
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ciguard.errors import RemoteError, UsageError
from ciguard.github.api_errors import GitHubError
from ciguard.github.run_client import completed_runs
from ciguard.serve.state import lanes, repositories, work_list
from ciguard.serve.state.database import now_ms
from ciguard.serve.work.installed_repositories import synchronize_repositories
from ciguard.serve.work.run_attempts import all_attempts

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from ciguard.serve.service import Service
    from ciguard.serve.state.repositories import Repository
    from ciguard.serve.state.work_list import NewWork

LOG: Final = logging.getLogger(__name__)
INTERVAL_S: Final = 300.0
LANE: Final = "reconcile"  # one process at a time
# A pass asks for so many repositories of an installation: 2,400 calls an hour of at least 5,000,
# the rest of which are the jobs'. Where there are more, those come next whose turn is oldest.
TURNS: Final = 200
# GitHub filters by when a run was created, not by when it ended. A hosted job ends within 6 hours;
# once a day the look goes back as far as a run can last or be run again.
LOOK_BACK: Final = timedelta(hours=6)
DAILY_LOOK_BACK: Final = timedelta(days=35)
# Of those, the ones that ended before it are older than the service; our clock may be wrong.
OVERLAP: Final = timedelta(days=1)


def reconcile_repeatedly(service: Service, worker: str, stop: threading.Event) -> None:
    """Reconcile at once, every five minutes, and when `service.must_reconcile` is set.

    Whoever sets `stop` sets `service.must_reconcile` after it.
    """
    while not stop.is_set():
        service.must_reconcile.clear()
        try:
            reconcile(service, worker, stop)
        except RemoteError as error:
            LOG.warning("reconcile: %s", error)
        if not stop.is_set():
            service.must_reconcile.wait(INTERVAL_S)


def reconcile(service: Service, worker: str, stop: threading.Event | None = None) -> int:
    """One pass over all repositories, unless another process is at it; runs that were added.

    Args:
        worker: the name of this process.

    Raises:
        RemoteError: no installation is known, or the database cannot be reached.
    """
    added = 0
    with service.database.write() as connection:
        if not lanes.acquire(connection, LANE, worker):
            return 0
    try:
        synchronize_repositories(service)
        delayed: set[int | None] = set()
        for repository in _turns(service):
            if stop is not None and stop.is_set():
                break
            with service.database.write() as connection:
                if not lanes.renew(connection, LANE, worker):
                    break
            if repository.installation_id in delayed:
                continue
            try:
                added += add_missing_runs(service, repository)
            except GitHubError as error:
                LOG.warning("runs of %s: %s", repository.full_name, error)
                if error.is_lasting:
                    delayed.add(repository.installation_id)
    finally:
        with service.database.write() as connection:
            lanes.release(connection, LANE, worker)
    return added


def _turns(service: Service) -> Sequence[Repository]:
    """Those that are asked for in this pass, whoever waits longest first."""
    with service.database.read() as connection:
        known = repositories.active(connection)
    turns: Counter[int | None] = Counter()
    found = []
    for one in sorted(known, key=lambda one: one.reconciled_at_ms or 0):
        turns[one.installation_id] += 1
        if turns[one.installation_id] <= TURNS:
            found.append(one)
    return found


def add_missing_runs(service: Service, repository: Repository) -> int:
    """Add what was completed since the repository was asked for last; how many that were.

    Raises:
        GitHubError: GitHub refused or did not answer; it is asked for the same the next time.
    """
    with service.database.read() as connection:
        now = _time(connection.execute(sa.select(now_ms())).scalar_one())
    last = None if repository.reconciled_at_ms is None else _time(repository.reconciled_at_ms)
    # A clock that went back: what was asked for meanwhile is not known.
    since = now - LOOK_BACK if last is None or last > now else last
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
    if added:
        service.has_work.set()
    return added


def backfill(service: Service, full_name: str, runs: int) -> int:
    """Add the newest runs of a repository, of whatever age; how many attempts were added.

    Raises:
        UsageError: the service does not serve this repository.
        GitHubError: GitHub refused or did not answer.
    """
    synchronize_repositories(service)
    with service.database.read() as connection:
        repository = repositories.find(connection, full_name)
    if repository is None:
        fix = "install the App there, or name it with --repo where the service has a token"
        raise UsageError("this repository is not served", where=full_name, fix=fix)
    with service.github.client(repository.installation_id) as github:
        found = completed_runs(github, repository.full_name, limit=runs)
    entries = [entry for run in found for entry in all_attempts(repository.id, run, "backfill")]
    return _add(service, repository, entries, is_reconciled=False)
