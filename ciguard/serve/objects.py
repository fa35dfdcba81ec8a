"""Objects of the service: immutable, each stored once under a name, in a local folder or in S3.

An object exists completely or not at all, and is durable when `put_new` returns. Names are
'artifacts/...', 'answers/...', 'history/...' and 'results/...', for a moment also 'probes/...'.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from ciguard.errors import RemoteError, UsageError

DEFAULT_URL: Final = "./results"
CHUNK_BYTES: Final = 1 << 20
PARTIAL: Final = ".partial"  # folder of files that are being written; in no listing
PARTIAL_AGE_S: Final = 86400  # after which the process that wrote the file is dead
_NAME: Final = re.compile(r"[A-Za-z0-9_=+-][A-Za-z0-9._=+-]*(/[A-Za-z0-9_=+-][A-Za-z0-9._=+-]*)+")
# The last two are a quota of the user and a size limit of files.
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_S3_FIX: Final = (
    "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION; AWS_ENDPOINT_URL too, for"
    " another server than Amazon's"
)
_S3_VARIABLES: Final = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"),
    "AWS_ENDPOINT_URL",
)


class StorageError(RemoteError):
    """The store could not be reached, or refused."""

    is_lasting = False


class StorageFull(StorageError):
    """The disk is full; no part of the object is stored."""


class AlreadyStored(StorageError):
    """An object of this name exists, and is unchanged."""


class NoSuchObject(StorageError):
    """No object of this name exists."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a listing; `modified_at` is in seconds since 1970, by the store."""

    name: str
    bytes: int
    modified_at: float


class ObjectStore(Protocol):
    """A store of objects. Threads may share it; all methods raise StorageError."""

    def put_new(self, name: str, content: bytes | Path) -> None:
        """Store bytes or a file durably; raise AlreadyStored or StorageFull."""

    def read(self, name: str) -> bytes:
        """Return the content of an object; raise NoSuchObject."""

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of an object in pieces; raise NoSuchObject."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; absent objects are no error."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects below a prefix of whole parts of their names, in no order."""

    def local_path(self, name: str) -> Path | None:
        """Return the file of an object on this machine; None if it must be fetched."""


def open_objects(url: str, environ: Mapping[str, str]) -> ObjectStore:
    """Open the store of a URL: a folder, which is created, or s3://bucket/prefix.

    Args:
        environ: credentials, region and endpoint of S3, as AWS_* variables.

    Raises:
        UsageError: the URL is of another kind.
        StorageError: the folder cannot be created.
    """
    parts = urlsplit(url)
    if "://" not in url or parts.scheme == "file":
        return FolderStore(Path(parts.path if parts.scheme == "file" else url).absolute())
    if parts.scheme != "s3" or not parts.netloc or "@" in parts.netloc:
        # Not the URL, which may hold a secret: errors and logs would repeat it.
        what = "expected a folder or s3://BUCKET/PREFIX"
        fix = "pass --results FOLDER or s3://BUCKET/PREFIX; credentials are AWS_* variables"
        raise UsageError(what, where="--results", fix=fix)
    return BucketStore(parts.netloc, parts.path.strip("/"), environ)


def check_name(name: str) -> str:
    """Return a name of at least two parts, none of them hidden.

    Raises:
        ValueError: the name is invalid, which is a bug of the caller.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of an object")
    return name


class FolderStore:
    """Objects as files of a folder: written under a temporary name, synced, then linked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            (folder / PARTIAL).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            what = f"the folder cannot be made: {error.strerror}"
            fix = "pass --results FOLDER that this user can write to"
            raise StorageError(what, where=str(folder), fix=fix) from error
        with explain(str(folder)):
            for partial in (folder / PARTIAL).iterdir():
                if time.time() - partial.stat().st_mtime > PARTIAL_AGE_S:
                    partial.unlink(missing_ok=True)

    def put_new(self, name: str, content: bytes | Path) -> None:
        path = self.local_path(name)
        partial = self.folder / PARTIAL / uuid.uuid4().hex
        with explain(str(path)):
            try:
                _write_synced(partial, content)
                self._make_folders(path.parent)
                os.link(partial, path)  # unlike rename, it never overwrites
                _sync_folder(path.parent)
            finally:
                partial.unlink(missing_ok=True)

    def read(self, name: str) -> bytes:
        with explain(name):
            return self.local_path(name).read_bytes()

    def chunks(self, name: str) -> Iterator[bytes]:
        with explain(name), self.local_path(name).open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with explain(name):
                self.local_path(name).unlink(missing_ok=True)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        start = self.folder / check_name(f"{prefix.rstrip('/')}/_").removesuffix("/_")
        for folder, _, names in os.walk(start):
            for name in names:
                path = Path(folder, name)
                with contextlib.suppress(FileNotFoundError):  # deleted since the listing
                    status = path.stat()
                    stored = path.relative_to(self.folder).as_posix()
                    yield StoredObject(stored, status.st_size, status.st_mtime)

    def local_path(self, name: str) -> Path:
        return self.folder / check_name(name)

    def _make_folders(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self._make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


class BucketStore:
    """Objects in a bucket of S3, or of a server with its protocol and conditional puts."""

    def __init__(self, bucket: str, prefix: str, environ: Mapping[str, str]) -> None:
        # Keys of the configuration are the names of the variables.
        config: Any = {name: environ[name] for name in _S3_VARIABLES if environ.get(name)}
        is_plain = environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
        self.location = f"s3://{bucket}/{prefix}".rstrip("/")
        with explain(self.location):
            self._store = S3Store(
                bucket,
                prefix=prefix or None,
                config=config,
                client_options={"allow_http": is_plain, "timeout": timedelta(seconds=60)},
                retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=20)},
            )

    def put_new(self, name: str, content: bytes | Path) -> None:
        with explain(f"{self.location}/{check_name(name)}"):
            obstore.put(self._store, name, content, mode="create")

    def read(self, name: str) -> bytes:
        with explain(f"{self.location}/{check_name(name)}"):
            return obstore.get(self._store, name).bytes().to_bytes()

    def chunks(self, name: str) -> Iterator[bytes]:
        with explain(f"{self.location}/{check_name(name)}"):
            for chunk in obstore.get(self._store, name).stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(chunk)

    def delete(self, names: Iterable[str]) -> None:
        checked = [check_name(name) for name in names]
        if checked:
            with explain(self.location):
                obstore.delete(self._store, checked)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        with explain(f"{self.location}/{prefix}"):
            for page in obstore.list(self._store, prefix.rstrip("/")):
                for stored in page:
                    modified_at = stored["last_modified"].timestamp()
                    yield StoredObject(stored["path"], stored["size"], modified_at)

    def local_path(self, name: str) -> None:
        check_name(name)


def check_conditional_puts(objects: ObjectStore) -> None:
    """Check that the store refuses a second object of a name, by three requests.

    Raises:
        StorageError: the store cannot be written, or it has overwritten the first object.
    """
    name = f"probes/{uuid.uuid4().hex}"
    objects.put_new(name, b"1")
    try:
        objects.put_new(name, b"2")
    except AlreadyStored:
        return
    finally:
        objects.delete([name])
    fix = "use one that supports conditional puts (If-None-Match)"
    raise StorageError("the store overwrites objects", where=name, fix=fix)


def _write_synced(path: Path, content: bytes | Path) -> None:
    """Write a new file, and wait until its content is on the disk."""
    with path.open("xb") as stream:
        if isinstance(content, Path):
            with content.open("rb") as source:
                shutil.copyfileobj(source, stream, CHUNK_BYTES)
        else:
            stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def explain(where: str) -> Iterator[None]:
    """Turn exceptions of the system and the client into errors with advice."""
    try:
        yield
    except (FileExistsError, AlreadyExistsError) as error:
        raise AlreadyStored("is stored already", where=where) from error
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise StorageError("there is no such bucket", where=where, fix="create it") from error
        raise NoSuchObject("is not stored", where=where) from error
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFull("the disk is full", where=where, fix="free some space") from error
        raise StorageError(error.strerror or str(error), where=where) from error
    except BaseError as error:
        first = str(error).partition("\n")[0]
        raise StorageError(first, where=where, fix=_S3_FIX) from error
