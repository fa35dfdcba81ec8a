"""From what a person called a run to its records: the disk, or GitHub.

One door for all commands; what a run id is in a history is their own business.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeVar

from ciguard.codec.results import result_patterns
from ciguard.codec.results.attach import records_of_results
from ciguard.errors import InputError, UsageError
from ciguard.git.checkout import remote_url
from ciguard.github.repository_ref import RepositoryRef as OnGitHub
from ciguard.github.repository_ref import resolve_repository
from ciguard.sources import local
from ciguard.sources.references import JobId, PathReference, RunId, checked_repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ciguard.github.client import GitHub
    from ciguard.github.events import ActionsRun
    from ciguard.logs.process_logs import ProcessLogs
    from ciguard.model import Record
    from ciguard.model.jobs import Job, RunArtifact
    from ciguard.sources.artifacts import RunArtifacts
    from ciguard.sources.job_logs import JobLog

T = TypeVar("T")

RESULT_SUFFIXES: Final = (".xml", ".trx", ".zip")  # in a folder; a pattern may name any
MAX_ANNOTATED: Final = 20
TOKEN_FIX: Final = "set GITHUB_TOKEN, with actions: read for the repository"


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """What there is of a run.

    Attributes:
        from_result_files: the records were made of other programs' result files.
        problems: what of it could not be had or read.
        jobs: as GitHub knows them; empty where it was not asked, or did not say.
        annotations: by name, what GitHub says of cancelled jobs, of a run without records of ours.
        artifacts: other than ours; None where GitHub was not asked, or did not say.
    """

    records: tuple[Record, ...]
    from_result_files: bool = False
    problems: tuple[str, ...] = ()
    jobs: tuple[Job, ...] = ()
    annotations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    run_id: int | None = None  # of GitHub
    artifacts: tuple[RunArtifact, ...] | None = None

    @property
    def has_only_jobs(self) -> bool:
        """Say that the run uploaded no record at all."""
        return not self.records and bool(self.jobs)

    def damages(self) -> Iterator[str]:
        """What is wrong with records that can be read in part, the first of each and kind."""
        for record in self.records:
            yield from _first_of(record.damage)
            absent = [event.detail for event in record.events if event.kind == "unreadable_metric"]
            for text in _first_of(absent):
                yield f"a metric that is no number is absent: {text}"


def _first_of(texts: Sequence[str]) -> Iterator[str]:
    more = len(texts) - 1
    for text in texts[:1]:
        yield f"{text} and {more} more" if more else text


class RecordFinder:
    """Finds records below a folder and, with a token, on GitHub.

    Args:
        repository: `owner/name`; None for the one that this process is part of, else the one that
            the checkout around the folder comes from.
        results: patterns of result files, which are read in the place of records on GitHub.
        logs: makes what reads the logs of a record's processes; None reads none.

    Raises:
        UsageError: the repository or a pattern cannot be meant.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        folder: Path,
        repository: str | None,
        results: Sequence[str] = (),
        logs: Callable[[], ProcessLogs] | None = None,
    ) -> None:
        self._patterns = tuple(map(result_patterns.pattern, results))
        self._environ = environ
        self._logs = logs
        self._folder = folder
        if repository is not None:
            checked_repository(repository, "--repo")
        self._given_repository = repository or ""

    @property
    def can_query_github(self) -> bool:
        """Say that GitHub can be asked of a run id that nothing else is known of."""
        return bool(self._token and self._repository_ref is not None)

    @cached_property
    def _repository_ref(self) -> OnGitHub | None:
        """Where a run id is looked for; None where nobody says."""
        try:
            return self._resolve_repository()
        except UsageError:
            return None

    def _resolve_repository(self, reference: RunId | None = None) -> OnGitHub:
        remote = remote_url(self._folder, self._environ)
        named = reference.repository if reference is not None else ""
        server = reference.server if reference is not None else ""
        return resolve_repository(
            self._environ, repository=named or self._given_repository, server=server, remote=remote
        )

    @property
    def _token(self) -> str:
        return self._environ.get("GITHUB_TOKEN") or self._environ.get("GH_TOKEN") or ""

    def exists(self, text: str) -> bool:
        """Say whether a path is there; a name that no file can have is none."""
        try:
            return (self._folder / text).exists()
        except (OSError, ValueError):
            return False

    def current_run(self) -> ActionsRun | None:
        """The run that this process is part of, if any."""
        # Here and below: pydantic and httpx cost 0.2 s that a comparison of files need not pay.
        from ciguard.github.events import current_run  # noqa: PLC0415

        return current_run(self._environ)

    def current(self, where: str) -> ActionsRun:
        """The run that this process is part of.

        Raises:
            UsageError: it is part of none.
        """
        run = self.current_run()
        if run is None or run.run_id is None:
            fix = "name the run by its id, its address or the folder of its records"
            raise UsageError("this is no run of GitHub Actions", where=where, fix=fix)
        return run

    def on_disk(self, reference: PathReference) -> FoundRecords:
        """Records, or result files, that a path or a pattern names.

        Raises:
            InputError: nothing is there.
        """
        root = self._folder / reference.text
        if not reference.wild and (root.is_dir() or root.suffix not in RESULT_SUFFIXES):
            logs = self._logs() if self._logs is not None else None
            records = local.read_record_tree(root, logs)
            if records or not root.is_dir():
                return FoundRecords(records, problems=tuple(logs.problems) if logs else ())
        results = tuple(self._results(reference))
        if not results:
            what = "no such file" if reference.wild else "no record and no result file is there"
            fix = "name a folder of records, or result files such as JUnit XML or TRX"
            raise InputError(what, where=reference.text, fix=fix)
        return FoundRecords(records_of_results(results, reference.text), from_result_files=True)

    def _results(self, reference: PathReference) -> Iterator[result_patterns.ResultFile]:
        root = self._folder / reference.text
        if reference.wild:
            try:
                yield from local.read_result_files(self._folder, [reference.text])
            except UsageError:  # nothing of it says a shard, and nobody needs one here
                begin = Path(root.anchor) if Path(reference.text).is_absolute() else self._folder
                inside = reference.text.removeprefix(root.anchor)
                for item in sorted(begin.glob(inside)):
                    yield from self._plain(item)
        elif root.is_dir():
            for item in sorted(root.rglob("*")):
                if item.suffix in RESULT_SUFFIXES:
                    yield from self._plain(item)
        else:
            yield from self._plain(root)

    def _plain(self, item: Path) -> Iterator[result_patterns.ResultFile]:
        if stat.S_ISREG(item.lstat().st_mode):
            yield result_patterns.ResultFile(item.name, local.read(item), shard="")

    def on_github(self, reference: RunId, where: str) -> FoundRecords:
        """A run's records, downloaded, and its jobs; of a run that uploaded no record its jobs.

        Raises:
            UsageError: nobody said of which repository, or there is no token.
            GitHubError: GitHub refused, or did not answer.
            InputError: no record of it can be had, or neither records nor jobs.
        """
        from ciguard.github.api_errors import GitHubError  # noqa: PLC0415
        from ciguard.github.run_client import RunClient  # noqa: PLC0415
        from ciguard.sources.artifacts import RunArtifacts  # noqa: PLC0415

        place = self._resolve_repository(reference)
        repository = place.repository
        with self.github(place, where) as github:
            run_id, attempt = reference.run_id, reference.run_attempt
            artifacts = RunArtifacts(github, repository, run_id, attempt)
            found = self._records(artifacts, where)
            sizes: tuple[RunArtifact, ...] | None = None
            jobs: tuple[Job, ...] = ()
            annotations: dict[str, tuple[str, ...]] = {}
            problems = found.problems
            try:
                client = RunClient(github, repository, run_id)
                of_all_attempts = client.jobs()
                jobs = tuple(
                    job for job in of_all_attempts if attempt is None or job.run_attempt <= attempt
                )
                sizes = artifacts.sizes(of_all_attempts)
                if self._patterns or found.missing:
                    for job in _cancelled(jobs):
                        annotations[job.name] = client.annotations(job)
            except GitHubError as error:
                what = "why jobs were cancelled" if jobs else "its jobs"
                problems = (*problems, f"run {run_id}: not known: {what}: {error.what}")
        if not found.records and not (found.missing and jobs):
            what = f"run {reference.run_id} of {repository} has no record among its artifacts"
            fix = "legs of `ciguard run` upload one each; name result files instead"
            raise InputError("; ".join([what, *problems]), where=where, fix=fix)
        return FoundRecords(
            found.records, bool(self._patterns), problems, jobs, annotations, run_id, sizes
        )

    def _records(self, artifacts: RunArtifacts, where: str) -> local.ReadInputs:
        """Read the records, or make them of the result files that are asked for."""
        if not self._patterns:
            logs = self._logs() if self._logs is not None else None
            read = artifacts.records(logs)
            return replace(read, problems=(*read.problems, *(logs.problems if logs else ())))
        found = artifacts.result_files(self._patterns)
        if not found.results:
            what = "; ".join(filter(None, (found.missing, *found.problems)))
            raise InputError(what, where=where, fix="name files that its jobs uploaded")
        files = result_patterns.newest_attempts(found.results)
        records = records_of_results(files, f"run {artifacts.run_id}")
        return local.ReadInputs(records, problems=found.problems)

    def github(self, repository_ref: OnGitHub, where: str) -> GitHub:
        """A client; whoever takes it closes it.

        Raises:
            UsageError: there is no token.
        """
        from pydantic import SecretStr  # noqa: PLC0415

        from ciguard.github.client import GitHub  # noqa: PLC0415

        if not self._token:
            raise UsageError("there is no token for GitHub", where=where, fix=TOKEN_FIX)
        return GitHub(repository_ref.api_url, SecretStr(self._token))

    def job_log(self, job: JobId, where: str, read: Callable[[IO[bytes] | None, JobLog], T]) -> T:
        """What `read` makes of the log of a job.

        Raises:
            UsageError: there is no token.
            GitHubError: GitHub does not know the job, or did not answer.
            InputError: the job has not ended.
        """
        from ciguard.sources.job_logs import read_job_log  # noqa: PLC0415

        place = self._resolve_repository(RunId(1, None, job.repository, job.server))
        with self.github(place, where) as github:
            return read_job_log(github, job, where, read)

    def ancestor_query(self) -> Callable[[str, str], frozenset[str]] | None:
        """Asks GitHub for the commits between two; None where it cannot be asked."""
        place = self._repository_ref
        if place is None or not self._token:
            return None

        def ask(old: str, new: str) -> frozenset[str]:
            from ciguard.github.run_client import known_ancestors  # noqa: PLC0415

            with self.github(place, "commits") as github:
                return known_ancestors(github, place.repository, old, new)

        return ask

    def newest_of(self, branch: str, where: str) -> RunId:
        """The newest run of a branch that is done, of the workflow around us where there is one.

        Raises:
            UsageError, GitHubError: as of `on_github`.
            InputError: there is none.
        """
        from ciguard.github.run_client import finished_runs  # noqa: PLC0415

        this_run = self.current_run()
        workflow = this_run.workflow if this_run is not None and _is_file(this_run.workflow) else ""
        place = self._resolve_repository()
        with self.github(place, where) as github:
            runs = finished_runs(github, place.repository, workflow=workflow, branch=branch)
        own = [run for run in runs if run.event not in ("pull_request", "pull_request_target")]
        newest = max(own, key=lambda run: run.id, default=None)
        if newest is None:
            of = f" of {workflow}" if workflow else ""
            what = f"no run{of} on branch {branch} that is done"
            raise InputError(what, where=where, fix="name a run by its id")
        return RunId(newest.id, None, place.repository)


def _cancelled(jobs: tuple[Job, ...]) -> list[Job]:
    """The jobs of the last attempt that were cancelled, as many as are worth a call each."""
    last = {job.name: job for job in sorted(jobs, key=lambda job: job.run_attempt)}
    return [job for job in last.values() if job.conclusion == "cancelled"][:MAX_ANNOTATED]


def _is_file(workflow: str) -> bool:
    return workflow.endswith((".yml", ".yaml"))
