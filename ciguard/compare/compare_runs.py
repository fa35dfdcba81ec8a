"""A candidate against its base and baseline: the whole comparison in one pure function."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.baseline_matrix import align, baseline_info, baseline_matrix, usable
from ciguard.compare.baseline_selection import UNKNOWN, Ancestry, Selection, select_baseline
from ciguard.compare.comparison import Comparison, Note, has_missing_tests, with_state
from ciguard.compare.history_match import match_in_history
from ciguard.compare.jobs import cost, job_changes
from ciguard.compare.leaks import Leak, find_leaks
from ciguard.compare.legs import (
    MIN_OVERLAP,
    incompleteness,
    leg_changes,
    leg_coverage,
    lost_units,
    resharded_cases,
    totals,
)
from ciguard.compare.measure_changes import confirmable_logs, judge_durations, judge_memory
from ciguard.compare.metric_changes import (
    compare_metrics,
    condition_changes,
    find_neighbours,
    past_metrics,
)
from ciguard.compare.run_columns import from_history, run_info
from ciguard.compare.series import compare_series
from ciguard.compare.statistics import MIN_BASELINE_RUNS
from ciguard.compare.suite_speed import (
    judge_suite_speed,
    normalize_baseline,
    normalize_run,
    probe_adjusted_speed,
    without_outliers,
)
from ciguard.compare.transitions import (
    NO_RENAMES,
    match_renames,
    transitions,
    with_excuses,
    with_failure_rates,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.compare.baseline_matrix import BaselineInfo, BaselineMatrix
    from ciguard.compare.comparison import UnjudgedReason
    from ciguard.compare.legs import LostUnits
    from ciguard.compare.measure_changes import MeasureVerdict
    from ciguard.compare.run_columns import Floats, Run
    from ciguard.compare.suite_speed import NormalizedBaseline, SuiteSpeed
    from ciguard.compare.transitions import Excuse, Renames, Transition
    from ciguard.history.file import History
    from ciguard.logs.pattern_table import Direction
    from ciguard.model import CaseKey, Plan, UnitKey
    from ciguard.model.jobs import Job


@dataclass(frozen=True, slots=True)
class Context:
    """Facts beyond the runs themselves; each has a default for "not known".

    Attributes:
        branch: the base's.
        lineage: which commits came before the candidate's base.
        prices: of a minute, by pool, in USD.
        jobs_before, jobs_after: of the base and the candidate, as GitHub knows them.
        excused: failures of the candidate that do not count.
        directions: how metrics are judged, by their name.
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
    """Compare a run with what came before it.

    Args:
        candidate: the run in question.
        history: past runs of the base branch; its values are the baseline.
        bases: runs given by hand, oldest first: the last one's outcomes are the ones before, and
            all are baseline runs, unless they are proposals and the history has better ones.
            Without any, the history's newest usable run is the base.
        previous: an earlier run of the same change: what both show is confirmed.
        plan: of the candidate, where it is known: what should have run.
    """
    if history is not None:
        candidate = match_in_history(candidate, history)
        bases = tuple(match_in_history(base, history) for base in bases)
    is_itself = bool(bases) and bases[-1].is_same_as(candidate)
    if is_itself:
        history, previous = None, None
    if previous is not None and previous.is_same_as(candidate):
        previous = None
    choice, base, more = _baseline(candidate, history, bases, context)
    table = baseline_matrix(candidate, history, choice.used, more)
    verdicts = _judge(candidate, table, previous)
    coverage = leg_coverage(candidate, plan)
    names = match_renames(base, candidate, coverage.shard_of) if base is not None else NO_RENAMES
    lost = lost_units(base, candidate, coverage, names.old_keys)
    base_is_complete = base is not None and leg_coverage(base).is_complete
    found = _changes(base, candidate, coverage.shard_of, lost, names)
    found = found if base_is_complete else _without_known(found, candidate, table)
    found = with_excuses(with_failure_rates(found, history, choice.used), context.excused)
    why = tuple(incompleteness(candidate, coverage))
    complete = not why and not (has_missing_tests(found) and _has_missing_leg(candidate, base))
    durations, memory = (
        _no_gain_if_incomplete(one, complete) for one in (verdicts.durations, verdicts.memory)
    )
    past, other_conditions = past_metrics(history, choice.used, more, candidate.conditions)
    known_runs = baseline_info(history, choice, more, table)
    unjudged: UnjudgedReason | None = (
        "same run" if is_itself else _why_unjudged(table, (durations, memory), known_runs)
    )
    return with_state(
        Comparison(
            state="inconclusive",
            base=run_info(base) if base is not None else None,
            candidate=run_info(candidate),
            previous=run_info(previous) if previous is not None else None,
            baseline=known_runs,
            incomplete_reasons=why,
            transitions=found,
            lost_units=lost,
            legs=leg_changes(base, candidate, verdicts.speed),
            totals=totals(base, candidate, history, choice.used, more, complete=complete),
            durations=durations,
            memory=memory,
            unjudged_reason=unjudged if base is not None else None,
            notes=tuple(_notes(candidate, base, found)),
            jobs=job_changes(base, candidate, context.jobs_before, context.jobs_after),
            # What is gone costs nothing: only whole runs are held against each other.
            cost_before=cost(base, context.jobs_before, context.prices)
            if base_is_complete
            else None,
            cost_after=cost(candidate, context.jobs_after, context.prices) if complete else None,
            leaks=verdicts.leaks,
            suite_speed=verdicts.suite_speed,
            series=compare_series(base.series if base is not None else (), candidate.series),
            metrics=compare_metrics(base, candidate, past, context.directions, other_conditions),
            conditions=condition_changes(base.conditions, candidate.conditions) if base else (),
            neighbours=find_neighbours(base.printed if base else (), candidate.printed),
        )
    )


def _baseline(
    candidate: Run, history: History | None, bases: Sequence[Run], context: Context
) -> tuple[Selection, Run | None, tuple[Run, ...]]:
    """The history's runs that are used, the base, and the given runs that are used besides."""
    given = bases[-1] if bases else None
    branch = context.branch
    if given is not None and given.branch and not given.is_pull_request:
        branch = given.branch
    choice = Selection()
    if history is not None:
        choice = select_baseline(history, candidate, branch, context.lineage)
    base = given
    if base is None and history is not None and choice.used:
        base = from_history(history, choice.used[-1])
    known = {history.runs[at].run_id for at in choice.used} if history is not None else set()
    more = tuple(run for run in bases if run.run_id is None or run.run_id not in known)
    if choice.used:  # a proposal's own earlier run is none of the branch's
        more = tuple(run for run in more if not run.is_pull_request)
    return choice, base, more


@dataclass(frozen=True, slots=True, eq=False)
class _Verdicts:
    """All that was judged of a candidate's numbers; `speed` is that of each of its legs."""

    durations: MeasureVerdict
    memory: MeasureVerdict
    speed: Floats
    suite_speed: SuiteSpeed
    leaks: tuple[Leak, ...]


def _judge(candidate: Run, table: BaselineMatrix, previous: Run | None) -> _Verdicts:
    baseline = normalize_baseline(table.wall_s, table.wall_group, table.run_of_group)
    comparable = usable(candidate)
    wall_s = np.where(comparable, candidate.wall_s, np.nan)
    speeds = normalize_run(wall_s, candidate.leg, len(candidate.legs), baseline)
    usual = _baseline_probe_s(table)
    logs = peaks = None
    previous_speed = None
    if previous is not None:
        earlier = align(candidate, previous)
        twice = normalize_run(earlier.wall_s, earlier.leg, len(previous.legs), baseline)
        logs, peaks = confirmable_logs(twice, baseline), earlier.peak_delta_bytes
        previous_speed = _own_speed(previous, twice.speed_factor, usual)
    durations = judge_durations(candidate, speeds, baseline, logs)
    memory = judge_memory(candidate, comparable, table, peaks)
    if table.from_incomplete_legs:
        durations, memory = _explain_incomplete(durations), _explain_incomplete(memory)
    return _Verdicts(
        durations=durations,
        memory=memory,
        speed=speeds.speed_factor,
        suite_speed=judge_suite_speed(
            _own_speed(candidate, speeds.speed_factor, usual),
            _baseline_speeds(baseline, table, usual),
            previous_speed,
        ),
        leaks=find_leaks(candidate, comparable, table.retained_bytes, previous),
    )


def _own_speed(run: Run, speed: Floats, baseline_probe_s: float | None) -> Floats:
    probes = np.array([leg.probe_s or np.nan for leg in run.legs], np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = probe_adjusted_speed(
            np.log(speed),
            without_outliers(probes, baseline_probe_s),
            np.zeros(len(probes), np.int64),
            1,
        )
    return np.asarray(found[0], np.float64)


def _baseline_speeds(
    baseline: NormalizedBaseline, table: BaselineMatrix, baseline_probe_s: float | None
) -> Floats:
    runs = int(table.run_of_group.max(initial=-1)) + 1
    return probe_adjusted_speed(
        baseline.speed, without_outliers(table.probe_s, baseline_probe_s), table.run_of_group, runs
    )


def _baseline_probe_s(table: BaselineMatrix) -> float | None:
    probes = table.probe_s[table.is_used & ~np.isnan(table.probe_s)]
    return float(np.median(probes)) if len(probes) else None


def _has_missing_leg(candidate: Run, base: Run | None) -> bool:
    """Say that tests which are gone may have gone with a leg.

    Where every leg of the base is there and ended by itself, they were removed, or are run no
    longer; the rest is still a whole run, with a plan and without.
    """
    names = {leg.name for leg in candidate.legs}
    return base is not None and any(leg.name not in names for leg in base.legs)


def _changes(
    base: Run | None,
    candidate: Run,
    shard_of: Mapping[UnitKey, str] | None,
    lost: Sequence[LostUnits],
    names: Renames,
) -> tuple[Transition, ...]:
    units = frozenset(unit for one in lost for unit in one.units)
    return transitions(base, candidate, shard_of, units, names) if base is not None else ()


def _without_known(
    found: Sequence[Transition], candidate: Run, table: BaselineMatrix
) -> tuple[Transition, ...]:
    """Leave out added tests that other baseline runs measured: the base lost them."""
    places = np.flatnonzero(~np.isnan(table.wall_s).all(axis=1))
    known = {candidate.keys[place] for place in places.tolist()}
    return tuple(one for one in found if one.kind != "added" or one.key not in known)


def _no_gain_if_incomplete(verdict: MeasureVerdict, complete: bool) -> MeasureVerdict:
    """Withdraw the gain of an incomplete run: missing tests take their numbers with them."""
    if complete or verdict.verdict != "improved":
        return verdict
    return replace(verdict, verdict="incomplete")


def _explain_incomplete(verdict: MeasureVerdict) -> MeasureVerdict:
    """Not to be called unmeasured: it was measured, in legs that did not end by themselves."""
    return (
        replace(verdict, verdict="baseline incomplete")
        if verdict.verdict == "not measured"
        else verdict
    )


def _why_unjudged(
    table: BaselineMatrix, verdicts: Sequence[MeasureVerdict], baseline: BaselineInfo
) -> UnjudgedReason | None:
    """Return why neither measure has a verdict, where that is one reason."""
    if table.from_incomplete_legs and all(one.verdict == "baseline incomplete" for one in verdicts):
        return "baseline incomplete"
    return "few baseline runs" if len(baseline.runs) < MIN_BASELINE_RUNS else None


def _notes(candidate: Run, base: Run | None, transitions: Sequence[Transition]) -> Iterator[Note]:
    if base is None:
        yield Note("no_base")
    elif not leg_coverage(base).is_complete and any(one.before is None for one in transitions):
        yield Note("incomplete_base")
    if base is not None:
        resharded, in_both = resharded_cases(base, candidate)
        if in_both - resharded < MIN_OVERLAP * in_both:
            yield Note("resharded", resharded, in_both)
    unusable = int((~np.isnan(candidate.wall_s) & ~usable(candidate)).sum())
    if unusable:
        yield Note("not_passed", unusable)
