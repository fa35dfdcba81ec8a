"""Adding runs to a store that others write at the same time: read, merge, write, and try again.

A write fails if another writer was faster since the read (a lost race). The loser reads again and
merges anew, so that no writer loses runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.errors import RemoteError
from ciguard.history.file import encode
from ciguard.history.merge import merge
from ciguard.history.metric_series import count_without_room
from ciguard.history.stores import decode_stored

if TYPE_CHECKING:
    from ciguard.history.file import History
    from ciguard.history.stores import HistoryStore

TRIES: Final = 20  # each race has a winner: enough for as many concurrent writers
WAIT_S: Final = 0.2  # before the second try; doubles with each try, plus jitter
LONGEST_WAIT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Update:
    """The result of adding runs; `tries` is more than 1 after lost races.

    `dropped_metrics`: series beyond the number that a history keeps.
    """

    history: History
    changed: bool
    size_bytes: int
    tries: int
    dropped_metrics: int = 0


class _ConcurrentWriteError(Exception):
    """Another writer wrote between reading and writing."""


def update(
    store: HistoryStore, addition: History, tries: int = TRIES, wait_s: float = WAIT_S
) -> Update:
    """Add runs to a store; try again after each lost race.

    Raises:
        RemoteError: every try lost its race.
        CiguardError: the history cannot be read or written, or contradicts the addition.
    """
    from ciguard.github.retry import retry_context  # noqa: PLC0415 - only writers need stamina

    try:
        for attempt in retry_context(
            on=_ConcurrentWriteError,
            attempts=tries,
            timeout=None,
            wait_initial=wait_s,
            wait_max=LONGEST_WAIT_S,
            wait_jitter=5 * wait_s,  # else losers of one race would meet again in the next
        ):
            with attempt:
                return _try_update(store, addition, attempt.num)
    except _ConcurrentWriteError as error:
        raise RemoteError(
            f"others wrote to it {tries} times while this was being added",
            where=store.location,
            fix="add it again",
        ) from error
    raise AssertionError("the last attempt returns or raises")


def _try_update(store: HistoryStore, addition: History, tries: int) -> Update:
    stored = store.read()
    before = decode_stored(stored, store).history
    history = merge(before, addition)
    content = encode(history)
    changed = content != stored.content
    if changed and not store.write(content, stored):
        raise _ConcurrentWriteError
    dropped = count_without_room(before.metrics, addition.metrics)
    return Update(history, changed, len(content), tries, dropped)
