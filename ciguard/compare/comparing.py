"""A candidate against its base and baseline: the whole comparison in one pure function."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.around import NOTHING, Around
from ciguard.compare.baseline import beside, facts, name_of, table_of, usable
from ciguard.compare.before import with_past
from ciguard.compare.choice import Choice, choose
from ciguard.compare.comparison import Comparison
from ciguard.compare.durations import confirming, judge_durations
from ciguard.compare.headline import has_lost, told
from ciguard.compare.identity import recognised
from ciguard.compare.jobs import cost, job_changes
from ciguard.compare.leaks import leaks
from ciguard.compare.lost import legs_of, losses, reasons
from ciguard.compare.memory import judge_memory
from ciguard.compare.metrics import metrics
from ciguard.compare.normalise import MANY, normalised_baseline, normalised_run
from ciguard.compare.pace import believed, judge_pace, own_speed
from ciguard.compare.pairs import pairs
from ciguard.compare.renames import NO_RENAMES, renamed
from ciguard.compare.runs import of_history
from ciguard.compare.transitions import ABSENT, transitions, with_excuses
from ciguard.compare.vocabulary import NOUN
from ciguard.compare.whole import leg_changes, totals, trends
from ciguard.compare.words import few_runs
from ciguard.compare.work import SAME_WORK, dealt_anew
from ciguard.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.codec.history import History
    from ciguard.compare.baseline import Table
    from ciguard.compare.changes import Judgement, Transition
    from ciguard.compare.facts import BaselineFacts
    from ciguard.compare.normalise import Baseline
    from ciguard.compare.runs import Floats, Run
    from ciguard.compare.wholes import Leak, Pace
    from ciguard.model import Plan

SAME_RUN: Final = "both are the same run, so there is nothing to compare"
CUT: Final = "no number is judged, as no leg that measured it before ended by itself"
ONE_LEFT: Final = "no gain is told of a run that is not whole"


def compare_run(
    candidate: Run,
    history: History | None = None,
    bases: Sequence[Run] = (),
    *,
    previous: Run | None = None,
    plan: Plan | None = None,
    around: Around = NOTHING,
) -> Comparison:
    """Compare a run with what came before it.

    Args:
        candidate: the run in question.
        history: past runs of the base branch; its values are the baseline.
        bases: runs given by hand, oldest first: the last one's outcomes are the ones before, and
            all are baseline runs, unless they are proposals and the history has better ones.
            Without any, the history's newest usable run is the base.
        previous: an earlier run of the same change: what both show is confirmed.
        plan: of the candidate, where it is known: what should have run, and the memory budgets.
    """
    if history is not None:
        candidate = recognised(candidate, history)
        bases = tuple(recognised(base, history) for base in bases)
    is_itself = bool(bases) and bases[-1].is_same_as(candidate)
    if is_itself:
        history, previous = None, None
    if previous is not None and previous.is_same_as(candidate):
        previous = None
    choice, base, more = _baseline(candidate, history, bases, around)
    table = table_of(candidate, history, choice.used, more)
    judged = _judged(candidate, table, previous)
    lacking = legs_of(candidate, plan)
    names = renamed(base, candidate, lacking.shard_of) if base is not None else NO_RENAMES
    lost = losses(base, candidate, lacking, frozenset(names.sure.values()))
    units = frozenset(unit for one in lost for unit in one.units)
    found = transitions(base, candidate, lacking.shard_of, units, names) if base is not None else ()
    found = with_excuses(with_past(found, history, choice.used), around.excused)
    why = tuple(reasons(candidate, lacking))
    complete = not why and not has_lost(found)
    durations, memory = (_of_what_ran(one, complete) for one in (judged.durations, judged.memory))
    shards = {shard.key: shard for shard in plan.shards} if plan else {}
    known_runs = facts(history, choice, more, table)
    whole_base = base is not None and legs_of(base).whole
    unjudged = SAME_RUN if is_itself else _unjudged(table, (durations, memory), known_runs)
    return told(
        Comparison(
            state="inconclusive",
            headline="",
            base=name_of(base) if base is not None else None,
            candidate=name_of(candidate),
            previous=name_of(previous) if previous is not None else None,
            baseline=known_runs,
            reasons=why,
            transitions=found,
            lost=lost,
            legs=leg_changes(base, candidate, judged.speed, shards, judged.probe_s),
            totals=totals(base, candidate, complete=complete),
            pairs=pairs(base, candidate),
            durations=durations,
            memory=memory,
            unjudged=unjudged if base is not None else "",
            notes=tuple(_notes(candidate, base, found)),
            jobs=job_changes(base, candidate, around.jobs_before, around.jobs_after),
            # What is gone costs nothing: only whole runs are held against each other.
            cost_before=cost(base, around.jobs_before, around.prices) if whole_base else None,
            cost_after=cost(candidate, around.jobs_after, around.prices) if complete else None,
            leaks=judged.leaks,
            pace=judged.pace,
            metrics=metrics(base, candidate),
            trends=trends(candidate, history, choice.used, more, complete=complete),
        )
    )


def _baseline(
    candidate: Run, history: History | None, bases: Sequence[Run], around: Around
) -> tuple[Choice, Run | None, tuple[Run, ...]]:
    """The history's runs that are used, the base, and the given runs that are used besides."""
    given = bases[-1] if bases else None
    branch = around.branch
    if given is not None and given.branch and not given.is_proposal:
        branch = given.branch
    choice = Choice()
    if history is not None:
        choice = choose(history, candidate, branch, around.lineage)
    base = given
    if base is None and history is not None and choice.used:
        base = of_history(history, choice.used[-1])
    known = {history.runs[at].run_id for at in choice.used} if history is not None else set()
    more = tuple(run for run in bases if run.run_id is None or run.run_id not in known)
    if choice.used:  # a proposal's own earlier run is none of the branch's
        more = tuple(run for run in more if not run.is_proposal)
    return choice, base, more


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """All that was judged of a candidate's numbers.

    `speed` is that of each of its legs, `probe_s` what the probe takes on the baseline's runners.
    """

    durations: Judgement
    memory: Judgement
    speed: Floats
    pace: Pace
    leaks: tuple[Leak, ...]
    probe_s: float | None


def _judged(candidate: Run, table: Table, previous: Run | None) -> _Judged:
    baseline = normalised_baseline(table.wall_s, table.wall_group, table.run_of_group)
    comparable = usable(candidate)
    wall_s = np.where(comparable, candidate.wall_s, np.nan)
    speeds = normalised_run(wall_s, candidate.leg, len(candidate.legs), baseline)
    usual = _usual_probe(table)
    logs = peaks = None
    pace_before = None
    if previous is not None:
        earlier = beside(candidate, previous)
        twice = normalised_run(earlier.wall_s, earlier.leg, len(previous.legs), baseline)
        logs, peaks = confirming(twice, baseline), earlier.peak_delta_bytes
        pace_before = _pace_of(previous, twice.of_leg, usual)
    durations = judge_durations(candidate, speeds, baseline, logs)
    memory = judge_memory(candidate, comparable, table, peaks)
    if table.cut:
        durations, memory = _cut(durations), _cut(memory)
    return _Judged(
        durations=durations,
        memory=memory,
        speed=speeds.of_leg,
        pace=judge_pace(
            _pace_of(candidate, speeds.of_leg, usual), _paces(baseline, table, usual), pace_before
        ),
        leaks=leaks(candidate, comparable, table.retained_bytes, previous),
        probe_s=usual,
    )


def _pace_of(run: Run, speed: Floats, usual_s: float | None) -> Floats:
    probes = np.array([leg.probe_s or np.nan for leg in run.legs], np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = own_speed(
            np.log(speed), believed(probes, usual_s), np.zeros(len(probes), np.int64), 1
        )
    return np.asarray(found[0], np.float64)


def _paces(baseline: Baseline, table: Table, usual_s: float | None) -> Floats:
    runs = int(table.run_of_group.max(initial=-1)) + 1
    return own_speed(baseline.speed, believed(table.probe_s, usual_s), table.run_of_group, runs)


def _usual_probe(table: Table) -> float | None:
    probes = table.probe_s[table.is_used & ~np.isnan(table.probe_s)]
    return float(np.median(probes)) if len(probes) else None


def _of_what_ran(judgement: Judgement, complete: bool) -> Judgement:
    """What is missing takes its time and memory with it: no gain is told of what is left."""
    if complete or judgement.word != "improved":
        return judgement
    noun = NOUN[judgement.measure]
    return replace(judgement, word="incomplete", said=f"{noun}: {ONE_LEFT}")


def _cut(judgement: Judgement) -> Judgement:
    """Not to be called unmeasured: it was measured, in legs that did not end by themselves."""
    if judgement.word != "not measured":
        return judgement
    return replace(judgement, said=f"{NOUN[judgement.measure]}: {CUT}")


def _unjudged(table: Table, judgements: Sequence[Judgement], baseline: BaselineFacts) -> str:
    """Why neither measure has a verdict, where that is one reason."""
    if table.cut and all(judgement.word == "not measured" for judgement in judgements):
        return CUT
    return few_runs(len(baseline.runs)) if len(baseline.runs) < MANY else ""


def _notes(candidate: Run, base: Run | None, found: Sequence[Transition]) -> Iterator[str]:
    if base is None:
        yield "There is no base: no transitions are told."
    elif not legs_of(base).whole and any(one.before == ABSENT for one in found):
        yield "The base is incomplete: what is called added may have been lost there."
    if base is not None:
        elsewhere, there = dealt_anew(base, candidate)
        if there - elsewhere < SAME_WORK * there:
            yield (
                f"{elsewhere:,} of {counted(there, 'case')} ran in another leg than on the base: "
                "walls and peaks of its legs are of other tests."
            )
    untold = int((~np.isnan(candidate.wall_s) & ~usable(candidate)).sum())
    if untold:
        yield f"Not compared: numbers of {counted(untold, 'case')} that did not pass."
