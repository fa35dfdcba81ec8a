"""Deletes unlisted files, old archives and rows, and all of a removed repository.

Any process may do it at any time, and be killed in the middle: rows that name objects go first,
and an object without a row is found by its name the next time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.serve.history_objects import delete_history, sweep_histories
from ciguard.serve.objects import check_conditional_puts
from ciguard.serve.results.retention import drop_repository, sweep
from ciguard.serve.state import (
    claim_rows,
    deliveries,
    raw_artifacts,
    repositories,
    run_rows,
    tokens,
    work_list,
)
from ciguard.serve.state.database import read_clock_ms

if TYPE_CHECKING:
    from ciguard.serve.object_cache import ObjectCache
    from ciguard.serve.results.compaction import Compactor
    from ciguard.serve.results.manifest import ManifestFile
    from ciguard.serve.service import Service

_LOG: Final = logging.getLogger(__name__)
INTERVAL_S: Final = 3600.0
# A token with too few rights, or a list of repositories that was changed by mistake, can be mended.
REMOVED_DAYS: Final = 7.0
ARTIFACT_DAYS: Final = 30.0  # what `check --repair` makes results of again
DELIVERY_DAYS: Final = 7.0  # GitHub sends one again for three days
CLAIM_DAYS: Final = 35.0  # no run of GitHub takes longer, nor is one run again later
WORK_DAYS: Final = 90.0  # of rows that are done; a run with a verdict needs none


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """Keeps the store and the tables as small as they may be."""

    service: Service
    cache: ObjectCache
    compactor: Compactor

    def clean_up(self) -> None:
        """Delete what is due, of everything.

        Raises:
            RemoteError: the store or the database cannot be reached or used; the rest is done next
                time.
        """
        service = self.service
        check_conditional_puts(service.objects)
        self.drop_removed_repositories()
        self.delete_old_artifacts()
        with service.database.read() as connection:
            # Where the clock of this machine is wrong, it would delete what others are at.
            now_s = read_clock_ms(connection) / 1000
        swept = sweep(service.database, service.objects, self.cache, now_s)
        swept += sweep_histories(service.database, service.objects, now_s)
        if swept:
            _LOG.info("%d unlisted objects deleted", swept)
        with service.database.write() as connection:
            deliveries.prune(connection, DELIVERY_DAYS)
            work_list.prune(connection, WORK_DAYS)
            claim_rows.prune(connection, CLAIM_DAYS)

    def delete_old_artifacts(self) -> None:
        """Delete archives that are older than ARTIFACT_DAYS."""
        database, objects = self.service.database, self.service.objects
        while True:
            with database.read() as connection:
                old = raw_artifacts.stored_before(connection, ARTIFACT_DAYS)
            if not old:
                return
            with database.write() as connection:
                raw_artifacts.forget(connection, old)
            objects.delete(old)

    def drop_removed_repositories(self) -> None:
        """Delete rows, files and objects of repositories that were removed REMOVED_DAYS ago."""
        with self.service.database.read() as connection:
            removed = repositories.removed(connection, REMOVED_DAYS)
        for one in removed:
            for file in self.drop(one.id):
                what = "%s: %s is damaged and stays until `ciguard serve check --repair`"
                _LOG.warning(what, one.full_name, file.name)

    def drop(self, repository_id: int) -> tuple[ManifestFile, ...]:
        """Delete all that is known of a removed repository, its row last.

        Its row stays, for the next time, where it has rows in the damaged files that are given.
        """
        database, objects = self.service.database, self.service.objects
        damaged = drop_repository(database, self.compactor, repository_id)
        delete_history(database, objects, repository_id)
        with database.write() as connection:
            tokens.delete(connection, repository_id)
            claim_rows.delete(connection, repository_id)
            raw_artifacts.delete(connection, repository_id)
            work_list.forget(connection, repository_id)
            run_rows.delete(connection, repository_id)
        for prefix in ("answers", "artifacts"):
            objects.delete([one.name for one in objects.list(f"{prefix}/{repository_id}")])
        if not damaged:
            with database.write() as connection:
                repositories.delete(connection, repository_id)
        return damaged
