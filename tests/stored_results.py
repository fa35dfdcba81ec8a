"""Results of made-up runs, and everything a process opens to write and read them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ciguard.serve.object_cache import ObjectCache
from ciguard.serve.objects import FolderStore, ObjectStore
from ciguard.serve.results import manifest
from ciguard.serve.results.compaction import Compactor
from ciguard.serve.results.manifest import ManifestFile
from ciguard.serve.results.parquet_columns import Kind
from ciguard.serve.results.queries import ResultFilters
from ciguard.serve.results.read_model import ReadModel
from ciguard.serve.results.rows import OUTCOME_CODES, ResultRow, RunResults
from ciguard.serve.results.writer import ResultsWriter
from ciguard.serve.state import schema
from ciguard.serve.state.database import Database
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.schema import StoredText

REPOSITORY = 42
HOUR_MS = 3_600_000
AT_MS = 20_000 * 24 * HOUR_MS  # a midnight


class Interrupted(BaseException):
    """The process was killed here."""


class KilledStore(FolderStore):
    """A store whose process dies before it puts a file, or after it has."""

    _steps: int | None = None

    def kill_at(self, step: int | None) -> None:
        """Die at this step from now: an even one is before a put, an odd one after it."""
        self._steps = step

    def put_new(self, name: str, content: bytes | Path) -> None:
        """Store it as a folder does, unless the process dies."""
        self._step()
        super().put_new(name, content)
        self._step()

    def _step(self) -> None:
        if self._steps is not None:
            self._steps -= 1
            if self._steps < 0:
                self._steps = None
                raise Interrupted


@dataclass(frozen=True, slots=True)
class Results:
    """What a process has open."""

    database: Database
    objects: ObjectStore
    cache: ObjectCache
    writer: ResultsWriter
    compactor: Compactor
    read: ReadModel


@contextlib.contextmanager
def opened_results(database: Database, objects: ObjectStore, folder: Path) -> Iterator[Results]:
    with contextlib.ExitStack() as stack:
        cache = stack.enter_context(contextlib.closing(ObjectCache(objects, folder)))
        writer = ResultsWriter(database, objects, cache.scratch, batch_s=0.0)
        stack.enter_context(contextlib.closing(writer))
        compactor = stack.enter_context(contextlib.closing(Compactor(database, objects, cache)))
        read = stack.enter_context(contextlib.closing(ReadModel(database, cache)))
        yield Results(database, objects, cache, writer, compactor, read)


def files(results: Results, kind: Kind | None = None) -> list[ManifestFile]:
    with results.database.read() as connection:
        return manifest.files(connection, None if kind is None else [kind])


def damage(results: Results, file: ManifestFile) -> None:
    """Flip a bit of a file."""
    path = results.objects.local_path(file.name)
    assert path is not None
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    results.cache.forget([file.name])


def compact_all(results: Results) -> None:
    with results.database.read() as connection:
        files = manifest.files(connection)
    results.compactor.rewrite(files)


def row(unit: str, outcome: str = "passed", **more: Any) -> ResultRow:
    """A row of suite "unit", variant "py311", that took a second unless said otherwise."""
    status = {"passed": 0, "skipped": 0, "missing": 2}.get(outcome, 1)
    values: dict[str, Any] = {
        "suite": "unit",
        "variant": "py311",
        "case": None,
        "shard": "unit-1",
        "ending": 0,
    }
    values |= {"status": status, "wall_s": 1.0} | more
    return ResultRow(unit=unit, outcome=OUTCOME_CODES[outcome], **values)


def run(number: int, rows: Iterable[ResultRow], **more: Any) -> RunResults:
    """Run `number` of a repository, an hour after the one before it."""
    key = RunKey(more.get("repository_id", REPOSITORY), number, more.get("run_attempt", 1))
    return RunResults(key, AT_MS + number * HOUR_MS, tuple(rows))


def rows_of_run(results: Results, key: RunKey) -> list[tuple[str, str | None, float | None]]:
    """Names, cases and times by the file by run; damaged files are an error."""
    answer = results.read.run_page(
        key, ResultFilters(sort="name", is_descending=False, page_size=1000)
    )
    assert not answer.missing_runs
    return [(one.unit, one.case, one.wall_s) for one in answer.value.rows]


def add_judged_run(
    database: Database, judged: RunResults, head_sha: str, *, is_base: bool = False
) -> None:
    """Add a row to the table of runs, and its cells."""
    values: dict[str, Any] = {
        "repository_id": judged.key.repository_id,
        "run_id": judged.key.run_id,
        "run_attempt": judged.key.run_attempt,
        "head_sha": head_sha,
        "started_at_ms": judged.at_ms,
        "planned": len(judged.rows),
    }
    for column in schema.run.c:
        if not column.nullable:
            values.setdefault(column.name, "" if isinstance(column.type, StoredText) else 0)
    values |= {"is_base_branch": is_base, "branch": "main" if is_base else "topic"}
    rest = {"planned": 1, "missing": 0, "counts": {}}
    cells = [
        {**asdict(judged.key), "suite": suite, "variant": variant, **rest}
        for suite, variant in {(one.suite, one.variant) for one in judged.rows}
    ]
    with database.write() as connection:
        connection.execute(schema.run.insert().values(values))
        if cells:
            connection.execute(schema.run_suite.insert().values(cells))
