"""How good the plans are: makespan judged on a later recording / that recording's lower bound.

    .venv/bin/python benchmarks/plan_quality.py [--shards 4,8,...] [--planned 60000] [--rounds 2000]

Geometric means (p90 behind) on real recordings, ours beside what other splitters make of the same:
pytest-split's own code, PyTorch's rule, round robin, equal count. Nothing keeps tests together, so
that the same question is asked of all; ties go by id. A shard count is left out for a suite with
fewer than four tests a shard. Which shard gets a surprise is luck, and a plan changes with the
last digit of any time: so each is made for several draws, with all known times moved by +-0.5 %
at random, and the logarithms are averaged: 6 to 160 draws, until so many tests are planned. The
interval is of the paired log ratio, ours - the best other, that is the one with the least
geometric mean in the row: bootstrap, 95 %, suites drawn with all that they have. Needs
`../shared/data` and the package pytest-split.
"""

from __future__ import annotations

import argparse
import heapq
import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from pytest_split.algorithms import Algorithms
from recordings import (
    COUNTS,
    Trial,
    estimated,
    following,
    histories,
    makespan_s,
    packed,
    pairs,
    require,
)

from ciguard.plan.packing import Costs, Preassigned, form_groups, pack_balanced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from recordings import Durations

    # Tests by shard, for so many shards; what depends on the trial alone is done once.
    Split = Callable[[int], Sequence[Sequence[str]]]
    Method = Callable[[Trial], Split]

SEED: Final = 7
DRAWS: Final = (6, 160)
MOVED_RATIO: Final = 0.005  # less than any two runs differ by
HISTORY_FROM: Final = 4  # recordings before a run, so that several are known
CUT_RATIO: Final = 0.5  # of the lost shard's time: when it was cancelled


class Item(NamedTuple):
    """What pytest-split looks at of a test."""

    nodeid: str

    def __str__(self) -> str:
        return self.nodeid


@dataclass(frozen=True, slots=True)
class Realised:
    """What one method made of one trial."""

    suite: str
    trial: str
    count: int
    method: str
    ratio: float


def drawn(trial: Trial, draw: int) -> Trial:
    """The same trial with other last digits; the first draw is the trial itself."""
    if not draw:
        return trial
    random = np.random.default_rng([SEED, draw])
    known = tuple(
        dict(zip(run, (values * random.normal(1, MOVED_RATIO, len(run))).tolist(), strict=True))
        for run in trial.known
        for values in [np.fromiter(run.values(), np.float64, len(run))]
    )
    return replace(trial, known=known)


def newest(trial: Trial) -> dict[str, float]:
    """Each test's last value, which is what a file of durations holds."""
    return {unit: wall_s for run in trial.known for unit, wall_s in run.items()}


def longest_first_of(walls_s: Mapping[str, float]) -> Split:
    """Our packing of some estimates."""
    ids = sorted(walls_s)
    values_s = [walls_s[unit] for unit in ids]
    return lambda count: [[ids[place] for place in shard] for shard in packed(values_s, count)]


def ours(trial: Trial) -> Split:
    walls_s = estimated(trial).wall_s.tolist()
    return longest_first_of(dict(zip(sorted(trial.later), walls_s, strict=True)))


def pytest_split(name: str) -> Method:
    algorithm: Any = Algorithms[name].value

    def method(trial: Trial) -> Split:
        items, known = [Item(unit) for unit in trial.later], newest(trial)
        return lambda count: [
            [item.nodeid for item in group.selected] for group in algorithm(count, items, known)
        ]

    return method


def pytorch(trial: Trial) -> Split:
    """Known tests longest first, the others in turn, beginning with the least loaded shard."""
    known = newest(trial)
    ordered = sorted(trial.later, key=lambda unit: (-known.get(unit, 0.0), unit))

    def split(count: int) -> Sequence[Sequence[str]]:
        heap = [(0.0, shard) for shard in range(count)]
        shards: list[list[str]] = [[] for _ in range(count)]
        for unit in (unit for unit in ordered if unit in known):
            load_s, shard = heap[0]
            shards[shard].append(unit)
            heapq.heapreplace(heap, (load_s + known[unit], shard))
        first = heap[0][1]
        for number, unit in enumerate(unit for unit in ordered if unit not in known):
            shards[(first + number) % count].append(unit)
        return shards

    return split


def with_missing(missing_s: float | None) -> Method:
    """Longest first; a test without a value takes so long, or the mean of the others."""

    def method(trial: Trial) -> Split:
        known = newest(trial)
        there = [known[unit] for unit in trial.later if unit in known]
        mean_s = math.fsum(there) / len(there) if there else 1.0
        other_s = mean_s if missing_s is None else missing_s
        return longest_first_of({unit: known.get(unit, other_s) for unit in trial.later})

    return method


def round_robin(trial: Trial) -> Split:
    ids = list(trial.later)
    return lambda count: [ids[shard::count] for shard in range(count)]


def equal_count(trial: Trial) -> Split:
    ids = list(trial.later)

    def split(count: int) -> Sequence[Sequence[str]]:
        edges = [len(ids) * shard // count for shard in range(count + 1)]
        return [ids[begin:end] for begin, end in pairwise(edges)]

    return split


OURS: Final = "ciguard"
METHODS: Final[Mapping[str, Method]] = {
    OURS: ours,
    "least_duration": pytest_split("least_duration"),
    "PyTorch": pytorch,
    "round robin": round_robin,
    "chunks": pytest_split("duration_based_chunks"),
    "equal count": equal_count,
}
CENSORED: Final[Mapping[str, Method]] = {
    OURS: ours,
    "mean": with_missing(None),
    "1 s": with_missing(1.0),
}


def replay(
    trials: Iterable[Trial], methods: Mapping[str, Method], counts: Sequence[int], planned: int
) -> list[Realised]:
    """Every method on every trial: the geometric mean over the draws."""
    found = []
    for trial in trials:
        requested = [count for count in trial.counts if count in counts]
        logs = np.zeros((len(requested), len(methods)))
        draws = min(max(planned // len(trial.later), DRAWS[0]), DRAWS[1])
        for draw in range(draws):
            known = drawn(trial, draw)
            for column, method in enumerate(methods.values()):
                split = method(known)
                for row, count in enumerate(requested):
                    loads_s = [math.fsum(trial.later[unit] for unit in one) for one in split(count)]
                    logs[row, column] += math.log(max(loads_s) / trial.bound_s(count)) / draws
        found += [
            Realised(trial.suite, trial.name, count, name, ratio)
            for count, ratios in zip(requested, np.exp(logs).tolist(), strict=True)
            for name, ratio in zip(methods, ratios, strict=True)
        ]
    return found


def interval(differences: Mapping[str, Sequence[float]], rounds: int) -> tuple[float, float]:
    """95 % of the mean over suites drawn with replacement, each with all its differences."""
    random = np.random.default_rng(SEED)
    sums = np.array([math.fsum(some) for some in differences.values()])
    sizes = np.array([len(some) for some in differences.values()])
    drawn = random.integers(0, len(sums), (rounds, len(sums)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def paired(rows: Sequence[Realised], our: str, other: str) -> dict[str, list[float]]:
    """By suite: log of our ratio - log of the other's, on the same trial and number of shards."""
    logs = {(row.suite, row.trial, row.count, row.method): math.log(row.ratio) for row in rows}
    found: dict[str, list[float]] = {}
    for (suite, trial, count, method), log in logs.items():
        if method == our:
            found.setdefault(suite, []).append(log - logs[suite, trial, count, other])
    return found


def mean_of(rows: Iterable[Realised], method: str) -> tuple[float, float]:
    """Geometric mean and p90."""
    ratios = [row.ratio for row in rows if row.method == method]
    return float(np.exp(np.mean(np.log(ratios)))), float(np.quantile(ratios, 0.9))


def show(title: str, rows: Sequence[Realised], rounds: int) -> None:
    """One row a number of shards, and all of them at the end; the last of our methods is ours."""
    names = list(dict.fromkeys(row.method for row in rows))
    our = [name for name in names if name.startswith(OURS)][-1]
    print(f"\n## {title}\n")
    print(f"| k | trials | {' | '.join(names)} | {our} - best other, % (95 %) |")
    print("|---" * (len(names) + 3) + "|")
    for count in (*sorted({row.count for row in rows}), None):
        some = [row for row in rows if count in (None, row.count)]
        means = {name: mean_of(some, name) for name in names}
        best = min((name for name in names if not name.startswith(OURS)), key=means.__getitem__)
        differences = paired(some, our, best)
        mean = np.mean([value for found in differences.values() for value in found])
        low, high = interval(differences, rounds)
        cells = " | ".join(f"{mean:.3f} ({p90:.2f})" for mean, p90 in means.values())
        number = sum(row.method == our for row in some)
        print(
            f"| {count or 'all'} | {number} | {cells} "
            f"| {100 * mean:+.1f} ({100 * low:+.1f}..{100 * high:+.1f}) |",
            flush=True,
        )


def lost(shards: Sequence[Sequence[str]], run: Durations) -> tuple[Durations, Durations]:
    """The run whose slowest shard was cancelled half way.

    Returns:
        What completed elsewhere, and what the lost shard's record says: what its tests took at
        least. The file of another program has nothing of it.
    """
    loads_s = [math.fsum(run[unit] for unit in shard) for shard in shards]
    removed = sorted(shards[loads_s.index(max(loads_s))])
    least: dict[str, float] = {}
    left_s = CUT_RATIO * max(loads_s)
    for unit in removed:
        if left_s > 0:
            least[unit] = min(run[unit], left_s)
            left_s -= run[unit]
    missing = set(removed)
    return {unit: wall_s for unit, wall_s in run.items() if unit not in missing}, least


def cancelled(counts: Sequence[int], planned: int) -> list[Realised]:
    """Plan a run with the one before it, lose its slowest shard, plan the next with the rest."""
    found = []
    for suite, runs in histories().items():
        for number in range(1, len(runs) - 1):
            earlier, run, later = runs[number - 1 : number + 2]
            before = Trial(suite, f"run {number}", (earlier,), run, least={})
            split = ours(before)
            for count in (count for count in before.counts if count in counts):
                rest, least = lost(split(count), run)
                file = replace(before, known=(rest,), later=later)
                record = replace(file, least=least)
                both = replace(record, known=(earlier, rest))
                found += replay([file], CENSORED, [count], planned)
                found += replay([record], {f"{OURS}, with its record": ours}, [count], planned)
                found += replay([both], {f"{OURS}, and the run before": ours}, [count], planned)
    return found


def newest_runs() -> tuple[Trial, ...]:
    """The newest recording of each suite, known as it is."""
    found = {trial.suite: trial.later for trial in pairs() if trial.name == "t0"}
    return tuple(Trial(suite, "newest", (run,), run, least={}) for suite, run in found.items())


def files_split(counts: Sequence[int]) -> list[Realised]:
    """Files that may be split, and files never split, against test by test.

    Prints as well how many parts the files are in, in the mean.
    """
    found = []
    parts: dict[int, list[float]] = {}
    for trial in newest_runs():
        ids = sorted(trial.later)
        if not any("::" in unit for unit in ids):
            continue  # its units are files themselves
        walls_s = [trial.later[unit] for unit in ids]
        costs = Costs(walls_s)
        files = [unit.partition("::")[0] for unit in ids]
        complete = form_groups(costs, files.__getitem__)
        never = [replace(group, indivisible=True) for group in complete]
        for count in (count for count in trial.counts if count in counts):
            alone_s = makespan_s(packed(walls_s, count), walls_s)
            for name, groups in ((OURS, complete), ("never split", never)):
                made = pack_balanced(groups, [Preassigned()] * count, costs)
                ratio = makespan_s(made.shards, walls_s) / alone_s
                found.append(Realised(trial.suite, trial.name, count, name, ratio))
                if name == OURS:
                    held = sum(len({files[unit] for unit in shard}) for shard in made.shards)
                    parts.setdefault(count, []).append(held / len(complete))
    output = ", ".join(f"{np.mean(some):.3f} at {count}" for count, some in sorted(parts.items()))
    print(
        f"\nParts a file: {output}; {np.mean([one for some in parts.values() for one in some]):.3f}"
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", default=",".join(map(str, COUNTS)))
    parser.add_argument("--planned", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=2000)
    requested = parser.parse_args()
    require()
    counts = [int(word) for word in requested.shards.split(",")]
    some = list(pairs())
    for title, trials in {
        "One recording, the next run": [trial for trial in some if trial.name != "long"],
        "One recording, a run >= 90 days later": [trial for trial in some if trial.name == "long"],
        **{
            f"Up to {depth} recordings, the next run": list(following(depth, HISTORY_FROM))
            for depth in (1, 3, 8)
        },
    }.items():
        show(title, replay(trials, METHODS, counts, requested.planned), requested.rounds)
    show("Files kept together / test by test", files_split(counts), requested.rounds)
    show(
        "After the slowest shard was cancelled",
        cancelled(counts, requested.planned // 8),
        requested.rounds,
    )


if __name__ == "__main__":
    main()
