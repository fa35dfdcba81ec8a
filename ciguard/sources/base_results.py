"""Result files of the newest run of the base that has some, for a plan without a history.

A run costs three calls of GitHub's API, and one for each of its artifacts that may have results.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.codec.results.result_patterns import newest_attempts, pattern
from ciguard.codec.results.unplanned import may_be_of_results
from ciguard.errors import InputError
from ciguard.github.run_client import branch_distance, completed_runs
from ciguard.sources.artifacts import RunArtifacts

if TYPE_CHECKING:
    from ciguard.codec.results.result_patterns import ResultFile
    from ciguard.github.client import GitHub
    from ciguard.github.events import ActionsRun

PATTERNS: Final = (pattern("**/*.xml"), pattern("**/*.trx"))
MAX_LISTED: Final = 100  # runs, in one call
MAX_RUNS: Final = 10  # that are searched for results
MAX_FILE_BYTES: Final = 1 << 26  # unpacked
MAX_BYTES: Final = 1 << 23  # of an artifact; builds are larger, and the plan waits for them


def read_base_results(github: GitHub, run: ActionsRun) -> tuple[str, tuple[ResultFile, ...]]:
    """Return where the files are from, and those of the last attempt of each artifact, in order.

    Runs of the same workflow come before those of others.

    Raises:
        InputError: no run has results, or all have expired.
        GitHubError: GitHub did not list the runs or their artifacts.
    """
    branch = run.base_branch or ""
    listed = completed_runs(github, run.repository, branch=branch, limit=MAX_LISTED)
    # A branch of a fork may have the base's name, but its event is `pull_request`.
    pushed = [each for each in listed if each.event == "push" and each.conclusion != "cancelled"]
    pushed.sort(key=lambda each: (each.workflow != run.workflow, -each.id))
    distance = branch_distance(github, run.repository, branch)
    for past in (each for each in pushed[:MAX_RUNS] if distance(each.head_sha) is not None):
        artifacts = RunArtifacts(
            *(github, run.repository, past.id),
            max_archive_bytes=MAX_BYTES,
            max_file_bytes=MAX_FILE_BYTES,
        )
        files = newest_attempts(artifacts.result_files(PATTERNS).results)
        # A history of result files does not distinguish the attempts of a job.
        results = tuple(replace(file, attempt=None) for file in files if may_be_of_results(file))
        if results:
            return f"result files of run {past.id} of {branch}", results
    raise InputError(f"no result files in the artifacts of the last runs of {branch}")
