"""Memory that grows from test to test."""

from __future__ import annotations

from typing import Any

import pytest
from compare.compare_factories import MIB, case, run_of

from ciguard.compare.compare_runs import compare_run
from ciguard.compare.run_columns import Run
from ciguard.compare.wording import headline, leak_text


def growing(stored: float, run_id: int, tests: int = 60, first: float = 0.0, **more: Any) -> Run:
    """A process whose tests keep `kept` MiB each, and the first of them `first` more."""
    results = [
        case(f"t{n:02}", retained_bytes=round(MIB * (stored + (first if n == 0 else 0))), **more)
        for n in range(tests)
    ]
    return run_of({"01": results}, run_id=run_id)


def test_retained_memory_growth_is_a_suspected_leak() -> None:
    bases = [growing(0.01, n) for n in range(1, 13)]
    found = compare_run(growing(2.0, 20), None, bases)
    (leak,) = found.leaks
    assert (leak.tier, leak.process, leak.tests, leak.n) == ("suspect", 1, 60, 12)
    assert leak_text(leak).startswith(
        "possible leak: 108 MiB kept by 60 tests in process 1 of shard 01"
    )
    assert found.state == "suspect"
    assert leak_text(leak) in headline(found)
    twice = compare_run(growing(2.0, 20), None, bases, previous=growing(2.1, 19))
    assert [one.tier for one in twice.leaks] == ["confirmed"]
    assert twice.state == "worse"
    once = compare_run(growing(2.0, 20), None, bases, previous=growing(0.01, 19))
    assert [one.tier for one in once.leaks] == ["suspect"]


def test_growth_already_in_the_baseline_confirms_no_leak() -> None:
    bases = [growing(2.0, n) for n in range(1, 13)]
    (leak,) = compare_run(growing(4.0, 20), None, bases, previous=growing(2.0, 19)).leaks
    assert leak.tier == "suspect"
    (leak,) = compare_run(growing(4.0, 20), None, bases, previous=growing(3.9, 19)).leaks
    assert leak.tier == "confirmed"


def test_previous_run_of_other_tests_confirms_no_leak() -> None:
    bases = [growing(0.01, n) for n in range(1, 13)]
    other = run_of({"01": [case(f"o{n:02}", retained_bytes=2 * MIB) for n in range(60)]}, run_id=19)
    (leak,) = compare_run(growing(2.0, 20), None, bases, previous=other).leaks
    assert leak.tier == "suspect"


NO_LEAK = [
    growing(0.01, 20),
    growing(0.0, 20, first=500.0),  # a large module, loaded once
    growing(2.0, 20, tests=19),
    growing(2.0, 20, concurrent=2),  # nobody knows whose it is
]


@pytest.mark.parametrize("head", NO_LEAK)
def test_growth_that_is_no_leak(head: Run) -> None:
    assert not compare_run(head, None, [growing(0.01, n) for n in range(1, 13)]).leaks


def test_old_leak_is_not_reported_and_no_baseline_gives_no_verdict() -> None:
    assert not compare_run(growing(2.0, 20), None, [growing(1.9, n) for n in range(1, 13)]).leaks
    (leak,) = compare_run(growing(2.0, 20), None, [growing(0.01, 1)]).leaks
    assert leak.tier == "unjudged"
    (leak,) = compare_run(growing(2.0, 20)).leaks
    assert leak_text(leak).endswith("(unknown before)")
