"""Suites that never were, to count how often the rule cries wolf, and how often it is asleep.

Times are log-normal with a median of 0.2 s and a sigma of 1.2, peak deltas with 20 MiB and 1.5. The
five tests that a change touches are drawn from those over 0.5 s and 20 MiB: there a quarter more is
above the rule's floors, and a tenth more is not for most.

Per-test noise of 5 % with heavy tails (Student's t, 4 degrees of freedom), hiccups of 0.3 s on
average in 0.3 % of tests, a quarter of the 8 runners 30 % slower, all of them 3 % apart besides,
the probe of each 1 % off; memory noise of 0.4 % with 3 % of the tests bimodal (15 % more in 3 of 10
runs); each run deals its tests to the runners anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from compare.compare_factories import MIB, column_run

from ciguard.compare.compare_runs import compare_run
from ciguard.compare.measure_changes import MeasureVerdict
from ciguard.compare.run_columns import Run
from ciguard.history.file import CODE
from ciguard.model import CaseKey

Floats = np.ndarray[Any, Any]
HEAVY_TAIL: Final = 4  # degrees of freedom of the noise
CHANGED: Final = 5  # tests that a change touches


class Suite:
    """One suite with its true times and sizes, from a seed."""

    def __init__(self, seed: int, tests: int, legs: int = 8) -> None:
        self.random = np.random.default_rng(seed)
        self.legs = legs
        self.wall_s: Floats = self.random.lognormal(np.log(0.2), 1.2, tests)
        self.peaks: Floats = self.random.lognormal(np.log(20), 1.5, tests) * MIB
        self.bimodal = self.random.random(tests) < 0.03
        # Tests whose growth by a quarter is above the floors of the rule.
        large = np.flatnonzero((self.wall_s > 0.5) & (self.peaks > 20 * MIB))
        self.changed = self.random.choice(large, CHANGED, replace=False)

    def run(self, run_id: int, growth: float = 0.0, pace: float = 0.0) -> Run:
        """One run; `growth` is what the change does to both measures, `pace` to all times."""
        random, tests = self.random, len(self.wall_s)
        leg = np.empty(tests, np.int32)
        leg[random.permutation(tests)] = np.arange(tests) % self.legs
        slow = np.where(random.random(self.legs) < 0.25, 1.3, 1.0)
        slow = slow * np.exp(random.normal(0, 0.03, self.legs))
        noise = random.standard_t(HEAVY_TAIL, tests) * 0.05 / np.sqrt(2)
        walls = self.wall_s * np.exp(noise) * slow[leg] * (1 + pace)
        walls += (random.random(tests) < 0.003) * random.exponential(0.3, tests)
        peaks = self.peaks * np.exp(random.normal(0, 0.004, tests))
        peaks *= np.where(self.bimodal & (random.random(tests) < 0.3), 1.15, 1.0)
        walls[self.changed] *= 1 + growth
        peaks[self.changed] *= 1 + growth
        probes = 0.3 * slow * np.exp(random.normal(0, 0.01, self.legs))
        found = column_run(walls, np.rint(peaks), run_id=run_id, leg=leg)
        legs = tuple(
            replace(one, probe_s=probe)
            for one, probe in zip(found.legs, probes.tolist(), strict=True)
        )
        return replace(found, legs=legs)


@dataclass
class Score:
    """Over many pull requests: confirmed ones that are false, and changed tests that were found."""

    pulls: int = 0
    false_durations: int = 0
    false_memory: int = 0
    found_durations: int = 0
    found_memory: int = 0
    suspect_durations: int = 0
    suspect_memory: int = 0
    named_durations: int = 0  # unconfirmed ones that are false, and large enough for a name
    doubled: int = 0  # pull requests in which a sum is said to have doubled
    slower: int = 0  # pull requests of which the whole suite is called so
    maybe_slower: int = 0

    @property
    def changed(self) -> int:
        return self.pulls * CHANGED


def score(
    pulls: int, tests: int, runs: int, growth: float, *, seed: int = 0, pace: float = 0.0
) -> Score:
    """Judge pull requests of two runs each over `runs` baseline runs."""
    total = Score()
    for number in range(pulls):
        suite = Suite(seed + number, tests)
        bases = [suite.run(n + 1) for n in range(runs)]
        previous = suite.run(100, growth, pace)
        found = compare_run(suite.run(101, growth, pace), None, bases, previous=previous)
        keys = {bases[0].keys[at] for at in suite.changed} if growth else set()
        total.pulls += 1
        total.suspect_durations += found.durations.suspects
        total.suspect_memory += found.memory.suspects
        total.named_durations += sum(one.key not in keys for one in found.durations.unconfirmed)
        total.doubled += found.is_doubled
        total.slower += found.suite_speed.verdict == "slower"
        total.maybe_slower += found.suite_speed.verdict == "maybe slower"
        wolf, hit = _count(found.durations, keys)
        total.false_durations, total.found_durations = (
            total.false_durations + wolf,
            total.found_durations + hit,
        )
        wolf, hit = _count(found.memory, keys)
        total.false_memory, total.found_memory = (
            total.false_memory + wolf,
            total.found_memory + hit,
        )
    return total


def _count(verdict: MeasureVerdict, keys: set[CaseKey]) -> tuple[int, int]:
    confirmed = {change.key for change in verdict.of_tier("confirmed")}
    return len(confirmed - keys), len(confirmed & keys)


def score_few(pulls: int, tests: int, runs: int, growth: float, *, legs: int = 1) -> Score:
    """Judge pull requests over a suite of a few long tests, one of which a change touches.

    A median of 1 s instead of 0.2; all else is as in the large suites. The one that changes has a
    third of the others above it.
    """
    total = Score()
    for seed in range(pulls):
        random = np.random.default_rng(seed)
        usual = random.lognormal(0.0, 1.2, tests)
        changed = int(np.argsort(-usual)[tests // 3])

        def run(
            run_id: int,
            growth: float,
            random: np.random.Generator = random,
            usual: Floats = usual,
            changed: int = changed,
        ) -> Run:
            leg = np.empty(tests, np.int32)
            leg[random.permutation(tests)] = np.arange(tests) % legs
            slow = np.where(random.random(legs) < 0.25, 1.3, 1.0)
            slow = slow * np.exp(random.normal(0, 0.03, legs))
            noise = random.standard_t(HEAVY_TAIL, tests) * 0.05 / np.sqrt(2)
            walls = usual * np.exp(noise) * slow[leg]
            walls += (random.random(tests) < 0.003) * random.exponential(0.3, tests)
            walls[changed] *= 1 + growth
            return column_run(walls, run_id=run_id, leg=leg)

        bases = [run(n + 1, 0.0) for n in range(runs)]
        previous = run(100, growth)
        found = compare_run(run(101, growth), None, bases, previous=previous)
        wolf, hit = _count(found.durations, {bases[0].keys[changed]} if growth else set())
        total.pulls += 1
        total.false_durations += wolf
        total.found_durations += hit
        total.suspect_durations += found.durations.suspects
    return total


class CachingSuite:
    """Tests in random order in two processes, each of which fills the caches that its tests use.

    The first test of a process pays 30 MiB and 1.5 s; the first one that uses a cache of 60, 25 or
    8 MiB pays it, to within a tenth, and 3, 1.2 or 0.4 s. Three, ten or 60 % of the tests use a
    cache. Test 0 needs 100 MiB.
    """

    CACHES: Final = ((60, 0.03), (25, 0.1), (8, 0.6))

    def __init__(self, seed: int, tests: int = 400) -> None:
        self.random = np.random.default_rng(seed)
        self.own: Floats = self.random.lognormal(0.0, 1.0, tests) * MIB
        self.own[0] = 100 * MIB
        self.users = [self.random.random(tests) < share for _, share in self.CACHES]

    def run(
        self, run_id: int, more: Mapping[int, float] = MappingProxyType({}), crash: int = 0
    ) -> Run:
        """One run; `more` is what a change adds to a test, in MiB; a process dies after `crash`."""
        random, tests = self.random, len(self.own)
        peaks = self.own * np.exp(random.normal(0, 0.004, tests))
        order = random.permutation(tests)
        walls, retained = np.full(tests, 0.02), np.zeros(tests)
        leg, process = np.zeros(tests, np.int32), np.ones(tests, np.int32)
        standing = np.full(tests, CODE["standing"]["later"], np.uint8)
        died, half = np.zeros(tests, np.bool_), tests // 2
        leg[order[half:]] = 1
        for part in (order[:half], order[half:]):
            for number, members in enumerate(filter(len, (part[:crash], part[crash:])), 1):
                process[members] = number
                word = "first" if number == 1 else "restarted"
                standing[members[0]] = CODE["standing"][word]
                peaks[members[0]] += 30 * MIB
                walls[members[0]] += 1.5
                for (size, _), users in zip(self.CACHES, self.users, strict=True):
                    payers = members[users[members]]
                    cost = size * MIB * random.uniform(0.9, 1.1)
                    peaks[payers[:1]] += cost
                    retained[payers[:1]] += cost * random.uniform(0.85, 1.0)
                    walls[payers[:1]] += size / 20
            if crash:
                died[part[crash - 1]] = True
            crash = 0  # of the second leg
        for test, mib in more.items():
            peaks[test] += mib * MIB
        found = column_run(walls, np.rint(peaks), run_id=run_id, leg=leg)
        found.outcome[died] = CODE["outcome"]["died"]
        return replace(found, process=process, standing=standing, retained_bytes=retained)
