"""An experiment from its first run to its verdict. Pure: the function that measures is a parameter.

An experiment ends when all runs are done, when an analysis is conclusive, when the next block would
exceed the budget, or when a run fails, because a failing program does other work. Wall time decides
the verdict on an arm; its other metrics have their own verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from ciguard.experiment.measurement import CPU, GPU, WALL, Measurement, Metric
from ciguard.experiment.paired_test import MIN_PAIRS, Row, Series, evaluate_rows
from ciguard.experiment.schedule import Design, Step, final_alpha, interim_analyses, steps
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
LOADED_RATIO: Final = 0.10  # of the machine's CPU time: more, used by others, disturbs wall time
# CPU time decides only if its interval is at most half as wide as that of wall time.
NARROW_RATIO: Final = 0.5
TIME_MARGIN: Final = 1.1  # x the longest run so far: the next one may take a little longer


@dataclass(frozen=True, slots=True)
class Unpaired:
    """Metrics without a row, because only the first arm or only another arm has them."""

    arm: str
    missing_on: str
    metrics: tuple[Metric, ...]


@dataclass(frozen=True, slots=True)
class CpuAnswer:
    """A comparison by CPU time, if other programs make wall time too noisy.

    Attributes:
        external_cpu_ratio: share of the machine's CPU time that these programs used meanwhile.
    """

    wall: Row
    cpu: Row
    external_cpu_ratio: float


@dataclass(frozen=True, slots=True)
class Exclusion:
    """The reason why a case is not judged: its outcome on an arm; None without a result."""

    arm: str
    outcome: Outcome | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Experiment:
    """The result of an experiment with commands or commits.

    Attributes:
        verdicts: on each arm but the first, compared with the first.
        arms: the command, or the commit, by name of the arm.
        blocks: number of complete blocks, by condition.
        level: for commands, share of experiments without a difference that may report one, in wall
            time and in the other rows; for commits, expected share of false discoveries.
        is_complete: no signal stopped the experiment; for commits, it also has enough runs for a
            verdict.
        failed: the run whose failure ended the experiment.
        unpaired, cpu_answers, measurements: for commands.
        exclusions: for commits, why a case has no row.
        units: for commits, number of requested units.
        stopped_by: the signal that interrupted the experiment; 0 for none.
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
        """Return the verdict on the second of two arms; None with more arms."""
        return next(iter(self.verdicts.values())) if len(self.verdicts) == 1 else None

    def changes(self, arm: str) -> tuple[Row, ...]:
        """Return the other rows of a command that differ: no time of it, and no single GPU."""
        if not self.measurements or self.failed is not None:
            return ()
        rows = (row for row in self.rows if row.arm == arm and row.differs)
        others = (row for row in rows if row.metric not in (WALL, CPU))
        return tuple(row for row in others if row.metric.name != GPU.name or row.metric == GPU)

    def row_verdict(self, row: Row) -> RowVerdict:
        """Return the verdict on a row; wall time that CPU time replaces is too noisy."""
        undecided = any(answer.wall == row for answer in self.cpu_answers)
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
        done: collects the measurements, also before `measure` raises.
        remaining_s: returns the rest of the budget.
        may_stop_early: a conclusive analysis ends the experiment.
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
    """Return the level of the last analysis."""
    if why != "conclusive":
        return final_alpha(design.runs)
    blocks = max(run.step.block for run in done if not run.step.is_warm) + 1
    return interim_analyses(design.runs)[blocks]


def is_conclusive(done: Sequence[Measurement], arms: Sequence[str], level: float) -> bool:
    """Return whether every row differs, or is equivalent."""
    rows = evaluate_rows(series_of(done, arms), level)
    return bool(rows) and all(row.differs or row.is_equivalent for row in rows)


def series_of(done: Iterable[Measurement], arms: Sequence[str]) -> list[Series]:
    """Pair the values of each metric by condition and arm, from blocks in which both arms have it.

    Sorted by condition, then metric in the order of first appearance, then arm.
    """
    first, *others = arms
    blocks: dict[tuple[int, int], dict[str, Measurement]] = {}
    for run in done:
        if not run.step.is_warm:
            blocks.setdefault((run.step.condition, run.step.block), {})[run.step.arm] = run
    pairs: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
    metric_index: dict[Metric, int] = {}
    for (condition, _), block in sorted(blocks.items()):
        baseline = block[first].values if first in block else {}
        for metric, before in baseline.items():
            index = metric_index.setdefault(metric, len(metric_index))
            for number, arm in enumerate(others):
                if arm in block and metric in block[arm].values:
                    pair = (before, block[arm].values[metric])
                    pairs.setdefault((condition, index, number), []).append(pair)
    metrics = list(metric_index)
    return [
        Series(condition, others[number], metrics[index], *np.array(values).T)
        for (condition, index, number), values in sorted(pairs.items())
    ]


def blocks_of(done: Iterable[Measurement], design: Design) -> tuple[int, ...]:
    """Count the complete blocks of each condition."""
    runs = [0] * len(design.conditions)
    for run in done:
        if not run.step.is_warm and run.values:
            runs[run.step.condition] += 1
    return tuple(number // len(design.arms) for number in runs)


def _next_block_s(done: Sequence[Measurement], condition: int) -> float:
    longest_s: dict[str, float] = {}
    for run in done:
        if run.step.condition == condition:
            longest_s[run.step.arm] = max(run.duration_s, longest_s.get(run.step.arm, 0.0))
    return TIME_MARGIN * sum(longest_s.values())


def conclude(
    design: Design,
    done: Sequence[Measurement],
    why: StopReason,
    *,
    commands: Mapping[str, str],
    wall_s: float = 0.0,
    stopped_by: int = 0,
) -> Experiment:
    level = alpha_of(design, why, done)
    rows = evaluate_rows(series_of(done, design.arms), level)
    failed = next((run for run in done if run.failure), None)
    cpu_answers = tuple(_cpu_answers(rows, design, done)) if failed is None else ()
    verdicts: dict[str, Verdict] = {}
    for arm in design.arms[1:]:
        verdict = verdict_of(rows, arm, len(design.conditions))
        undecided = any(answer.wall.arm == arm for answer in cpu_answers)
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
    """Return the verdict on a row; "higher" or "lower" if it is neither a time nor a size."""
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
    """Return the verdict on an arm by its wall time; "mixed" if conditions disagree."""
    verdicts = [row_verdict(row) for row in rows if row.arm == arm and row.metric == WALL]
    if "faster" in verdicts and "slower" in verdicts:
        return "mixed"
    if "faster" in verdicts or "slower" in verdicts:
        return "faster" if "faster" in verdicts else "slower"
    if len(verdicts) < conditions or "not enough data" in verdicts:
        return "not enough data"
    return "too noisy" if "too noisy" in verdicts else "no significant difference"


def _cpu_answers(
    rows: Sequence[Row], design: Design, done: Sequence[Measurement]
) -> Iterator[CpuAnswer]:
    """Yield comparisons by CPU time for undecided wall times under load by other programs."""
    for wall in (row for row in rows if row.metric == WALL and row.n >= MIN_PAIRS):
        name = (wall.condition, wall.arm, CPU)
        cpu = next((row for row in rows if (row.condition, row.arm, row.metric) == name), None)
        is_undecided = not (wall.differs or wall.is_equivalent)
        if cpu is None or not is_undecided:
            continue
        # Equivalent CPU times are an answer only if wall time is too noisy.
        if not (cpu.differs or (cpu.is_equivalent and wall.is_noisy)):
            continue
        arms = (design.arms[0], wall.arm)
        in_condition = (run for run in done if run.step.condition == wall.condition)
        load = external_cpu_ratio(run for run in in_condition if run.step.arm in arms)
        is_narrow = cpu.interval_width <= NARROW_RATIO * wall.interval_width
        if is_narrow and load is not None and load >= LOADED_RATIO:
            yield CpuAnswer(wall, cpu, load)


def external_cpu_ratio(runs: Iterable[Measurement]) -> float | None:
    """Return the share of CPU time that other programs used during these runs, without warm-ups."""
    known = [
        (run.external_cpu_ratio, run.duration_s)
        for run in runs
        if run.external_cpu_ratio is not None and not run.step.is_warm
    ]
    total_s = sum(duration_s for _, duration_s in known)
    return sum(ratio * duration_s for ratio, duration_s in known) / total_s if total_s else None


def _unpaired(arms: Sequence[str], done: Iterable[Measurement]) -> Iterator[Unpaired]:
    by_arm: dict[str, set[Metric]] = {arm: set() for arm in arms}
    for run in done:
        by_arm[run.step.arm].update(run.values)
    first = arms[0]
    for other in arms[1:]:
        for arm, missing_on in ((first, other), (other, first)):
            only = by_arm[arm] - by_arm[missing_on]
            if only and by_arm[missing_on]:
                yield Unpaired(arm, missing_on, tuple(sorted(only)))
