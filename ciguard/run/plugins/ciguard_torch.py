"""GPU memory of the tested process over one test, as torch's allocator counts it.

Only where a test has imported torch and initialised CUDA: nothing here imports torch, or would make
a context on a device. Lies beside `ciguard_pytest.py`. Standard library only, Python 3.8+.

The peak is that of allocated bytes, summed over the devices. Reserved bytes hold the cache that
earlier tests left as well, and torch returns that cache before it reports out of memory: the limit
of a device acts on what is allocated.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Optional


def reset_gpu_peak() -> None:
    """Begin the peak of each device anew."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        with contextlib.suppress(Exception):  # a test's stand-in, or a device after an error
            for device in _devices(torch):
                torch._C._cuda_resetPeakMemoryStats(device)


def gpu_peak_bytes() -> Optional[int]:
    """Return the sum of the devices' peaks; None where CUDA is not initialised."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        with contextlib.suppress(Exception):
            # `torch.cuda.max_memory_allocated` takes ten times as long.
            stats = [torch._C._cuda_memoryStats(device) for device in _devices(torch)]
            peaks = [int(one["allocated_bytes"]["all"]["peak"]) for one in stats]
            return sum(peaks) if peaks else None
    return None


def _devices(torch: Any) -> range:
    # "is True": a stand-in answers anything with an object that counts as true.
    return range(torch.cuda.device_count() if torch.cuda.is_initialized() is True else 0)
