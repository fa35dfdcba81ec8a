"""An experiment from its first run to its verdict. Pure: who measures is handed in.

It is over when all runs were made, when it is clear, when the next block would not fit in what is
left of the budget, or when a run fails: a failing program does less, or other things. Wall time
decides the verdict on an arm; its other numbers have verdicts of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ciguard.experiment.measurement import CPU, WALL, Measurement, Metric
from ciguard.experiment.paired_test import MIN_PAIRS, Row, Series, evaluate_rows
from ciguard.experiment.schedule import Design, Step, final_alpha, interim_analyses, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ciguard.model import CaseKey, Outcome

Verdict = Literal[
    "faster",
    "slower",
    "less memory",
    "more memory",
    "no significant difference",
    "not enough data",
    "too noisy",
    "mixed",
]
RowVerdict = Verdict | Literal["higher", "lower"]
StopReason = Literal["all runs", "conclusive", "budget", "failed", "interrupted"]
LOADED_RATIO: Final = 0.10  # of the machine's CPU time, used by others: then they are in the way
# An interval of CPU time that is not even half as wide as wall time's may be so by luck.
NARROW_RATIO: Final = 0.5
TIME_MARGIN: Final = 1.1  # of the longest run so far: the next one may take a little longer


@dataclass(frozen=True, slots=True)
class Unpaired:
    """Metrics that have no row: the first arm has them and another one has not, or vice versa."""

    arm: str
    missing_on: str
    metrics: tuple[Metric, ...]


@dataclass(frozen=True, slots=True)
class CpuAnswer:
    """What CPU time says where other programs make wall time too noisy to say anything.

    Attributes:
        external_cpu_ratio: share of the machine's CPU time that those used meanwhile.
    """

    wall: Row
    cpu: Row
    external_cpu_ratio: float


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why a case has no numbers: how it ended on an arm; None without a result."""

    arm: str
    outcome: Outcome | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Experiment:
    """The answer.

    Attributes:
        verdicts: on each arm but the first, compared with it.
        arms: the command, or the commit, of each by its name.
        blocks: whole ones, by condition.
        level: share of experiments without a difference that may report one, in wall time, and in
            the other rows; of commits, of the false discoveries.
        is_complete: of commands, it came to its end by itself; of commits, nothing stopped it, and
            enough was run to judge by.
        failed: the run that stopped it.
        unpaired, cpu_answers, measurements: of commands.
        exclusions: of commits, why a case has no row.
        units: of commits, how many were asked for.
        stopped_by: the signal that interrupted it; 0 if none did.
    """

    verdicts: Mapping[str, Verdict]
    rows: tuple[Row, ...]
    arms: Mapping[str, str]
    design: Design
    blocks: tuple[int, ...]
    stopped_because: StopReason
    level: float
    wall_s: float
    is_complete: bool
    failed: Measurement | None = None
    unpaired: tuple[Unpaired, ...] = ()
    cpu_answers: tuple[CpuAnswer, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    exclusions: Mapping[CaseKey, Exclusion] = field(default_factory=dict)
    units: int = 0
    stopped_by: int = 0

    @property
    def verdict(self) -> Verdict | None:
        """Of two arms the verdict on the second; None of more: each has its own."""
        return next(iter(self.verdicts.values())) if len(self.verdicts) == 1 else None

    def row_verdict(self, row: Row) -> RowVerdict:
        """Return the verdict on a row; wall time that only CPU time decides is too noisy."""
        undecided = any(one.wall == row for one in self.cpu_answers)
        return "too noisy" if undecided else row_verdict(row)


def run_design(
    design: Design,
    done: list[Measurement],
    measure: Callable[[Step], Measurement],
    remaining_s: Callable[[], float],
    *,
    may_stop_early: bool = True,
) -> StopReason:
    """Make one run after the other.

    Args:
        done: takes in what was measured, also where `measure` raises.
        remaining_s: what is left of the budget.
        may_stop_early: whether it may be over early because it is clear.
    """
    levels = interim_analyses(design.runs) if may_stop_early else {}
    for step in steps(design):
        if step.position == 0 and _next_block_s(done, step.condition) > remaining_s():
            return "budget"
        begins_round = not (step.position or step.condition or step.is_warm)
        if begins_round and step.block in levels:  # noqa: SIM102
            if is_conclusive(done, design.arms, levels[step.block]):
                return "conclusive"
        measured = measure(step)
        done.append(measured)
        if measured.hit_budget:
            return "budget"
        if measured.failure:
            return "failed"
    return "all runs"


def alpha_of(design: Design, why: StopReason, done: Sequence[Measurement]) -> float:
    """The level at which the rows are judged when it is over."""
    levels = interim_analyses(design.runs)
    if why != "conclusive":
        return final_alpha(design.runs)
    return levels[max(one.step.block for one in done if not one.step.is_warm) + 1]


def is_conclusive(done: Sequence[Measurement], arms: Sequence[str], level: float) -> bool:
    """Say that every row differs, or does not differ by anything that matters."""
    rows = evaluate_rows(series_of(done, arms), level)
    return bool(rows) and all(row.differs or row.is_equivalent for row in rows)


def series_of(done: Iterable[Measurement], arms: Sequence[str]) -> list[Series]:
    """The rows: each metric of each condition and arm, from the blocks in which both have it.

    By condition, then metric in the order of their first appearance, then arm.
    """
    first, *others = arms
    blocks: dict[tuple[int, int], dict[str, Measurement]] = {}
    for one in done:
        if not one.step.is_warm:
            blocks.setdefault((one.step.condition, one.step.block), {})[one.step.arm] = one
    cells: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
    place: dict[Metric, int] = {}
    for (condition, _), block in sorted(blocks.items()):
        baseline = block[first].values if first in block else {}
        for metric, before in baseline.items():
            at = place.setdefault(metric, len(place))
            for number, arm in enumerate(others):
                if arm in block and metric in block[arm].values:
                    pair = (before, block[arm].values[metric])
                    cells.setdefault((condition, at, number), []).append(pair)
    metrics = list(place)
    found = []
    for (condition, at, number), values in sorted(cells.items()):
        before_, after_ = np.array(values).T
        found.append(Series(condition, others[number], metrics[at], before_, after_))
    return found


def blocks_of(done: Iterable[Measurement], design: Design) -> tuple[int, ...]:
    """Count the whole blocks of each condition."""
    runs = [0] * len(design.conditions)
    for one in done:
        if not one.step.is_warm and one.values:
            runs[one.step.condition] += 1
    return tuple(number // len(design.arms) for number in runs)


def _next_block_s(done: Sequence[Measurement], condition: int) -> float:
    longest: dict[str, float] = {}
    for one in done:
        if one.step.condition == condition:
            longest[one.step.arm] = max(one.duration_s, longest.get(one.step.arm, 0.0))
    return TIME_MARGIN * sum(longest.values())


def conclude(
    design: Design,
    done: Sequence[Measurement],
    why: StopReason,
    *,
    commands: Mapping[str, str],
    wall_s: float = 0.0,
    stopped_by: int = 0,
) -> Experiment:
    """Judge what was measured."""
    level = alpha_of(design, why, done)
    rows = evaluate_rows(series_of(done, design.arms), level)
    failed = next((one for one in done if one.failure), None)
    cpu_answers = tuple(_cpu_answers(rows, design, done)) if failed is None else ()
    verdicts: dict[str, Verdict] = {}
    for arm in design.arms[1:]:
        verdict = verdict_of(rows, arm, len(design.conditions))
        undecided = any(one.wall.arm == arm for one in cpu_answers)
        if verdict == "no significant difference" and undecided:
            verdict = "too noisy"
        verdicts[arm] = verdict if failed is None else "not enough data"
    return Experiment(
        verdicts=verdicts,
        rows=rows,
        arms=commands,
        design=design,
        blocks=blocks_of(done, design),
        stopped_because=why,
        level=level,
        wall_s=wall_s,
        is_complete=why in ("all runs", "conclusive"),
        failed=failed,
        unpaired=tuple(_unpaired(design.arms, done)),
        cpu_answers=cpu_answers,
        measurements=tuple(done),
        stopped_by=stopped_by,
    )


def row_verdict(row: Row) -> RowVerdict:
    """Return the verdict on a row, or "higher", "lower" of a number that is neither."""
    if row.n < MIN_PAIRS:
        return "not enough data"
    if not row.differs:
        return (
            "too noisy" if row.is_noisy and not row.is_equivalent else "no significant difference"
        )
    less = (row.ratio or row.after - row.before) < 0
    if row.is_time:
        return "faster" if less else "slower"
    if row.is_memory:
        return "less memory" if less else "more memory"
    return "lower" if less else "higher"


def verdict_of(rows: Sequence[Row], arm: str, conditions: int) -> Verdict:
    """The verdict on an arm, by its wall time in all conditions; "mixed" if these disagree."""
    found = [row_verdict(row) for row in rows if row.arm == arm and row.metric == WALL]
    if "faster" in found and "slower" in found:
        return "mixed"
    if "faster" in found or "slower" in found:
        return "faster" if "faster" in found else "slower"
    if len(found) < conditions or "not enough data" in found:
        return "not enough data"
    return "too noisy" if "too noisy" in found else "no significant difference"


def _cpu_answers(
    rows: Sequence[Row], design: Design, done: Sequence[Measurement]
) -> Iterator[CpuAnswer]:
    """Yield the CPU times that decide where wall time does not, under load by others."""
    for wall in (row for row in rows if row.metric == WALL and row.n >= MIN_PAIRS):
        name = (wall.condition, wall.arm, CPU)
        cpu = next((row for row in rows if (row.condition, row.arm, row.metric) == name), None)
        is_open = not (wall.differs or wall.is_equivalent)
        if cpu is None or not is_open:
            continue
        # That CPU time is the same says more than wall time only where that says nothing.
        if not (cpu.differs or (cpu.is_equivalent and wall.is_noisy)):
            continue
        pair = (design.arms[0], wall.arm)
        load = external_cpu_ratio(one for one in done if one.step.condition == wall.condition
                            and one.step.arm in pair)  # fmt: skip
        is_narrow = cpu.interval_width <= NARROW_RATIO * wall.interval_width
        if is_narrow and load is not None and load >= LOADED_RATIO:
            yield CpuAnswer(wall, cpu, load)


def external_cpu_ratio(runs: Iterable[Measurement]) -> float | None:
    """Share of the machine's CPU time that others used during these runs, warm ones aside."""
    known = [
        (one.machine.external_cpu_ratio, one.duration_s)
        for one in runs
        if one.machine.external_cpu_ratio is not None and not one.step.is_warm
    ]
    total_s = sum(duration_s for _, duration_s in known)
    return sum(ratio * duration_s for ratio, duration_s in known) / total_s if total_s else None


def _unpaired(arms: Sequence[str], done: Iterable[Measurement]) -> Iterator[Unpaired]:
    by_arm: dict[str, set[Metric]] = {arm: set() for arm in arms}
    for one in done:
        by_arm[one.step.arm].update(one.values)
    first = arms[0]
    for other in arms[1:]:
        for arm, missing_on in ((first, other), (other, first)):
            only = by_arm[arm] - by_arm[missing_on]
            if only and by_arm[missing_on]:
                yield Unpaired(arm, missing_on, tuple(sorted(only)))
