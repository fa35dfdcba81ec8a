"""The steps of a job, by what they leave where others see it, and who is at them.

A step has come when something is there that was not there before: an object, a row, a request at
GitHub. No step is told of by the service itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import duckdb
import sqlalchemy as sa
from fakegithub.state import FakeGitHub, Request
from sqlalchemy.engine import Connection

from ciguard.serve.results.compaction import LANE as COMPACTION_LANE
from ciguard.serve.state import schema
from ciguard.serve.state.database import Database
from ciguard.serve.work.reconcile import LANE as RECONCILE_LANE

SERVICE_LANES: Final = frozenset({COMPACTION_LANE, RECONCILE_LANE})


class Step(StrEnum):
    """What was the last thing done when the process is killed."""

    RECONCILE = "GitHub is asked for runs"
    FETCH = "run asked for"
    DOWNLOAD = "artifact asked for"
    ARTIFACT_PUT = "artifact put"
    ARTIFACT_ROW = "artifact listed"
    RESULTS_PUT = "results put"
    MANIFEST = "results listed"
    HISTORY_PUT = "history put"
    HISTORY_ROW = "history listed"
    ANSWER = "answer put"
    RUN_ROW = "run listed"
    PUBLISH = "comment sent"
    PUBLISHED = "comment answered"
    FINISH = "work done"
    COMPACTION_PUT = "pair put"
    COMPACTED = "pair listed"
    DELIVERY = "delivery sent"
    DELIVERED = "delivery listed"


# Requests at GitHub: while one is held back, whoever sent it is killed.
REQUESTS: Final[Mapping[Step, re.Pattern[str]]] = {
    Step.RECONCILE: re.compile(r"GET /repos/.+/actions/runs"),
    Step.FETCH: re.compile(r"GET /repos/.+/actions/runs/(?P<run>\d+)/attempts/1"),
    Step.DOWNLOAD: re.compile(r"GET /repos/.+/actions/artifacts/(?P<artifact>\d+)/zip"),
    Step.PUBLISH: re.compile(r"(POST|PATCH) /repos/.+/issues/.*comments.*"),
}
OF_WEB: Final = frozenset({Step.DELIVERY, Step.DELIVERED})
OF_COMPACTOR: Final = frozenset({Step.COMPACTION_PUT, Step.COMPACTED})
_RUN, _WORK, _LANE = schema.run.c, schema.work.c, schema.lane.c


_MARKER: Final = re.compile(r"<!-- ciguard-run:(\d+)/1 -->")


def commented_runs(github: FakeGitHub) -> list[tuple[int, int]]:
    """Of each comment, which run it is of, and the pull request where it is."""
    with github.lock:
        texts = [(one["body"], one["issue_url"]) for one in github.comments.values()]
    found = [(_MARKER.search(body), url) for body, url in texts]
    return [(int(run[1]), int(url.rpartition("/")[2])) for run, url in found if run]


def _pid_of(worker: str) -> int:
    return int(worker.split(":")[-2])


def holders(connection: Connection) -> dict[int, int]:
    """By run that is being judged, the process that does."""
    query = sa.select(_WORK.run_id, _LANE.worker).join(schema.lane, _LANE.key == _WORK.lane)
    found = connection.execute(query.where(_WORK.state == "running"))
    return {run: _pid_of(worker) for run, worker in found}


def sender_of(
    github: FakeGitHub, step: Step, request: Request, connection: Connection
) -> int | None:
    if step is Step.RECONCILE:
        query = sa.select(_LANE.worker).where(_LANE.key == RECONCILE_LANE)
        worker = connection.execute(query).scalar_one_or_none()
        return _pid_of(worker) if worker else None
    found = REQUESTS[step].fullmatch(f"{request.method} {request.path}")
    assert found
    if step is Step.FETCH:
        run = int(found["run"])
    elif step is Step.DOWNLOAD:
        run = github.run_of_artifact[int(found["artifact"])]
    else:
        marker = _MARKER.search(json.loads(request.body)["body"])
        assert marker
        run = int(marker[1])
    return holders(connection).get(run)


def expire_leases(connection: Connection, pid: int) -> None:
    """Let the time pass that the leases of a dead process have.

    The compactor's has a name of no process: another one may begin beside it, which is allowed.
    """
    is_dead = sa.or_(_LANE.worker.contains(f":{pid}:"), _LANE.key == COMPACTION_LANE)
    connection.execute(sa.update(schema.lane).where(is_dead).values(until_ms=0))


@dataclass(frozen=True, slots=True)
class Traces:
    """What the steps have left so far, of a step at a time.

    Args:
        list_objects: names below a prefix.
        local_path: a copy of an object that DuckDB reads.
    """

    database: Database
    github: FakeGitHub
    list_objects: Callable[[str], Iterable[str]]
    local_path: Callable[[str], Path]

    def of(self, step: Step) -> frozenset[str]:
        """Everything that this step has left."""
        match step:
            case Step.ARTIFACT_PUT:
                return self._objects("artifacts")
            case Step.RESULTS_PUT:
                return self._objects("results/arrival")
            case Step.HISTORY_PUT:
                return self._objects("history")
            case Step.ANSWER:
                return self._objects("answers")
            case Step.COMPACTION_PUT:
                return self._objects("results/by_run")
            case Step.PUBLISHED:
                return frozenset(str(run) for run, _ in commented_runs(self.github))
            case _:
                return self._rows(_ROWS[step])

    def runs_of(self, step: Step, trace: str, connection: Connection) -> list[int]:
        """Whose it is; of a history whoever judges the base branch."""
        match step:
            case Step.RESULTS_PUT:
                query = "SELECT DISTINCT run_id FROM read_parquet(?)"
                found = duckdb.execute(query, [str(self.local_path(trace))]).fetchall()
                return [run for (run,) in found]
            case Step.HISTORY_PUT | Step.HISTORY_ROW:
                running = _WORK.state == "running"
                of_base = sa.select(_WORK.run_id).where(running, _WORK.lane.contains("/1:main/"))
                return list(connection.execute(of_base).scalars())
            case Step.ARTIFACT_PUT | Step.ANSWER:
                return [int(trace.split("/")[2].partition("-")[0])]
            case _:
                return [int(trace.partition(" ")[0])]

    def is_passed(self, step: Step, trace: str, run: int) -> bool:
        """Say whether the next step is done, too."""
        if step in (Step.RESULTS_PUT, Step.ARTIFACT_PUT, Step.HISTORY_PUT):
            listed = {
                Step.RESULTS_PUT: schema.file.c.name,
                Step.ARTIFACT_PUT: schema.artifact.c.object,
                Step.HISTORY_PUT: schema.history.c.object,
            }[step]
            return trace in self._rows(sa.select(listed))
        if step in (Step.MANIFEST, Step.HISTORY_ROW):
            answers = self._objects("answers")
            return any(name.startswith(f"answers/1/{run}-") for name in answers)
        after = {Step.ARTIFACT_ROW: Step.MANIFEST, Step.ANSWER: Step.RUN_ROW}
        after |= {Step.RUN_ROW: Step.FINISH, Step.PUBLISHED: Step.FINISH}
        return step in after and str(run) in self.of(after[step])

    def _objects(self, prefix: str) -> frozenset[str]:
        return frozenset(self.list_objects(prefix))

    def _rows(self, query: sa.Select[tuple[object]]) -> frozenset[str]:
        with self.database.read() as connection:
            return frozenset(map(str, connection.execute(query).scalars()))


_ARTIFACT: Final = schema.artifact.c
_ROWS: Final = {
    Step.ARTIFACT_ROW: sa.select(
        sa.cast(_ARTIFACT.run_id, sa.String).concat(" ").concat(_ARTIFACT.name)
    ),
    Step.MANIFEST: sa.select(schema.file_run.c.run_id),
    Step.HISTORY_ROW: sa.select(schema.history.c.object),
    Step.RUN_ROW: sa.select(_RUN.run_id),
    Step.FINISH: sa.select(_WORK.run_id).where(_WORK.state == "done"),
    Step.COMPACTED: sa.select(schema.file.c.name).where(schema.file.c.kind == "by_run"),
    Step.DELIVERED: sa.select(schema.delivery.c.id),
}
