"""Many failures, few causes; one row for a test of several combinations; failed allocations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from guard.damages import dies_in_its_last_test
from guard.fake_jobs import FakeRunApi, failed, verdict_of
from guard.fixtures import World, make_leg, make_plan, passed, text_of
from hypothesis import given
from hypothesis import strategies as st

from ciguard.codec import plan_file
from ciguard.document import plain
from ciguard.guard.annotations_and_outputs import annotations_of
from ciguard.guard.failure_groups import find_hotspots, group_failures, origin_spans, summary_line
from ciguard.guard.headline import headline
from ciguard.guard.json import as_json
from ciguard.guard.log_patterns import failed_allocation
from ciguard.guard.verdict import Failure, Hotspot
from ciguard.guard.view import document
from ciguard.model import Plan, Result, Suite, Variant
from ciguard.render.markdown import as_markdown
from ciguard.render.variant_groups import fingerprint

NET = """System.OutOfMemoryException : Exception of type 'System.OutOfMemoryException' was thrown.
   at System.GC.AllocateNewArray(IntPtr typeHandle, Int32 length, GC_ALLOC_FLAGS flags)
   at Shop.Tensors.Tensor`1.Allocate(Int32[] shape) in /_/src/Tensors/Tensor.cs:line 4{0}
   at Shop.Tests.Layers{0}.Runs() in /_/tests/Layers.cs:line {0}"""
JAVA = """java.lang.OutOfMemoryError: Java heap space
\tat java.base/java.util.Arrays.copyOf(Arrays.java:3541)
\tat com.shop.Big.grow(Big.java:3{0})"""
NODE = """TypeError: Cannot read properties of undefined (reading 'price')
    at Object.<anonymous> (/builds/shop/test/cart{0}.test.js:3:4)
    at Cart.total (/builds/shop/src/cart.js:9:1{0})"""
JEST = """Error: thrown: "no {0}"
    at _getError (/builds/shop/node_modules/jest-circus/build/jestAdapterInit.js:1985:12)
    at checkout (/builds/shop/src/till.js:4:1{0})"""
WRAPPED = """System.TypeInitializationException : The type initializer of C{0} threw.
---- System.OutOfMemoryException : Exception of type 'System.OutOfMemoryException' was thrown.
   at Shop.C{0}..cctor() in /_/src/C.cs:line 3
   at Shop.Tests.Layers{0}.Runs() in /_/tests/Layers.cs:line {0}"""
TRACEBACK = """Traceback (most recent call last):
  File "/builds/shop/tests/test_a.py", line 3, in test_{0}
  File "/builds/shop/shop/db.py", line 17, in connect
  File "/opt/venv/lib/python3.11/site-packages/driver/core.py", line 9, in dial
ConnectionError: refused"""


def failure(unit: str, message: str | None = None, shard: str = "01", **more: Any) -> Failure:
    outcome = more.pop("outcome", "failed")
    return Failure(shard, Result(unit, outcome, message=message, **more))


def lines(*failures: Failure) -> list[str]:
    return [summary_line(cause, 78) for cause in group_failures(failures)]


def test_950_stacks_are_one_line() -> None:
    failures = [
        failure(f"Shop.Tests.Layers{n}.Runs", NET.format(n), f"{n % 7 + 1:02}") for n in range(950)
    ]
    assert lines(*failures) == ["950 x OutOfMemoryException in Tensor.Allocate (7 shards)"]


ALLOCATION = """System.OutOfMemoryException : Array dimensions exceeded supported range.
   at System.GC.AllocateUninitializedArray[T](Int32 length, Boolean pinned)
   at AiDotNet.Tensors.Helpers.TensorAllocator.Rent[T](Int32[] shape) in /_/src/Pool.cs:line 88
   at AiDotNet.NeuralNetworks.Layers.{layer}`1..ctor(Int32 size) in /_/src/Layers.cs:line 367
   at AiDotNet.Diffusion.{predictor}`1.InitializeLayers() in /_/src/Predictor.cs:line 141
   at AiDotNet.Diffusion.{predictor}`1..ctor(Int32 depth) in /_/src/Predictor.cs:line 99
   at AiDotNet.Diffusion.Video.{model}Model`1.InitializeLayers() in /_/src/Model.cs:line 61
   at AiDotNet.Tests.Diffusion.{model}ModelTests.CreateModel() in /_/tests/Model.cs:line 12
   at AiDotNet.Tests.Base.DiffusionModelTestBase.{test}() in /_/tests/Base.cs:line 332"""


def _allocations(count: int, layers: tuple[str, ...], others: int = 0) -> list[Failure]:
    return [
        failure(
            f"AiDotNet.Tests.Diffusion.Video{n % 40}ModelTests.Case{n}",
            ALLOCATION.format(
                layer=layers[n % len(layers)],
                predictor="UNet" if n < others else "DiTNoisePredictor",
                model=f"Video{n % 40}",
                test=f"Case{n}",
            ),
        )
        for n in range(count)
    ]


def test_shared_caller_of_an_allocator_is_named() -> None:
    """950 tests fail in the allocator: the callers tell that one predictor is their cause."""
    (cause,) = group_failures(_allocations(950, ("DenseLayer", "DenseLayer", "Norm"), others=10))
    assert (cause.frame, cause.caller, cause.caller_failures, cause.dividing) == (
        *("TensorAllocator.Rent", "DiTNoisePredictor.InitializeLayers", 940),
        {"DenseLayer..ctor": 634, "Norm..ctor": 316},
    )
    origin = (
        " in TensorAllocator.Rent, from DiTNoisePredictor.InitializeLayers (940 of 950)"
        ", through DenseLayer..ctor (634), Norm..ctor (316)"
    )
    assert "".join(plain(part) for part in origin_spans(cause)) == origin
    short = "950 x OutOfMemoryException in TensorAllocator.Rent (1 shard)"
    assert summary_line(cause, 78) == short
    assert summary_line(cause, 200) == f"950 x OutOfMemoryException{origin} (1 shard)"


def test_stacks_that_agree_divide_at_the_callers_of_the_shared_class() -> None:
    (cause,) = group_failures(_allocations(80, ("DenseLayer",)))
    assert (cause.caller, cause.caller_failures) == ("DiTNoisePredictor.InitializeLayers", 80)
    assert len(cause.dividing) == 40
    assert plain(origin_spans(cause)[2]) == (
        ", through Video0Model.InitializeLayers (2), Video10Model.InitializeLayers (2) and 38 more"
    )


def test_callers_without_a_majority_are_counted() -> None:
    causes = group_failures(_allocations(10, ("DenseLayer", "Norm"), others=4))
    assert [(cause.caller, dict(cause.dividing)) for cause in causes] == [
        ("", {"DenseLayer..ctor": 5, "Norm..ctor": 5})
    ]


def test_code_of_tests_is_no_shared_caller() -> None:
    """Helpers of tests and the test's own function are in the stacks of all tests below them."""
    causes = group_failures(
        [failure(f"Shop.Tests.Layers{n}.Runs", NET.format(n)) for n in range(3)]
        + [failure(f"tests/test_a.py::test_{n}", TRACEBACK.format(n)) for n in range(3)]
    )
    assert {(cause.frame, cause.caller, *cause.dividing) for cause in causes} == {
        ("Tensor.Allocate", ""),
        ("connect", ""),
    }


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (JAVA, "2 x OutOfMemoryError in Big.grow (1 shard)"),
        (NODE, "2 x TypeError in Cart.total (1 shard)"),
        (JEST, "2 x Error in checkout (1 shard)"),
        (TRACEBACK, "2 x ConnectionError in connect (1 shard)"),
        ("lib/x.py:1{0}: KeyError: 'u{0}'", "2 x KeyError in lib/x.py: 'u#' (1 shard)"),
        ("tests/a.py:{0}: assert {0} == 3", "2 x failed: assert # == # (1 shard)"),
        ("tests/a.py:{0}: Exit: {0}", "2 x Exit: # (1 shard)"),
        ("MemoryError", "2 x MemoryError (1 shard)"),
        ("terminate called: std::bad_alloc {0}", "2 x failed: terminate called: std::bad_alloc #"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried 1.{0} GiB", "2 x OutOfMemoryError: CU"),
        ("E   ValueError: no\nE   at all {0}", "2 x ValueError: no (1 shard)"),
        ("NotAnErrorAtAll {0}", "2 x failed: NotAnErrorAtAll # (1 shard)"),
        ("", "2 x failed (1 shard)"),
    ],
)
def test_failures_are_grouped_by_frame_or_message(message: str, line: str) -> None:
    found = lines(*(failure(f"tests/a.py::test_{n}", message.format(n)) for n in (1, 2)))
    assert len(found) == 1
    assert found[0].startswith(line)


def test_root_exception_names_the_cause() -> None:
    failures = [failure(f"Shop.Tests.Layers{n}.Runs", WRAPPED.format(n)) for n in (1, 2)]
    assert {cause.kind for cause in group_failures(failures)} == {"OutOfMemoryException"}
    java = (
        "java.util.concurrent.ExecutionException: no\nCaused by: java.lang.OutOfMemoryError: heap"
    )
    (cause,) = group_failures([failure("a", java)])
    assert cause.kind == "OutOfMemoryError"


@given(st.lists(st.text() | st.text("at (.:/\n Error0aF\"'E<>", max_size=80), max_size=12))
def test_any_message_is_in_exactly_one_cause(messages: list[str]) -> None:
    failures = [failure(f"u{n}", message) for n, message in enumerate(messages)]
    causes = group_failures(failures)
    assert sorted(one.result.unit for cause in causes for one in cause.failures) == sorted(
        one.result.unit for one in failures
    )
    assert all(len(summary_line(cause, 78)) <= 78 for cause in causes)
    assert {summary_line(cause, 78) for cause in group_failures(failures[::-1])} == {
        summary_line(cause, 78) for cause in causes
    }


def test_ending_takes_precedence_over_message() -> None:
    found = lines(
        failure("a", "over its limit of 5 s", outcome="died", ending="timeout"),
        failure("b", "over its limit of 90 s", outcome="died", ending="timeout"),
        failure("c", outcome="died", ending="out_of_memory"),
    )
    assert found == ["2 x timeout: over its limit of # s (1 shard)", "1 x out of memory (1 shard)"]


def test_single_failure_has_its_full_message() -> None:
    assert lines(failure("a.py::t", "a.py:3: ValueError: 3 of 4")) == [
        "1 x ValueError: 3 of 4 (1 shard)"
    ]


def test_fingerprint_replaces_variable_parts() -> None:
    output = (
        "0x7f3a: file /tmp/x-1/a_1/b.txt, C:\\a\\b.txt, commit 4f2a91c, "
        "550e8400-e29b-41d4-a716-446655440000, tmpab12x, 3.5 s, 12:30:01"
    )
    assert fingerprint(output) == "#: file <path>, <path>, commit #, #, <temp>, # s, #"
    assert fingerprint("expected a decade, not a facade") == "expected a decade, not a facade"


def test_long_frame_inside_the_test_is_not_used_for_grouping() -> None:
    """103 rows of 21 tests with long names fail alike: one cause."""
    stack = """System.InvalidOperationException : no
   at Shop.Tests.{0}"""
    failures = []
    for n in range(103):
        name = f"Returns_a_receipt_for_an_order_with_{n % 21}_lines_and_a_voucher_of_a_customer"
        failures.append(failure(f"Shop.Tests.Tills.{name}", stack.format(f"Tills.{name}()")))
    assert lines(*failures) == ["103 x InvalidOperationException: no (1 shard)"]


def test_causes_with_long_frames_have_distinct_lines() -> None:
    place = "Subsystem{}.Allocate_the_buffers_of_a_layer_and_its_gradients_at_once_or_not_at_all"
    stack = "System.OutOfMemoryException : no\n   at Shop.{}()"
    causes = group_failures([failure(f"t{n}", stack.format(place.format(n))) for n in range(3)])
    assert len({cause.frame for cause in causes}) == 3


def test_hotspots_by_class_or_file() -> None:
    suites = {"": Suite("pytest", ("x",)), "net": Suite("command", ("x",))}
    causes = group_failures(
        [
            failure("a.py::T::t[1]", "ValueError"),
            failure("a.py::T::t[2]", "MemoryError"),
            failure("a.py::T::u", outcome="died", ending="timeout"),
            failure("a.py::T::v", outcome="died", ending="crash"),
            failure("a.py::w"),
            failure("Shop.Tests.Runs", NET.format(1), suite="net"),
            failure("tests.test_cart::test_adds[invalid/b.c]", suite="net"),
            failure("app/(shop)/[id].test.js::t", suite="net"),
            failure("x", suite="unknown"),
        ]
    )
    assert find_hotspots(causes, suites) == (
        Hotspot("a.py::T", timeouts=1, out_of_memory=1, failures=1, died=1),
        Hotspot("[net] Shop.Tests", out_of_memory=1),
        Hotspot("[net] app/(shop)/[id].test.js", failures=1),
        Hotspot("[net] tests.test_cart", failures=1),
        Hotspot("[unknown] x", failures=1),
        Hotspot("a.py", failures=1),
    )


def test_totals_of_a_large_failing_run() -> None:
    """7 legs, 370 timeouts, 950 out of memory: exact per leg, in the table and as two causes."""
    units = {f"{n:02}": tuple(f"Shop.C{n}.T{i}" for i in range(200)) for n in range(1, 8)}
    world = World(plan=make_plan(units))
    world.legs = {key: make_leg(world.plan, key) for key in units}
    left = {"timeout": 370, "memory": 950}
    for key, names in units.items():
        leg = world.legs[key]
        results = {}
        for name in names:
            kind = next((kind for kind, count in left.items() if count), None)
            if kind == "timeout":
                results[name] = Result(name, "died", ending="timeout", process=1)
            elif kind == "memory":
                results[name] = Result(name, "failed", message=NET.format(1), process=1)
            if kind is not None:
                left[kind] -= 1
        leg.inner = [
            results.get(line.unit, line) if isinstance(line, Result) else line for line in leg.inner
        ]
        counts: dict[str, int] = {}
        for line in leg.inner:
            if isinstance(line, Result):
                counts[line.outcome] = counts.get(line.outcome, 0) + 1
        world.end(key, exit_code=10, counts=counts)
    verdict = world.prove()
    assert headline(verdict) == "FAILED: 1,320 of 1,400 tests failed"
    assert [
        sum(leg.counts.get(word, 0) for word in ("died", "failed")) for leg in verdict.legs
    ] == [*[200] * 6, 120]
    found = [(leg.endings.get("timeout"), leg.endings.get("out_of_memory")) for leg in verdict.legs]
    assert found == [(200, None), (170, 30), *[(None, 200)] * 4, (None, 120)]
    assert verdict.endings == {"timeout": 370, "out_of_memory": 950}
    text = text_of(verdict)
    words = [" ".join(line.split()) for line in text.splitlines()]
    assert "1,320 failures, 2 causes:" in words
    assert "OutOfMemoryException in Tensor.Allocate 950 6 Shop.C2.T170" in words
    assert "timeout 370 2 Shop.C1.T0" in words
    assert sum(one.timeouts for one in verdict.hotspots) == 370
    assert sum(one.out_of_memory for one in verdict.hotspots) == 950
    assert [one.title for one in annotations_of(verdict)] == [
        "950 x OutOfMemoryException in Tensor.Allocate (6 shards)",
        "370 x timeout (2 shards)",
    ]


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
JAX = (
    "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
    "1000.00GiB with allocator GPU_0_bfc on device 0. [tf-allocator-allocation-error='']"
)
CUPY = "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,073,741,824,000 bytes (all"
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
        (JAX, 1000 * GIB, "GPU_0_bfc"),
        (CUPY, 1000 * GIB, ""),
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
        "cudaErrorMemoryAllocation: out of memory",
        "numba.cuda.cudadrv.driver.CudaAPIError: [<CUresult.CUDA_ERROR_OUT_OF_MEMORY: 2>] Call to "
        "cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
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


STACK = """\
stopped: over its limit of 3 s
Current thread 0x{:x} (most recent call first):
  File "/home/runner/shop/t.py", line 18 in settle
"""


def plan_of_combinations(count: int) -> Plan:
    """The tests `t.py::a` and `t.py::b` in a shard for each combination."""
    names = [f"linux, 3.{number}" for number in range(count)]
    made = make_plan({f"{n:02}": ("t.py::a", "t.py::b") for n in range(1, count + 1)})
    shards = tuple(
        replace(shard, units=tuple(replace(unit, variant=name) for unit in shard.units))
        for shard, name in zip(made.shards, names, strict=True)
    )
    variants = {name: Variant(matrix={"v": name}) for name in names}
    made = replace(made, suites={"": Suite("command", ("x",), variants=variants)}, shards=shards)
    return plan_file.decode(plan_file.encode(made), "plan.json")


def failing(count: int, *, fail: int, message: str = "assert {} == 1", **how: str) -> World:
    """`t.py::a` fails in the first `fail` of `count` combinations."""
    world = World(plan_of_combinations(count))
    for number, shard in enumerate(world.plan.shards[:fail]):
        variant = shard.units[0].variant
        text = message.format(number)
        more = {"variant": variant, "message": text, "file": "t.py", "outcome": "failed", **how}
        world.result(shard.key, "t.py::a", **more)
    return world


def test_failure_of_all_combinations_is_one_row_with_one_command() -> None:
    verdict = failing(15, fail=15).prove()
    text = as_markdown(document(verdict))
    (row,) = [line for line in text.splitlines() if line.startswith("| <code>t.py::a")]
    assert row == (
        "| <code>t.py::a</code> in 15 of 15 combinations | failed | "
        "01, 02, 03, 04, 05 and 10 more | <code>assert 0 == 1</code> |"
    )
    assert "15 failures of 1 test" in text
    assert text.count("--until") == 1
    assert "causes" not in text, "one row needs no summary"


def test_combinations_are_named_where_others_passed() -> None:
    text = text_of(failing(3, fail=2).prove())
    assert "t.py::a in 2 of 3 combinations: linux, 3.0; linux, 3.1" in " ".join(text.split())


def test_single_failure_is_named_with_its_combination() -> None:
    text = text_of(failing(3, fail=1).prove())
    assert "[linux, 3.0] t.py::a" in text
    assert "combinations" not in text


def test_different_messages_are_different_failures() -> None:
    world = failing(3, fail=2)
    variant = world.plan.shards[2].units[0].variant
    world.result("03", "t.py::a", variant=variant, outcome="failed", message="ImportError: x")
    text = text_of(world.prove())
    assert "3 failures of 1 test" in text
    assert "in 2 of 3 combinations" in text
    assert "[linux, 3.2] t.py::a" in text


def test_equal_stacks_are_shown_once() -> None:
    verdict = failing(2, fail=2, message=STACK, outcome="died", ending="timeout").prove()
    text = as_markdown(document(verdict))
    assert text.count("t.py:18 settle") == 1
    assert "Stack of the test that hung" in text


def test_shards_without_a_record_are_one_finding() -> None:
    world = World(plan_of_combinations(12))
    for number in range(2, 12):
        del world.legs[f"{number:02}"]
    text = " ".join(text_of(world.prove()).split())
    assert text.count("no record. Check whether") == 1
    assert "10 shards (02, 03, 04, 05, 06, 07, 08, 09, 10, 11): no record." in text


def test_annotation_of_all_combinations_is_one() -> None:
    world = failing(3, fail=2)
    (one,) = annotations_of(world.prove())
    assert (one.title, one.file) == ("t.py::a", "t.py")
    where = "in 2 of 3 combinations: linux, 3.0; linux, 3.1, shards 01, 02"
    assert one.message == f"failed: assert 0 == 1 ({where})"


def test_cause_names_a_test_once() -> None:
    """Too many tests for an annotation each."""
    world = failing(11, fail=11)
    for shard in world.plan.shards:
        variant = shard.units[0].variant
        more = {"variant": variant, "message": "assert 2 == 1", "outcome": "failed"}
        world.result(shard.key, "t.py::b", **more)
    (one,) = annotations_of(world.prove(), most=1)
    assert one.message.splitlines() == ["failed: assert 0 == 1", "t.py::a", "t.py::b"]


def test_test_that_is_flaky_in_several_combinations_is_one_entry() -> None:
    world = World(plan_of_combinations(3))
    for number, shard in enumerate(world.plan.shards[:2]):
        variant = shard.units[0].variant
        message = f"assert {number} == 1"
        world.result(shard.key, "t.py::a", variant=variant, try_number=2)
        first = passed("t.py::a", variant=variant, outcome="failed", try_number=1, message=message)
        world.legs[shard.key].inner.insert(1, first)
    text = " ".join(text_of(world.prove()).split())
    assert "2 flaky tests: failed, then passed" in text
    assert (
        "- t.py::a in 2 of 3 combinations: linux, 3.0; linux, 3.1, in shards 01, 02, "
        "first failed: assert 0 == 1" in text
    )
    assert text.count("t.py::a") == 1
