"""Whose a failure is: the table of cases, and planted failures over drawn histories."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random

import pytest
import scipy
from compare.compare_factories import case, files_of, run_of

from ciguard.codec.record.reader import read_records
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.run_columns import Run
from ciguard.compare.whose import (
    Past,
    PastRun,
    Tries,
    advice_text,
    bayes_factor,
    decide,
    evidence_text,
    interval_text,
)
from ciguard.history.file import History
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.history.merge import merge

FIRST_BAD = PastRun(4711, "3f2a91c" + "0" * 33, datetime(2026, 11, 20, tzinfo=UTC))
NOW = datetime(2026, 11, 22, tzinfo=UTC)
TWICE = Tries(2, 0, "failed")
THREE = Tries(3, 0, "failed")


def past(results: str) -> Past:
    """Of "fp.": failed, passed, passed when tried again; the newest first."""
    words = {"p": "passed", "f": "failed", ".": "retried"}
    red = FIRST_BAD if results.startswith("f") else None
    return Past(tuple(words[letter] for letter in results), red)  # type: ignore[misc]


TABLE = [
    # tries, past, whose, evidence
    (TWICE, "p" * 14, "this change", "passed in 14 runs of main, failed in 2 of 2 tries here"),
    (Tries(), "p" * 20, "likely this change", "passed in 20 runs of main, failed in its only try"),
    (Tries(2), "p" * 20, "likely this change", "passed in 20 runs of main, failed in 2 of 2"),
    (THREE, "pfpp" + "p" * 16, "this change", "failed in 1 of 20 runs of main"),
    (TWICE, "pfpp" + "p" * 16, "unknown", "failed in 1 of 20 runs of main"),
    (THREE, "pfpppfpppppfpppppfpp", "unknown", "failed in 4 of 20 runs of main, failed in 3 of 3"),
    (Tries(), "pfpppfpppppfpppppfpp", "flaky", "failed in 4 of 20 runs of main (95 % CI 8..42 %)"),
    (Tries(), "p..pp", "flaky", "failed in 2 of 5 runs of main"),
    (
        Tries(1, 2, "passed", is_in_order=True),
        "p" * 20,
        "flaky",
        "failed in 1 of 3 tries here, in none of 20 runs of main",
    ),
    (Tries(1, 1, "passed"), "p" * 20, "unknown", "passes alone; not tried after the tests"),
    (Tries(1, 1, "passed"), "pfppp", "flaky", "failed in 1 of 2 tries here"),
    (Tries(2, 1, "passed"), "p" * 20, "order", "passes alone, fails after the tests before it"),
    (Tries(2, 1, "passed"), "pfppp", "flaky", "failed in 2 of 3 tries here"),
    (
        Tries(4, 1, "passed", after="x.py::t"),
        "p" * 14,
        "order",
        "passes alone, fails after x.py::t",
    ),
    (Tries(4, 1, "passed", after="x.py::t"), "pfppp", "flaky", "failed in 4 of 5 tries here"),
    (TWICE, "fffpp", "main", "red since 3f2a91c (3 runs, 2 d; first bad run 4711)"),
    (TWICE, "fpppp", "main", "red since 3f2a91c (1 run, 2 d; first bad run 4711)"),
    (Tries(), "fpfpp", "flaky", "failed in 2 of 5 runs of main"),
    (TWICE, "", "new test", "in no run of main"),
    (Tries(1, 1), "", "flaky", "failed in 1 of 2 tries here, in no run of main"),
    (Tries(), "pp", "unknown", "passed in only 2 runs of main"),
]


@pytest.mark.parametrize(("tries", "results", "whose", "evidence"), TABLE)
def test_each_case_of_the_table(tries: Tries, results: str, whose: str, evidence: str) -> None:
    found = decide(tries, past(results), base_runs=20)
    assert found.whose == whose
    assert evidence_text(found, "main", NOW).startswith(evidence)
    assert advice_text(found, "main")


@pytest.mark.parametrize(("tries", "advice"), [(Tries(), "re-run once"), (TWICE, "fix: it failed")])
def test_what_failed_in_all_tries_is_not_tried_again(tries: Tries, advice: str) -> None:
    found = decide(tries, past("p"), base_runs=1)
    assert (found.whose, advice_text(found, "main")[: len(advice)]) == ("unknown", advice)


@pytest.mark.parametrize(
    ("message", "whose"),
    [
        ("OSError: [Errno 28] No space left on device", "infrastructure"),
        ("AssertionError: expected No space left on device", "this change"),
        ("assert code == 'ENOSPC'", "this change"),
    ],
)
def test_disk_is_full_only_if_an_error_says_so(message: str, whose: str) -> None:
    assert decide(TWICE, past("p" * 20), base_runs=20, message=message).whose == whose


def test_test_that_the_base_skips_is_not_new() -> None:
    found = decide(TWICE, Past(was_skipped=True), base_runs=20)
    assert found.whose == "unknown"
    assert "skipped in all runs of main" in evidence_text(found, "main")


def test_red_test_of_one_known_run_and_with_its_commits() -> None:
    red = decide(TWICE, Past(("failed",)), base_runs=1)
    assert evidence_text(red, "main") == "red (1 run)"
    counted = replace(decide(TWICE, past("fffpp"), base_runs=20), commits=12)
    expected = "red since 3f2a91c (12 commits, 3 runs, 2 d; first bad run 4711)"
    assert evidence_text(counted, "main", NOW) == expected


def test_bayes_factor_is_the_ratio_of_two_beta_binomial_probabilities() -> None:
    pmf = scipy.stats.betabinom.pmf
    assert bayes_factor(1, 1, 0, 20) == pytest.approx(0.5 / (0.5 / 21))
    expected = pmf(2, 3, 0.5, 0.5) / pmf(2, 3, 4.5, 16.5)
    assert bayes_factor(2, 3, 4, 20) == pytest.approx(expected)
    assert interval_text(4, 20) == "8..42 %"
    assert interval_text(0, 20) == "0..16 %"


CLASSES = ("new", "old", "order", "flake")


@dataclass
class PlantedSuite:
    """Tests of one class each, in 20 recorded runs of main and one of a change where all fail.

    A flake fails in 2 to 40 % of its processes, each by itself; 20 more tests always pass.
    """

    random: Random
    tests: int = 100

    def failures(self) -> tuple[History, Run, dict[str, str]]:
        random = self.random
        classes = {f"t{n:03}": CLASSES[n % len(CLASSES)] for n in range(self.tests)}
        rates = {unit: random.uniform(0.02, 0.4) for unit in classes}
        first_red = {unit: random.randint(1, 20) for unit in classes}

        def fails_on_main(unit: str, day: int) -> bool:
            if classes[unit] == "old":
                return day >= first_red[unit]
            return classes[unit] == "flake" and random.random() < rates[unit]

        history = None
        for day in range(1, 21):
            results = [case(f"v{n}") for n in range(20)]
            results += [
                case(unit, outcome="failed" if fails_on_main(unit, day) else "passed")
                for unit in classes
            ]
            facts = {"run_id": day, "started_at": f"2026-11-{day:02}T10:00:00Z", "event": "push"}
            one = history_of(
                read_records(files_of({"01": results}, **facts).items()), RunMetadata()
            )
            history = one if history is None else merge(history, one)
        assert history is not None
        results = [case(unit, outcome="failed") for unit in classes]
        head = run_of({"01": results}, run_id=99, started_at="2026-11-25T10:00:00Z")

        def fails_here(unit: str, *, alone: bool) -> bool:
            if classes[unit] == "flake":
                return random.random() < rates[unit]
            return classes[unit] != "order" or not alone

        tries = {}
        for key in head.keys:
            # Time allows none, the first or both of the extra tries: alone, and in the old order.
            ended = [fails_here(key.unit, alone=alone) for alone in (True, False)]
            ended = ended[: random.choice((0, 1, 2, 2))]
            failed = 1 + sum(ended)
            tries[key] = Tries(
                failed,
                1 + len(ended) - failed,
                ("failed" if ended[0] else "passed") if ended else None,
                is_in_order=len(ended) > 1,
            )
        return history, replace(head, tries=tries), classes


def test_planted_failures_are_told_apart() -> None:
    """500 failures over five histories that were drawn after the rules were fixed."""
    found: Counter[tuple[str, str]] = Counter()
    for seed in range(2041, 2046):
        history, head, classes = PlantedSuite(Random(seed)).failures()
        for change in compare_run(head, history).transitions:
            if change.answer is not None:
                found[classes[change.key.unit], change.answer.whose] += 1
    print(sorted(found.items()))
    assert found.total() == 500
    called = sum(count for (_, whose), count in found.items() if whose == "this change")
    assert called - found["new", "this change"] <= 0.02 * called
    assert found["new", "flaky"] == found["new", "main"] == 0
    assert found["old", "main"] == 125
    assert found["order", "flaky"] == 0
