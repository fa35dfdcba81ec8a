"""How often `ciguard culprit` names the right commit, beside `git bisect run` and autorevert.

    .venv/bin/python benchmarks/culprit_search.py [--histories 500] [--processes 2]

The ranges are drawn by `culprit_histories.py`, which says its distributions; every rule sees
the same outcomes. A rate of failures before the range is 0 to 20 %. From the culprit on it is at
least 70 points higher ("failures"), 20 to 60 points ("small differences"), or the same; memory
grows by 20 to 100 % (noise of 3 %; "outliers": one try in twenty), durations by 50 to 300 % (10 %).

`git bisect run` tries each commit once and skips what does not build; it ends with a set where only
skipped commits are left. For sizes and times its script compares with the middle of one try at each
end. Autorevert is PyTorch's rule for a job, `process_valid_autorevert_pattern` in
`aws/lambda/pytorch-auto-revert/pytorch_auto_revert/signal.py` of pytorch/test-infra at 06b42a9: the
gap between the failing and the passing commits is bisected; then it needs three failures, two of
them of the oldest failing commit, two successes, and a failure between two successes in time. It
gives up where a commit has both outcomes. Its two first outcomes, and those of bisect, are given.

Targets: a name where one can be given in >= 90 %, right in >= 95 %; executions at most
2 log2 n + 6 in the median; the culprit within the set in >= 95 %. Intervals are of 95 %.
"""

from __future__ import annotations

import argparse
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from statistics import fmean, median
from typing import TYPE_CHECKING, Final, get_args

from culprit_histories import Found, Kind, Range, draw, search
from intervals import share

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

FAILURES: Final = 3
SUCCESSES: Final = 2
FIRST_FAILING: Final = 2  # failures of the oldest failing commit


class Trials:
    """Tries of the commits of a range, each a failure or a success, in the order of time."""

    def __init__(self, one: Range) -> None:
        self.range = one
        self.numbers: Counter[int] = Counter()
        self.outcomes: list[tuple[int, bool]] = []
        self.executions = 0
        self.middle = 0.5
        if one.measure != "failure":
            self.middle = (self._next(0) + self._next(one.commits)) / 2

    def _next(self, position: int) -> float:
        self.executions += 1
        self.numbers[position] += 1
        return self.range.outcome(position, self.numbers[position] - 1)

    def fails(self, position: int) -> bool:
        failed = self._next(position) > self.middle
        self.outcomes.append((position, failed))
        return failed

    def count(self, positions: Collection[int], *, failed: bool) -> int:
        return sum(at in positions and outcome == failed for at, outcome in self.outcomes)


def nearest(positions: Collection[int], middle: float) -> int:
    return min(positions, key=lambda position: (abs(position - middle), position))


def bisect(one: Range) -> Found:
    """Try the middle commit that builds, once, until no other is left."""
    trials = Trials(one)
    good, bad = 0, one.commits
    while left := set(range(good + 1, bad)) - one.broken:
        position = nearest(left, (good + bad) / 2)
        if trials.fails(position):
            bad = position
        else:
            good = position
    return Found(one, tuple(range(good + 1, bad + 1)), trials.executions)


def autorevert(one: Range) -> Found:
    """Cover the gap, and restart what the rule asks for, until it reverts or gives up."""
    trials = Trials(one)
    trials.outcomes += [(0, False), (one.commits, True)]
    nothing = tuple(range(one.commits + 1))
    while True:
        outcomes: dict[int, set[bool]] = {}
        for position, failed in trials.outcomes:
            outcomes.setdefault(position, set()).add(failed)
        if any(len(both) == 2 for both in outcomes.values()):
            return Found(one, nothing, trials.executions)  # "flaky"
        newest_good = max(at for at, both in outcomes.items() if both == {False})
        failing = {at for at in outcomes if at > newest_good}
        older_failures = [at for at in outcomes if at < newest_good and outcomes[at] == {True}]
        passing = {at for at in outcomes if max(older_failures, default=-1) < at <= newest_good}
        oldest_bad = min(failing)
        wanted = restarts(trials, failing, passing)
        gap = set(range(newest_good + 1, oldest_bad)) - one.broken
        if gap:
            wanted.add(nearest(gap, (newest_good + oldest_bad) / 2))
        elif newest_good + 1 < oldest_bad and not wanted:
            return Found(one, tuple(range(newest_good + 1, oldest_bad + 1)), trials.executions)
        if not wanted:
            return Found(one, (oldest_bad,), trials.executions)
        for position in sorted(wanted):
            trials.fails(position)


def restarts(trials: Trials, failing: set[int], passing: set[int]) -> set[int]:
    """Return which of the two commits at the gap the rule tries again."""
    oldest_bad, newest_good = min(failing), max(passing)
    wanted: set[int] = set()
    times_of_failures = [time for time, (at, _) in enumerate(trials.outcomes) if at in failing]
    times_of_successes = [time for time, (at, _) in enumerate(trials.outcomes) if at in passing]
    if (
        trials.count(failing, failed=True) < FAILURES
        or trials.count({oldest_bad}, failed=True) < FIRST_FAILING
        or max(times_of_failures) <= min(times_of_successes)
    ):
        wanted.add(oldest_bad)
    if trials.count(passing, failed=False) < SUCCESSES or max(times_of_successes) <= min(
        times_of_failures
    ):
        wanted.add(newest_good)
    return wanted


RULES: Final[dict[str, Callable[[Range], Found]]] = {
    "ciguard": search,
    "git bisect run": bisect,
    "autorevert": autorevert,
}


def shown(count: int, trials: int) -> str:
    if not trials:
        return ""
    low, high = share(count, trials)
    return f"{count / trials:.3f} ({low:.3f}..{high:.3f})"


def row(kind: Kind, rule: str, found: Sequence[Found]) -> str:
    named = [one for one in found if one.named]
    right = sum(one.named == one.range.culprit for one in named)
    nameable = [one for one in found if one.range.can_be_named]
    cells = (
        kind,
        rule,
        shown(len(named), len(found)),
        shown(sum(one.named > 0 for one in nameable), len(nameable)),
        shown(right, len(named)),
        shown(sum(one.range.culprit in one.candidates for one in found), len(found)),
        f"{median(len(one.candidates) for one in found):g}",
        f"{fmean(one.executions for one in found):.1f}",
        f"{median(one.excess for one in found):+.1f}",
        shown(sum(one.candidates == (0,) for one in found), len(found)),
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--histories", type=int, default=500)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rules", default=",".join(RULES))
    requested = parser.parse_args()
    heads = (
        "ranges",
        "rule",
        "named",
        "named where possible",
        "right of named",
        "culprit in the set",
        "size of the set, median",
        "executions, mean",
        "executions - (2 log2 n + 6), median",
        "unchanged",
    )
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    with ProcessPoolExecutor(requested.processes) as pool:
        for number, kind in enumerate(get_args(Kind)):
            first = requested.seed * 1_000_000 + number * 100_000
            seeds = range(first, first + requested.histories)
            ranges = list(map(draw, repeat(kind), seeds))
            for rule in requested.rules.split(","):
                found = list(pool.map(RULES[rule], ranges, chunksize=10))
                print(row(kind, rule, found), flush=True)


if __name__ == "__main__":
    main()
