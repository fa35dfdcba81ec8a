"""Raw archives of runs: objects with their rows, from GitHub or pushed by the run's report job."""

from __future__ import annotations

import contextlib
import hashlib
import io
from typing import Final

from ciguard.codec.archive import members
from ciguard.codec.unpack_limits import PUSH_LIMITS
from ciguard.serve.object_cache import DamagedObject, read_checked
from ciguard.serve.objects import AlreadyStored
from ciguard.serve.service import Service
from ciguard.serve.state import raw_artifacts
from ciguard.serve.state.raw_artifacts import RawArtifact
from ciguard.serve.state.run_key import RunKey

PUSHED: Final = "/pushed"  # of the row; no artifact on GitHub has a slash in its name


def store(service: Service, key: RunKey, name: str, content: bytes) -> None:
    """Store an archive of a run unchanged, by its digest; its row replaces one of the same name."""
    digest = hashlib.sha256(content).hexdigest()
    path = f"artifacts/{key.repository_id}/{key.run_id}-{key.run_attempt}-{digest[:32]}.zip"
    with contextlib.suppress(AlreadyStored):
        service.objects.put_new(path, content)
    row = RawArtifact(name, path, len(content), digest)
    with service.database.write() as connection:
        raw_artifacts.record(connection, key, row)


def load(service: Service, key: RunKey, name: str) -> bytes | None:
    """Return the content of a stored archive of a run; None for none, or a damaged one."""
    with service.database.read() as connection:
        rows = {row.name: row for row in raw_artifacts.of_run(connection, key)}
    if name in rows:
        with contextlib.suppress(DamagedObject):
            return read_checked(service.objects, rows[name].object, rows[name].sha256, "archive")
    return None


def read_pushed(content: bytes) -> dict[str, bytes]:
    """Return the zips of a push, a zip of zips, by the names of their artifacts.

    Raises:
        InputError: damaged, or larger than what a report job sends.
    """
    return dict(members(io.BytesIO(content), "the records", PUSH_LIMITS))
