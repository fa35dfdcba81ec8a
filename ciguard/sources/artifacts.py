"""Plan, records and result files of a run, read from the artifacts of its jobs into memory.

A pull request decides the content of its artifacts: `codec.archive` reads each archive within
limits or refuses it, and a refused archive does not affect the others. Archives are stored only in
temporary files without a name.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Final

from ciguard.codec import coverage_file
from ciguard.codec import plan_file as plan_codec
from ciguard.codec.archive import members
from ciguard.codec.record.reader import read_records, result_file_location
from ciguard.codec.results.result_patterns import Location, Pattern, ResultFile
from ciguard.codec.unpack_limits import ArchiveLimits
from ciguard.errors import InputError
from ciguard.github.api_errors import GitHubError
from ciguard.github.downloads import Budget
from ciguard.github.run_client import RunClient
from ciguard.logs.process_logs import ProcessLogs, is_process_log
from ciguard.model.jobs import Job, RunArtifact, attempt_at, oldest_counting_attempt
from ciguard.sources.local import ReadInputs
from ciguard.text import count_of, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ciguard.codec.coverage_file import Coverage
    from ciguard.github.client import GitHub
    from ciguard.github.models import Artifact
    from ciguard.model import Plan, Record


PLAN: Final = "ciguard-plan-"
RECORD: Final = "ciguard-record-"
CONFIRMATION: Final = "ciguard-confirmation-"
COVERAGE: Final = "ciguard-coverage-"
CULPRIT: Final = "ciguard-culprit"
OURS: Final = "ciguard-"
PLAN_FILE: Final = "plan.json"
CONFIRMATION_FILE: Final = "ciguard-confirmation.json"
COVERAGE_FILE: Final = "ciguard-coverage.json"
MAX_ARCHIVE_BYTES: Final = 1 << 28
MAX_BYTES: Final = 1 << 31  # of all archives; a repeated download counts again
LIMITS: Final = ArchiveLimits()  # of all archives together, unpacked
ONE_FILE_LIMITS: Final = ArchiveLimits(members=10, bytes=1 << 24)
EXPIRED: Final = "it has expired: GitHub keeps artifacts for 90 days, or as the repository sets"
_ATTEMPT: Final = re.compile(r"-(\d{1,9})(?:-checkpoint-\d{1,9})?$")


@dataclass(frozen=True)
class RunArtifacts:
    """The artifacts of a run, listed once: a call per 100, and one for each archive that is read.

    Attributes:
        repository: `owner/name`.
        attempt: artifacts of later run attempts are left out; None for all. Records of earlier
            attempts are read too, because jobs that did not run again have no others.
        keep: receives each downloaded archive before it is read, if not None.
        stored: returns a copy of an archive, which is then not downloaded, or None for none. It is
            asked for expired archives, too. None without stored copies.
        max_file_bytes: limit of all files that are read from the archives into memory.
        max_archive_bytes: size from which an artifact is no artifact of results.
    """

    github: GitHub
    repository: str
    run_id: int
    attempt: int | None = None
    keep: Callable[[Artifact, IO[bytes]], None] | None = None
    stored: Callable[[Artifact], IO[bytes] | None] | None = None
    max_file_bytes: int = LIMITS.bytes
    max_archive_bytes: int = MAX_ARCHIVE_BYTES

    @cached_property
    def _listed(self) -> tuple[Artifact, ...]:
        artifacts = RunClient(self.github, self.repository, self.run_id).artifacts()
        # A list that grows while it is read shows an artifact twice.
        return tuple({artifact.id: artifact for artifact in artifacts}.values())

    @cached_property
    def _all(self) -> tuple[Artifact, ...]:
        """Return artifacts up to `attempt`; a number after another's name may be no attempt."""
        return tuple(
            artifact for artifact in self._listed if self._includes(attempt_of(artifact.name))
        )

    def _includes(self, attempt: int | None) -> bool:
        return self.attempt is None or attempt is None or attempt <= self.attempt

    def has_any(self, prefixes: tuple[str, ...]) -> bool:
        """Return whether the name of an artifact begins with one of the prefixes.

        Raises:
            GitHubError: GitHub did not list the artifacts.
        """
        return any(artifact.name.startswith(prefixes) for artifact in self._all)

    def sizes(self, jobs: Sequence[Job]) -> tuple[RunArtifact, ...]:
        """Return the artifacts of others, the newest of each name, by name.

        Args:
            jobs: jobs of all attempts, whose times give the attempt of an artifact.

        Raises:
            GitHubError: GitHub did not list the artifacts.
        """
        newest = {
            artifact.name: RunArtifact(artifact.name, artifact.size_in_bytes)
            for artifact in sorted(self._listed, key=lambda artifact: artifact.id)
            if not artifact.name.startswith(OURS)
            and self._includes(_uploading_attempt(jobs, artifact))
        }
        return tuple(newest[name] for name in sorted(newest))

    def records(self, logs: ProcessLogs | None = None) -> ReadInputs:
        """Read all records of the run.

        Args:
            logs: reads the logs of the processes.

        Raises:
            GitHubError: GitHub did not list the artifacts.
        """
        artifacts = sorted(
            (artifact for artifact in self._all if artifact.name.startswith(RECORD)),
            key=lambda artifact: (artifact.name, artifact.id),
        )
        collector = self._collect(
            artifacts,
            lambda _, file: file.endswith(".jsonl") or result_file_location(file) is not None,
            logs,
        )
        names = collector.names
        records = _records_of_files(
            [(f"{names[position]}/{file}", content) for position, file, content in collector.files]
        )
        if logs is not None:
            records = logs.add_metrics(records)
        missing = "" if artifacts else f"run {self.run_id} has no records among its artifacts"
        return ReadInputs(records, missing=missing, problems=tuple(sorted(collector.problems)))

    def result_files(self, patterns: Sequence[Pattern]) -> ReadInputs:
        """Read result files; the first folder of a file's path is the name of its artifact.

        Each run attempt has its own artifacts, whose attempt follows from their times only.

        Raises:
            InputError: all matching artifacts have expired.
            GitHubError: GitHub did not list the artifacts, or the jobs with their times.
        """
        named = ", ".join(pattern.text for pattern in patterns)
        matching = [
            artifact
            for artifact in self._listed
            if any(pattern.may_match_below(artifact.name) for pattern in patterns)
            and not artifact.name.startswith(OURS)
        ]
        # `**/*.xml` also fits builds and the like; of a plan, the shard then has no record.
        large = [each for each in matching if each.size_in_bytes > self.max_archive_bytes]
        matching = [artifact for artifact in matching if artifact not in large]
        if not matching:
            return ReadInputs(missing=self._no_artifact(named))
        if all(artifact.expired for artifact in matching):
            what = f"{count_of(len(matching), 'artifact')} of --results {named:.200}, all expired"
            fix = "judge the run before they expire, or raise `retention-days` of their upload"
            raise InputError(what, where=f"run {self.run_id}", fix=fix)
        attempts = self._attempts(matching)
        artifacts = [artifact for artifact in matching if artifact.id in attempts]

        def match(position: int, file: str) -> Location | None:
            path = f"{artifacts[position].name}/{file}"
            return next((found for pattern in patterns if (found := pattern.match(path))), None)

        collector = self._collect(artifacts, lambda at, file: match(at, file) is not None)
        results = tuple(
            ResultFile(
                f"{collector.names[position]}/{file}",
                content,
                **location,
                attempt=attempts[artifacts[position].id],
            )
            for position, file, content in sorted(collector.files)
            if (location := match(position, file))
        )
        missing = ""
        if not results and not collector.problems:
            where = f"{count_of(len(artifacts), 'artifact')} of run {self.run_id}"
            other = f"; {one_line(collector.other_file)} is there" if collector.other_file else ""
            missing = f"--results: no file in {where} is called {named:.200}{other}"
        problems = tuple(sorted(collector.problems))
        left_out = tuple(sorted(artifact.name for artifact in large))
        return ReadInputs((), results, missing, problems, left_out)

    def _no_artifact(self, named: str) -> str:
        """Return the message for patterns that match no artifact, with the existing names."""
        names = sorted({artifact.name for artifact in self._listed})
        known = f"it has {one_line(', '.join(names), 300)}" if names else "it has none"
        what = f"--results {named:.200}: no artifact of run {self.run_id} has such a name; {known}"
        return f"{what} (the first folder of the path is the artifact's name)"

    def _attempts(self, artifacts: Sequence[Artifact]) -> dict[int, int | None]:
        """Map the id of each artifact that counts to its attempt: the newest of name and attempt.

        The job that uploaded an artifact is unknown. After "Re-run all jobs", artifacts of earlier
        attempts do not count: they must not hide a job that died in the last attempt.
        """
        jobs = RunClient(self.github, self.repository, self.run_id).jobs()
        oldest = oldest_counting_attempt(job for job in jobs if self._includes(job.run_attempt))
        newest: dict[tuple[str, int | None], int] = {}
        for artifact in sorted(artifacts, key=lambda artifact: artifact.id):
            attempt = _uploading_attempt(jobs, artifact)
            if self._includes(attempt) and (attempt is None or attempt >= oldest):
                newest[artifact.name, attempt] = artifact.id
        return {identity: attempt for (_, attempt), identity in newest.items()}

    def plan(self) -> Plan:
        """Read the plan of the newest attempt that has one.

        Raises:
            InputError: the attempt has no plan or several plans, or the plan is malformed.
            GitHubError: the plan cannot be downloaded.
        """
        plans = self._newest(PLAN)
        where, fix = f"run {self.run_id}", "pass it by --plan FILE"
        if len(plans) != 1:
            names = ", ".join(sorted(artifact.name for artifact in plans)[:3])
            what = (
                f"{len(plans)} plans ({names})" if plans else "it has no plan among its artifacts"
            )
            raise InputError(what, where=where, fix=fix)
        (artifact,) = plans
        content = self._file(artifact, PLAN_FILE, fix, LIMITS)
        return plan_codec.decode(content, f"{artifact.name}/{PLAN_FILE}")

    def confirmation(self) -> tuple[bytes, str] | None:
        """Read the results of the run's own re-runs of suspects, with their path; None without any.

        Raises:
            InputError: the archive is malformed.
            GitHubError: the archive cannot be downloaded.
        """
        listed = self._newest(f"{CONFIRMATION}{self.run_id}-")
        if not listed:
            return None
        artifact = max(listed, key=lambda artifact: artifact.id)
        fix = "pass it by --confirmation FILE"
        content = self._file(artifact, CONFIRMATION_FILE, fix, ONE_FILE_LIMITS)
        return content, f"{artifact.name}/{CONFIRMATION_FILE}"

    def coverage(self) -> Coverage | None:
        """Read the coverage that a job of the run has combined; None without any.

        Raises:
            InputError: the archive or the file is malformed.
            GitHubError: the archive cannot be downloaded.
        """
        found = self.named_file(f"{COVERAGE}{self.run_id}", COVERAGE_FILE)
        return coverage_file.decode(*found) if found is not None else None

    def named_file(self, name: str, file: str) -> tuple[bytes, str] | None:
        """Read a file of the last artifact of a name, with its path; raise as `coverage`."""
        listed = [artifact for artifact in self._listed if artifact.name == name]
        if not listed:
            return None
        artifact = max(listed, key=lambda artifact: artifact.id)
        content = self._file(artifact, file, "run its job again", ONE_FILE_LIMITS)
        return content, f"{name}/{file}"

    def _newest(self, prefix: str) -> list[Artifact]:
        """Return the artifacts with a prefix, of the newest attempt that has any."""
        artifacts = [artifact for artifact in self._all if artifact.name.startswith(prefix)]
        newest = max((attempt_of(artifact.name) or 0 for artifact in artifacts), default=0)
        return [artifact for artifact in artifacts if (attempt_of(artifact.name) or 0) == newest]

    def _file(self, artifact: Artifact, file: str, fix: str, limits: ArchiveLimits) -> bytes:
        where = f"run {self.run_id}"
        try:
            files = self.files(artifact, limits, lambda name: name == file)
        except GitHubError as error:
            what, status = f"{artifact.name}: {_reason(error)}", error.status
            raise GitHubError(
                what, where=where, fix=fix, status=status, wait_s=error.wait_s
            ) from error
        if not files:
            raise InputError(f"no {file} in it", where=f"{where}: {artifact.name}", fix=fix)
        return files[0][1]

    def _collect(
        self,
        artifacts: Sequence[Artifact],
        is_wanted: Callable[[int, str], bool],
        logs: ProcessLogs | None = None,
    ) -> _FileCollector:
        """Read the wanted files of archives, by the position of the archive and the file's name."""
        # Two artifacts of one name may be of two jobs, whose files must not share a folder.
        counts = Counter(artifact.name for artifact in artifacts)
        names = [
            artifact.name if counts[artifact.name] == 1 else f"{artifact.name}.{artifact.id}"
            for artifact in artifacts
        ]
        collector = _FileCollector(names, is_wanted, self.max_file_bytes, logs)
        errors = self._fetch(artifacts, collector.add_archive)
        collector.problems += [f"{names[at]}: {_reason(error)}" for at, error in errors.items()]
        return collector

    def files(
        self, artifact: Artifact, limits: ArchiveLimits, is_wanted: Callable[[str], bool]
    ) -> list[tuple[str, bytes]]:
        """Download the wanted files of one artifact; return names and contents.

        Raises:
            GitHubError: the archive cannot be downloaded.
            InputError: the archive is malformed.
        """
        files: list[tuple[str, bytes]] = []

        def on_archive(_: int, stream: IO[bytes]) -> None:
            files.extend(members(stream, artifact.name, limits, is_wanted=is_wanted))

        for error in self._fetch([artifact], on_archive).values():
            raise error
        return files

    def _fetch(
        self, artifacts: Sequence[Artifact], on_archive: Callable[[int, IO[bytes]], None]
    ) -> dict[int, GitHubError]:
        """Pass each archive to `on_archive`; return by position why the others are not there."""
        errors: dict[int, GitHubError] = {}
        available = []
        for position, artifact in enumerate(artifacts):
            copy = self.stored(artifact) if self.stored is not None else None
            if copy is not None:
                on_archive(position, copy)
            elif artifact.expired:
                errors[position] = GitHubError(EXPIRED, status=HTTPStatus.GONE)
            else:
                available.append(position)
        base = f"/repos/{self.repository}/actions/artifacts"
        paths = [(f"{base}/{artifacts[i].id}/zip", _digest(artifacts[i])) for i in available]

        def on_download(index: int, stream: IO[bytes]) -> None:
            position = available[index]
            if self.keep is not None:
                self.keep(artifacts[position], stream)
                stream.seek(0)
            on_archive(position, stream)

        refused = self.github.download_all(
            paths, on_download, max_bytes=MAX_ARCHIVE_BYTES, budget=Budget(MAX_BYTES)
        )
        return errors | {available[index]: error for index, error in refused.items()}


def _reason(error: GitHubError) -> str:
    return EXPIRED if error.status == HTTPStatus.GONE else error.what


@dataclass(slots=True)
class _FileCollector:
    """Collects the wanted files of archives, which arrive in any order.

    Attributes:
        names: names of the archives, by position.
        is_wanted: decides by the position of the archive and the name of a file whether to read it.
        logs: reads the logs of processes, which are not collected.
        files: position, name and content of each file.
        other_file: path of a file that is not wanted, as an example.
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
        """Read an archive; of a refused archive, add only the problem."""
        source = self.names[position]

        def is_wanted(file: str) -> bool:
            is_file_wanted = self.is_wanted(position, file)
            self.other_file = self.other_file or ("" if is_file_wanted else f"{source}/{file}")
            return is_file_wanted

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


def _records_of_files(files: Iterable[tuple[str, bytes]]) -> tuple[Record, ...]:
    """Read records from their files: names, and contents of `*.jsonl` and of result files."""
    lines: list[tuple[str, bytes]] = []
    results: list[tuple[str, bytes]] = []
    for name, content in files:
        (lines if name.endswith(".jsonl") else results).append((name, content))
    return read_records(lines, results)


def _uploading_attempt(jobs: Sequence[Job], artifact: Artifact) -> int | None:
    return attempt_at(jobs, artifact.created_at) if artifact.created_at is not None else None


def _digest(artifact: Artifact) -> str:
    digest = artifact.digest or ""
    return digest if digest.startswith("sha256:") else ""


def attempt_of(name: str) -> int | None:
    """Return the run attempt at the end of an artifact's name; None if the name has none."""
    match = _ATTEMPT.search(name)
    return int(match[1]) if match else None
