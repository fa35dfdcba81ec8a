"""The sentences of a comparison: its headline, and a phrase for each verdict and number. Pure.

The headline has the state, and the findings that led to it, the worst first.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Final

from ciguard.compare.baseline_matrix import BaselineInfo, ExcludedValuesReason
from ciguard.compare.baseline_selection import AncestrySource, ExclusionReason
from ciguard.compare.comparison import Comparison, Note, NoteKind, UnjudgedReason
from ciguard.compare.jobs import JobChange, JobsComparison
from ciguard.compare.leaks import Leak
from ciguard.compare.legs import Cost, IncompleteReason, LegChange, LostUnits, Total, TotalName
from ciguard.compare.log_view import logs_text
from ciguard.compare.measure_changes import MEASURE_NOUN, NO_GPU_MEMORY, CaseChange, MeasureVerdict
from ciguard.compare.metric_changes import conditions_text, verdicts_text
from ciguard.compare.run_columns import RunInfo
from ciguard.compare.statistics import MIN_BASELINE_RUNS, MIN_RUNS_TO_CONFIRM, Tier
from ciguard.compare.suite_speed import RATIO as MIN_SPEED_RATIO
from ciguard.compare.suite_speed import SuiteSpeed
from ciguard.compare.transitions import WORSE_KINDS, CaseState, Transition, TransitionKind
from ciguard.history.file import VALUES_PER_KEY
from ciguard.model import Ending
from ciguard.render.changes import estimated_change, exact_change, relative_change
from ciguard.render.machine_view import slowdown_text
from ciguard.render.notes import fill, name_shards
from ciguard.text import case_name, count_of, duration, one_line, price, size

LEAK_TIER_TEXT: Final[dict[Tier, str]] = {
    "confirmed": "confirmed leak",
    "suspect": "possible leak",
    "unjudged": "growing memory",
}
UNJUDGED_TEXT: Final[dict[UnjudgedReason, str]] = {
    "same run": "both runs are the same, so there is nothing to compare",
    "baseline incomplete": "no number is judged: each shard that measured it is incomplete",
    "few baseline runs": "memory and time are judged from {least} baseline runs on; there {are}",
}
ANCESTRY_SOURCE_TEXT: Final[dict[AncestrySource, str]] = {
    "git": "git",
    "github": "GitHub",
    "runs": "the recorded parents",
}
EXCLUDED_RUN_TEXT: Final[dict[ExclusionReason, str]] = {
    "candidate": "the candidate itself",
    "other_tests": "of other tests",
    "pull_request": "of a pull request",
    "merge_group": "of a merge group",
    "other_workflow": "of another workflow",
    "other_repository": "of another repository",
    "other_branch": "on another branch",
    "own_push": "an earlier push of the pull request",
    "not_before": "not before the candidate",
    "no_ancestor": "of a commit that is not an ancestor",
    "other_event": "of another event",
    "too_old": f"older than the last {VALUES_PER_KEY}",
}
EXCLUDED_VALUES_TEXT: Final[dict[ExcludedValuesReason, str]] = {
    "not_passed": "the test did not pass",
    "incomplete_leg": "the shard did not complete",
    "other_method": "memory measured in another way",
}
NOTE_TEXT: Final[dict[NoteKind, str]] = {
    "no_base": "There is no base: no transitions are shown.",
    "incomplete_base": "The base is incomplete: an added test may be one that was lost there.",
    "blocks_moved": "{count:block} of tests moved between {total:shard} of the candidate.",
    "resharded": "{count:,} of {total:,} tests ran in another shard than in the base: wall time "
    "and peak memory of a shard belong to different tests.",
    "not_passed": "Not compared: numbers of {count:test} that did not pass.",
    "confirmation": "{runs:,} alternating runs of base and head on one machine: {count:,} of "
    "{total:suspect} confirmed.",
    "confirmation_of_other_commit": "The experiment ran commit {detail}, not the candidate: it "
    "confirms nothing.",
    "confirmation_failed": "The experiment could not judge the suspects: {detail}.",
    "confirmation_by_judged_run": "The judged run itself ran the experiment, and can have changed "
    "its result.",
    "confirmation_unreadable": "The result of the experiment cannot be read: {detail}.",
    "no_previous_run": "Nothing can be confirmed: the previous run of this pull request is not "
    "available ({detail}).",
}
ONE_RUN_EACH: Final = (
    "Conclusions and wall times are of one run each (n = 1): a difference may be chance. Tests "
    "were not compared."
)
MEASURED_OTHERWISE: Final = "not judged: their baseline was measured in another way"
TOTALS: Final[dict[TotalName, str]] = {
    "makespan_s": "slowest shard",
    "sum_s": "sum of the shards",
    "tests_s": "sum of the tests",
    "peak_bytes": "largest peak",
    "gpu_bytes": "memory of GPU {device}",
    "swap_growth_bytes": "swap growth",
}
PAID_ONCE: Final = "one-time costs of a process, as imports, may be the whole change"
CHANGE_NOUN: Final = {  # by verdict of an unconfirmed change
    "suspect": "suspect",
    "possible gain": "possible gain",
    "not confirmed": "refuted suspect",
    "no verdict": "unjudged change",
}
RUNS_FOR_LOW_RATE: Final = 20  # baseline runs; with fewer, more confirmed peaks are false alarms
# tests/compare/test_calibration.py checks the rates in simulated runs of 2,000 unchanged tests.
FALSE_ALARMS: Final = (
    "False alarms, simulated: a pull request that changes nothing has at most 0.2 confirmed "
    "durations and {peaks} confirmed peaks in 2,000 tests, and names 0.3 durations unconfirmed."
)
_PARTS: Final = re.compile(r"(?=::|[\[( ])")
MAX_NAMED: Final = 3  # shards in a phrase; the rest is counted


def kind_text(kind: TransitionKind) -> str:
    """Return "newly timed out", "timed out, added" or "gone"."""
    if kind in ("removed", "no_longer_run"):
        return "gone"
    if kind == "failing_on_both":
        return "failing in both runs"
    return kind.replace("_added", ", added").replace("_", " ")


def incomplete_text(reason: IncompleteReason) -> str:
    """Return "shards 01, 02: timeout", "no record of shard 03"."""
    if reason.kind == "no_result":
        return f"{count_of(reason.units, 'planned test')} of complete shards without a result"
    shards = shards_text(reason.shards)
    if reason.kind == "no_record":
        return f"no record of {shards}"
    ending = reason.ending or "unknown"
    words: dict[Ending, str] = {
        "completed": "record damaged, or no test executed",
        "unknown": "results truncated",
    }
    return f"{shards}: {words.get(ending, ending.replace('_', ' '))}"


def shards_text(names: Sequence[str]) -> str:
    """Return "shard 02", "shards 02, 05, 07 and 3 more"; "the only shard" for result files."""
    return name_shards(names, MAX_NAMED) if any(names) else "the only shard"


def as_sentence(text: str) -> str:
    """Return the words with a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def unjudged_text(comparison: Comparison) -> str:
    """Return why no number has a verdict."""
    if comparison.unjudged_reason is None:
        return ""
    runs = len(comparison.baseline.runs)
    are = "is 1" if runs == 1 else f"are {runs or 'none'}"
    return UNJUDGED_TEXT[comparison.unjudged_reason].format(least=MIN_BASELINE_RUNS, are=are)


def measure_text(verdict: MeasureVerdict, *, brief: bool = False) -> str:
    """Return "peak memory: 1 confirmed regression (15 tests judged, n=12)".

    Args:
        brief: without "no significant difference", which the headline has.
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
    large = sum(loss.is_large and loss.tier in ("suspect", "unjudged") for loss in verdict.losses)
    if large:
        parts.append(f"; {count_of(large, 'test')} took at least 3 times as long")
    return noun + "".join(parts)


def paid_once_texts(verdicts: Iterable[MeasureVerdict]) -> Iterator[str]:
    """Word the tests that are not judged because of what a process pays once."""
    for verdict in verdicts:
        if verdict.paid_once:
            noun, tests = MEASURE_NOUN[verdict.measure], count_of(verdict.paid_once, "test")
            yield as_sentence(f"{noun} of {tests} not judged: {PAID_ONCE}")


def _measure_verdict(verdict: MeasureVerdict, *, brief: bool) -> str:
    word = verdict.verdict
    judged = f" ({count_of(verdict.judged_tests, 'test')} judged, n={verdict.n})"
    if word == "not measured":
        if verdict.measure == "wall_s":
            return ": no test of 50 ms or more was measured in both runs"
        return ": not measured in both runs"
    if word == "baseline incomplete":
        return f": {UNJUDGED_TEXT['baseline incomplete']}"
    if word == "incomplete":
        return ": no improvement is shown for an incomplete run"
    if word == "not enough data":
        return f": {_too_few(verdict)}"
    if word == "too noisy to judge":
        return f": too noisy to judge: {verdict.noise_ratio:.1f} times the baseline's noise"
    worse = len(verdict.of_tier("confirmed"))
    better = sum(gain.tier == "confirmed" for gain in verdict.gains)
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
    """Word a measure without a verdict; only memory has counts, as durations vary in every run."""
    is_memory = verdict.measure != "wall_s"
    both = (("up", verdict.losses), ("down", verdict.gains)) if is_memory else ()
    counts = [f"{count_of(len(changes), 'test')} {way}" for way, changes in both if changes]
    if counts:
        return f"{', '.join(counts)}, no verdict"
    values = count_of(verdict.n, "baseline value")
    return f"no verdict from {values} a test ({MIN_BASELINE_RUNS} are needed)"


def unlisted_text(verdict: MeasureVerdict) -> str:
    """Return "duration: 40 suspects, 1 possible gain"; "" if all changes are listed."""
    changes = (*verdict.losses, *verdict.gains)
    # Without a verdict every test has a change.
    judged = (change for change in changes if change.tier != "unjudged")
    text = unconfirmed_text(change for change in judged if not change.is_listed)
    return f"{MEASURE_NOUN[verdict.measure]}: {text}" if text else ""


def unconfirmed_text(changes: Iterable[CaseChange]) -> str:
    """Return "17 suspects, 1 possible gain": as the headline counts them."""
    counts = Counter(CHANGE_NOUN[change_verdict(change)] for change in changes)
    return ", ".join(count_of(number, noun) for noun, number in counts.items())


def change_text(change: CaseChange) -> str:
    """Return "+25 % (n=12, 95 % CI +21..+28)", "+99.9 MiB (n=2)", "at least +108 MiB (n=5)"."""
    if change.is_bound:
        amount = exact_change(change.after - change.before, None, "bytes")
        shared = f", any of {change.cases:,} tests measured together" if change.cases > 1 else ""
        return f"at least {amount} (n={change.n}{shared})"
    unit = "s" if change.measure == "wall_s" else "bytes"
    ratio = (change.ratio, change.low, change.high)
    text, interval = estimated_change(change.before, change.after, ratio, unit)
    return f"{text} (n={change.n}{f', 95 % CI {interval}' * bool(interval)})"


def value_texts(change: CaseChange) -> tuple[str, str]:
    """Return the values before and after, "12.2 MiB" or the bound "<= 12.2 MiB", uncorrected."""
    show = duration if change.measure == "wall_s" else size
    after = change.after if change.measured is None else change.measured
    if not change.is_bound:
        return show(change.before), show(after)
    signs = ("<=", ">=") if after > change.before else (">=", "<=")
    return f"{signs[0]} {show(change.before)}", f"{signs[1]} {show(after)}"


def change_verdict(change: CaseChange) -> str:
    """Return "confirmed", "suspect", "possible gain", "no verdict"."""
    if change.tier == "unjudged":
        return "no verdict"
    if change.after < change.before:
        return "confirmed gain" if change.tier == "confirmed" else "possible gain"
    return change.tier


def suite_speed_text(speed: SuiteSpeed) -> str:
    """Return "whole suite: slower (+12 %, n=20, 95 % CI +8..+16)"."""
    if speed.verdict == "not measured":
        return "whole suite: no job has both a speed and a CPU probe"
    if speed.ratio is None or speed.low is None or speed.high is None:
        runs = count_of(speed.n, "baseline run")
        return f"whole suite: no verdict from {runs} ({MIN_BASELINE_RUNS} are needed)"
    if speed.measured_ratio is not None:
        tests = 1 + speed.measured_ratio
        return (
            f"whole suite: unclear: its tests took {tests:.2f} times as long as usual, and the CPU "
            f"probe of its runners {tests / (1 + speed.ratio):.2f} times (n={speed.n})"
        )
    aside = ""
    if speed.verdict == "no significant difference" and not speed.low <= 0 <= speed.high:
        factor = 1 + abs(speed.ratio) if speed.ratio > 0 else 1 / (1 + speed.ratio)
        is_small = factor - 1 < MIN_SPEED_RATIO
        aside = f"; below {100 * MIN_SPEED_RATIO:.0f} %" if is_small else "; not in 3 of 4 shards"
    change, interval = relative_change(speed.ratio, speed.low, speed.high)
    numbers = f"{change}, n={speed.n}, 95 % CI {interval}{aside}"
    return f"whole suite: {speed.verdict} ({numbers})"


def leak_text(leak: Leak) -> str:
    """Return "possible leak: 640 MiB kept by 120 tests in process 2 (40 MiB before, n=12)"."""
    shard = f" of shard {leak.shard}" if leak.shard else ""
    before = "unknown before"
    if leak.before_bytes is not None:
        before = f"{size(leak.before_bytes)} before, n={leak.n}"
    return (
        f"{LEAK_TIER_TEXT[leak.tier]}: {size(leak.trimmed_growth_bytes)} kept by "
        f"{count_of(leak.tests, 'test')} in process {leak.process}{shard} ({before})"
    )


def doubled_texts(comparison: Comparison) -> Iterator[str]:
    """Word the sums of times that have at least doubled."""
    if not comparison.is_doubled:
        return
    for total in comparison.totals:
        if total.is_doubled and total.name == "tests_s":
            tests, before = count_of(total.n, "test"), duration(total.before)
            yield f"{tests} that passed in both runs took {duration(total.after)}, {before} before"
        elif total.is_doubled:
            before = duration(total.before)
            yield f"all shards together took {duration(total.after)}, {before} before"


def total_title(total: Total) -> str:
    """Return "slowest shard", "memory of GPU 0"."""
    return TOTALS[total.name].format(device=total.device)


def growth_texts(totals: Iterable[Total]) -> Iterator[str]:
    """Word the totals of memory that grew: "memory of GPU 0: suspect (1 GiB -> 2 GiB, n=12)"."""
    for total in totals:
        if total.tier and total.after is not None:
            tier = "confirmed regression" if total.tier == "confirmed" else total.tier
            change = f"{size(total.before)} -> {size(total.after)}"
            yield f"{total_title(total)}: {tier} ({change}, n={total.n})"


def endings_text(leg: LegChange) -> str:
    """Return "completed", "completed -> deadline", "absent -> completed"."""
    before, after = leg.before or "absent", leg.after or "no record"
    text = after if before == after else f"{before} -> {after}"
    return text.replace("_", " ")


def job_times_text(job: JobChange) -> str:
    """Return "16 min 00 s -> 9 min 00 s (-43.75 %)", without a ratio if the job is listed."""
    before_s, after_s = job.wall_before_s, job.wall_after_s
    text = f"{duration(before_s)} -> {duration(after_s)}"
    if job.is_listed or not before_s or after_s is None:
        return text
    return f"{text} ({100 * (after_s / before_s - 1):+,.2f} %)"


def leg_times_text(leg: LegChange) -> str:
    """Return "10 s -> 14 s (swapped 1.20 GiB)": both times, each with what made it longer."""
    sides = ((leg.wall_before_s, leg.machine_before), (leg.wall_after_s, leg.machine_after))
    texts = []
    for wall_s, machine in sides:
        slowdown = slowdown_text(machine, wall_s)
        texts.append(f"{duration(wall_s)} ({slowdown})" if slowdown else duration(wall_s))
    return " -> ".join(texts)


def slowed_legs_texts(legs: Sequence[LegChange]) -> Iterator[str]:
    """Word the shards that swapped or waited for memory, in a sentence for each run."""
    sides = {
        "base": [leg for leg in legs if slowdown_text(leg.machine_before, leg.wall_before_s)],
        "candidate": [leg for leg in legs if slowdown_text(leg.machine_after, leg.wall_after_s)],
    }
    for side, slowed in sides.items():
        if slowed:
            shards = shards_text([leg.shard for leg in slowed])
            yield f"In the {side}, {shards} swapped or waited for memory, which lengthens times."


def cost_text(cost: Cost) -> str:
    """Return "12 minutes (0.072 USD)"."""
    paid = "" if cost.price_usd is None else f" ({price(cost.price_usd)})"
    return f"{count_of(cost.minutes, 'minute')}{paid}"


def lost_text(lost: LostUnits) -> str:
    """Return "29 tests lost with shard 02"."""
    shards = shards_text(lost.shards)
    tests = count_of(len(lost.units), "test")
    if lost.certain:
        return f"{tests} lost with {shards}"
    return f"{tests} of the base without a result: removed, or lost with {shards}"


def moved_texts(case: Transition) -> tuple[str, ...]:
    """Return the old and the new name of a renamed test, without their common end.

    "a.py" and "b.py" for "a.py::t[1]" and "b.py::t[1]"; () for a test that kept its name.
    """
    was = case.renamed_from or case.perhaps_was
    if case.kind != "renamed" or was is None:
        return ()
    old, new = (_PARTS.split(case_name(key._replace(variant=""))) for key in (was, case.key))
    while min(len(old), len(new)) > 1 and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    return "".join(old), "".join(new)


def case_text(state: CaseState | None) -> str:
    """Return "passed", "died (out of memory)", "absent"."""
    if state is None:
        return "absent"
    outcome = state.outcome or "measured"
    if state.ending in (None, "completed"):
        return outcome
    return f"{outcome} ({state.ending.replace('_', ' ')})"


def before_text(case: Transition) -> str:
    """Word how a test ended in the base; for a flaky test, in the try before its last."""
    if case.kind != "flaky":
        return case_text(case.before)
    return f"{'added, ' if case.before is None else ''}failed in an earlier try"


def failure_rate_text(case: Transition) -> str:
    """Return "; failed in 3 of 20 baseline runs"; with the excuse, where there is case."""
    excuse = f"; {one_line(case.excuse)}" if case.excuse else ""
    ended = case.past.ended if case.past is not None else ()
    if "failed" not in ended:
        return excuse
    runs = count_of(len(ended), "baseline run")
    return f"; failed in {ended.count('failed')} of {runs}{excuse}"


def run_text(run: RunInfo) -> str:
    """Return "head, run 123/2, a1b2c3d, main, 1,040 tests"; of a first attempt "run 123"."""
    parts = [run.name]
    if run.run_id is not None:
        attempt = f"/{run.run_attempt}" if (run.run_attempt or 1) > 1 else ""
        # A name that is the number of the run is not repeated.
        if run.name.partition("/")[0] in (f"{run.run_id}", f"run {run.run_id}"):
            parts = []
        parts.append(f"run {run.run_id}{attempt}" + " of the history" * run.in_history)
    parts += [part for part in (run.sha[:7] if run.sha else "", run.branch or "") if part]
    cases = run.values if run.cases is None else run.cases
    return ", ".join(dict.fromkeys([*parts, *([] if cases is None else [count_of(cases, "test")])]))


def conclusions_text(job: JobChange) -> str:
    """Return "success -> cancelled (timeout)"; one word where both are the same."""
    reason = f" ({job.ending.replace('_', ' ')})" if job.ending and job.after == "cancelled" else ""
    before, after = (conclusion or "absent" for conclusion in (job.before, job.after))
    return f"{before} -> {after}{reason}" if before != after else f"{after}{reason}"


def job_counts(jobs: Iterable[JobChange]) -> Iterator[str]:
    """Return "5 jobs still cancelled (4 at the time limit, after at least 45 min 12 s)" """
    by_transition: dict[str, list[JobChange]] = defaultdict(list)
    for job in jobs:
        by_transition[job.transition or "changed otherwise"].append(job)
    for transition, group in by_transition.items():
        walls_s = [job.wall_after_s or 0.0 for job in group if "timeout" in (job.ending, job.after)]
        after = f", after at least {duration(min(walls_s))}" if any(walls_s) else ""
        limit = f" ({len(walls_s):,} at the time limit{after})" if walls_s else ""
        yield f"{count_of(len(group), 'job')} {transition}{limit}"


def baseline_text(baseline: BaselineInfo) -> str:
    """Return "12 runs: on ancestors of a1b2c3d, by git", "2 runs: 1 ...; 1 given as the base"."""
    of_history = len(baseline.runs) - baseline.given_runs
    commit = (baseline.ancestors_of or "")[:7]
    source = ANCESTRY_SOURCE_TEXT[baseline.ancestry_source or "runs"]
    counts = {
        f"on ancestors of {commit}, by {source}": of_history - baseline.ordered_by_date,
        "before the candidate, by date": baseline.ordered_by_date,
        "given as the base": baseline.given_runs,
    }
    parts = {text: number for text, number in counts.items() if number}
    if not parts:
        return "none"
    texts = parts if len(parts) == 1 else [f"{number} {text}" for text, number in parts.items()]
    return f"{count_of(len(baseline.runs), 'run')}: {'; '.join(texts)}"


def excluded_text(baseline: BaselineInfo) -> str:
    """Return "2 runs: of a pull request; 18 values: the test did not pass"; "" for none."""
    reasons = Counter(run.reason for run in baseline.excluded_runs)
    parts = [
        f"{count_of(number, 'run')}: {EXCLUDED_RUN_TEXT[reason]}"
        for reason, number in sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    parts += [
        f"{count_of(excluded.values, 'value')}: {EXCLUDED_VALUES_TEXT[excluded.reason]}"
        for excluded in baseline.excluded_values
    ]
    return "; ".join(parts)


def false_alarm_text(baseline_runs: int) -> str:
    """Word the false-alarm rate; "" if there are too few baseline runs to confirm a change."""
    if baseline_runs < MIN_RUNS_TO_CONFIRM:
        return ""
    return FALSE_ALARMS.format(peaks=0.05 if baseline_runs >= RUNS_FOR_LOW_RATE else 0.2)


def note_text(note: Note) -> str:
    return fill(NOTE_TEXT[note.kind], asdict(note))


HEADLINE_KINDS: Final[tuple[TransitionKind, ...]] = (
    *(*WORSE_KINDS, "no_longer_run", "removed", "newly_skipped", "newly_xfailed", "fixed"),
    *("quarantined", "ignored"),
)

HEADLINE_JOBS: Final = ("still cancelled", "newly cancelled", "unblocked")
UNMEASURED: Final = ("not measured", "baseline incomplete")


def headline(comparison: Comparison) -> str:
    """Word a comparison in one sentence, the worst first."""
    parts = finding_texts(comparison)
    if not parts and comparison.unjudged_reason:
        parts = [unjudged_text(comparison)]
    elif not parts and comparison.base is None:
        parts = [f"{count_of(comparison.candidate.cases or 0, 'test')}, no base"]
    elif not parts:
        parts = [
            measure_text(verdict)
            for verdict in (comparison.memory, comparison.gpu_memory, comparison.durations)
            if verdict != NO_GPU_MEMORY
        ]
    if conditions := conditions_text(comparison.conditions):
        parts.insert(0, conditions)
    state = "NO SIGNIFICANT DIFFERENCE" if comparison.state == "same" else comparison.state.upper()
    return f"{state}: {'; '.join(parts)}"


def finding_texts(comparison: Comparison) -> list[str]:
    """Word the findings of a comparison, the worst first."""
    return [*_missing(comparison), *_counts(comparison), *_numbers(comparison)]


def _missing(comparison: Comparison) -> Iterator[str]:
    yield from map(incomplete_text, comparison.incomplete_reasons)
    sure = [lost for lost in comparison.lost_units if lost.certain]
    if len(sure) == len(comparison.incomplete_reasons) == 1:
        yield f"{count_of(len(sure[0].units), 'test')} lost with it"
    elif len(sure) == 1:
        yield lost_text(sure[0])
    elif sure:
        units = sum(len(lost.units) for lost in sure)
        yield f"{count_of(units, 'test')} lost with {len(sure):,} shards"
    for lost in comparison.lost_units:
        if not lost.certain:
            yield f"{count_of(len(lost.units), 'test')} of the base without a result"


def _counts(comparison: Comparison) -> Iterator[str]:
    for word in HEADLINE_JOBS:
        yield from job_counts(job for job in comparison.jobs if job.transition == word)
    counts: Counter[str] = Counter()
    for kind in HEADLINE_KINDS:
        counts[kind_text(kind)] += len(comparison.of_kind(kind))
    yield from (f"{number:,} {text}" for text, number in counts.items() if number)
    yield from (f"{word} more often in the logs" for word in comparison.more_in_logs)
    for ending, number in comparison.deaths_on_both.items():
        yield f"{number:,} {kind_text('failing_on_both')} ({ending.replace('_', ' ')})"


def _numbers(comparison: Comparison) -> Iterator[str]:
    """Word the verdicts on numbers; without any, the measures with listed changes."""
    for leak in comparison.leaks[:1]:
        more = len(comparison.leaks) - 1
        yield leak_text(leak) + (f", and {more} more" if more else "")
    if comparison.suite_speed.verdict in ("slower", "maybe slower", "faster"):
        yield suite_speed_text(comparison.suite_speed)
    yield from growth_texts(comparison.totals)
    yield from doubled_texts(comparison)
    if text := verdicts_text(comparison.metrics):
        yield f"metrics: {text}"
    for verdict in comparison.verdicts:
        if verdict.verdict not in UNMEASURED or verdict.measured_otherwise:
            yield measure_text(verdict, brief=comparison.state == "same")


def jobs_headline(comparison: JobsComparison) -> str:
    """Word the comparison of two runs without records in one sentence."""
    unchanged = f"{count_of(len(comparison.unchanged), 'job')} with the same conclusion"
    parts = (*job_counts(comparison.changes), unchanged)
    state = "NO DIFFERENCE" if comparison.state == "same" else comparison.state.upper()
    logs = comparison.logs
    of_logs = f"; logs: {logs_text(logs)}" if logs is not None else ""
    subject = f"no ciguard records, so only {'jobs' if logs is None else 'jobs and logs'}"
    return f"{state}: {subject} are compared: {', '.join(parts)}{of_logs}"
