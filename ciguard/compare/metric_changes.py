"""The changes of metrics of a run against its base and past runs. Pure.

Only values with equal name, unit and key are compared; the median represents several values of a
run. An exact metric differs from the base or not: several values of a run, whose tests may run in
any shard, are compared in ascending order. Any other metric is judged by past runs with as many
values under the same conditions (`[metrics] conditions`), if there are enough. For a text that is
counted, the value is its number, 0 if a run has none; it is exact if no such runs show its noise. A
difference below the last digit that a log printed is no difference.

Printed metrics without an equal key are shown beside the most similar one, without a verdict.
People pair such values by hand, and wrongly: two compilation stages print the same words about
different kernels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final, Literal

from ciguard.compare.log_comparison import ValuePair, pair_values
from ciguard.compare.run_columns import Conditions, Run, conditions_of
from ciguard.compare.series import series_title
from ciguard.compare.statistics import (
    MIN_RUNS_TO_CONFIRM,
    MetricEffect,
    benjamini_hochberg,
    metric_effect,
)
from ciguard.history.file import History
from ciguard.history.metric_series import MetricKey, RunValue, metric_key
from ciguard.logs.pattern import Better
from ciguard.logs.pattern_table import BoundViolation, Direction, find_violations
from ciguard.logs.process_logs import LogMetric
from ciguard.logs.values import distinct
from ciguard.model import TIME_UNITS
from ciguard.render.changes import amount_text, estimated_change, exact_change
from ciguard.text import count_of, name_some, one_line

Past = Mapping[MetricKey, Sequence[RunValue]]  # values of baseline runs, oldest first


@dataclass(frozen=True, slots=True)
class ConditionChange:
    """A variable with different values in the two runs; () if no leg had the variable."""

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def condition_changes(before: Conditions, after: Conditions) -> tuple[ConditionChange, ...]:
    """Return the conditions that differ or that only one run has, by name."""
    return tuple(
        ConditionChange(name, before.get(name, ()), after.get(name, ()))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


MAX_PAIRS: Final = 20  # pairs that are shown


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Pairs of similar values without a verdict.

    Attributes:
        nearest: neither value has an equal value in the other run.
        refused: one of the values has an equal value in the other run.
    """

    nearest: tuple[ValuePair, ...] = ()
    refused: tuple[ValuePair, ...] = ()


NO_NEIGHBOURS: Final = Neighbours()


def find_neighbours(before: Sequence[LogMetric], after: Sequence[LogMetric]) -> Neighbours:
    """Return the pairs of similar values of two runs, at most 20 of each kind."""
    if not before or not after:
        return NO_NEIGHBOURS
    pairing = pair_values(*([metric.log_value for metric in side] for side in (before, after)))
    return Neighbours(pairing.nearest[:MAX_PAIRS], pairing.refused[:MAX_PAIRS])


# "changed": the metric differs, and neither direction is better; "not judged": too few values.
MetricVerdict = Literal["worse", "mixed", "better", "changed", "same", "not judged"]
# In the order in which they are listed.
VERDICTS: Final[tuple[MetricVerdict, ...]] = (
    *("worse", "mixed", "better", "changed", "not judged", "same"),
)
NOTABLE_RATIO: Final = 0.05  # a smaller change without a verdict is not counted


@dataclass(frozen=True, slots=True)
class MetricChange:
    """The change of a metric, a number that a program or a log gave in both runs.

    Attributes:
        after: median of `n_after` values.
        before: median of the `n_before` values of the base. For a judged metric that is not exact,
            median over the medians of `runs` past runs with as many values.
        ratio: relative change; None if `before` is not above 0.
        low, high: 95 % interval of `ratio`.
    """

    name: str
    unit: str
    key: Mapping[str, str]
    before: float
    after: float
    ratio: float | None
    n_before: int
    n_after: int
    verdict: MetricVerdict = "not judged"
    is_exact: bool = False
    runs: int = 0
    low: float | None = None
    high: float | None = None

    @property
    def relative_change(self) -> float:
        """Return the size of the change as a ratio; infinite for a change from 0."""
        if self.ratio is None:
            return float("inf") if self.before != self.after else 0.0
        return abs(self.ratio)


@dataclass(frozen=True, slots=True)
class MetricCount:
    """A metric with different numbers of values in the two runs, which cannot be paired."""

    name: str
    unit: str
    key: Mapping[str, str]
    n_before: int
    n_after: int
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of both runs.

    Attributes:
        only_before, only_after: numbers of metrics that only one run has, without `counts`.
        missing_exact: number of exact metrics with no values or fewer values in the candidate.
        other_conditions: number of past runs that are not used, as their conditions differ.
        violations: metrics of the candidate beyond an absolute bound.
    """

    changes: tuple[MetricChange, ...] = ()
    only_before: int = 0
    only_after: int = 0
    counts: tuple[MetricCount, ...] = ()
    missing_exact: int = 0
    other_conditions: int = 0
    violations: tuple[BoundViolation, ...] = ()

    @property
    def unjudged(self) -> tuple[MetricChange, ...]:
        """Select the changes without a verdict."""
        return tuple(change for change in self.changes if change.verdict == "not judged")

    @property
    def moved(self) -> tuple[MetricChange, ...]:
        """Select the changes without a verdict that are large enough to be counted."""
        return tuple(change for change in self.unjudged if change.relative_change >= NOTABLE_RATIO)

    @property
    def verdicts(self) -> Mapping[MetricVerdict, int]:
        """Count the changes by verdict, "not judged" left out."""
        verdicts = (change.verdict for change in self.changes)
        return Counter(verdict for verdict in verdicts if verdict != "not judged")

    @property
    def is_unjudged(self) -> bool:
        """Return whether there are metrics, but no metric has a verdict."""
        return bool(self.changes or self.counts or self.only_before) and not self.verdicts


NO_METRICS: Final = Metrics()


def past_metrics(
    history: History | None, used: Sequence[int], bases: Sequence[Run], conditions: Conditions
) -> tuple[Past, frozenset[int]]:
    """Return the metrics of the baseline's runs, and the ids of runs with other conditions.

    Args:
        used: positions of the used runs in the history.
        bases: runs that are not in the history.
        conditions: conditions of the candidate.
    """
    past: dict[MetricKey, list[RunValue]] = defaultdict(list)
    known: dict[int, Conditions] = {}
    if history is not None:
        for run in (history.runs[position] for position in used):
            known[run.run_id] = conditions_of(leg.conditions or {} for leg in run.legs)
        for metric in history.metrics:
            past[metric.identity] += [value for value in metric.values if value.run_id in known]
    for position, base in enumerate(bases):
        run_id = base.run_id or -position
        known[run_id] = base.conditions
        for key, values in base.metrics.items():
            past[key].append(RunValue(run_id, median(values), len(values)))
    unlike = frozenset(run_id for run_id, own in known.items() if own != conditions)
    return {key: values for key, values in past.items() if values}, unlike


@dataclass(frozen=True, slots=True)
class _Pair:
    """A metric of the candidate with its earlier values.

    Attributes:
        values: values of the candidate.
        before: values of the base or of the newest past run; () if only the median is known.
        median_before, n_before: median and number of the earlier values.
        past: medians of past runs with equal conditions and as many values as the candidate.
        resolution: a smaller difference is no difference.
    """

    key: MetricKey
    values: tuple[float, ...]
    before: tuple[float, ...]
    median_before: float
    n_before: int
    past: tuple[float, ...]
    direction: Direction
    resolution: float = 0.0

    @property
    def uses_history(self) -> bool:
        return not self.direction.exact and len(self.past) >= MIN_RUNS_TO_CONFIRM

    @property
    def differs_in_number(self) -> bool:
        """Return whether no earlier run has as many values."""
        return self.n_before != len(self.values) and (self.direction.exact or not self.past)

    def count(self) -> MetricCount:
        name, unit, key = self.key
        numbers = (self.n_before, len(self.values))
        return MetricCount(name, unit, dict(key), *numbers, is_exact=self.direction.exact)

    def change(self, effect: MetricEffect | None, *, is_real: bool = False) -> MetricChange:
        """Return the change by past runs, or by the base without `effect`; `is_real`: no noise."""
        name, unit, key = self.key
        n, after = len(self.values), median(self.values)
        before = self.median_before if self.n_before == n else self.past[-1]
        before = before if effect is None else effect.before
        change = MetricChange(
            name=name,
            unit=unit,
            key=dict(key),
            before=before,
            after=after,
            ratio=after / before - 1 if before > 0 else None,
            n_before=n,
            n_after=n,
            is_exact=self.direction.exact,
            runs=len(self.past),
        )
        if effect is not None:
            verdict = self._verdict(before, after) if is_real else "same"
            return replace(change, verdict=verdict, low=effect.low, high=effect.high)
        verdict = self._exact_verdict() if change.is_exact else "not judged"
        if verdict == "not judged" and not all(map(self.direction.allows, self.values)):
            verdict = "worse"
        return replace(change, verdict=verdict)

    def _verdict(self, before: float, after: float) -> MetricVerdict:
        return self.direction.judge(distinct(after - before, self.resolution))

    def _exact_verdict(self) -> MetricVerdict:
        if not self.before:  # the history has medians: equal medians may be of other values
            verdict = self._verdict(self.median_before, median(self.values))
            return "not judged" if verdict == "same" and self.n_before > 1 else verdict
        pairs = zip(sorted(self.before), sorted(self.values), strict=True)
        verdicts = {self._verdict(old, new) for old, new in pairs} - {"same"}
        if not verdicts:
            return "same"
        return verdicts.pop() if len(verdicts) == 1 else "mixed"


def compare_metrics(
    base: Run | None,
    candidate: Run,
    past: Past,
    directions: Mapping[str, Direction],
    unlike: Collection[int] = (),
) -> Metrics:
    """Compare the metrics of both runs: worse metrics first, then the largest change.

    Args:
        past: metrics of the baseline's runs; the base may not have all of them.
        directions: by name of a metric, the better direction.
        unlike: ids of past runs with other conditions, whose noise is not used.

    Returns:
        no change if no metric was known before; if the candidate has none, the number of them.
    """
    numbers = [(*key[:2], value) for key, values in candidate.metrics.items() for value in values]
    is_read = numbers or not candidate.in_history  # a history has no metrics of a candidate
    violations = tuple(find_violations(numbers, directions if is_read else {}))
    if base is None:
        return Metrics(violations=violations)
    known, own = _values_of_base(base, past), dict(candidate.metrics)
    seen = {part for key in own for part in key[2]}
    for key in () if candidate.in_history else {*known, *own}:
        row = direction_of(key, directions)
        if row.is_occurrence and row.better:  # a run has 0 lines, if it ran what prints them
            if not base.in_history:
                known.setdefault(key, ())
            if seen.issuperset(part for part in key[2] if part[0] in row.within):
                own.setdefault(key, ())
    ids = {value.run_id for values in past.values() for value in values}.difference(unlike)
    resolutions: dict[MetricKey, float] = defaultdict(float)  # of the last digit that logs print
    for metric in (*base.printed, *candidate.printed):
        key = metric_key(metric)
        resolutions[key] = max(resolutions[key], metric.log_value.resolution)
    pairs = [
        _pair(
            *(key, values, known.get(key), past.get(key, ())),
            ids=ids,
            direction=direction_of(key, directions),
            resolution=resolutions[key],
        )
        for key, values in sorted(own.items())
        if key in known or key in past
    ]
    if not pairs and not known:
        return Metrics(violations=violations)
    direct = [pair for pair in pairs if not pair.uses_history and not pair.differs_in_number]
    judged = [pair for pair in pairs if pair.uses_history]
    effects = [metric_effect(pair.past, median(pair.values)) for pair in judged]
    real = benjamini_hochberg([effect.p for effect in effects]).tolist()
    changes = [
        pair.change(effect, is_real=is_real)
        for pair, effect, is_real in zip(judged, effects, real, strict=True)
    ]
    changes += [pair.change(None) for pair in direct]
    lost = {key: direction_of(key, directions) for key in sorted(known.keys() - own.keys())}
    missing = [key for key, row in lost.items() if row.exact or (row.is_occurrence and row.within)]
    exact = Direction(exact=True)
    pairs += [_pair(key, (), known[key], (), ids=(), direction=exact) for key in missing]
    changes.sort(key=lambda change: (VERDICTS.index(change.verdict), -change.relative_change))
    return Metrics(
        changes=tuple(changes),
        only_before=len(lost) - len(missing),
        only_after=len(own) - len(pairs) + len(missing),
        # Medians of different numbers of values can differ although no value changed.
        counts=tuple(pair.count() for pair in pairs if pair.differs_in_number),
        missing_exact=sum(one.direction.exact and len(one.values) < one.n_before for one in pairs),
        other_conditions=len(unlike),
        violations=violations,
    )


def direction_of(key: MetricKey, directions: Mapping[str, Direction]) -> Direction:
    """Return the better direction of a metric; by default less time and memory is better."""
    name, unit, _ = key
    default: Better = "lower" if unit in TIME_UNITS or unit == "bytes" else ""
    known = directions.get(name, Direction(None))
    return replace(known, better=default) if known.better is None else known


def _values_of_base(base: Run, past: Past) -> dict[MetricKey, tuple[float, ...] | RunValue]:
    """Return the metrics of the base by its record, otherwise by the history."""
    if base.metrics:
        return dict(base.metrics)
    return {key: one for key, values in past.items() for one in values if one.run_id == base.run_id}


def _pair(
    key: MetricKey,
    values: tuple[float, ...],
    base: tuple[float, ...] | RunValue | None,
    runs: Sequence[RunValue],
    *,
    ids: Collection[int],
    direction: Direction,
    resolution: float = 0.0,
) -> _Pair:
    before = runs[-1] if base is None else base
    if isinstance(before, RunValue):
        middle, number, before = before.value, before.n, ()
    else:
        middle, number = median(before or (0.0,)), len(before)
    if direction.is_occurrence:  # the number of lines is the value
        values, before, middle, number = (float(len(values)),), (float(number),), float(number), 1
        counts = {run.run_id: float(run.n) for run in runs}
        first = min(counts, default=float("inf"))  # a later run without it has 0
        runs = [RunValue(one, counts.get(one, 0.0)) for one in sorted(ids) if one >= first]
    alike = [run.value for run in runs if run.run_id in ids and run.n == len(values)]
    if direction.is_occurrence and len(alike) < MIN_RUNS_TO_CONFIRM:  # no noise is known
        direction = replace(direction, exact=True)
    return _Pair(key, values, before, middle, number, tuple(alike), direction, resolution)


DIFFERENT: Final[tuple[MetricVerdict, ...]] = ("worse", "mixed", "better", "changed")
MAX_CONDITION: Final = 60  # characters of a value


def metric_text(metric: MetricChange | MetricCount) -> str:
    """Return "512 MiB -> 640 MiB (medians of 5 and 5 values)" or "3 -> 2 values"."""
    if isinstance(metric, MetricCount):
        return f"{metric.n_before} -> {count_of(metric.n_after, 'value')}"
    values = " -> ".join(amount_text(one, metric.unit) for one in (metric.before, metric.after))
    if max(metric.n_before, metric.n_after) > 1:
        values += f" (medians of {metric.n_before} and {count_of(metric.n_after, 'value')})"
    return values


def metric_change_text(metric: MetricChange) -> str:
    """Return "-1.41 % (-390 MiB)" for an exact metric, as of two logs; "+50 %" for any other."""
    if metric.is_exact and metric.verdict == "same":
        return "-"
    if not metric.is_exact:
        return _estimated(metric)[0]
    return exact_change(metric.after - metric.before, metric.ratio, metric.unit)


def _estimated(metric: MetricChange) -> tuple[str, str]:
    ratio = (metric.ratio, metric.low, metric.high)
    return estimated_change(metric.before, metric.after, ratio, metric.unit)


def violation_text(violation: BoundViolation) -> str:
    """Return "contracts: 0 (at least 1 expected)" or "contracts: no value found"."""
    name = one_line(violation.name, 60)
    if violation.value is None:
        return f"{name}: no value found"
    value, bound = (amount_text(one, violation.unit) for one in (violation.value, violation.bound))
    return f"{name}: {value} ({violation.setting.replace('_', ' ')} {bound} expected)"


def metric_verdict(metric: MetricChange | MetricCount) -> str:
    """Return "worse (n=20, 95 % CI +21..+28 %)", "worse (exact)", "not judged: ..."."""
    if isinstance(metric, MetricCount):
        return "not judged: different number of values" if metric.n_after else "missing"
    word = metric.verdict
    if metric.runs < MIN_RUNS_TO_CONFIRM and not metric.is_exact:
        few = f"{word}: {metric.runs} of {MIN_RUNS_TO_CONFIRM} runs that metrics need"
        return few if word == "not judged" else f"{word} (beyond its bound)"
    if word == "not judged":
        return word
    if metric.is_exact:
        return "equal (exact)" if word == "same" else f"{word} (exact)"
    interval = ""
    if metric.low is not None and metric.high is not None:
        change, shown = _estimated(metric)
        shown += " %" * change.endswith("%")
        # Past values beyond the new metric, or many metrics, may speak against what it excludes.
        excludes_0 = word == "same" and not metric.low <= 0 <= metric.high
        interval = f", {'uncorrected ' * excludes_0}95 % CI {shown}"
    return f"{'no significant difference' if word == 'same' else word} (n={metric.runs}{interval})"


def verdicts_text(metrics: Metrics) -> str:
    """Return "1 worse, 2 changed (14 judged), 1 exact one is missing"; "" if none differs."""
    verdicts = metrics.verdicts
    parts = [f"{verdicts[word]:,} {word}" for word in DIFFERENT if verdicts[word]]
    judged = f"{', '.join(parts)} ({sum(verdicts.values()):,} judged)" if parts else ""
    fewer = [one for one in metrics.counts if one.is_exact and one.n_after < one.n_before]
    names = name_some(fewer, lambda one: one_line(series_title(one.name, one.key)))
    missing = f"values of {count_of(len(fewer), 'exact metric')} missing: {names}"
    bounds = map(violation_text, metrics.violations)
    return ", ".join(filter(None, (*bounds, judged, missing if names else "")))


def metrics_text(metrics: Metrics) -> str:
    """Return "3 metrics in both runs, 1 larger and 1 smaller by 5 % or more; ..." or ""."""
    if not (metrics.changes or metrics.only_before or metrics.counts):
        return verdicts_text(metrics)
    moved, judged = metrics.moved, sum(metrics.verdicts.values())
    larger = sum(change.after > change.before for change in moved)
    both = f"{count_of(len(metrics.changes), 'metric')} in both runs"
    none = "no metric has the same number of values in both runs"
    sizes = f"{larger} larger and {len(moved) - larger} smaller by {100 * NOTABLE_RATIO:.0f} %"
    parts = [f"{both}, {sizes} or more" if metrics.changes else none]
    if judged or metrics.violations:
        parts = [both, verdicts_text(metrics) or f"{judged} judged, no significant difference"]
        if metrics.unjudged:
            parts.append(f"{len(metrics.unjudged)} not judged, {sizes} or more")
    if metrics.counts:
        parts.append(f"{len(metrics.counts)} with different numbers of values")
    if metrics.only_before or metrics.only_after:
        parts.append(f"{metrics.only_before} only in the base, {metrics.only_after} only now")
    if metrics.other_conditions:
        runs = count_of(metrics.other_conditions, "past run")
        parts.append(f"{runs} with other conditions left out")
    return "; ".join(parts)


def conditions_text(changes: Iterable[ConditionChange]) -> str:
    """Return "conditions differ: XLA_COMMIT: not set -> c3d4"; "" if none differs."""
    texts = []
    for change in changes:
        before, after = (
            ", ".join(one_line(value, MAX_CONDITION) or '""' for value in values) or "not set"
            for values in (change.before, change.after)
        )
        texts.append(f"{one_line(change.name, MAX_CONDITION)}: {before} -> {after}")
    return f"conditions differ: {', '.join(texts)}" if texts else ""
