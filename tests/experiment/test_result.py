"""Which of the words an experiment ends with, and what is said above it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from compare.test_calibration import at_most
from experiment.simulated_programs import Program

from ciguard.experiment.measurement import CPU, GPU, PEAK, WALL, Measurement, Metric
from ciguard.experiment.result import (
    Experiment,
    Unpaired,
    conclude,
    is_conclusive,
    row_verdict,
    run_design,
    series_of,
)
from ciguard.experiment.schedule import ALPHA, Design, Step, interim_analyses, steps
from ciguard.experiment.view import as_json, coverage_text, document, unpaired_text, verdict_lines
from ciguard.model.machine_use import MachineUse, MemoryMoment, Stalls
from ciguard.render.plaintext import as_text

Sides = tuple[list[float], list[float]]
COMMANDS: Mapping[str, str] = {"a": "make old", "b": "make new"}
ARMS = ("a", "b")
COLD, WARM = (Metric("step", "s", (), part) for part in ("cold", "warm"))
SCORE = Metric("score")
MIB = 1024 * 1024

SAME: Sides = ([10.0, 10.2, 9.9, 10.1] * 2, [10.1, 10.3, 9.8, 10.0] * 2)
MORE: Sides = ([10.0, 10.2, 9.9, 10.1] * 2, [12.1, 12.3, 11.9, 12.2] * 2)
LESS: Sides = (MORE[1], MORE[0])


def scaled(sides: Sides, factor: float) -> Sides:
    a, b = ([value * factor for value in side] for side in sides)
    return a, b


def experiment(*conditions: Mapping[Metric, Sides]) -> Experiment:
    """One in which the runs came to these values, without any look before its end."""
    runs = max(len(side) for rows in conditions for sides in rows.values() for side in sides)
    design = Design(runs, 0, tuple({"n": str(n)} for n in range(len(conditions))))
    done: list[Measurement] = []

    def measure(step: Step) -> Measurement:
        rows = conditions[step.condition]
        place = step.arm == "b"
        values = {
            metric: sides[place][step.block]
            for metric, sides in rows.items()
            if step.block < len(sides[place])
        }
        return Measurement(step, values, duration_s=1.0)

    why = run_design(design, done, measure, lambda: 1e9, may_stop_early=False)
    return conclude(design, done, why, commands=COMMANDS, wall_s=83.0)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({WALL: SAME, PEAK: scaled(SAME, 20 * MIB)}, "no significant difference"),
        ({WALL: MORE}, "slower"),
        ({WALL: LESS, CPU: SAME}, "faster"),
        ({CPU: MORE, WALL: SAME}, "no significant difference"),
        ({PEAK: scaled(MORE, 20 * MIB), WALL: SAME}, "no significant difference"),
        ({PEAK: scaled(LESS, 20 * MIB), WALL: LESS}, "faster"),
        ({PEAK: scaled(MORE, 20 * MIB), WALL: LESS}, "faster"),
        ({WALL: LESS, CPU: MORE}, "faster"),
        ({CPU: MORE}, "not enough data"),
        ({WALL: SAME, SCORE: MORE}, "no significant difference"),
        ({WALL: ([10.0], [20.0])}, "not enough data"),
        ({WALL: ([], [])}, "not enough data"),
        ({WALL: ([10.0, 24.0, 9.0, 40.0], [11.0, 9.0, 30.0, 12.0])}, "too noisy"),
        ({WALL: ([124.0, 129.0], [122.0, 117.0])}, "no significant difference"),
        ({WALL: SAME, WARM: MORE, COLD: LESS}, "no significant difference"),
    ],
)
def test_wall_time_decides_the_verdict(rows: Mapping[Metric, Sides], expected: str) -> None:
    assert experiment(rows).verdict == expected


def test_other_rows_have_verdicts_of_their_own() -> None:
    found = experiment(
        {WALL: SAME, CPU: MORE, PEAK: scaled(LESS, 20 * MIB), WARM: LESS, SCORE: LESS}
    )
    assert [row_verdict(row) for row in found.rows] == [
        *("no significant difference", "slower", "less memory", "faster", "lower")
    ]
    assert found.verdict == "no significant difference"


GPU_0 = GPU._replace(key=(("gpu", "0"),))
GPU_SIDES: Sides = ([100.0 * MIB] * 8, [2800.0 * MIB] * 8)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({WALL: SAME, PEAK: scaled(LESS, 20 * MIB)}, "peak memory -17 %"),
        (
            {WALL: SAME, PEAK: scaled(LESS, 20 * MIB), GPU: GPU_SIDES, GPU_0: GPU_SIDES},
            "peak memory -17 %, GPU memory 28 times",
        ),
        ({WALL: SAME, CPU: MORE}, ""),
        ({WALL: SAME, SCORE: ([-1.0, -1.1] * 4, [-2.0, -2.1] * 4)}, "score -1"),
        ({WALL: SAME, PEAK: scaled(MORE, MIB), SCORE: MORE, COLD: MORE, WARM: MORE},
         "peak memory +2.07 MiB, score +21 %, step (cold) +21 % and 1 more"),
    ]
)  # fmt: skip
def test_last_line_names_the_measures_that_changed_beside_time(
    rows: Mapping[Metric, Sides], expected: str
) -> None:
    found = experiment(rows)
    line = f"time: {found.verdict}; {expected}" if expected else found.verdict
    assert found.verdict == "no significant difference"
    lines = as_text(document(found), columns=200).splitlines()
    assert (lines[0], lines[-1]) == (f"b compared with a: {line}", line)


def test_a_failed_experiment_names_no_change() -> None:
    found = experiment({WALL: SAME, PEAK: scaled(LESS, 20 * MIB)})
    runs = [*found.measurements, Measurement(Step(0, "a", 8, 0), failure="exit code 3")]
    failed = conclude(found.design, runs, "failed", commands=COMMANDS)
    assert verdict_lines(failed) == ("not enough data",)


def test_texts_name_their_condition() -> None:
    found = experiment({WALL: SAME}, {WALL: SAME})
    assert coverage_text(found) == "8 of each arm in each condition, in 1 min 23 s"
    (one, two) = ({WALL: SAME}, {WALL: SAME})
    done = [replace(run, failure="exit code 3") for run in experiment(one, two).measurements[2:3]]
    failed = conclude(experiment(one, two).design, done, "failed", commands=COMMANDS)
    assert "a, run 1 (n=1): exit code 3\n" in as_text(document(failed))


def test_conditions_are_never_pooled() -> None:
    """Of two conditions that differ tenfold each is compared with itself."""
    four, ten = {WALL: SAME}, {WALL: scaled(SAME, 10)}
    found = experiment(four, ten)
    assert [(row.condition, row.n) for row in found.rows] == [(0, 8), (1, 8)]
    assert [round(row.before) for row in found.rows] == [10, 100]
    assert found.verdict == "no significant difference"
    assert experiment({WALL: SAME}, {WALL: LESS}).verdict == "faster"
    assert experiment({WALL: MORE}, {WALL: LESS}).verdict == "mixed"
    assert experiment({WALL: SAME}, {WALL: ([1.0], [1.0])}).verdict == "not enough data"


def test_metric_of_only_one_side_is_not_compared() -> None:
    found = experiment({WALL: SAME, SCORE: ([1.0] * 8, [])})
    assert [row.metric for row in found.rows] == [WALL]
    assert found.unpaired == (Unpaired("a", "b", (SCORE,)),)
    assert unpaired_text(found.unpaired[0]) == "Not compared: measured on a, but not on b: score."


def stopped(at: int, how: Callable[[Step], Measurement], runs: int = 6) -> Experiment:
    """An experiment whose run number `at` is another one."""
    design, done = Design(runs), list[Measurement]()

    def measure(step: Step) -> Measurement:
        return how(step) if len(done) == at else Measurement(step, {WALL: 10.0 + len(done) / 9})

    why = run_design(design, done, measure, lambda: 1e9)
    return conclude(design, done, why, commands=COMMANDS)


def test_failure_stops_the_experiment_without_a_verdict() -> None:
    found = stopped(6, lambda step: Measurement(step, failure="exit code 3\nno such table"))
    assert (found.verdict, found.stopped_because, found.blocks) == (
        "not enough data",
        "failed",
        (3,),
    )
    assert f"{found.measurements[-1].step.arm}, run 4: exit code 3\n\n- no such table\n" in as_text(
        document(found)
    )
    assert not found.is_complete


def test_run_cut_by_the_budget_is_discarded() -> None:
    found = stopped(7, lambda step: Measurement(step, hit_budget=True))
    assert (found.stopped_because, found.blocks, found.rows[0].n) == ("budget", (3,), 3)
    assert "; stopped: the budget was spent" in coverage_text(found)


def test_no_pair_starts_that_would_exceed_the_budget() -> None:
    design, done = Design(runs=10, warm=1), list[Measurement]()

    def measure(step: Step) -> Measurement:
        return Measurement(step, {WALL: 10.0}, duration_s=10.0)

    why = run_design(design, done, measure, lambda: 100.0 - 10.0 * len(done))
    assert (why, len(done)) == ("budget", 8), "20 s are left, and two runs might take 22"


def test_experiment_stops_early_when_conclusive() -> None:
    design, done = Design(runs=10), list[Measurement]()

    def measure(step: Step) -> Measurement:
        wall_s = (10.0 if step.arm == "a" else 13.0) + step.block / 100
        return Measurement(step, {WALL: wall_s, PEAK: 300.0 * MIB})

    why = run_design(design, done, measure, lambda: 1e9)
    found = conclude(design, done, why, commands=COMMANDS)
    assert (why, found.blocks, found.verdict) == ("conclusive", (4,), "slower")
    assert found.level == interim_analyses(10)[4]
    assert "; stopped early: conclusive" in coverage_text(found)


def test_one_inconclusive_row_prevents_early_stopping() -> None:
    level = interim_analyses(10)[4]
    done = [
        Measurement(step, {WALL: 10.0 + 3 * (step.arm == "b"), CPU: 1.0 + (len(step.arm) + n) % 3})
        for n, step in enumerate(steps(Design(4)))
    ]
    assert not is_conclusive(done, ARMS, level)
    alone = [Measurement(one.step, {WALL: one.values[WALL]}) for one in done]
    assert is_conclusive(alone, ARMS, level)
    assert series_of(done[:1], ARMS) == []
    assert not is_conclusive(done[:1], ARMS, level)


def test_each_arm_is_compared_with_the_first() -> None:
    """One that is faster, one that is the same, and one of which the last run is missing."""
    design, done = Design(runs=6, arms=("old", "new", "same", "cut")), list[Measurement]()
    factors = {"old": 1.0, "new": 0.8, "same": 1.0, "cut": 1.3}

    def measure(step: Step) -> Measurement:
        swing = 1 + (step.block * 7 % 5 + step.position) / 500
        values = {WALL: 10 * swing * factors[step.arm], PEAK: 300.0 * MIB}
        is_last = (step.arm, step.block) == ("cut", 5)
        return Measurement(step, {PEAK: 300.0 * MIB} if is_last else values)

    why = run_design(design, done, measure, lambda: 1e9, may_stop_early=False)
    found = conclude(design, done, why, commands=dict.fromkeys(design.arms, "x"))
    assert found.verdicts == {
        "new": "faster", "same": "no significant difference", "cut": "slower"
    }  # fmt: skip
    assert found.verdict is None
    walls = [row for row in found.rows if row.metric == WALL]
    assert [(row.arm, row.n) for row in walls] == [("new", 6), ("same", 6), ("cut", 5)]
    assert [round(row.after / row.before, 2) for row in walls] == [0.8, 1.0, 1.3]
    lines = as_text(document(found)).splitlines()
    assert lines[0] == "compared with old: new faster, same no significant difference, cut slower"
    assert verdict_lines(found) == (
        "new: faster", "same: no significant difference", "cut: slower"
    )  # fmt: skip
    assert lines[-1] == "cut: slower"
    assert not any("faster" in line for line in lines if "same" in line and "old" not in line)


def test_cpu_time_is_offered_where_load_hides_wall_time() -> None:
    loaded = Program(4, time=1.05, noise=0.15, load=0.6)
    found = loaded.experiment()
    (one,) = found.cpu_answers
    assert (one.wall.metric, one.cpu.metric, round(one.external_cpu_ratio, 9)) == (WALL, CPU, 0.6)
    assert not one.wall.differs
    assert found.verdict == "too noisy"
    assert found.row_verdict(one.wall) == "too noisy"
    assert [found.row_verdict(row) for row in found.rows if row.metric == CPU] == ["slower"]
    text = " ".join(as_text(document(found)).split())
    assert (
        "b: wall time is not decided under load by other programs (60 % of the machine's CPU time):"
    ) in text
    cpu = r"CPU time, without waiting: \+\d\.\d % \(95 % CI \+\d\.\d\.\.\+\d\.\d, n=10\)"
    assert re.search(cpu, text)


@pytest.mark.parametrize(
    "program",
    [
        Program(4, time=1.05, noise=0.15, load=0.05),
        Program(4, time=1.05, noise=0.15),
        Program(4, time=1.5, noise=0.02, load=0.6),
        Program(4, noise=0.002, load=0.6),
        Program(4, noise=0.05, load=0.6),
    ],
    ids=[
        *("hardly any load", "load is not known", "wall time differs", "wall time is the same"),
        "wall time is known to a few percent, and CPU time is the same",
    ],
)
def test_cpu_time_is_only_offered_under_load_and_where_wall_time_is_open(program: Program) -> None:
    assert program.experiment().cpu_answers == ()


def test_same_cpu_time_is_offered_where_wall_time_says_nothing() -> None:
    (one,) = Program(4, noise=0.6, load=0.6).experiment().cpu_answers
    assert (one.wall.is_noisy, one.cpu.differs, one.cpu.is_equivalent) == (True, False, True)


def test_a_run_that_swapped_says_so_beside_its_times() -> None:
    design, done = Design(2), list[Measurement]()

    def measure(step: Step) -> Measurement:
        swapped = 120 * MIB if (step.arm, step.block) == ("b", 1) else 0
        machine = MachineUse(
            least_available=MemoryMoment(3000 * MIB - swapped, 0.0),
            swap_growth=MemoryMoment(swapped, 0.0),
            stalls=Stalls(swapped / (80 * MIB), None, 0.0),
        )
        values = {WALL: 12.3 + step.block, PEAK: 300.0 * MIB}
        return Measurement(step, values, duration_s=1.0, machine=machine, external_cpu_ratio=0.25)

    why = run_design(design, done, measure, lambda: 1e9)
    found = conclude(design, done, why, commands=COMMANDS)
    lines = as_text(document(found)).splitlines()
    assert "- b, run 2: 13 s, 300 MiB, swap grew by 120 MiB" in lines
    assert sum("swap grew" in line for line in lines) == 1
    table = [line.split() for line in lines if line.endswith(" 25 %")]
    assert table == [
        ["a", "2.93", "GiB", "0", "B", "0.00", "s", "25", "%"],
        ["b", "2.81", "GiB", "120", "MiB", "1.50", "s", "25", "%"],
    ]
    assert as_json(found)["runs"][-1]["machine"]["stalled_s"] in (0.0, 1.5)


def false_alarms(program: Program, experiments: int, conditions: int = 1) -> tuple[int, int]:
    """Experiments in which an arm that is the same differs in wall time; in another row."""
    walls = others = 0
    for seed in range(experiments):
        rows = replace(program, seed=seed).experiment(10, conditions).rows
        false = [row for row in rows if row.differs and row.arm not in program.changed]
        walls += any(row.metric == WALL for row in false)
        others += any(row.metric != WALL for row in false)
    return walls, others


@pytest.mark.parametrize("arms", [2, 5])
def test_identical_programs_rarely_differ(arms: int) -> None:
    """40 of the simulated experiments; all of them in the soak below."""
    walls, others = false_alarms(Program(0, arms=arms, changed=""), 40)
    assert walls <= at_most(ALPHA, 40)
    assert others <= at_most(ALPHA, 40)


@pytest.mark.soak
@pytest.mark.parametrize(
    "program",
    [
        Program(0),
        Program(0, noise=0.15),
        Program(0, modes=True),
        Program(0, drift=0.02),
        Program(0, second=1.1),
        Program(0, noise=0.003),
        Program(0, arms=3),
        Program(0, arms=5),
        Program(0, arms=5, drift=0.02, second=1.1),
        Program(0, arms=5, time=1.2, memory=1.2),
    ],
)
def test_false_alarms_are_at_most_4_in_100(program: Program) -> None:
    """Also where another arm does differ."""
    changed = "b" if program.time != 1 else ""
    for conditions in (1, 3):
        found = false_alarms(replace(program, changed=changed), 200, conditions)
        print(program, conditions, found)
        assert max(found) <= at_most(ALPHA, 200)


@pytest.mark.parametrize(("time", "word"), [(1.1, "slower"), (0.9, "faster")])
def test_change_of_ten_percent_is_detected(time: float, word: str) -> None:
    found = [Program(seed, time=time, noise=0.02).experiment() for seed in range(10)]
    assert sum(one.verdict == word for one in found) >= 9
    several = [Program(seed, time=time, noise=0.02, arms=5).experiment() for seed in range(10)]
    assert sum(one.verdicts["b"] == word for one in several) >= 9
    assert sum(one.blocks[0] for one in found) < 90, "some were clear before the end"
