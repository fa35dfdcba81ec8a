"""The worker process: threads that judge runs, reconcile with GitHub, compact and delete files.

With `--role all` it is a child of the web process, so that judging delays no request; it ends at
the end of its standard input.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Final

from ciguard.errors import RemoteError
from ciguard.serve import raw_archives, webhooks
from ciguard.serve.history_objects import delete_history, sweep_histories
from ciguard.serve.object_cache import ObjectCache
from ciguard.serve.objects import check_conditional_puts
from ciguard.serve.results.compaction import FAILED_S, Compactor, drop_repository, sweep
from ciguard.serve.results.manifest import ManifestFile
from ciguard.serve.results.writer import ResultsWriter
from ciguard.serve.service import Service
from ciguard.serve.state import claim_rows, repositories, work_list
from ciguard.serve.state.database import read_clock_ms
from ciguard.serve.work.judge_job import JudgeJob
from ciguard.serve.work.notice_sender import send_waiting
from ciguard.serve.work.reconcile import Reconciler
from ciguard.serve.work.worker import Worker

_LOG: Final = logging.getLogger(__name__)
WORKERS: Final = 2  # threads: one waits for GitHub while the other computes
JOB_GRACE_S: Final = 25.0  # for current jobs at the end of the process; then they are given back
RECONCILE_POLL_S: Final = 5.0  # between checks whether a reconciliation is due
GARBAGE_S: Final = 30.0  # between collections of reference cycles, of 0.1 s to 0.5 s
HOUSEKEEPING_S: Final = 3600.0
NOTICES_S: Final = 30.0
# Time to correct a token with too few rights, or a list of repositories.
REMOVED_DAYS: Final = 7.0
ARTIFACT_DAYS: Final = 30.0  # of archives: so long, a run can be judged again without GitHub's
DELIVERY_DAYS: Final = 7.0  # GitHub redelivers for three days
CLAIM_DAYS: Final = 35.0  # no run of GitHub takes longer, or is run again later
WORK_DAYS: Final = 90.0  # of rows that are done; a run with a verdict needs no row


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """Keeps the store and the tables small.

    Any process may do so at any time and be killed during it: rows that name objects are deleted
    before the objects, and objects without a row are found by their names the next time.
    """

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
            webhooks.prune_deliveries(connection, DELIVERY_DAYS)
            work_list.prune(connection, WORK_DAYS)
            claim_rows.prune(connection, CLAIM_DAYS)

    def delete_old_artifacts(self) -> None:
        """Delete archives that are older than ARTIFACT_DAYS."""
        database, objects = self.service.database, self.service.objects
        while True:
            with database.read() as connection:
                old = raw_archives.stored_before(connection, ARTIFACT_DAYS)
            if not old:
                return
            with database.write() as connection:
                raw_archives.delete(connection, old)
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


def work_until(service: Service, cache: ObjectCache, stop: threading.Event) -> None:
    """Judge runs and maintain the files until `stop`; complete current jobs.

    A job that takes longer than JOB_GRACE_S is given back, and another worker repeats it.
    """
    with (
        contextlib.closing(
            ResultsWriter(service.database, service.objects, cache.scratch)
        ) as results,
        contextlib.closing(Compactor(service.database, service.objects, cache)) as compactor,
    ):
        job = JudgeJob(service, results, compactor)
        loops = [Worker(service.database, job) for _ in range(WORKERS)]
        keeping = Housekeeping(service, cache, compactor)
        reconciler = Reconciler(service, loops[0].name)
        chores = (
            ("reconcile", RECONCILE_POLL_S, reconciler.reconcile_when_due),
            ("housekeeping", HOUSEKEEPING_S, keeping.clean_up),
            ("notices", NOTICES_S, partial(send_waiting, service)),
            # Automatic collection, by number of new objects, would scan those of a large run often.
            ("garbage", GARBAGE_S, gc.collect),
            ("compactor", FAILED_S, partial(compactor.run, stop)),
        )
        for worker in loops:
            threading.Thread(target=worker.run, name="worker", daemon=True).start()
        for chore in chores:
            threading.Thread(
                target=_repeat, args=(*chore, stop), name=chore[0], daemon=True
            ).start()
        stop.wait()
        _stop(loops)


def watch_input(stream: BinaryIO, stop: threading.Event) -> None:
    """Set `stop` at the end of the stream, which the process that started this one holds open."""
    while stream.read(1):
        pass
    stop.set()


def _stop(workers: Sequence[Worker]) -> None:
    deadline_s = time.monotonic() + JOB_GRACE_S
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.stop(max(0.0, deadline_s - time.monotonic()))


def _repeat(name: str, every_s: float, act: Callable[[], object], stop: threading.Event) -> None:
    """Call a periodic task at an interval, varied by a fifth: processes do not run in step."""
    while not stop.is_set():
        try:
            act()
        except RemoteError as error:
            _LOG.warning("%s: %s", name, error)
        except Exception:  # noqa: BLE001 - a bug in one pass must not end later passes
            _LOG.exception("%s: tried again in %.0f s", name, every_s)
        stop.wait(every_s * random.uniform(0.8, 1.2))
