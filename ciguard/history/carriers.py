"""The table of places that can keep a history, and adding to one while others do the same.

To add a carrier: its module, its line in `CARRIERS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from ciguard.codec import history as history_codec
from ciguard.codec.history import DamagedHistory
from ciguard.errors import InputError, RemoteError
from ciguard.history import branch_carrier, file_carrier
from ciguard.history.merge import join

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ciguard.codec.history import History
    from ciguard.errors import CiguardError
    from ciguard.history.kept import Kept


@dataclass(frozen=True, slots=True)
class Patience:
    """How often who loses a race comes back, and when: each time twice as late, and a bit."""

    tries: int = 20  # in each race somebody wins: enough for as many writers at once
    wait_s: float = 0.2
    longest_s: float = 10.0


PATIENCE: Final = Patience()


class Carrier(Protocol):
    """A place that keeps one history's bytes."""

    @property
    def place(self) -> str:
        """What a person calls it."""

    def mending(self, error: DamagedHistory) -> str:
        """What a person does about what cannot be read, and that takes away nothing else."""

    def read(self) -> Kept:
        """What is there now.

        Raises:
            CiguardError: it cannot be read; nothing being there is no error.
        """

    def write(self, content: bytes, seen: Kept) -> bool:
        """Replace what was `seen`; False, and nothing is done, where something else is there now.

        Raises:
            CiguardError: it cannot be written.
        """


# By the word before the colon; "" takes everything else.
CARRIERS: Final[Mapping[str, Callable[[str, Path, Mapping[str, str]], Carrier]]] = {
    "branch": branch_carrier.BranchCarrier,
    "": file_carrier.FileCarrier,
}


def open_carrier(place: str, folder: Path, environ: Mapping[str, str]) -> Carrier:
    """The carrier of `branch:NAME`, or of a file's path; nothing is read yet.

    Args:
        place: what stands after --history.
        folder: a relative path is below it; the git repository is the one that it lies in.
        environ: what git is given, and where a token may be found (GITHUB_TOKEN, GH_TOKEN).
    """
    word, colon, rest = place.partition(":")
    if colon and word in CARRIERS:
        return CARRIERS[word](rest, folder, environ)
    return CARRIERS[""](place, folder, environ)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A history, and whether there was one (`found`) or this is the empty beginning."""

    history: History
    found: bool
    size_bytes: int = 0


def unusable(place: str, error: CiguardError, then: str) -> str:
    """What a command says that goes on without a history; `then` is what follows from it."""
    fix = f". Fix: {error.fix}" if error.fix else ""
    return f"the history at {place} cannot be used: {error.what}; {then}{fix}"


def load(carrier: Carrier) -> Loaded:
    """Read and decode; where nothing is kept yet, the empty history.

    Raises:
        CiguardError: it cannot be reached, or is damaged.
    """
    return decoded(carrier.read(), carrier)


def decoded(kept: Kept, carrier: Carrier) -> Loaded:
    """What was read, understood.

    Raises:
        InputError: it is damaged, no history at all, or of a newer schema.
    """
    if kept.content is None:
        return Loaded(history_codec.empty(), found=False)
    try:
        history = history_codec.decode(kept.content, carrier.place)
    except DamagedHistory as error:
        raise InputError(error.what, where=error.where, fix=carrier.mending(error)) from error
    return Loaded(history, True, len(kept.content))


@dataclass(frozen=True, slots=True)
class Update:
    """What adding came to; `tries` is more than 1 where others wrote at the same time."""

    history: History
    changed: bool
    size_bytes: int
    tries: int


class _OvertakenError(Exception):
    """Somebody else wrote between our reading and our writing."""


def update(carrier: Carrier, addition: History, patience: Patience = PATIENCE) -> Update:
    """Add runs to what is kept; of writers at once none loses anything.

    Raises:
        RemoteError: others wrote in between, as often as it was tried.
        CiguardError: the history cannot be read or written, or contradicts the addition.
    """
    from stamina import retry_context  # noqa: PLC0415 - who only reads need not pay for it

    try:
        for attempt in retry_context(
            on=_OvertakenError,
            attempts=patience.tries,
            timeout=None,
            wait_initial=patience.wait_s,
            wait_max=patience.longest_s,
            wait_jitter=5 * patience.wait_s,  # or who lost together would come back together
        ):
            with attempt:
                return _update_once(carrier, addition, attempt.num)
    except _OvertakenError as error:
        raise RemoteError(
            f"others wrote to it {patience.tries} times while this was being added",
            where=carrier.place,
            fix="add it again",
        ) from error
    raise AssertionError("the last attempt returns or raises")


def _update_once(carrier: Carrier, addition: History, tries: int) -> Update:
    kept = carrier.read()
    history = join(decoded(kept, carrier).history, addition)
    content = history_codec.encode(history)
    changed = content != kept.content
    if changed and not carrier.write(content, kept):
        raise _OvertakenError
    return Update(history, changed, len(content), tries)
