"""Metrics of a run beside those of its base and of past runs. Pure.

Values of one name, unit and key are compared, and never pooled with others; of several values of
one run the median stands for it. An exact metric differs from the base or does not: several values
of a run, whose tests may run in any shard, are compared smallest with smallest. Any other is judged
by the past runs with as many values under the same conditions (`[metrics] conditions`), where there
are enough of them. A difference below the last digit that a log printed is none.

Printed metrics without an equal key stand beside those that look like them, without a verdict:
people pair such values by hand, and wrongly, as two compilation stages print the same words about
different kernels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Final, Literal

from ciguard.compare.log_comparison import ValuePair, pair_values
from ciguard.compare.run_columns import conditions_of
from ciguard.compare.statistics import MIN_RUNS, MetricEffect, benjamini_hochberg, metric_effect
from ciguard.history.metric_series import RunValue, metric_key
from ciguard.logs.pattern_table import Direction
from ciguard.logs.values import KeyField, LogValue, Place, distinct
from ciguard.model import TIME_UNITS, LogMetric
from ciguard.text import change_text, count_of, duration, one_line, percent, percents, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ciguard.compare.run_columns import Conditions, Run
    from ciguard.history.file import History
    from ciguard.history.metric_series import MetricKey

    Past = Mapping[MetricKey, Sequence[RunValue]]  # of the baseline's runs, oldest first


@dataclass(frozen=True, slots=True)
class ConditionChange:
    """A variable with other values in the other run; () where no leg had it set."""

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def condition_changes(before: Conditions, after: Conditions) -> tuple[ConditionChange, ...]:
    """Return the conditions that differ, or that only one of the runs has, by name."""
    return tuple(
        ConditionChange(name, before.get(name, ()), after.get(name, ()))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


SOURCE: Final = "source"  # the fact that names a value's log
MAX_PAIRS: Final = 20  # shown of a run


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Pairs without a verdict.

    Attributes:
        nearest: neither has an equal in the other run.
        refused: one of them has.
    """

    nearest: tuple[ValuePair, ...] = ()
    refused: tuple[ValuePair, ...] = ()


NO_NEIGHBOURS: Final = Neighbours()


def find_neighbours(before: Sequence[LogMetric], after: Sequence[LogMetric]) -> Neighbours:
    """The values of two runs that only look alike, at most 20 of each kind."""
    if not before or not after:
        return NO_NEIGHBOURS
    pairing = pair_values(*([_log_value(one) for one in side] for side in (before, after)))
    return Neighbours(pairing.nearest[:MAX_PAIRS], pairing.refused[:MAX_PAIRS])


def _log_value(metric: LogMetric) -> LogValue:
    key = tuple(
        KeyField(name, value, metric.printed.get(name, "")) for name, value in metric.key.items()
    )
    unit = "B" if metric.unit == "bytes" else metric.unit
    # No job and no step: a test may run in any shard.
    place = Place(line=metric.line or 0)
    facts = ((SOURCE, metric.source),)
    return LogValue(
        metric.name, metric.value, unit, key, place, resolution=metric.resolution, facts=facts
    )


# "changed": it differs, and neither direction is better; "not judged": too little is known.
MetricVerdict = Literal["worse", "mixed", "better", "changed", "same", "not judged"]
# In the order in which they are listed.
VERDICTS: Final[tuple[MetricVerdict, ...]] = (
    *("worse", "mixed", "better", "changed", "not judged", "same"),
)
NOTABLE_RATIO: Final = 0.05  # of a metric without a verdict: less is not counted as a change


@dataclass(frozen=True, slots=True)
class MetricChange:
    """A number that a program or a log gave before and now, under the conditions of its `key`.

    `after` is the median of `n_after` values. `before` is that of the base (`n_before` values), or
    of a judged metric that is not exact: of the medians of `runs` past runs of as many values.
    `low` and `high` are a 95 % interval of `ratio`, which is None where there was nothing, or less,
    before.
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
        """Return how far it moved, as a ratio; a change from nothing is the farthest."""
        if self.ratio is None:
            return float("inf") if self.before != self.after else 0.0
        return abs(self.ratio)


@dataclass(frozen=True, slots=True)
class MetricCount:
    """A number that the runs gave a different number of times: which belong together is unknown."""

    name: str
    unit: str
    key: Mapping[str, str]
    n_before: int
    n_after: int


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of both runs.

    Attributes:
        only_before, only_after: how many names, units and keys only one of them has.
        missing_exact: exact ones that the candidate lacks, or has fewer values of: no gain.
        other_conditions: past runs that judge nothing, for they had other conditions.
    """

    changes: tuple[MetricChange, ...] = ()
    only_before: int = 0
    only_after: int = 0
    counts: tuple[MetricCount, ...] = ()
    missing_exact: int = 0
    other_conditions: int = 0

    @property
    def unjudged(self) -> tuple[MetricChange, ...]:
        """Select the changes without a verdict."""
        return tuple(one for one in self.changes if one.verdict == "not judged")

    @property
    def moved(self) -> tuple[MetricChange, ...]:
        """Select the changes without a verdict that are large enough to be counted."""
        return tuple(one for one in self.unjudged if one.relative_change >= NOTABLE_RATIO)

    @property
    def verdicts(self) -> Mapping[MetricVerdict, int]:
        """Count the changes by verdict, "not judged" left out."""
        return Counter(one.verdict for one in self.changes if one.verdict != "not judged")

    @property
    def is_unjudged(self) -> bool:
        """Say that there are metrics, and no verdict on any."""
        return bool(self.changes or self.counts or self.only_before) and not self.verdicts


NO_METRICS: Final = Metrics()


def past_metrics(
    history: History | None, used: Sequence[int], bases: Sequence[Run], conditions: Conditions
) -> tuple[Past, int]:
    """Return the metrics of the baseline's runs, and how many had other conditions.

    Args:
        used: positions of the history's runs.
        bases: runs that are not in the history.
        conditions: of the candidate.
    """
    found: dict[MetricKey, list[RunValue]] = defaultdict(list)
    left_out = 0
    if history is not None:
        runs = [history.runs[position] for position in used]
        alike = [
            run
            for run in runs
            if conditions_of(leg.conditions or {} for leg in run.legs) == conditions
        ]
        run_ids = {run.run_id for run in alike}
        left_out = len(runs) - len(alike)
        for one in history.metrics:
            found[one.identity] += [value for value in one.values if value.run_id in run_ids]
    for run in bases:
        for key, values in run.metrics.items() if run.conditions == conditions else ():
            found[key].append(RunValue(run.run_id or 0, median(values), len(values)))
        left_out += run.conditions != conditions
    return {key: values for key, values in found.items() if values}, left_out


@dataclass(frozen=True, slots=True)
class _Pair:
    """A metric of the candidate and what it was.

    Attributes:
        values: of the candidate.
        before: of the base, else of the newest past run; () where only the median is known.
        median_before, n_before: of the same run.
        past: medians of the past runs that have as many values as the candidate.
        resolution: a smaller difference is none.
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
        return not self.direction.exact and len(self.past) >= MIN_RUNS

    @property
    def differs_in_number(self) -> bool:
        """Say that nothing with as many values is known."""
        return self.n_before != len(self.values) and (self.direction.exact or not self.past)

    def count(self) -> MetricCount:
        name, unit, key = self.key
        return MetricCount(name, unit, dict(key), self.n_before, len(self.values))

    def change(self, effect: MetricEffect | None, *, is_real: bool = False) -> MetricChange:
        """Args: is_real: the effect is none by chance."""
        name, unit, key = self.key
        n, after = len(self.values), median(self.values)
        before = self.median_before if self.n_before == n else self.past[-1]
        before = before if effect is None else effect.before
        found = MetricChange(
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
            return replace(found, verdict=verdict, low=effect.low, high=effect.high)
        return replace(found, verdict=self._exact_verdict()) if found.is_exact else found

    def _verdict(self, before: float, after: float) -> MetricVerdict:
        return self.direction.judge(distinct(after - before, self.resolution))

    def _exact_verdict(self) -> MetricVerdict:
        if not self.before:  # the history has the median alone: equal ones may be of other values
            verdict = self._verdict(self.median_before, median(self.values))
            return "not judged" if verdict == "same" and self.n_before > 1 else verdict
        pairs = zip(sorted(self.before), sorted(self.values), strict=True)
        verdicts = {self._verdict(old, new) for old, new in pairs} - {"same"}
        if not verdicts:
            return "same"
        return verdicts.pop() if len(verdicts) == 1 else "mixed"

    @property
    def has_fewer_exact_values(self) -> bool:
        """Say that an exact metric has fewer values than before."""
        return self.direction.exact and len(self.values) < self.n_before


def compare_metrics(
    base: Run | None,
    candidate: Run,
    past: Past,
    directions: Mapping[str, Direction],
    other_conditions: int = 0,
) -> Metrics:
    """The metrics of both sides: those that are worse first, then the largest change.

    Args:
        past: of the baseline; it may have metrics that the base has not.
        directions: how values are judged, by the name of the metric.
        other_conditions: past runs that `past` leaves out.

    Returns:
        Nothing where no metric was known before; if the candidate has none, how many it lacks.
    """
    if base is None:
        return NO_METRICS
    known = _values_of_base(base, past)
    resolutions = _resolutions((*base.printed, *candidate.printed))
    pairs = [
        replace(
            _pair(key, values, known.get(key), past.get(key, ()), direction_of(key, directions)),
            resolution=resolutions.get(key, 0.0),
        )
        for key, values in sorted(candidate.metrics.items())
        if key in known or key in past
    ]
    if not pairs and not known:
        return NO_METRICS
    changes = (*_compare_with_history(pairs), *_compare_with_base(pairs))
    return Metrics(
        changes=tuple(
            sorted(changes, key=lambda one: (VERDICTS.index(one.verdict), -one.relative_change))
        ),
        only_before=len(gone := known.keys() - candidate.metrics.keys()),
        only_after=len(candidate.metrics) - len(pairs),
        # Medians of a different number of values can move by any amount without one that moved.
        counts=tuple(one.count() for one in pairs if one.differs_in_number),
        missing_exact=sum(direction_of(key, directions).exact for key in gone)
        + sum(one.has_fewer_exact_values for one in pairs),
        other_conditions=other_conditions,
    )


def _resolutions(printed: Iterable[LogMetric]) -> dict[MetricKey, float]:
    """The last digit that logs printed of each metric, in its unit."""
    found: dict[MetricKey, float] = {}
    for one in printed:
        key = metric_key(one)
        found[key] = max(found.get(key, 0.0), one.resolution)
    return found


def direction_of(key: MetricKey, directions: Mapping[str, Direction]) -> Direction:
    """Return how a metric is judged: of times and sizes without a row, less is better."""
    name, unit, _ = key
    is_less_better = unit in TIME_UNITS or unit == "bytes"
    return directions.get(name, Direction("lower" if is_less_better else ""))


def _values_of_base(base: Run, past: Past) -> dict[MetricKey, tuple[float, ...] | RunValue]:
    """Of its record, or as the history knows it."""
    if base.metrics:
        return dict(base.metrics)
    return {
        key: value
        for key, values in past.items()
        for value in values
        if base.run_id is not None and value.run_id == base.run_id
    }


def _pair(
    key: MetricKey,
    values: tuple[float, ...],
    base: tuple[float, ...] | RunValue | None,
    past: Sequence[RunValue],
    direction: Direction,
) -> _Pair:
    before = past[-1] if base is None else base
    if isinstance(before, RunValue):
        middle, number, before = before.value, before.n, ()
    else:
        middle, number = median(before), len(before)
    alike = tuple(one.value for one in past if one.n == len(values))
    return _Pair(key, values, before, middle, number, alike, direction)


def _compare_with_history(pairs: Sequence[_Pair]) -> Iterator[MetricChange]:
    judged = [one for one in pairs if one.uses_history]
    effects = [metric_effect(one.past, median(one.values)) for one in judged]
    real = benjamini_hochberg([effect.p for effect in effects]).tolist()
    for one, effect, is_real in zip(judged, effects, real, strict=True):
        yield one.change(effect, is_real=is_real)


def _compare_with_base(pairs: Sequence[_Pair]) -> Iterator[MetricChange]:
    for one in pairs:
        if not one.uses_history and not one.differs_in_number:
            yield one.change(None)


DIFFERENT: Final[tuple[MetricVerdict, ...]] = ("worse", "mixed", "better", "changed")
_AMOUNTS: Final[Mapping[str, Callable[[float], str]]] = {"s": duration, "bytes": size}
MAX_CONDITION: Final = 60  # characters of a value


def metric_title(one: MetricChange | MetricCount) -> str:
    """ "xla.heap (ordinal=1)"."""
    text = ", ".join(f"{name}={value}" for name, value in sorted(one.key.items()))
    return f"{one.name} ({text})" if text else one.name


def metric_text(one: MetricChange | MetricCount) -> str:
    """ "512 MiB -> 640 MiB", "3 -> 4 images (medians of 5 and 5 values)", "3 -> 2 values"."""
    if isinstance(one, MetricCount):
        return f"{one.n_before} -> {count_of(one.n_after, 'value')}"
    show = _AMOUNTS.get(one.unit)
    if show is None or min(one.before, one.after) < 0:
        unit = f" {one_line(one.unit, 20)}" if one.unit else ""
        values = f"{one.before:,.6g} -> {one.after:,.6g}{unit}"
    else:
        values = f"{show(one.before)} -> {show(one.after)}"
    if max(one.n_before, one.n_after) > 1:
        values += f" (medians of {one.n_before} and {count_of(one.n_after, 'value')})"
    return values


def metric_change_text(one: MetricChange) -> str:
    """ "-1.41 % (-390 MiB)" of an exact metric, as of two logs; "+50 %" of any other."""
    if one.is_exact and one.verdict == "same":
        return "-"
    if not one.is_exact:
        return "-" if one.ratio is None else percent(one.ratio)
    show = _AMOUNTS.get(one.unit, lambda value: f"{value:,.6g}")
    return change_text(one.after - one.before, one.ratio, show)


def metric_verdict(one: MetricChange | MetricCount) -> str:
    """ "worse (n=20, 95 % CI +21..+28 %)", "worse (exact)", "not judged: 4 of 10 past runs"."""
    if isinstance(one, MetricCount):
        return "not judged: another number of values"
    word = one.verdict
    if word == "not judged":
        few = one.runs < MIN_RUNS and not one.is_exact
        return f"{word}: {one.runs} of {count_of(MIN_RUNS, 'past run')}" if few else word
    if one.is_exact:
        return "equal (exact)" if word == "same" else f"{word} (exact)"
    interval = ""
    if one.low is not None and one.high is not None:
        # Past values beyond the new one, or many metrics, may speak against what it excludes.
        excludes_0 = word == "same" and not one.low <= 0 <= one.high
        interval = f", {'uncorrected ' * excludes_0}95 % CI {percents(one.low, one.high)} %"
    return f"{'no significant difference' if word == 'same' else word} (n={one.runs}{interval})"


def verdicts_text(found: Metrics) -> str:
    """ "1 worse, 2 changed (14 judged), 1 exact one is missing"; "" where none differs."""
    verdicts = found.verdicts
    parts = [f"{verdicts[word]:,} {word}" for word in DIFFERENT if verdicts[word]]
    judged = f"{', '.join(parts)} ({sum(verdicts.values()):,} judged)" if parts else ""
    missing = f"values of {count_of(found.missing_exact, 'exact metric')} missing"
    return ", ".join(filter(None, (judged, missing if found.missing_exact else "")))


def metrics_text(found: Metrics) -> str:
    """ "3 metrics in both runs, 1 larger and 1 smaller by 5 % or more; ..."; "" without any."""
    if not (found.changes or found.only_before or found.counts):
        return ""
    moved, judged = found.moved, sum(found.verdicts.values())
    larger = sum(one.after > one.before for one in moved)
    both = f"{count_of(len(found.changes), 'metric')} in both runs"
    none = "no metric has as many values in both runs"
    sizes = f"{larger} larger and {len(moved) - larger} smaller by {100 * NOTABLE_RATIO:.0f} %"
    parts = [f"{both}, {sizes} or more" if found.changes else none]
    if judged:
        parts = [both, verdicts_text(found) or f"{judged} judged, no significant difference"]
        if found.unjudged:
            parts.append(f"{len(found.unjudged)} not judged, {sizes} or more")
    if found.counts:
        parts.append(f"{len(found.counts)} with another number of values")
    if found.only_before or found.only_after:
        parts.append(f"{found.only_before} only before, {found.only_after} only now")
    if found.other_conditions:
        runs = count_of(found.other_conditions, "past run")
        parts.append(f"{runs} under other conditions left out")
    if found.changes and not judged:
        parts.append("no verdict, as their variation is unknown")
    return "; ".join(parts)


def condition_text(one: ConditionChange) -> str:
    """ "XLA_COMMIT: a1b2 -> c3d4", "XLA_COMMIT: not set -> c3d4"."""
    before, after = (
        ", ".join(one_line(value, MAX_CONDITION) or '""' for value in values) or "not set"
        for values in (one.before, one.after)
    )
    return f"{one_line(one.name, MAX_CONDITION)}: {before} -> {after}"


def conditions_text(found: tuple[ConditionChange, ...]) -> str:
    """ "conditions differ: XLA_COMMIT: a1b2 -> c3d4"; "" where none does."""
    return f"conditions differ: {', '.join(map(condition_text, found))}" if found else ""
