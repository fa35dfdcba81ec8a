"""The rows of a judged run for the pages, for the run and for each suite; and its facts. Pure.

The lower bound comes from the plan; values that were not measured are None.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from itertools import chain, islice
from operator import attrgetter
from statistics import median
from typing import Any, Final

from ciguard.culprit.answer import Answer
from ciguard.github.events import ActionsRun
from ciguard.github.models import WorkflowRun
from ciguard.guard.verdict import Leg, Verdict
from ciguard.model.jobs import billed_minutes
from ciguard.render.pages import RunRow, RunSuiteRow, RunVerdict
from ciguard.report.answer import answers_of, failed_tests
from ciguard.report.view import Report, ReportData
from ciguard.serve.results.rows import OUTCOMES, ResultRow
from ciguard.serve.state.run_key import RunKey
from ciguard.text import case_name, one_line, unit_name, whole_name

MAX_TESTS: Final = 3  # that the index names
MAX_OWNED: Final = 100  # tests of a run whose owners are kept
MAX_SEARCHED: Final = 20  # answers of a search that are kept, and commits of an answer
NAME_WIDTH: Final = 200


def run_row(key: RunKey, run: ActionsRun, finished: WorkflowRun, report: Report | None) -> RunRow:
    """Make the row of a run attempt, without its cells and the name of its answer.

    Args:
        report: None for a run of a workflow without ciguard.
    """
    contents = report.contents if report is not None else None
    verdict = contents.verdict if contents is not None else None
    compared = contents.comparison if contents is not None else None
    walls_s = [leg.wall_s for leg in verdict.legs if leg.wall_s is not None] if verdict else []
    return RunRow(
        key,
        workflow=run.workflow,
        event=run.event,
        branch=run.branch or "",
        head_sha=run.head_sha or "",
        pull_request=run.pull_request,
        is_base_branch=run.is_base_branch and not (contents and contents.plan.drill),
        started_at_ms=_ms(finished.run_started_at or finished.created_at),
        completed_at_ms=_ms(finished.updated_at or finished.run_started_at or finished.created_at),
        verdict=_verdict(report),
        comparison=compared.state if compared is not None else "",
        headline=report.headline if report is not None else "",
        exit_code=report.exit_code if report is not None else 0,
        planned=verdict.planned if verdict is not None else 0,
        missing=verdict.planned - verdict.with_result if verdict is not None else 0,
        makespan_s=max(walls_s, default=None),
        # Without timings, a lower bound would be one of equal estimates.
        bound_s=verdict.plan.lower_bound_s if verdict and verdict.plan.has_timings else None,
        price_usd=contents.price_usd if contents is not None else None,
        answer="",
    )


def owners_of_failed(contents: ReportData) -> dict[str, tuple[str, ...]]:
    """Return the owners of each failed test, by its name, in the order of the report."""
    verdict = contents.verdict
    tests = failed_tests(verdict, answers_of(verdict, contents.comparison))
    return {
        case_name(test.key, NAME_WIDTH): verdict.owners.get(test.first.result.key.unit_key, ())
        for test in tests
    }


def run_facts(contents: ReportData, culprits: Answer | None) -> dict[str, Any]:
    """Return facts of a run that the pages of many runs need; of tests, the first few names."""
    verdict, plan = contents.verdict, contents.plan
    failed = owners_of_failed(contents)
    jobs = contents.platform.jobs if contents.platform is not None else {}
    minutes: dict[str, list[float | None]] = defaultdict(list)
    for shard in plan.shards:
        minutes[shard.pool].append(jobs[shard.key].wall_s if shard.key in jobs else None)
    tests_s = sum(line.wall_s or 0.0 for record in contents.records for line in record.results)
    flaky_s = sum(test.first.wall_s or 0.0 for test in verdict.flaky)
    runners = (record.header.runner for record in contents.records if record.header)
    probes_s = [runner.probe_s for runner in runners if runner.probe_s is not None]
    until = {failure.result.key.unit_key: "" for failure in verdict.failures}
    until |= {it.result.key.unit_key: it.reason.facts["until"] for it in verdict.quarantined}
    return {
        "culprits": culprit_facts(culprits) if culprits is not None else None,
        "failed": len(failed),
        "owners": list(dict.fromkeys(chain(*failed.values()))) if verdict.owners else None,
        "owners_of": {
            whole_name(key): named for key, named in islice(verdict.owners.items(), MAX_OWNED)
        },
        "tests": list(failed)[:MAX_TESTS],
        "quarantined": {whole_name(key): day for key, day in islice(until.items(), MAX_OWNED)},
        "shards": [
            {
                "shard": shard.key,
                "pool": shard.pool,
                "wall_s": leg.wall_s,
                "limit_s": 60 * shard.timeout_minutes,
                "peak_bytes": leg.peak_bytes,
                "budget_bytes": shard.budget_bytes,
            }
            for shard, leg in zip(plan.shards, verdict.legs, strict=True)
        ],
        "jobs": {shard: job.url for shard, job in jobs.items()},
        "pools": {pool: billed_minutes(walls_s) for pool, walls_s in minutes.items()},
        "rates": {name: pool.usd_per_minute for name, pool in plan.pools.items()},
        "flaky_ratio": flaky_s / tests_s if tests_s else 0.0,
        "probe_s": median(probes_s) if probes_s else None,
    }


def culprit_facts(answer: Answer) -> dict[str, Any]:
    """Return the groups of an answer with their first tests and candidates."""
    groups = []
    for tests in answer.groups()[:MAX_SEARCHED]:
        candidates = (
            asdict(replace(candidate, subject=one_line(candidate.subject, NAME_WIDTH)))
            for candidate in tests[0].candidates[:MAX_SEARCHED]
        )
        facts = {name: getattr(tests[0], name) for name in ("measure", "verdict", "unchanged")}
        counts = {"commits": len(tests[0].candidates), "count": len(tests)}
        names = [unit_name(test.key, NAME_WIDTH) for test in tests[:MAX_TESTS]]
        groups.append({**facts, **counts, "candidates": [*candidates], "tests": names})
    return {"groups": groups}


def suite_rows(verdict: Verdict, results: Sequence[ResultRow]) -> tuple[RunSuiteRow, ...]:
    """Return the cells of a run for each suite and variant of its plan, by their names.

    `wall_s` is the sum of its tests; peak and budget are of the shard nearest to its budget.
    """
    planned: Counter[tuple[str, str]] = Counter()
    shards: dict[tuple[str, str], set[str]] = {}
    budgets = {shard.key: shard.budget_bytes for shard in verdict.plan.shards}
    for shard in verdict.plan.shards:
        units = Counter(map(attrgetter("suite", "variant"), shard.units))
        planned.update(units)
        for name in units:
            shards.setdefault(name, set()).add(shard.key)
    missing = Counter((unit.key.suite, unit.key.variant) for unit in verdict.missing)
    results_by_name: dict[tuple[str, str], list[ResultRow]] = defaultdict(list)
    for result in results:
        results_by_name[result.suite, result.variant].append(result)
    rows = []
    for name in sorted({*planned, *results_by_name}):
        counts = Counter(OUTCOMES[result.outcome] for result in results_by_name[name])
        walls_s = [it.wall_s for it in results_by_name[name] if it.wall_s is not None]
        legs = [leg for leg in verdict.legs if leg.shard in shards.get(name, ())]
        peak_bytes, budget_bytes = _tightest(legs, budgets)
        rows.append(
            RunSuiteRow(
                *name,
                planned=planned[name],
                missing=missing[name],
                counts=dict(sorted(counts.items())),
                wall_s=math.fsum(walls_s) if walls_s else None,
                peak_bytes=peak_bytes,
                budget_bytes=budget_bytes,
            )
        )
    return tuple(rows)


def _verdict(report: Report | None) -> RunVerdict:
    if report is None:
        return "foreign"
    return report.contents.verdict.state if report.contents is not None else "not_evaluated"


def _tightest(legs: Sequence[Leg], budgets: dict[str, int | None]) -> tuple[int | None, int | None]:
    """Return peak and budget of the shard with the highest ratio; otherwise the largest peak."""
    measured = [(leg.peak_bytes, budgets.get(leg.shard)) for leg in legs]
    known = [(peak, budget) for peak, budget in measured if peak is not None]
    limited = [(peak, budget) for peak, budget in known if budget]
    if limited:
        return max(limited, key=lambda pair: pair[0] / pair[1])
    return max(known, key=lambda pair: pair[0], default=(None, None))


def _ms(moment: datetime | None) -> int:
    return int(moment.timestamp() * 1000) if moment is not None else 0
