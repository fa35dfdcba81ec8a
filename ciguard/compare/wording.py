"""Values of a comparison as words: its headline, and a phrase for each verdict and number. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ciguard.compare.run_changes import NOTABLE_RATIO
from ciguard.compare.statistics import MIN_BASELINE_RUNS
from ciguard.compare.suite_speed import RATIO as MIN_SPEED_RATIO
from ciguard.compare.test_changes import KINDS, MEASURE_NOUN, WORSE_KINDS
from ciguard.text import count_of, duration, one_line, percent, percents, price, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.compare.comparison import Comparison, State, UnjudgedReason
    from ciguard.compare.run_changes import (
        Cost,
        JobChange,
        Leak,
        LegChange,
        MetricChange,
        Metrics,
        SuiteSpeed,
    )
    from ciguard.compare.run_info import BaselineInfo, RunInfo
    from ciguard.compare.statistics import Tier
    from ciguard.compare.test_changes import (
        CaseChange,
        LostUnits,
        MeasureVerdict,
        Transition,
        TransitionKind,
    )
    from ciguard.model import CaseKey, UnitKey

# What a headline can say: what is missing, a verdict, the first leak, why nothing is judged.
Fact = Literal["missing", "wall_s", "peak_delta_bytes", "suite_speed", "leak", "unjudged"]

STATE_TEXT: Final[dict[State, str]] = {
    "incomplete": "INCOMPLETE",
    "worse": "WORSE",
    "mixed": "MIXED",
    "better": "BETTER",
    "suspect": "SUSPECT",
    "same": "NO SIGNIFICANT DIFFERENCE",
    "inconclusive": "INCONCLUSIVE",
}
HEADLINE_KINDS: Final[tuple[TransitionKind, ...]] = (
    *WORSE_KINDS, "no_longer_run", "newly_skipped", "fixed", "quarantined", "ignored"
)  # fmt: skip
LEAK_TIER_TEXT: Final[dict[Tier, str]] = {
    "confirmed": "confirmed leak",
    "suspect": "possible leak",
    "unjudged": "growing memory",
}
UNJUDGED_TEXT: Final[dict[UnjudgedReason, str]] = {
    "same run": "both are the same run, so there is nothing to compare",
    "baseline incomplete": "no number is judged, as every shard that measured it before is "
    "incomplete",
    "few baseline runs": "the comparison of numbers begins with {least} baseline runs, there {are}",
}
MEASURED_OTHERWISE: Final = "not judged: their baseline was measured in another way"
UNMEASURED: Final = ("not measured", "baseline incomplete")
MAX_NAMED: Final = 3  # shards in a phrase; the rest is counted


@dataclass(frozen=True, slots=True)
class Shown:
    """What the document has above the comparison.

    Attributes:
        missing: what the run lacks: shards, and tests without a result.
        excused: failures that are quarantined or forgiven.
        flaky: units that are named as flaky.
        failed: failures that are named, with what changed about them.
        jobs: names and addresses of the jobs that fail by those.
    """

    missing: bool = False
    excused: bool = False
    flaky: frozenset[UnitKey] = frozenset()
    failed: frozenset[CaseKey] = frozenset()
    jobs: frozenset[str] = frozenset()

    def has(self, transition: Transition) -> bool:
        """Say that a transition is named above."""
        if transition.kind == "flaky":
            return transition.key.unit_key in self.flaky
        return transition.key in self.failed or (self.excused and bool(transition.excuse))

    def has_job(self, job: JobChange) -> bool:
        """Say that a job fails by what is named above."""
        return job.transition == "newly failing" and not self.jobs.isdisjoint((job.name, job.url))


NOTHING_SHOWN: Final = Shown()


class Headline(NamedTuple):
    """The sentence of a comparison, and the facts that it has."""

    text: str
    facts: frozenset[Fact]


def headline(comparison: Comparison, shown: Shown = NOTHING_SHOWN) -> Headline:
    """The sentence of a comparison, the worst first; nothing that was shown above it."""
    parts: list[tuple[Fact | None, str]] = []
    if not (shown.missing and comparison.state == "incomplete"):
        parts += [("missing", text) for text in _missing(comparison)]
    parts += [(None, text) for text in _counts(comparison)]
    parts += _numbers(comparison)
    if not parts and comparison.unjudged_reason:
        parts = [("unjudged", unjudged_text(comparison))]
    elif not parts and comparison.base is None:
        parts = [(None, f"{count_of(comparison.candidate.cases, 'test')}, no base")]
    elif not parts:
        parts = [
            (one.measure, measure_text(one)) for one in (comparison.memory, comparison.durations)
        ]
    text = "; ".join(text for _, text in parts)
    facts = frozenset(fact for fact, _ in parts if fact is not None)
    return Headline(f"{STATE_TEXT[comparison.state]}: {text}", facts)


def _missing(comparison: Comparison) -> Iterator[str]:
    yield from comparison.incomplete_reasons
    sure = [one for one in comparison.lost_units if one.certain]
    if len(sure) == len(comparison.incomplete_reasons) == 1:
        yield f"{count_of(len(sure[0].units), 'test')} lost with it"
    elif len(sure) == 1:
        yield lost_text(sure[0])
    elif sure:
        units = sum(len(one.units) for one in sure)
        yield f"{count_of(units, 'test')} lost with {len(sure):,} shards"
    for one in comparison.lost_units:
        if not one.certain:
            yield f"{count_of(len(one.units), 'test')} of the base without a result"


def _counts(comparison: Comparison) -> Iterator[str]:
    for word in ("unblocked", "newly cancelled"):
        if number := sum(one.transition == word for one in comparison.jobs):
            yield f"{count_of(number, 'job')} {word}"
    for kind in HEADLINE_KINDS:
        if number := len(comparison.of_kind(kind)):
            yield f"{number:,} {KINDS[kind]}"


def _numbers(comparison: Comparison) -> Iterator[tuple[Fact | None, str]]:
    """The verdicts; without any, only what has numbers to show."""
    for leak in comparison.leaks[:1]:
        more = len(comparison.leaks) - 1
        yield "leak", leak_text(leak) + (f", and {more} more" if more else "")
    if comparison.suite_speed.verdict in ("slower", "maybe slower", "faster"):
        yield "suite_speed", suite_speed_text(comparison.suite_speed)
    for text in doubled_texts(comparison):
        yield None, text
    for verdict in comparison.verdicts:
        if verdict.verdict not in UNMEASURED or verdict.measured_otherwise:
            yield verdict.measure, measure_text(verdict, brief=comparison.state == "same")


def name_some(names: Sequence[str]) -> str:
    """ "02, 05, 07 and 3 more"."""
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def as_sentence(text: str) -> str:
    """The words with a capital and a stop."""
    return f"{text[:1].upper()}{text[1:]}."


def unjudged_text(comparison: Comparison) -> str:
    """Why no number has a verdict."""
    if comparison.unjudged_reason is None:
        return ""
    runs = len(comparison.baseline.runs)
    are = "is 1" if runs == 1 else f"are {runs or 'none'}"
    return UNJUDGED_TEXT[comparison.unjudged_reason].format(least=MIN_BASELINE_RUNS, are=are)


def measure_text(verdict: MeasureVerdict, *, brief: bool = False) -> str:
    """ "peak memory: 1 confirmed regression (15 tests judged, n=12)".

    Args:
        brief: without "no significant difference", where that was just said.
    """
    noun, word = MEASURE_NOUN[verdict.measure], verdict.verdict
    otherwise = verdict.measured_otherwise
    if otherwise and word == "not measured":
        return f"{noun}: {count_of(otherwise, 'test')} {MEASURED_OTHERWISE}"
    parts = [_measure_verdict(verdict, brief=brief)]
    if otherwise:
        parts.append(
            f", {otherwise:,} of {verdict.judged_tests + otherwise:,} {MEASURED_OTHERWISE}"
        )
    large = sum(one.is_large and one.tier in ("suspect", "unjudged") for one in verdict.losses)
    if large:
        parts.append(f"; {count_of(large, 'test')} took at least 3 times as long")
    return noun + "".join(parts)


def _measure_verdict(verdict: MeasureVerdict, *, brief: bool) -> str:
    word = verdict.verdict
    judged = f" ({count_of(verdict.judged_tests, 'test')} judged, n={verdict.n})"
    if word == "not measured":
        if verdict.measure == "wall_s":
            return ": no test of 50 ms or more was measured in both"
        return ": not measured in both"
    if word == "baseline incomplete":
        return f": {UNJUDGED_TEXT['baseline incomplete']}"
    if word == "incomplete":
        return ": no improvement is shown for an incomplete run"
    if word == "not enough data":
        return f": {_too_few(verdict)}"
    if word == "too noisy to judge":
        return f": too noisy to judge: {verdict.noise_ratio:.1f} times the baseline's noise"
    worse = len(verdict.of_tier("confirmed"))
    better = sum(one.tier == "confirmed" for one in verdict.gains)
    counts = ((worse, "confirmed regression"), (better, "confirmed gain"))
    parts = [count_of(number, noun) for number, noun in counts if number]
    if not parts and verdict.suspects:
        parts.append("nothing confirmed")
    if verdict.suspects:
        parts.append(count_of(verdict.suspects, "suspect"))
    if not parts and brief:
        return judged
    return f": {', '.join(parts) or 'no significant difference'}{judged}"


def _too_few(verdict: MeasureVerdict) -> str:
    """Numbers of durations move by chance in every run: only those of memory are counted."""
    is_memory = verdict.measure == "peak_delta_bytes"
    both = (("up", verdict.losses), ("down", verdict.gains)) if is_memory else ()
    moved = [f"{count_of(len(found), 'test')} {way}" for way, found in both if found]
    if moved:
        return f"{', '.join(moved)}, no verdict"
    values = count_of(verdict.n, "baseline value")
    return f"no verdict from {values} a test ({MIN_BASELINE_RUNS} are needed)"


def unlisted_text(verdict: MeasureVerdict) -> str:
    """ "3 unconfirmed changes of duration"; "" where all are listed."""
    number = verdict.unlisted
    changes = count_of(number, "unconfirmed change")
    return f"{changes} of {MEASURE_NOUN[verdict.measure]}" if number else ""


def interval_text(change: CaseChange) -> str:
    """ "n=12, 95 % CI +21..+28", "n=2" without an interval."""
    count = f"n={change.n}"
    if change.low is None or change.high is None:
        return count
    return f"{count}, 95 % CI {percents(change.low, change.high)}"


def change_verdict(change: CaseChange) -> str:
    """ "confirmed", "suspect", "maybe a gain", "no verdict"."""
    if change.tier == "unjudged":
        return "no verdict"
    if change.after < change.before:
        return "confirmed gain" if change.tier == "confirmed" else "maybe a gain"
    return change.tier


def suite_speed_text(found: SuiteSpeed) -> str:
    """ "whole suite: slower (+12 %, n=20, 95 % CI +8..+16)"."""
    if found.verdict == "not measured":
        return "whole suite: no CPU probe beside a known speed"
    if found.ratio is None or found.low is None or found.high is None:
        runs = count_of(found.n, "baseline run")
        return f"whole suite: no verdict from {runs} ({MIN_BASELINE_RUNS} are needed)"
    if found.measured_ratio is not None:
        tests = 1 + found.measured_ratio
        return (
            f"whole suite: unclear: its tests took {tests:.2f} times as long as usual, the CPU "
            f"probe of its runners {tests / (1 + found.ratio):.2f} times (n={found.n})"
        )
    aside = ""
    if found.verdict == "no significant difference" and not found.low <= 0 <= found.high:
        factor = 1 + abs(found.ratio) if found.ratio > 0 else 1 / (1 + found.ratio)
        is_small = factor - 1 < MIN_SPEED_RATIO
        aside = f"; below {100 * MIN_SPEED_RATIO:.0f} %" if is_small else "; not in 3 of 4 shards"
    interval = percents(found.low, found.high)
    numbers = f"{percent(found.ratio)}, n={found.n}, 95 % CI {interval}{aside}"
    return f"whole suite: {found.verdict} ({numbers})"


def leak_text(leak: Leak) -> str:
    """ "possible leak: 640 MiB kept by 120 tests in process 2 (40 MiB before, n=12)"."""
    shard = f" of shard {leak.shard}" if leak.shard else ""
    before = "unknown before"
    if leak.before_bytes is not None:
        before = f"{size(leak.before_bytes)} before, n={leak.n}"
    return (
        f"{LEAK_TIER_TEXT[leak.tier]}: {size(leak.trimmed_growth_bytes)} kept by "
        f"{count_of(leak.tests, 'test')} in process {leak.process}{shard} ({before})"
    )


def doubled_texts(comparison: Comparison) -> Iterator[str]:
    """Sums of times that are at least twice what they were."""
    found = comparison.totals
    if not comparison.is_doubled:
        return
    if found.is_doubled:
        tests, base = count_of(found.common, "test"), duration(found.sum_before_s)
        yield f"{tests} that passed in both took {duration(found.sum_after_s)}, {base} on the base"
    for trend in comparison.totals_vs_baseline:
        if trend.is_doubled:
            before = duration(trend.before)
            yield f"the shards took {duration(trend.after)} in sum, {before} usually"


def endings_text(leg: LegChange) -> str:
    """ "completed", "completed -> deadline", "absent -> completed"."""
    before, after = leg.before or "absent", leg.after or "no record"
    text = after if before == after else f"{before} -> {after}"
    return text.replace("_", " ")


def cost_text(cost: Cost) -> str:
    """ "12 minutes (0.072 USD)"."""
    paid = "" if cost.price_usd is None else f" ({price(cost.price_usd)})"
    return f"{count_of(cost.minutes, 'minute')}{paid}"


def lost_text(lost: LostUnits) -> str:
    """ "29 tests lost with shard 02"."""
    shards = f"{'shard' if len(lost.shards) == 1 else 'shards'} {name_some(lost.shards)}"
    if not any(lost.shards):
        shards = "the only shard"
    tests = count_of(len(lost.units), "test")
    if lost.certain:
        return f"{tests} lost with {shards}"
    return f"{tests} of the base without a result: lost with {shards}, or removed"


def failure_rate_text(one: Transition) -> str:
    """ "; failed in 3 of 20 baseline runs"; with the excuse, where there is one."""
    excuse = f"; {one_line(one.excuse)}" if one.excuse else ""
    if not one.baseline_failures or not one.baseline_runs:
        return excuse
    runs = count_of(one.baseline_runs, "baseline run")
    return f"; failed in {one.baseline_failures} of {runs}{excuse}"


def metric_title(one: MetricChange) -> str:
    """ "xla.heap (ordinal=1)"."""
    text = ", ".join(f"{name}={value}" for name, value in sorted(one.key.items()))
    return f"{one.name} ({text})" if text else one.name


def metric_text(one: MetricChange) -> str:
    """ "512 MiB -> 640 MiB", "3 -> 4 images (medians of 5 and 5 values)"."""
    show = {"s": duration, "bytes": size}.get(one.unit)
    if show is None or min(one.before, one.after) < 0:
        unit = f" {one_line(one.unit, 20)}" if one.unit else ""
        values = f"{one.before:,.6g} -> {one.after:,.6g}{unit}"
    else:
        values = f"{show(one.before)} -> {show(one.after)}"
    if max(one.n_before, one.n_after) > 1:
        values += f" (medians of {one.n_before} and {count_of(one.n_after, 'value')})"
    return values


def metrics_text(found: Metrics) -> str:
    """ "3 metrics in both runs, 1 larger and 1 smaller by 5 % or more; ..."; "" without any."""
    if not (found.changes or found.only_before):
        return ""
    moved = found.moved
    larger = sum(one.after > one.before for one in moved)
    parts = [
        f"{count_of(len(found.changes), 'metric')} in both runs, {larger} larger and "
        f"{len(moved) - larger} smaller by {100 * NOTABLE_RATIO:.0f} % or more"
    ]
    if found.only_before or found.only_after:
        parts.append(f"{found.only_before} only before, {found.only_after} only now")
    text = f"{'; '.join(parts)}; no verdict, as their variation is unknown"
    return f"mixed: {text}" if found.is_mixed else text


def run_text(run: RunInfo) -> str:
    """ "head, run 123/2, a1b2c3d, main, 1,040 tests"; of a first attempt "run 123"."""
    parts = [run.name]
    if run.run_id is not None:
        attempt = f"/{run.run_attempt}" if (run.run_attempt or 1) > 1 else ""
        # A name that is the run's number says it already.
        if run.name.partition("/")[0] in (f"{run.run_id}", f"run {run.run_id}"):
            parts = []
        parts.append(f"run {run.run_id}{attempt}" + " of the history" * run.in_history)
    parts += [part for part in (run.sha[:7] if run.sha else "", run.branch or "") if part]
    return ", ".join(dict.fromkeys([*parts, count_of(run.cases, "test")]))


def excluded_text(baseline: BaselineInfo) -> str:
    """ "2 runs: it is a pull request's; 18 values: did not pass"; "" where all were used."""
    parts = [f"{count_of(number, 'run')}: {why}" for why, number in baseline.reasons]
    parts += [f"{count_of(one.values, 'value')}: {one.reason}" for one in baseline.excluded_values]
    return "; ".join(parts)
