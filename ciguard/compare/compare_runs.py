"""The comparison of a candidate with its base and baseline, in one function. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.codec.columns import Floats
from ciguard.compare.baseline_matrix import align, baseline_info, baseline_matrix, usable
from ciguard.compare.baseline_selection import (
    UNKNOWN,
    Ancestry,
    Selection,
    match_in_history,
    select_baseline,
)
from ciguard.compare.comparison import Comparison, Note, has_missing_tests, with_state
from ciguard.compare.jobs import job_changes
from ciguard.compare.leaks import Leak, find_leaks
from ciguard.compare.legs import (
    MIN_OVERLAP,
    cost,
    incompleteness,
    leg_changes,
    leg_coverage,
    lost_units,
    resharded_cases,
    totals,
)
from ciguard.compare.measure_changes import (
    NO_GPU_MEMORY,
    confirmable_logs,
    judge_durations,
    judge_gpu_memory,
    judge_memory,
)
from ciguard.compare.metric_changes import (
    compare_metrics,
    condition_changes,
    find_neighbours,
    past_metrics,
)
from ciguard.compare.run_columns import Run, from_history, run_info
from ciguard.compare.series import compare_series
from ciguard.compare.statistics import MIN_BASELINE_RUNS
from ciguard.compare.suite_speed import (
    judge_suite_speed,
    normalize_baseline,
    normalize_run,
    probe_adjusted_speed,
)
from ciguard.compare.transitions import (
    NO_RENAMES,
    match_renames,
    transitions,
    with_answers,
    with_excuses,
)

if TYPE_CHECKING:
    from ciguard.compare.baseline_matrix import BaselineInfo, BaselineMatrix
    from ciguard.compare.comparison import UnjudgedReason
    from ciguard.compare.measure_changes import MeasureState, MeasureVerdict
    from ciguard.compare.suite_speed import SuiteSpeed
    from ciguard.compare.transitions import Excuse, Transition
    from ciguard.history.file import History
    from ciguard.logs.pattern_table import Direction
    from ciguard.model import CaseKey, Plan
    from ciguard.model.jobs import Job


@dataclass(frozen=True, slots=True)
class Context:
    """Facts beyond the runs themselves; the default of each is "unknown".

    Attributes:
        branch: branch of the base.
        lineage: the commits before the candidate's base.
        prices: USD a minute, by pool.
        jobs_before, jobs_after: GitHub's jobs of the base and the candidate.
        excused: failures of the candidate that do not count.
        directions: by name of a metric, the better direction.
    """

    branch: str | None = None
    lineage: Ancestry = UNKNOWN
    prices: Mapping[str, float] = field(default_factory=dict)
    jobs_before: tuple[Job, ...] = ()
    jobs_after: tuple[Job, ...] = ()
    excused: Mapping[CaseKey, Excuse] = field(default_factory=dict)
    directions: Mapping[str, Direction] = field(default_factory=dict)


NO_CONTEXT: Final = Context()


def compare_run(
    candidate: Run,
    history: History | None = None,
    bases: Sequence[Run] = (),
    *,
    previous: Run | None = None,
    plan: Plan | None = None,
    context: Context = NO_CONTEXT,
) -> Comparison:
    """Compare a run with a base and past runs.

    Args:
        candidate: the run to compare.
        history: past runs of the base branch; their values are the baseline.
        bases: runs that the user names, oldest first. The last one is the base, and all are
            baseline runs if the history has no usable run. Without any, the newest usable run of
            the history is the base.
        previous: an earlier run of the same change: changes in both runs are confirmed.
        plan: that of the candidate, if it is known: the tests that should have run.
    """
    if history is not None:
        candidate = match_in_history(candidate, history)
        bases = tuple(match_in_history(base, history) for base in bases)
    is_itself = bool(bases) and bases[-1].is_same_as(candidate)
    if is_itself:
        history, previous = None, None
    previous = None if previous is not None and previous.is_same_as(candidate) else previous
    choice, base, given = _baseline(candidate, history, bases, context)
    table = baseline_matrix(candidate, history, choice.used, given)
    verdicts = _judge(candidate, table, previous)
    coverage = leg_coverage(candidate, plan)
    names = match_renames(base, candidate, coverage.shard_of) if base is not None else NO_RENAMES
    lost = lost_units(base, candidate, coverage, names.old_keys)
    base_is_complete = base is not None and leg_coverage(base).is_complete
    units = frozenset(unit for leg in lost for unit in leg.units)
    changes = transitions(base, candidate, coverage.shard_of, units, names) if base else ()
    changes = changes if base_is_complete else _without_known(changes, candidate, table)
    changes = with_answers(changes, candidate, history, choice.used, len(bases))
    changes = with_excuses(changes, context.excused)
    reasons = tuple(incompleteness(candidate, coverage))
    complete = not reasons and not _is_cut(changes, candidate, base)
    if not complete:  # missing tests take their numbers with them: that is no gain
        verdicts = _replace_state(verdicts, "improved", "incomplete")
    past, unlike = past_metrics(history, choice.used, given, candidate.conditions)
    known = base, candidate, history, choice.used, given
    known_runs = baseline_info(history, choice, given, table)
    unjudged: UnjudgedReason | None = (
        "same run" if is_itself else _why_unjudged(table, verdicts, known_runs)
    )
    return with_state(
        Comparison(
            state="inconclusive",
            base=run_info(base) if base is not None else None,
            candidate=run_info(candidate),
            previous=run_info(previous) if previous is not None else None,
            baseline=known_runs,
            incomplete_reasons=reasons,
            transitions=changes,
            lost_units=lost,
            legs=leg_changes(base, candidate, verdicts.speed),
            totals=totals(*known, complete=complete, previous=previous),
            durations=verdicts.durations,
            memory=verdicts.memory,
            gpu_memory=verdicts.gpu_memory,
            unjudged_reason=unjudged if base is not None else None,
            notes=tuple(_notes(candidate, base, changes)),
            jobs=job_changes(base, candidate, context.jobs_before, context.jobs_after),
            # Missing legs cost nothing: only complete runs have comparable costs.
            cost_before=cost(base, context.jobs_before, context.prices)
            if base_is_complete
            else None,
            cost_after=cost(candidate, context.jobs_after, context.prices) if complete else None,
            leaks=verdicts.leaks,
            suite_speed=verdicts.suite_speed,
            series=compare_series(base.series if base is not None else (), candidate.series),
            metrics=compare_metrics(base, candidate, past, context.directions, unlike),
            conditions=condition_changes(base.conditions, candidate.conditions) if base else (),
            neighbours=find_neighbours(base.printed if base else (), candidate.printed),
        )
    )


def _baseline(
    candidate: Run, history: History | None, bases: Sequence[Run], context: Context
) -> tuple[Selection, Run | None, tuple[Run, ...]]:
    """Return the used runs of the history, the base, and the given runs if they are the baseline.

    A base beside a history is no baseline run: a report, which has no given runs, would find other
    numbers. But several given runs are more than a history of one or two.
    """
    base = bases[-1] if bases else None
    branch = context.branch
    if base is not None and base.branch and not base.is_pull_request:
        branch = base.branch
    choice = Selection()
    if history is not None:
        choice = select_baseline(history, candidate, branch, context.lineage)
    if base is None and history is not None and choice.used:
        base = from_history(history, choice.used[-1])
    if len(choice.used) < min(len(bases), MIN_BASELINE_RUNS):
        return replace(choice, used=(), ordered_by_date=0), base, tuple(bases)
    return choice, base, ()


@dataclass(frozen=True, slots=True, eq=False)
class _Verdicts:
    """The verdicts on a candidate's numbers; `speed` is that of each leg."""

    durations: MeasureVerdict
    memory: MeasureVerdict
    gpu_memory: MeasureVerdict
    speed: Floats
    suite_speed: SuiteSpeed
    leaks: tuple[Leak, ...]


def _judge(candidate: Run, table: BaselineMatrix, previous: Run | None) -> _Verdicts:
    baseline = normalize_baseline(table.wall_s, table.wall_group, table.run_of_group)
    comparable = usable(candidate)
    wall_s = np.where(comparable, candidate.wall_s, np.nan)
    speeds = normalize_run(wall_s, candidate.leg, len(candidate.legs), baseline)
    probes = table.probe_s[table.is_used & ~np.isnan(table.probe_s)]
    probe_s = float(np.median(probes)) if len(probes) else None
    logs = earlier = previous_speed = None
    if previous is not None:
        earlier, leg = align(candidate, previous)
        repeated = normalize_run(earlier["wall_s"], leg, len(previous.legs), baseline)
        logs = confirmable_logs(repeated, baseline)
        previous_speed = _own_speed(previous, repeated.speed_factor, probe_s)
    runs = int(table.run_of_group.max(initial=-1)) + 1
    verdicts = _Verdicts(
        durations=judge_durations(candidate, speeds, baseline, table, logs),
        memory=judge_memory(candidate, comparable, table, earlier),
        gpu_memory=judge_gpu_memory(candidate, comparable, table, earlier),
        speed=speeds.speed_factor,
        suite_speed=judge_suite_speed(
            _own_speed(candidate, speeds.speed_factor, probe_s),
            probe_adjusted_speed(baseline.speed, table.probe_s, table.run_of_group, runs, probe_s),
            previous_speed,
        ),
        leaks=find_leaks(candidate, comparable, table.retained_bytes, previous),
    )
    if table.from_incomplete_legs:  # measured before, in legs that did not end by themselves
        verdicts = _replace_state(verdicts, "not measured", "baseline incomplete")
    return verdicts


def _own_speed(run: Run, speed: Floats, baseline_probe_s: float | None) -> Floats:
    probes = np.array([leg.probe_s or np.nan for leg in run.legs], np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        speeds = probe_adjusted_speed(
            np.log(speed), probes, np.zeros(len(probes), np.int64), 1, baseline_probe_s
        )
    return np.asarray(speeds[0], np.float64)


def _is_cut(changes: Sequence[Transition], candidate: Run, base: Run | None) -> bool:
    """Return whether missing tests may be missing with a leg.

    If the candidate has every leg of the base, the tests were removed or are no longer run, and the
    candidate is still complete, with or without a plan.
    """
    if base is None or not has_missing_tests(changes):
        return False
    names = {leg.name for leg in candidate.legs}
    return any(leg.name not in names for leg in base.legs)


def _without_known(
    changes: Sequence[Transition], candidate: Run, table: BaselineMatrix
) -> tuple[Transition, ...]:
    """Leave out added tests that other baseline runs measured: the base lost them."""
    rows = np.flatnonzero(~np.isnan(table.wall_s).all(axis=1))
    known = {candidate.keys[row] for row in rows.tolist()}
    return tuple(case for case in changes if case.kind != "added" or case.key not in known)


def _replace_state(verdicts: _Verdicts, old: MeasureState, new: MeasureState) -> _Verdicts:
    measures = {name: getattr(verdicts, name) for name in ("durations", "memory", "gpu_memory")}
    return replace(
        verdicts,
        **{
            name: replace(measure, verdict=new)
            for name, measure in measures.items()
            if measure.verdict == old and measure != NO_GPU_MEMORY
        },
    )


def _why_unjudged(
    table: BaselineMatrix, verdicts: _Verdicts, baseline: BaselineInfo
) -> UnjudgedReason | None:
    """Return the common reason why neither measure has a verdict; None without one."""
    states = {verdicts.durations.verdict, verdicts.memory.verdict}
    if table.from_incomplete_legs and states == {"baseline incomplete"}:
        return "baseline incomplete"
    return "few baseline runs" if len(baseline.runs) < MIN_BASELINE_RUNS else None


def _notes(candidate: Run, base: Run | None, transitions: Sequence[Transition]) -> Iterator[Note]:
    if base is None:
        yield Note("no_base")
    elif not leg_coverage(base).is_complete and any(case.before is None for case in transitions):
        yield Note("incomplete_base")
    if base is not None:
        resharded, in_both = resharded_cases(base, candidate)
        if in_both - resharded < MIN_OVERLAP * in_both:
            yield Note("resharded", resharded, in_both)
    unusable = int((~np.isnan(candidate.wall_s) & ~usable(candidate)).sum())
    if unusable:
        yield Note("not_passed", unusable)
