"""What is told of legs, jobs, processes and whole runs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.codec.series import STEADY_S
from ciguard.compare.enums import NAME_WIDTH, TIME_UNITS
from ciguard.text import count_of, duration, one_line, percent, price, size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.compare.enums import JobTransition, SuiteSpeedState, Tier, TrendName
    from ciguard.model import Ending

DOUBLE: Final = 2.0  # times the sum of before: no runner is half as fast as another
NOTABLE_RATIO: Final = 0.05  # of a metric: less is not counted as a change
TRENDS: Final[dict[TrendName, str]] = {
    "makespan_s": "slowest leg",
    "sum_s": "sum of the legs",
    "peak_bytes": "largest peak of a leg",
}
LEAK_TIER_TEXT: Final[dict[Tier, str]] = {
    "confirmed": "confirmed leak",
    "suspect": "maybe a leak",
    "unjudged": "memory that grows",
}


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
        text = after if before == after else f"{before} -> {after}"
        return text.replace("_", " ")


@dataclass(frozen=True, slots=True)
class JobChange:
    """A job whose conclusion is another than on the base; None where it was not there.

    `word` is None for a pair of conclusions that has no name of its own.
    """

    name: str
    before: str | None
    after: str | None
    transition: JobTransition | None = None
    wall_before_s: float | None = None
    wall_after_s: float | None = None
    url: str = ""

    @property
    def describe(self) -> str:
        """ "cancelled -> success (unblocked)"."""
        change = f"{self.before or 'absent'} -> {self.after or 'absent'}"
        return f"{change} ({self.transition})" if self.transition else change


@dataclass(frozen=True, slots=True)
class Cost:
    """Billed minutes of legs, or of all jobs; the price where that of every pool is known."""

    minutes: int
    price_usd: float | None
    includes_all_jobs: bool

    @property
    def describe(self) -> str:
        """ "12 minutes (0.072 USD)"."""
        paid = "" if self.price_usd is None else f" ({price(self.price_usd)})"
        return f"{count_of(self.minutes, 'minute')}{paid}"


def describe_costs(before: Cost | None, after: Cost | None, placeholder: str) -> str:
    """ "billed: 12 minutes (0.072 USD) -> 14 minutes (0.084 USD), by the legs alone".

    Args:
        untold: stands in the place of what a whole run has and this one has not.
    """
    if before is None and after is None:
        return ""
    alone = any(one is not None and not one.includes_all_jobs for one in (before, after))
    old = "-" if before is None else before.describe
    new = placeholder if after is None else after.describe
    return f"billed: {old} -> {new}{', by the legs alone' * alone}"


@dataclass(frozen=True, slots=True)
class Leak:
    """A process whose memory grew from test to test.

    Attributes:
        growth_bytes: what all of its tests kept together.
        trimmed_growth_bytes: without the tenth that keeps most, of the tests that the base has too.
        before_bytes: the same of the baseline; None where it has too few of these tests.
    """

    shard: str
    process: int
    tests: int
    growth_bytes: int
    trimmed_growth_bytes: int
    before_bytes: int | None
    n: int
    tier: Tier

    @property
    def describe(self) -> str:
        """ "maybe a leak: 640 MiB kept by 120 tests in process 2 (40 MiB before, n=12)"."""
        shard = f" of shard {self.shard}" if self.shard else ""
        before = "not known before"
        if self.before_bytes is not None:
            before = f"{size(self.before_bytes)} before, n={self.n}"
        return (
            f"{LEAK_TIER_TEXT[self.tier]}: {size(self.trimmed_growth_bytes)} kept by "
            f"{count_of(self.tests, 'test')} in process {self.process}{shard} ({before})"
        )


@dataclass(frozen=True, slots=True)
class SuiteSpeed:
    """The suite's own speed, that of the runners taken out by their probes: 0.1 is 10 % slower.

    `low` and `high` are its 95 % interval, `n` the baseline runs with a probe.
    """

    verdict: SuiteSpeedState
    said: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0


NO_SUITE_SPEED: Final = SuiteSpeed("not measured", "")


@dataclass(frozen=True, slots=True)
class TotalVsBaseline:
    """A measure of a whole run, and the median of `n` baseline runs."""

    name: TrendName
    before: float
    after: float
    n: int

    @property
    def describe(self) -> str:
        """ "slowest leg: 124 s -> 122 s (n=12)"."""
        show = size if self.name == "peak_bytes" else duration
        return f"{TRENDS[self.name]}: {show(self.before)} -> {show(self.after)} (n={self.n})"

    @property
    def doubled(self) -> str:
        """ "the legs took 250 s in sum, 100 s usually"; "" if less than twice, or no sum."""
        if self.name != "sum_s" or not _is_double(self.before, self.after):
            return ""
        return f"the legs took {duration(self.after)} in sum, {duration(self.before)} usually"


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
    def relative_change(self) -> float:
        """How far it moved, in its own measure; a change from nothing is the farthest."""
        if self.ratio is None:
            return float("inf") if self.before != self.after else 0.0
        return abs(self.ratio)

    @property
    def title(self) -> str:
        """ "xla.heap (ordinal=1)", in one line."""
        text = ", ".join(f"{name}={value}" for name, value in sorted(self.key.items()))
        return one_line(f"{self.name} ({text})" if text else self.name, NAME_WIDTH)

    @property
    def describe(self) -> str:
        """ "512 MiB -> 640 MiB (+25 %)", "3 -> 4 images (+33 %, medians of 5 and 5 values)"."""
        show = {"s": duration, "bytes": size}.get(self.unit)
        if show is None or min(self.before, self.after) < 0:
            unit = f" {one_line(self.unit, 20)}" if self.unit else ""
            values = f"{self.before:,.6g} -> {self.after:,.6g}{unit}"
        else:
            values = f"{show(self.before)} -> {show(self.after)}"
        more = [percent(self.ratio)] if self.ratio is not None else []
        if max(self.n_before, self.n_after) > 1:
            more.append(f"medians of {self.n_before} and {count_of(self.n_after, 'value')}")
        return f"{values} ({', '.join(more)})" if more else values


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of both runs; how many conditions and names only one of them has."""

    changes: tuple[MetricChange, ...] = ()
    only_before: int = 0
    only_after: int = 0

    @property
    def said(self) -> str:
        """ "3 metrics in both runs, 1 larger and 1 smaller by 5 % or more; ..."; "" without any."""
        if not (self.changes or self.only_before):
            return ""
        moved = [one for one in self.changes if one.relative_change >= NOTABLE_RATIO]
        larger = sum(one.after > one.before for one in moved)
        costs = {one.after > one.before for one in moved if one.is_cost}
        parts = [
            f"{count_of(len(self.changes), 'metric')} in both runs, {larger} larger and "
            f"{len(moved) - larger} smaller by {100 * NOTABLE_RATIO:.0f} % or more"
        ]
        if self.only_before or self.only_after:
            parts.append(f"{self.only_before} before only, {self.only_after} now only")
        text = f"{'; '.join(parts)}; no verdict, as nothing says how much they vary"
        return f"mixed: {text}" if len(costs) > 1 else text


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

    @property
    def doubled(self) -> str:
        """ "8 tests that passed in both took 6.6 s, 3.1 s on the base"; "" if less than twice."""
        before, after = self.sum_before_s, self.sum_after_s
        if before is None or after is None or not _is_double(before, after):
            return ""
        tests = count_of(self.common, "test")
        return f"{tests} that passed in both took {duration(after)}, {duration(before)} on the base"


def _is_double(before_s: float, after_s: float) -> bool:
    return after_s >= max(DOUBLE * before_s, STEADY_S)
