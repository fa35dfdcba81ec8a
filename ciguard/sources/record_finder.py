"""Finds the records of a run by its reference: on the disk, or on GitHub.

All commands use it. References that a history can resolve are resolved by the commands before.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeVar

from ciguard.codec.results import result_patterns
from ciguard.codec.results.attach import records_of_results
from ciguard.errors import InputError, UsageError
from ciguard.git.checkout import remote_url
from ciguard.github.repository_ref import (
    RepositoryRef,
    required_token,
    resolve_repository,
    token_of,
)
from ciguard.model.jobs import Job, RunArtifact, last_attempts
from ciguard.sources import local
from ciguard.sources.references import JobId, PathReference, RunId, checked_repository

if TYPE_CHECKING:
    from ciguard.github.client import GitHub
    from ciguard.github.events import ActionsRun
    from ciguard.logs.process_logs import ProcessLogs
    from ciguard.model import Record
    from ciguard.sources.artifacts import RunArtifacts

T = TypeVar("T")

RECORD_SUFFIX: Final = ".jsonl"  # of a file; others have results
RESULT_SUFFIXES: Final = (".xml", ".trx", ".zip")  # in a folder; a name or a pattern may be of any
MAX_ANNOTATED: Final = 20  # jobs: each costs a call


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """The records of a run, and the facts about it that GitHub has.

    Attributes:
        from_result_files: the records were made of result files of other programs.
        problems: files that could not be downloaded or read.
        jobs: jobs by GitHub; empty if GitHub was not asked, or did not answer.
        annotations: annotations of cancelled jobs by name, for a run without our records.
        run_id, repository: of a run on GitHub; None of records on the disk.
        artifacts: artifacts of others; None if GitHub was not asked, or did not answer.
    """

    records: tuple[Record, ...]
    from_result_files: bool = False
    problems: tuple[str, ...] = ()
    jobs: tuple[Job, ...] = ()
    annotations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    run_id: int | None = None
    artifacts: tuple[RunArtifact, ...] | None = None
    repository: RepositoryRef | None = None

    @property
    def has_only_jobs(self) -> bool:
        """Return whether the run has jobs and uploaded no record."""
        return not self.records and bool(self.jobs)

    def damages(self) -> Iterator[str]:
        """Yield the damage of partly readable records: of each record the first of each kind."""
        for record in self.records:
            yield from _summarize(record.damage)
            absent = [event.detail for event in record.events if event.kind == "unreadable_metric"]
            for text in _summarize(absent):
                yield f"a metric that is no number is absent: {text}"


def _summarize(texts: Sequence[str]) -> Iterator[str]:
    """Yield the first text with the number of the others; nothing without texts."""
    more = len(texts) - 1
    for text in texts[:1]:
        yield f"{text} and {more} more" if more else text


class RecordFinder:
    """Finds records below a folder and, with a token, on GitHub.

    Args:
        repository: `owner/name`; None for that of the current run, otherwise of the checkout's
            `origin`.
        results: patterns of result files, which replace the records on GitHub.
        logs: makes a reader of process logs; None reads no logs.

    Raises:
        UsageError: the repository or a pattern is malformed.
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
        """Return whether a bare run id can be looked up on GitHub."""
        return bool(token_of(self._environ) and self._repository_ref is not None)

    @cached_property
    def _repository_ref(self) -> RepositoryRef | None:
        """Return the repository of bare run ids; None if no source names it."""
        try:
            return self._resolve_repository()
        except UsageError:
            return None

    def _resolve_repository(self, reference: RunId | None = None) -> RepositoryRef:
        remote = remote_url(self._folder, self._environ)
        name = reference.repository if reference is not None else ""
        server = reference.server if reference is not None else ""
        return resolve_repository(
            self._environ, repository=name or self._given_repository, server=server, remote=remote
        )

    def exists(self, text: str) -> bool:
        """Return whether a path exists; False for an invalid name."""
        try:
            return (self._folder / text).exists()
        except (OSError, ValueError):
            return False

    def current_run(self) -> ActionsRun | None:
        """Return the run that this process is part of, if any."""
        # Here and below: pydantic and httpx take 0.2 s, which a comparison of files saves.
        from ciguard.github.events import current_run  # noqa: PLC0415

        return current_run(self._environ)

    def current(self, where: str) -> ActionsRun:
        """Return the run that this process is part of.

        Raises:
            UsageError: the process is not part of a run of GitHub Actions.
        """
        run = self.current_run()
        if run is None or run.run_id is None:
            fix = "name the run by its id, its address or the folder of its records"
            raise UsageError("this is not a run of GitHub Actions", where=where, fix=fix)
        return run

    def on_disk(self, reference: PathReference) -> FoundRecords:
        """Read records, or result files, that a path or a pattern names.

        Raises:
            InputError: no such record or result file exists.
        """
        root = self._folder / reference.text
        if not reference.wild and (root.is_dir() or root.suffix == RECORD_SUFFIX):
            logs = self._logs() if self._logs is not None else None
            records = local.read_record_tree(root, logs)
            if records or not root.is_dir():
                return FoundRecords(records, problems=tuple(logs.problems) if logs else ())
        results = tuple(self._results(reference))
        if not results:
            what = "no such file" if reference.wild else "no record and no result file is there"
            fix = "name a folder of records, or result files, such as 'results/*.json'"
            raise InputError(what, where=reference.text, fix=fix)
        return FoundRecords(records_of_results(results, reference.text), from_result_files=True)

    def _results(self, reference: PathReference) -> Iterator[result_patterns.ResultFile]:
        root = self._folder / reference.text
        items: Iterable[Path] = [root]
        if reference.wild:
            try:
                yield from local.read_result_files(self._folder, [reference.text])
                return
            except UsageError:  # the pattern names no shard, which is not needed here
                begin = Path(root.anchor) if Path(reference.text).is_absolute() else self._folder
                items = begin.glob(reference.text.removeprefix(root.anchor))
        elif root.is_dir():
            items = (item for item in root.rglob("*") if item.suffix in RESULT_SUFFIXES)
        checkout = f"{self._folder.resolve().as_posix()}/"
        for item in sorted(items):
            if stat.S_ISREG(item.lstat().st_mode):
                yield result_patterns.ResultFile(item.name, local.read(item), "", root=checkout)

    def on_github(self, reference: RunId, where: str) -> FoundRecords:
        """Download the records and the jobs of a run; only jobs if it uploaded no record.

        Raises:
            UsageError: no repository is named, or no token is set.
            GitHubError: GitHub refused, or did not answer.
            InputError: no record can be read, or the run has neither records nor jobs.
        """
        from ciguard.github.api_errors import GitHubError  # noqa: PLC0415
        from ciguard.github.run_client import RunClient  # noqa: PLC0415
        from ciguard.sources.artifacts import RunArtifacts  # noqa: PLC0415

        repository_ref = self._resolve_repository(reference)
        repository = repository_ref.repository
        with self.github(repository_ref, where) as github:
            run_id, attempt = reference.run_id, reference.run_attempt
            artifacts = RunArtifacts(github, repository, run_id, attempt)
            inputs = self._records(artifacts, where)
            sizes: tuple[RunArtifact, ...] | None = None
            jobs: tuple[Job, ...] = ()
            annotations: dict[str, tuple[str, ...]] = {}
            problems = inputs.problems
            try:
                client = RunClient(github, repository, run_id)
                all_jobs = client.jobs()
                jobs = tuple(
                    job for job in all_jobs if attempt is None or job.run_attempt <= attempt
                )
                sizes = artifacts.sizes(all_jobs)
                if self._patterns or inputs.missing:
                    last = chain(*last_attempts(jobs).values())
                    cancelled = [job for job in last if job.conclusion == "cancelled"]
                    for job in cancelled[:MAX_ANNOTATED]:
                        annotations[job.name] = client.annotations(job)
            except GitHubError as error:
                what = "why jobs were cancelled" if jobs else "its jobs"
                problems = (*problems, f"run {run_id}: not known: {what}: {error.what}")
        if not inputs.records and not (inputs.missing and jobs):
            what = f"run {reference.run_id} of {repository} has no record among its artifacts"
            fix = "each job with `ciguard run` uploads one; name result files instead"
            raise InputError("; ".join([what, *problems]), where=where, fix=fix)
        return FoundRecords(
            *(inputs.records, bool(self._patterns), problems, jobs, annotations, run_id, sizes),
            repository=repository_ref,
        )

    def _records(self, artifacts: RunArtifacts, where: str) -> local.ReadInputs:
        """Read the records; with patterns, make records of the result files that match."""
        if not self._patterns:
            logs = self._logs() if self._logs is not None else None
            inputs = artifacts.records(logs)
            return replace(inputs, problems=(*inputs.problems, *(logs.problems if logs else ())))
        inputs = artifacts.result_files(self._patterns)
        if not inputs.results:
            what = "; ".join(filter(None, (inputs.missing, *inputs.problems)))
            raise InputError(what, where=where, fix="name files that its jobs uploaded")
        files = result_patterns.newest_attempts(inputs.results)
        records = records_of_results(files, f"run {artifacts.run_id}")
        return local.ReadInputs(records, problems=inputs.problems)

    def github(self, repository_ref: RepositoryRef, where: str) -> GitHub:
        """Return a client, which the caller closes.

        Raises:
            UsageError: no token is set.
        """
        from pydantic import SecretStr  # noqa: PLC0415

        from ciguard.github.client import GitHub  # noqa: PLC0415

        token = required_token(self._environ, where)
        return GitHub(repository_ref.api_url, SecretStr(token))

    def job_log(self, job: JobId, where: str, read: Callable[[IO[bytes] | None, Job], T]) -> T:
        """Return the result of `read` for the log of a job, as `read_job_logs`.

        Raises:
            UsageError: no token is set.
            GitHubError: GitHub does not know the job, or did not answer.
            InputError: the job has not ended, so that its log is incomplete.
        """
        from ciguard.github.models import RunJob  # noqa: PLC0415
        from ciguard.github.run_client import as_job, read_job_logs  # noqa: PLC0415

        repository_ref = self._resolve_repository(RunId(1, None, job.repository, job.server))
        with self.github(repository_ref, where) as github:
            run_job = github.item(RunJob, f"/repos/{job.repository}/actions/jobs/{job.job_id}")
            if run_job.status != "completed":
                fix = "wait until the job has ended"
                raise InputError(f"the job is {run_job.status}", where=where, fix=fix)
            return read_job_logs(github, job.repository, [as_job(run_job)], read)[0]

    def job_logs(
        self, run: FoundRecords, jobs: Sequence[Job], read: Callable[[IO[bytes] | None, Job], T]
    ) -> list[T]:
        """Return the results of `read` for logs of a run of GitHub; raise as `read_job_logs`."""
        from ciguard.github.run_client import read_job_logs  # noqa: PLC0415

        assert run.repository is not None
        with self.github(run.repository, f"the logs of run {run.run_id}") as github:
            return read_job_logs(github, run.repository.repository, jobs, read)

    def ancestor_query(self) -> Callable[[str, str], frozenset[str]] | None:
        """Return a function that asks GitHub for the commits between two; None without GitHub."""
        repository_ref = self._repository_ref
        if repository_ref is None or not token_of(self._environ):
            return None

        def ask(old: str, new: str) -> frozenset[str]:
            from ciguard.github.run_client import known_ancestors  # noqa: PLC0415

            with self.github(repository_ref, "commits") as github:
                return known_ancestors(github, repository_ref.repository, old, new)

        return ask

    def newest_of(self, branch: str, where: str) -> RunId:
        """Return the newest run of a commit that is on a branch now, of a push if there is one.

        Only runs that passed or failed count; in Actions only those of the current workflow.

        Raises:
            UsageError, GitHubError: as `on_github`.
            InputError: the branch has no such run.
        """
        from ciguard.github.events import BASE_EVENTS  # noqa: PLC0415
        from ciguard.github.run_client import runs_of_base  # noqa: PLC0415

        this_run = self.current_run()
        workflow = this_run.workflow if this_run is not None else ""
        workflow = workflow if workflow.endswith((".yml", ".yaml")) else ""
        repository_ref = self._resolve_repository()
        repository = repository_ref.repository
        with self.github(repository_ref, where) as github:
            given = (github, repository, branch, BASE_EVENTS)
            runs = runs_of_base(*given, run=this_run, workflow=workflow)
        if not runs:
            of = f" of {workflow}" if workflow else ""
            what = f"no finished run{of} of a commit that is on branch {branch}"
            raise InputError(what, where=where, fix="name a run by its id")
        return RunId(runs[0].id, None, repository)
