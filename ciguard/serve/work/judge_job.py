"""The job of one row of the work list: fetch a run, judge it, store results, publish the comment.

Each step may be repeated, because a worker may die after any step: objects are stored once, results
are written once for each verdict, rows are replaced, and a comment is found and edited. The row is
marked as done after all steps.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import IO, Any, Final

from prometheus_client import Gauge, Histogram
from sqlalchemy.engine import Connection

from ciguard.culprit.answer import Answer, read_answer
from ciguard.errors import InputError, RemoteError
from ciguard.github.api_errors import GitHubError
from ciguard.github.client import GitHub
from ciguard.github.events import ActionsRun
from ciguard.github.models import Artifact, WorkflowRun
from ciguard.github.repository_ref import RepositoryRef
from ciguard.github.run_client import actions_run, branch_distance, pull_of_run, pushed_runs
from ciguard.guard.evaluation import PastRuns
from ciguard.guard.github_facts import select_of_run
from ciguard.history.ingest import RunMetadata
from ciguard.history.stores import LoadedHistory, load
from ciguard.render.pages import RunRow
from ciguard.report.judging import count_commits
from ciguard.report.publish import Channels, publish
from ciguard.report.remote_run import RemoteReport, RemoteRun, judge_remote
from ciguard.report.view import ReportData
from ciguard.serve import raw_archives, stored_answers
from ciguard.serve.history_objects import ObjectHistory, update_history
from ciguard.serve.object_cache import DamagedObject
from ciguard.serve.objects import AlreadyStored
from ciguard.serve.raw_archives import ARCHIVE_BYTES, FILE_BYTES
from ciguard.serve.results.compaction import Compactor, replace_other_rows
from ciguard.serve.results.rows import RunResults, run_results
from ciguard.serve.results.writer import ResultsWriter
from ciguard.serve.service import Service
from ciguard.serve.state import notices, repositories, run_rows, work_list
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.work_list import MAX_TRIES, Work
from ciguard.serve.work.run_summary import owners_of_failed, run_facts, run_row, suite_rows
from ciguard.serve.work.worker import NotDue
from ciguard.sources.artifacts import CULPRIT, RunArtifacts
from ciguard.sources.repository_files import ContentsFiles
from ciguard.text import count_of

_LOG: Final = logging.getLogger(__name__)
NOT_COMPARED: Final = "the run is not compared"
MISSING_TRIES: Final = 4  # after which a run that GitHub does not have counts as deleted
JUDGING_S: Final = Histogram("ciguard_judging_seconds", "Time to judge a run attempt.")
REMAINING_CALLS: Final = Gauge(
    "ciguard_github_remaining_calls", "Calls left in GitHub's rate limit.", ["installation"]
)
INCOMPLETE_WAIT_S: Final = 30.0  # until GitHub is asked again whether a run is completed


@dataclass(frozen=True, slots=True)
class JudgeJob:
    """The job of a worker; threads may share it."""

    service: Service
    results: ResultsWriter
    compactor: Compactor

    def __call__(self, work: Work, still_holds: Callable[[], bool]) -> None:
        """Judge a run and store its results; do nothing if the run or repository is deleted.

        Raises:
            NotDue: GitHub has not completed the run.
            CiguardError: a step failed; another try may succeed.
        """
        service, key = self.service, work.key
        with service.database.read() as connection:
            repository = repositories.get(connection, key.repository_id)
        if repository is None:
            return
        with service.github.client(repository.installation_id) as github, JUDGING_S.time():
            finished = _finished(github, repository, key, work.tries)
            if finished is not None:
                _Judging(self, github, repository, work, finished, still_holds).run()
            if (remaining := github.remaining_calls) is not None:
                REMAINING_CALLS.labels(repository.installation_id or "token").set(remaining)


def _finished(
    github: GitHub, repository: Repository, key: RunKey, tries: int
) -> WorkflowRun | None:
    """Return the attempt from GitHub; None if it was deleted."""
    path = f"/repos/{repository.full_name}/actions/runs/{key.run_id}/attempts/{key.run_attempt}"
    try:
        run = github.item(WorkflowRun, path)
    except GitHubError as error:
        # After a webhook, a replica of GitHub may not have the run yet: try a few times.
        if error.status == HTTPStatus.NOT_FOUND and tries > MISSING_TRIES:
            return None
        raise
    if run.status != "completed":
        what = f"GitHub says {run.status}, and not completed"
        raise NotDue(what, wait_s=INCOMPLETE_WAIT_S, where=f"run {key.run_id}")
    return run


@dataclass(frozen=True, slots=True)
class _Judging:
    job: JudgeJob
    github: GitHub
    repository: Repository
    work: Work
    finished: WorkflowRun
    still_holds: Callable[[], bool]

    @property
    def service(self) -> Service:
        return self.job.service

    @property
    def key(self) -> RunKey:
        return self.work.key

    def run(self) -> None:
        settings, name = self.service.settings, self.repository.full_name
        repository_ref = RepositoryRef(name, settings.server_url, settings.api_url)
        pull = pull_of_run(self.github, name, self.finished)
        run = actions_run(repository_ref, self.finished, pull, self.repository.default_branch)
        if run.is_base_branch and not self._is_pushed(run.branch or ""):
            run = replace(run, branch=None)  # it enters no history
        today = datetime.now(UTC).date()
        remote = RemoteRun(self.github, run, self.finished.path, today, self._warn)
        artifacts = replace(
            remote.artifacts,
            keep=self._store_archive,
            stored=self._find_stored(),
            max_file_bytes=FILE_BYTES,
        )
        judged = judge_remote(remote, PastRuns(self._load_history), artifacts)
        is_worse = judged is not None and judged.report.needs_attention
        culprits = self._read_culprits(artifacts) if is_worse and run.is_base_branch else None
        if self.github.transient_errors and self.work.tries < MAX_TRIES:
            # Unlike a job, the service can wait until GitHub answers all requests.
            raise self.github.transient_errors[0]
        if not (self.still_holds() and self._record(run, judged, culprits)) or judged is None:
            return
        if self.work.source != "backfill" and (pull is None or pull.state == "open"):
            self._publish(run, judged)

    def _is_pushed(self, branch: str) -> bool:
        """Return whether a branch started the run: no tag of its name, nor a removed commit."""
        distance = branch_distance(self.github, self.repository.full_name, branch)
        distances = {self.key.run_id: distance(self.finished.head_sha)}
        if distances[self.key.run_id]:  # GitHub is not asked for more at the tip
            with self.service.database.read() as connection:
                rows = run_rows.newest(connection, self.key.repository_id, is_base_branch=True)
            earlier = [row for row in rows if row.key.run_id < self.key.run_id]
            for row in sorted(earlier, key=lambda row: row.key.run_id)[-1:]:
                distances[row.key.run_id] = distance(row.head_sha)
        return self.key.run_id in pushed_runs(distances)

    def _load_history(self) -> LoadedHistory:
        """Load the service's own history; damage is an empty history, an outage raises."""
        service = self.service
        store = ObjectHistory(service.database, service.objects, self.key.repository_id)
        try:
            loaded = load(store)
        except (DamagedObject, InputError) as error:
            self._warn(str(error))
            problem = f"the history cannot be used: {error.what}; {NOT_COMPARED}"
            return LoadedHistory(None, problem=problem)
        if not loaded.exists:
            problem = f"there is no history yet: {NOT_COMPARED}"
            return LoadedHistory(None, problem=problem, is_new=True)
        return LoadedHistory(loaded.history)

    def _read_culprits(self, artifacts: RunArtifacts) -> Answer | None:
        """Return the answer of the run's search; the job that wrote it ran code of the project."""
        try:
            found = artifacts.named_file(CULPRIT, f"{CULPRIT}.json")
            return read_answer(*found) if found is not None else None
        except (GitHubError, InputError) as error:
            self._warn(str(error))
            return None

    def _warn(self, text: str) -> None:
        _LOG.warning("%s: %s", self.key, text)

    def _store_archive(self, artifact: Artifact, stream: IO[bytes]) -> None:
        """Store an archive unchanged, by its digest, to judge the run again."""
        key = self.key
        with self.service.database.read() as connection:
            stored = raw_archives.of_run(connection, key)
        size = stream.seek(0, io.SEEK_END)
        others = (archive.bytes for archive in stored if archive.name != artifact.name)
        if size + sum(others) > ARCHIVE_BYTES:
            reason = f"all artifacts of the run have more than {ARCHIVE_BYTES >> 20} MiB"
            self._warn(f"{artifact.name} is judged and not stored: {reason}")
            return
        stream.seek(0)
        raw_archives.store(self.service, key, artifact.name, stream.read())

    def _find_stored(self) -> Callable[[Artifact], IO[bytes] | None]:
        """Return the function that gives the stored copy of an artifact, or None for none.

        The first verdict comes from what the report job pushed. A run is judged again from GitHub's
        artifacts, as after `check --repair`, and from stored copies of those that have expired.
        """
        archive = raw_archives.load(self.service, self.key, raw_archives.PUSHED)
        pushed = raw_archives.read_pushed(archive) if archive else {}
        with self.service.database.read() as connection:
            is_first = run_rows.get(connection, self.key) is None

        def find(artifact: Artifact) -> IO[bytes] | None:
            content = pushed.get(artifact.name) if is_first or artifact.expired else None
            if artifact.expired:
                content = raw_archives.load(self.service, self.key, artifact.name) or content
            return io.BytesIO(content) if content is not None else None

        return find

    def _record(
        self, run: ActionsRun, judged: RemoteReport | None, culprits: Answer | None
    ) -> bool:
        """Store results, history and answer, then the rows, from which pages start.

        Return False, with no row written, if another worker has the run by then.
        """
        report = judged.report if judged is not None else None
        contents = report.contents if report is not None else None
        row = run_row(self.key, run, self.finished, report)
        results = 0
        if contents is not None and contents.plan.drill is None:
            records = select_of_run(contents.plan, contents.records, contents.platform).newest
            missing = [(unit.key, unit.shard) for unit in contents.verdict.missing]
            rows = run_results(self.key, row.started_at_ms, records, missing)
            self._write_results(rows)
            results = len(rows.rows)
            row = replace(row, cells=suite_rows(contents.verdict, rows.rows))
            if run.is_base_branch:
                keep = judged.config.metrics.keep if judged and judged.config else ()
                self._add_to_history(run, contents, keep)
        if report is not None:
            content = stored_answers.encode(stored_answers.answer_of(report))
            name = stored_answers.object_name(self.key, content)
            with contextlib.suppress(AlreadyStored):
                self.service.objects.put_new(name, content)
            facts = run_facts(contents, culprits) if contents is not None else {}
            row = replace(row, answer=name, facts={"red_since": self._red_since(row), **facts})
        with self.service.database.write() as connection:
            is_known = repositories.get(connection, self.key.repository_id) is not None
            if not is_known or not work_list.still_holds(connection, self.work):
                return False
            before = run_rows.get(connection, self.key)
            run_rows.record_run(connection, row)
            config = judged.config if judged is not None else None
            is_told = row.is_base_branch and self.work.source != "backfill"
            if is_told and contents is not None and config is not None and config.routes:
                affected = notices.affected_owners(owners_of_failed(contents), row)
                notices.record(connection, row, affected, config.routes, self._notice_content(row))
        if before is not None and before.answer not in ("", row.answer):
            self.service.objects.delete([before.answer])
        if report is not None:
            _LOG.info("%s: %s, with %s", self.key, row.verdict, count_of(results, "result"))
        return True

    def _red_since(self, row: RunRow) -> dict[str, Any] | None:
        """Return the first red run since the last green one of this workflow; None if not red."""
        if not (row.is_base_branch and row.is_red):
            return None
        with self.service.database.read() as connection:
            rows = run_rows.newest(
                connection, row.key.repository_id, is_base_branch=True, workflow=row.workflow
            )
        earlier = [past for past in rows if past.key < row.key]
        last = max(earlier, key=lambda past: past.key, default=None)
        if last is not None and last.is_red:
            return last.facts["red_since"] if last.facts else None
        green, sha = last.head_sha if last is not None else None, row.head_sha
        files = ContentsFiles(self.github, self.repository.full_name, sha)
        commits = count_commits(files, green, sha) if green else None
        return {"run_id": row.key.run_id, "sha": sha, "green_sha": green, "commits": commits}

    def _notice_content(self, row: RunRow) -> dict[str, Any]:
        settings, name = self.service.settings, self.repository.full_name
        page = f"{settings.public_url}/{name}/runs/{row.key.run_id}/{row.key.run_attempt}"
        on_github = f"{settings.server_url}/{name}/actions/runs/{row.key.run_id}"
        return {
            "repository": name,
            "branch": row.branch,
            "sha": row.head_sha,
            "headline": row.headline,
            "since": (row.facts or {}).get("red_since"),
            "url": page if settings.public_url else on_github,
        }

    def _write_results(self, results: RunResults) -> None:
        """Write the rows of the run, and remove those of an earlier verdict in one transaction."""

        def confirm(connection: Connection) -> None:
            if not work_list.still_holds(connection, self.work):
                raise RemoteError("another worker has this run", where=f"run {self.key.run_id}")

        job = self.job
        job.results.write([results])
        replace_other_rows(self.service.database, job.compactor, job.results, results, confirm)

    def _add_to_history(self, run: ActionsRun, contents: ReportData, keep: Sequence[str]) -> None:
        """Add a run of the base branch, unless its records contradict GitHub."""
        service = self.service
        facts = RunMetadata(branch=run.branch, event=run.event, at=self.finished.run_started_at)
        try:
            is_new = update_history(
                service.database,
                service.objects,
                self.key,
                plan=contents.plan,
                records=contents.records,
                facts=facts,
                keep=keep,
            )
        except InputError as error:
            self._warn(str(error))
            return
        if is_new and self.work.source == "backfill":
            with service.database.write() as connection:
                work_list.retry_uncompared(connection, self.key)

    def _publish(self, run: ActionsRun, judged: RemoteReport) -> None:
        """Publish the comment if the policy assigns it to the service."""
        contents, config = judged.report.contents, judged.config
        by = config.report.by if config is not None else "workflow"
        if (contents.policy.comment_by if contents is not None else by) != "service":
            return
        done = publish(
            self.github,
            run,
            judged.report,
            Channels(comment=True),
            author=self.service.github.author(),
        )
        for note in done.notes:
            self._warn(note)
        if done.exit_code:
            raise RemoteError("; ".join(done.notes), where=f"run {self.key.run_id}")
