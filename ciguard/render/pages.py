"""Pages by templates/serve: their values, with filters, addresses and JSON. Pure.

The service reads values from its database and files of results, `ciguard site` from a history.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from statistics import multimode
from typing import Any, ClassVar, Final, Literal, Protocol, get_args
from urllib.parse import quote, urlencode

from jinja2 import Environment

from ciguard import text
from ciguard.model import BAD_OUTCOMES, UnitKey
from ciguard.render import templates
from ciguard.render.change_point import find_change
from ciguard.render.charts import RunChart, Trend, draw_runs
from ciguard.render.formats import block_values
from ciguard.render.variant_groups import fingerprint

SCHEMA: Final = 1
ROWS: Final = 20  # of a table of a document, in HTML; JSON has all
FOLDER: Final = "serve/"
NAMES: Final = ("suite", "variant")  # "" is a valid value: of a plan without suites
NONE: Final = "–"
RunVerdict = Literal["passed", "failed", "incomplete", "not_evaluated", "foreign"]
VERDICTS: Final[tuple[RunVerdict, ...]] = get_args(RunVerdict)
BY_CHANCE: Final = 0.001  # that a flaky test fails the newest runs; below, it is a broken one
TITLES: Final[Mapping[str, str]] = {
    "time": "Total time",
    "peak": "Largest peak",
    "peak-delta": "Largest growth",
    "failures": "Failures",
    "flaky": "Passed on retry",
}
_AGES: Final = (("d", 86_400), ("h", 3_600), ("min", 60))


class View(Protocol):
    """The value of a page: a frozen dataclass, with units in the names of its fields.

    JSON has the fields and properties of a value and of the values in it; methods are for HTML.

    Attributes:
        TEMPLATE: name of the template in templates/serve.
    """

    TEMPLATE: ClassVar[str]


def as_json(view: View) -> str:
    """Return every value of the view as JSON; unknown values are null."""
    return json.dumps({"schema": SCHEMA, **_members(view)}, default=_members, indent=1) + "\n"


def _members(value: object) -> dict[str, Any]:
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _names(kind)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    members = [item for base in reversed(kind.__mro__) for item in vars(base).items()]
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is no value of a page")
    properties = (name for name, member in members if isinstance(member, property))
    return *(field.name for field in fields(kind)), *properties


class OfTest(Protocol):
    """A row of a table about a test."""

    @property
    def suite(self) -> str: ...
    @property
    def variant(self) -> str: ...
    @property
    def unit(self) -> str: ...


def age(from_ms: int | None, now_ms: int) -> str:
    """Format an age as "3 d", "2 h", "5 min" or "now", also for a clock that is ahead."""
    if from_ms is None:
        return NONE
    age_s = (now_ms - from_ms) / 1000
    for unit, seconds in _AGES:
        if age_s >= seconds:
            return f"{age_s // seconds:.0f} {unit}"
    return "now"


def moment(at_ms: float) -> str:
    """Format date and time: "2026-11-26 19:08 UTC"."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def machine_time(at_ms: int) -> str:
    """Format a time for HTML's `datetime`."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def share(part: float | None, whole: float | None) -> str:
    """Format a share as "61 %"; an en dash if a value is unknown."""
    return f"{100 * part / whole:.0f} %" if part is not None and whole else NONE


def ratio(part: float | None, whole: float | None) -> str:
    """Format a ratio as "1.04"; an en dash if a value is unknown."""
    return f"{part / whole:.2f}" if part is not None and whole else NONE


def duration(value_s: float) -> str:
    """Format a duration; below 5 ms, as for most unit tests, "< 0.01 s" instead of "0.00 s"."""
    return "< 0.01 s" if 0 < value_s < 0.005 else text.duration(value_s)  # noqa: PLR2004


def place(of: OfTest) -> str:
    """Format suite and variant as "unit, py311"; an en dash if a plan has neither."""
    return ", ".join(text.one_line(name, 40) for name in (of.suite, of.variant) if name) or NONE


def address_of_test(full_name: str, of: OfTest, case: str | None = None) -> str:
    """Return the address of the page of a test, or of one of its cases."""
    named = {"suite": of.suite, "variant": of.variant, "unit": of.unit, "case": case}
    return page_address(f"{repository_path(full_name)}/tests", named)


def _measured(show: Callable[[float], str]) -> Callable[[float | None], str]:
    # An en dash where a value is unknown.
    return lambda value: NONE if value is None else show(value)


FILTERS: Final[Mapping[str, Callable[..., str]]] = {
    "age": age,
    "duration": _measured(duration),
    "machine_time": machine_time,
    "moment": _measured(moment),
    "number": _measured("{:,}".format),
    "path": quote,
    "place": place,
    "price": _measured(text.price),
    "size": _measured(text.size),
    "test_name": lambda of: text.whole_name(UnitKey(of.suite, of.variant, of.unit)),
    "verdict_words": lambda verdict: verdict.replace("_", " "),
}


@lru_cache(maxsize=1)
def page_environment(**filters: Callable[..., str]) -> Environment:
    """Return the environment of pages, with the filters that differ: `owners` and `static`."""
    environment = templates.environment().overlay()
    environment.filters = {**environment.filters, **FILTERS, **filters}
    environment.globals = {
        **environment.globals,
        "share": share,
        "ratio": ratio,
        "address_of_test": address_of_test,
        "page_address": page_address,
    }
    return environment


def render(environment: Environment, name: str, **values: Any) -> str:
    template = environment.get_template(f"{FOLDER}{name}.html.j2")
    return template.render(most_rows=None, **block_values(ROWS), **values)


def page_address(path: str, query: Mapping[str, str | int | None]) -> str:
    """Join a path and a query, without values None, and without "" except for NAMES."""
    known = {
        name: value
        for name, value in query.items()
        if value is not None and (value != "" or name in NAMES)
    }
    return f"{path}?{urlencode(known, errors='replace', quote_via=quote)}" if known else path


def repository_path(full_name: str) -> str:
    """Return the address of a repository's page."""
    return "/" + quote(full_name)


@dataclass(frozen=True, slots=True, order=True)
class RunKey:
    """A run attempt; attempts of one repository are ordered from old to new."""

    repository_id: int
    run_id: int
    run_attempt: int

    def __str__(self) -> str:
        return f"run {self.run_id}/{self.run_attempt} of repository {self.repository_id}"

    def numbers(self) -> tuple[int, int, int]:
        """Return the values of RUN_COLUMNS."""
        return self.repository_id, self.run_id, self.run_attempt


class RunNumbers:
    """Base of rows of a run attempt: gives their JSON and templates the numbers of the key."""

    __slots__ = ()
    key: RunKey

    @property
    def run_id(self) -> int:
        """Return GitHub's number of the run."""
        return self.key.run_id

    @property
    def run_attempt(self) -> int:
        """Return the number of the attempt, from 1."""
        return self.key.run_attempt


@dataclass(frozen=True, slots=True)
class RunSuiteRow:
    """The cell of a run for one suite and variant; `counts` maps an outcome to cases."""

    suite: str
    variant: str
    planned: int
    missing: int
    counts: Mapping[str, int]
    wall_s: float | None
    peak_bytes: int | None
    budget_bytes: int | None

    @property
    def bad(self) -> int:
        """Return the number of cases with a bad outcome."""
        return sum(self.counts.get(outcome, 0) for outcome in BAD_OUTCOMES)

    @property
    def is_green(self) -> bool:
        """Return whether every planned test has a result, and none of them is bad."""
        return self.missing == 0 and self.bad == 0


@dataclass(frozen=True, slots=True)
class RunRow(RunNumbers):
    """A judged run attempt; `judged_at_ms` is set by the database when it is recorded.

    `comparison`, `headline` and `answer` are "" if absent, numbers None if not measured. `answer`
    is the name of the object with verdict and comparison. `cells` are () in a row that was read,
    until `with_cells` reads them. `facts` is None in a row of an older ciguard.
    """

    key: RunKey
    workflow: str
    event: str
    branch: str
    head_sha: str
    pull_request: int | None
    is_base_branch: bool
    started_at_ms: int
    completed_at_ms: int
    verdict: RunVerdict
    comparison: str = ""
    headline: str = ""
    exit_code: int = 0
    planned: int = 0
    missing: int = 0
    makespan_s: float | None = None
    bound_s: float | None = None
    price_usd: float | None = None
    answer: str = ""
    judged_at_ms: int = field(default=0, compare=False)
    cells: tuple[RunSuiteRow, ...] = ()
    facts: Mapping[str, Any] | None = None

    @property
    def is_complete(self) -> bool:
        """Return whether every planned test is proved to have run."""
        return self.verdict in ("passed", "failed")

    @property
    def is_red(self) -> bool:
        """Return whether the run did not pass, or its comparison fails it."""
        return self.verdict != "passed" or self.exit_code != 0


class Tried:
    """Base of results that may be flaky: a result is flaky if it is good after a failed try."""

    __slots__ = ()
    status: str
    tries: int

    @property
    def is_flaky(self) -> bool:
        """Return whether the test passed after a failure in the same run."""
        return self.status == "good" and self.tries > 1


@dataclass(frozen=True, slots=True)
class UnitRun(Tried):
    """A test in a run: the worst outcome, the sum of times and the largest peak of its cases."""

    run_id: int
    run_attempt: int
    at_ms: int
    cases: int
    outcome: str
    ending: str
    status: str
    tries: int
    wall_s: float | None
    peak_bytes: int | None
    peak_delta_bytes: int | None
    message: str | None
    branch: str = ""  # set by the page, as the next
    head_sha: str = ""


@dataclass(frozen=True, slots=True)
class UnitSums:
    """Sums of a test over runs, and its maximum sizes; `wall_s` is of the `measured` runs."""

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
class FlakyTest:
    """A test that passed and failed at one commit, or comes and goes on the default branch.

    Attributes:
        retried: runs in which it passed after a failure.
        contradicted: commits at which it passed in one run and failed in another.
        last_run_id, last_run_attempt: the latest of these runs and of the `failures`.
        failures: of the `runs` of the default branch `base` that ran its suite and variant.
        red_runs: the newest consecutive ones that it failed, since the commit `red_since_sha`.
        interval: 95 % interval of the failure rate, as "7..29 %"; "" without runs.
        lost_s: time of its failed tries, each as long as the final one; None if not measured.
    """

    suite: str
    variant: str
    unit: str
    retried: int
    contradicted: int
    last_run_id: int
    last_run_attempt: int
    base: str
    failures: int
    runs: int
    red_runs: int
    red_since_sha: str
    first_ms: int
    last_ms: int
    lost_s: float | None
    interval: str

    @property
    def is_broken(self) -> bool:
        """Return whether it fails since a commit, and not by chance."""
        is_steady = self.failures == self.red_runs and not self.retried + self.contradicted
        rate_before = (self.failures - self.red_runs + 0.5) / (self.runs - self.red_runs + 1)
        return self.red_runs > 0 and (is_steady or rate_before**self.red_runs < BY_CHANCE)


@dataclass(frozen=True, slots=True)
class LastGreen:
    """The last run of the default branch in which a suite and variant was complete and passed.

    `run` is None if no searched run was green.
    """

    suite: str
    variant: str
    run: RunRow | None


@dataclass(frozen=True, slots=True)
class RepositoryPage:
    """A page of runs; `next` is the value of `before` for the next page, "" on the last page.

    `filters` are those of the query, `branch` and `pull_request` among them. `trends` are those of
    the runs `charted`, the complete ones of the last 200 of the first workflow. `stale`: of a site,
    tests that have not run for days, by groups.
    """

    TEMPLATE: ClassVar[str] = "repository"

    repository: str
    is_private: bool
    default_branch: str
    branch: str
    pull_request: int | None
    filters: Mapping[str, str | int]
    suites: tuple[str, ...]
    last_greens: tuple[LastGreen, ...]
    runs: tuple[RunRow, ...]
    next: str
    days: int = 30
    charted: tuple[RunRow, ...] = ()
    trends: tuple[Trend, ...] = ()
    workflows: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()

    def verdicts(self) -> tuple[str, ...]:
        """Return the verdicts by which runs can be filtered."""
        return VERDICTS[:-1]


@dataclass(frozen=True, slots=True)
class RepositoryLine:
    """A repository, with the run that shows the state of its default branch, if it has one."""

    repository: str
    is_private: bool
    default_branch: str
    base: RunRow | None


@dataclass(frozen=True, slots=True)
class RepositoriesPage:
    """A page of repositories, red ones first; `total` is the number of visible ones that match."""

    TEMPLATE: ClassVar[str] = "repositories"

    search: str
    page: int
    pages: int
    total: int
    repositories: tuple[RepositoryLine, ...]


@dataclass(frozen=True, slots=True)
class SlowestPage:
    """The tests with the greatest sums or peaks of the measure `by`, the greatest first."""

    TEMPLATE: ClassVar[str] = "slowest"

    repository: str
    by: str
    days: int
    missing_runs: tuple[str, ...]
    tests: tuple[UnitSums, ...]

    def titles(self) -> Mapping[str, str]:
        return TITLES


@dataclass(frozen=True, slots=True)
class FlakyPage:
    """The flaky tests of all runs since `from_ms`, and then the broken ones.

    By the full name of a test: `owners`, if known, and `quarantined`, the last day or "". `from_ms`
    is later than the query asks for if `is_partial`.
    """

    TEMPLATE: ClassVar[str] = "flaky"

    repository: str
    days: int
    from_ms: int
    is_partial: bool
    missing_runs: tuple[str, ...]
    tests: tuple[FlakyTest, ...]
    owners: Mapping[str, list[str]]
    quarantined: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnitPage:
    """A test's runs, the newest first; `case` is None for all its cases.

    `branch` is "" for the default branch; `owners` and `flaky`, of this name, None if unknown.
    """

    TEMPLATE: ClassVar[str] = "unit"

    repository: str
    suite: str
    variant: str
    unit: str
    case: str | None
    owners: list[str] | None
    missing_runs: tuple[str, ...]
    branch: str
    flaky: tuple[FlakyTest, ...] | None
    runs: tuple[UnitRun, ...]

    def messages(self) -> list[list[UnitRun]]:
        """Group the runs by messages that differ in numbers, paths and ids only."""
        groups: dict[str, list[UnitRun]] = defaultdict(list)
        for run in self.runs:
            if run.message:
                groups[fingerprint(run.message)].append(run)
        return sorted(groups.values(), key=len, reverse=True)

    def wall_chart(self) -> RunChart | None:
        return draw_runs([(run.wall_s, run.status) for run in reversed(self.runs)])

    def peak_chart(self) -> RunChart | None:
        return draw_runs([(run.peak_bytes, run.status) for run in reversed(self.runs)])


# By name, whose end is the unit: title, and the value of a run with its cells.
MEASURES: Final[Mapping[str, tuple[str, Callable[[RunRow], float | None]]]] = {
    "makespan_s": ("Makespan", lambda run: run.makespan_s),
    "bound_s": ("Lower bound", lambda run: run.bound_s),
    "tests_s": ("Time of all tests", lambda run: _known(run, "wall_s", sum)),
    "probe_s": ("Time of a CPU task", lambda run: (run.facts or {}).get("probe_s")),
    "peak_bytes": ("Largest peak", lambda run: _known(run, "peak_bytes", max)),
    "price_usd": ("Price", lambda run: run.price_usd),
}


def _known(run: RunRow, name: str, reduce: Callable[[list[float]], float]) -> float | None:
    values = [value for cell in run.cells if (value := getattr(cell, name)) is not None]
    return reduce(values) if values else None


def find_trends(runs: Sequence[RunRow]) -> tuple[Trend, ...]:
    lines = [(name, title, tuple(map(value, runs))) for name, (title, value) in MEASURES.items()]
    return tuple(Trend(*line, find_change(line[-1])) for line in lines)


def charted_runs(runs: Iterable[RunRow], from_ms: int) -> list[RunRow]:
    """Return the complete runs since a time, of the workflow with most of them, by age."""
    complete = [run for run in runs if run.is_complete and run.started_at_ms >= from_ms]
    workflow = multimode(run.workflow for run in complete)[:1]
    return sorted((run for run in complete if run.workflow in workflow), key=lambda run: run.key)
