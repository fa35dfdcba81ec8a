"""Objects of the service: immutable, each put once under a name, in a local folder or in S3.

An object is there wholly or not at all, and is durable when `put_new` returns. Names are
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
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from ciguard.errors import RemoteError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from obstore.store import S3Config

DEFAULT_URL: Final = "./results"
CHUNK_BYTES: Final = 1 << 20
PARTIAL: Final = ".partial"  # folder of files that are being written; in no listing
PARTIAL_AGE_S: Final = 86400  # after which the process that wrote one is dead
_NAME: Final = re.compile(r"[A-Za-z0-9_=+-][A-Za-z0-9._=+-]*(/[A-Za-z0-9_=+-][A-Za-z0-9._=+-]*)+")
# The last two: a quota of the user, and a limit of the size of one file.
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_S3_FIX: Final = (
    "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION; AWS_ENDPOINT_URL too, for"
    " another server than Amazon's"
)
_S3_KEYS: Final = {
    "AWS_ACCESS_KEY_ID": "access_key_id",
    "AWS_SECRET_ACCESS_KEY": "secret_access_key",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_REGION": "region",
    "AWS_ENDPOINT_URL": "endpoint",
}


class StorageError(RemoteError):
    """The store could not be reached, or refused."""

    is_lasting = False


class StorageFull(StorageError):
    """The disk is full; nothing of the object is there."""


class AlreadyStored(StorageError):
    """An object of this name is there; it is left as it is."""


class NoSuchObject(StorageError):
    """No object of this name is there."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """What a listing tells of an object; `modified_at` in seconds since 1970, by the store."""

    name: str
    bytes: int
    modified_at: float


class ObjectStore(Protocol):
    """Where objects lie. Threads may share it; all methods raise StorageError."""

    def put_new(self, name: str, content: bytes | Path) -> None:
        """Store bytes or a file durably; AlreadyStored where the name is taken, StorageFull."""

    def read(self, name: str) -> bytes:
        """The content of an object; NoSuchObject."""

    def chunks(self, name: str) -> Iterator[bytes]:
        """The content of an object, piece by piece; NoSuchObject."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that are not there any more are no error."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """The objects below a prefix, which ends where a part of their names does; in no order."""

    def local_path(self, name: str) -> Path | None:
        """Where an object lies on this machine; None where it has to be fetched."""


def open_objects(url: str, environ: Mapping[str, str]) -> ObjectStore:
    """The store that a URL names: a folder, which is made, or s3://bucket/prefix.

    Args:
        environ: credentials, region and endpoint of S3, as AWS_* variables.

    Raises:
        UsageError: the URL is of another kind.
        StorageError: the folder cannot be made.
    """
    parts = urlsplit(url)
    if "://" not in url or parts.scheme == "file":
        return FolderStore(Path(parts.path if parts.scheme == "file" else url).absolute())
    if parts.scheme != "s3" or not parts.netloc or "@" in parts.netloc:
        # Not the URL itself: it may hold a secret, which errors and logs would repeat.
        what = "expected a folder or s3://BUCKET/PREFIX"
        fix = "pass --results FOLDER or s3://BUCKET/PREFIX; credentials are AWS_* variables"
        raise UsageError(what, where="--results", fix=fix)
    return BucketStore(parts.netloc, parts.path.strip("/"), environ)


def check_name(name: str) -> str:
    """The name itself, of at least two parts, none of them hidden.

    Raises:
        ValueError: it is another one, which is a bug of the caller.
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
            for left in (folder / PARTIAL).iterdir():
                if time.time() - left.stat().st_mtime > PARTIAL_AGE_S:
                    left.unlink(missing_ok=True)

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
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
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
    """Objects of a bucket of S3, or of what speaks its protocol with conditional puts."""

    def __init__(self, bucket: str, prefix: str, environ: Mapping[str, str]) -> None:
        config: S3Config = {}
        for variable, key in _S3_KEYS.items():
            if environ.get(variable):
                config[key] = environ[variable]  # type: ignore[literal-required]  # of the table
        is_plain = environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
        self.place = f"s3://{bucket}/{prefix}".rstrip("/")
        with explain(self.place):
            self._store = S3Store(
                bucket,
                prefix=prefix or None,
                config=config,
                client_options={"allow_http": is_plain, "timeout": timedelta(seconds=60)},
                retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=20)},
            )

    def put_new(self, name: str, content: bytes | Path) -> None:
        with explain(f"{self.place}/{check_name(name)}"):
            obstore.put(self._store, name, content, mode="create")

    def read(self, name: str) -> bytes:
        with explain(f"{self.place}/{check_name(name)}"):
            return obstore.get(self._store, name).bytes().to_bytes()

    def chunks(self, name: str) -> Iterator[bytes]:
        with explain(f"{self.place}/{check_name(name)}"):
            for chunk in obstore.get(self._store, name).stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(chunk)

    def delete(self, names: Iterable[str]) -> None:
        found = [check_name(name) for name in names]
        if found:
            with explain(self.place):
                obstore.delete(self._store, found)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        with explain(f"{self.place}/{prefix}"):
            for page in obstore.list(self._store, prefix.rstrip("/")):
                for one in page:
                    modified_at = one["last_modified"].timestamp()
                    yield StoredObject(one["path"], one["size"], modified_at)

    def local_path(self, name: str) -> None:
        check_name(name)


def check_conditional_puts(objects: ObjectStore) -> None:
    """Put an object twice, and delete it; three requests.

    Raises:
        StorageError: the store cannot be written, or it wrote over the first object.
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
    """Write a new file whose content is on the disk when this returns."""
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
    """Turn what the system or the client raises into an error that can be acted on."""
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
