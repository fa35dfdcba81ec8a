"""What the pages ask of results: a run's rows, a test's runs, the worst tests, flaky tests.

An answer is of the files that the manifest lists. Of a file that is damaged or missing no number is
used: the answer names the runs whose rows are in it. A file that is gone because it was replaced
meanwhile is none of these: the question is asked again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sqlalchemy as sa

from ciguard.serve.object_cache import DamagedObject
from ciguard.serve.results import manifest, queries
from ciguard.serve.results.duckdb_engine import (
    READ_MEMORY,
    READ_THREADS,
    EngineError,
    open_engine,
)
from ciguard.serve.results.flaky_tests import (
    MOST_TROUBLED,
    CommitRun,
    Coverage,
    FlakyTests,
    choose_runs,
    find_flaky_tests,
)
from ciguard.serve.results.open_files import OpenFiles
from ciguard.serve.results.parquet_columns import DAY_MS
from ciguard.serve.results.result_values import Answer, CasePage, CaseRow, UnitRun, UnitSums
from ciguard.serve.results.rows import OUTCOME_CODES, STATUS_CODES, hash_unit
from ciguard.serve.state import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from ciguard.model import UnitKey
    from ciguard.serve.object_cache import ObjectCache
    from ciguard.serve.results.manifest import ManifestFile
    from ciguard.serve.results.parquet_columns import Kind
    from ciguard.serve.results.result_filters import ResultFilters
    from ciguard.serve.state.database import Database
    from ciguard.serve.state.run_key import RunKey

T = TypeVar("T")
TEST_RUNS: Final = 1000
AT_ONCE: Final = 2  # questions: four need more memory than the engine has, and are no sooner done
ASKED_AGAIN: Final = 5  # times, where a file vanished after it was checked


class ReadModel:
    """Answers questions about results. Threads share it."""

    def __init__(self, database: Database, cache: ObjectCache) -> None:
        self._database = database
        self._cache = cache
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._engine = open_engine(
            cache.folders, cache.scratch / "read", threads=READ_THREADS, memory=READ_MEMORY
        )

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()

    def run_page(self, key: RunKey, filters: ResultFilters) -> Answer[CasePage]:
        """One page of a run's rows.

        Raises:
            StorageError, RemoteError: the store or the database cannot be reached.
        """
        of_run = {
            "repository_id": key.repository_id,
            "run_id": key.run_id,
            "run_attempt": key.run_attempt,
        }

        def ask(files: OpenFiles) -> CasePage:
            page = {
                "limit": filters.page_size,
                "offset": (filters.page - 1) * filters.page_size,
            }
            query = queries.select_run_rows(
                list(filters.values), filters.sort, is_descending=filters.is_descending
            )
            lines = files.fetch(query, {**of_run, **filters.values, **page}, "by_run")
            return _run_page(lines, files.texts(key.repository_id, [line[-1] for line in lines]))

        def find(connection: Connection) -> list[ManifestFile]:
            return manifest.files_of_run(connection, key, ("by_run", "arrival", "messages"))

        return self._ask(find, ask, key.repository_id, key)

    def unit_runs(
        self, repository_id: int, test: UnitKey, case: str | None = None, limit: int = TEST_RUNS
    ) -> Answer[tuple[UnitRun, ...]]:
        """A test's last runs, the newest first; of one case, or of all its cases together.

        Raises:
            StorageError, RemoteError: the store or the database cannot be reached.
        """
        values = {
            "key": hash_unit(repository_id, *test),
            "repository_id": repository_id,
            **test._asdict(),
            "limit": limit,
        }
        is_whole = case is None or case == test.unit
        if not is_whole:
            values["case"] = case

        def ask(files: OpenFiles) -> tuple[UnitRun, ...]:
            query = queries.TEST_RUNS.replace("{case}", "" if is_whole else queries.OF_CASE)
            rows = files.fetch(query, values, "by_test")
            texts = files.texts(repository_id, [row[-1] for row in rows])
            return tuple(UnitRun(*(*row[:-1], texts.get(row[-1]))) for row in rows)

        return self._ask_repository(repository_id, ("by_test", "arrival", "messages"), ask)

    def offenders(
        self, repository_id: int, by: str, from_ms: int, limit: int = 50
    ) -> Answer[tuple[UnitSums, ...]]:
        """The tests with the greatest sums since a day (UTC), the worst first.

        Args:
            by: one of `queries.OFFENDER_COLUMNS`.

        Raises:
            StorageError, RemoteError: the store or the database cannot be reached.
        """
        day = from_ms // DAY_MS
        values = {
            "repository_id": repository_id,
            "day": day,
            "from_ms": day * DAY_MS,
            "limit": limit,
        }

        def ask(files: OpenFiles) -> tuple[UnitSums, ...]:
            return tuple(UnitSums(*row) for row in files.fetch_sums(by, values))

        return self._ask_repository(repository_id, ("by_day", "arrival"), ask)

    def flaky(
        self, repository_id: int, from_ms: int, limit: int = 50, most: int = MOST_TROUBLED
    ) -> Answer[FlakyTests]:
        """Tests that passed and failed at one commit since a time, the most often first.

        Args:
            most: rows that went wrong. Where there are more, the answer is of a later time.

        Raises:
            StorageError, RemoteError: the store or the database cannot be reached.
        """
        with self._database.read() as connection:
            of_repository = schema.run.c.repository_id == repository_id
            query = sa.select(*(schema.run.c[name] for name in CommitRun._fields)).where(
                of_repository, schema.run.c.started_at_ms >= from_ms
            )
            runs = [CommitRun(*row) for row in connection.execute(query)]
        values = {"repository_id": repository_id, "from_ms": from_ms}

        def ask_troubled(files: OpenFiles) -> tuple[Coverage, Sequence[tuple[Any, ...]]]:
            counts = files.fetch(queries.TROUBLED_RUNS, values, "troubled")
            found = choose_runs(counts, runs, from_ms, most)
            since = {**values, "from_ms": found.from_ms}
            return found, files.fetch(queries.TROUBLED, since, "troubled")

        answer = self._ask_repository(repository_id, ("troubled", "arrival"), ask_troubled)
        covered, troubled = answer.found
        good = self._passes(repository_id, covered.run_ids, troubled)
        # As if this time had been asked for.
        heads = {
            (one.run_id, one.run_attempt): one.head_sha
            for one in runs
            if one.started_at_ms >= covered.from_ms
        }
        tests = find_flaky_tests(repository_id, troubled, good.found, heads)[:limit]
        missing = dict.fromkeys([*answer.missing_runs, *good.missing_runs])
        return Answer(FlakyTests(tests, covered.from_ms, covered.is_partial), tuple(missing))

    def _passes(
        self, repository_id: int, run_ids: Sequence[int], troubled: Sequence[tuple[Any, ...]]
    ) -> Answer[Sequence[tuple[Any, ...]]]:
        """Where tests passed in these runs that failed in one of them, by `troubled`."""
        wanted = set(run_ids)
        values = {
            "repository_id": repository_id,
            "run_ids": run_ids,
            "units": sorted(
                {row[2] for row in troubled if row[3] in wanted and row[5] == STATUS_CODES["bad"]}
            ),
            "passed": OUTCOME_CODES["passed"],
        }
        if not (run_ids and values["units"]):
            return Answer(())

        def find(connection: Connection) -> list[ManifestFile]:
            return manifest.files_of_runs(connection, repository_id, run_ids, ("by_run", "arrival"))

        return self._ask(
            find, lambda files: files.fetch(queries.GOOD, values, "by_run"), repository_id
        )

    def _ask_repository(
        self, repository_id: int, kinds: Sequence[Kind], ask: Callable[[OpenFiles], T]
    ) -> Answer[T]:
        def find(connection: Connection) -> list[ManifestFile]:
            return manifest.files_of_repository(connection, repository_id, kinds)

        return self._ask(find, ask, repository_id)

    def _ask(
        self,
        find: Callable[[Connection], list[ManifestFile]],
        ask: Callable[[OpenFiles], T],
        repository_id: int,
        only: RunKey | None = None,
    ) -> Answer[T]:
        """Ask of all files that can be read; where files were replaced meanwhile, ask again."""
        damaged: set[str] = set()
        asked = 0
        while True:
            with self._database.read() as connection:
                wanted = find(connection)
                # Without its texts a row is still a row.
                lost = [o for o in wanted if o.name in damaged and o.kind != "messages"]
                missing = manifest.runs_of(connection, lost, repository_id) if lost else []
            readable = [one for one in wanted if one.name not in damaged]
            try:
                with self._cache.open_files(one.stored for one in readable) as paths:
                    files = OpenFiles(self._engine, [(one, paths[one.name]) for one in readable])
                    with self._turns:
                        found = ask(files)
            except DamagedObject as error:
                damaged.add(error.name)  # or replaced: then it is wanted no more
            except EngineError:
                asked += 1
                if asked == ASKED_AGAIN:
                    raise
                self._cache.forget([one.name for one in readable])
            else:
                return Answer(found, tuple(one for one in missing if only in (None, one)))


def _run_page(lines: Sequence[tuple[Any, ...]], texts: Mapping[int, str]) -> CasePage:
    """Out of what `queries.select_run_rows` finds; there are no lines where there are no files."""
    if not lines:
        return CasePage()
    total, flaky, unfinished, *outcomes = lines[0][: queries.RUN_SUMS]
    rows = [line[queries.RUN_SUMS + 1 :] for line in lines if line[queries.RUN_SUMS]]
    return CasePage(
        tuple(CaseRow(*(*row[:-1], texts.get(row[-1]))) for row in rows),
        total,
        {code: number for code, number in enumerate(outcomes) if number},
        flaky,
        unfinished,
    )
