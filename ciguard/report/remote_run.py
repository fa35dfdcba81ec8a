"""The judgement of a run from outside of its jobs, only by GitHub's API, as the service needs it.

Configuration, policy and quarantine come from the contents API, for a pull request from its base.
Plan and records are artifacts of the run. The report is the same as that of `ciguard report`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Final

from ciguard.codec.coverage_file import NO_COVERAGE
from ciguard.config import file as configuration
from ciguard.config.file import Config
from ciguard.errors import CiguardError, InputError, RemoteError
from ciguard.github.api_errors import GitHubError
from ciguard.github.client import GitHub
from ciguard.github.contents import CommitTree
from ciguard.github.events import ActionsRun
from ciguard.github.run_client import RunClient
from ciguard.guard.evaluation import EvaluationOptions, PastRuns
from ciguard.guard.policy import RunContext
from ciguard.report.judging import judge
from ciguard.report.view import Report
from ciguard.sources.artifacts import PLAN, RECORD, RunArtifacts
from ciguard.sources.inputs import RunInputs, SubjectRun
from ciguard.sources.local import ReadInputs
from ciguard.sources.repository_files import ContentsFiles

OWN_WORD: Final = b"ciguard"  # a workflow whose file has this word is judged


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """A run that has ended, with a client that may read its repository.

    Attributes:
        run: the result of `run_client.actions_run`.
        workflow_path: path of the workflow's file.
        today: the date that decides which quarantines have ended.
        warn: shows a problem that does not prevent a verdict.
    """

    github: GitHub
    run: ActionsRun
    workflow_path: str
    today: date
    warn: Callable[[str], None]

    @property
    def artifacts(self) -> RunArtifacts:
        """The artifacts of this attempt and those before it."""
        run = self.run
        assert run.run_id is not None
        return RunArtifacts(self.github, run.repository, run.run_id, run.run_attempt)


@dataclass(frozen=True, slots=True)
class RemoteReport:
    """The report of a run, and the configuration of its tree; None if that is unreadable."""

    report: Report
    config: Config | None = None


def judge_remote(remote: RemoteRun, past: PastRuns, artifacts: RunArtifacts) -> RemoteReport | None:
    """Judge the run; None if its workflow does not call ciguard.

    Args:
        past: the history; that of the configuration does not count.
        artifacts: those of the run, listed once.

    Raises:
        RemoteError: GitHub, the archives or the history could not be read or written.
    """
    if not artifacts.has_any((PLAN, RECORD)) and not _calls_ciguard(remote):
        return None
    run, github = remote.run, remote.github
    assert run.run_id is not None
    files = ContentsFiles(github, run.repository, run.tested_sha or run.head_sha or "")
    try:
        config = configuration.parse(files.own(configuration.FILES), {})
        context = RunContext(run, config, files, {}, remote.today, remote.warn, is_remote=True)
        try:
            plan = artifacts.plan()
        except InputError as error:
            return RemoteReport(Report.without_plan(error), config)
        recorded = artifacts.records(configuration.process_log_reader(config))
        source = RunClient(github, run.repository, run.run_id, run.run_attempt)
        subject = SubjectRun(run.run_id, run.run_attempt, source, artifacts=artifacts)
        read = ReadInputs(recorded.records, problems=recorded.problems)
        inputs = RunInputs(plan, read, subject)
        coverage = artifacts.coverage() or (NO_COVERAGE if config.coverage.format else None)
        report = judge(
            context,
            inputs,
            past,
            EvaluationOptions(coverage=coverage),
            open_github=lambda: contextlib.nullcontext(github),
        )
        return RemoteReport(report, config)
    except RemoteError:  # of GitHub, the archives or the history: the caller tries again
        raise
    except CiguardError as error:
        return RemoteReport(Report.of_error(error))


def _calls_ciguard(remote: RemoteRun) -> bool:
    """Return whether the workflow names ciguard: then a run without artifacts lost its plan."""
    run = remote.run
    if not remote.workflow_path or not run.head_sha:
        return False
    try:
        tree = CommitTree(remote.github, run.repository, run.head_sha)
        content = tree.content(remote.workflow_path)
    except GitHubError as error:
        if error.status == 404:  # noqa: PLR2004 - removed, or of a required workflow elsewhere
            return False
        raise
    return OWN_WORD in content
