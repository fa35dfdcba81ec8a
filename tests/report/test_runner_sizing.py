"""Smaller runners and shards near their memory: which past runs count, and what is said of them."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from codec.test_base_runs import ME, run
from conftest import Ciguard
from guard.fixtures import World, make_leg, make_plan

from ciguard.config.suites import HOSTED
from ciguard.history.file import empty
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import LegPolicy, Pool, ProcessEndLine, Runner, SampleLine
from ciguard.render.links import NO_LINKS
from ciguard.report.runner_sizing import (
    RunnerUse,
    RunUse,
    SmallerRunner,
    runner_uses,
    runners_section,
    use_text,
)
from ciguard.report.view import Report, ReportData
from ciguard.serve.stored_answers import answer_of

TODAY = date(2026, 11, 21)
GIB = 1 << 30
LARGE = "ubuntu-latest-4-cores"
BIG = Runner("p", 4, int(15.5 * GIB))


def leg(shard: str = "1", runner: Runner = BIG, **more: Any) -> HistoryLeg:
    """A job of 10 minutes in which 1.24 cores were busy and the tests held 1.9 GiB."""
    known: Any = {"wall_s": 600.0, "cpu_s": 744.0, "peak_bytes": 19 * GIB // 10, "used_bytes": GIB}
    known |= more
    return HistoryLeg(shard, ending="completed", complete=True, runner=runner, **known)


def past(count: int, *legs: HistoryLeg, days: int = 1) -> list[HistoryRun]:
    """Runs of one day, the first one the newest."""
    at = datetime(2026, 11, 21, 12, tzinfo=UTC) - timedelta(days=days)
    runs = [run(70 - number, *(legs or (leg(), leg("2")))) for number in range(count)]
    return [replace(each, at=at - timedelta(minutes=n)) for n, each in enumerate(runs)]


def sized(runs: list[HistoryRun], runs_on: Any = LARGE, **more: Any) -> RunnerUse | None:
    known = HOSTED.get(str(runs_on), Pool(runs_on))
    history = replace(empty(), runs=tuple(sorted(runs, key=lambda each: each.order)))
    pools = {"p": replace(known, reserve_bytes=GIB, **more), "unused": Pool("x")}
    plan = replace(make_plan(), pools=pools, policy=LegPolicy(deadline_s=900.0))
    uses = runner_uses(history, ME, plan, HOSTED, TODAY)
    assert len(uses) <= 1
    return uses[0] if uses else None


def test_smaller_runner_has_its_calculation() -> None:
    slower = past(1, leg("1", wall_s=601.0), leg("2", peak_bytes=29 * GIB // 10, cpu_s=600.0))
    use = sized([*slower, *past(24)[1:]])
    assert use is not None
    assert use.runs[0] == RunUse(70, 39 * GIB // 10, 744 / 601 / 4, 21, 601.0)
    assert use.runs[1] == RunUse(69, 29 * GIB // 10, 744 / 600 / 4, 20, 600.0)
    assert (len(use.runs), use.near, use.busy_ratio) == (20, (), 0.31)
    assert use.needed_bytes == pytest.approx(4.9 * GIB, abs=2), "runs differ by more than 10 %"
    # 20.05 minutes at 0.006 instead of 0.012 USD; at most 31 % longer on half of the cores.
    usable = int(8 * GIB * 15.5 / 16)
    costs = (0.012, 0.006, 0.12, 0.083)
    assert use.smaller == SmallerRunner("ubuntu-latest", 2, usable, use.busy_ratio, *costs)
    assert use_text(use) == (
        "p: 20 runs used at most 3.90 GiB of 15.5 GiB memory and 31.0 % of 4 cores. A 2-core "
        "runner (ubuntu-latest) is enough: a run costs 0.083 to 0.12 USD less, a job takes up to "
        "31.0 % longer"
    )
    world = World()
    report = Report(ReportData(world.plan, world.prove(), runners=(use,)), 0)
    assert answer_of(report).runners == (asdict(use),), "the service's page shows the same"


WINDOWS = Runner("p", 8, 32 * GIB)
PUBLIC = Runner("p", 4, 16 * GIB)


@pytest.mark.parametrize(
    ("legs", "runs_on", "price", "runner"),
    [
        ([leg()], LARGE, 0.012, "ubuntu-latest"),
        ([leg(peak_bytes=6 * GIB)], LARGE, 0.012, "ubuntu-latest"),  # 7.7 of 7.75 GiB
        ([leg(peak_bytes=61 * GIB // 10)], LARGE, 0.012, None),
        ([leg(used_bytes=71 * GIB // 10)], LARGE, 0.012, None),  # a service beside the tests
        ([leg(), leg("2", cpu_s=1085.0)], LARGE, 0.012, "ubuntu-latest"),
        ([leg(), leg("2", cpu_s=1095.0)], LARGE, 0.012, None),  # 1.83 busy cores and 10 %
        ([leg(wall_s=720.0)], LARGE, 0.012, None),  # may exceed its deadline
        ([leg(cpu_s=60.0)], LARGE, 0.012, "ubuntu-latest"),  # never ubuntu-slim
        ([leg()], LARGE, 0.0078, None),  # 31 % longer, a run costs more there
        ([leg()], LARGE, 0.0087, None),  # saves 0.008 USD at the least
        ([leg()], LARGE, None, None),
        ([leg()], ["self-hosted", "big"], 0.012, None),
        ([leg(runner=PUBLIC)], "ubuntu-latest", 0.006, None),  # in a public repository
        ([leg(runner=WINDOWS)], "windows-latest-8-cores", 0.042, "windows-latest"),
        ([leg(runner=WINDOWS, cpu_s=1800.0)], "windows-latest-8-cores", 0.042, "4-cores"),
    ],
)
def test_smaller_runner_is_of_the_same_system_and_cheaper_at_its_slowest(
    legs: list[HistoryLeg], runs_on: Any, price: float | None, runner: str | None
) -> None:
    use = sized(past(5, *legs), runs_on, usd_per_minute=price)
    chosen = use.smaller.runner if use is not None and use.smaller is not None else None
    assert chosen == runner or (chosen and runner and chosen.endswith(runner))


OTHER = leg("0", runner=replace(BIG, memory_bytes=31 * GIB))
CRASHED: Any = {"complete": False, "ending": "crash"}
DIED: Any = {"complete": False, "ending": "out_of_memory"}


@pytest.mark.parametrize(
    ("runs", "counted"),
    [
        (past(4), 0),
        (past(5), 5),
        (past(5, days=14), 5),
        (past(5, days=15), 0),
        ([*past(4), *past(9, leg(cpu_s=None))[4:]], 0),
        ([*past(5), *past(9, leg(), leg("2", used_bytes=None))[5:]], 5),
        ([*past(5), *past(9, leg(), leg("2", peak_bytes=None))[5:]], 5),
        ([*past(5), *past(9, leg(), leg("2", wall_s=None))[5:]], 5),
        ([*past(5), *past(9, leg(), replace(leg("2"), **CRASHED))[5:]], 5),
        ([*past(5), *past(6, leg(), replace(leg("2"), **DIED))[5:]], 0),
        ([*past(20), *past(21, replace(leg("2"), **DIED))[20:]], 20),
        ([*past(5), *past(6, leg(), HistoryLeg("2"))[5:]], 0),  # without a record
        ([*past(5), *past(9, leg(), OTHER)[5:]], 5),
        ([*past(5), *past(9, leg(runner=replace(BIG, cpus=8)))[5:]], 5),
        ([*past(5), *past(9, leg(runner=replace(BIG, memory_bytes=16 * GIB)))[5:]], 9),
        ([*past(3, OTHER), *past(9)[3:]], 0),  # the newest machine counts
        ([*past(3, OTHER, leg()), *past(9)[3:]], 6),  # of a run with one size
        ([replace(each, event="pull_request") for each in past(9)], 0),
    ],
)
def test_only_recent_complete_measured_runs_on_one_machine_count(
    runs: list[HistoryRun], counted: int
) -> None:
    use = sized(runs)
    assert (len(use.runs) if use is not None else 0) == counted


def test_shards_near_their_memory_are_counted_also_without_a_price() -> None:
    full = leg("4", used_bytes=int(0.92 * 15.5 * GIB))
    runs = [*past(3, leg(), full), *past(20)[3:], *past(9, full, days=20)]
    fuller = replace(full, used_bytes=int(0.95 * 15.5 * GIB), **DIED)
    runs[7] = replace(runs[7], legs=(OTHER, fuller, leg("7")))
    use = sized(runs)
    assert use is not None
    assert "Details" not in repr(runners_section((use,), NO_LINKS)), "only the bullet"
    assert use.smaller is None
    assert use_text(use) == "p: shard 4 came within 5.0 % of its memory in 4 of 20 runs"
    assert (
        sized(past(20, leg(), leg("4", used_bytes=int(0.89 * 15.5 * GIB))), "self-hosted") is None
    )


def test_report_of_the_base_alone_names_a_smaller_runner(ciguard: Ciguard, tmp_path: Path) -> None:
    past = ("--history", tmp_path / "past")
    world = World(make_plan(pools={"default": HOSTED["ubuntu-latest-4-cores"]}))
    for number in range(1, 7):
        world.legs = {key: make_leg(world.plan, key, run=number) for key in world.legs}
        for own in world.legs.values():
            own.header = replace(own.header, runner=Runner("default", 4, 16 << 30))
            sample = SampleLine(0.5, tree_bytes=1 << 30, available_bytes=14 << 30)
            own.own[1:3] = [sample, ProcessEndLine(1, "completed", 0, 2.0, cpu_s=2.0)]
        _, records = world.write(tmp_path / f"{number}")
        at = f"{datetime.now(UTC) - timedelta(days=7 - number)}"
        facts = ("--run-id", f"{number}", "--branch", "main", "--at", at)
        if number < 6:
            ciguard("history", "add", records, *past, *facts, cwd=tmp_path)
    (tmp_path / "event.json").write_text('{"repository": {"default_branch": "main"}}')
    environ = {
        **{"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "o/r", "GITHUB_EVENT_NAME": "push"},
        **{"GITHUB_EVENT_PATH": "event.json", "GITHUB_RUN_ID": "6", "GITHUB_RUN_ATTEMPT": "1"},
    }
    words = ("report", "--plan", "6/plan.json", "--records", "6/records", *past)
    reports = [
        ciguard(*words, cwd=tmp_path, expect=0, GITHUB_REF_NAME=branch, **environ).stdout
        for branch in ("main", "topic")
    ]
    smaller = "default: 5 runs used at most 2.00 GiB of 16.0 GiB memory and 23.8 % of 4 cores. A"
    assert [smaller in report for report in reports] == [True, False]
