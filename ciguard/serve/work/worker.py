"""The worker loop: take a row of the work list, run its job under a lease, write the outcome."""

from __future__ import annotations

import logging
import os
import random
import secrets
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, Self

from sqlalchemy.engine import Connection

from ciguard.errors import CiguardError, RemoteError
from ciguard.serve.github_clients import refusal_of
from ciguard.serve.state import lanes, work_list
from ciguard.serve.state.database import Database
from ciguard.serve.state.work_list import Work

Job = Callable[[Work, Callable[[], bool]], None]
Outcome = Callable[[Connection, Work], bool]

_LOG: Final = logging.getLogger(__name__)
POLL_S: Final = 1.0  # a query of the work list takes 1 ms
_GIVE_BACK: Final = partial(work_list.postpone, wait_s=0)
RENEWALS: Final = 4  # in the time of a lease, of which three may fail


class LaneLease:
    """The acquired lease of a lane, which a thread renews until the block ends.

    Waits use the monotonic clock, the lease uses the clock of the database.
    """

    def __init__(
        self, database: Database, key: str, worker: str, lease_s: float = lanes.LEASE_S
    ) -> None:
        self.is_lost = False  # never reset: the job may have ended because of the loss
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
    def __init__(self, database: Database, work: Work, lease_s: float) -> None:
        super().__init__(database, work.lane, work.worker, lease_s)
        self.work = work

    def still_holds(self) -> bool:
        """Return whether the lease holds; a job asks before each step with visible effects.

        Raises:
            RemoteError: the database cannot be reached.
        """
        if not self.is_lost:
            with self._database.read() as connection:
                self.is_lost = not work_list.still_holds(connection, self.work)
        return not self.is_lost

    def give_back(self) -> bool:
        """Let another worker take the row at once; return False if another has it already.

        The job may still run: `still_holds` then returns False.
        """
        self.is_lost = True
        self._has_ended.set()
        with self._database.write() as connection:
            return _GIVE_BACK(connection, self.work)


class NotDue(RemoteError):
    """The row must wait `wait_s` seconds, >= 0, without counting a try."""

    def __init__(self, what: str, *, wait_s: float, where: str = "", fix: str = "") -> None:
        super().__init__(what, where=where, fix=fix)
        self.wait_s = wait_s


class Worker:
    """Processes one row at a time; call `run` in a separate thread, `stop` from others.

    Args:
        job: does the work of a row, which may be done before, in whole or in part. The job calls
            its second argument before each step with visible effects, and returns if it is False.
            An exception is a failed try, except NotDue and what pauses the repository.
        poll_s: seconds between queries for rows, if there was none.
        lease_s: seconds for which a row stays with this worker after a kill of the process.
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
        """Take no more rows, and wait so long for the current job.

        Returns:
            True if `run` has ended or is about to end. False if the job still runs: its row was
            given back, another worker may have it, and the process can end.

        Raises:
            RemoteError: the row could not be given back; it is free at the end of its lease.
        """
        self._stop.set()
        if self._is_idle.wait(wait_s):
            return True
        lease = self._lease
        if lease is not None:
            lease.give_back()
        return False

    def run(self) -> None:
        """Work until `stop`, also after failed jobs and outages of the database."""
        while not self._stop.is_set():
            # Clear idle before reading stop: `stop` sets stop before it reads idle.
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
            # Read after the lease is published: `stop` gives back a published lease, else we do.
            outcome = _GIVE_BACK if self._stop.is_set() else self._run_job(work, lease)
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
            return partial(work_list.postpone, wait_s=error.wait_s, problem=str(error))
        except CiguardError as error:
            _LOG.warning("%s: try %d failed: %s", work.key, work.tries, error)
            return partial(work_list.fail, problem=str(error), refusal=refusal_of(error))
        except Exception as error:  # noqa: BLE001 - a bug that one run meets stops no other
            _LOG.exception("%s: try %d failed", work.key, work.tries)
            # Without its text: pages show the problem, and the text is not meant for them.
            problem = f"{type(error).__name__}: see the log of worker {self.name}"
            return partial(work_list.fail, problem=problem)
        # A job whose lease was lost may have returned early.
        return _GIVE_BACK if lease.is_lost else work_list.finish
