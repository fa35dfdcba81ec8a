"""What is asked of GitHub: once, no more than needed, and what it refuses is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from guard.fake_jobs import (
    FAILED,
    KERNEL,
    KILLED,
    NEW_LIMIT,
    SHUTDOWN,
    SUPERSEDED,
    FakeEvaluatedRun,
    FakeRunApi,
    death,
    failed,
    job,
    leg,
    verdict_of,
)
from guard.fixtures import World, make_plan

from ciguard.guard.github_facts import MAX_QUERIED_LEGS, query_jobs
from ciguard.guard.headline import headline
from ciguard.guard.wording import note_text
from ciguard.model.jobs import LOG_TAIL_BYTES, Job
from ciguard.render.notes import Note

REFUSED = "answered 403: Resource not accessible by integration"


def test_annotation_of_one_cancelled_job_applies_to_all() -> None:
    world = World()
    world.legs.clear()
    jobs = tuple(job(shard, "cancelled", steps=KILLED) for shard in ("01", "02", "03"))
    reported = FakeRunApi(jobs, {"02": [SUPERSEDED]})
    verdict = verdict_of(world, reported)
    assert {one.ending for one in verdict.legs} == {"superseded"}
    assert headline(verdict).startswith(
        "INCOMPLETE: shards 01, 02, 03 of 3 have no record (superseded)"
    )
    assert death(verdict, "03").evidence[0] == Note("other_job", {"text": SUPERSEDED})
    # One that failed is not explained by it.
    jobs = (*jobs[:2], failed())
    reported = FakeRunApi(jobs, {"02": [SUPERSEDED]}, {"03": f"##[error]{SHUTDOWN}"})
    assert leg(verdict_of(world, reported)).ending == "runner_shutdown"


@pytest.mark.parametrize("annotations", [(), (NEW_LIMIT,)])
def test_timeouts_and_memory_in_the_log_of_a_dead_job_are_counted(
    annotations: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job without a record, and a program that prints more than the last lines."""
    timed_out = "2026-11-21T10:04:00.1Z Test execution timed out after 300000 milliseconds\n"
    log = 3 * f"{timed_out}{KERNEL}\n" + 20_000 * "printed line\n" + f"##[error]{SHUTDOWN}\n"
    world = World()
    del world.legs["03"]
    reported = FakeRunApi((failed(),), {"03": [*annotations]})
    for cut, where in (("", "its log"), ("x" * LOG_TAIL_BYTES, "the last 8.00 MiB of its log")):
        reported.logs["03"] = cut + "\n" + log
        reported.calls.clear()
        seen = death(verdict_of(world, reported)).evidence
        assert f"timeouts 3, out of memory 3 in {where}" in map(note_text, seen)
        assert all("of memory: Killed" not in note_text(note) for note in seen)
        assert reported.calls == ["jobs", "annotations", "log"]
    monkeypatch.setattr("ciguard.guard.github_facts.COUNTED_CHARS", 0)
    seen = death(verdict_of(world, reported)).evidence
    assert not any(note.kind == "counted" for note in seen)
    assert reported.calls.count("log") == (1 if annotations else 2)


class Only(FakeRunApi):
    """A run with no other jobs."""

    def jobs(self) -> tuple[Job, ...]:
        return self.special


@pytest.mark.parametrize(
    ("names", "output"),
    [
        (("lint", "docs"), 'none of 2 jobs has the name "tests (01)"'),
        ((), 'none of 0 jobs has the name "tests (01)"'),
    ],
)
def test_unmatched_jobs_are_described(names: tuple[str, ...], output: str) -> None:
    jobs = tuple(replace(job("01", name=name), id=at) for at, name in enumerate(names))
    platform = query_jobs(World().plan, (), FakeEvaluatedRun(Only(jobs), 1))
    assert platform is not None
    assert platform.unknown is not None
    assert note_text(platform.unknown) == output


@pytest.mark.parametrize("faulty", ["annotations", "log"])
def test_refused_request_is_reported_and_sent_once(faulty: str) -> None:
    world = World()
    world.legs.clear()
    jobs = tuple(job(shard, "failure", steps=FAILED) for shard in ("01", "02", "03"))
    reported = FakeRunApi(jobs, fault=REFUSED, faulty=(faulty,))
    verdict = verdict_of(world, reported)
    assert {one.ending for one in verdict.legs} == {"unknown"}
    assert reported.calls.count(faulty) == 1
    for shard in ("01", "02", "03"):
        assert any(
            one.kind == "not_fetched" and "403" in note_text(one)
            for one in death(verdict, shard).evidence
        )


def test_report_makes_two_calls_per_dead_leg_for_at_most_sixty_legs() -> None:
    shards = {f"{number:03}": (f"u{number}", f"v{number}") for number in range(100)}
    world = World(plan=make_plan(dict[str, tuple[str, ...]](shards)))
    world.legs.clear()
    jobs = tuple(
        replace(job("00", "failure", steps=FAILED, name=f"tests ({key})"), id=int(key))
        for key in shards
    )
    reported = FakeRunApi(jobs)
    verdict = verdict_of(world, reported)
    assert reported.calls.count("annotations") == reported.calls.count("log") == MAX_QUERIED_LEGS
    assert death(verdict, "099").evidence[-1].kind == "not_queried"
