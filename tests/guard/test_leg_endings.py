"""What a record and its job say together, beyond the rows of `cases`."""

from __future__ import annotations

from typing import TypeVar

import pytest
from guard.damages import dies_in_its_last_test, record_removed, short_of_memory
from guard.fake_jobs import (
    BY_HAND,
    DISK,
    EXIT_137,
    FAILED,
    KERNEL,
    KILLED,
    LOST,
    NEW_LIMIT,
    OLD_LIMIT,
    SET_UP,
    SHUTDOWN,
    STEPS,
    SUPERSEDED,
    FakeRunApi,
    death,
    failed,
    job,
    leg,
    verdict_of,
)
from guard.fixtures import World, make_plan, text_of
from hypothesis import given
from hypothesis import strategies as st

from ciguard.errors import ExitCode
from ciguard.guard.diagnosis import CONCLUSIONS
from ciguard.guard.github_facts import NeededJob as Needed
from ciguard.guard.wording import finding_fix, finding_message
from ciguard.model import Result
from ciguard.render.plaintext import COLUMNS

T = TypeVar("T")


def test_text_of_a_dead_leg() -> None:
    world = World(plan=make_plan(job_minutes=15))
    short_of_memory(world)
    reported = FakeRunApi((failed(),), {"03": [EXIT_137]})
    assert text_of(verdict_of(world, reported)).startswith(
        """\
INCOMPLETE: shard 03 of 3 did not end by itself (out of memory); 1 of 8 tests
has no result

- shard 03: its record is truncated; last line 2.50 s after its start: out of
  memory. Plan with fewer processes, or give its pool more memory.
  - annotation: Process completed with exit code 137.
  - memory: free memory fell from 9.00 GiB at 1.00 s to 128 MiB of 16.0 GiB at
    2.50 s, the last sample
  - job: tests (03): failure after 5 min 00 s, its limit is 15 min 00 s
  - the test that was running: d.t::eight
  - 1 test, started, but did not finish: d.t::eight
"""
    )


@pytest.mark.parametrize("conclusion", sorted(CONCLUSIONS - {"success"} | {"evaporated", ""}))
def test_complete_record_does_not_hide_its_job_conclusion(conclusion: str) -> None:
    world = World(needs=(Needed("legs", "success"),))
    verdict = verdict_of(world, FakeRunApi((job("03", conclusion),)))
    assert verdict.exit_code == ExitCode.INCOMPLETE
    assert f"{conclusion!r}" in finding_message(death(verdict))
    known = conclusion in CONCLUSIONS
    assert death(verdict).kind == ("job_contradicts" if known else "conclusion_unknown")
    assert known or finding_fix(death(verdict)) == "update ciguard"


def test_ending_in_the_record_takes_precedence() -> None:
    world = World()
    world.end("03", ending="deadline", exit_code=13)
    verdict = verdict_of(world, FakeRunApi((failed(),), {"03": [SHUTDOWN]}))
    assert leg(verdict).ending == "deadline"


def test_cancelled_leg_gets_its_reason_from_github() -> None:
    for output, ending in ((SUPERSEDED, "superseded"), (NEW_LIMIT, "timeout"), ("", "cancelled")):
        world = World()
        world.drop("03", Result, unit="d.t::eight")
        world.end("03", ending="cancelled", exit_code=143)
        verdict = verdict_of(world, FakeRunApi((failed(),), {"03": [output]}))
        assert leg(verdict).ending == ending
        assert verdict.exit_code == ExitCode.INCOMPLETE


def test_printed_text_never_improves_a_verdict() -> None:
    world = World()
    world.result("03", "d.t::six", outcome="failed")
    texts = [SUPERSEDED, NEW_LIMIT, BY_HAND, LOST, SHUTDOWN]
    verdict = verdict_of(world, FakeRunApi((failed(),), {"03": texts}, {"03": "\n".join(texts)}))
    assert verdict.exit_code == ExitCode.TESTS_FAILED
    assert leg(verdict).ending == "completed"


TEXTS = (NEW_LIMIT, OLD_LIMIT, SUPERSEDED, BY_HAND, LOST, SHUTDOWN, EXIT_137, KERNEL, DISK, "x")


@given(st.data())
def test_github_facts_never_improve_a_verdict(data: st.DataObject) -> None:
    def draw(*values: T) -> T:
        return data.draw(st.sampled_from(values))

    world = World(plan=make_plan(job_minutes=5))
    for damage in draw((dies_in_its_last_test,), (record_removed,), (short_of_memory,), ()):
        damage(world)
    conclusion = draw(*sorted(CONCLUSIONS), "evaporated", None)
    status = draw("completed", "completed", "in_progress", "queued", "dreaming")
    steps = draw((), STEPS, KILLED, FAILED, SET_UP)
    output = data.draw(st.lists(st.sampled_from(TEXTS), max_size=3))
    log, attempt = draw(None, *TEXTS), draw(1, 2)
    alone = world.prove()
    one = job("03", conclusion, status=status, steps=steps, attempt=attempt)
    reported = FakeRunApi((one,), {"03": output}, {} if log is None else {"03": log})
    verdict = verdict_of(world, reported, attempt=attempt)
    assert (verdict.exit_code, verdict.with_result) >= (alone.exit_code, 0)
    assert verdict.with_result <= alone.with_result
    if leg(alone).ending != "completed":
        assert verdict.exit_code == ExitCode.INCOMPLETE
        assert finding_fix(death(verdict))
        assert len(reported.calls) <= 2 + 2
    if verdict.exit_code == ExitCode.OK:
        assert (status, conclusion) == ("completed", "success") or status == "in_progress"
        assert attempt == 1
    assert max(map(len, text_of(verdict).splitlines())) <= COLUMNS


def test_long_evidence_line_is_truncated() -> None:
    world = World()
    dies_in_its_last_test(world)
    reported = FakeRunApi((failed(),), {"03": [f"{SHUTDOWN}{'x' * 60_000}"]})
    assert len(death(verdict_of(world, reported)).evidence[0].facts["text"]) == 500
