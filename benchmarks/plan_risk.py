"""Whether the stated risk is true: P(any shard passes its limit) against what the next run did.

    .venv/bin/python benchmarks/plan_risk.py [--shards 4,8,...]

For each plan of real recordings the limit is set where the model states a risk of 1, 5, 20 and
50 %; observed is the share of the later runs in which a shard was over it. A trial counts once
(the mean over its numbers of shards, which have their luck in common), and the intervals are
Wilson's for so many trials. A trial is of "the same tests" cut down to what both runs have; it is
of "other machines" where the median test took over 10 % more or less than expected; "changed
tests" are the others, whole, where at least one test in two hundred is new. Below it: how full
shards may be planned, what that risks and how many shards it costs. Needs `../shared/data`.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean, median
from typing import TYPE_CHECKING, Final

import numpy as np
from recordings import COUNTS, Trial, estimated, following, packed, pairs, require

from ciguard.plan.problem import MAX_SHARDS
from ciguard.plan.risk import WallTimeSpread, limit_for_risk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.plan.estimates import Estimates

STATED: Final = (0.01, 0.05, 0.2, 0.5)
FILLS: Final = (1.0, 0.9, 0.8)
STEADY_S: Final = 0.05
OTHER_MACHINE: Final = math.log(1.1)
CHANGED_RATIO: Final = 0.005  # of the tests: new ones
HISTORY_FROM: Final = 4
FILLED_COUNT: Final = 16  # shards of a limit's worth, for the table of fills
FLOORS: Final = 2.0  # that limit, in longest tests: under one no fill keeps it
Z95: Final = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan of one trial: for each shard what is expected, how sure that is, and what came."""

    count: int
    walls_s: tuple[float, ...]
    spreads: tuple[WallTimeSpread, ...]
    taken_s: tuple[float, ...]

    def limit_s(self, risk: float) -> float:
        """Where the model states this risk."""
        return limit_for_risk(risk, self.walls_s, self.spreads)


@dataclass(frozen=True, slots=True)
class Case:
    """A trial with its estimates, by test in the order of their ids."""

    trial: Trial
    estimates: Estimates
    taken_s: tuple[float, ...]

    def planned(self, count: int) -> Planned:
        walls_s, found = self.estimates.wall_s.tolist(), self.estimates
        shards = packed(walls_s, count)
        variances_s2 = found.variance_s2.tolist()
        return Planned(
            count,
            tuple(_sum(walls_s, shard) for shard in shards),
            tuple(WallTimeSpread(_sum(variances_s2, one), 1, found.speed_spread) for one in shards),
            tuple(_sum(self.taken_s, shard) for shard in shards),
        )

    @property
    def speed(self) -> float:
        """Logarithm of what the median test took of what was expected."""
        expected_s, taken_s = self.estimates.wall_s, np.array(self.taken_s)
        steady = (expected_s >= STEADY_S) & (taken_s >= STEADY_S)
        return float(np.median(np.log(taken_s[steady] / expected_s[steady])))


def _sum(values: Sequence[float], positions: Iterable[int]) -> float:
    return math.fsum(values[position] for position in positions)


def case_of(trial: Trial) -> Case:
    return Case(trial, estimated(trial), tuple(trial.later[unit] for unit in sorted(trial.later)))


def unchanged(trial: Trial) -> Trial:
    """Only the tests that the last known run and the later one have."""
    both = trial.known[-1].keys() & trial.later.keys()
    known = tuple({unit: s for unit, s in run.items() if unit in both} for run in trial.known)
    later = {unit: wall_s for unit, wall_s in trial.later.items() if unit in both}
    return replace(trial, known=known, later=later)


def groups(trials: Sequence[Trial]) -> dict[str, list[Case]]:
    """The same tests on like machines, on other ones, and changed tests."""
    found: dict[str, list[Case]] = {"the same tests": [], "other machines": [], "changed tests": []}
    for trial in trials:
        case = case_of(unchanged(trial))
        other = abs(case.speed) > OTHER_MACHINE
        found["other machines" if other else "the same tests"].append(case)
        new = sum(unit not in trial.known[-1] for unit in trial.later)
        if not other and new >= CHANGED_RATIO * len(trial.later):
            found["changed tests"].append(case_of(trial))
    return found


def wilson(share: float, number: int) -> tuple[float, float]:
    """95 % interval of a share."""
    square = Z95 * Z95 / number
    middle = (share + square / 2) / (1 + square)
    half = Z95 * math.sqrt(share * (1 - share) / number + square / number / 4) / (1 + square)
    return middle - half, middle + half


def show_reliability(title: str, cases: Sequence[Case], counts: Sequence[int]) -> None:
    """A row for each stated risk."""
    print(f"\n## {title}: {len(cases)} later runs\n")
    print("| stated | observed | 95 % | limit / longest shard |\n|---|---|---|---|")
    plans = [
        [case.planned(count) for count in case.trial.counts if count in counts] for case in cases
    ]
    for risk in STATED:
        shares = [
            fmean(max(plan.taken_s) > plan.limit_s(risk) for plan in some) for some in plans if some
        ]
        rooms = [plan.limit_s(risk) / max(plan.walls_s) for some in plans for plan in some]
        low, high = wilson(fmean(shares), len(shares))
        print(
            f"| {risk:.2f} | {fmean(shares):.3f} | {low:.3f}..{high:.3f} | {median(rooms):.2f} |",
            flush=True,
        )


def least_count(
    case: Case, limit_s: float, *, fill: float = 1.0, risk: float = 0.0
) -> Planned | None:
    """The fewest shards that are expected to fill no more of the limit, or to risk no more.

    Steps of 5 %. None where 256 do not do it: mostly, one test alone would break it.
    """
    count = max(1, math.ceil(sum(case.estimates.wall_s) / limit_s))
    while count <= MAX_SHARDS:
        plan = case.planned(count)
        if (plan.limit_s(risk) if risk else max(plan.walls_s) / fill) <= limit_s:
            return plan
        count += max(1, count // 20)
    return None


def show_fills(cases: Sequence[Case]) -> None:
    """What a fixed fill risks and costs, and what a stated risk does."""
    print("\n## Fills: the same tests\n")
    print("| rule | runs over the limit | 95 % | shards / shards of 100 % | cannot be kept |")
    print("|---|---|---|---|---|")
    limits_s = [
        max(sum(case.estimates.wall_s) / FILLED_COUNT, FLOORS * max(case.estimates.wall_s))
        for case in cases
    ]
    rules: Mapping[str, Mapping[str, float]] = {
        **{f"fill {fill:.0%}": {"fill": fill} for fill in FILLS},
        **{f"risk {risk:g}": {"risk": risk} for risk in reversed(STATED)},
    }
    full: list[int] = []
    for rule, option in rules.items():
        found = [least_count(one, s, **option) for one, s in zip(cases, limits_s, strict=True)]
        plans = [(number, plan) for number, plan in enumerate(found) if plan is not None]
        full = full or [plan.count for _, plan in plans]  # the first rule can always be kept
        lost = len(found) - len(plans)
        if not plans:
            print(f"| {rule} | | | | {lost} of {len(found)} |")
            continue
        over = fmean(max(plan.taken_s) > limits_s[number] for number, plan in plans)
        low, high = wilson(over, len(plans))
        cost = fmean(plan.count / full[number] for number, plan in plans)
        print(
            f"| {rule} | {over:.3f} | {low:.3f}..{high:.3f} | {cost:.2f} "
            f"| {lost} of {len(found)} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", default=",".join(map(str, COUNTS)))
    requested = parser.parse_args()
    require()
    counts = [int(word) for word in requested.shards.split(",")]
    sources = {
        "one recording": [trial for trial in pairs() if trial.name != "long"],
        "up to 8 recordings": list(following(8, HISTORY_FROM)),
    }
    same: list[Case] = []
    for source, trials in sources.items():
        for group, cases in groups(trials).items():
            show_reliability(f"{source}, {group}", cases, counts)
            same += cases if group == "the same tests" else []
    show_fills(same)


if __name__ == "__main__":
    main()
