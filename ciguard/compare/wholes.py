"""What is told of legs, jobs, processes and whole runs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.compare.vocabulary import NAME_WIDTH, TIME_UNITS
from ciguard.compare.words import leak_words, metric_words, metrics_said, trend_words
from ciguard.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.compare.vocabulary import JobWord, PaceWord, Tier, TrendName, TrendWord
    from ciguard.model import Ending


@dataclass(frozen=True, slots=True)
class LegChange:
    """A leg in both runs, or in one: then the other's values are None.

    `speed` is how slow this runner was: 1.3 took 30 % longer than usual for the same tests;
    `probe_ratio` is the same of a fixed piece of CPU work, against the baseline's median (the
    base's without a baseline). `predicted_...` are the candidate's plan's.
    """

    shard: str
    before: Ending | None
    after: Ending | None
    wall_before_s: float | None = None
    wall_after_s: float | None = None
    peak_before_bytes: int | None = None
    peak_after_bytes: int | None = None
    budget_bytes: int | None = None
    memory_bytes: int | None = None
    speed: float | None = None
    probe_ratio: float | None = None
    predicted_wall_s: float | None = None
    predicted_peak_bytes: int | None = None
    pool: str = ""

    @property
    def endings(self) -> str:
        """ "completed", "completed -> deadline", "absent -> completed"."""
        before, after = self.before or "absent", self.after or "no record"
        return after if before == after else f"{before} -> {after}"


@dataclass(frozen=True, slots=True)
class JobChange:
    """A job whose conclusion is another than on the base; None where it was not there.

    `word` is None for a pair of conclusions that has no name of its own.
    """

    name: str
    before: str | None
    after: str | None
    word: JobWord | None = None
    wall_before_s: float | None = None
    wall_after_s: float | None = None
    url: str = ""

    @property
    def words(self) -> str:
        """ "cancelled -> success (unblocked)"."""
        change = f"{self.before or 'absent'} -> {self.after or 'absent'}"
        return f"{change} ({self.word})" if self.word else change


@dataclass(frozen=True, slots=True)
class Cost:
    """Billed minutes; the price where that of every pool is known. Not `whole`: of legs alone."""

    minutes: int
    price_usd: float | None
    whole: bool


@dataclass(frozen=True, slots=True)
class Leak:
    """A process whose memory grew from test to test.

    Attributes:
        growth_bytes: what all of its tests kept together.
        steady_bytes: without the tenth that keeps most, of the tests that the base has too.
        before_bytes: the same of the baseline; None where it has too few of these tests.
    """

    shard: str
    process: int
    tests: int
    growth_bytes: int
    steady_bytes: int
    before_bytes: int | None
    n: int
    tier: Tier

    @property
    def words(self) -> str:
        """What grew, by how much, and how sure that is new."""
        return leak_words(self)


@dataclass(frozen=True, slots=True)
class Pace:
    """The suite's own speed, that of the runners taken out by their probes: 0.1 is 10 % slower.

    `low` and `high` are its 95 % interval, `n` the baseline runs with a probe.
    """

    word: PaceWord
    said: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0


NO_PACE: Final = Pace("not measured", "")


@dataclass(frozen=True, slots=True)
class Trend:
    """A measure of the whole run, and the baseline's median; 95 % of runs lie in `low`..`high`."""

    name: TrendName
    before: float
    after: float
    word: TrendWord
    n: int
    low: float | None = None
    high: float | None = None

    @property
    def words(self) -> str:
        """ "slowest leg: no significant difference (124 s and 122 s, n=12)"."""
        return trend_words(self)


@dataclass(frozen=True, slots=True)
class MetricChange:
    """A number that a program or a log gave in both runs, under the conditions of its `key`.

    `before` and `after` are the medians of `n_before` and `n_after` values; `ratio` is None where
    there was nothing, or less, before. Nothing says how far such a number moves by itself.
    """

    name: str
    unit: str
    key: Mapping[str, str]
    before: float
    after: float
    ratio: float | None
    n_before: int
    n_after: int

    @property
    def is_cost(self) -> bool:
        """Say that less of it is better: a time or a size. Of other numbers nobody knows."""
        return self.unit in TIME_UNITS or self.unit == "bytes"

    @property
    def distance(self) -> float:
        """How far it moved, in its own measure; a change from nothing is the farthest."""
        if self.ratio is None:
            return float("inf") if self.before != self.after else 0.0
        return abs(self.ratio)

    @property
    def title(self) -> str:
        """ "xla.heap (ordinal=1)", in one line."""
        said = ", ".join(f"{name}={value}" for name, value in sorted(self.key.items()))
        return one_line(f"{self.name} ({said})" if said else self.name, NAME_WIDTH)

    @property
    def words(self) -> str:
        """ "512 MiB -> 640 MiB (+25 %)"."""
        return metric_words(self)


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of both runs; how many conditions and names only one of them has."""

    changes: tuple[MetricChange, ...] = ()
    only_before: int = 0
    only_after: int = 0

    @property
    def said(self) -> str:
        """What they come to in a sentence; "" without any."""
        return metrics_said(self)


NO_METRICS: Final = Metrics()


@dataclass(frozen=True, slots=True)
class Totals:
    """Whole runs. The makespan is told only of complete ones; the sum over `common` cases that
    passed in both, as measured."""

    makespan_before_s: float | None = None
    makespan_after_s: float | None = None
    common: int = 0
    sum_before_s: float | None = None
    sum_after_s: float | None = None
    peak_before_bytes: int | None = None
    peak_after_bytes: int | None = None
