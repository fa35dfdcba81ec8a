"""The process that judges runs: workers, the reconciliation with GitHub, and the care of files.

With `--role all` it is a child of the web process, so that judging holds up no request; the end of
its standard input ends the process.
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

from ciguard.errors import CiguardError, RemoteError
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
JOB_GRACE_S: Final = 25.0  # for jobs that run when the process is to end; then they are given back
RECONCILE_POLL_S: Final = 5.0  # how often is looked whether GitHub is to be asked
GARBAGE_S: Final = 30.0  # how often cycles are looked for: 0.1 s, beside a large run 0.5 s


@dataclass(frozen=True, slots=True)
class Chore:
    """Something that is done again and again, by a thread of its own.

    Attributes:
        every_s: between two beginnings; a fifth more or less, so that processes do not meet.
    """

    name: str
    every_s: float
    act: Callable[[], object]


def work_until(
    service: Service, cache: ObjectCache, stop: threading.Event, workers: int = WORKERS
) -> None:
    """Judge runs and take care of the files until `stop`; what runs then is completed.

    A job that takes longer than JOB_GRACE_S is given back, and another worker does it again.
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
            # By the number of new objects, those of a large run would be looked at again and again.
            Chore("garbage", GARBAGE_S, gc.collect),
            Chore("compactor", FAILED_S, partial(compactor.run, stop, _warn)),
        )
        threads = [
            *(threading.Thread(target=one.run, name="worker", daemon=True) for one in loops),
            *(
                threading.Thread(target=_repeat, args=(one, stop), name=one.name, daemon=True)
                for one in chores
            ),
        ]
        for thread in threads:
            thread.start()
        stop.wait()
        _stop(loops)


def watch_input(stream: BinaryIO, stop: threading.Event) -> None:
    """Stop at the end of the stream, which is that of the process that started this one."""
    while stream.read(1):
        pass
    stop.set()


def _stop(workers: Sequence[Worker]) -> None:
    deadline_s = time.monotonic() + JOB_GRACE_S
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.stop(max(0.0, deadline_s - time.monotonic()))


def _warn(error: CiguardError) -> None:
    _LOG.warning("compaction: %s", error)


def _repeat(chore: Chore, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            chore.act()
        except RemoteError as error:
            _LOG.warning("%s: %s", chore.name, error)
        except Exception:  # noqa: BLE001 - a bug of one pass must not end all later ones
            _LOG.exception("%s: tried again in %.0f s", chore.name, chore.every_s)
        stop.wait(chore.every_s * random.uniform(0.8, 1.2))
