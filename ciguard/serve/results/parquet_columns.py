"""The columns of each kind of result file, and the SQL that derives one kind from another.

    arrival     all columns, as rows arrive; `text` is set at the first row of a message
    by_run      rows sorted by run, then name; without `key`, which the names give
    by_test     the same rows sorted by `key`, then run; without `shard` and `cpu_us`
    messages    the text of each message of a pair once
    troubled    of the rows by run those that failed or were retried; earlier files lack `wall_us`
    by_day      sums for each test, sorted by `key`, and day (UTC), which outlive the rows

Whole numbers only: microseconds, bytes, milliseconds since 1970. Measured with 100,000 tests of
lognormal times and sizes: 12 bytes a row by run, 8 by test; bytes of Parquet's version 2 are more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ciguard.serve.results.rows import ResultRow, RunResults, hash_message, hash_units
from ciguard.serve.state.run_key import RUN_COLUMNS

Kind = Literal["arrival", "by_run", "by_test", "messages", "troubled", "by_day"]
# The files of one compaction. Messages and troubled rows are selected from its file by run.
PAIR: Final[tuple[Kind, ...]] = ("by_run", "by_test", "messages", "troubled", "by_day")
OUT_OF_ROWS: Final = ("messages", "troubled")

# A reader holds a kilobyte for each column of a row group. It finds the pages of a run or test in a
# row group by their minimum and maximum values, so that row groups can be large.
ROW_GROUP: Final = 122_880
PAGE_BYTES: Final = 65_536
PARQUET: Final = (
    f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP},"
    f" WRITE_PAGE_INDEX true, DATA_PAGE_SIZE_LIMIT {PAGE_BYTES})"
)
# Each question reads all sums of a repository; most of its time was decompression of zstd.
SUMS_PARQUET: Final = PARQUET.replace("zstd", "lz4_raw")
# Arrivals are few, and people look at runs that just ended: a third more bytes than zstd, for a
# quarter less time to sort. With small row groups, the first names of a run are found sooner.
ARRIVAL_ROW_GROUP: Final = 20_480
ARRIVAL_PARQUET: Final = SUMS_PARQUET.replace(str(ROW_GROUP), str(ARRIVAL_ROW_GROUP))
MAX_S: Final = 1e9  # a longer time is an error of a clock, and counts as not measured
MAX_BYTES: Final = 2.0**53
DAY_MS: Final = 86_400_000

# DuckDB's types: a column of None only has no type.
_TYPES: Final = {
    **dict.fromkeys(("repository_id", "run_id", "at_ms", "key"), "BIGINT"),
    "run_attempt": "INTEGER",
    **dict.fromkeys(("suite", "variant", "unit", "case", "shard"), "VARCHAR"),
    **dict.fromkeys(("outcome", "ending", "status", "tries"), "UTINYINT"),
    **dict.fromkeys(("wall_us", "cpu_us", "peak_bytes", "peak_delta_bytes"), "BIGINT"),
    "message": "BIGINT",
    "text": "VARCHAR",
}
_COLUMNS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "by_run": tuple(name for name in _TYPES if name not in ("key", "text")),
    "by_test": tuple(name for name in _TYPES if name not in ("shard", "cpu_us", "text")),
}
_ORDER: Final[Mapping[Kind, str]] = {
    "arrival": 'repository_id, run_id, run_attempt, suite, variant, unit, "case"',
    "by_run": 'repository_id, run_id, run_attempt, suite, variant, unit, "case"',
    "by_test": 'key, run_id, run_attempt, "case"',
    "messages": "message",
    "troubled": "repository_id, run_id, run_attempt, suite, variant, unit",
    "by_day": "repository_id, key, day, suite, variant, unit",
}
_TEST: Final = "repository_id, key, suite, variant, unit"
_FLAKY: Final = "status = 0 AND tries > 1"  # good after a failure
# Columns of the sums by day that can be added.
_ADDED: Final = ("runs", "results", "failed", "flaky", "unfinished", "wall_us", "measured")

# Conditions for the rows of a new pair. Its sources are lists of files, $arrivals and $pairs; those
# of $pairs are of the new file's kind. Rows of a repository or run, and old rows, can be left out.
_OF_RUN: Final = (
    "(repository_id = $run_repository AND run_id = $run_id AND run_attempt = $run_attempt)"
)
_OF_OTHERS: Final = "repository_id <> $without_repository"
_OF_OTHER_RUNS: Final = f"{_OF_OTHERS} AND NOT {_OF_RUN}"
_NOT_OLD: Final = "at_ms >= $from_ms"


def _union(columns: str, condition: str, *, arrivals: bool, pairs: bool) -> str:
    sources = ("$arrivals",) * arrivals + ("$pairs",) * pairs
    parts = (f"SELECT {columns} FROM read_parquet({it}) WHERE {condition}" for it in sources)
    return " UNION ALL ".join(parts)


# The SQL of a new arrival file, from a relation `incoming` with `arrays`.
_TYPED: Final = ", ".join(f'"{name}"::{type_} AS "{name}"' for name, type_ in _TYPES.items())
SELECT_ARRIVAL: Final = f"SELECT {_TYPED} FROM incoming ORDER BY {_ORDER['arrival']}"


def select_compacted(kind: Kind, *, arrivals: bool, pairs: bool, drops_run: bool = False) -> str:
    """Return the SQL of a new file of a pair.

    Messages and troubled rows come from $rows, the new file by run. The sums of a dropped run come
    from $dropped, the files by test of the old pairs.

    Args:
        arrivals, pairs: whether $arrivals and $pairs have files.
        drops_run: leave out the rows of one run.
    """
    if kind == "messages":
        named = "(SELECT message FROM read_parquet($rows) WHERE message IS NOT NULL)"
        condition = f"text IS NOT NULL AND message IN {named}"
        texts = _union("repository_id, message, text", condition, arrivals=arrivals, pairs=pairs)
        grouped = "SELECT repository_id, message, any_value(text) AS text"
        order = f"GROUP BY repository_id, message ORDER BY {_ORDER[kind]}"
        return f"{grouped} FROM ({texts}) {order}"
    if kind == "troubled":
        columns = f"{_ORDER[kind]}, at_ms, status, tries, wall_us"
        rows = "read_parquet($rows) WHERE status = 1 OR tries > 1"
        return f"SELECT {columns} FROM {rows} ORDER BY {_ORDER[kind]}"
    if kind == "by_day":
        return _select_by_day(arrivals=arrivals, pairs=pairs, drops_run=drops_run)
    stay = f"{_OF_OTHER_RUNS if drops_run else _OF_OTHERS} AND {_NOT_OLD}"
    columns = ", ".join(f'"{name}"' for name in _COLUMNS[kind])
    union = _union(columns, stay, arrivals=arrivals, pairs=pairs)
    return f"{union} ORDER BY {_ORDER[kind]}"


def _select_by_day(*, arrivals: bool, pairs: bool, drops_run: bool) -> str:
    """Return the SQL of sums of arrivals and of earlier sums; each run is in one file.

    The sums of a dropped run are subtracted, because the rows of other runs may be pruned. Maxima
    of peaks keep those of the dropped run.
    """
    parts = []
    if arrivals:
        parts.append(_count_by_day("$arrivals", _OF_OTHER_RUNS if drops_run else _OF_OTHERS))
    if pairs:
        parts.append(f"SELECT * FROM read_parquet($pairs) WHERE {_OF_OTHERS}")
    if pairs and drops_run:
        negative = ", ".join(f"-{name} AS {name}" for name in _ADDED)
        dropped = _count_by_day("$dropped", _OF_RUN)
        parts.append(f"SELECT {_TEST}, day, {negative} FROM ({dropped})")
    union = " UNION ALL BY NAME ".join(parts)
    # A pull request can forge records: a sum that exceeds its column counts as not measured.
    sums = ", ".join(f"try_cast(sum({name}) AS BIGINT) AS {name}" for name in _ADDED)
    return (
        f"SELECT {_TEST}, day::INTEGER AS day, {sums}, max(peak_bytes)::BIGINT AS peak_bytes,"
        f" max(peak_delta_bytes)::BIGINT AS peak_delta_bytes FROM ({union})"
        f" GROUP BY {_TEST}, day HAVING sum(runs) > 0 ORDER BY {_ORDER['by_day']}"
    )


def _count_by_day(files: str, condition: str) -> str:
    """Return the SQL of sums of rows."""
    return (
        f"SELECT {_TEST}, day, count(*) AS runs, sum(results) AS results, sum(failed) AS failed,"
        " sum(flaky) AS flaky, sum(unfinished) AS unfinished, sum(wall_us) AS wall_us,"
        " sum(measured) AS measured, max(peak_bytes) AS peak_bytes,"
        " max(peak_delta_bytes) AS peak_delta_bytes FROM ("
        f" SELECT {_TEST}, run_id, run_attempt, min(at_ms) // {DAY_MS} AS day,"
        " count(*) AS results, count(*) FILTER (WHERE status = 1) AS failed,"
        f" count(*) FILTER (WHERE {_FLAKY}) AS flaky,"
        " count(*) FILTER (WHERE status = 2) AS unfinished, sum(wall_us) AS wall_us,"
        " CASE WHEN count(wall_us) > 0 THEN 1 ELSE 0 END AS measured,"
        " max(peak_bytes) AS peak_bytes, max(peak_delta_bytes) AS peak_delta_bytes"
        f" FROM read_parquet({files}) WHERE {condition}"
        f" GROUP BY {_TEST}, run_id, run_attempt) GROUP BY {_TEST}, day"
    )


def arrays(runs: Sequence[RunResults]) -> dict[str, NDArray[Any]]:
    """Return the rows of runs as columns, for `SELECT_ARRIVAL`."""
    sizes = [len(run.rows) for run in runs]
    values = zip(*chain.from_iterable(run.rows for run in runs), strict=True)
    columns: dict[str, Any] = dict(zip(ResultRow._fields, values, strict=True))
    arrays_by_name = {
        name: np.repeat([getattr(run.key, name) for run in runs], sizes) for name in RUN_COLUMNS
    }
    arrays_by_name["at_ms"] = np.repeat([run.at_ms for run in runs], sizes)
    names = ("suite", "variant", "unit")
    repository_ids = arrays_by_name["repository_id"].tolist()
    tests = zip(repository_ids, *map(columns.__getitem__, names), strict=True)
    arrays_by_name["key"] = np.array(hash_units(tests), np.int64)
    for name in (*names, "case", "shard"):
        arrays_by_name[name] = _texts(columns[name])
    for name in ("outcome", "ending", "status", "tries"):
        arrays_by_name[name] = np.array(columns[name], np.uint8)
    arrays_by_name["wall_us"] = _integers(columns["wall_s"], 1e6, MAX_S)
    arrays_by_name["cpu_us"] = _integers(columns["cpu_s"], 1e6, MAX_S)
    arrays_by_name["peak_bytes"] = _integers(columns["peak_bytes"], 1, MAX_BYTES)
    arrays_by_name["peak_delta_bytes"] = _integers(columns["peak_delta_bytes"], 1, MAX_BYTES)
    return {**arrays_by_name, **_messages(repository_ids, columns["message"])}


def _messages(
    repositories: Sequence[int], messages: Sequence[str | None]
) -> dict[str, NDArray[Any]]:
    """Return the keys of messages, and the text of each message at its first row."""
    keys = np.ma.masked_array(np.zeros(len(messages), np.int64), mask=True)
    texts = np.full(len(messages), None, dtype=object)
    seen: set[int] = set()
    for position, message in enumerate(messages):
        if message:
            key = hash_message(repositories[position], message)
            keys[position] = key
            if key not in seen:
                seen.add(key)
                texts[position] = message
    return {"message": keys, "text": _texts(texts)}


def _integers(numbers: Sequence[float | None], scale: float, limit: float) -> NDArray[Any]:
    """Return scaled integers, masked if not measured or beyond the limit."""
    column = np.array(numbers, np.float64)
    unmeasured = ~(np.abs(column) <= limit)
    scaled = np.rint(np.where(unmeasured, 0, column) * scale)
    return np.ma.masked_array(scaled.astype(np.int64), mask=unmeasured)


def _texts(texts: Iterable[str | None]) -> NDArray[np.object_]:
    """Return valid texts for UTF-8: names may have lone surrogates."""
    column = np.array(texts, dtype=object)
    try:
        "".join(filter(None, column)).encode()
    except UnicodeEncodeError:
        valid = [text and text.encode("utf-8", "replace").decode() for text in column]
        return np.array(valid, dtype=object)
    return column
