"""The previous run of the same pull request: an artifact with its values, found by name.

A change that both runs show is confirmed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from ciguard.codec.record.lines import encode
from ciguard.codec.record.reader import read_records
from ciguard.codec.unpack_limits import ArchiveLimits
from ciguard.github.client import PAGE_SIZE, GitHub
from ciguard.github.events import ActionsRun
from ciguard.github.models import Artifact, UploadingRun
from ciguard.model import EndLine, Record, Result, SampleLine, StartLine
from ciguard.model.machine_use import machine_use
from ciguard.sources.artifacts import RunArtifacts

VALUES: Final = "ciguard-values-"
VALUES_DIGITS: Final = 24
VALUES_LIMITS: Final = ArchiveLimits(members=10, bytes=1 << 28)


@dataclass(frozen=True, slots=True)
class PreviousRun:
    """The records of the previous run of the same pull request.

    Each report uploads these values as one artifact, whose name follows from workflow, repository
    and branch: one call finds the artifact and one downloads it, for any number of jobs. A pull
    request can forge the values, as its records, so they never become a baseline.
    """

    run_id: int
    records: tuple[Record, ...]


def artifact_name(run: ActionsRun) -> str:
    """Return the name of the artifact for a run's pull request; "" for another run.

    The name is a digest, because names of branches may have characters that GitHub refuses.
    """
    head, branch = run.subject_head_repository, run.subject_branch
    if head is None or not branch:
        return ""
    identity = "\n".join((run.subject_workflow, head.lower(), branch))
    return (
        VALUES
        + hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:VALUES_DIGITS]
    )


def load_previous_run(github: GitHub, run: ActionsRun, subject_run_id: int) -> PreviousRun | None:
    """Download the newest values of the same pull request by an earlier run; None without any.

    Any run can upload an artifact with this name, so GitHub's facts about the uploading run decide.

    Args:
        subject_run_id: the id of the judged run.

    Raises:
        GitHubError: the artifact cannot be listed or downloaded.
        InputError: the archive is malformed.
    """
    name = artifact_name(run)
    if not name:
        return None
    path = f"/repos/{run.repository}/actions/artifacts?name={name}"
    listed = github.items(Artifact, path, key="artifacts", limit=PAGE_SIZE)
    earlier = [
        (uploading.id, artifact.id, artifact)
        for artifact in listed
        if artifact.name == name
        and not artifact.expired
        and (uploading := artifact.workflow_run) is not None
        and uploading.id < subject_run_id
        and _is_of(uploading, run)
    ]
    if not earlier:
        return None
    run_id, _, newest = max(earlier, key=lambda item: item[:2])
    artifacts = RunArtifacts(github, run.repository, run_id)
    files = artifacts.files(newest, VALUES_LIMITS, lambda name: name.endswith(".jsonl"))
    return PreviousRun(
        run_id, read_records((f"{newest.name}/{name}", content) for name, content in files)
    )


def _is_of(uploading: UploadingRun, run: ActionsRun) -> bool:
    if uploading.head_branch != run.subject_branch or uploading.head_repository_id is None:
        return False
    head_id = run.subject_head_repository_id
    if head_id is None and (run.subject_head_repository or "").lower() == run.repository.lower():
        head_id = uploading.repository_id
    return uploading.head_repository_id == head_id


# Endings of a run that a newer run replaced: its values are few, an earlier run confirms more.
INTERRUPTED: Final = frozenset({"cancelled", "superseded"})
_KEPT: Final = (
    *("unit", "outcome", "suite", "variant", "ending", "wall_s", "peak_delta_bytes"),
    *("rss_before_bytes", "peak_lower_bytes", "peak_upper_bytes", "gpu_peak_bytes"),
    *("retained_bytes", "measured_by", "concurrent", "try_number", "reruns", "process"),
)


def encode_values(records: Iterable[Record]) -> bytes:
    """Encode the values that the next run needs, as shortened records, one after the other.

    A shortened record has a leg's first line, its processes with the units that began them,
    results, extreme samples and end; a result has only the keys that a comparison of numbers needs.
    """
    return b"".join(encoded for record in records for encoded in _lines(record))


def _lines(record: Record) -> Iterator[bytes]:
    if record.header is None:
        return
    yield encode(record.header)
    yield from map(encode, record.processes)
    yield from map(encode, record.process_ends)
    suites = {line.process: (line.suite, line.variant) for line in record.processes}
    for process, units in record.first_units.items():
        for unit in sorted(units):
            yield encode(StartLine(unit, *suites.get(process, ("", "")), process=process))
    for result in record.results:
        kept = {name: getattr(result, name) for name in _KEPT}
        yield encode(Result(**kept, case=result.case if result.case != result.unit else ""))
    use = machine_use(record.samples)
    growth = use.swap_growth.size_bytes if use.swap_growth is not None else None
    if use.gpu_bytes or growth is not None:  # two samples: growth is that since the first one
        yield encode(SampleLine(0.0, swap_used_bytes=None if growth is None else 0))
        yield encode(SampleLine(0.0, swap_used_bytes=growth, gpu_bytes=use.gpu_bytes))
    if record.end is not None and not record.damage:
        yield encode(replace(record.end, counts={}))
    else:
        yield encode(EndLine("unknown", at_s=record.wall_s))
