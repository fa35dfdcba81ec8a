"""Verdicts and numbers as words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.text import counted, duration, one_line, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.compare.changes import Change, Lost, Transition
    from ciguard.compare.facts import RunName
    from ciguard.compare.vocabulary import Measure, PaceWord, Tier, TrendName, Word
    from ciguard.compare.wholes import Cost, Leak, MetricChange, Metrics, Trend

NAMED: Final = 3  # shards in a sentence; the rest is counted
NEEDED: Final = 3  # baseline runs without which no number is judged
MOVED: Final = 0.05  # of a metric: less is not counted as a change
NARROW: Final = 0.03  # below this width whole percents hide an interval
NOUN: Final[dict[Measure, str]] = {"wall_s": "duration", "peak_delta_bytes": "peak memory"}


def judged_word(
    measured: int, judged: int, losses: Sequence[Change], gains: Sequence[Change]
) -> Word:
    """The verdict on a measure.

    Args:
        measured: cases with a value and a baseline.
        judged: those of them with enough baseline values for a verdict.
    """
    if not measured:
        return "not measured"
    if not judged:
        return "not enough data"
    worse = any(change.tier == "confirmed" for change in losses)
    better = any(change.tier == "confirmed" for change in gains)
    if worse and better:
        return "mixed"
    if worse:
        return "regressed"
    if any(change.tier == "suspect" for change in losses):
        return "suspects"
    return "improved" if better else "no significant difference"


def said(
    measure: Measure,
    word: Word,
    *,
    judged: int = 0,
    n: int = 0,
    suspects: int = 0,
    losses: Sequence[Change] = (),
    gains: Sequence[Change] = (),
    spread: float | None = None,
) -> str:
    """The sentence for a verdict.

    Args:
        n: baseline values of a typical case.
    """
    noun, tests = NOUN[measure], counted(judged, "test")
    if word == "not measured":
        if measure == "wall_s":
            return f"{noun}: no test of 50 ms or more was measured in both"
        return f"{noun}: not measured in both"
    if word == "not enough data":
        # Numbers of durations move by chance in every run: only those of memory are counted.
        both = (("up", losses), ("down", gains)) if measure == "peak_delta_bytes" else ()
        moved = [f"{counted(len(found), 'test')} {way}" for way, found in both if found]
        if moved:
            return f"{noun}: {', '.join(moved)}, no verdict"
        values = counted(n, "baseline value")
        return f"{noun}: no verdict from {values} a test ({NEEDED} are needed)"
    if word == "too noisy to judge":
        return f"{noun}: too noisy to judge: {spread:.1f} times the baseline's noise"
    worse = sum(1 for change in losses if change.tier == "confirmed")
    better = sum(1 for change in gains if change.tier == "confirmed")
    parts = []
    if worse:
        parts.append(f"{counted(worse, 'confirmed regression')}")
    if better:
        parts.append(f"{counted(better, 'confirmed gain')}")
    if suspects:
        parts.append(f"{counted(suspects, 'suspect')}")
    if not worse and not better:
        parts.insert(0, "nothing confirmed" if suspects else "no significant difference")
    found = ", ".join(parts)
    return f"{noun}: {found} ({tests} judged, n={n})"


def percent(ratio: float) -> str:
    """ "+25 %", "-3 %", "+1,200 %"; from nothing to something has no percentage."""
    if ratio == float("inf"):
        return "from nothing"
    value = 100 * ratio
    digits = 0 if abs(value) >= 9.5 else 1  # noqa: PLR2004
    return f"{value:+,.{digits}f} %"


def interval(change: Change) -> str:
    """ "n=12, 95 % CI +21..+28", "n=2" without an interval."""
    count = f"n={change.n}"
    if change.low is None or change.high is None:
        return count
    digits = 0 if change.high - change.low >= NARROW else 1
    return f"{count}, 95 % CI {100 * change.low:+,.{digits}f}..{100 * change.high:+,.{digits}f}"


def change_words(change: Change) -> str:
    """ "suspect: 512 MiB -> 640 MiB (+25 %, n=12, 95 % CI +21..+28)"."""
    show = duration if change.measure == "wall_s" else size
    values = f"{show(change.before)} -> {show(change.after)}"
    if change.tier == "moved":
        runs = counted(change.n, "baseline run")
        return f"{values} ({percent(change.ratio)}, {runs}: no verdict)"
    word: str = change.tier
    if change.after < change.before:
        word = "confirmed gain" if change.tier == "confirmed" else "maybe a gain"
    return f"{word}: {values} ({percent(change.ratio)}, {interval(change)})"


def metric_words(change: MetricChange) -> str:
    """ "512 MiB -> 640 MiB (+25 %)", "3 -> 4 images (+33 %, medians of 5 and 5 values)"."""
    show = {"s": duration, "bytes": size}.get(change.unit)
    if show is None or min(change.before, change.after) < 0:
        unit = f" {one_line(change.unit, 20)}" if change.unit else ""
        values = f"{change.before:,.6g} -> {change.after:,.6g}{unit}"
    else:
        values = f"{show(change.before)} -> {show(change.after)}"
    more = [percent(change.ratio)] if change.ratio is not None else []
    if max(change.n_before, change.n_after) > 1:
        more.append(f"medians of {change.n_before} and {counted(change.n_after, 'value')}")
    return f"{values} ({', '.join(more)})" if more else values


def metrics_said(found: Metrics) -> str:
    """ "mixed: 3 metrics in both runs, 1 larger and 1 smaller by 5 % or more; no verdict, ..."."""
    if not (found.changes or found.only_before):
        return ""
    moved = [one for one in found.changes if one.distance >= MOVED]
    larger = sum(one.after > one.before for one in moved)
    costs = {one.after > one.before for one in moved if one.is_cost}
    parts = [
        f"{counted(len(found.changes), 'metric')} in both runs, {larger} larger and "
        f"{len(moved) - larger} smaller by {100 * MOVED:.0f} % or more"
    ]
    if found.only_before or found.only_after:
        parts.append(f"{found.only_before} before only, {found.only_after} now only")
    said = f"{'; '.join(parts)}; no verdict, as nothing says how much they vary"
    return f"mixed: {said}" if len(costs) > 1 else said


def run_words(run: RunName) -> str:
    """ "head, run 123/2, a1b2c3d, main, 1,040 cases"; of a first attempt "run 123"."""
    parts = []
    if run.run_id is not None:
        attempt = f"/{run.run_attempt}" if (run.run_attempt or 1) > 1 else ""
        number = f"{run.run_id}{attempt}"
        # Who asked for it by its number need not be told the number again.
        asked = run.name.removeprefix("run ").partition("/")[0]
        parts = [] if asked == str(run.run_id) else [run.name]
        parts.append(f"run {number}" + (" of the history" if run.in_history else ""))
    else:
        parts = [run.name]
    parts += [part for part in (run.sha[:7] if run.sha else "", run.branch or "") if part]
    return ", ".join(dict.fromkeys([*parts, counted(run.cases, "case")]))


def some(names: Sequence[str]) -> str:
    """ "02, 05, 07 and 3 more"."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def lost_words(lost: Lost) -> str:
    """ "29 units lost with shard 02"."""
    shards = f"{'shard' if len(lost.shards) == 1 else 'shards'} {some(lost.shards)}"
    units = counted(len(lost.units), "unit")
    if lost.sure:
        return f"{units} lost with {shards}"
    return f"{units} of the base without a result: lost with {shards}, or no longer there"


TRENDS: Final[dict[TrendName, str]] = {
    "makespan_s": "slowest leg",
    "sum_s": "sum of the legs",
    "peak_bytes": "largest peak of a leg",
}
_TIERS: Final[dict[Tier, str]] = {
    "confirmed": "confirmed leak",
    "suspect": "maybe a leak",
    "moved": "memory that grows",
}


def trend_words(trend: Trend) -> str:
    """ "slowest leg: no significant difference (124 s and 122 s, n=12)"."""
    show = size if trend.name == "peak_bytes" else duration
    usual = ""
    if trend.low is not None and trend.high is not None and "usual" in trend.word:
        usual = f", 95 % of runs {show(trend.low)} to {show(trend.high)}"
    values = f"{show(trend.before)} and {show(trend.after)}, n={trend.n}{usual}"
    return f"{TRENDS[trend.name]}: {trend.word} ({values})"


def past_words(one: Transition) -> str:
    """ "; went wrong in 3 of 20 baseline runs"; "" where it never did, or nobody counted."""
    if not one.bad_before or not one.runs_before:
        return ""
    return f"; went wrong in {one.bad_before} of {counted(one.runs_before, 'baseline run')}"


def cost_words(before: Cost | None, after: Cost) -> str:
    """ "runner minutes: 12 -> 14 (0.07 -> 0.08 USD), legs alone"."""
    old = "-" if before is None else f"{before.minutes:,}"
    price = ""
    if after.price_usd is not None:
        was = "" if before is None or before.price_usd is None else f"{before.price_usd:.2f} -> "
        price = f" ({was}{after.price_usd:.2f} USD)"
    alone = "" if after.whole else ", legs alone"
    return f"runner minutes: {old} -> {after.minutes:,}{price}{alone}"


def leak_words(leak: Leak) -> str:
    """ "maybe a leak: +640 MiB over 120 tests in process 2 of shard 03 (40 MiB before, n=12)"."""
    shard = f" of shard {leak.shard}" if leak.shard else ""
    before = "not known before"
    if leak.before_bytes is not None:
        before = f"{size(leak.before_bytes)} before, n={leak.n}"
    return (
        f"{_TIERS[leak.tier]}: {size(leak.steady_bytes)} kept by "
        f"{counted(leak.tests, 'test')} in process {leak.process}{shard} ({before})"
    )


def pace_words(
    word: PaceWord, *, ratio: float = 0.0, low: float = 0.0, high: float = 0.0, n: int = 0
) -> str:
    """ "whole suite: slower (+12 %, n=20, 95 % CI +8..+16)"."""
    if word == "not measured":
        return "whole suite: no CPU probe beside a known speed"
    if word == "not enough data":
        return f"whole suite: no verdict from {counted(n, 'baseline run')} ({NEEDED} are needed)"
    numbers = f"{percent(ratio)}, n={n}, 95 % CI {100 * low:+,.0f}..{100 * high:+,.0f}"
    return f"whole suite: {word} ({numbers})"


def few_runs(number: int) -> str:
    """Why nothing is judged yet."""
    are = "is 1" if number == 1 else f"are {number or 'none'}"
    return f"the comparison of numbers begins with {NEEDED} baseline runs, there {are}"


def sentence(text: str) -> str:
    """The words with a capital and a stop."""
    return f"{text[:1].upper()}{text[1:]}."
