"""Judges a run from outside of its repository's jobs: by a client for GitHub, and nothing else.

Configuration, policy and quarantine come by the contents API, of a pull request from its base;
plan and records are the artifacts of the run, but for a static plan, which its tree has. What
`ciguard report` says of the run is the same.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.codec import plan_file as plan_codec
from ciguard.config import file as configuration
from ciguard.errors import CiguardError, InputError, RemoteError
from ciguard.github.api_errors import GitHubError
from ciguard.github.contents import file_at
from ciguard.github.run_client import RunClient
from ciguard.guard.evaluation import EvaluationOptions, PastRuns
from ciguard.guard.policy import RunContext
from ciguard.report.judging import Judging, describe_error, judge, report_without_plan
from ciguard.report.view import NOT_EVALUATED, Report
from ciguard.sources.artifacts import PLAN, RECORD, RunArtifacts
from ciguard.sources.inputs import RunInputs, SubjectRun
from ciguard.sources.local import ReadInputs
from ciguard.sources.repository_files import ContentsFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from ciguard.config.file import Config
    from ciguard.github.client import GitHub
    from ciguard.github.events import ActionsRun
    from ciguard.model import Plan

OWN_WORD: Final = b"ciguard"  # in a workflow's file: it is one of those that we judge
STATIC_PLAN: Final = ".ciguard/plan.json"  # where `ciguard plan --static` keeps it
MAX_PLAN_BYTES: Final = 1 << 26  # 210 bytes a test


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """A run that has ended, with a client that may read its repository.

    Attributes:
        run: as `run_client.actions_run` gives it.
        workflow_path: of its workflow's file.
        today: on which quarantines end.
        warn: is handed what keeps no verdict away.
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
    """The report of a run, and the configuration of its tree; None where that could not be read."""

    report: Report
    config: Config | None = None


def judge_remote(remote: RemoteRun, past: PastRuns, artifacts: RunArtifacts) -> RemoteReport | None:
    """Judge the run; None for one that is not ours: of a workflow that does not call ciguard.

    Args:
        past: the history by which it is judged; that of the configuration does not count.
        artifacts: of the run, listed once.

    Raises:
        RemoteError: GitHub did not say what there is to judge, or what came cannot be kept.
    """
    if not artifacts.has_any((PLAN, RECORD)) and not _calls_ciguard(remote):
        return None
    run, github = remote.run, remote.github
    assert run.run_id is not None
    files = ContentsFiles(github, run.repository, run.tested_sha or run.head_sha or "")
    try:
        config = configuration.parse(files.own(configuration.FILES), {})
        context = RunContext(run, config, files, {}, remote.today, remote.warn, is_remote=True)
        is_uploaded = artifacts.has_any((PLAN,))
        plan = _plan(artifacts) if is_uploaded else _static_plan(artifacts, files)
        if isinstance(plan, InputError):
            return RemoteReport(report_without_plan(plan), config)
        found = artifacts.records(configuration.process_log_reader(config))
        source = RunClient(github, run.repository, run.run_id, run.run_attempt)
        subject = SubjectRun(run.run_id, run.run_attempt, source, artifacts=artifacts)
        read = ReadInputs(found.records, problems=found.problems)
        judging = Judging(
            inputs=RunInputs(plan, read, subject),
            jobs=None,
            past=past,
            options=EvaluationOptions(
                history=past.location, plan_path="" if is_uploaded else STATIC_PLAN
            ),
            open_github=lambda: contextlib.nullcontext(github),
        )
        return RemoteReport(judge(context, judging), config)
    except RemoteError:  # of GitHub, or of where archives and history are kept
        raise
    except CiguardError as error:
        why = describe_error(error)
        return RemoteReport(Report(None, int(error.exit_code), why, problem=NOT_EVALUATED))


def _plan(artifacts: RunArtifacts) -> Plan | InputError:
    try:
        return artifacts.plan()
    except InputError as error:
        return error


def _static_plan(artifacts: RunArtifacts, files: ContentsFiles) -> Plan | InputError:
    """The one of the judged tree; without one, what is said of a run without a plan."""
    content = files.by_git(files.sha, STATIC_PLAN, MAX_PLAN_BYTES)
    if content is None:
        return _plan(artifacts)
    try:
        return plan_codec.decode(content, STATIC_PLAN)
    except InputError as error:
        return error


def _calls_ciguard(remote: RemoteRun) -> bool:
    """Return whether its workflow has our name: then a run without artifacts lost its plan."""
    run = remote.run
    if not remote.workflow_path or not run.head_sha:
        return False
    try:
        content = file_at(remote.github, run.repository, run.head_sha, remote.workflow_path)
    except GitHubError as error:
        if error.status == 404:  # noqa: PLR2004 - removed, or of a required workflow elsewhere
            return False
        raise
    return OWN_WORD in content
