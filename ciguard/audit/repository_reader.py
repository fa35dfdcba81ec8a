"""Reads a repository's workflows and past runs from GitHub, in a bounded number of calls.

The newest runs are read first, each completely. The data of a run that ended is cached, so that an
interrupted audit continues without asking again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import SecretStr

from ciguard import console
from ciguard.audit.declared_jobs import DeclaredJobs, test_workflows
from ciguard.audit.repository_runs import (
    FOLDER,
    PastRun,
    RepositoryRuns,
    Unread,
    What,
    bad_jobs,
    is_evident,
    is_run_wide,
    read_workflow,
)
from ciguard.audit.rules.base import WorkflowFile
from ciguard.errors import InputError, NothingToDo
from ciguard.github.api_errors import Forbidden, GitHubError
from ciguard.github.capabilities import repository_facts, required_checks
from ciguard.github.client import GitHub
from ciguard.github.contents import CommitTree
from ciguard.github.models import RunJob, WorkflowRun
from ciguard.github.repository_ref import RepositoryRef
from ciguard.github.response_cache import CacheFolder, CallBudget, CallLimitReached, ResponseCache
from ciguard.github.run_client import RunClient, as_job, completed_runs
from ciguard.model.jobs import Job
from ciguard.sources.inputs import RETRY_POLICY, TIMEOUT_S

T = TypeVar("T")

MAX_CALLS: Final = 300  # of the 1,000 an hour that a job's own token has
MAX_ANNOTATED: Final = 4  # jobs of a run whose annotations are read


def read_runs(
    environ: Mapping[str, str],
    reference: RepositoryRef,
    token: str,
    *,
    workflow: str,
    runs: int,
    files: tuple[WorkflowFile, ...] = (),
) -> RepositoryRuns:
    """Read a repository and its past runs.

    Args:
        workflow: name of a workflow file; "" for all that run tests.
        runs: read at most.
        files: of a checkout; without one, those of the default branch are read.

    Raises:
        GitHubError, InputError, NothingToDo: the repository, or its workflow, cannot be read.
    """
    cache, calls = CacheFolder(_cache_folder(environ, reference)), CallBudget(MAX_CALLS)
    with GitHub(
        reference.api_url,
        SecretStr(token),
        retry_policy=RETRY_POLICY,
        timeout_s=TIMEOUT_S,
        cache=ResponseCache(cache),
        calls=calls,
    ) as github:
        read = RepositoryReader(github, reference, workflow, runs, cache, calls).read(files)
    console.err(f"GitHub: {read.calls:,} of {calls.limit:,} calls")
    return read


def _cache_folder(environ: Mapping[str, str], reference: RepositoryRef) -> Path | None:
    """Return the cache folder of a repository; None if the environment names none."""
    home = environ.get("HOME")
    base = environ.get("XDG_CACHE_HOME") or environ.get("LOCALAPPDATA")
    base = base or (f"{home}/.cache" if home else "")
    host = (urlsplit(reference.server_url).hostname or "").replace(":", "_")
    return Path(base, "ciguard", "audit", host, *reference.repository.split("/")) if base else None


@dataclass(slots=True)
class RepositoryReader:
    """Reads the data that the rules need.

    Attributes:
        wanted: name or path of a workflow file; "" for all that run tests.
        max_runs: shared by the workflows.
        cache: data of runs that ended.
        calls: the budget by which `github` counts its requests.
    """

    github: GitHub
    reference: RepositoryRef
    wanted: str
    max_runs: int
    cache: CacheFolder
    calls: CallBudget
    unread: list[Unread] = field(default_factory=list)
    refused: dict[What, GitHubError] = field(default_factory=dict)
    fatal_error: GitHubError | None = None  # after it, no request is made

    @property
    def repository(self) -> str:
        return self.reference.repository

    def read(self, files: tuple[WorkflowFile, ...] = ()) -> RepositoryRuns:
        """Read the repository; `files` of a checkout replace those of the default branch.

        Raises:
            GitHubError: the repository cannot be read.
            NothingToDo: the repository has no workflow.
            InputError: the repository does not have the wanted workflow.
        """
        branch = repository_facts(self.github, self.repository).default_branch or ""
        workflows = files or self.workflows(branch)
        required = self.ask(
            "required_checks", lambda: required_checks(self.github, self.repository, branch)
        )
        if required is None:
            self.miss("required_checks", 0, 1)
        chosen = test_workflows(workflows)
        if self.wanted:
            chosen = (f"{FOLDER}/{PurePosixPath(self.wanted).name}",)
        runs = self.runs(chosen)
        error = self.fatal_error
        if not runs and error is not None and not isinstance(error, CallLimitReached):
            raise error
        jobs, annotations = self.jobs(runs, DeclaredJobs(workflows))
        return RepositoryRuns(
            name=self.repository,
            url=f"{self.reference.server_url}/{self.repository}",
            branch=branch,
            workflows=workflows,
            test_workflows=chosen,
            required_checks=required,
            runs=runs,
            jobs=jobs,
            annotations=annotations,
            unread=tuple(self.unread),
            calls=self.calls.used,
        )

    def ask(self, what: What, call: Callable[[], T]) -> T | None:
        """Return the answer to a request; None after a refusal of this kind or a fatal error."""
        if self.fatal_error is not None or what in self.refused:
            return None
        try:
            return call()
        except GitHubError as error:
            if isinstance(error, Forbidden):
                self.refused[what] = error
            elif error.is_lasting:
                self.fatal_error = error
            return None

    def miss(self, what: What, read: int, total: int, detail: str = "") -> None:
        """Record that only `read` of `total` items were read, and why."""
        error = self.fatal_error or self.refused.get(what)
        if isinstance(error, CallLimitReached):
            self.unread.append(Unread(what, "call_limit", read, total, detail))
        else:
            detail = detail or (error.what[:200] if error is not None else "")
            self.unread.append(Unread(what, "refused", read, total, detail))

    def workflows(self, branch: str) -> tuple[WorkflowFile, ...]:
        """Read the workflow files of the branch.

        Raises:
            NothingToDo, InputError, GitHubError: there is no workflow, or not the chosen one.
        """
        where = f"{self.repository}/{FOLDER}"
        try:
            kinds = CommitTree(self.github, self.repository, branch).listing(FOLDER)
        except GitHubError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            kinds = {}
        names = sorted(name for name in kinds if name.endswith((".yml", ".yaml")))
        if not names:
            fix = "name a repository that uses GitHub Actions"
            raise NothingToDo("the default branch has no workflow", where=where, fix=fix)
        wanted = PurePosixPath(self.wanted).name
        if wanted and wanted not in names:
            fix = f"name one of: {', '.join(names[:20])}"
            raise InputError(f"no workflow {wanted!r}", where=where, fix=fix)
        # The wanted workflow may call any other.
        names.sort(key=lambda name: name != wanted)
        files = [self.workflow(f"{FOLDER}/{name}", branch) for name in names]
        workflows = tuple(file for file in files if file is not None)
        if self.fatal_error is not None:
            self.miss("workflows", len(workflows), len(names))
        return workflows

    def workflow(self, path: str, branch: str) -> WorkflowFile | None:
        tree = CommitTree(self.github, self.repository, branch)
        content = self.ask("workflows", lambda: tree.content(path))
        if content is None:
            return None
        read = read_workflow(path, content)
        if isinstance(read, Unread):
            self.unread.append(read)
            return None
        return read

    def runs(self, workflows: Sequence[str]) -> tuple[PastRun, ...]:
        """Read the newest runs, equally many of each workflow; return the newest first."""
        listed: list[list[PastRun]] = []
        for path in workflows:
            runs = self.ask("runs", lambda path=path: self.runs_of(path))  # type: ignore[misc]
            if runs is None:
                self.miss("runs", 0, self.max_runs, path)
            listed.append(runs or [])
        count = max(self.max_runs, len(workflows))  # at least the newest of each workflow
        # The newest run of each workflow, then the second newest of each, and so on.
        chosen = [run for rank in zip_longest(*listed) for run in rank if run is not None][:count]
        return tuple(sorted(chosen, key=lambda run: (run.created_at, run.id), reverse=True))

    def runs_of(self, path: str) -> list[PastRun]:
        name = PurePosixPath(path).name
        listed = completed_runs(self.github, self.repository, workflow=name, limit=self.max_runs)
        page = f"{self.reference.server_url}/{self.repository}/actions/runs"
        return [run for item in listed if (run := _past_run(item, path, page)) is not None]

    def jobs(
        self, runs: Sequence[PastRun], declared: DeclaredJobs
    ) -> tuple[dict[int, tuple[Job, ...]], dict[int, tuple[str, ...]]]:
        """Read the jobs, by run, and the annotations of unexplained jobs, by job."""
        jobs: dict[int, tuple[Job, ...]] = {}
        annotations: dict[int, tuple[str, ...]] = {}
        unexplained = 0
        with console.progress("runs", len(runs)) as advance:
            for run in runs:
                name = f"run-{run.id}-{run.attempt}"
                value = self.cache.get(name) or {}
                run_jobs = self.jobs_of(run, value)
                if run_jobs is not None:
                    jobs[run.id] = run_jobs
                    texts, is_complete = self.annotations_of(run, run_jobs, declared, value)
                    annotations |= texts
                    unexplained += not is_complete
                    self.cache.put(name, value)
                advance()
        if len(jobs) < len(runs):
            self.miss("jobs", len(jobs), len(runs))
        red = sum(run.is_red for run in runs if run.id in jobs)
        if unexplained:
            self.miss("annotations", red - unexplained, red)
        return jobs, annotations

    def jobs_of(self, run: PastRun, value: dict[str, Any]) -> tuple[Job, ...] | None:
        listed = value.get("jobs")
        if listed is None:
            client = RunClient(self.github, self.repository, run.id)
            answer = self.ask("jobs", client.listed_jobs)
            if answer is None:
                return None
            listed = value["jobs"] = [job.model_dump(mode="json") for job in answer]
        return tuple(as_job(RunJob.model_validate(item)) for item in listed)

    def annotations_of(
        self, run: PastRun, jobs: Sequence[Job], declared: DeclaredJobs, value: dict[str, Any]
    ) -> tuple[dict[int, tuple[str, ...]], bool]:
        """Read the annotations of jobs that no step explains, and return whether all were read.

        An annotation that explains all cancelled jobs of the run makes the others needless.
        """
        if not run.is_red and run.attempt == 1:
            return {}, True
        client = RunClient(self.github, self.repository, run.id)
        stored = value.setdefault("annotations", {})
        unexplained = [
            job
            for job in bad_jobs(jobs)
            if not is_evident(job, declared.find(run.workflow, job.name))
        ]
        annotations: dict[int, tuple[str, ...]] = {}
        for job in unexplained[:MAX_ANNOTATED]:
            texts = stored.get(str(job.id))
            if texts is None:
                texts = self.ask("annotations", lambda job=job: client.annotations(job))  # type: ignore[misc]
            if texts is None:
                return annotations, False
            annotations[job.id] = tuple(texts)
            stored[str(job.id)] = list(texts)
            if is_run_wide(texts):
                break
        return annotations, True


def _past_run(run: WorkflowRun, path: str, page: str) -> PastRun | None:
    """Return a run; None for a run without times, which only an event's payload has."""
    if run.created_at is None or run.conclusion is None:
        return None
    return PastRun(
        id=run.id,
        workflow=path,
        event=run.event,
        branch=run.head_branch or "",
        repository=run.repository,
        conclusion=run.conclusion,
        attempt=run.run_attempt,
        created_at=run.created_at,
        url=run.html_url or f"{page}/{run.id}",
    )
