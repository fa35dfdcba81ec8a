"""The stores of a history (a file, a branch, a service): reading it, and adding runs to it.

To add a store: its module, its line in `STORES`. The store of a service is not in this table: only
the service writes it.
Runs are added by reading, merging and writing. A write fails if another writer was faster since the
read (a lost race). The loser reads again and merges anew, so that no writer loses runs.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ciguard.errors import CiguardError, InputError, RemoteError, UsageError
from ciguard.git.commands import without_secrets
from ciguard.history import branch_store
from ciguard.history import file as history_codec
from ciguard.history.file import FILE_NAME, DamagedHistory, History, NotAHistory, StoredBytes
from ciguard.history.merge import merge
from ciguard.history.metric_series import count_without_room
from ciguard.sources import local


class ReadableStore(Protocol):
    """A store of one history's bytes."""

    @property
    def location(self) -> str:
        """Return the name of the store in messages."""

    def recovery_advice(self, error: DamagedHistory) -> str:
        """Return how to replace an unreadable history, without the loss of any other data."""

    def read(self) -> StoredBytes:
        """Read the current bytes.

        Raises:
            CiguardError: reading failed; an empty store is no error.
        """


class HistoryStore(ReadableStore, Protocol):
    """A store that commands also write to."""

    def write(self, content: bytes, expected: StoredBytes) -> bool:
        """Replace `expected`; return False and change nothing if the store contains other bytes.

        Raises:
            CiguardError: writing failed.
        """


@dataclass(frozen=True, slots=True)
class FileStore:
    """A file, replaced by a rename: a reader gets the old bytes or the new ones."""

    location: str
    folder: Path
    environ: Mapping[str, str] = field(repr=False)  # other stores need it

    @property
    def path(self) -> Path:
        return self.folder / self.location

    def recovery_advice(self, error: DamagedHistory) -> str:
        """Return how to move a damaged history; a file of another kind stays."""
        if isinstance(error, NotAHistory):
            return "name a file that ciguard wrote; `ciguard history add` begins one"
        aside = f"mv {shlex.quote(self.location)} {shlex.quote(f'{self.location}.damaged')}"
        return f"move it away: {aside}; then restore a copy, or let later runs fill it"

    def read(self) -> StoredBytes:
        """Read the file.

        Raises:
            InputError: the file exists and cannot be read.
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
        """Replace the file if it still has the bytes that were read.

        Raises:
            InputError: writing failed; the old file is unchanged.
        """
        # Between this check and the rename another writer may still write, for a few milliseconds.
        # The workflows of ciguard have one writer for a file; several writers use a branch.
        if self.read().version != expected.version:
            return False
        local.write(self.path, content)
        return True


# By the word before the colon; "" is the store of every other location.
STORES: Final[Mapping[str, Callable[[str, Path, Mapping[str, str]], HistoryStore]]] = {
    "branch": branch_store.BranchStore,
    "": FileStore,
}
COPY: Final = "copy"  # of a folder that `copy_to` wrote, for `plan`
_ORIGIN: Final = "origin.json"
TIMINGS: Final = "timings"  # folder of the copy of other times, beside no history
SERVICE_SCHEMES: Final = ("https", "http")
TRIES: Final = 20  # each race has a winner: enough for as many concurrent writers
WAIT_S: Final = 0.2  # before the second try; doubles with each try, plus jitter
LONGEST_WAIT_S: Final = 10.0


def open_store(location: str, folder: Path, environ: Mapping[str, str]) -> ReadableStore:
    """Return the store of `branch:NAME`, `https://...`, or of a file's path, without reading it.

    Args:
        location: value of --history.
        folder: base of a relative path, inside the git repository.
        environ: environment of git, which may contain a token (GITHUB_TOKEN, GH_TOKEN; those of
            `service_credentials`).
    """
    if location.partition(":")[0] in SERVICE_SCHEMES:
        # Imported here: httpx takes 0.2 s, which other stores need not pay.
        from ciguard.history.service_store import ServiceStore  # noqa: PLC0415

        return ServiceStore(location, environ)
    return open_writable_store(location, folder, environ)


def open_writable_store(location: str, folder: Path, environ: Mapping[str, str]) -> HistoryStore:
    """Return the store as `open_store` does, for a command that adds to the history.

    Raises:
        UsageError: the store is a service, which alone writes its history.
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
    """A history; empty if its store does not exist yet."""

    history: History
    exists: bool
    size_bytes: int = 0


class LoadedHistory(NamedTuple):
    """A history for a command that also works without one.

    Attributes:
        history: None if the store is empty, or unusable because of `problem`.
        location: of the original, if a copy was read.
        problem: why there is no history; for an empty store only from `load_or_explain`.
        is_new: the store is empty, of a history made for this command, too; not from
            `load_optional`.
    """

    history: History | None
    location: str = ""
    problem: str = ""
    fix: str = ""
    is_new: bool = False


def load_optional(location: str, folder: Path, environ: Mapping[str, str]) -> LoadedHistory:
    """Read a history, or a copy that `copy_to` wrote; an unusable one stops no command."""
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
    except branch_store.NoRemoteError:
        return LoadedHistory(None, location)
    except CiguardError as error:
        return LoadedHistory(None, location, error.what, error.fix)
    return LoadedHistory(loaded.history if loaded.exists else None, location)


def load_or_explain(
    location: str, folder: Path, environ: Mapping[str, str], consequence: str
) -> LoadedHistory:
    """Read a history as `load_optional` does, and explain its absence in a sentence.

    Args:
        consequence: what the command does without a history; part of the sentence.
    """
    loaded = load_optional(location, folder, environ)
    if loaded.problem:
        fix = f". Fix: {loaded.fix}" if loaded.fix else ""
        what = f"the history at {loaded.location} cannot be used: {loaded.problem}"
        return loaded._replace(problem=f"{what}; {consequence}{fix}")
    if loaded.history is None:
        problem = f"there is no history at {location} yet: {consequence}"
        return loaded._replace(problem=problem, is_new=True)
    return loaded


def load(store: ReadableStore) -> Loaded:
    """Read and decode a history; an empty store gives the empty history.

    Raises:
        CiguardError: the store cannot be reached, or its history is damaged.
    """
    return decode_stored(store.read(), store)


def decode_stored(stored: StoredBytes, store: ReadableStore) -> Loaded:
    """Decode the bytes of a store.

    Raises:
        InputError: the bytes are damaged, no history, or of another schema.
    """
    if stored.content is None:
        return Loaded(history_codec.empty(), exists=False)
    try:
        history = history_codec.decode(stored.content, store.location)
    except DamagedHistory as error:
        raise InputError(error.what, where=error.where, fix=store.recovery_advice(error)) from error
    return Loaded(history, True, len(stored.content))


@dataclass(frozen=True, slots=True)
class Update:
    """The result of adding runs; `tries` is more than 1 after lost races.

    `dropped_metrics`: series beyond the number that a history keeps.
    """

    history: History
    changed: bool
    size_bytes: int
    tries: int
    values_before: int
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
            f"other writers changed it at each of {tries} tries",
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
    return Update(history, changed, len(content), tries, len(before.values), dropped)


def copy_to(folder: Path, store: ReadableStore) -> str:
    """Copy a history for a step without a token; return why it cannot be used, or ""."""
    content, problem = None, ""
    try:
        stored = store.read()
        decode_stored(stored, store)
        content = stored.content
    except CiguardError as error:
        problem = f"{error.what} (fix: {error.fix})" if error.fix else error.what
    write_copy(folder, store.location, content, problem)
    return problem


def write_copy(folder: Path, location: str, content: bytes | None, problem: str = "") -> None:
    """Write the copy of a history; without content, of an empty or unusable one."""
    (folder / FILE_NAME).unlink(missing_ok=True)
    if content is not None:
        local.write(folder / FILE_NAME, content)
    origin = {"location": location, "problem": problem}
    local.write(folder / _ORIGIN, json.dumps(origin).encode())


def read_origin(folder: Path) -> tuple[str, str]:
    """Return the location of a copied history, and why it cannot be used, or ""."""
    try:
        origin = json.loads(local.read(folder / _ORIGIN))
        return str(origin["location"]), str(origin["problem"])
    except (InputError, ValueError, LookupError, TypeError):
        return str(folder), "nothing was copied there (fix: ciguard history fetch DIR)"
