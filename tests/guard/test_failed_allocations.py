"""What a test or a leg had asked for when memory ran out, out of the lines of real programs."""

from __future__ import annotations

import pytest
from guard.damages import dies_in_its_last_test
from guard.fake_jobs import FakeRunApi, failed, verdict_of
from guard.fixtures import World, text_of

from ciguard.guard.json import as_json
from ciguard.guard.log_patterns import failed_allocation

XLA = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 51712165888 bytes."
BFC = (
    "W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_2_bfc) ran out of memory"
    " trying to allocate 48.16GiB (rounded to 51712165888)requested by op"
)
TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.78 GiB. GPU 0 has a total "
    "capacity of 31.47 GiB of which 12.73 GiB is free. Including non-PyTorch memory, this process "
    "has 18.73 GiB memory in use. Of the allocated memory 9.08 GiB is allocated by PyTorch, and "
    "9.31 GiB is reserved by PyTorch but unallocated."
)
NUMPY = (
    "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 58.0 GiB for an array with shape "
    "(176351, 176460) and data type uint16"
)
GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "requested", "device"),
    [
        (f"E   jaxlib.xla_extension.XlaRuntimeError: {XLA}", 51712165888, ""),
        (f"{BFC}\nExecution of replica 0 failed: {XLA}", 51712165888, "GPU_2_bfc"),
        (f"XlaRuntimeError: {XLA}\n{BFC}", 51712165888, "GPU_2_bfc"),
        (TORCH, round(22.78 * GIB), "GPU 0"),
        (NUMPY, 58 * GIB, ""),
    ],
)
def test_requested_bytes_and_device_are_read(text: str, requested: int, device: str) -> None:
    found = failed_allocation(text)
    assert found is not None
    assert found.facts == {"requested_bytes": requested, "device": device}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "MemoryError",
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.10GiB with freed_by_count=0."
        " The caller indicates that this is not a failure, but may mean that there could be",
    ],
)
def test_no_number_and_no_failure_is_none(text: str) -> None:
    assert failed_allocation(text) is None


def test_failed_test_says_what_it_had_asked_for() -> None:
    world = World()
    message = f"XlaRuntimeError: {XLA}\n{BFC}"
    world.result("01", "a.t::two", outcome="failed", ending="out_of_memory", message=message)
    verdict = world.prove()
    assert "out of memory, asked for 48.2 GiB on GPU_2_bfc" in " ".join(text_of(verdict).split())
    (failure,) = as_json(verdict)["failures"]
    expected = {"requested_bytes": 51712165888, "device": "GPU_2_bfc"}
    assert failure["failed_allocation"] == expected


def test_dead_leg_quotes_the_log_of_its_job() -> None:
    world = World()
    dies_in_its_last_test(world)
    log = f"2026-08-23T09:39:11.0000000Z {BFC}\n2026-08-23T09:39:12.0000000Z Aborted\n"
    text = text_of(verdict_of(world, FakeRunApi((failed(),), logs={"03": log})))
    assert "asked for 48.2 GiB on GPU_2_bfc" in " ".join(text.split())
