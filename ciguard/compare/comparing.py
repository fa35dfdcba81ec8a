"""A candidate against its base and baseline: the whole comparison in one pure function."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.baseline import Choice, beside, choose, facts, name_of, table_of, usable
from ciguard.compare.comparison import WORSE, Comparison
from ciguard.compare.durations import confirming, judge_durations
from ciguard.compare.headline import headline
from ciguard.compare.identity import recognised
from ciguard.compare.lost import legs_of, losses, reasons
from ciguard.compare.memory import judge_memory
from ciguard.compare.normalise import MANY, normalised_baseline, normalised_run
from ciguard.compare.runs import of_history
from ciguard.compare.transitions import ABSENT, transitions
from ciguard.compare.whole import leg_changes, totals
from ciguard.compare.words import NOUN, few_runs
from ciguard.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.codec.history import History
    from ciguard.compare.baseline import Table
    from ciguard.compare.comparison import BaselineFacts, Judgement, State, Transition
    from ciguard.compare.runs import Floats, Run
    from ciguard.model import Plan

SAME_RUN: Final = "both are the same run, so there is nothing to compare"
CUT: Final = "no number is judged, as no leg that measured it before ended by itself"


def compare_run(
    candidate: Run,
    history: History | None = None,
    bases: Sequence[Run] = (),
    *,
    previous: Run | None = None,
    plan: Plan | None = None,
) -> Comparison:
    """Compare a run with what came before it.

    Args:
        candidate: the run in question.
        history: past runs of the base branch; its values are the baseline.
        bases: runs given by hand, oldest first: the last one's outcomes are the ones before, and
            all are baseline runs. Without any, the history's newest usable run is the base.
        previous: an earlier run of the same change: what both show is confirmed.
        plan: of the candidate, where it is known: what should have run, and the memory budgets.
    """
    if history is not None:
        candidate = recognised(candidate, history)
        bases = tuple(recognised(base, history) for base in bases)
    is_itself = bool(bases) and bases[-1].is_same_as(candidate)
    if is_itself:
        history, previous = None, None
    given = bases[-1] if bases else None
    choice = choose(history, candidate, given) if history is not None else Choice((), ())
    base = given
    if base is None and history is not None and choice.used:
        base = of_history(history, choice.used[-1])
    known = {history.runs[at].run_id for at in choice.used} if history is not None else set()
    more = tuple(run for run in bases if run.run_id is None or run.run_id not in known)
    table = table_of(candidate, history, choice.used, more)
    if previous is not None and previous.is_same_as(candidate):
        previous = None
    durations, memory, speed = _judged(candidate, table, previous)
    lacking = legs_of(candidate, plan)
    lost = losses(base, candidate, lacking)
    units = frozenset(unit for one in lost for unit in one.units)
    found = transitions(base, candidate, lacking.shard_of, units) if base is not None else ()
    budgets = {shard.key: shard.budget_bytes for shard in plan.shards} if plan else {}
    legs = leg_changes(base, candidate, speed, budgets)
    why = tuple(reasons(candidate, lacking))
    known_runs = facts(history, choice, more)
    unjudged = SAME_RUN if is_itself else _unjudged(table, (durations, memory), known_runs)
    return headline(
        Comparison(
            state=_state(why, found, durations, memory, has_base=base is not None),
            headline="",
            base=name_of(base) if base is not None else None,
            candidate=name_of(candidate),
            previous=name_of(previous) if previous is not None else None,
            baseline=known_runs,
            reasons=why,
            transitions=found,
            lost=lost,
            legs=legs,
            totals=totals(base, candidate, complete=not why and not _has_lost(found)),
            durations=durations,
            memory=memory,
            unjudged=unjudged if base is not None else "",
            notes=tuple(_notes(candidate, base, found)),
        )
    )


def _judged(
    candidate: Run, table: Table, previous: Run | None
) -> tuple[Judgement, Judgement, Floats]:
    """Durations, memory, and the speed of each of the candidate's legs."""
    baseline = normalised_baseline(table.wall_s, table.wall_group, table.run_of_group)
    comparable = usable(candidate)
    wall_s = np.where(comparable, candidate.wall_s, np.nan)
    speeds = normalised_run(wall_s, candidate.leg, len(candidate.legs), baseline)
    logs = peaks = None
    if previous is not None:
        earlier = beside(candidate, previous)
        legs = len(previous.legs)
        logs = confirming(normalised_run(earlier.wall_s, earlier.leg, legs, baseline), baseline)
        peaks = earlier.peak_delta_bytes
    durations = judge_durations(candidate, speeds, baseline, logs)
    memory = judge_memory(candidate, comparable, table.peak_delta_bytes, peaks)
    if table.cut:
        durations, memory = _cut(durations), _cut(memory)
    return durations, memory, speeds.of_leg


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


def _state(
    why: Sequence[str],
    found: Sequence[Transition],
    durations: Judgement,
    memory: Judgement,
    *,
    has_base: bool,
) -> State:
    kinds = {one.kind for one in found}
    words = {durations.word, memory.word}
    if why:
        return "incomplete"
    worse = bool(kinds & set(WORSE)) or bool(words & {"regressed", "mixed"})
    # Units that are gone take their failures, time and memory with them: that is no gain.
    better = not _has_lost(found) and ("fixed" in kinds or "improved" in words)
    if worse:
        return "mixed" if better or "mixed" in words else "worse"
    if memory.word == "suspects":
        return "suspect"
    if better:
        return "better"
    if _has_lost(found) or not has_base:
        return "inconclusive"
    # Nearly every run has a duration suspect by chance: alone, they are no difference.
    judged = words & {"no significant difference", "suspects"}
    return "same" if judged else "inconclusive"


def _has_lost(found: Sequence[Transition]) -> bool:
    """Say that a case has no result any more; a whole leg may be gone with it."""
    return any(one.kind == "no_longer_run" for one in found)


def _notes(candidate: Run, base: Run | None, found: Sequence[Transition]) -> Iterator[str]:
    if base is None:
        yield "There is no base: no transitions are told."
    elif not legs_of(base).whole and any(one.before == ABSENT for one in found):
        yield "The base is incomplete: what is called added may have been lost there."
    untold = int((~np.isnan(candidate.wall_s) & ~usable(candidate)).sum())
    if untold:
        yield f"Not compared: numbers of {counted(untold, 'case')} that did not pass."
