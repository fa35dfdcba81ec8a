"""The pages "Slowest and largest" (`/OWNER/NAME/offenders`) and "Flaky" (`/OWNER/NAME/flaky`).

The first ranks tests by one measure: time, peak, growth of memory, failures, or passes on retry.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ciguard.errors import RemoteError
from ciguard.render.pages import FlakyPage, FlakyTest, SlowestPage
from ciguard.serve.pages.visit import Visit
from ciguard.serve.results.parquet_columns import DAY_MS
from ciguard.serve.results.queries import RANKING_COLUMNS, query_choice, query_number
from ciguard.serve.results.read_model import RANKED
from ciguard.serve.state import run_rows
from ciguard.serve.state.repositories import Repository

DAYS: Final = 30
MAX_DAYS: Final = 3650


def slowest_page(visit: Visit) -> SlowestPage:
    """Rank the tests of the last days by the measure of the query.

    Raises:
        PageNotFound: as `Visit.find_repository`.
        UsageError: the query is invalid.
        RemoteError: results cannot be read.
    """
    by = query_choice(visit.query, "by", RANKING_COLUMNS, "time")
    repository, days, from_ms = find_period(visit)
    ranking = visit.read_model.ranking(repository.id, by, from_ms, RANKED)
    return SlowestPage(repository.full_name, by, days, ranking.missing_names, ranking.value)


def flaky_page(visit: Visit) -> FlakyPage:
    """Find the flaky tests of the last days; raise as `slowest_page`."""
    repository, days, from_ms = find_period(visit)
    answer = visit.read_model.flaky(repository.id, from_ms)
    with visit.service.database.read() as connection:
        owners = run_rows.facts_of_tests(connection, repository.id, "owners_of")
        quarantined = run_rows.facts_of_tests(connection, repository.id, "quarantined")
    flaky = answer.value
    head = (repository.full_name, days, flaky.from_ms, flaky.is_partial, answer.missing_names)
    return FlakyPage(*head, flaky.tests[:RANKED], owners, quarantined)


def flaky_units(
    visit: Visit, repository: Repository, units: Collection[str]
) -> tuple[FlakyTest, ...] | None:
    """Find the flaky and broken tests of some names; None if their results cannot be read."""
    from_ms = max(0, visit.now_ms - DAYS * DAY_MS)
    try:
        found = visit.read_model.flaky(repository.id, from_ms, sorted(units))
    except RemoteError:
        return None
    return None if found.missing_runs else found.value.tests


def find_period(visit: Visit) -> tuple[Repository, int, int]:
    """Return the repository, the number of days of the query, and their start."""
    days = query_number(visit.query, "days", DAYS, least=1, most=MAX_DAYS)
    with visit.service.database.read() as connection:
        repository = visit.find_repository(connection)
    return repository, days, max(0, visit.now_ms - days * DAY_MS)
