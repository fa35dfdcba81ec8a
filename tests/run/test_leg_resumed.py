"""Legs that end at any moment, and those that go on: the union is exact, the guard agrees."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sys
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from conftest import call_in_process
from run.leg_runner import LISTS, UNGUARDED, Leg, plan_of, start, until
from run.replay import replays

from ciguard.codec import plan_file as plan_codec
from ciguard.guard.prove import prove
from ciguard.model import LegPolicy, Plan, PlannedUnit, Record, Suite
from ciguard.sources.local import read_plan, read_record_tree

TESTS = """
import os, pathlib, time
import pytest
def ran(name):
    with open("ran", "a") as stream:
        print(name, file=stream)
def test_quick(): ran("quick")
def test_fails(): ran("fails"); assert 0
def test_crashes(): ran("crashes"); os._exit(9)
def test_slow():
    ran("slow")
    if pathlib.Path("go").exists():
        return
    pathlib.Path("started").touch()
    time.sleep(600)
def test_later(): ran("later")
def test_last(): ran("last")
"""
NAMES = ("quick", "fails", "crashes", "slow", "later", "last")
UNITS = [f"test_a.py::test_{name}" for name in NAMES]
EXPECTED = dict(zip(UNITS, ["passed", "failed", "died", "passed", "passed", "passed"], strict=True))


def shard(folder: Path, record: str, *words: str, **environ: str) -> Leg:
    fixed = ("--plan", "plan.json", "--shard", "01", "--record", f"records/{record}")
    return start(folder, *fixed, *words, **environ)


def attempt(number: int) -> dict[str, str]:
    return {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": str(number)}


def guard(folder: Path) -> tuple[int, dict[str, object]]:
    """What `ciguard guard` says of all records, in any folders."""
    words = ("--plan", "plan.json", "--records", "records", "--format", "json")
    done = call_in_process("guard", *words, cwd=folder)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def lay_out(folder: Path, plan: Plan) -> None:
    (folder / "test_a.py").write_text(TESTS)
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))


def interrupted(folder: Path, number: int, **environ: str) -> None:
    """A first leg that gets a signal in the middle of its slow test; then the way is free."""
    leg = shard(folder, "z-first", **environ)
    try:
        until((folder / "started").exists, what="the slow test runs")
        leg.process.send_signal(number)
        leg.wait(timeout_s=10)
    finally:
        leg.process.kill()
        leg.process.communicate()
    (folder / "go").touch()


def ran(folder: Path) -> Counter[str]:
    return Counter((folder / "ran").read_text().split())


def outcomes(record: Record) -> dict[str, str]:
    """By unit, of its last process."""
    found = sorted(record.results, key=lambda result: result.process or 0)
    return {result.unit: result.outcome for result in found}


@pytest.mark.parametrize(
    ("number", "rerun", "processes", "policy"),
    [
        (signal.SIGKILL, 2, 2, LISTS),
        *(
            pytest.param(*one, marks=pytest.mark.soak)
            for one in product([signal.SIGTERM, signal.SIGKILL], [1, 2], [1, 2], [UNGUARDED, LISTS])
            if one != (signal.SIGKILL, 2, 2, LISTS)
        ),
    ],
)
def test_only_unfinished_units_run_again(
    tmp_path: Path, number: int, rerun: int, processes: int, policy: LegPolicy
) -> None:
    plan = plan_of(UNITS, processes=processes, policy=policy)
    lay_out(tmp_path, plan)
    interrupted(tmp_path, number, **attempt(1))
    before = ran(tmp_path)
    leg = shard(tmp_path, "a-second", "--resume-from", "records", **attempt(rerun)).wait(10)
    found = re.search(r"resumed: (\d) of 6 tests ended before, in 1 record\n", leg.printed)
    assert found, leg.printed
    after = ran(tmp_path) - before
    assert sum(after.values()) == 6 - int(found[1])
    assert after["slow"] == 1
    # Of the two shares at once, the other may have been at any place.
    assert set(after) == {"slow", "later", "last"} or processes == 2
    assert re.search(r"shard 01: 4 passed, 1 failed, 1 died in ", leg.printed), leg.printed
    code, verdict = guard(tmp_path)
    assert (code, verdict["missing"]) == (10, []), verdict
    assert verdict["counts"] == {"passed": 4, "failed": 1, "died": 1}
    assert verdict["findings"] == []
    shutil.rmtree(tmp_path / "records" / "z-first")
    assert guard(tmp_path)[0] == 10, "the newer one is whole without the older"
    (record,) = read_record_tree(tmp_path / "records")
    assert outcomes(record) == EXPECTED
    left = [unit for unit in plan.shards[0].units if unit.unit.split("_")[-1] in after]
    shards = (replace(plan.shards[0], units=tuple(left)),)
    rest = replace(plan, policy=UNGUARDED, shards=shards)  # listed before anything is decided
    replays(tmp_path / "records" / "a-second", rest)


FLAKY = """
import os, pathlib, signal, time
def ran(name):
    with open("ran", "a") as stream:
        print(name, file=stream)
def test_before(): ran("before")
def test_flaky():
    ran("flaky")
    first = not pathlib.Path("tried").exists()
    pathlib.Path("tried").touch()
    assert not first and not pathlib.Path("broken").exists()
def test_slow():
    ran("slow")
    if pathlib.Path("go").exists():
        return
    pathlib.Path("started").touch()
    time.sleep(600)
"""


@pytest.mark.soak
@pytest.mark.parametrize("broken", [False, True])
def test_failed_unit_gets_its_remaining_tries(tmp_path: Path, *, broken: bool) -> None:
    """Its leg was lost before the repeat: executed twice in all, and not three times."""
    names = ("before", "flaky", "slow")
    plan = plan_of(
        [f"test_a.py::test_{name}" for name in names],
        policy=LegPolicy(guard_rail="off", max_tries=2),
    )
    lay_out(tmp_path, plan)
    (tmp_path / "test_a.py").write_text(FLAKY)
    interrupted(tmp_path, signal.SIGKILL, **attempt(1))
    if broken:
        (tmp_path / "broken").touch()
    words = ("--resume-from", "records", "--unless-ended")
    leg = shard(tmp_path, "2", *words, **attempt(2)).wait(10 if broken else 0)
    assert (
        "resumed: 2 of 3 tests ended before, in 1 record; retry of 1 failed test: "
        "test_a.py::test_flaky\n"
    ) in leg.printed
    assert "failed_previously" not in leg.printed, "a line of the record, with nothing to say here"
    assert re.search(r" in \d+\.\d s \(\d+\.\d s with earlier steps\)", leg.printed)
    assert ran(tmp_path) == {"before": 1, "flaky": 2, "slow": 2}
    code, verdict = guard(tmp_path)
    flaky = [one["unit"] for one in verdict["flaky"]]  # type: ignore[attr-defined]
    assert (code, flaky) == ((10, []) if broken else (0, ["test_a.py::test_flaky"]))
    assert verdict["findings"] == []
    assert ("(1 flaky)" in leg.printed) is not broken
    rest = replace(plan.shards[0], units=plan.shards[0].units[1:])
    replays(tmp_path / "records" / "2", replace(plan, shards=(rest,)))


@pytest.mark.soak
def test_clock_continues_and_the_deadline_is_per_step(tmp_path: Path) -> None:
    plan = plan_of(UNITS, policy=LegPolicy(guard_rail="off", deadline_s=30.0))
    lay_out(tmp_path, plan)
    interrupted(tmp_path, signal.SIGTERM)
    supervisor = tmp_path / "records" / "z-first" / "supervisor.jsonl"
    *lines, end = supervisor.read_text().splitlines(keepends=True)
    supervisor.write_text("".join([*lines, '{"type":"sample","at_s":1000.0}\n', end]))
    shard(tmp_path, "2", "--resume-from", "records").wait(10)
    text = (tmp_path / "records" / "2" / "supervisor.jsonl").read_text()
    own = [json.loads(line) for line in text.splitlines()]
    (resumed,) = [line for line in own if line.get("kind") == "resumed"]
    assert resumed["at_s"] == 1000.0
    assert all(1000.0 <= line["at_s"] < 1030.0 for line in own if "at_s" in line)
    assert guard(tmp_path)[1]["findings"] == []


@pytest.mark.parametrize(
    ("change", "output"),
    [({"plan_id": "other"}, "is of plan other, not "), ({"run_id": 6}, "is of run 6, not 7")],
)
def test_records_of_another_plan_or_run_are_rejected(
    tmp_path: Path, change: dict[str, object], output: str
) -> None:
    lay_out(tmp_path, plan_of(UNITS))
    plan_id = read_plan(tmp_path / "plan.json").id
    line = {"type": "shard", "plan_id": plan_id, "shard": "02", "run_id": 7, **change}
    (tmp_path / "records" / "deep" / "er").mkdir(parents=True)
    (tmp_path / "records" / "deep" / "er" / "supervisor.jsonl").write_text(json.dumps(line))
    leg = shard(tmp_path, "2", "--resume-from", "records", **attempt(1)).wait(3)
    assert output in leg.printed
    assert "fix: pass a folder with records of this plan's run only" in leg.printed
    assert not (tmp_path / "records" / "2").exists()


def test_a_first_attempt_has_nothing_to_resume(tmp_path: Path) -> None:
    lay_out(tmp_path, plan_of(UNITS[:1]))
    leg = shard(tmp_path, "1", "--resume-from", "absent").wait(0)
    assert "resumed: 0 of 1 test ended before, in 0 records" in leg.printed


def test_steps_of_one_attempt_continue_until_complete(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("""
import os, time, pytest
@pytest.mark.parametrize("n", range(12))
def test_nap(n):
    time.sleep(0.0 if os.path.exists("go") else 0.5)
    print(n, file=open("ran", "a"))
""")
    units = [f"test_a.py::test_nap[{n}]" for n in range(12)]
    plan = plan_of(units)
    (tmp_path / "plan.json").write_bytes(plan_codec.encode(plan))
    first = shard(tmp_path, "1", "--for", "3s", **attempt(1)).wait(13)
    done = len(ran(tmp_path))
    assert 1 <= done < 12
    record = read_record_tree(tmp_path / "records")[0]
    assert {result.outcome for result in record.results} == {"passed"}, "no unit was stopped"
    assert len(record.results) == done
    assert record.end is None, "nobody may take the leg for ended"
    assert record.events[-1].kind == "paused"
    (output,) = [event for event in record.events if event.kind == "checkpoint"]
    assert re.fullmatch(r"3 s have passed; \d+ tests left for another step", output.detail)
    assert f"checkpoint: {output.detail}" in first.printed
    replays(tmp_path / "records" / "1", plan, step_limit_s=3.0)
    code, verdict = guard(tmp_path)
    assert code == 13
    assert "'kind': 'checkpoint'" in str(verdict["findings"])
    (tmp_path / "go").touch()
    words = ("--continue", "records", "--for", "10m")
    leg = shard(tmp_path, "2", *words, **attempt(1)).wait(0)
    assert f"resumed: {done} of 12 tests ended before, in 1 record" in leg.printed
    assert ran(tmp_path) == Counter(map(str, range(12)))
    code, verdict = guard(tmp_path)
    assert (code, verdict["findings"]) == (0, [])
    assert verdict["counts"] == {"passed": 12}


@pytest.mark.soak
def test_continue_without_a_record_is_an_error(tmp_path: Path) -> None:
    lay_out(tmp_path, plan_of(UNITS[:1]))
    shard(tmp_path, "1", **attempt(1)).wait(0)
    leg = shard(tmp_path, "2", "--continue", "records", **attempt(2)).wait(3)
    assert "records: no record of shard 01 of this attempt" in leg.printed


def test_resumed_custom_program_with_several_cases_per_unit(tmp_path: Path) -> None:
    program = """
import json, os, pathlib, sys, time
for unit in open(os.environ["CIGUARD_UNITS_FILE"]).read().split():
    for case in ("1", "2"):
        with open(os.environ["CIGUARD_RECORD_FILE"], "a") as stream:
            print(json.dumps({"unit": unit, "type": "result", "case": case,
                              "outcome": "passed"}), file=stream)
        print(unit, file=open("ran", "a"))
        if unit == "b" and not pathlib.Path("go").exists():
            pathlib.Path("started").touch()
            time.sleep(600)
"""
    suite = Suite("command", (sys.executable, "-c", program))
    plan = plan_of([PlannedUnit(name) for name in "abc"], suites={"": suite})
    (tmp_path / "plan.json").write_bytes(plan_codec.encode(plan))
    interrupted(tmp_path, signal.SIGKILL)
    assert ran(tmp_path) == {"a": 2, "b": 1}
    leg = shard(tmp_path, "2", "--resume-from", os.fspath(tmp_path / "records")).wait(0)
    assert "resumed: 1 of 3 tests ended before" in leg.printed
    assert ran(tmp_path) == {"a": 2, "b": 3, "c": 2}
    assert guard(tmp_path)[1]["counts"] == {"passed": 6}


@pytest.mark.soak
def test_unit_running_past_a_checkpoint_is_stopped_once_and_rerun(tmp_path: Path) -> None:
    lay_out(tmp_path, plan_of(UNITS[3:]))
    first = shard(tmp_path, "1", "--for", "2s", "--github", GITHUB_OUTPUT="out").wait(0)
    outputs = ["state=checkpoint", "executed=0", "failed=", "flaky="]
    assert (tmp_path / "out").read_text().splitlines() == outputs
    assert f"  stopped {UNITS[3]}: the next step runs it again\n" in first.printed
    assert "process 1: checkpoint: 2 s have passed twice; the next step " in first.printed
    assert re.search(r"process 1: stopped at a checkpoint after \d", first.printed)
    for word in ("deadline", "SIGINT", "died"):
        assert word not in first.printed, "nothing went wrong"
    replays(tmp_path / "records" / "1", plan_of(UNITS[3:]), step_limit_s=2.0)
    (tmp_path / "go").touch()
    words = ("--continue", "records", "--for", "10m", "--github")
    leg = shard(tmp_path, "2", *words, GITHUB_OUTPUT=os.fspath(tmp_path)).wait(0)
    assert "grace_used: an earlier step stopped tests" in leg.printed
    assert "--github: GITHUB_OUTPUT cannot be written: Is a directory" in leg.printed
    code, verdict = guard(tmp_path)
    assert (code, verdict["findings"], verdict["flaky"]) == (0, [], [])
    assert verdict["counts"] == {"passed": 3}


@pytest.mark.soak
def test_unwritable_checkpoint_output_fails_the_leg(tmp_path: Path) -> None:
    lay_out(tmp_path, plan_of(UNITS[3:]))
    leg = shard(tmp_path, "1", "--for", "1s", "--github").wait(13)
    assert "--github: GITHUB_OUTPUT cannot be written" in leg.printed


COUNT = 30
INTERRUPTED = f"""
import time, pytest
@pytest.mark.parametrize("n", range({COUNT}))
def test_nap(n):
    note("began", n)
    time.sleep(0.03)
    note("ran", n)
def note(name, n):
    with open(name, "a") as stream:
        stream.write(f"{{n}}\\n")
"""


def executed(folder: Path, name: str = "ran") -> Counter[str]:
    """How often each test came to its end, or `began`, by its own word."""
    place = folder / name
    return Counter(place.read_text().split()) if place.exists() else Counter()


@pytest.mark.parametrize(
    ("number", "seed"),
    [
        (signal.SIGKILL, 0),
        *(
            pytest.param(number, seed, marks=pytest.mark.soak)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
            for seed in range(1, 13)
        ),
    ],
)
def test_next_leg_completes_an_interrupted_one(
    tmp_path: Path, number: signal.Signals, seed: int
) -> None:
    (tmp_path / "test_a.py").write_text(INTERRUPTED)
    plan = plan_codec.decode(
        plan_codec.encode(
            plan_of([f"test_a.py::test_nap[{n}]" for n in range(COUNT)], processes=2)
        ),
        "plan",
    )
    (tmp_path / "plan.json").write_bytes(plan_codec.encode(plan))
    fixed = ("--plan", "plan.json", "--shard", "01")
    first = start(tmp_path, *fixed, "--record", "records/1")
    moment = random.Random(f"{number}/{seed}").randrange(COUNT)
    until(lambda: executed(tmp_path).total() >= moment, what=f"{moment} tests have run")
    first.process.send_signal(number)
    first.wait()
    before = read_record_tree(tmp_path / "records") if (tmp_path / "records").exists() else ()
    assert all(not record.damage or not record.results for record in before)
    started = {one.unit for record in before for one in record.starts}
    assert {f"test_a.py::test_nap[{n}]" for n in executed(tmp_path, "began")} <= started
    if number != signal.SIGKILL:
        assert all(record.damage == () for record in before)
        assert started == {one.unit for record in before for one in record.results}
    ended = {one.unit for record in before for one in record.results if one.outcome == "passed"}
    ran = executed(tmp_path)
    second = start(tmp_path, *fixed, "--record", "records/2", "--resume-from", "records").wait(0)
    assert f"resumed: {len(ended)} of {COUNT} tests ended before" in second.printed
    rerun = executed(tmp_path) - ran
    assert sum(rerun.values()) == COUNT - len(ended), "none that ended ran again, all others did"
    verdict = prove(plan, read_record_tree(tmp_path / "records" / "2"))
    assert (verdict.state, verdict.counts) == ("passed", {"passed": COUNT}), verdict
    if before:
        both = prove(plan, read_record_tree(tmp_path / "records"))
        assert (both.state, both.counts) == ("passed", {"passed": COUNT}), both


def test_clock_set_back_changes_no_duration(tmp_path: Path) -> None:
    """In the leg and in what it tests, whoever asks finds it an hour earlier than the last time."""
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "sitecustomize.py").write_text("""
import time
real, calls = (time.time, time.gmtime), []
def back():
    calls.append(0)
    return real[0]() - 3600 * len(calls)
time.time, time.gmtime = back, lambda of=None: real[1](back() if of is None else of)
""")
    (tmp_path / "test_a.py").write_text("""
import time
def test_a():
    before = time.time()
    time.sleep(0.05)
    assert time.time() < before
def test_fails(): assert 0
def test_leg_dies():
    import os, pathlib, signal
    if not pathlib.Path("died").exists():
        pathlib.Path("died").touch()
        leg = int(pathlib.Path("leg").read_text())
        os.kill(leg, signal.SIGKILL)
        time.sleep(600)
""")
    units = [f"test_a.py::test_{name}" for name in ("a", "fails", "leg_dies")]
    plan = plan_codec.decode(plan_codec.encode(plan_of(units)), "plan")
    (tmp_path / "plan.json").write_bytes(plan_codec.encode(plan))
    words = ("--plan", "plan.json", "--shard", "01", "--record")
    path = str(tmp_path / "back")
    first = start(tmp_path, *words, "records/1", PYTHONPATH=path)
    (tmp_path / "leg").write_text(str(first.process.pid))
    first.wait(-signal.SIGKILL)
    resume = ("--resume-from", "records")
    start(tmp_path, *words, "records/2", *resume, PYTHONPATH=path).wait(10)
    for file in (tmp_path / "records").rglob("*.jsonl"):
        lines = [json.loads(text) for text in file.read_text().splitlines()]
        moments = [line["at_s"] for line in lines if "at_s" in line]
        assert moments == sorted(moments) or file.name == "earlier.jsonl"  # of several files
        assert all(0 <= moment < 600 for moment in moments), file.name
        assert all(0 <= line.get("wall_s", 0) < 60 for line in lines), file.name
    verdict = prove(plan, read_record_tree(tmp_path / "records"))
    assert (verdict.state, verdict.counts) == ("failed", {"passed": 2, "failed": 1}), verdict
