"""Keeps the lease of a lane, such as that of a row that a worker has taken, while others work."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, Self

from ciguard.serve.state import lanes, work_list

if TYPE_CHECKING:
    from ciguard.serve.state.database import Database
    from ciguard.serve.state.work_list import Work

_LOG: Final = logging.getLogger(__name__)
RENEWALS: Final = 4  # in the time of a lease: three may fail


class LaneLease:
    """The lease of a lane, which was acquired, renewed from a thread until the block ends.

    The waits are of the monotonic clock, and the lease is of the database's: nobody sets either.
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
