"""`/OWNER/NAME/offenders` and `/flaky`: the tests that cost most, and those that are flaky."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from ciguard.serve.results.parquet_columns import DAY_MS
from ciguard.serve.results.queries import OFFENDER_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.serve.pages.visit import Visit
    from ciguard.serve.results.flaky_tests import FlakyTest
    from ciguard.serve.results.read_model import UnitSums

DAYS: Final = 30
MAX_DAYS: Final = 3650
LIMIT: Final = 100
TITLES: Final[Mapping[str, str]] = {
    "time": "Total time",
    "peak": "Largest peak",
    "peak-delta": "Largest growth",
    "failures": "Failures",
    "flaky": "Passed on retry",
}


@dataclass(frozen=True, slots=True)
class OffendersPage:
    """The worst tests by one measure, the worst first."""

    TEMPLATE: ClassVar[str] = "offenders"

    repository: str
    by: str
    days: int
    missing_runs: tuple[str, ...]
    tests: tuple[UnitSums, ...]

    def titles(self) -> Mapping[str, str]:
        """Return the measures in words."""
        return TITLES


@dataclass(frozen=True, slots=True)
class FlakyPage:
    """The flaky tests, the most often flaky first.

    Attributes:
        from_ms: all runs that started since are counted, and no other.
        is_partial: these are not all of the days that were asked for.
    """

    TEMPLATE: ClassVar[str] = "flaky"

    repository: str
    days: int
    from_ms: int
    is_partial: bool
    missing_runs: tuple[str, ...]
    tests: tuple[FlakyTest, ...]


def offenders_page(visit: Visit) -> OffendersPage:
    """Find the worst tests of a time.

    Raises:
        PageNotFound: as `Visit.find_repository`.
        UsageError: the query has no sense.
        RemoteError: results cannot be read.
    """
    by, days = visit.choice("by", OFFENDER_COLUMNS, "time"), _days(visit)
    with visit.service.database.read() as connection:
        repository = visit.find_repository(connection)
    from_ms = max(0, visit.now_ms - days * DAY_MS)
    answer = visit.read_model.offenders(repository.id, by, from_ms, LIMIT)
    return OffendersPage(repository.full_name, by, days, answer.missing_names, answer.found)


def flaky_page(visit: Visit) -> FlakyPage:
    """Find the flaky tests of a time.

    Raises:
        PageNotFound: as `Visit.find_repository`.
        UsageError: the query has no sense.
        RemoteError: results cannot be read.
    """
    days = _days(visit)
    with visit.service.database.read() as connection:
        repository = visit.find_repository(connection)
    from_ms = max(0, visit.now_ms - days * DAY_MS)
    answer = visit.read_model.flaky(repository.id, from_ms, LIMIT)
    return FlakyPage(
        repository.full_name,
        days,
        answer.found.from_ms,
        answer.found.is_partial,
        answer.missing_names,
        answer.found.tests,
    )


def _days(visit: Visit) -> int:
    return visit.number("days", DAYS, least=1, most=MAX_DAYS)
