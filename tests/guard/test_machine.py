"""A leg that swapped, waited for memory or used GPUs: beside its times, and with what ran then."""

from __future__ import annotations

from dataclasses import replace

from guard.fixtures import MIB, World, make_leg, make_plan, text_of

from ciguard.guard.json import as_json
from ciguard.guard.view import document
from ciguard.model import EndLine, Line, Runner, SampleLine
from ciguard.render.markdown import as_markdown

GIB = 1024 * MIB


def world(samples: dict[str, list[SampleLine]], shards: int = 3) -> World:
    """Shards of three tests, of 1 s each, that ran with these samples."""
    names = [f"{number:02}" for number in range(1, shards + 1)]
    plan = make_plan({key: tuple(f"t{key}::{n}" for n in range(3)) for key in names})
    legs = {key: make_leg(plan, key) for key in names}
    for key, found in samples.items():
        legs[key].header = replace(legs[key].header, runner=Runner("p", 4, 16 * GIB))
        own: list[Line] = [one for one in legs[key].own if not isinstance(one, SampleLine)]
        legs[key].own = [own[0], *found, *own[1:]]
    return World(plan, legs)


SWAPPED = [
    SampleLine(0.5, tree_bytes=MIB, swap_used_bytes=100 * MIB, stalled_s=0.0, fully_stalled_s=0.0),
    SampleLine(1.5, swap_used_bytes=1324 * MIB, stalled_s=1.25, fully_stalled_s=0.5),
    SampleLine(2.5, swap_used_bytes=300 * MIB, stalled_s=1.5, fully_stalled_s=0.5),
]
ON_GPUS = [
    SampleLine(0.5, gpu_bytes={"0": 20 * GIB}, available_bytes=9 * GIB, headroom_bytes=9 * GIB),
    SampleLine(2.5, gpu_bytes={"0": 12 * GIB, "1": 18 * GIB}, headroom_bytes=700 * MIB),
]


def test_a_leg_that_swapped_says_so_beside_its_time() -> None:
    text = text_of(world({"02": SWAPPED}).prove())
    assert "3.10 s, swapped 1.20 GiB, stalled 1.50 s" in " ".join(text.split())
    assert text.count("swapped") == 1
    rows = " ".join(text.partition("Swap, stalls, memory and GPUs:")[2].split())
    assert "02 swap growth 1.20 GiB 1.50 s t02::1" in rows
    assert "02 waiting for memory 1.50 s of 3.10 s 1.50 s t02::1" in rows


def test_gpus_and_little_memory_are_shown_with_what_ran() -> None:
    text = " ".join(text_of(world({"01": ON_GPUS}).prove()).split())
    row = "01 measure GPU memory, value GPU 0 20.0 GiB, GPU 1 18.0 GiB, together 30.0 GiB"
    assert row in text
    assert "value 700 MiB of 16.0 GiB" in text
    assert "running t01::2" in text
    assert "swapped" not in text


OVERLAP = [
    SampleLine(0.5, peak_processes={"p": 1 * GIB, "p/worker": 50 * GIB}),
    SampleLine(1.5, peak_processes={"p": 1 * GIB, "p/worker": 51 * GIB, "p/profiler": 3 * GIB},
               gpu_bytes={"0": 52 * GIB}),
    SampleLine(2.5, peak_processes={"p": 1 * GIB, "p/profiler": 2 * GIB}),
]  # fmt: skip


def test_programs_that_overlap_at_the_peak_are_named() -> None:
    dead = world({"01": OVERLAP})
    dead.drop("01", EndLine)
    text = " ".join(text_of(dead.prove()).split())
    evidence = "worker 51.0 GiB, profiler 3.00 GiB, p 1.00 GiB, GPU 52.0 GiB; one at a time:"
    assert f"peak programs: most memory at 1.50 s: {evidence} 52.0 GiB" in text
    row = "value worker 51.0 GiB + profiler 3.00 GiB + p 1.00 GiB, GPU 52.0 GiB; one at a time:"
    assert f"01 measure peak of several programs, {row} 52.0 GiB" in text


def test_a_leg_with_nothing_to_tell_has_no_row() -> None:
    quiet = [SampleLine(0.5, available_bytes=9 * GIB, headroom_bytes=9 * GIB, swap_used_bytes=5,
                        stalled_s=0.2), SampleLine(1.5, swap_used_bytes=6 * MIB)]  # fmt: skip
    text = text_of(world({"01": quiet}).prove())
    assert "Swap" not in text
    assert "stalled" not in text


def test_json_has_the_fields_of_each_leg() -> None:
    first, second, third = as_json(world({"01": ON_GPUS, "02": SWAPPED}).prove())["legs"]
    assert first["machine"] == {
        "gpu_bytes": {"0": 20 * GIB, "1": 18 * GIB},
        "gpu_total": {
            "size_bytes": 30 * GIB,
            "at_s": 2.5,
            "units": [{"suite": "", "variant": "", "unit": "t01::2"}],
        },
        "least_available": {
            "size_bytes": 9 * GIB,
            "at_s": 0.5,
            "units": [{"suite": "", "variant": "", "unit": "t01::0"}],
        },
        "least_headroom": {
            "size_bytes": 700 * MIB,
            "at_s": 2.5,
            "units": [{"suite": "", "variant": "", "unit": "t01::2"}],
        },
        "swap_growth": None,
        "stalls": None,
        "peak": None,
    }
    assert second["machine"]["stalls"]["fully_stalled_s"] == 0.5
    assert second["machine"]["swap_growth"]["size_bytes"] == 1224 * MIB
    assert third["machine"]["gpu_total"] is None


def test_128_legs_do_not_give_128_rows() -> None:
    names = [f"{number:02}" for number in range(1, 129)]
    busy = [
        *SWAPPED[:1],
        replace(SWAPPED[1], gpu_bytes={"0": GIB}, headroom_bytes=MIB),
        *SWAPPED[2:],
    ]
    verdict = world(dict.fromkeys(names, busy), 128).prove()
    for text in (text_of(verdict), as_markdown(document(verdict))):
        # Three shards of each measure, so that none hides another one.
        for measure in ("swap growth", "waiting for memory", "least memory left", "GPU memory"):
            assert text.count(measure) == 3, measure
        assert "500 more measures" in text
