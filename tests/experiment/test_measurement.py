"""What is read out of a record: the leg's own numbers, and those that the program says."""

from __future__ import annotations

from typing import Any

import pytest

from ciguard.codec.record.lines import encode
from ciguard.codec.record.reader import read_records
from ciguard.experiment.measurement import CPU, GPU, PEAK, WALL, Metric, failure_of, values_of
from ciguard.experiment.view import metric_text
from ciguard.model import (
    EndLine,
    Line,
    MetricLine,
    Record,
    Result,
    SampleLine,
    ShardLine,
    StartLine,
)


def record(*more: Line, **result: Any) -> Record:
    values: dict[str, Any] = {"outcome": "passed", "wall_s": 2.0, "cpu_s": 1.0, "peak_bytes": 5}
    lines: list[Line] = [ShardLine(), StartLine("sh -c x", process=1, at_s=0.1)]
    lines += [*more, Result("sh -c x", **{**values, **result}), EndLine("completed", 3.0, 0)]
    (found,) = read_records([("supervisor.jsonl", b"".join(map(encode, lines)))])
    return found


def step(value: float, iteration: str | None = None, **key: str) -> MetricLine:
    more = {} if iteration is None else {"iteration": iteration}
    return MetricLine("step", value, "s", {**key, **more})


def test_time_and_memory_come_from_the_leg() -> None:
    stray = Result("somebody else", "failed", wall_s=99.0)
    found = record(stray)
    assert values_of(found) == {WALL: 2.0, CPU: 1.0, PEAK: 5.0}
    assert failure_of(found, b"") == ""


def test_program_metric_never_replaces_a_measurement() -> None:
    output = (MetricLine("wall time", 0.001, "s"), MetricLine("peak memory", 1, "bytes"))
    found = values_of(record(*output, peak_bytes=None))
    assert (found[WALL], PEAK in found) == (2.0, False)


def test_gpu_memory_is_the_largest_of_each_device_and_of_all_at_one_moment() -> None:
    samples = [
        SampleLine(1.0, gpu_bytes={"0": 300, "1": 100}),
        SampleLine(2.0),
        SampleLine(3.0, gpu_bytes={"1": 350}),
    ]
    assert values_of(record(*samples)) == {
        WALL: 2.0,
        CPU: 1.0,
        PEAK: 5.0,
        GPU: 400.0,
        GPU._replace(key=(("gpu", "0"),)): 300.0,
        GPU._replace(key=(("gpu", "1"),)): 350.0,
    }


def test_unmeasured_values_are_absent() -> None:
    assert values_of(record(peak_bytes=None)) == {WALL: 2.0, CPU: 1.0}


@pytest.mark.parametrize("words", [("1", "2", "3"), ("0", "1", "7"), ("cold", "warm", "warm")])
def test_first_iteration_is_a_separate_cold_metric(words: tuple[str, ...]) -> None:
    lines = [step(value, word) for value, word in zip((9.0, 1.0, 3.0), words, strict=True)]
    found = values_of(record(*lines))
    assert found[Metric("step", "s", (), "cold")] == 9.0
    assert found[Metric("step", "s", (), "warm")] == 2.0, "a run is one value: the median"


def test_other_metric_keys_are_separate_conditions() -> None:
    found = values_of(record(step(1.0, steps="4"), step(8.0, steps="10"), step(3.0, steps="4")))
    assert found[Metric("step", "s", (("steps", "4"),))] == 2.0
    assert found[Metric("step", "s", (("steps", "10"),))] == 8.0
    assert metric_text(Metric("step", "s", (("steps", "4"),), "warm")) == "step (steps=4, warm)"


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"outcome": "failed", "message": "exit code 3"}, "exit code 3"),
        (
            {"outcome": "died", "ending": "out_of_memory", "message": "killed\nits last words"},
            "out_of_memory: killed",
        ),
    ],
)
def test_failure_has_reason_and_last_output(result: dict[str, Any], expected: str) -> None:
    log = "\n".join(f"line {n}" for n in range(20)).encode()
    found = failure_of(record(**result), log).splitlines()
    assert found == [expected, *(f"line {n}" for n in range(15, 20))]


def test_a_record_without_its_result_is_a_failure() -> None:
    assert failure_of(Record("x", None), b"") == "no result"
    assert failure_of(Record("x", None, damage=("x:1: cut",)), b"") == "x:1: cut"
