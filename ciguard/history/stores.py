"""The table of places that can keep a history, and adding to one while others do the same.

To add a store: its module, its line in `STORES`. A service's history is read only, so it is none
of those.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ciguard.errors import CiguardError, InputError, RemoteError, UsageError
from ciguard.git.commands import without_secrets
from ciguard.history import branch_store
from ciguard.history import file as history_codec
from ciguard.history.file import FILE_NAME, DamagedHistory, History, NotAHistory, StoredBytes
from ciguard.history.merge import merge
from ciguard.history.metric_series import count_without_room
from ciguard.sources import local

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


# How often who loses a race comes back, and when: each time twice as late, and a bit.
TRIES: Final = 20  # in each race somebody wins: enough for as many writers at once
WAIT_S: Final = 0.2
LONGEST_WAIT_S: Final = 10.0


class ReadableStore(Protocol):
    """A place that keeps one history's bytes."""

    @property
    def location(self) -> str:
        """What a person calls it."""

    def recovery_advice(self, error: DamagedHistory) -> str:
        """What a person does about what cannot be read, and that takes away nothing else."""

    def read(self) -> StoredBytes:
        """What is there now.

        Raises:
            CiguardError: it cannot be read; nothing being there is no error.
        """


class HistoryStore(ReadableStore, Protocol):
    """A place that commands write to as well."""

    def write(self, content: bytes, expected: StoredBytes) -> bool:
        """Replace `expected`; False, and nothing is done, where something else is there now.

        Raises:
            CiguardError: it cannot be written.
        """


@dataclass(frozen=True, slots=True)
class FileStore:
    """One file; written aside and moved, so that a reader sees the old one or the new one."""

    location: str
    folder: Path
    environ: Mapping[str, str] = field(repr=False)  # other stores need it

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder / self.location

    def recovery_advice(self, error: DamagedHistory) -> str:
        """A damaged history is put aside; what may be another file is let alone."""
        if isinstance(error, NotAHistory):
            return "name a file that ciguard wrote; `ciguard history add` begins one"
        aside = f"mv {shlex.quote(self.location)} {shlex.quote(f'{self.location}.damaged')}"
        return f"put it aside: {aside}; then put a copy back, or let later runs fill it"

    def read(self) -> StoredBytes:
        """The file's bytes.

        Raises:
            InputError: it is there, and cannot be read.
        """
        if not self.location:
            raise InputError("no place for the history", fix="name a file, or branch:NAME")
        try:
            is_file = stat.S_ISREG(self.path.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return StoredBytes(None)
        except OSError as error:
            what = f"cannot be read: {error.strerror or error}"
            raise InputError(what, where=f"{self.location:.200}") from error
        if not is_file:
            fix = "name a file, or branch:NAME"
            raise InputError("no file that can hold a history", where=self.location, fix=fix)
        content = local.read(self.path)
        return StoredBytes(content, hashlib.sha256(content).hexdigest())

    def write(self, content: bytes, expected: StoredBytes) -> bool:
        """Replace the file, if it is still the one that was read.

        Raises:
            InputError: it cannot be written; the old one is untouched.
        """
        # Between this look and the move another writer may still come: a few milliseconds. A file
        # has one writer in all that ciguard writes itself; several use a branch.
        if self.read().version != expected.version:
            return False
        local.write(self.path, content)
        return True


# By the word before the colon; "" takes everything else.
STORES: Final[Mapping[str, Callable[[str, Path, Mapping[str, str]], HistoryStore]]] = {
    "branch": branch_store.BranchStore,
    "": FileStore,
}
COPY: Final = "copy"  # of a folder that `copy_to` wrote, for `plan`
_ORIGIN: Final = "origin.json"
SERVICE_SCHEMES: Final = ("https", "http")


def open_store(location: str, folder: Path, environ: Mapping[str, str]) -> ReadableStore:
    """The store of `branch:NAME`, `https://...`, or of a file's path; nothing is read yet.

    Args:
        location: what stands after --history.
        folder: a relative path is below it; the git repository is the one that it lies in.
        environ: what git is given, and where a token may be found (GITHUB_TOKEN, GH_TOKEN; those
            of `service_credentials`).
    """
    if location.partition(":")[0] in SERVICE_SCHEMES:
        # Imported here: httpx takes 0.2 s, which other stores need not pay.
        from ciguard.history.service_store import ServiceStore  # noqa: PLC0415

        return ServiceStore(location, environ)
    return open_writable_store(location, folder, environ)


def open_writable_store(location: str, folder: Path, environ: Mapping[str, str]) -> HistoryStore:
    """As `open_store`, for a command that adds to the history.

    Raises:
        UsageError: a service keeps it, which alone writes it.
    """
    word, colon, rest = location.partition(":")
    if colon and word in SERVICE_SCHEMES:
        what = "the history of a service is read-only"
        where = f"--history {without_secrets(location)}"
        fix = "leave `history add` out: the service adds each run of the base branch as it ends"
        raise UsageError(what, where=where, fix=fix)
    if colon and word in STORES:
        return STORES[word](rest, folder, environ)
    return STORES[""](location, folder, environ)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A history, and whether there was one (`found`) or this is the empty beginning."""

    history: History
    exists: bool
    size_bytes: int = 0


class Attempt(NamedTuple):
    """A history, or why there is none: `problem` is "" or a sentence; `is_new`: none was begun."""

    history: History | None
    problem: str = ""
    is_new: bool = False


class LoadedHistory(NamedTuple):
    """A history that a command can do without; with none, `problem` is "" where none was begun.

    Attributes:
        location: of the original, where a copy was read.
    """

    history: History | None
    location: str = ""
    problem: str = ""
    fix: str = ""


def load_optional(location: str, folder: Path, environ: Mapping[str, str]) -> LoadedHistory:
    """Read a history, or a copy that `copy_to` wrote; one that is unusable stops no command."""
    word, _, name = location.partition(":")
    if word == COPY:
        location, problem = read_origin(folder / name)
        store = open_store(f"{name}/{FILE_NAME}", folder, environ)
        if problem:
            return LoadedHistory(None, location, problem)
    else:
        store = open_store(location, folder, environ)
        location = store.location
    try:
        loaded = load(store)
    except CiguardError as error:
        return LoadedHistory(None, location, error.what, error.fix)
    return LoadedHistory(loaded.history if loaded.exists else None, location)


def load_or_explain(
    location: str, folder: Path, environ: Mapping[str, str], consequence: str
) -> Attempt:
    """Read a history that a command can do without; `consequence` is how it goes on then."""
    found = load_optional(location, folder, environ)
    if found.problem:
        fix = f". Fix: {found.fix}" if found.fix else ""
        what = f"the history at {found.location} cannot be used: {found.problem}"
        return Attempt(None, f"{what}; {consequence}{fix}")
    if found.history is None:
        return Attempt(None, f"there is no history at {location} yet: {consequence}", is_new=True)
    return Attempt(found.history)


def load(store: ReadableStore) -> Loaded:
    """Read and decode; where nothing is kept yet, the empty history.

    Raises:
        CiguardError: it cannot be reached, or is damaged.
    """
    return decode_stored(store.read(), store)


def decode_stored(stored: StoredBytes, store: ReadableStore) -> Loaded:
    """What was read, understood.

    Raises:
        InputError: it is damaged, no history at all, or of a newer schema.
    """
    if stored.content is None:
        return Loaded(history_codec.empty(), exists=False)
    try:
        history = history_codec.decode(stored.content, store.location)
    except DamagedHistory as error:
        raise InputError(error.what, where=error.where, fix=store.recovery_advice(error)) from error
    return Loaded(history, True, len(stored.content))


def copy_to(folder: Path, store: ReadableStore) -> str:
    """Copy a history for a step that holds no token; "", or why it cannot be used."""
    problem = ""
    (folder / FILE_NAME).unlink(missing_ok=True)
    try:
        stored = store.read()
        decode_stored(stored, store)
        if stored.content is not None:
            local.write(folder / FILE_NAME, stored.content)
    except CiguardError as error:
        problem = f"{error.what} (fix: {error.fix})" if error.fix else error.what
    origin = {"location": store.location, "problem": problem}
    local.write(folder / _ORIGIN, json.dumps(origin).encode())
    return problem


def read_origin(folder: Path) -> tuple[str, str]:
    """Where a copied history is from, and why it cannot be used."""
    try:
        origin = json.loads(local.read(folder / _ORIGIN))
        return str(origin["location"]), str(origin["problem"])
    except (InputError, ValueError, LookupError, TypeError):
        return str(folder), "nothing was copied there (fix: ciguard history fetch DIR)"


@dataclass(frozen=True, slots=True)
class Update:
    """What adding came to; `tries` is more than 1 where others wrote at the same time.

    `dropped_metrics`: series that had no room any more.
    """

    history: History
    changed: bool
    size_bytes: int
    tries: int
    dropped_metrics: int = 0


class _ConcurrentWriteError(Exception):
    """Somebody else wrote between our reading and our writing."""


def update(
    store: HistoryStore, addition: History, tries: int = TRIES, wait_s: float = WAIT_S
) -> Update:
    """Add runs to what is kept; of writers at once none loses anything.

    Raises:
        RemoteError: others wrote in between, as often as it was tried.
        CiguardError: the history cannot be read or written, or contradicts the addition.
    """
    from ciguard.github.retry import retry_context  # noqa: PLC0415 - who only reads need not pay for it

    try:
        for attempt in retry_context(
            on=_ConcurrentWriteError,
            attempts=tries,
            timeout=None,
            wait_initial=wait_s,
            wait_max=LONGEST_WAIT_S,
            wait_jitter=5 * wait_s,  # or who lost together would come back together
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
    content = history_codec.encode(history)
    changed = content != stored.content
    if changed and not store.write(content, stored):
        raise _ConcurrentWriteError
    dropped = count_without_room(before.metrics, addition.metrics)
    return Update(history, changed, len(content), tries, dropped)
