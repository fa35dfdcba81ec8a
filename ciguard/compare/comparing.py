"""A candidate against its base and baseline: the whole comparison in one pure function."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.baseline import Choice, beside, choose, facts, name_of, table_of, usable
from ciguard.compare.comparison import WORSE, Comparison
from ciguard.compare.durations import confirming, judge_durations
from ciguard.compare.headline import headline
from ciguard.compare.memory import judge_memory
from ciguard.compare.normalise import MANY, normalised_baseline, normalised_run
from ciguard.compare.runs import of_history
from ciguard.compare.transitions import transitions
from ciguard.compare.whole import leg_changes, totals
from ciguard.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.codec.history import History
    from ciguard.compare.baseline import Table
    from ciguard.compare.comparison import Judgement, State, Transition
    from ciguard.compare.runs import Floats, Run
    from ciguard.model import Plan

NAMED: Final = 3


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
    planned = frozenset(unit.key for shard in plan.shards for unit in shard.units) if plan else None
    found = transitions(base, candidate, planned) if base is not None else ()
    budgets = {shard.key: shard.budget_bytes for shard in plan.shards} if plan else {}
    legs = leg_changes(base, candidate, speed, budgets)
    reasons = tuple(_reasons(candidate, plan))
    known_runs = facts(history, choice, more)
    return headline(
        Comparison(
            state=_state(reasons, found, durations, memory, has_base=base is not None),
            headline="",
            base=name_of(base) if base is not None else None,
            candidate=name_of(candidate),
            previous=name_of(previous) if previous is not None else None,
            baseline=known_runs,
            reasons=reasons,
            transitions=found,
            legs=legs,
            totals=totals(base, candidate, complete=not reasons and not _has_lost(found)),
            durations=durations,
            memory=memory,
            notes=tuple(_notes(candidate, base, len(known_runs.runs), is_itself=is_itself)),
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
    return durations, memory, speeds.of_leg


def _reasons(candidate: Run, plan: Plan | None) -> Iterator[str]:
    """Why the candidate is incomplete."""
    for leg in candidate.legs:
        if not leg.complete:
            how = "was cut" if leg.ending in ("unknown", "completed") else f"ended by {leg.ending}"
            yield f"leg {leg.name or '?'} {how}"
    names = {leg.shard for leg in candidate.legs if leg.shard}
    if plan is not None:
        absent = sorted({shard.key for shard in plan.shards} - names)
    else:
        # Shards are numbered from 1: a gap is a record that did not arrive, and so is what is
        # missing of the number that every leg was told.
        numbers = [int(name) for name in names if re.fullmatch(r"\d{1,4}", name)]
        width = max(map(len, names), default=0)
        last = max([*numbers, candidate.planned_shards or 0], default=0)
        absent = [f"{number:0{width}}" for number in range(1, last + 1) if number not in numbers]
    if absent:
        more = f" and {len(absent) - NAMED} more" if len(absent) > NAMED else ""
        yield f"no record of shard {', '.join(absent[:NAMED])}{more}"
    if plan is not None:
        have = {key.unit_key for key in candidate.keys}
        lost = sum(1 for shard in plan.shards for unit in shard.units if unit.key not in have)
        if lost:
            yield f"{lost:,} planned units have no result"


def _state(
    reasons: Sequence[str],
    found: Sequence[Transition],
    durations: Judgement,
    memory: Judgement,
    *,
    has_base: bool,
) -> State:
    kinds = {one.kind for one in found}
    words = {durations.word, memory.word}
    if reasons:
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


def _notes(candidate: Run, base: Run | None, runs: int, *, is_itself: bool) -> Iterator[str]:
    if is_itself:
        yield "Both are the same run: there is nothing to compare."
        return
    if base is None:
        yield "There is no base: no transitions are told."
    if runs < MANY:
        told = "no statistical verdict, numbers and transitions only; a history has more"
        yield f"{runs} of the {MANY} baseline runs that are needed: {told}."
    untold = int((~np.isnan(candidate.wall_s) & ~usable(candidate)).sum())
    if untold:
        yield f"Not compared: numbers of {counted(untold, 'case')} that did not pass."
