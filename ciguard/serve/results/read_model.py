"""The read model of the pages: a run's rows, a test's runs, rankings of tests, flaky tests.

An answer comes from the files of the manifest. A damaged or missing file is left out, and the
answer names the runs whose rows it holds. If a file was replaced since the manifest was read, the
question is asked again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import duckdb
import sqlalchemy as sa

from ciguard.model import ENDINGS, UnitKey
from ciguard.model.attempts import STATUSES
from ciguard.render.pages import Tried, UnitRun, UnitSums
from ciguard.serve.object_cache import DamagedObject, ObjectCache
from ciguard.serve.results import manifest, queries
from ciguard.serve.results.duckdb_engine import (
    READ_MEMORY,
    READ_THREADS,
    EngineError,
    fetch,
    open_engine,
)
from ciguard.serve.results.flaky_tests import (
    MAX_TROUBLED,
    Coverage,
    FlakyTests,
    choose_runs,
    find_flaky_tests,
)
from ciguard.serve.results.manifest import ManifestFile
from ciguard.serve.results.parquet_columns import DAY_MS, Kind
from ciguard.serve.results.queries import ResultFilters
from ciguard.serve.results.rows import OUTCOME_CODES, OUTCOMES, STATUS_CODES, hash_unit
from ciguard.serve.state import run_rows, schema
from ciguard.serve.state.database import Database
from ciguard.serve.state.run_key import RunKey, is_run

T = TypeVar("T")
TEST_RUNS: Final = 1000
RANKED: Final = 100  # tests of a page
CONCURRENT: Final = 2  # questions: four need more memory than the engine has, and are no faster
MAX_TRIES: Final = 5  # of a question, if files vanish after they were checked
_US: Final = 1e6


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """An answer, and the runs that are missing in it because their files are damaged."""

    value: T
    missing_runs: tuple[RunKey, ...] = ()

    @property
    def missing_names(self) -> tuple[str, ...]:
        """Return the missing runs as "19500000000/1"."""
        return tuple(f"{run.run_id}/{run.run_attempt}" for run in self.missing_runs)


@dataclass(frozen=True, slots=True)
class CaseRow(Tried):
    """A case of a run; `case` is None if the case is the unit, a measure if unmeasured."""

    suite: str
    variant: str
    unit: str
    case: str | None
    shard: str
    outcome: str
    ending: str
    status: str
    tries: int
    wall_s: float | None
    cpu_s: float | None
    peak_bytes: int | None
    peak_delta_bytes: int | None
    message: str | None


@dataclass(frozen=True, slots=True)
class CaseSums:
    """Numbers of all rows that pass the filters; `outcomes` counts them by outcome."""

    total: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    flaky: int = 0
    unfinished: int = 0


@dataclass(frozen=True, slots=True)
class CasePage:
    """A page of a run's rows, and the sums of all pages."""

    rows: tuple[CaseRow, ...] = ()
    sums: CaseSums = field(default_factory=CaseSums)


@dataclass(frozen=True, slots=True)
class Mover:
    """A test whose time, seconds, or peak, bytes, changed: means of early and of late runs."""

    suite: str
    variant: str
    unit: str
    before: float
    after: float


class OpenFiles:
    """Local result files, which exist until the question is answered."""

    def __init__(
        self, engine: duckdb.DuckDBPyConnection, files: Iterable[tuple[ManifestFile, Path]]
    ) -> None:
        self._engine = engine
        self._paths: dict[Kind, list[str]] = {}
        for file, path in files:
            self._paths.setdefault(file.kind, []).append(str(path))

    def fetch(self, query: str, values: Mapping[str, Any], kind: Kind) -> Sequence[tuple[Any, ...]]:
        """Return rows of the pairs' files of a kind, and of the arrivals."""
        # DuckDB takes the columns of the first file; arrivals have more columns.
        paths = [*self._paths.get(kind, ()), *self._paths.get("arrival", ())]
        if not paths:
            return ()
        # Troubled files of an earlier version have no times.
        option = ", union_by_name = true" if kind == "troubled" else ""
        with_files = query.replace("{files}", f"read_parquet($files{option})")
        with_files = with_files.replace("{units}", queries.OF_UNITS if values.get("units") else "")
        return fetch(self._engine, with_files, {**values, "files": paths})

    def fetch_sums(self, by: str, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
        """Return sums of tests, from the sums by day and the arrivals."""
        by_day, arrivals = self._paths.get("by_day"), self._paths.get("arrival")
        if not by_day and not arrivals:
            return ()
        query = queries.select_ranking(by, by_day=bool(by_day), arrivals=bool(arrivals))
        query = query.replace("{by_day}", "read_parquet($by_day)")
        query = query.replace("{arrivals}", "read_parquet($arrivals)")
        return fetch(self._engine, query, {**values, "by_day": by_day, "arrivals": arrivals})

    def first_times(
        self, repository_id: int, tests: Iterable[tuple[str, str, str]]
    ) -> dict[Any, int]:
        """Return the first time of tests of any run; of compacted results, its day is known."""
        by_key = {hash_unit(repository_id, *test): test for test in tests}
        values = {"repository_id": repository_id, "keys": list(by_key)}
        rows: list[tuple[Any, ...]] = []
        for kind, files in self._paths.items():
            query = queries.FIRST_TIMES.replace("{ms}", queries.FIRST_MS[kind])
            rows += fetch(self._engine, query, {**values, "files": files})
        return {by_key[key]: at_ms for key, at_ms in sorted(rows, reverse=True)}

    def texts(self, repository_id: int, keys: Iterable[int | None]) -> dict[int, str]:
        messages = sorted({key for key in keys if key is not None})
        values = {"repository_id": repository_id, "messages": messages}
        return dict(self.fetch(queries.MESSAGES, values, "messages")) if messages else {}


class ReadModel:
    """Answers questions about results. Threads share it."""

    def __init__(self, database: Database, cache: ObjectCache) -> None:
        self._database = database
        self._cache = cache
        self._turns = threading.BoundedSemaphore(CONCURRENT)
        self._engine = open_engine(
            cache.folders, cache.scratch / "read", threads=READ_THREADS, memory=READ_MEMORY
        )

    def close(self) -> None:
        self._engine.close()

    def run_page(self, key: RunKey, filters: ResultFilters) -> Answer[CasePage]:
        """Return one page of a run's rows.

        Raises:
            StorageError, RemoteError: the store or the database cannot be reached.
        """

        def ask(files: OpenFiles) -> CasePage:
            page = {"limit": filters.page_size, "offset": (filters.page - 1) * filters.page_size}
            query = queries.select_run_rows(
                list(filters.values), filters.sort, is_descending=filters.is_descending
            )
            lines = files.fetch(query, {**asdict(key), **filters.values, **page}, "by_run")
            return _run_page(lines, files.texts(key.repository_id, [line[-1] for line in lines]))

        kinds: tuple[Kind, ...] = ("by_run", "arrival", "messages")
        return self._ask(key.repository_id, kinds, ask, is_run(schema.file_run, key), only=key)

    def unit_runs(
        self,
        repository_id: int,
        test: UnitKey,
        case: str | None = None,
        limit: int = TEST_RUNS,
        run_ids: Sequence[int] | None = None,
    ) -> Answer[tuple[UnitRun, ...]]:
        """Return a test's last runs, the newest first; of one case, or of all its cases together.

        Raises:
            StorageError, RemoteError: the store or the database cannot be reached.
        """
        values = {"repository_id": repository_id, **test._asdict(), "case": case, "limit": limit}
        values |= {"key": hash_unit(repository_id, *test), "run_ids": run_ids}
        of_case = queries.OF_CASE if case not in (None, test.unit) else ""
        conditions = of_case + (queries.OF_RUNS if run_ids is not None else "")

        def ask(files: OpenFiles) -> tuple[UnitRun, ...]:
            query = queries.TEST_RUNS.replace("{case}", conditions)
            rows = files.fetch(query, values, "by_test")
            texts = files.texts(repository_id, [row[-1] for row in rows])
            return tuple(UnitRun(*row[:4], **_result_values(row[4:], texts)) for row in rows)

        return self._ask(repository_id, ("by_test", "arrival", "messages"), ask)

    def ranking(
        self, repository_id: int, by: str, from_ms: int, limit: int = 50
    ) -> Answer[tuple[UnitSums, ...]]:
        """Return the tests with the greatest sums or maxima since a day (UTC), greatest first.

        Args:
            by: one of `queries.RANKING_COLUMNS`.

        Raises:
            StorageError, RemoteError: the store or the database cannot be reached.
        """
        day = from_ms // DAY_MS
        values = {"repository_id": repository_id, "day": day, "limit": limit}
        values["from_ms"] = day * DAY_MS

        def ask(files: OpenFiles) -> tuple[UnitSums, ...]:
            return tuple(map(_unit_sums, files.fetch_sums(by, values)))

        return self._ask(repository_id, ("by_day", "arrival"), ask)

    def movers(
        self, repository_id: int, by: str, early: list[int], late: list[int], limit: int = 50
    ) -> Answer[tuple[Mover, ...]]:
        """Return the tests that changed most between runs, each with at least 3 passes on a side.

        Args:
            by: one of `queries.MOVER_MEASURES`.
            early, late: ids of runs.

        Raises:
            StorageError, RemoteError: the store or the database cannot be reached.
        """
        query = queries.MOVERS.replace("{measure}", queries.MOVER_MEASURES[by])
        values = {"repository_id": repository_id, "early": early, "late": late, "limit": limit}
        values["runs"] = early + late

        def ask(files: OpenFiles) -> tuple[Mover, ...]:
            return tuple(Mover(*row[:5]) for row in files.fetch(query, values, "by_run"))

        of_runs = schema.file_run.c.run_id.in_(early + late)
        return self._ask(repository_id, ("by_run", "arrival"), ask, of_runs)

    def flaky(
        self, repository_id: int, from_ms: int, units: Sequence[str] = (), limit: int = MAX_TROUBLED
    ) -> Answer[FlakyTests]:
        """Return the flaky tests since a time, the most often flaky first; then the broken ones.

        Args:
            units: only tests of these names, without a search for their passes; () for all.
            limit: of failures and retries; beyond it, the answer begins later.

        Raises:
            StorageError, RemoteError: the store or the database cannot be reached.
        """
        with self._database.read() as connection:
            runs = run_rows.commit_runs(connection, repository_id, from_ms)
        values = {"repository_id": repository_id, "from_ms": from_ms, "units": units}

        def ask_troubled(files: OpenFiles) -> tuple[Coverage, Sequence[tuple[Any, ...]]]:
            counts = files.fetch(queries.TROUBLED_RUNS, values, "troubled")
            known = dict.fromkeys(run for *_, run in runs)
            coverage = choose_runs(counts, known, from_ms, limit)
            since = {**values, "from_ms": coverage.from_ms}
            return coverage, files.fetch(queries.TROUBLED, since, "troubled")

        answer = self._ask(repository_id, ("troubled", "arrival"), ask_troubled)
        covered, troubled = answer.value
        good = self._passes(repository_id, () if units else covered.run_ids, troubled)
        # Runs before the time of the coverage do not count.
        counted = [row for row in runs if row[-1].started_at_ms >= covered.from_ms]
        tests = find_flaky_tests(troubled, good.value, counted)
        # The ranks do not depend on when tests were added, the rates of the shown ones do.
        shown = {(test.suite, test.variant, test.unit) for test in tests[:RANKED]}
        first = self._ask(
            repository_id,
            ("by_day", "arrival"),
            lambda files: files.first_times(repository_id, shown),
        )
        rows = [row for row in troubled if row[:3] in shown]
        leaders = find_flaky_tests(rows, good.value, counted, first.value)
        tests = (*leaders, *tests[len(shown) :])
        missing = dict.fromkeys([*answer.missing_runs, *good.missing_runs])
        return Answer(FlakyTests(tests, covered.from_ms, covered.is_partial), tuple(missing))

    def _passes(
        self, repository_id: int, run_ids: Sequence[int], troubled: Sequence[tuple[Any, ...]]
    ) -> Answer[Sequence[tuple[Any, ...]]]:
        """Return the passes, in these runs, of tests that failed in one of them by `troubled`."""
        searched = set(run_ids)
        values = {
            "repository_id": repository_id,
            "run_ids": run_ids,
            "units": sorted(
                {row[2] for row in troubled if row[3] in searched and row[5] == STATUS_CODES["bad"]}
            ),
            "passed": OUTCOME_CODES["passed"],
        }
        if not (run_ids and values["units"]):
            return Answer(())

        return self._ask(
            repository_id,
            ("by_run", "arrival"),
            lambda files: files.fetch(queries.GOOD, values, "by_run"),
            schema.file_run.c.run_id.in_(run_ids),
        )

    def _ask(
        self,
        repository_id: int,
        kinds: Sequence[Kind],
        ask: Callable[[OpenFiles], T],
        *runs: sa.ColumnElement[bool],
        only: RunKey | None = None,
    ) -> Answer[T]:
        """Ask a question of all readable files; ask again if files were replaced meanwhile.

        Args:
            runs: conditions on `file_run`, for files with rows of such runs alone.
        """
        of_runs = manifest.holds(schema.file_run.c.repository_id == repository_id, *runs)
        damaged: set[str] = set()
        tries = 0
        while True:
            with self._database.read() as connection:
                listed = manifest.files(connection, kinds, of_runs)
                # Rows without their messages are still shown.
                lost = [file for file in listed if file.name in damaged and file.kind != "messages"]
                missing = manifest.runs_of(connection, lost, repository_id) if lost else []
            readable = [file for file in listed if file.name not in damaged]
            try:
                with self._cache.open_files(file.stored for file in readable) as paths:
                    files = OpenFiles(self._engine, [(file, paths[file.name]) for file in readable])
                    with self._turns:
                        answer = ask(files)
            except DamagedObject as error:
                damaged.add(error.name)  # a replaced file is not listed in the next round
            except EngineError:
                tries += 1
                if tries == MAX_TRIES:
                    raise
                self._cache.forget([file.name for file in readable])
            else:
                return Answer(answer, tuple(run for run in missing if only in (None, run)))


def _run_page(lines: Sequence[tuple[Any, ...]], texts: Mapping[int, str]) -> CasePage:
    """Make a page of the lines of `queries.select_run_rows`; no lines without files."""
    if not lines:
        return CasePage()
    total, flaky, unfinished, *counts = lines[0][: queries.RUN_SUMS]
    outcomes = {word: count for word, count in zip(OUTCOMES, counts, strict=True) if count}
    rows = [line[queries.RUN_SUMS + 1 :] for line in lines if line[queries.RUN_SUMS]]
    return CasePage(
        tuple(_case_row(row, texts) for row in rows), CaseSums(total, outcomes, flaky, unfinished)
    )


def _case_row(row: tuple[Any, ...], texts: Mapping[int, str]) -> CaseRow:
    """Make a value of the columns `queries.RUN_COLUMNS`."""
    suite, variant, unit, case, shard, cpu_us, *result = row
    values = _result_values(result, texts)
    return CaseRow(suite, variant, unit, case, shard, cpu_s=_seconds(cpu_us), **values)


def _result_values(columns: Sequence[Any], texts: Mapping[int, str]) -> dict[str, Any]:
    """Return the values of a result by their names, made of the last columns of a row."""
    outcome, ending, status, tries, wall_us, peak_bytes, peak_delta_bytes, message = columns
    return {
        "outcome": OUTCOMES[outcome],
        "ending": ENDINGS[ending],
        "status": STATUSES[status],
        "tries": tries,
        "wall_s": _seconds(wall_us),
        "peak_bytes": peak_bytes,
        "peak_delta_bytes": peak_delta_bytes,
        "message": texts.get(message),
    }


def _unit_sums(row: tuple[Any, ...]) -> UnitSums:
    """Make a value of the columns of `queries.select_ranking`."""
    suite, variant, unit, runs, results, failed, flaky, wall_us, *measured = row
    wall_s = _seconds(wall_us)
    return UnitSums(suite, variant, unit, runs, results, failed, flaky, wall_s, *measured)


def _seconds(time_us: int | None) -> float | None:
    return None if time_us is None else time_us / _US
