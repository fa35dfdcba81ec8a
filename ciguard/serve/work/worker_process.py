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
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final

from ciguard.errors import RemoteError
from ciguard.serve.results.compaction import FAILED_S, Compactor
from ciguard.serve.results.writer import ResultsWriter
from ciguard.serve.work import housekeeping
from ciguard.serve.work.housekeeping import Housekeeping
from ciguard.serve.work.judge_job import JudgeJob
from ciguard.serve.work.reconcile import Reconciler
from ciguard.serve.work.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ciguard.serve.object_cache import ObjectCache
    from ciguard.serve.service import Service

_LOG: Final = logging.getLogger(__name__)
WORKERS: Final = 2  # threads: one waits for GitHub while the other computes
JOB_GRACE_S: Final = 25.0  # for current jobs at the end of the process; then they are given back
RECONCILE_POLL_S: Final = 5.0  # between checks whether a reconciliation is due
GARBAGE_S: Final = 30.0  # between collections of reference cycles, of 0.1 s to 0.5 s


@dataclass(frozen=True, slots=True)
class Chore:
    """A periodic task, which has its own thread.

    Attributes:
        every_s: interval, varied by a fifth, so that processes do not run in step.
    """

    name: str
    every_s: float
    act: Callable[[], object]


def work_until(
    service: Service, cache: ObjectCache, stop: threading.Event, workers: int = WORKERS
) -> None:
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
        loops = [Worker(service.database, job) for _ in range(workers)]
        keeping = Housekeeping(service, cache, compactor)
        reconciler = Reconciler(service, loops[0].name)
        chores = (
            Chore("reconcile", RECONCILE_POLL_S, reconciler.reconcile_when_due),
            Chore("housekeeping", housekeeping.INTERVAL_S, keeping.clean_up),
            # Automatic collection, by number of new objects, would scan those of a large run often.
            Chore("garbage", GARBAGE_S, gc.collect),
            Chore("compactor", FAILED_S, partial(compactor.run, stop)),
        )
        threads = [
            *(threading.Thread(target=worker.run, name="worker", daemon=True) for worker in loops),
            *(
                threading.Thread(target=_repeat, args=(chore, stop), name=chore.name, daemon=True)
                for chore in chores
            ),
        ]
        for thread in threads:
            thread.start()
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


def _repeat(chore: Chore, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            chore.act()
        except RemoteError as error:
            _LOG.warning("%s: %s", chore.name, error)
        except Exception:  # noqa: BLE001 - a bug in one pass must not end later passes
            _LOG.exception("%s: tried again in %.0f s", chore.name, chore.every_s)
        stop.wait(chore.every_s * random.uniform(0.8, 1.2))
