"""`/OWNER/NAME/runs/ID/ATTEMPT`: verdict, shards, findings and results; and `/comparison`.

The findings are those of the stored JSON of `ciguard guard`, worded by this version of ciguard.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeVar

from pydantic import TypeAdapter

from ciguard.compare import view as compare_view
from ciguard.compare.json import read_comparison
from ciguard.document import Block, visible
from ciguard.guard.verdict import Finding
from ciguard.guard.wording import finding_fix, finding_message, note_text
from ciguard.model import BAD_OUTCOMES, CaseKey, UnitKey
from ciguard.render.links import Links
from ciguard.render.notes import Note
from ciguard.render.pages import NAMES, FlakyTest, RunRow
from ciguard.report.runner_sizing import RunnerUse, runners_section
from ciguard.serve.pages.slowest_and_flaky_pages import flaky_units
from ciguard.serve.pages.visit import PageNotFound, Visit
from ciguard.serve.results.queries import MAX_PAGE, parse_filters
from ciguard.serve.results.read_model import CaseRow, CaseSums
from ciguard.serve.results.rows import OUTCOMES
from ciguard.serve.state import run_rows
from ciguard.serve.stored_answers import StoredAnswer, read_answer
from ciguard.text import case_name

T = TypeVar("T", Finding, Note)

RESULTS: Final = "results"  # the part that scripts replace
MAX_UNITS: Final = 5  # named in a finding; the JSON of the guard has all
PRUNED: Final = "The results of this run were deleted by `ciguard serve prune`."


@dataclass(frozen=True, slots=True)
class RunFinding:
    """A finding in words, with its evidence and advice; `running` are the tests that ran then."""

    level: str
    text: str
    evidence: tuple[str, ...]
    running: tuple[str, ...]
    tests: tuple[str, ...]
    more_tests: int
    fix: str


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run.

    Attributes:
        problem: the reason why no shards are shown; "" if they are shown.
        failed: failures with the words of `ciguard explain`, by whose they are.
        flaky: the flaky and broken tests of their names; None if unknown.
        sort: as in the query: "-wall" sorts the longest first.
        missing_runs: this run if its results cannot be read; otherwise empty.
    """

    TEMPLATE: ClassVar[str] = "run"

    repository: str
    run: RunRow
    problem: str
    failed: tuple[dict[str, Any], ...]
    flaky: tuple[FlakyTest, ...] | None
    legs: tuple[ShardRow, ...]
    findings: tuple[RunFinding, ...]
    runners: tuple[RunnerUse, ...]
    has_comparison: bool
    sort: str
    page: int
    pages: int
    sums: CaseSums
    results: tuple[CaseRow, ...]
    missing_runs: tuple[str, ...]

    def outcomes(self) -> tuple[str, ...]:
        """Return the outcomes by which results can be filtered."""
        return OUTCOMES

    def runner_blocks(self, address: str) -> tuple[Block, ...]:
        """Return the proposed runners; `address` is the repository's."""
        return visible((runners_section(self.runners, Links(address)),), "html")


def run_page(visit: Visit) -> RunPage:
    """Find a run and a page of its results.

    Raises:
        PageNotFound: as `Visit.find_run`.
        UsageError: the query is invalid.
        RemoteError: results cannot be read.
    """
    # A form sends its empty fields too.
    query = {name: value for name, value in visit.query.items() if value or name in NAMES}
    filters = parse_filters(query)
    with visit.service.database.read() as connection:
        repository, run = visit.find_run(connection)
        (run,) = run_rows.with_cells(connection, [run])
    # A script that sorts, filters or pages replaces the results only: the shards are shown already.
    answer, problem = read_answer(visit.service, "" if visit.part == RESULTS else run.answer)
    if not run.answer and run.verdict != "foreign":
        problem = PRUNED
    results = visit.read_model.run_page(run.key, filters)
    verdict = answer.verdict if answer else None
    failed = failed_tests(answer) if answer is not None else ()
    listed = verdict["findings"] if verdict else ()
    findings = [_run_finding(_read_finding(values)) for values in listed]
    pages = min(MAX_PAGE, max(1, -(-results.value.sums.total // filters.page_size)))
    return RunPage(
        repository.full_name,
        run,
        problem,
        failed,
        flaky_units(visit, repository, {test["unit"] for test in failed}) if failed else (),
        _shard_rows(verdict) if verdict else (),
        tuple(sorted(findings, key=lambda finding: finding.level == "warning")),
        TypeAdapter(tuple[RunnerUse, ...]).validate_python(answer.runners if answer else ()),
        answer is not None and answer.comparison is not None,
        f"{'-' if filters.is_descending else ''}{filters.sort}",
        filters.page,
        pages,
        results.value.sums,
        results.value.rows,
        results.missing_names,
    )


def failed_tests(answer: StoredAnswer) -> tuple[dict[str, Any], ...]:
    """Join each failure of the verdict's JSON with its explanation; none of an older ciguard."""
    tests = answer.explanation["tests"] if answer.explanation else ()
    explained = {test["test"]["untrusted"]: test for test in tests}
    failures = {}
    for failure in answer.verdict["failures"] if answer.verdict else ():
        name = case_name(CaseKey(*(failure[field] for field in CaseKey._fields)))
        failures[name] = {**explained.get(name, {}), **failure, "name": name}
    return tuple(failures[name] for name in explained if name in failures)


@dataclass(frozen=True, slots=True)
class ShardRow:
    """One shard in the table. Times and sizes are None if not measured, or not predicted.

    Attributes:
        ending: how it ended, or "no record".
        causes: findings that explain why it did not complete.
        run_attempt: in which it ran; None without a record.
    """

    shard: str
    is_bad: bool
    ending: str
    causes: tuple[str, ...]
    planned: int
    with_result: int
    bad: int
    run_attempt: int | None
    wall_s: float | None
    predicted_wall_s: float | None
    peak_bytes: int | None
    predicted_peak_bytes: int | None


def _shard_rows(verdict: Mapping[str, Any]) -> tuple[ShardRow, ...]:
    """List the shards: first those that are bad, then the longest."""
    causes = _causes(verdict)
    rows = [_shard_row(leg, causes.get(leg["shard"], ())) for leg in verdict["legs"]]
    return tuple(sorted(rows, key=lambda row: (not row.is_bad, -(row.wall_s or 0.0), row.shard)))


def _shard_row(leg: dict[str, Any], causes: tuple[str, ...]) -> ShardRow:
    is_known = leg["recorded"] or leg["ending"] != "unknown"
    ending = leg["ending"].replace("_", " ") if is_known else "no record"
    units = leg["units"]
    return ShardRow(
        leg["shard"],
        leg["ending"] != "completed" or units["with_result"] < units["planned"],
        ending,
        tuple(cause for cause in causes if cause != ending),
        units["planned"],
        units["with_result"],
        sum(leg["counts"].get(outcome, 0) for outcome in BAD_OUTCOMES),
        leg["run_attempt"],
        leg["wall_s"]["actual"],
        leg["wall_s"]["predicted"],
        leg["peak_bytes"]["actual"],
        leg["peak_bytes"]["predicted"],
    )


def _causes(verdict: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Map each shard to its findings in words, without warnings."""
    causes: dict[str, tuple[str, ...]] = {}
    for finding in verdict["findings"]:
        if finding["shard"] and finding["level"] != "warning":
            text = _words(finding_message, replace(_read_finding(finding), shard=""))
            causes[finding["shard"]] = (*causes.get(finding["shard"], ()), text)
    return causes


def _read_finding(values: dict[str, Any]) -> Finding:
    cause = values["cause"]
    return Finding(
        values["kind"],
        values["shard"] or "",
        tuple(UnitKey(**value) for value in values["units"]),
        values["facts"],
        Note(cause["kind"], cause["facts"]) if cause else None,
        tuple(Note(value["kind"], value["facts"]) for value in values["evidence"]),
        tuple(UnitKey(**value) for value in values["culprits"]),
        stated_level=values["level"],
    )


def _run_finding(finding: Finding) -> RunFinding:
    tests = [key.unit for key in finding.units]
    return RunFinding(
        finding.level,
        _words(finding_message, finding),
        tuple(_words(note_text, note) for note in finding.evidence),
        tuple(key.unit for key in finding.culprits),
        tuple(tests[:MAX_UNITS]),
        max(0, len(tests) - MAX_UNITS),
        _words(finding_fix, finding, ""),
    )


def _words(word: Callable[[T], str], finding: T, default: str | None = None) -> str:
    """Word a finding or note; if another version of ciguard wrote other facts, return its kind."""
    try:
        return word(finding)
    except (KeyError, TypeError, ValueError):
        return finding.kind.replace("_", " ") if default is None else default


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """A comparison: `comparison` is the JSON of `ciguard compare`, `address` the repository's."""

    TEMPLATE: ClassVar[str] = "comparison"

    repository: str
    run_id: int
    run_attempt: int
    headline: str
    address: str
    comparison: dict[str, Any]

    def blocks(self) -> tuple[Block, ...]:
        """Return the comparison as a document, without its headline."""
        comparison = read_comparison(json.dumps(self.comparison).encode(), "comparison")
        links = Links(self.address, self.run_id, self.run_attempt, comparison.candidate.sha)
        return visible(compare_view.sections(comparison, links), "html")


def comparison_page(visit: Visit) -> ComparisonPage:
    """Find the comparison of a run.

    Raises:
        PageNotFound: as `Visit.find_run`, or the run was not compared.
    """
    with visit.service.database.read() as connection:
        repository, run = visit.find_run(connection)
    answer, _ = read_answer(visit.service, run.answer)
    if answer is None or answer.comparison is None:
        raise PageNotFound
    return ComparisonPage(
        repository.full_name,
        run.key.run_id,
        run.key.run_attempt,
        answer.comparison["headline"],
        f"{visit.service.settings.server_url}/{repository.full_name}",
        answer.comparison,
    )
