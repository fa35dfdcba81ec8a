"""Local copies of objects, for programs that read files: bounded in bytes, checked by SHA-256.

One flipped bit of a Parquet file can give other numbers without an error, so a file is read only
after its SHA-256 was compared with what the database says: when it is fetched, or when it is read
first where the store is a folder of this machine and no copy is needed; and again once its size or
one of its times is another. Only `ciguard serve check` finds a bit that the disk itself lost later.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import threading
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from ciguard.errors import RemoteError
from ciguard.serve.objects import NoSuchObject, ObjectStore, explain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


DEFAULT_LIMIT_BYTES: Final = 2 << 30
MOST_OBJECTS: Final = 20_000  # whose SHA-256 a process remembers


class DamagedObject(RemoteError):
    """An object is missing or has another SHA-256 than when it was stored; `name` is its name."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(what, where=name, fix="run ciguard serve check --repair")
        self.name = name


def read_checked(objects: ObjectStore, name: str, sha256: str, noun: str) -> bytes:
    """The content of an object, as it was stored.

    Args:
        noun: what it is, for the error: `history`, `archive`.

    Raises:
        DamagedObject: it is missing, or not what was stored.
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
    """Return whether an object is missing, or not what was stored; raise as `read_checked`."""
    try:
        read_checked(objects, name, sha256, "object")
    except DamagedObject:
        return True
    return False


@dataclass(frozen=True, slots=True, order=True)
class CheckedObject:
    """An object as the database knows it."""

    name: str
    sha256: str
    bytes: int


class _Checked(NamedTuple):
    """A file whose SHA-256 was compared, as it was then."""

    path: Path
    mark: tuple[int, ...] | None


class ObjectCache:
    """Copies in a folder of this process; those that were used least recently go first.

    Objects in use are never deleted, so for their time the bound can be exceeded. `scratch` is a
    folder for files of this process, which the next one deletes.
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
            shutil.rmtree(self.scratch, ignore_errors=True)
            self.scratch.mkdir()
            # Copies of an earlier process are good once their SHA-256 has been compared.
            self._unchecked: dict[str, int] = {}
            for left in self._folder.iterdir():
                if left.suffix == ".partial":
                    left.unlink()
                elif left != self.scratch:
                    self._unchecked[left.name] = left.stat().st_size

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where the files lie that `open_files` gives."""
        local = self._objects.local_path("results/_")
        return (self._folder, local.parent) if local is not None else (self._folder,)

    @contextlib.contextmanager
    def open_files(self, wanted: Iterable[CheckedObject]) -> Iterator[dict[str, Path]]:
        """By name, files with the content of these objects; they stay until the block ends.

        Raises:
            DamagedObject: one is missing, or has another SHA-256.
            StorageError: the store cannot be reached, or this machine's disk is full.
        """
        found: dict[str, Path] = {}
        try:
            for one in wanted:
                if one.name not in found:
                    with self._lock:
                        self._uses[one.name] = self._uses.get(one.name, 0) + 1
                    found[one.name] = self._folder  # in use, so that it is given back below
                    found[one.name] = self._path(one)
            yield found
        finally:
            with self._lock:
                for name in found:
                    self._uses[name] -= 1
                    if not self._uses[name]:
                        del self._uses[name]
                self._evict()

    def forget(self, names: Iterable[str]) -> None:
        """Delete the copies of objects that are deleted."""
        gone = set(names)
        with self._lock:
            for one in [one for one in self._checked if one.name in gone]:
                self._drop(one)

    def close(self) -> None:
        """Leave the folder to the next process."""
        self._claim.close()

    def _path(self, wanted: CheckedObject) -> Path:
        with self._lock:
            fetching = self._fetching.setdefault(wanted.name, threading.Lock())
        with fetching:
            with self._lock:
                known = self._checked.get(wanted)
                if known is not None and known.mark == _mark(known.path):
                    self._checked.move_to_end(wanted)
                    return known.path
            found = self._check(wanted)
            with self._lock:
                self._checked[wanted] = found
                self._evict()
            return found.path

    def _check(self, wanted: CheckedObject) -> _Checked:
        local = self._objects.local_path(wanted.name)
        if local is not None:
            before = _mark(local)  # what is written meanwhile is compared next time
            self._compare(wanted, None)
            return _Checked(local, before)
        copy = self._folder / wanted.name.replace("/", "~")  # no name of an object has one
        if self._unchecked.pop(copy.name, None) is not None:
            with explain(str(copy)), copy.open("rb") as stream:
                if hashlib.file_digest(stream, "sha256").hexdigest() == wanted.sha256:
                    return _Checked(copy, _mark(copy))
        partial = self._folder / f"{uuid.uuid4().hex}.partial"
        try:
            with explain(str(self._folder)), partial.open("xb") as stream:
                self._compare(wanted, stream)
            partial.replace(copy)
        finally:
            partial.unlink(missing_ok=True)
        return _Checked(copy, _mark(copy))

    def _compare(self, wanted: CheckedObject, copy: BinaryIO | None) -> None:
        """Read an object from the store, and into its copy where there is to be one."""
        digest = hashlib.sha256()
        try:
            for chunk in self._objects.chunks(wanted.name):
                digest.update(chunk)
                if copy is not None:
                    copy.write(chunk)
        except NoSuchObject as error:
            raise DamagedObject(wanted.name, "the object is missing") from error
        if digest.hexdigest() != wanted.sha256:
            what = f"its SHA-256 is {digest.hexdigest():.12}..., stored: {wanted.sha256:.12}..."
            raise DamagedObject(wanted.name, what)

    def _evict(self) -> None:
        used = sum(self._unchecked.values()) + sum(map(self._copied_bytes, self._checked))
        while used > self._limit_bytes and self._unchecked:
            name, size = self._unchecked.popitem()
            (self._folder / name).unlink(missing_ok=True)
            used -= size
        for one in list(self._checked):
            if used <= self._limit_bytes and len(self._checked) <= MOST_OBJECTS:
                return
            if one.name not in self._uses:
                used -= self._copied_bytes(one)
                self._drop(one)

    def _copied_bytes(self, one: CheckedObject) -> int:
        return one.bytes if self._checked[one].path.parent == self._folder else 0

    def _drop(self, one: CheckedObject) -> None:
        path = self._checked.pop(one).path
        self._fetching.pop(one.name, None)
        if path.parent == self._folder:
            path.unlink(missing_ok=True)


def _mark(path: Path) -> tuple[int, ...] | None:
    """What changes when somebody writes to a file; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _claim_folder(folder: Path) -> tuple[Path, BinaryIO]:
    """The first folder of a number that no living process uses: a cache has one process."""
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
