"""Plan, records and result files of a run, out of the artifacts of its jobs; kept in memory.

Whoever proposes a change decides what they hold, so each is read by `codec.archive` or refused, and
one that is refused hides none of the others. Nothing is written anywhere but to temporary files
without a name.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Final

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.archive import Limits, members
from ciguard.codec.record.reader import read_records, result_file_location
from ciguard.codec.results.result_patterns import Location, Pattern, ResultFile
from ciguard.errors import InputError
from ciguard.github.api_errors import GitHubError
from ciguard.github.downloads import Budget
from ciguard.github.run_client import RunClient
from ciguard.logs.process_logs import ProcessLogs, is_process_log
from ciguard.model.jobs import Job, RunArtifact, attempt_at, oldest_counting_attempt
from ciguard.sources.local import ReadInputs
from ciguard.text import count_of, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ciguard.github.client import GitHub
    from ciguard.github.models import Artifact
    from ciguard.model import Plan


PLAN: Final = "ciguard-plan-"
RECORD: Final = "ciguard-record-"
CONFIRMATION: Final = "ciguard-confirmation-"
OURS: Final = "ciguard-"
PLAN_FILE: Final = "plan.json"
CONFIRMATION_FILE: Final = "ciguard-confirmation.json"
MAX_ARCHIVE_BYTES: Final = 1 << 28
MAX_BYTES: Final = 1 << 31  # of all archives, what comes twice counted twice
LIMITS: Final = Limits()  # of all archives together, unpacked
ONE_FILE_LIMITS: Final = Limits(members=10, bytes=1 << 24)
EXPIRED: Final = "it has expired: artifacts are kept for 90 days, or as the repository says"
_ATTEMPT: Final = re.compile(r"-(\d{1,9})(?:-checkpoint-\d{1,9})?$")


@dataclass(frozen=True)
class RunArtifacts:
    """A run's artifacts, listed once: a call per 100 of them, and one for each that is read.

    Attributes:
        repository: `owner/name`.
        attempt: what was uploaded in later ones is left out; None for all. Of an earlier one all
            records come along, for legs that were not run again have no other.
        keep: is handed each archive that came, before it is read; None for nobody.
        stored: gives a copy of an archive that has expired, or None; None where there are none.
        max_file_bytes: of all files that are read of the archives, which are kept in memory.
    """

    github: GitHub
    repository: str
    run_id: int
    attempt: int | None = None
    keep: Callable[[Artifact, IO[bytes]], None] | None = None
    stored: Callable[[Artifact], IO[bytes] | None] | None = None
    max_file_bytes: int = LIMITS.bytes

    @cached_property
    def _listed(self) -> tuple[Artifact, ...]:
        found = RunClient(self.github, self.repository, self.run_id).artifacts()
        # A list that grows while it is read shows one twice.
        return tuple({one.id: one for one in found}.values())

    @cached_property
    def _all(self) -> tuple[Artifact, ...]:
        """Ours; other people's artifacts may end with a number that is no attempt."""
        return tuple(
            artifact for artifact in self._listed if self._includes(attempt_of(artifact.name))
        )

    def _includes(self, attempt: int | None) -> bool:
        return self.attempt is None or attempt is None or attempt <= self.attempt

    def has_any(self, prefixes: tuple[str, ...]) -> bool:
        """Say whether one of them has such a name.

        Raises:
            GitHubError: GitHub did not say which artifacts there are.
        """
        return any(artifact.name.startswith(prefixes) for artifact in self._all)

    def sizes(self, jobs: Sequence[Job]) -> tuple[RunArtifact, ...]:
        """Those that are not ours, of each name the newest, by name.

        Args:
            jobs: of all attempts: only the time of an artifact tells in which it was uploaded.

        Raises:
            GitHubError: GitHub did not say which artifacts there are.
        """
        newest = {
            artifact.name: RunArtifact(artifact.name, artifact.size_in_bytes)
            for artifact in sorted(self._listed, key=lambda artifact: artifact.id)
            if not artifact.name.startswith(OURS)
            and self._includes(
                attempt_at(jobs, artifact.created_at) if artifact.created_at else None
            )
        }
        return tuple(newest[name] for name in sorted(newest))

    def records(self, logs: ProcessLogs | None = None) -> ReadInputs:
        """Read all records of the run.

        Args:
            logs: reads what the processes printed.

        Raises:
            GitHubError: GitHub did not say which artifacts there are.
        """
        wanted = sorted(
            (one for one in self._all if one.name.startswith(RECORD)),
            key=lambda one: (one.name, one.id),
        )
        # Two of one name may be two legs: what they hold must not seem to be of one folder.
        names = _distinct_names(wanted)
        taking = _FileCollector(
            names, lambda _, file: is_record_file(file), self.max_file_bytes, logs
        )
        problems = self._fetch(wanted, names, taking.add_archive)
        files = [(f"{names[at]}/{file}", content) for at, file, content in taking.files]
        records = read_records(
            [one for one in files if one[0].endswith(".jsonl")],
            [one for one in files if not one[0].endswith(".jsonl")],
        )
        if logs is not None:
            records = logs.added_to(records)
        missing = "" if wanted else f"run {self.run_id} has no records among its artifacts"
        problems = sorted([*problems, *taking.problems])
        return ReadInputs(records, missing=missing, problems=tuple(problems))

    def result_files(self, patterns: Sequence[Pattern]) -> ReadInputs:
        """Result files by their path: the artifact's name is its first folder.

        Each attempt has its own artifact of a name, and nothing but its time tells of which it is.

        Raises:
            InputError: all of them have expired.
            GitHubError: GitHub did not say which artifacts there are, or when jobs ran.
        """
        named = ", ".join(one.text for one in patterns)
        matching = [
            one for one in self._listed if any(each.may_match_below(one.name) for each in patterns)
        ]
        if not matching:
            return ReadInputs(missing=self._no_artifact(named))
        if all(one.expired for one in matching):
            what = f"{count_of(len(matching), 'artifact')} of --results {named:.200}, all expired"
            fix = "judge the run before they expire, or raise `retention-days` of their upload"
            raise InputError(what, where=f"run {self.run_id}", fix=fix)
        attempts = self._attempts(matching)
        wanted = [one for one in matching if one.id in attempts]
        names = _distinct_names(wanted)

        def match(position: int, file: str) -> Location | None:
            path = f"{wanted[position].name}/{file}"
            return next((found for one in patterns if (found := one.match(path))), None)

        taking = _FileCollector(
            names, lambda at, file: match(at, file) is not None, self.max_file_bytes
        )
        problems = self._fetch(wanted, names, taking.add_archive)
        results = tuple(
            ResultFile(f"{names[at]}/{file}", content, **location, attempt=attempts[wanted[at].id])
            for at, file, content in sorted(taking.files)
            if (location := match(at, file))
        )
        problems = sorted([*problems, *taking.problems])
        missing = ""
        if not results and not problems:
            where = f"{count_of(len(wanted), 'artifact')} of run {self.run_id}"
            there = f"; {one_line(taking.other_file)} is there" if taking.other_file else ""
            missing = f"--results: no file in {where} is called {named:.200}{there}"
        return ReadInputs(results=results, missing=missing, problems=tuple(problems))

    def _no_artifact(self, named: str) -> str:
        """What is said where no artifact has a name that fits, with the names that there are."""
        names = sorted({artifact.name for artifact in self._listed})
        known = f"it has {one_line(', '.join(names), 300)}" if names else "it has none"
        what = f"--results {named:.200}: no artifact of run {self.run_id} has such a name; {known}"
        return f"{what} (the first folder of the path is the artifact's name)"

    def _attempts(self, artifacts: Sequence[Artifact]) -> dict[int, int | None]:
        """The attempt of each artifact that counts, by id: of one attempt the newest of a name.

        Nobody knows which job uploaded it. After "re-run all jobs", what an earlier attempt left
        must not stand for a job that died since.
        """
        jobs = RunClient(self.github, self.repository, self.run_id).jobs()
        oldest = oldest_counting_attempt(job for job in jobs if self._includes(job.run_attempt))
        newest: dict[tuple[str, int | None], int] = {}
        for artifact in sorted(artifacts, key=lambda artifact: artifact.id):
            attempt = (
                attempt_at(jobs, artifact.created_at) if artifact.created_at is not None else None
            )
            if self._includes(attempt) and (attempt is None or attempt >= oldest):
                newest[artifact.name, attempt] = artifact.id
        return {identity: attempt for (_, attempt), identity in newest.items()}

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
        listed = self._newest(f"{CONFIRMATION}{self.run_id}-")
        if not listed:
            return None
        artifact = max(listed, key=lambda one: one.id)
        fix = "pass it by --confirmation FILE"
        content = self._file(artifact, CONFIRMATION_FILE, fix, ONE_FILE_LIMITS)
        return content, f"{artifact.name}/{CONFIRMATION_FILE}"

    def _newest(self, prefix: str) -> list[Artifact]:
        """Those of the newest attempt that left any."""
        artifacts = [artifact for artifact in self._all if artifact.name.startswith(prefix)]
        newest = max((attempt_of(artifact.name) or 0 for artifact in artifacts), default=0)
        return [artifact for artifact in artifacts if (attempt_of(artifact.name) or 0) == newest]

    def _file(self, artifact: Artifact, file: str, fix: str, limits: Limits) -> bytes:
        """One file of an artifact."""
        where = f"run {self.run_id}"
        copy = self._copy(artifact)
        try:
            if copy is not None:
                found = list(
                    members(copy, artifact.name, limits, is_wanted=lambda one: one == file)
                )
            else:
                found = download(
                    self.github,
                    self.repository,
                    artifact,
                    limits,
                    lambda one: one == file,
                    keep=self.keep,
                )
        except GitHubError as error:
            what, status = f"{artifact.name}: {_why(error)}", error.status
            raise GitHubError(
                what, where=where, fix=fix, status=status, wait_s=error.wait_s
            ) from error
        if not found:
            raise InputError(f"no {file} in it", where=f"{where}: {artifact.name}", fix=fix)
        return found[0][1]

    def _copy(self, artifact: Artifact) -> IO[bytes] | None:
        if self.stored is None or not artifact.expired:
            return None
        return self.stored(artifact)

    def _fetch(
        self,
        artifacts: Sequence[Artifact],
        names: Sequence[str],
        on_archive: Callable[[int, IO[bytes]], None],
    ) -> list[str]:
        """Hand each archive to `on_archive`; what cannot be had, and why."""
        problems = []
        for position, artifact in enumerate(artifacts):
            copy = self._copy(artifact)
            if copy is not None:
                on_archive(position, copy)
            elif artifact.expired:
                problems.append(f"{names[position]}: {EXPIRED}")
        available = [
            position for position, artifact in enumerate(artifacts) if not artifact.expired
        ]
        base = f"/repos/{self.repository}/actions/artifacts"
        paths = [(f"{base}/{artifacts[at].id}/zip", _digest(artifacts[at])) for at in available]

        def arrive(position: int, stream: IO[bytes]) -> None:
            at = available[position]
            if self.keep is not None:
                self.keep(artifacts[at], stream)
                stream.seek(0)
            on_archive(at, stream)

        lost = self.github.download_all(
            paths,
            arrive,
            max_bytes=MAX_ARCHIVE_BYTES,
            budget=Budget(MAX_BYTES),
        )
        for position, error in sorted(lost.items()):
            problems.append(f"{names[available[position]]}: {_why(error)}")
        return problems


def _why(error: GitHubError) -> str:
    return EXPIRED if error.status == HTTPStatus.GONE else error.what


def download(
    github: GitHub,
    repository: str,
    artifact: Artifact,
    limits: Limits,
    is_wanted: Callable[[str], bool],
    *,
    keep: Callable[[Artifact, IO[bytes]], None] | None = None,
) -> list[tuple[str, bytes]]:
    """The wanted files of one artifact, by their name in it.

    Args:
        keep: is handed the archive before it is read.

    Raises:
        GitHubError: it cannot be had.
        InputError: it is no archive that an honest upload makes.
    """
    files: list[tuple[str, bytes]] = []

    def on_archive(_: int, stream: IO[bytes]) -> None:
        if keep is not None:
            keep(artifact, stream)
            stream.seek(0)
        files.extend(members(stream, artifact.name, limits, is_wanted=is_wanted))

    if artifact.expired:
        raise GitHubError(EXPIRED, status=HTTPStatus.GONE)
    path = f"/repos/{repository}/actions/artifacts/{artifact.id}/zip"
    lost = github.download_all(
        [(path, _digest(artifact))],
        on_archive,
        max_bytes=MAX_ARCHIVE_BYTES,
        budget=Budget(MAX_ARCHIVE_BYTES),
    )
    for error in lost.values():
        raise error
    return files


@dataclass(slots=True)
class _FileCollector:
    """The wanted files of archives that arrive in any order.

    Attributes:
        names: of the archives, by position.
        is_wanted: says by an archive's position and a file's name in it whether it is read.
        logs: reads what processes printed, which is not kept.
        files: position, name and content.
        other_file: with its archive; one that is not wanted, as an example.
    """

    names: Sequence[str]
    is_wanted: Callable[[int, str], bool]
    remaining_bytes: int
    logs: ProcessLogs | None = None
    files: list[tuple[int, str, bytes]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    other_file: str = ""
    remaining_members: int = LIMITS.members

    def add_archive(self, position: int, stream: IO[bytes]) -> None:
        """Read an archive, or remember why not; of one that is refused nothing is kept."""
        source = self.names[position]

        def is_wanted(file: str) -> bool:
            wanted = self.is_wanted(position, file)
            self.other_file = self.other_file or ("" if wanted else f"{source}/{file}")
            return wanted

        limits = replace(LIMITS, bytes=self.remaining_bytes, members=self.remaining_members)
        try:
            files = list(members(stream, source, limits, is_wanted=is_wanted))
            if self.logs is not None:
                for file, content in members(stream, source, LIMITS, is_wanted=is_process_log):
                    self.logs.add(f"{source}/{file}", io.BytesIO(content))
        except InputError as error:
            self.problems.append(f"{error.where}: {error.what}")
            return
        self.remaining_bytes -= sum(len(content) for _, content in files)
        self.remaining_members -= len(files)
        self.files += [(position, name, content) for name, content in files]


def _distinct_names(artifacts: Sequence[Artifact]) -> list[str]:
    """The names, with the id where two have one name."""
    twice = Counter(artifact.name for artifact in artifacts)
    return [
        artifact.name if twice[artifact.name] == 1 else f"{artifact.name}.{artifact.id}"
        for artifact in artifacts
    ]


def is_record_file(name: str) -> bool:
    """Say whether a file of an artifact is a record, or belongs to one."""
    return name.endswith(".jsonl") or result_file_location(name) is not None


def _digest(artifact: Artifact) -> str:
    known = artifact.digest or ""
    return known if known.startswith("sha256:") else ""


def attempt_of(name: str) -> int | None:
    """The run attempt that an artifact's name ends with; None where it names none."""
    match = _ATTEMPT.search(name)
    return int(match[1]) if match else None
