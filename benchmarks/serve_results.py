"""What results cost the service: to write and compact them, on the disk, and to ask of them.

    .venv/bin/python benchmarks/serve_results.py [--rows 10000000] [--folder DIR] [--seconds 300]

Writes so many seconds of 200 runs a second with 50 results each, as one process does that has
nothing else to do, and counts its CPU time against these seconds. Then makes files of --rows rows,
as compaction leaves them: 1,000 runs, 20 a day, of a suite with lognormal times and sizes, and one
run of 100,000 results; and asks what the pages ask. Times of questions are of wall and of CPU, in
milliseconds: another load of the machine shows in the first only. With --folder, files stay and
are used again.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import statistics
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import numpy as np

from ciguard.model import UnitKey
from ciguard.render.pages import RunRow, RunSuiteRow
from ciguard.serve.object_cache import ObjectCache
from ciguard.serve.objects import FolderStore
from ciguard.serve.results import manifest
from ciguard.serve.results.compaction import MAX_ROWS, Compactor
from ciguard.serve.results.duckdb_engine import copy_to
from ciguard.serve.results.parquet_columns import (
    DAY_MS,
    PAIR,
    PARQUET,
    SUMS_PARQUET,
    select_compacted,
)
from ciguard.serve.results.queries import parse_filters
from ciguard.serve.results.read_model import ReadModel
from ciguard.serve.results.rows import ResultRow, RunResults, hash_unit
from ciguard.serve.results.writer import ResultsWriter, put_file
from ciguard.serve.state import run_rows, schema
from ciguard.serve.state.database import open_database
from ciguard.serve.state.run_key import RunKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ciguard.serve.results.parquet_columns import Kind
    from ciguard.serve.state.database import Database

REPOSITORY: Final = 1
RUNS: Final = 1000
RUNS_A_DAY: Final = 20
VARIANTS: Final = 16  # of the results of each of 200 repositories
BIG_RUN: Final = RunKey(2, 1, 1)
START_MS: Final = 20_000 * DAY_MS


def unit_name(number: int) -> str:
    return f"tests/module_{number // 400}/test_file_{number // 20}.py::test_name_{number % 20}"


def lognormal_rows(count: int, seed: int) -> list[ResultRow]:
    """Rows of which one in a hundred fails, with a message of its own."""
    random = np.random.default_rng(seed)
    wall_s, peak = random.lognormal(-5, 1.5, count), random.lognormal(18, 0.5, count) // 4096
    failed = random.random(count) < 0.01
    return [
        ResultRow(
            *("unit", "py311", unit_name(number), None, f"unit-{number % 64:02d}"),
            *(2 if failed[number] else 1, 0, 1 if failed[number] else 0, 1),
            wall_s=float(wall_s[number]),
            cpu_s=float(wall_s[number] * 0.9),
            peak_bytes=float(peak[number] * 4096),
            message=f"assert {wall_s[number]} < 1" if failed[number] else None,
        )
        for number in range(count)
    ]


def small_runs() -> list[list[ResultRow]]:
    """The results of runs of 200 repositories, for `runs_of_second`."""
    return [lognormal_rows(50, seed) for seed in range(200 * VARIANTS)]


def runs_of_second(templates: list[list[ResultRow]], second: int, at_ms: int) -> list[RunResults]:
    """200 runs, each of another repository."""
    return [
        RunResults(RunKey(1000 + number, second, 1), at_ms, rows)
        for number, rows in enumerate(templates[second % VARIANTS :: VARIANTS])
    ]


def measure_writing(folder: Path, seconds: int) -> None:
    """200 runs a second of 200 repositories, written and compacted."""
    database = open_database(f"sqlite:///{folder / 'writing.db'}")
    objects = FolderStore(folder / "writing")
    with contextlib.ExitStack() as stack:
        cache = stack.enter_context(contextlib.closing(ObjectCache(objects, folder / "cache")))
        writer = ResultsWriter(database, objects, cache.scratch, batch_s=0.0)
        stack.enter_context(contextlib.closing(writer))
        compactor = stack.enter_context(contextlib.closing(Compactor(database, objects, cache)))
        templates = small_runs()
        write_s = compact_s = longest_s = 0.0
        for second in range(seconds):
            runs = runs_of_second(templates, second, START_MS + second * 1000)
            begin_s, wall_s = time.process_time(), time.monotonic()
            writer.write(runs)
            longest_s = max(longest_s, time.monotonic() - wall_s)
            written_s = time.process_time()
            while compactor.compact():
                pass
            write_s += written_s - begin_s
            compact_s += time.process_time() - written_s
    print(f"\n200 runs/s of 50 results, {seconds} s of them: share of a core, percent")
    print(f"{'write':30} {100 * write_s / seconds:8.2f}   (longest {longest_s:.2f} s)")
    print(f"{'compact':30} {100 * compact_s / seconds:8.2f}")
    print(f"{'both':30} {100 * (write_s + compact_s) / seconds:8.2f}   (reach < 15)")
    database.close()


def print_sizes(database: Database, what: str) -> None:
    with database.read() as connection:
        files = manifest.files(connection)
    rows = sum(one.rows for one in files if one.kind in ("arrival", "by_run"))
    print(f"\nbytes a result, {rows:,} of {what} in {len(files)} files")
    reaches = {"by_run": "   (reach <= 12)", "by_test": "   (reach <= 8)"}
    for kind in ("arrival", *PAIR):
        found = [one for one in files if one.kind == kind]
        of_rows = ("arrival", "by_run", "by_test")
        held = sum(one.rows for one in found) if kind in of_rows else rows
        if held:
            size = sum(one.bytes for one in found) / held
            print(f"{kind:30} {size:8.2f}{reaches.get(kind, '')}")


def make_pairs(database: Database, objects: FolderStore, folder: Path, rows: int) -> None:
    """Pairs of as many runs as fit, with the columns that compaction gives them."""
    tests = rows // RUNS
    names = [unit_name(number) for number in range(tests)]
    keys = np.array([hash_unit(REPOSITORY, "unit", "py311", name) for name in names], np.int64)
    engine = duckdb.connect(config={"threads": 2, "memory_limit": "2GB"})
    engine.execute("SET temp_directory = $folder", {"folder": str(folder / "spill")})
    engine.register("names", {"unit": np.array(names, object), "key": keys})
    engine.execute(
        "CREATE TABLE test AS SELECT unit, key, exp(8.5 + 1.5 * (random() + random() + random()"
        " - 1.5) * 2) AS wall, exp(18 + (random() + random() - 1)) AS peak,"
        " (row_number() OVER () % 64)::VARCHAR AS shard FROM names"
    )
    per_pair = max(1, MAX_ROWS // tests)
    for first in range(0, RUNS, per_pair):
        last = min(RUNS, first + per_pair)
        arrival = str(folder / "arrival.parquet")
        engine.execute(
            "COPY (SELECT 1::BIGINT AS repository_id, run_id::BIGINT AS run_id,"
            " 1::INTEGER AS run_attempt,"
            f" ({START_MS} + run_id * {DAY_MS // RUNS_A_DAY})::BIGINT AS at_ms, key,"
            " 'unit' AS suite, 'py311' AS variant, unit, NULL::VARCHAR AS \"case\","
            " 'unit-' || shard AS shard,"
            " (CASE WHEN chance < 0.005 THEN 2 ELSE 1 END)::UTINYINT AS outcome,"
            " 0::UTINYINT AS ending,"
            " (CASE WHEN chance < 0.005 THEN 1 ELSE 0 END)::UTINYINT AS status,"
            " (CASE WHEN chance > 0.999 THEN 2 ELSE 1 END)::UTINYINT AS tries,"
            " (wall * (0.8 + 0.4 * random()))::BIGINT AS wall_us,"
            " (wall * (0.7 + 0.4 * random()))::BIGINT AS cpu_us,"
            " (peak * (0.96 + 0.08 * random()) / 4096)::BIGINT * 4096 AS peak_bytes,"
            " NULL::BIGINT AS peak_delta_bytes, NULL::BIGINT AS message, NULL::VARCHAR AS text"
            " FROM (SELECT *, random() AS chance FROM test, range($first, $last) AS r(run_id)))"
            f" TO $path {PARQUET}",
            {"first": first, "last": last, "path": arrival},
        )
        add_pair(database, objects, engine, folder, dict.fromkeys(range(first, last), tests))
        print(f"{last * tests:,} rows", flush=True)
    engine.close()


def add_pair(
    database: Database,
    objects: FolderStore,
    engine: duckdb.DuckDBPyConnection,
    folder: Path,
    rows_by_run: dict[int, int],
) -> None:
    pair = uuid.uuid4().hex
    files: list[manifest.ManifestFile] = []
    kinds: tuple[Kind, ...] = ("by_run", "by_test", "troubled", "by_day")
    for kind in kinds:
        path = folder / f"{kind}.parquet"
        query = select_compacted(kind, arrivals=True, pairs=False)
        sources: dict[str, Any] = {
            "arrivals": [str(folder / "arrival.parquet")],
            "without_repository": -1,
        }
        sources |= {"from_ms": 0, "rows": str(objects.local_path(files[0].name)) if files else ""}
        known = {name: value for name, value in sources.items() if f"${name}" in query}
        options = SUMS_PARQUET if kind == "by_day" else PARQUET
        count = copy_to(engine, query, known, path, options)
        files.append(put_file(objects, path, kind, pair, count))
        path.unlink()
    with database.write() as connection:
        manifest.replace(connection, [], files)
        values = [
            {
                "file": files[0].name,
                "repository_id": REPOSITORY,
                "run_id": run_id,
                "run_attempt": 1,
                "rows": rows,
                "digest": "",
            }
            for run_id, rows in rows_by_run.items()
        ]
        connection.execute(schema.file_run.insert(), values)


def record_runs(database: Database, tests: int) -> None:
    """The judged runs, two of each commit: passes are looked for in as many results as ever are."""
    with database.write() as connection:
        for run_id in range(RUNS):
            at_ms = START_MS + run_id * DAY_MS // RUNS_A_DAY
            run = RunRow(
                key=RunKey(REPOSITORY, run_id, 1),
                workflow="tests.yml",
                event="push",
                branch="main",
                head_sha=str(run_id // 2),
                pull_request=None,
                is_base_branch=True,
                started_at_ms=at_ms,
                completed_at_ms=at_ms,
                verdict="failed",
                comparison="",
                headline="",
                exit_code=0,
                planned=tests,
                missing=0,
                makespan_s=None,
                bound_s=None,
                price_usd=None,
                answer="",
                cells=(RunSuiteRow("unit", "py311", tests, 0, {}, None, None, None),),
            )
            run_rows.record_run(connection, run)


def questions(read: ReadModel, tests: int) -> Iterator[tuple[str, Callable[[int], Any]]]:
    """What pages ask, by name; a number varies the question."""

    def one_test(number: int) -> Any:
        key = UnitKey("unit", "py311", unit_name(number * 7919 % tests))
        answer = read.unit_runs(REPOSITORY, key)
        assert len(answer.value) == RUNS
        return answer

    yield "a test's 1,000 runs (reach < 100)", one_test

    def page(**query: str) -> Callable[[int], Any]:
        def ask(number: int) -> Any:
            filters = parse_filters({**query, "page": str(1 + number % 3)})
            answer = read.run_page(BIG_RUN, filters)
            assert answer.value.rows
            return answer

        return ask

    yield "run of 100,000: sort by time (< 100)", page(sort="-wall")
    yield "run of 100,000: sort by name (< 100)", page(sort="name")
    yield "run of 100,000: search (< 100)", page(text="name_1", sort="-peak")
    yield "run of 100,000: failed (< 100)", page(outcome="failed")
    last_ms = START_MS + RUNS // RUNS_A_DAY * DAY_MS
    for days in (7, 30):
        for by in ("time", "peak"):

            def ranking(_: int, days: int = days, by: str = by) -> Any:
                answer = read.ranking(REPOSITORY, by, last_ms - days * DAY_MS)
                assert len(answer.value) == 50
                return answer

            yield f"ranking by {by}, {days} days (< 300)", ranking

    for days in (7, 30):

        def flaky(_: int, days: int = days) -> Any:
            answer = read.flaky(REPOSITORY, last_ms - days * DAY_MS)
            assert answer.value.tests
            return answer

        yield f"flaky, {days} days (< 300)", flaky

    def ten_tests(number: int) -> Any:
        units = [unit_name((number + at) * 7919 % tests) for at in range(10)]
        return read.flaky(REPOSITORY, last_ms - 30 * DAY_MS, units)

    yield "whether ten tests are flaky (< 100)", ten_tests


def measure_questions(folder: Path, rows: int, rounds: int) -> None:
    database = open_database(f"sqlite:///{folder / 'questions.db'}")
    objects = FolderStore(folder / "questions")
    with database.read() as connection:
        is_new = not manifest.files(connection)
    with contextlib.ExitStack() as stack:
        cache = stack.enter_context(contextlib.closing(ObjectCache(objects, folder / "cache")))
        if is_new:
            make_pairs(database, objects, folder, rows)
            writer = ResultsWriter(database, objects, cache.scratch)
            stack.enter_context(contextlib.closing(writer))
            big = RunResults(BIG_RUN, START_MS, lognormal_rows(100_000, 1))
            begin_s = time.process_time()
            writer.write([big])
            print(f"\n100,000 results of one run, written: {time.process_time() - begin_s:.2f} s")
        record_runs(database, rows // RUNS)
        print_sizes(database, "1,000 runs of one suite")
        read = stack.enter_context(contextlib.closing(ReadModel(database, cache)))
        print(f"\n{'milliseconds':40} {'p50':>8} {'worst':>8} {'CPU p50':>8} {'first':>8}")
        for name, ask in questions(read, rows // RUNS):
            walls, cpus = [], []
            for number in range(rounds + 1):
                begin_s, cpu_s = time.monotonic(), time.process_time()
                ask(number)
                walls.append(1000 * (time.monotonic() - begin_s))
                cpus.append(1000 * (time.process_time() - cpu_s))
            first, walls = walls[0], walls[1:]
            p50, worst, cpu = statistics.median(walls), max(walls), statistics.median(cpus[1:])
            print(f"{name:40} {p50:8.0f} {worst:8.0f} {cpu:8.0f} {first:8.0f}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"most resident memory of this process, making files too: {peak:.0f} MB")
    database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = given.folder
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        if given.seconds:
            measure_writing(folder, given.seconds)
        measure_questions(folder, given.rows, given.rounds)


if __name__ == "__main__":
    main()
