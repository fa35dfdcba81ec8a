"""The table of places that can keep a history, and adding to one while others do the same.

To add a carrier: its module, its line in `CARRIERS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from ciguard.codec import history as history_codec
from ciguard.errors import RemoteError
from ciguard.history import branch_carrier, file_carrier
from ciguard.history.merge import join

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ciguard.codec.history import History
    from ciguard.history.kept import Kept

WRITES: Final = 5  # whoever loses so many races in a row has another problem


class Carrier(Protocol):
    """A place that keeps one history's bytes."""

    @property
    def place(self) -> str:
        """What a person calls it."""

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


def load(carrier: Carrier) -> Loaded:
    """Read and decode; where nothing is kept yet, the empty history.

    Raises:
        CiguardError: it cannot be reached, or is damaged.
    """
    return _decoded(carrier.read(), carrier.place)


def _decoded(kept: Kept, place: str) -> Loaded:
    if kept.content is None:
        return Loaded(history_codec.empty(), found=False)
    return Loaded(history_codec.decode(kept.content, place), True, len(kept.content))


@dataclass(frozen=True, slots=True)
class Update:
    """What adding came to."""

    history: History
    changed: bool
    size_bytes: int


def update(carrier: Carrier, addition: History) -> Update:
    """Add runs to what is kept; of two writers at once neither loses anything.

    Raises:
        RemoteError: others wrote in between, `WRITES` times in a row.
        CiguardError: the history cannot be read or written, or contradicts the addition.
    """
    for _ in range(WRITES):
        kept = carrier.read()
        history = join(_decoded(kept, carrier.place).history, addition)
        content = history_codec.encode(history)
        if content == kept.content:
            return Update(history, changed=False, size_bytes=len(content))
        if carrier.write(content, kept):
            return Update(history, changed=True, size_bytes=len(content))
    raise RemoteError(
        f"others wrote to it {WRITES} times while this was being added",
        where=carrier.place,
        fix="add it again",
    )
