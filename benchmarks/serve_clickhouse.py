"""Whether ClickHouse answers the read model's queries as DuckDB does, from the same files.

    python3 -m venv /tmp/clickhouse && /tmp/clickhouse/bin/pip install chdb
    .venv/bin/python benchmarks/serve_clickhouse.py --python /tmp/clickhouse/bin/python

chdb is ClickHouse's engine as a wheel; it has an environment of its own. Writes and compacts a few
runs, asks every query of `ciguard/serve/results/queries.py` of both engines, and compares. Times
are of wall, in milliseconds, the least of three.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import duckdb
from serve_results import lognormal_rows, unit_name

from ciguard.serve.object_cache import ObjectCache
from ciguard.serve.objects import FolderStore
from ciguard.serve.results import queries
from ciguard.serve.results.compaction import FAN_IN, MIN_AGE_S, Compactor, sweep
from ciguard.serve.results.rows import OUTCOME_CODES, RunResults, hash_unit
from ciguard.serve.results.writer import ResultsWriter
from ciguard.serve.state.database import open_database
from ciguard.serve.state.run_key import RunKey

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS: Final = 3
REPOSITORY: Final = {"repository_id": 42}
TESTS: Final = 20_000

# Reads questions in JSON, writes answers; runs where chdb is.
CLICKHOUSE: Final = r"""
import json, re, sys, time
from chdb import session
clickhouse = session.Session()
def type_of(value):
    if isinstance(value, list):
        return "Array(Int64)" if value and isinstance(value[0], int) else "Array(String)"
    return "Int64" if isinstance(value, int) else "String"
def text_of(value):
    if isinstance(value, list) and value and isinstance(value[0], str):
        return "[" + ",".join("'%s'" % one for one in value) + "]"
    return value
for line in sys.stdin:
    sql, values = json.loads(line)
    sql = re.sub("(NOT )?MATERIALIZED", "", sql)
    sql = re.sub(r"\$(\w+)", lambda it: "{%s:%s}" % (it[1], type_of(values[it[1]])), sql)
    begin = time.monotonic()
    values = {name: text_of(value) for name, value in values.items()}
    settings = " SETTINGS output_format_json_quote_64bit_integers = 0"
    found = str(clickhouse.query(sql + settings, "JSONCompactEachRow", params=values))
    rows = [json.loads(row) for row in found.splitlines()]
    print(json.dumps([rows, time.monotonic() - begin]), flush=True)
"""


class Question(NamedTuple):
    """SQL with its values, and by placeholder the kind of files it reads."""

    name: str
    sql: str
    values: dict[str, Any]
    kinds: dict[str, str]

    def of_files(self, source: str) -> str:
        """The SQL with the files of an engine, of which `source` has a kind's name to fill in."""
        sql = self.sql
        for placeholder, kind in self.kinds.items():
            sql = sql.replace(f"{{{placeholder}}}", source.format(kind=kind))
        return sql


def write_results(folder: Path) -> None:
    """Pairs of sixteen runs, and two arrivals."""
    database = open_database(f"sqlite:///{folder / 'results.db'}")
    objects = FolderStore(folder / "objects")
    with contextlib.ExitStack() as stack:
        cache = stack.enter_context(contextlib.closing(ObjectCache(objects, folder / "cache")))
        writer = ResultsWriter(database, objects, cache.scratch, batch_s=0.0)
        stack.enter_context(contextlib.closing(writer))
        compactor = stack.enter_context(contextlib.closing(Compactor(database, objects, cache)))
        for number in range(FAN_IN + 2):
            rows = lognormal_rows(TESTS, number)
            rows[3] = rows[3]._replace(case="Case X", tries=2)
            writer.write([RunResults(RunKey(42, number, 1), number, rows)])
            if number == FAN_IN - 1:
                assert compactor.compact()
        sweep(database, objects, cache, time.time() + 2 * MIN_AGE_S)  # what was compacted
    database.close()


def questions(messages: list[int]) -> Iterator[Question]:
    run = {**REPOSITORY, "run_id": 5, "run_attempt": 1}
    page = {**run, "limit": 100, "offset": 7}
    by_run = {"files": "by_run"}
    for sort in queries.SORT_COLUMNS:
        for is_descending in (False, True):
            sql = queries.select_run_rows([], sort, is_descending=is_descending)
            yield Question(f"run by {'-' * is_descending}{sort}", sql, page, by_run)
    sql = queries.select_run_rows(["text"], "wall", is_descending=True)
    yield Question("run, searched", sql, {**page, "text": "name_1"}, by_run)
    filters = {"text": "case x", "outcome": 1, "suite": "unit", "variant": "py311"}
    sql = queries.select_run_rows(list(filters), "wall", is_descending=True)
    yield Question("run, filtered", sql, {**page, **filters, "offset": 0}, by_run)
    beyond = {**page, "offset": TESTS}
    sql = queries.select_run_rows([], "wall", is_descending=True)
    yield Question("run, beyond its end", sql, beyond, by_run)
    names = {"suite": "unit", "variant": "py311", "unit": unit_name(7)}
    test = {**REPOSITORY, "key": hash_unit(42, *names.values()), **names, "limit": 1000}
    sql = queries.TEST_RUNS.replace("{case}", "")
    yield Question("a test's runs", sql, test, {"files": "by_test"})
    sums = {**REPOSITORY, "day": 0, "from_ms": 0, "limit": 50}
    for by in queries.RANKING_COLUMNS:
        sql = queries.select_ranking(by, by_day=True, arrivals=True)
        kinds = {"by_day": "by_day", "arrivals": "arrival"}
        yield Question(f"ranking by {by}", sql, sums, kinds)
    since = {**REPOSITORY, "from_ms": 0}
    for sql in (queries.TROUBLED_RUNS, queries.TROUBLED):
        yield Question("flaky tests", sql.replace("{units}", ""), since, by_run)
        of_units = {**since, "units": [unit_name(3), unit_name(9)]}
        yield Question(
            "flaky, of units", sql.replace("{units}", queries.OF_UNITS), of_units, by_run
        )
    good = {**REPOSITORY, "run_ids": [1, 2, 3], "units": [unit_name(3), unit_name(9)]}
    good["passed"] = OUTCOME_CODES["passed"]
    yield Question("passes of tests", f"{queries.GOOD} ORDER BY unit, run_id", good, by_run)
    asked = {**REPOSITORY, "messages": messages}
    yield Question("messages", f"{queries.MESSAGES} ORDER BY message", asked, {"files": "messages"})


def ask_duckdb(question: Question, source: str) -> tuple[list[list[Any]], float]:
    begin_s = time.monotonic()
    rows = duckdb.execute(question.of_files(source), question.values).fetchall()
    return [list(row) for row in rows], time.monotonic() - begin_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", type=Path, required=True, help="of an environment with chdb")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_results(folder)
        files = f"{folder}/objects/results/{{kind}}/*/*.parquet"
        in_duckdb, in_clickhouse = f"read_parquet('{files}')", f"file('{files}', Parquet)"
        wanted = Question("", "SELECT message FROM {files} LIMIT 9", {}, {"files": "messages"})
        messages = [row[0] for row in ask_duckdb(wanted, in_duckdb)[0]]
        engine = subprocess.Popen(
            [given.python, "-c", CLICKHOUSE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(engine.kill)
        assert engine.stdin is not None
        assert engine.stdout is not None
        differing = 0
        print(f"{'':30} {'rows':>6} {'DuckDB':>8} {'ClickHouse':>11}")
        for question in questions(messages):
            times: list[tuple[float, float]] = []
            rows: list[list[Any]] = []
            others: list[list[Any]] = []
            for _ in range(ROUNDS):
                rows, duckdb_s = ask_duckdb(question, in_duckdb)
                line = json.dumps([question.of_files(in_clickhouse), question.values])
                engine.stdin.write(f"{line}\n")
                engine.stdin.flush()
                others, clickhouse_s = json.loads(engine.stdout.readline())
                times.append((duckdb_s, clickhouse_s))
            least = [1000 * min(column) for column in zip(*times, strict=True)]
            same = "same" if rows == others else "DIFFERENT"
            differing += rows != others
            print(f"{question.name:30} {len(rows):6} {least[0]:8.0f} {least[1]:11.0f}   {same}")
        if differing:
            raise SystemExit(f"{differing} questions have other answers in ClickHouse")


if __name__ == "__main__":
    main()
