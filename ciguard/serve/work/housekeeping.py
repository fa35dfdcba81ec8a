"""Deletion of unlisted files, old archives and rows, and all data of removed repositories.

Any process may run it at any time and be killed during it: rows that name objects are deleted
before the objects, and objects without a row are found by their names the next time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.serve.history_objects import delete_history, sweep_histories
from ciguard.serve.objects import check_conditional_puts
from ciguard.serve.results.retention import drop_repository, sweep
from ciguard.serve.state import claim_rows, deliveries, raw_artifacts, repositories, work_list
from ciguard.serve.state.database import read_clock_ms

if TYPE_CHECKING:
    from ciguard.serve.object_cache import ObjectCache
    from ciguard.serve.results.compaction import Compactor
    from ciguard.serve.results.manifest import ManifestFile
    from ciguard.serve.service import Service

_LOG: Final = logging.getLogger(__name__)
INTERVAL_S: Final = 3600.0
# Time to correct a token with too few rights, or a list of repositories.
REMOVED_DAYS: Final = 7.0
ARTIFACT_DAYS: Final = 30.0  # of archives: so long, a run can be judged again without GitHub's
DELIVERY_DAYS: Final = 7.0  # GitHub redelivers for three days
CLAIM_DAYS: Final = 35.0  # no run of GitHub takes longer, or is run again later
WORK_DAYS: Final = 90.0  # of rows that are done; a run with a verdict needs no row


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """Keeps the store and the tables small."""

    service: Service
    cache: ObjectCache
    compactor: Compactor

    def clean_up(self) -> None:
        """Delete all data that has reached its age.

        Raises:
            RemoteError: the store or the database cannot be reached; the next call does the rest.
        """
        service = self.service
        check_conditional_puts(service.objects)
        self.drop_removed_repositories()
        self.delete_old_artifacts()
        with service.database.read() as connection:
            # The database's clock: a wrong clock of this machine would delete files in use.
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
                raw_artifacts.delete(connection, old)
            objects.delete(old)

    def drop_removed_repositories(self) -> None:
        """Delete rows, files and objects of repositories that were removed REMOVED_DAYS ago."""
        with self.service.database.read() as connection:
            removed = repositories.removed(connection, REMOVED_DAYS)
        for repository in removed:
            for file in self.drop(repository.id):
                what = "%s: %s is damaged and stays until `ciguard serve check --repair`"
                _LOG.warning(what, repository.full_name, file.name)

    def drop(self, repository_id: int) -> tuple[ManifestFile, ...]:
        """Delete all data of a removed repository, its own row last.

        Returns:
            Damaged files with results of the repository. If there are any, its row stays, so that
            the next call tries again.
        """
        database, objects = self.service.database, self.service.objects
        damaged = drop_repository(database, self.compactor, repository_id)
        delete_history(database, objects, repository_id)
        with database.write() as connection:
            repositories.delete_rows(connection, repository_id)
        for prefix in ("answers", "artifacts"):
            objects.delete([stored.name for stored in objects.list(f"{prefix}/{repository_id}")])
        if not damaged:
            with database.write() as connection:
                repositories.delete(connection, repository_id)
        return damaged
