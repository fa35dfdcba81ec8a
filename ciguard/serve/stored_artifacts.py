"""Plan and records of a run, out of the archives that the service keeps of it for a while."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.archive import members
from ciguard.codec.record.reader import read_records
from ciguard.errors import InputError
from ciguard.serve.object_cache import read_checked
from ciguard.sources.artifacts import LIMITS, PLAN, PLAN_FILE, RECORD, is_record_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ciguard.model import Plan, Record
    from ciguard.serve.objects import ObjectStore
    from ciguard.serve.state.raw_artifacts import RawArtifact

# Anybody's pull request decides what a run uploads, and a worker judges two runs at once. Records
# have 240 bytes a result: these are of a million. In memory they take up to six times as much.
FILE_BYTES: Final = 1 << 28
ARCHIVE_BYTES: Final = 1 << 28  # stored of a run; what is more is judged and not stored


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What the archives of a run hold; the records of all attempts that were judged."""

    plan: Plan
    records: tuple[Record, ...]


def read_stored_run(objects: ObjectStore, artifacts: Sequence[RawArtifact]) -> StoredRun:
    """Read the archives, as they were read when the run was judged.

    Raises:
        InputError: there is not one plan, or what there is cannot be read.
        DamagedObject: an archive is missing, or not what was stored.
        StorageError: the store cannot be reached.
    """
    plans = [artifact for artifact in artifacts if artifact.name.startswith(PLAN)]
    if len(plans) != 1:
        raise InputError(f"{len(plans)} plans are stored", where="artifacts")
    source = f"{plans[0].name}/{PLAN_FILE}"
    found = _files(objects, plans[0], lambda name: name == PLAN_FILE, FILE_BYTES)
    if not found:
        raise InputError(f"no {PLAN_FILE} in it", where=plans[0].name)
    files: list[tuple[str, bytes]] = []
    remaining_bytes = FILE_BYTES
    for artifact in artifacts:
        if artifact.name.startswith(RECORD):
            of_record = _files(objects, artifact, is_record_file, remaining_bytes)
            remaining_bytes -= sum(len(content) for _, content in of_record)
            files += [(f"{artifact.name}/{name}", content) for name, content in of_record]
    records = read_records(
        [artifact for artifact in files if artifact[0].endswith(".jsonl")],
        [artifact for artifact in files if not artifact[0].endswith(".jsonl")],
    )
    return StoredRun(plan_codec.decode(found[0][1], source), tuple(records))


def _files(
    objects: ObjectStore,
    artifact: RawArtifact,
    is_wanted: Callable[[str], bool],
    max_bytes: int,
) -> list[tuple[str, bytes]]:
    stream = io.BytesIO(read_checked(objects, artifact.object, artifact.sha256, "archive"))
    limits = replace(LIMITS, bytes=max_bytes)
    return list(members(stream, artifact.name, limits, is_wanted=is_wanted))
