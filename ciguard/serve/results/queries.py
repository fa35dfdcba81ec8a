"""The SQL of the read model, and the filters of a run's rows from the query of a URL.

DuckDB and ClickHouse give the same answers; `benchmarks/serve_clickhouse.py` compares them.
`FROM {files}` is DuckDB's `read_parquet($files)`, and `[NOT] MATERIALIZED` is left out for
ClickHouse. Values are $parameters. Both engines have the same sums, extremes and window functions;
`median` (ClickHouse samples), `list(x ORDER BY y)`, `arg_max` and `quantile_cont` are not used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ciguard.errors import UsageError
from ciguard.serve.results.rows import OUTCOME_CODES

PAGE_SIZES: Final = ("25", "50", "100", "500", "1000")
MAX_PAGE: Final = 100_000
MAX_TEXT: Final = 500  # characters of a search
_TEXTS: Final = ("text", "suite", "variant", "shard")
# Columns of the rows of one run. Rows with equal values of the sort column are sorted by name.
RUN_COLUMNS: Final = (
    'suite, variant, unit, "case", shard, cpu_us, outcome, ending, status, tries, wall_us,'
    " peak_bytes, peak_delta_bytes, message"
)
SORT_COLUMNS: Final = {
    "name": "unit",
    "outcome": "outcome",
    "tries": "tries",
    "wall": "wall_us",
    "cpu": "cpu_us",
    "peak": "peak_bytes",
    "peak-delta": "peak_delta_bytes",
    "shard": "shard",
}
_SORTS: Final = (*SORT_COLUMNS, *(f"-{name}" for name in SORT_COLUMNS))
_OF_RUN: Final = (
    "repository_id = $repository_id AND run_id = $run_id AND run_attempt = $run_attempt"
)
# Conditions by the name of their parameter.
CONDITIONS: Final = {
    "text": '(position($text IN lower(unit)) > 0 OR position($text IN lower("case")) > 0)',
    "outcome": "outcome = $outcome",
    "suite": "suite = $suite",
    "variant": "variant = $variant",
    "shard": "shard = $shard",
}


_COUNTED: Final = {
    **{"total": "true", "flaky": "status = 0 AND tries > 1", "unfinished": "status = 2"},
    **{f"outcome_{code}": f"outcome = {code}" for code in OUTCOME_CODES.values()},
}
_RUN_SUMS: Final = ", ".join(
    f"count(CASE WHEN {condition} THEN 1 END) AS {name}" for name, condition in _COUNTED.items()
)
RUN_SUMS: Final = len(_COUNTED)


def select_run_rows(conditions: list[str], sort: str, *, is_descending: bool) -> str:
    """Return the SQL of one page of a run's rows, each after the sums of all pages.

    The first RUN_SUMS columns are numbers: all, flaky, unfinished, and each outcome in the order of
    its code. The next column is 0 in the one line of a page without rows. The result of a search is
    materialized for sums and page, which is faster than two searches; other rows are read twice.
    """
    where = " AND ".join([_OF_RUN, *(CONDITIONS[name] for name in conditions)])
    order = (
        f"{SORT_COLUMNS[sort]} {'DESC' if is_descending else 'ASC'} NULLS LAST,"
        ' suite, variant, unit, "case" NULLS FIRST'
    )
    kept = "MATERIALIZED" if "text" in conditions else "NOT MATERIALIZED"
    return (
        f"WITH found AS {kept} (SELECT {RUN_COLUMNS} FROM {{files}} WHERE {where}),"
        f" sums AS (SELECT {_RUN_SUMS} FROM found),"
        f" page AS (SELECT 1 AS is_row, {RUN_COLUMNS} FROM found ORDER BY {order}"
        " LIMIT $limit OFFSET $offset)"
        f" SELECT sums.*, coalesce(is_row, 0) AS is_row, {RUN_COLUMNS} FROM sums LEFT JOIN page"
        f" ON true ORDER BY {order}"
    )


MESSAGES: Final = (
    "SELECT message, any_value(text) FROM {files} WHERE repository_id = $repository_id"
    " AND message IN $messages AND text IS NOT NULL GROUP BY message"
)

# The last runs of a test: the worst outcome and the sum of times of its cases.
TEST_RUNS: Final = (
    "SELECT run_id, run_attempt, min(at_ms) AS started_ms, count(*) AS cases,"
    " max(outcome) AS worst_outcome, max(ending) AS worst_ending, max(status) AS worst_status,"
    " max(tries) AS most_tries, sum(wall_us) AS total_us, max(peak_bytes) AS most_bytes,"
    " max(peak_delta_bytes) AS most_delta_bytes, max(message) AS one_message"
    " FROM {files} WHERE key = $key AND repository_id = $repository_id AND suite = $suite"
    " AND variant = $variant AND unit = $unit{case}"
    " GROUP BY run_id, run_attempt ORDER BY run_id DESC, run_attempt DESC LIMIT $limit"
)
OF_CASE: Final = ' AND "case" = $case'
OF_RUNS: Final = " AND run_id IN (SELECT unnest($run_ids))"

# Sums of tests since a day: of the sums by day, and of the arrivals, which these do not include.
# ClickHouse cannot add signed to unsigned numbers, and resolves a name to an alias of the query.
_COUNTS: Final = ", ".join(
    f"CAST(sum({name}) AS BIGINT) AS {name}" for name in ("runs", "results", "failed", "flaky")
)
_SUMS: Final = (
    f"SELECT suite, variant, unit, {_COUNTS}, sum(wall_us) AS wall_us,"
    " CAST(sum(measured) AS BIGINT) AS measured, max(peak_bytes) AS peak_bytes,"
    " max(peak_delta_bytes) AS peak_delta_bytes"
)
_BY_DAY: Final = "FROM {by_day} WHERE repository_id = $repository_id AND day >= $day"
_ARRIVALS: Final = "FROM {arrivals} WHERE repository_id = $repository_id AND at_ms >= $from_ms"
_FAILED: Final = "CASE WHEN status = 1 THEN 1 ELSE 0 END"
_FLAKY: Final = "CASE WHEN status = 0 AND tries > 1 THEN 1 ELSE 0 END"
_OF_DAYS: Final = (
    f"{_SUMS} {_BY_DAY} AND key IN (SELECT key FROM leaders) GROUP BY suite, variant, unit"
)
_OF_ARRIVALS: Final = (
    f"{_SUMS} FROM (SELECT suite, variant, unit, run_id, run_attempt, 1 AS runs,"
    f" count(*) AS results, sum({_FAILED}) AS failed, sum({_FLAKY}) AS flaky,"
    " sum(one_us) AS wall_us, CASE WHEN count(one_us) > 0 THEN 1 ELSE 0 END AS measured,"
    " max(one_peak) AS peak_bytes, max(one_delta) AS peak_delta_bytes"
    " FROM (SELECT suite, variant, unit, run_id, run_attempt, status, tries,"
    " wall_us AS one_us, peak_bytes AS one_peak, peak_delta_bytes AS one_delta"
    f" {_ARRIVALS} AND key IN (SELECT key FROM leaders)) AS cases"
    " GROUP BY suite, variant, unit, run_id, run_attempt) AS by_run"
    " GROUP BY suite, variant, unit"
)
# For each measure: sum or maximum, its column in the sums by day, and its expression for a row.
_MEASURES: Final = {
    "time": ("sum", "wall_us", "wall_us"),
    "peak": ("max", "peak_bytes", "peak_bytes"),
    "peak-delta": ("max", "peak_delta_bytes", "peak_delta_bytes"),
    "failures": ("sum", "failed", _FAILED),
    "flaky": ("sum", "flaky", _FLAKY),
}
RANKING_COLUMNS: Final = {by: column for by, (_, column, _) in _MEASURES.items()}


def select_ranking(by: str, *, by_day: bool, arrivals: bool) -> str:
    """Return the SQL of the tests with the greatest sums or maxima of a measure.

    The tests are selected by key and one column, and only these are summed by name: a third of the
    time. Of equal tests at the end of the list, the smaller keys are selected. If two tests shared
    a key, each would have its own line, and the last line would be cut.

    Args:
        by_day, arrivals: whether files of these kinds exist.
    """
    total, column, of_row = _MEASURES[by]
    values = (f"SELECT key, {column} AS value {_BY_DAY}",) * by_day
    values += (f"SELECT key, {of_row} AS value {_ARRIVALS}",) * arrivals
    parts = " UNION ALL ".join((_OF_DAYS,) * by_day + (_OF_ARRIVALS,) * arrivals)
    return (
        f"WITH leaders AS (SELECT key FROM (SELECT key, {total}(value) AS total"
        f" FROM ({' UNION ALL '.join(values)}) AS found GROUP BY key) AS totals"
        " WHERE total > 0 ORDER BY total DESC, key LIMIT $limit)"
        f" SELECT * FROM ({_SUMS} FROM ({parts}) AS parts GROUP BY suite, variant, unit) AS sums"
        f" ORDER BY {column} DESC, suite, variant, unit LIMIT $limit"
    )


# Rows with a failure or retry, for flaky tests: their number in each run, the newest first, and
# their tests with the time of failed tries, each as long as the final one; of all or some units.
_TROUBLE: Final = (
    "FROM {files} WHERE repository_id = $repository_id"
    " AND at_ms >= $from_ms AND (status = 1 OR tries > 1){units}"
)
OF_UNITS: Final = " AND unit IN (SELECT unnest($units))"
TROUBLED_RUNS: Final = (
    f"SELECT run_id, run_attempt, max(at_ms) AS started_ms, count(*) AS number {_TROUBLE}"
    " GROUP BY run_id, run_attempt ORDER BY started_ms DESC, run_id DESC, run_attempt DESC"
)
TROUBLED: Final = (
    "SELECT suite, variant, unit, run_id, run_attempt, max(status) AS worst_status,"
    " max(tries) AS most_tries,"
    " sum(wall_us * CASE WHEN status = 1 THEN tries ELSE tries - 1 END) AS lost_us"
    f" {_TROUBLE} GROUP BY suite, variant, unit, run_id, run_attempt"
    " ORDER BY run_id DESC, run_attempt DESC, suite, variant, unit"
)
# The first time of tests, by the kind of file that has it.
FIRST_TIMES: Final = (
    "SELECT key, min({ms}) FROM read_parquet($files) WHERE repository_id = $repository_id"
    " AND key IN (SELECT unnest($keys)) GROUP BY key"
)
FIRST_MS: Final = {"by_day": "86400000 * CAST(day AS BIGINT)", "arrival": "at_ms"}
# Passes of tests in some runs. A subquery looks thousands of names up faster than a list: in a
# million rows, in 70 instead of 165 ms.
GOOD: Final = (
    "SELECT suite, variant, unit, run_id, run_attempt FROM {files}"
    " WHERE repository_id = $repository_id AND run_id IN $run_ids"
    f"{OF_UNITS} GROUP BY suite, variant, unit, run_id, run_attempt"
    " HAVING max(status) = 0 AND max(outcome) = $passed"
)

# Tests whose passes of late runs are all above, or all below, those of early runs, by this gap. A
# list of runs is found in the row groups of the files by run.
MOVERS: Final = (
    "SELECT suite, variant, unit, avg(early) AS before, avg(late) AS after,"
    " greatest(min(late) - max(early), min(early) - max(late)) AS gap FROM (SELECT suite, variant,"
    " unit, CASE WHEN run_id IN $early THEN total END AS early,"
    " CASE WHEN run_id IN $late THEN total END AS late FROM (SELECT suite, variant, unit, run_id,"
    " run_attempt, {measure} AS total FROM {files} WHERE repository_id = $repository_id"
    " AND run_id IN $runs AND status = 0 GROUP BY suite, variant, unit, run_id, run_attempt))"
    " GROUP BY suite, variant, unit HAVING gap > 0 AND count(early) > 2 AND count(late) > 2"
    " ORDER BY gap DESC, suite, variant, unit LIMIT $limit"
)
MOVER_MEASURES: Final = {"time": "sum(wall_us) / 1e6", "peak": "max(peak_bytes)"}


@dataclass(frozen=True, slots=True)
class ResultFilters:
    """The filters of a run's rows, and their order; None does not filter.

    `text` is a part of the name of a unit or case, upper and lower case alike. By default, the
    worst outcomes come first: people open a run to see its failures.
    """

    text: str | None = None
    outcome: str | None = None
    suite: str | None = None
    variant: str | None = None
    shard: str | None = None
    sort: str = "outcome"
    is_descending: bool = True
    page: int = 1
    page_size: int = 50

    @property
    def values(self) -> dict[str, Any]:
        """Return the values of the conditions, by the name of their parameter."""
        values: dict[str, Any] = {name: getattr(self, name) for name in _TEXTS}
        values["text"] = self.text.lower() if self.text else None
        values["outcome"] = OUTCOME_CODES[self.outcome] if self.outcome is not None else None
        return {name: value for name, value in values.items() if value is not None}


def parse_filters(query: Mapping[str, str]) -> ResultFilters:
    """Read filters from the query of a URL; other names are ignored, and "" counts as absent.

    The names are `text`, `outcome`, `suite`, `variant`, `shard`, `sort` ("-wall" is descending),
    `page` and `size`.

    Raises:
        UsageError: the first mistake.
    """
    given = (name for name in _TEXTS if query.get(name) or (name in query and name != "text"))
    texts = {name: query[name] for name in given}
    for name, text in texts.items():
        if len(text) > MAX_TEXT:
            raise UsageError(f"expected at most {MAX_TEXT} characters", where=name)
    sort = query_choice(query, "sort", _SORTS, "-outcome")
    return ResultFilters(
        **texts,
        outcome=query_choice(query, "outcome", OUTCOME_CODES, "") or None,
        sort=sort.removeprefix("-"),
        is_descending=sort.startswith("-"),
        page=query_number(query, "page", 1, least=1, most=MAX_PAGE),
        page_size=int(query_choice(query, "size", PAGE_SIZES, "50")),
    )


def query_number(
    query: Mapping[str, str], name: str, default: int, *, least: int, most: int
) -> int:
    """Return a number of the query of a URL.

    Raises:
        UsageError: the text is no number, or out of bounds.
    """
    text = query.get(name, "")
    if not text:
        return default
    if text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most:  # noqa: PLR2004
        return int(text)
    what = f"expected a whole number from {least} to {most}, found {text[:80]!r}"
    raise UsageError(what, where=name, fix=f"leave {name} out of the address")


def query_choice(
    query: Mapping[str, str], name: str, choices: Collection[str], default: str
) -> str:
    """Return a word of the query of a URL.

    Raises:
        UsageError: the word is not one of the choices.
    """
    text = query.get(name, "")
    if text and text not in choices:
        what = f"expected one of {', '.join(choices)}, found {text[:80]!r}"
        raise UsageError(what, where=name, fix=f"leave {name} out of the address")
    return text or default
