"""`/OWNER/NAME/offenders` and `/flaky`: the tests that cost most, and those that are flaky."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from ciguard.serve.pages.page_templates import moment
from ciguard.serve.pages.result_lines import damage_notices, run_names, seconds
from ciguard.serve.results.parquet_columns import DAY_MS
from ciguard.serve.results.queries import OFFENDER_COLUMNS
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.serve.pages.visit import Visit

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
class OffenderLine:
    """A test over the runs since a day: sums, but the largest sizes; None is not measured.

    `wall_s` is of the `measured` runs.
    """

    suite: str
    variant: str
    unit: str
    runs: int
    results: int
    failed: int
    flaky: int
    wall_s: float | None
    measured: int
    peak_bytes: int | None
    peak_delta_bytes: int | None


@dataclass(frozen=True, slots=True)
class OffendersPage:
    """The worst tests by one measure, the worst first."""

    TEMPLATE: ClassVar[str] = "offenders"

    repository: str
    by: str
    days: int
    missing_runs: tuple[str, ...]
    tests: tuple[OffenderLine, ...]

    @property
    def notices(self) -> tuple[str, ...]:
        """What the numbers are not of."""
        return damage_notices(self.missing_runs)

    @property
    def titles(self) -> Mapping[str, str]:
        """The measures, in words."""
        return TITLES


@dataclass(frozen=True, slots=True)
class FlakyLine:
    """A test that passed and failed at one commit.

    Attributes:
        retried: runs in which it passed after a failure.
        contradicted: commits at which it passed in one run and failed in another.
        last_run_id, last_run_attempt: the latest of these runs.
    """

    suite: str
    variant: str
    unit: str
    retried: int
    contradicted: int
    last_run_id: int
    last_run_attempt: int


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
    tests: tuple[FlakyLine, ...]

    @property
    def notices(self) -> tuple[str, ...]:
        """What the numbers are not of."""
        partial = (
            f"Partial: more failed or was retried in {count_of(self.days, 'day')} than this page"
            f" looks at. It counts all runs since {moment(self.from_ms)}, and none before."
        )
        return (partial,) * self.is_partial + damage_notices(self.missing_runs)


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
    tests = tuple(
        OffenderLine(
            one.suite,
            one.variant,
            one.unit,
            one.runs,
            one.results,
            one.failed,
            one.flaky,
            seconds(one.wall_us),
            one.measured,
            one.peak_bytes,
            one.peak_delta_bytes,
        )
        for one in answer.found
    )
    return OffendersPage(repository.full_name, by, days, run_names(answer.missing_runs), tests)


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
    tests = tuple(
        FlakyLine(*one.key, one.retried, one.contradicted, one.last.run_id, one.last.run_attempt)
        for one in answer.found.tests
    )
    return FlakyPage(
        repository.full_name,
        days,
        answer.found.from_ms,
        answer.found.is_partial,
        run_names(answer.missing_runs),
        tests,
    )


def _days(visit: Visit) -> int:
    return visit.number("days", DAYS, least=1, most=MAX_DAYS)
