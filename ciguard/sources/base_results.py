"""Result files of the newest run of the base that has some, for a plan without a history.

A run costs three calls of GitHub's API, and one for each of its artifacts that may have results.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from ciguard.codec.results.result_patterns import newest_attempts, pattern
from ciguard.codec.results.unplanned import read_unplanned
from ciguard.errors import InputError
from ciguard.github.run_client import runs_of_base
from ciguard.sources.artifacts import RunArtifacts

if TYPE_CHECKING:
    from ciguard.github.client import GitHub
    from ciguard.github.events import ActionsRun
    from ciguard.model import Record

PATTERNS: Final = (pattern("**/*.xml"), pattern("**/*.trx"))
MAX_FILE_BYTES: Final = 1 << 26  # unpacked
MAX_BYTES: Final = 1 << 23  # of an artifact; builds are larger, and the plan waits for them


def read_base_results(github: GitHub, run: ActionsRun) -> tuple[str, list[tuple[Record, ...]]]:
    """Return where the results are from, and the records of each artifact, in order.

    Raises:
        InputError: no run has results that can be read.
        GitHubError: GitHub did not list the runs or their artifacts.
    """
    for past in runs_of_base(github, run.repository, run.base_branch or "", ("push",), run=run):
        artifacts = RunArtifacts(
            *(github, run.repository, past.id),
            max_archive_bytes=MAX_BYTES,
            max_file_bytes=MAX_FILE_BYTES,
        )
        with suppress(InputError):  # expired
            files = newest_attempts(artifacts.result_files(PATTERNS).results)
            # A history of result files does not distinguish the attempts of a job.
            single = [replace(file, attempt=None) for file in files]
            by_artifact = groupby(single, attrgetter("shard"))
            read = [records for _, own in by_artifact if (records := read_unplanned(own)[1])]
            if any(record.results for records in read for record in records):  # else damaged
                return f"result files of run {past.id} of {run.base_branch}", read
    raise InputError(f"no result files in the artifacts of the last runs of {run.base_branch}")
