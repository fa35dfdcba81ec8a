"""Local files of objects, limited in bytes and checked by SHA-256, for DuckDB to read.

A flipped bit of a Parquet file can change numbers without an error, so a file is read only after
its SHA-256 was compared with the database: when it is fetched, or before its first use if the store
is a local folder and needs no copy; and again after its size or a time of it has changed. Only
`ciguard serve check` finds bits that the disk loses later.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from ciguard.errors import RemoteError
from ciguard.serve.objects import NoSuchObject, ObjectStore, explain

DEFAULT_LIMIT_BYTES: Final = 2 << 30
MAX_OBJECTS: Final = 20_000  # with a SHA-256 that this process has checked


class DamagedObject(RemoteError):
    """The object `name` is missing, or its SHA-256 differs from the stored one."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(what, where=name, fix="run ciguard serve check --repair")
        self.name = name


def read_checked(objects: ObjectStore, name: str, sha256: str, noun: str) -> bytes:
    """Return the content of an object, if its SHA-256 is right.

    Args:
        noun: kind of the object, for the error: `history`, `archive`.

    Raises:
        DamagedObject: the object is missing, or its SHA-256 is another.
        StorageError: the store cannot be reached.
    """
    try:
        content = objects.read(name)
    except NoSuchObject as error:
        raise DamagedObject(name, f"the stored {noun} is missing") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DamagedObject(name, f"the stored {noun} is damaged")
    return content


def is_damaged(objects: ObjectStore, name: str, sha256: str) -> bool:
    """Return whether an object is missing or has another SHA-256."""
    try:
        read_checked(objects, name, sha256, "object")
    except DamagedObject:
        return True
    return False


@dataclass(frozen=True, slots=True, order=True)
class CheckedObject:
    """An object, with digest and size by the database."""

    name: str
    sha256: str
    bytes: int


def compare_content(
    objects: ObjectStore, wanted: CheckedObject, copy: BinaryIO | None = None
) -> None:
    """Read an object from the store, compare its SHA-256, and write its copy if wanted.

    Raises:
        DamagedObject: the object is missing, or has another SHA-256.
        StorageError: the store cannot be reached.
    """
    digest = hashlib.sha256()
    try:
        for chunk in objects.chunks(wanted.name):
            digest.update(chunk)
            if copy is not None:
                copy.write(chunk)
    except NoSuchObject as error:
        raise DamagedObject(wanted.name, "the object is missing") from error
    if digest.hexdigest() != wanted.sha256:
        what = f"its SHA-256 is {digest.hexdigest():.12}..., stored: {wanted.sha256:.12}..."
        raise DamagedObject(wanted.name, what)


class _Checked(NamedTuple):
    """A file whose SHA-256 was compared, with its `_version` at that time."""

    path: Path
    version: tuple[int, ...] | None


class ObjectCache:
    """Copies of objects in a folder of this process; the least recently used are deleted first.

    Copies in use are never deleted, so that they can exceed the limit for a time. `scratch` is a
    folder for files of this process. The next process deletes both.
    """

    def __init__(
        self, objects: ObjectStore, folder: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES
    ) -> None:
        self._objects = objects
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._checked: OrderedDict[CheckedObject, _Checked] = OrderedDict()
        self._fetching: dict[str, threading.Lock] = {}
        self._uses: dict[str, int] = {}
        with explain(str(folder)):
            self._folder, self._claim = _claim_folder(folder)
            self.scratch = self._folder / "scratch"
            # Objects never change, but a process that was killed may have left half a copy.
            shutil.rmtree(self._folder)
            self.scratch.mkdir(parents=True)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the folders of the files that `open_files` yields."""
        local = self._objects.local_path("results/_")
        return (self._folder, local.parent) if local is not None else (self._folder,)

    @contextlib.contextmanager
    def open_files(self, wanted: Iterable[CheckedObject]) -> Iterator[dict[str, Path]]:
        """Yield the files of these objects by name; they exist until the block ends.

        Raises:
            DamagedObject: an object is missing, or has another SHA-256.
            StorageError: the store cannot be reached, or this machine's disk is full.
        """
        paths: dict[str, Path] = {}
        try:
            for name, stored in {stored.name: stored for stored in wanted}.items():
                with self._lock:
                    self._uses[name] = self._uses.get(name, 0) + 1
                paths[name] = self._folder  # counts as in use, also if `_path` raises
                paths[name] = self._path(stored)
            yield paths
        finally:
            with self._lock:
                for name in paths:
                    self._uses[name] -= 1
                    if not self._uses[name]:
                        del self._uses[name]
                self._evict()

    def forget(self, names: Iterable[str]) -> None:
        """Delete the copies of deleted objects."""
        deleted = set(names)
        with self._lock:
            for checked in [checked for checked in self._checked if checked.name in deleted]:
                self._drop(checked)

    def close(self) -> None:
        """Leave the folder to the next process."""
        self._claim.close()

    def _path(self, wanted: CheckedObject) -> Path:
        with self._lock:
            fetching = self._fetching.setdefault(wanted.name, threading.Lock())
        with fetching:
            with self._lock:
                known = self._checked.get(wanted)
                if known is not None and known.version == _version(known.path):
                    self._checked.move_to_end(wanted)
                    return known.path
            checked = self._check(wanted)
            with self._lock:
                self._checked[wanted] = checked
                self._evict()
            return checked.path

    def _check(self, wanted: CheckedObject) -> _Checked:
        local = self._objects.local_path(wanted.name)
        if local is not None:
            before = _version(local)  # a change during the comparison causes another one
            compare_content(self._objects, wanted)
            return _Checked(local, before)
        copy = self._folder / wanted.name.replace("/", "~")  # no name of an object has a tilde
        partial = self._folder / f"{uuid.uuid4().hex}.partial"
        try:
            with explain(str(self._folder)), partial.open("xb") as stream:
                compare_content(self._objects, wanted, stream)
            partial.replace(copy)
        finally:
            partial.unlink(missing_ok=True)
        return _Checked(copy, _version(copy))

    def _evict(self) -> None:
        used = sum(map(self._copied_bytes, self._checked))
        for checked in list(self._checked):
            if used <= self._limit_bytes and len(self._checked) <= MAX_OBJECTS:
                return
            if checked.name not in self._uses:
                used -= self._copied_bytes(checked)
                self._drop(checked)

    def _copied_bytes(self, checked: CheckedObject) -> int:
        return checked.bytes if self._checked[checked].path.parent == self._folder else 0

    def _drop(self, checked: CheckedObject) -> None:
        path = self._checked.pop(checked).path
        self._fetching.pop(checked.name, None)
        if path.parent == self._folder:
            path.unlink(missing_ok=True)


def _version(path: Path) -> tuple[int, ...] | None:
    """Return values that change with each write to a file; None without a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _claim_folder(folder: Path) -> tuple[Path, BinaryIO]:
    """Lock the first numbered folder that no living process uses; return it with its lock."""
    for number in count():
        own = folder / str(number)
        own.mkdir(parents=True, exist_ok=True)
        claim = (folder / f"{number}.lock").open("ab")
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            claim.close()
            continue
        return own, claim
    raise AssertionError
