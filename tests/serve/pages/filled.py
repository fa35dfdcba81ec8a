"""A service with something on every page: four repositories, runs of every verdict, dead work."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from stored_results import Results, row

from ciguard.culprit.answer import Answer, Candidate, TestAnswer
from ciguard.model import CaseKey
from ciguard.render.pages import RunRow, RunSuiteRow, RunVerdict
from ciguard.report.runner_sizing import RunnerUse, RunUse, SmallerRunner
from ciguard.serve import stored_answers
from ciguard.serve.results.rows import ResultRow, RunResults
from ciguard.serve.service import Service
from ciguard.serve.state import pauses, repositories, run_rows, schema, work_list
from ciguard.serve.state.pauses import Refusal
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey, is_run
from ciguard.serve.state.work_list import NewWork
from ciguard.serve.stored_answers import StoredAnswer
from ciguard.serve.work.run_summary import culprit_facts
from ciguard.text import case_name

REFUSAL: Final = Refusal("answered 403: Resource not accessible", is_of_repository=True)
SHOP: Final = Repository(11, "octo-org/shop", is_private=False, default_branch="main")
VAULT: Final = Repository(12, "octo-org/vault", is_private=True, default_branch="trunk")
RED: Final = Repository(14, "octo-org/api", is_private=False, default_branch="main")
EMPTY: Final = Repository(13, "octo-org/empty", is_private=False)
HOSTILE: Final = "</td><script>alert(1)</script><img src=x onerror=alert(1)>"
SAMPLES: Final = Path(__file__).parents[2] / "samples"
MIB: Final = 1 << 20
MINUTE_MS: Final = 60_000
NEWEST: Final = 19_500_000_000
VERDICTS: Final[Sequence[RunVerdict]] = ("passed", "failed", "incomplete", "not_evaluated")
HEADLINES: Final = {
    "passed": "PASSED: 1,284 tests in 8 shards, all with a result",
    "failed": "FAILED: 2 of 1,284 tests failed",
    "incomplete": "INCOMPLETE: shard 03 of 3 has no record; 161 of 1,284 tests have no result",
    "not_evaluated": "INCOMPLETE: the plan of this run could not be read",
}


def found_culprits() -> Answer:
    """Of 21 tests: one changed at one of three commits, one at none, the others at one commit."""
    known = (Candidate("c" * 40, 0.99, f"break {HOSTILE}"),)
    possible = tuple(Candidate(sha * 40, 0.32) for sha in "def")
    answers = [
        TestAnswer("unit", "", f"a.t::{number}", "failure", "culprit", known, 0.01, ())
        for number in range(21)
    ]
    answers[1] = replace(answers[1], verdict="one of", candidates=possible, unchanged=0.04)
    answers[2] = replace(answers[2], verdict="unchanged", candidates=(), unchanged=0.96)
    unlikely = replace(known[0], probability=0.975)
    answers[3] = replace(answers[3], unit=HOSTILE, candidates=(unlikely,))
    return Answer("a" * 40, "b" * 40, 4, 0.95, tuple(answers), 60, 90.0)


# Of a default branch that is red since its fourth commit.
FACTS: Final[dict[str, Any]] = {
    "red_since": {"run_id": 7, "sha": "b" * 40, "green_sha": "a" * 40, "commits": 4},
    "failed": 5,
    "owners_of": {"[unit/py311] a.py::sometimes": [HOSTILE], "[unit/py311] a.py::flaky": []},
    "tests": ["[unit] a.py::one", HOSTILE, "a.py::two"],
    "owners": ["@octo-org/api", "@octocat", HOSTILE, "@d"],
    "shards": [],
    "jobs": {"01": "https://github.com/octo-org/api/actions/runs/1/job/2"},
    "pools": {"default": 15},
}
SEARCHED: Final = {**FACTS, "culprits": culprit_facts(found_culprits())}


@dataclass(frozen=True, slots=True)
class Site:
    """What an application is made of."""

    service: Service
    results: Results


def make_run(repository: Repository, number: int, now_ms: int, answer: str = "") -> RunRow:
    """A run of one of four verdicts, 77 minutes before the one of the number before."""
    verdict = VERDICTS[(0, 1, 0, 2, 0, 0, 3)[number % 7]]
    is_base = number % 3 != 1
    completed_at_ms = now_ms - (3 + 77 * number) * MINUTE_MS
    return RunRow(
        key=key_of(repository, number),
        workflow="tests.yml",
        event="push" if is_base else "pull_request",
        branch=repository.default_branch if is_base else f"feature/{HOSTILE}"[: 40 + number],
        head_sha=f"{number // 2 * 7919 + 3:040x}"[::-1],
        pull_request=None if is_base else 400 + number,
        is_base_branch=is_base,
        started_at_ms=completed_at_ms - 9 * MINUTE_MS,
        completed_at_ms=completed_at_ms,
        verdict=verdict,
        comparison="" if is_base else "worse" if verdict == "failed" else "same",
        headline=HEADLINES[verdict],
        exit_code=0,
        planned=1284,
        missing=161 if verdict == "incomplete" else 0,
        makespan_s=None if verdict == "not_evaluated" else 412.5 + 7 * number % 60,
        bound_s=None if verdict == "not_evaluated" else 398.0,
        price_usd=None if verdict == "not_evaluated" else 0.43,
        answer=answer,
        facts=FACTS if is_base and verdict == "incomplete" else None,
    )


def key_of(repository: Repository, number: int) -> RunKey:
    """The key of a run; 0 is the newest."""
    return RunKey(repository.id, NEWEST - number, 1 + number % 5 // 4)


def make_suites(run: RunRow, number: int) -> tuple[RunSuiteRow, ...]:
    """Of two suites, one with three variants."""
    if run.verdict == "not_evaluated":
        return ()
    failed = 2 if run.verdict == "failed" else 0
    places = [("unit", "linux"), ("unit", "macos"), ("unit", "windows"), ("e2e", "chromium")]
    return tuple(
        RunSuiteRow(
            suite,
            variant,
            planned=321,
            missing=run.missing if at == 1 else 0,
            counts={"passed": 319, "failed": failed if at == 0 else 0, "skipped": 2},
            wall_s=180.0 + 53 * at + number,
            peak_bytes=(700 + 260 * at + 10 * number) * MIB if variant != "windows" else None,
            budget_bytes=1700 * MIB if variant != "windows" else None,
        )
        for at, (suite, variant) in enumerate(places)
    )


def make_answer(run: RunRow) -> StoredAnswer:
    """What the guard's and the comparison's own tests have as JSON, with a death and its cause."""
    verdict = json.loads((SAMPLES / "guard/hurt.json").read_text("utf-8"))
    comparison = json.loads((SAMPLES / "compare/hurt.json").read_text("utf-8"))
    if run.key.run_id % 2:  # stored by an older version
        verdict["schema"] = 1
        for failure in verdict["failures"]:
            del failure["answer"]
    for failure, owners in zip(verdict["failures"], (["@octo-org/api"], []), strict=False):
        failure["owners"] = owners
    words = {"result": "failed", "whose": "main", "evidence": "red since bbbbbbb (4 commits)"}
    words |= {"do": f"fix it on {HOSTILE}", "url": "https://github.com/octo-org/api/blob/1/a.py#L3"}
    explanation = {
        "tests": [
            {"test": {"untrusted": case_name(CaseKey(*key))}, "location": {"untrusted": HOSTILE}}
            | words
            for key in (map(failure.get, CaseKey._fields) for failure in verdict["failures"])
        ]
    }
    started_at = datetime.fromtimestamp(run.started_at_ms // 1000, UTC)
    for leg, start_s in zip(verdict["legs"], (91, 90), strict=False):
        leg["started_at"] = (started_at + timedelta(seconds=start_s)).isoformat()
    memory = {"most_bytes": 6 << 30, "most_at_s": 40.0, "left_bytes": 90 * MIB, "at_s": 61.5}
    verdict["findings"].append(
        {
            "level": "incomplete",
            "kind": "lost_runner",
            "facts": {},
            "shard": f"02 {HOSTILE}",
            "units": [],
            "cause": {"kind": "out_of_memory", "facts": {}},
            "evidence": [
                {"kind": "memory", "facts": memory, "url": None},
                {"kind": "of_another_version", "facts": {}, "url": None},
            ],
            "culprits": [{"suite": "", "variant": "", "unit": f"c.t::{HOSTILE}"}],
        }
    )
    if not run.is_base_branch:
        return StoredAnswer(verdict, comparison, explanation)
    runs = tuple(
        RunUse(NEWEST - number, (3 << 30) + number * MIB, 0.29, 36, 600.0) for number in range(20)
    )
    smaller = SmallerRunner("ubuntu-latest", 2, 8 << 30, 0.31, 0.012, 0.006, 0.216, 0.151)
    uses = (
        RunnerUse("linux", 20, (), 4, 16 << 30, runs, 3 << 30, 3.4 * (1 << 30), 0.31, smaller),
        RunnerUse(HOSTILE, 20, ((HOSTILE, 3, 0.08),)),
    )
    return StoredAnswer(verdict, comparison, explanation, runners=tuple(map(asdict, uses)))


def make_rows(number: int) -> Iterator[ResultRow]:
    """Results of a run: hostile, failed, flaky, missing, and 150 others."""
    yield row(f"a.py::{HOSTILE}", "failed", message=f"AssertionError: {HOSTILE}\nat line 2")
    yield row("a.py::flaky", tries=2 if number % 2 else 1, message="it flaked")
    yield row("a.py::sometimes", "failed" if number in (1, 4) else "passed", wall_s=0.4)
    yield row("a.py::lost", "missing", wall_s=None)
    yield row("b.py", case="case <one>", wall_s=2.5, peak_bytes=900 * MIB)
    yield row("b.py", "skipped", case="case two", wall_s=None)
    for at in range(150):
        more: dict[str, Any] = {"wall_s": 0.01 * (at + number), "cpu_s": 0.005 * at}
        more |= {"peak_bytes": (40 + at) * MIB, "peak_delta_bytes": at * MIB}
        yield row(f"c/{at % 7}.py::test_{at:03}", shard=f"unit-{at % 3}", **more)


def fill(site: Site, now_ms: int, runs: int = 34) -> None:
    """Put in what the pages show."""
    service = site.service
    results: list[RunResults] = []
    with service.database.write() as connection:
        repositories.upsert(connection, [SHOP, VAULT, RED, EMPTY])
        run_rows.record_run(connection, replace(make_run(RED, 3, now_ms), facts=SEARCHED))
        for repository in (SHOP, VAULT):
            for number in range(runs):
                run = make_run(
                    repository, number, now_ms, add_answer(service, repository, number, now_ms)
                )
                cells = make_suites(run, number)
                run_rows.record_run(connection, replace(run, cells=cells))
                results.append(RunResults(run.key, run.started_at_ms, tuple(make_rows(number))))
        pauses.start(connection, VAULT.id, REFUSAL)
        for repository, lane in ((SHOP, "a"), (VAULT, "b")):
            dead, waiting = RunKey(repository.id, 19_600_000_000, 1), RunKey(repository.id, 7, 2)
            entries = [NewWork(dead, lane, "webhook"), NewWork(waiting, lane * 2, "reconcile")]
            work_list.add(connection, entries)
            connection.execute(
                sa.update(schema.work)
                .where(is_run(schema.work, dead))
                .values(state="dead", tries=8, problem=f"artifact {HOSTILE}: expired (HTTP 410)")
            )
    site.results.writer.write(results)


def add_answer(service: Service, repository: Repository, number: int, now_ms: int) -> str:
    """Store what a run came to, of those that were judged; the name of it."""
    run = make_run(repository, number, now_ms)
    if run.verdict == "not_evaluated":
        return ""
    content = stored_answers.encode(make_answer(run))
    name = stored_answers.object_name(run.key, content)
    service.objects.put_new(name, content)
    return name
