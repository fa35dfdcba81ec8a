"""What the samples of a leg tell of its machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.model import ProcessEndLine, Record, Result, SampleLine, StartLine, UnitKey
from ciguard.model.machine_use import (
    NOT_MEASURED,
    MemoryMoment,
    PeakPrograms,
    Stalls,
    leg_machine_use,
    machine_use,
)

MIB = 1 << 20
GIB = 1 << 30


def test_what_no_sample_has_is_none() -> None:
    assert machine_use([]) == machine_use([SampleLine(1.0, tree_bytes=5)]) == NOT_MEASURED
    assert (NOT_MEASURED.swap_growth, NOT_MEASURED.stalls) == (None, None)
    assert not NOT_MEASURED.has_swapped
    assert not NOT_MEASURED.has_stalled(None)


def test_gpus_by_device_and_together_at_one_moment() -> None:
    samples = [
        SampleLine(1.0, gpu_bytes={"1": 3 * GIB, "0": 20 * GIB}),
        SampleLine(2.0),  # no answer of the driver came then
        SampleLine(6.0, gpu_bytes={"0": 12 * GIB, "1": 18 * GIB}),
        SampleLine(11.0, gpu_bytes={"0": 1 * GIB}),
    ]
    found = machine_use(samples)
    assert dict(found.gpu_bytes) == {"0": 20 * GIB, "1": 18 * GIB}
    assert found.gpu_total == MemoryMoment(30 * GIB, 6.0)  # never 38 GiB: not at one moment


def at(at_s: float, gpu: int = 0, **mib: int) -> SampleLine:
    """A sample with these processes, such as p_b for b below p."""
    named = {path.replace("_", "/"): size * MIB for path, size in mib.items()}
    return SampleLine(at_s, peak_processes=named, gpu_bytes={"0": gpu * MIB} if gpu else {})


@pytest.mark.parametrize(
    ("samples", "programs", "gpu", "apart"),
    [
        ([SampleLine(1.0, tree_bytes=5)], {}, None, None),
        ([at(1, p=10), at(2, p=900)], {}, None, None),
        ([at(2, p=10, p_w=200)], {"w": 200, "p": 10}, None, None),
        # Each ran alone, b with its largest memory after the peak.
        (
            [at(1, p=10, p_a=200), at(2, 7, p=10, p_a=200, p_b=300), at(3, p=10, p_b=350)],
            {"b": 300, "a": 200, "p": 10},
            7,
            360,
        ),
        # The programs count with their children, below any number of wrappers.
        (
            [
                at(1, s=1, s_p=9, s_p_a=50),
                at(2, s=1, s_p=9, s_p_a=60, s_p_b=30, s_p_b_c=70),
                at(3, s=1, s_p=9, s_p_b_c=70),
            ],
            {"b": 100, "a": 60, "p": 9},
            None,
            110,
        ),
        # A client that never runs without its server; a parent that shrinks while one runs alone.
        ([at(1, p=9, p_s=90), at(2, p=9, p_s=90, p_c=99)], {"c": 99, "s": 90, "p": 9}, None, None),
        (
            [at(1, p=1, p_x=400), at(2, p=300, p_x=100, p_y=100), at(3, p=1, p_y=400)],
            {"p": 300, "x": 100, "y": 100},
            None,
            401,
        ),
        # A pool of workers, and a helper that is too small to be a phase.
        ([at(1, p=9, p_w=5), at(2, p=9, p_w=40, p_v=40)], {"w": 40, "v": 40, "p": 9}, None, None),
        ([at(1, p=9, p_w=400), at(2, p=9, p_w=410, p_h=1)], {"w": 410, "p": 9}, None, None),
    ],
)  # fmt: skip
def test_programs_at_the_peak_and_what_they_need_apart(
    samples: list[SampleLine], programs: dict[str, int], gpu: int | None, apart: int | None
) -> None:
    found = machine_use(samples).peak
    sizes = {name: size * MIB for name, size in programs.items()}
    expected = PeakPrograms(2, sizes, gpu and gpu * MIB, apart and apart * MIB)
    assert found == (expected if programs else None)
    assert found is None or list(found.program_bytes) == list(programs)


def test_least_memory_is_measured_apart_from_the_headroom() -> None:
    samples = [
        SampleLine(1.0, available_bytes=900, headroom_bytes=100),
        SampleLine(2.0, available_bytes=800),
        SampleLine(3.0, available_bytes=850, headroom_bytes=-5),
    ]
    found = machine_use(samples)
    assert found.least_available == MemoryMoment(800, 2.0)
    assert found.least_headroom == MemoryMoment(-5, 3.0)


@pytest.mark.parametrize(
    ("used_mib", "growth"),
    [
        ([512, 512], MemoryMoment(0, 0.0)),  # of others, before the leg
        ([512, 400], MemoryMoment(0, 0.0)),
        ([0, 700, 100], MemoryMoment(700 * MIB, 1.0)),
        ([7], None),
        ([None, 7, None], None),
        ([None, None], None),
    ],
)
def test_swap_growth_is_the_most_minus_the_first(
    used_mib: list[int | None], growth: MemoryMoment | None
) -> None:
    samples = [
        SampleLine(float(at), swap_used_bytes=None if one is None else one * MIB)
        for at, one in enumerate(used_mib)
    ]
    assert machine_use(samples).swap_growth == growth


def stalling(*waits_s: float | None) -> list[SampleLine]:
    return [
        SampleLine(float(at), stalled_s=wait, fully_stalled_s=None if wait is None else wait / 2)
        for at, wait in enumerate(waits_s)
    ]


def test_stalls_are_counted_from_the_start_of_the_leg() -> None:
    found = machine_use(stalling(None, 0.5, 0.5, 8.5, 9.0)).stalls
    assert found == Stalls(9.0, 4.5, 3.0)


def test_stalls_of_a_leg_that_went_on_in_another_step_are_summed() -> None:
    found = machine_use(stalling(2.0, 6.0, 1.0, 1.5)).stalls
    assert found == Stalls(7.5, 3.75, 1.0)


def test_no_stall_is_zero_and_nothing_ran_then() -> None:
    record = Record("x", None, starts=(StartLine("a", at_s=0.0),), samples=(*stalling(0.0, 0.0),))
    assert leg_machine_use(record).stalls == Stalls(0.0, 0.0, 0.0, ())


@pytest.mark.parametrize(
    ("stalled_s", "wall_s", "has_stalled"),
    [
        (0.9, 10.0, False),
        (1.1, 10.0, True),
        (5.0, 600.0, False),
        (6.1, 600.0, True),
        (2, None, True),
    ],
)
def test_a_stall_is_notable_from_1_s_and_1_percent(
    stalled_s: float, wall_s: float | None, *, has_stalled: bool
) -> None:
    assert machine_use(stalling(stalled_s)).has_stalled(wall_s) == has_stalled


def test_swap_is_notable_from_64_mib() -> None:
    for grown, has_swapped in ((63, False), (64, True)):
        samples = [SampleLine(0.0, swap_used_bytes=MIB), SampleLine(1.0, swap_used_bytes=MIB)]
        samples.append(SampleLine(2.0, swap_used_bytes=(1 + grown) * MIB))
        assert machine_use(samples).has_swapped == has_swapped


def units_at(at_s: float, record: Record) -> list[str]:
    """The units that ran when memory was at its least."""
    samples = (SampleLine(at_s, available_bytes=1), SampleLine(at_s + 1, available_bytes=2))
    whole = Record("x", None, record.processes, record.starts, record.results, samples,
                   process_ends=record.process_ends)  # fmt: skip
    found = leg_machine_use(whole).least_available
    assert found is not None
    return [key.unit for key in found.units]


def test_units_that_ran_then() -> None:
    record = Record(
        "x",
        None,
        starts=(
            StartLine("first", process=1, at_s=0.0),
            StartLine("cases", process=1, at_s=1.0),
            StartLine("beside", process=2, at_s=1.0),
            StartLine("first", process=3, at_s=6.0),  # a retry, in a process of its own
            StartLine("killed", process=3, at_s=8.0),
            StartLine("untimed", process=4, at_s=8.0),
            StartLine("open", process=5, at_s=9.5),
            StartLine("received", process=5),
        ),
        results=(
            Result("first", "failed", process=1, at_s=0.9),
            Result("cases", "passed", case="a", process=1, at_s=2.0),
            Result("cases", "passed", case="b", process=1, at_s=4.0),
            Result("beside", "passed", process=2, at_s=5.0),
            Result("first", "passed", process=3, at_s=7.0, try_number=2),
            Result("untimed", "passed", process=4),
        ),
        process_ends=(ProcessEndLine(3, "out_of_memory", at_s=9.0),),
    )
    seen = {at: units_at(at, record) for at in (0.5, 3.0, 4.5, 5.5, 6.5, 8.5, 9.2, 99.0)}
    assert seen == {
        0.5: ["first"],
        3.0: ["beside", "cases"],
        4.5: ["beside"],
        5.5: [],
        6.5: ["first"],
        8.5: ["killed"],
        9.2: [],
        99.0: ["open"],
    }


def test_units_keep_their_suite_and_variant() -> None:
    record = Record("x", None, starts=(StartLine("t", "s", "v", 1, 0.0),), samples=(
        SampleLine(0.5, gpu_bytes={"0": 1}),))  # fmt: skip
    assert leg_machine_use(record).gpu_total == MemoryMoment(1, 0.5, (UnitKey("s", "v", "t"),))


SIZES = st.none() | st.integers(0, 1 << 40)


@given(st.lists(st.builds(
    SampleLine,
    at_s=st.floats(0, 1e6),
    available_bytes=SIZES, headroom_bytes=SIZES, swap_used_bytes=SIZES,
    stalled_s=st.none() | st.floats(0, 1e6),
    gpu_bytes=st.dictionaries(st.sampled_from("01"), st.integers(0, 1 << 40)),
)))  # fmt: skip
def test_bounds_of_any_samples(samples: list[SampleLine]) -> None:
    found = machine_use(samples)
    if found.gpu_total is not None:
        most = max(found.gpu_bytes.values())
        assert most <= found.gpu_total.size_bytes <= sum(found.gpu_bytes.values())
    assert found.swap_growth is None or found.swap_growth.size_bytes >= 0
    last_s = max((one.stalled_s for one in samples if one.stalled_s is not None), default=None)
    if found.stalls is not None and last_s is not None:
        assert found.stalls.stalled_s >= last_s * (1 - 1e-9)
    assert (found.stalls is None) == (last_s is None)
