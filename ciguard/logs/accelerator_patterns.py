"""Log patterns of XLA, TensorFlow, PyTorch and CUDA: memory and compilation.

Sources: openxla/xla (hlo_rematerialization.cc, slow_operation_alarm.cc), tsl/framework
(bfc_allocator.cc), EnzymeAD/Reactant.jl (Stats.jl), pytorch c10/cuda (CUDACachingAllocator.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from ciguard.logs.pattern import Better, LogPattern, out_of_memory, suspected_oom
from ciguard.logs.values import LogValue

ALLOCATOR: Final = "allocator"
_BLOCK: Final = f"{ALLOCATOR}.block"
_STAGE: Final = "julia.stage"
# Fields of `AllocatorStats`: name in C++, label in Reactant's output, and better direction.
_ALLOCATOR_FIELDS: Final[tuple[tuple[str, str, Better], ...]] = (
    ("bytes_in_use", "In Use", "lower"),
    ("peak_bytes_in_use", "Peak In Use", "lower"),
    ("largest_alloc_size", "Largest Alloc Size", "lower"),
    ("bytes_limit", "Limit", ""),
    ("bytes_reserved", "Reserved", "lower"),
    ("peak_bytes_reserved", "Peak Reserved", "lower"),
    ("bytes_reservable_limit", "Reservable Limit", ""),
    ("largest_free_block_bytes", "Largest Free Block", ""),
    ("pool_bytes", "Pool", ""),
    ("peak_pool_bytes", "Peak Pool", ""),
)
# Common words: a line with one is of an allocator only inside the frame of a message of Julia.
_COMMON_WORDS: Final = frozenset({"Limit", "Reserved", "Pool"})
# A line may begin with the progress that a test framework prints.
_BOX: Final = r"^(?:[\w./-]{1,200}\.py )?[.FEsxXR]?[\s│|]*"
_FRAME: Final = r"^\s*[│|][\s│|]*"
_SIZE_TEXT: Final = r"[\d.]+[KMGTP]?i?B"


def _allocator_rows() -> tuple[LogPattern, ...]:
    rows = []
    for field, label, better in _ALLOCATOR_FIELDS:
        frame = _FRAME if label in _COMMON_WORDS else _BOX
        spellings = (
            rf"{_BOX}{field}:\s*(?P<value>\d+)\s*$",
            rf"{frame}{label}: (?P<value>\d+(?:\.\d+)?) (?P<value_unit>bytes?|[KMGTP]iB)\s*$",
        )
        rows += [
            LogPattern(
                f"{ALLOCATOR}.{field}", pattern, fields={"value": "B"},
                better=better, exact=True, contexts=(_STAGE, _BLOCK),
            )
            for pattern in spellings
        ]  # fmt: skip
    return tuple(rows)


PATTERNS: Final = (
    LogPattern(  # as programs name it: `[ Info: [0] Compiling first_time_step!...`
        _STAGE,
        r"^\s*[\[┌] Info: (?:\[\d+\] )?(?P<stage>(?:Compiling|Generating|[Rr]unning) [\w !]{1,60})",
        ("Info: ",),
        kind="context",
        key=("stage",),
    ),
    LogPattern(
        "xla.rematerialization",
        r"hlo_rematerialization\.cc:(?P<source_line>\d+)\]\s+Can't reduce memory use below "
        rf"(?P<limit_bytes_text>{_SIZE_TEXT}) \((?P<limit_bytes>\d+) bytes\) by rematerialization; "
        rf"only reduced to (?P<after_bytes_text>{_SIZE_TEXT}) \((?P<after_bytes>\d+) bytes\), "
        rf"down from (?P<before_bytes_text>{_SIZE_TEXT}) \((?P<before_bytes>\d+) bytes\)",
        fields={"after_bytes": "B", "before_bytes": "B"},
        key=("limit_bytes",),  # of a kernel; the source line differs between commits of XLA
        better="lower",
        exact=True,
        contexts=(_STAGE,),
    ),
    LogPattern(
        "xla.slow_compile",
        r"\[Compiling module (?P<module>[\w.]+)\] Very slow compile\?",
        key=("module",),
        better="lower",
    ),
    LogPattern(
        "xla.operation",
        r"slow_operation_alarm\.cc:\d+\] The operation took "
        r"(?P<seconds>(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?s)",
        fields={"seconds": "hms"},
        better="lower",
    ),
    out_of_memory(
        "xla.out_of_memory",
        r"RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
        r"(?:(?P<requested_bytes>\d+) byte|(?P<requested>[\d.]+)(?P<requested_unit>[KMGTP]?i?B) "
        r"with allocator (?P<allocator>\w+))",  # the second by JAX 0.11
        fields={"requested_bytes": "B", "requested": "B"},
        key=("allocator",),
    ),
    LogPattern(
        _BLOCK,
        r"┌ Info: \[(?P<rank>\d+)\] allocations\s*$",
        kind="context",
        key=("rank",),
        lines=20,  # a block has 13
    ),
    LogPattern(
        f"{ALLOCATOR}.allocations",
        rf"{_BOX}(?:num_allocs|Num Allocs):\s*(?P<value>\d+)\s*$",
        ("num_allocs:", "Num Allocs:"),
        fields={"value": ""},
        exact=True,
        contexts=(_STAGE, _BLOCK),
    ),
    *_allocator_rows(),
    out_of_memory(
        f"{ALLOCATOR}.out_of_memory",
        rf"Allocator \((?P<allocator>\w+)\) ran out of memory trying to allocate "
        rf"(?P<requested_text>{_SIZE_TEXT})\s*\(rounded to (?P<requested_bytes>\d+)\)",
        fields={"requested_bytes": "B"},
        key=("allocator",),  # it holds the device: GPU_2_bfc
    ),
    LogPattern(  # no failure: TensorFlow continues
        f"{ALLOCATOR}.retry",
        r"Allocator \((?P<allocator>\w+)\) ran out of memory trying to allocate "
        r"(?P<requested>[\d.]+)(?P<requested_unit>[KMGTP]?i?B) with freed_by_count=(?P<freed>\d+)\."
        r" The caller indicates that this is not a failure",
        fields={"requested": "B"},
        key=("allocator",),
    ),
    suspected_oom(  # TensorFlow prints it as information, and tries a smaller size
        "cuda.out_of_memory",
        r"failed to allocate (?P<requested_text>[\d.]+[KMGT]?) \((?P<requested_bytes>\d+) bytes\) "
        r"from device: CUDA_ERROR_OUT_OF_MEMORY",
        fields={"requested_bytes": "B"},
    ),
    out_of_memory(
        "torch.out_of_memory",
        r"CUDA out of memory\. Tried to allocate (?P<requested>[\d.]+) "
        r"(?P<requested_unit>[KMGT]iB|bytes)(?:\. | \()GPU (?P<gpu>\d+)(?: has a total|;)",
        fields={"requested": "B"},
        key=("gpu",),
    ),
    out_of_memory(  # by CuPy, Numba, and CUDA's runtime
        "cuda.allocation",
        r"OutOfMemoryError: Out of memory allocating (?P<requested>[\d,]+) bytes"
        r"|results in CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation",
        ("Out of memory alloc", "results in CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation"),
        fields={"requested": "B"},
    ),
)

# Transient memory of an allocator: peak minus memory in use, of its printed statistics.
TRANSIENT: Final = f"{ALLOCATOR}.peak_minus_in_use"
SHARE: Final = f"{TRANSIENT}.share_of_limit"


def is_one_failure(first: LogValue, second: LogValue) -> bool:
    """Return whether two lines in a row are of one failed allocation, in either order."""
    is_pair = {first.name, second.name} == {"xla.out_of_memory", f"{ALLOCATOR}.out_of_memory"}
    return is_pair and second.value == first.value and second.place.line == first.place.line + 1


def transient_memory(values: Iterable[LogValue]) -> Iterator[LogValue]:
    """Yield peak minus memory in use of each block, in bytes and in percent of its limit.

    Args:
        values: of one log, in its order; values on consecutive lines are of one block.
    """
    block: dict[str, LogValue] = {}
    line = 0
    for value in values:
        if not value.name.startswith(f"{ALLOCATOR}.") or value.kind != "metric":
            continue
        if value.place.line > line + 1 or value.name in block:
            yield from _transient_of(block)
            block = {}
        block[value.name] = value
        line = value.place.line
    yield from _transient_of(block)


def _transient_of(block: dict[str, LogValue]) -> Iterator[LogValue]:
    peak, used = (
        block.get(f"{ALLOCATOR}.{name}") for name in ("peak_bytes_in_use", "bytes_in_use")
    )
    if peak is None or used is None:
        return
    resolution = max(peak.resolution, used.resolution)
    amount = replace(
        peak, name=TRANSIENT, value=peak.value - used.value, resolution=resolution, facts=()
    )
    yield amount
    limit = block.get(f"{ALLOCATOR}.bytes_limit")
    if limit is not None and limit.value > 0:
        percent = 100 / limit.value
        yield replace(
            amount, name=SHARE, unit="%",
            value=amount.value * percent, resolution=resolution * percent,
        )  # fmt: skip
