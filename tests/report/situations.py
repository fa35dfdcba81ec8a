"""Situations of a pull request: a run with its damage, and 14 runs of main to compare it with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from guard.fixtures import MIB, SHARDS, World, make_leg, make_plan

from ciguard.codec.record.reader import read_records
from ciguard.compare.compare_runs import Context, compare_run
from ciguard.compare.run_columns import Run, runs_from_records
from ciguard.compare.whose import Tries
from ciguard.guard.github_facts import NeededJob
from ciguard.guard.verdict import Finding, Policy
from ciguard.history.file import History
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.history.merge import merge
from ciguard.model import Plan, Result
from ciguard.render.links import Links
from ciguard.report.view import ReportData, excuses_of

ALONE: Final = Tries(3, 0, "failed")
PEAK: Final = {"measured_by": "mark", "peak_delta_bytes": 100 * MIB, "gpu_peak_bytes": 20 * MIB}
SHOP: Final = "https://github.com/octo-org/shop"


EXPIRING: Final = tuple(
    Finding("quarantine_ends", facts={"entry": f"{name}.t::*", "until": "2026-12-01"})
    for name in "abc"
)


@dataclass
class Situation:
    """A run of a change.

    Attributes:
        past: by test, a letter for each of the last runs of main, the newest last: f for failed.
        runs: number of runs of main; each had the tests of `base`.
        head, previous: by test, its memory and time here and in the change's previous run.
    """

    plan: Plan = field(default_factory=make_plan)
    past: dict[str, str] = field(default_factory=dict)
    base: Plan | None = None
    runs: int = 14
    tries: dict[str, Tries] = field(default_factory=dict)
    head: dict[str, dict[str, Any]] = field(default_factory=dict)
    previous: dict[str, dict[str, Any]] | None = None
    policy: Policy = field(default_factory=Policy)
    needs: tuple[NeededJob, ...] | None = None
    prices: dict[str, float] = field(default_factory=dict)
    change: Callable[[World], None] | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def fails(self, unit: str, past: str = "", tries: Tries = ALONE, **more: Any) -> Situation:
        self.head[unit] = {"outcome": "failed", "message": "assert 12 == 13", "line": 13, **more}
        self.past[unit], self.tries[unit] = past, tries
        return self

    def world(self, plan: Plan, run: int, results: Mapping[str, dict[str, Any]]) -> World:
        legs = {shard.key: make_leg(plan, shard.key, run=run) for shard in plan.shards}
        world = World(plan, legs, needs=self.needs, policy=self.policy)
        for key, leg in legs.items():
            day = datetime(2026, 11, 1 + run % 28, 10, tzinfo=UTC)
            leg.header = replace(leg.header, started_at=day.isoformat(), event="push")
            leg.inner = [
                replace(line, **{**PEAK, **results.get(line.unit, {})})
                if isinstance(line, Result)
                else line
                for line in leg.inner
            ]
            bad = {line.outcome for line in leg.inner if isinstance(line, Result)} - {"passed"}
            world.end(key, exit_code=10 * bool(bad - {"skipped"}))
        return world

    def history(self) -> History | None:
        found, plan = None, self.base or self.plan
        for day in range(1, self.runs + 1):
            failed = {
                unit: {"outcome": "failed"}
                for unit, letters in self.past.items()
                if letters.rjust(self.runs, "p")[day - 1] == "f"
            }
            records = read_records(self.world(plan, day, failed).files().items())
            one = history_of(records, RunMetadata(sha=f"{day:040x}", branch="main"))
            found = one if found is None else merge(found, one)
        return found

    def report(self) -> ReportData:
        world = self.world(self.plan, 27, self.head)
        if self.change is not None:
            self.change(world)
        verdict, history = world.prove(), self.history()
        records = tuple(read_records(world.files().items()))
        comparison = None
        if history is not None and records:
            run = runs_from_records(records, "this run")[-1]
            keys = {key.unit: key for key in run.keys}
            tries = {keys[unit]: tries for unit, tries in self.tries.items() if unit in keys}
            comparison = compare_run(
                replace(run, tries=tries),
                history,
                previous=self._previous(),
                plan=verdict.plan,
                context=Context(branch="main", excused=excuses_of(verdict), prices=self.prices),
            )
        links = Links(SHOP, 27, 1, "a" * 40, {}, self.plan.suites)
        data = ReportData(self.plan, verdict, comparison, "", links, self.policy, records=records)
        return replace(data, **self.more)

    def _previous(self) -> Run | None:
        if self.previous is None:
            return None
        records = read_records(self.world(self.plan, 26, self.previous).files().items())
        return runs_from_records(records, "run 26")[-1]


def _lost(world: World) -> None:
    del world.legs["02"]


def _ended(ending: str, **more: Any) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.drop("02", Result, unit="c.t::five")
        world.end("02", ending=ending, **more)

    return change


def _truncated(world: World) -> None:
    leg = world.legs["02"]
    leg.own, leg.inner = leg.own[:-2], leg.inner[:3]


def _module(name: str, count: int) -> Plan:
    return make_plan({"01": tuple(f"{name}.py::test_{n}" for n in range(count))})


def _flaky_main() -> Situation:
    return Situation(runs=20).fails("a.t::two", "fppppfpppfppfppppppp", Tries())


def _mixed() -> Situation:
    found = Situation(runs=20).fails("a.t::one")
    hang = {"message": "stopped: over its limit of 3 s", "outcome": "died", "ending": "timeout"}
    found.fails("a.t::two", "fppppfpppfppfppppppp", Tries(), line=None, **hang)
    found.fails("c.t::four", "fff", message="OperationalError: database is locked")
    found.fails("d.t::six", "", Tries(2, 1, "passed", "d.t::seven"))
    found.head["b.t::three"] = {"peak_delta_bytes": 160 * MIB}
    return found


def _many() -> Situation:
    plan = _module("tests/test_index", 500)
    found = Situation(plan)
    for shard in plan.shards:
        for number, unit in enumerate(shard.units):
            message = (
                f"KeyError: 'sku' in row {number}" if number % 5 else "TimeoutError: no answer"
            )
            found.fails(unit.unit, "", Tries() if number > 20 else ALONE, message=message)
    return found


def _renamed() -> Situation:
    shards = {**SHARDS, "01": ("z.t::one", "z.t::two", "b.t::three")}
    return Situation(make_plan(shards), base=make_plan())


def _new(**result: Any) -> Situation:
    found = Situation(make_plan({**SHARDS, "04": ("e.t::new",)}), base=make_plan())
    return found.fails("e.t::new", **result)


def _repeated(letters: str, **policy: Any) -> Situation:
    def change(world: World) -> None:
        world.repeat("04", "e.t::new", letters, "assert 12 == 13")
        world.repeat("04", "e.t::newer", "p" * 20)

    shards = {**SHARDS, "04": ("e.t::new", "e.t::newer", "e.t::newest")}
    changes = dict.fromkeys(shards["04"], "new")
    plan = make_plan(shards, change=changes)
    return Situation(plan, base=make_plan(), policy=Policy(**policy), change=change)


SITUATIONS: Final[Mapping[str, Callable[[], Situation]]] = {
    "green": Situation,
    "this-change": lambda: Situation().fails("a.t::two"),
    "likely-this-change": lambda: Situation().fails("a.t::two", tries=Tries()),
    "order": lambda: Situation().fails("a.t::two", tries=Tries(2, 1, "passed", "a.t::one")),
    "main": lambda: Situation().fails("a.t::two", "fffff"),
    "flaky": _flaky_main,
    "new-test": _new,
    "new-tests": lambda: Situation(
        make_plan({**SHARDS, "04": ("e.t::new", "e.t::newer")}),
        base=make_plan(),
        prices={"": 0.05},
        head={"e.t::new": {"wall_s": 30.0}, "e.t::newer": {"wall_s": 8.0}},
    ),
    "repeats": lambda: _repeated("p" * 17),
    "flaky-repeats": lambda: _repeated("pfppffpppp"),
    "flaky-repeats-enforced": lambda: _repeated("pfppffpppp", new_tests="enforce"),
    "quarantine-ends": lambda: Situation(policy=Policy(findings=EXPIRING)),
    "infrastructure": lambda: Situation().fails(
        "a.t::two", message="OSError: [Errno 28] No space left on device"
    ),
    "unknown": lambda: Situation(runs=3).fails("a.t::two", tries=Tries()),
    "mixed": _mixed,
    "no-record": lambda: Situation(change=_lost).fails("a.t::two"),
    "deadline": lambda: Situation(change=_ended("deadline")),
    "cancelled": lambda: Situation(change=_ended("cancelled", exit_code=143)),
    "out-of-memory": lambda: Situation(change=_ended("out_of_memory", exit_code=137)),
    "truncated": lambda: Situation(change=_truncated),
    "memory-suspect": lambda: Situation(head={"b.t::three": {"peak_delta_bytes": 160 * MIB}}),
    "memory-confirmed": lambda: Situation(
        head={"b.t::three": {"peak_delta_bytes": 160 * MIB}},
        previous={"b.t::three": {"peak_delta_bytes": 161 * MIB}},
        policy=Policy(fail_on=("memory",)),
    ),
    "time": lambda: Situation(head={"b.t::three": {"wall_s": 30.0}}),
    "gpu": lambda: Situation(head={"b.t::three": {"gpu_peak_bytes": 60 * MIB}}),
    "first-run": lambda: Situation(runs=0).fails("a.t::two", tries=Tries()),
    "two-runs": lambda: Situation(runs=2),
    "renamed": _renamed,
    "500-failures": _many,
    "5000-removed": lambda: Situation(_module("a", 10), base=_module("a", 5010), runs=3),
    "fork": lambda: Situation(more={"from_fork": True}).fails("a.t::two"),
}
