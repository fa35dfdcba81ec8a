"""The loop of a worker: take a row, run its job under a renewed lease, write the outcome."""

from __future__ import annotations

import logging
import os
import random
import secrets
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from ciguard.errors import CiguardError, RemoteError
from ciguard.serve.state import lanes, work_list

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

    from ciguard.serve.state.database import Database
    from ciguard.serve.state.work_list import Work

    Job = Callable[[Work, Callable[[], bool]], None]
    Outcome = Callable[[Connection, Work], bool]

_LOG: Final = logging.getLogger(__name__)
POLL_S: Final = 1.0  # a look at the work list takes 1 ms
RENEWALS: Final = 4  # in the time of a lease: three may fail


class LaneLease:
    """The lease of a lane, which was acquired, renewed from a thread until the block ends.

    The waits are of the monotonic clock, and the lease is of the database's.
    """

    def __init__(
        self, database: Database, key: str, worker: str, lease_s: float = lanes.LEASE_S
    ) -> None:
        self.is_lost = False  # for good: the job may have ended because of it
        self._database = database
        self._key = key
        self._worker = worker
        self._lease_s = lease_s
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="ciguard-lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join()

    def _renew(self) -> None:
        while not self._has_ended.wait(self._lease_s / RENEWALS):
            try:
                with self._database.write() as connection:
                    if not lanes.renew(connection, self._key, self._worker, self._lease_s):
                        self.is_lost = True
                        return
            except Exception:  # noqa: BLE001 - a job of an hour is not lost for one bad renewal
                _LOG.exception("lease of %s not renewed; trying again", self._key)


class Lease(LaneLease):
    """The lease of one row."""

    def __init__(self, database: Database, work: Work, lease_s: float) -> None:
        super().__init__(database, work.lane, work.worker, lease_s)
        self.work = work

    def still_holds(self) -> bool:
        """Ask the database; a job calls it before each step that others see.

        Raises:
            RemoteError: the database cannot be reached.
        """
        if not self.is_lost:
            with self._database.read() as connection:
                self.is_lost = not work_list.still_holds(connection, self.work)
        return not self.is_lost

    def give_back(self) -> bool:
        """Let another worker take the row at once; False where it is another's already.

        The job may still run: `still_holds` tells it that the row is not its own.
        """
        self.is_lost = True
        self._has_ended.set()
        with self._database.write() as connection:
            return work_list.postpone(connection, self.work, 0)


class NotDue(RemoteError):
    """The row is to wait `wait_s` seconds, >= 0. No try is counted."""

    def __init__(self, what: str, *, wait_s: float, where: str = "", fix: str = "") -> None:
        super().__init__(what, where=where, fix=fix)
        self.wait_s = wait_s


class RateLimited(NotDue):
    """GitHub asks to wait, and so do the other rows of the installation."""


class Worker:
    """Takes one row at a time; `run` it in a thread of its own, and call the rest from others.

    Args:
        job: does the work of a row, which may have been done before, in whole or in part. It calls
            its second argument before each step that others see, and returns where that is False.
            An exception is a failed try; NotDue is none.
        poll_s: how often it looks for rows where it found none, seconds.
        lease_s: how long a row stays this worker's after the process was killed, seconds.
    """

    def __init__(
        self,
        database: Database,
        job: Job,
        *,
        poll_s: float = POLL_S,
        lease_s: float = lanes.LEASE_S,
    ) -> None:
        # Process ids repeat: in a container, each worker has number 1.
        self.name = f"{socket.gethostname()[:64]}:{os.getpid()}:{secrets.token_hex(4)}"
        self._database = database
        self._job = job
        self._poll_s = poll_s
        self._lease_s = lease_s
        self._lease: Lease | None = None
        self._stop = threading.Event()
        self._is_idle = threading.Event()
        self._is_idle.set()

    def stop(self, wait_s: float = 0.0) -> bool:
        """Take no more rows, and wait so long for the job that runs.

        Returns:
            True where `run` has ended or is about to. False where the job still runs: its row was
            given back, another worker may have it already, and the process can be ended.

        Raises:
            RemoteError: the row could not be given back; it is free when its lease ends.
        """
        self._stop.set()
        if self._is_idle.wait(wait_s):
            return True
        lease = self._lease
        if lease is not None:
            lease.give_back()
        return False

    def run(self) -> None:
        """Work until `stop`; no job and no outage of the database ends it."""
        while not self._stop.is_set():
            # First busy, then the look at `stop`, which looks at them the other way round.
            self._is_idle.clear()
            has_worked = not self._stop.is_set() and self._try_to_work()
            self._is_idle.set()
            if not has_worked:
                self._stop.wait(self._poll_s * random.uniform(0.5, 1.5))

    def _try_to_work(self) -> bool:
        try:
            return self._work_once()
        except RemoteError as error:
            _LOG.warning("worker %s: %s", self.name, error)
        except Exception:  # noqa: BLE001 - the next row may be a good one
            _LOG.exception("worker %s goes on", self.name)
        return False

    def _work_once(self) -> bool:
        work = self._take()
        if work is None:
            return False
        with Lease(self._database, work, self._lease_s) as lease:
            self._lease = lease
            # Read after the lease was published: `stop` gives back what it sees, and else we do.
            outcome = _give_back if self._stop.is_set() else self._run_job(work, lease)
            with self._database.write() as connection:
                is_ours = outcome(connection, work)
            self._lease = None
        if not is_ours:
            _LOG.warning("%s: its lease had ended; another worker takes it", work.key)
        return True

    def _take(self) -> Work | None:
        while True:
            with self._database.write() as connection:
                if not work_list.put_off(connection, self.name):
                    return work_list.take(connection, self.name, self._lease_s)

    def _run_job(self, work: Work, lease: Lease) -> Outcome:
        try:
            self._job(work, lease.still_holds)
        except NotDue as error:
            _LOG.warning("%s: waits %.0f s: %s", work.key, error.wait_s, error)
            return partial(_postpone, error=error)
        except CiguardError as error:
            _LOG.warning("%s: try %d failed: %s", work.key, work.tries, error)
            return partial(work_list.fail, problem=str(error))
        except Exception as error:  # noqa: BLE001 - a bug that one run meets stops no other
            _LOG.exception("%s: try %d failed", work.key, work.tries)
            # Not its text: pages show the problem, and nobody chose these words for them.
            problem = f"{type(error).__name__}: see the log of worker {self.name}"
            return partial(work_list.fail, problem=problem)
        # A job whose lease was lost may have returned early.
        return _give_back if lease.is_lost else work_list.finish


def _give_back(connection: Connection, work: Work) -> bool:
    return work_list.postpone(connection, work, 0)


def _postpone(connection: Connection, work: Work, error: NotDue) -> bool:
    is_ours = work_list.postpone(connection, work, error.wait_s, str(error))
    if isinstance(error, RateLimited):
        work_list.postpone_installation(connection, work.key.repository_id, error.wait_s)
    return is_ours
