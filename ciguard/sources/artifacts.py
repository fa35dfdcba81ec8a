"""Plan and records of a run, out of the artifacts that its jobs uploaded; kept in memory.

Whoever proposes a change decides what they hold, so each is read by `codec.archive` or refused, and
one that is refused hides none of the others. Nothing is written anywhere but to temporary files
without a name.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Final

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.archive import Limits, members
from ciguard.codec.record.reader import read_records, result_file_location
from ciguard.errors import InputError
from ciguard.github.api_errors import GitHubError
from ciguard.github.downloads import Budget
from ciguard.github.run_client import RunClient

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ciguard.github.client import GitHub
    from ciguard.github.models import Artifact
    from ciguard.model import Plan, Record


PLAN: Final = "ciguard-plan-"
RECORD: Final = "ciguard-record-"
CONFIRMATION: Final = "ciguard-confirmation-"
PLAN_FILE: Final = "plan.json"
CONFIRMATION_FILE: Final = "ciguard-confirmation.json"
MAX_ARCHIVE_BYTES: Final = 1 << 28
MAX_BYTES: Final = 1 << 31  # of all archives, what comes twice counted twice
LIMITS: Final = Limits()  # of all archives together, unpacked
ONE_FILE_LIMITS: Final = Limits(members=10, bytes=1 << 24)
EXPIRED: Final = "it has expired: artifacts are kept for 90 days, or as the repository says"
_ATTEMPT: Final = re.compile(r"-(\d{1,9})(?:-checkpoint-\d{1,9})?$")


@dataclass(frozen=True, slots=True)
class RunRecords:
    """What the legs of a run uploaded.

    `problems` says of each artifact that could not be had or was refused which it is, and why:
    whatever it holds is missing here.
    """

    records: tuple[Record, ...] = ()
    problems: tuple[str, ...] = ()
    artifacts: int = 0  # that were asked for


@dataclass(frozen=True)
class RunArtifacts:
    """A run's artifacts, listed once: a call per 100 of them, and one for each that is read.

    Attributes:
        repository: `owner/name`.
        attempt: what was uploaded in later ones is left out; None for all. Of an earlier one all
            records come along, for legs that were not run again have no other.
    """

    github: GitHub
    repository: str
    run_id: int
    attempt: int | None = None

    @cached_property
    def _all(self) -> tuple[Artifact, ...]:
        found = RunClient(self.github, self.repository, self.run_id).artifacts()
        # A list that grows while it is read shows one twice.
        return tuple({one.id: one for one in found if self._is_of_attempt(one.name)}.values())

    def _is_of_attempt(self, name: str) -> bool:
        attempt = attempt_of(name)
        return self.attempt is None or attempt is None or attempt <= self.attempt

    def records(self) -> RunRecords:
        """All records of the run.

        Raises:
            GitHubError: GitHub did not say which artifacts there are.
        """
        wanted = sorted(
            (one for one in self._all if one.name.startswith(RECORD)),
            key=lambda one: (one.name, one.id),
        )
        twice = Counter(one.name for one in wanted)
        # Two of one name may be two legs: what they hold must not seem to be of one folder.
        names = [one.name if twice[one.name] == 1 else f"{one.name}.{one.id}" for one in wanted]
        taking = _RecordCollector(names)
        problems = self._fetch(wanted, names, taking.add_archive)
        records = read_records(taking.files, taking.results)
        found = sorted([*problems, *taking.problems])
        return RunRecords(records, tuple(found), len(wanted))

    def plan(self) -> Plan:
        """The plan of the newest attempt that made one.

        Raises:
            InputError: there is none, or not one alone, or it is no plan.
            GitHubError: it cannot be had.
        """
        found = self._newest(PLAN)
        where, fix = f"run {self.run_id}", "pass it by --plan FILE"
        if len(found) != 1:
            names = ", ".join(sorted(one.name for one in found)[:3])
            what = (
                f"{len(found)} plans ({names})" if found else "it has no plan among its artifacts"
            )
            raise InputError(what, where=where, fix=fix)
        (artifact,) = found
        content = self._file(artifact, PLAN_FILE, fix, LIMITS)
        return plan_codec.decode(content, f"{artifact.name}/{PLAN_FILE}")

    def confirmation(self) -> tuple[bytes, str] | None:
        """What the run's own re-runs of suspects said, and where it stands; None without any.

        Raises:
            InputError: it is no archive that an honest upload makes.
            GitHubError: it cannot be had.
        """
        found = self._newest(f"{CONFIRMATION}{self.run_id}-")
        if not found:
            return None
        artifact = max(found, key=lambda one: one.id)
        fix = "pass it by --confirmation FILE"
        content = self._file(artifact, CONFIRMATION_FILE, fix, ONE_FILE_LIMITS)
        return content, f"{artifact.name}/{CONFIRMATION_FILE}"

    def _newest(self, prefix: str) -> list[Artifact]:
        """Those of the newest attempt that left any."""
        found = [one for one in self._all if one.name.startswith(prefix)]
        newest = max((attempt_of(one.name) or 0 for one in found), default=0)
        return [one for one in found if (attempt_of(one.name) or 0) == newest]

    def _file(self, artifact: Artifact, file: str, fix: str, limits: Limits) -> bytes:
        """One file of an artifact."""
        where = f"run {self.run_id}"
        try:
            found = download(
                self.github, self.repository, artifact, limits, lambda one: one == file
            )
        except GitHubError as error:
            raise GitHubError(f"{artifact.name}: {_why(error)}", where=where, fix=fix) from error
        if not found:
            raise InputError(f"no {file} in it", where=f"{where}: {artifact.name}", fix=fix)
        return found[0][1]

    def _fetch(
        self,
        artifacts: Sequence[Artifact],
        names: Sequence[str],
        on_archive: Callable[[int, IO[bytes]], None],
    ) -> list[str]:
        """Hand each archive to `on_archive`; what cannot be had, and why."""
        problems = [
            f"{name}: {EXPIRED}" for one, name in zip(artifacts, names, strict=True) if one.expired
        ]
        there = [position for position, one in enumerate(artifacts) if not one.expired]
        base = f"/repos/{self.repository}/actions/artifacts"
        paths = [(f"{base}/{artifacts[at].id}/zip", _digest(artifacts[at])) for at in there]
        lost = self.github.download_all(
            paths,
            lambda position, stream: on_archive(there[position], stream),
            max_bytes=MAX_ARCHIVE_BYTES,
            budget=Budget(MAX_BYTES),
        )
        for position, error in sorted(lost.items()):
            problems.append(f"{names[there[position]]}: {_why(error)}")
        return problems


def _why(error: GitHubError) -> str:
    return EXPIRED if error.status == HTTPStatus.GONE else error.what


def download(
    github: GitHub,
    repository: str,
    artifact: Artifact,
    limits: Limits,
    is_wanted: Callable[[str], bool],
) -> list[tuple[str, bytes]]:
    """The wanted files of one artifact, by their name in it.

    Raises:
        GitHubError: it cannot be had.
        InputError: it is no archive that an honest upload makes.
    """
    found: list[tuple[str, bytes]] = []

    def on_archive(_: int, stream: IO[bytes]) -> None:
        found.extend(members(stream, artifact.name, limits, is_wanted=is_wanted))

    if artifact.expired:
        raise GitHubError(EXPIRED)
    path = f"/repos/{repository}/actions/artifacts/{artifact.id}/zip"
    lost = github.download_all(
        [(path, _digest(artifact))],
        on_archive,
        max_bytes=MAX_ARCHIVE_BYTES,
        budget=Budget(MAX_ARCHIVE_BYTES),
    )
    for error in lost.values():
        raise error
    return found


@dataclass(slots=True)
class _RecordCollector:
    """The files of records, out of archives that arrive in any order."""

    names: Sequence[str]
    files: list[tuple[str, bytes]] = field(default_factory=list)
    results: list[tuple[str, bytes]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    remaining_bytes: int = LIMITS.bytes
    remaining_members: int = LIMITS.members

    def add_archive(self, position: int, stream: IO[bytes]) -> None:
        """Read an archive, or remember why not; of one that is refused nothing is kept."""
        source = self.names[position]
        limits = replace(LIMITS, bytes=self.remaining_bytes, members=self.remaining_members)
        try:
            found = list(members(stream, source, limits, is_wanted=_is_record_file))
        except InputError as error:
            self.problems.append(f"{error.where}: {error.what}")
            return
        self.remaining_bytes -= sum(len(content) for _, content in found)
        self.remaining_members -= len(found)
        for name, content in found:
            into = self.files if name.endswith(".jsonl") else self.results
            into.append((f"{source}/{name}", content))


def _is_record_file(name: str) -> bool:
    return name.endswith(".jsonl") or result_file_location(name) is not None


def _digest(artifact: Artifact) -> str:
    known = artifact.digest or ""
    return known if known.startswith("sha256:") else ""


def attempt_of(name: str) -> int | None:
    """The run attempt that an artifact's name ends with; None where it names none."""
    found = _ATTEMPT.search(name)
    return int(found[1]) if found else None
