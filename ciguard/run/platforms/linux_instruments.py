"""What Linux has besides: marks that can be reset, pressure, GPUs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, cast

assert sys.platform != "win32"

from ciguard.run.gpus import Gpus
from ciguard.run.marks import Windows
from ciguard.run.probes import Pressure, TreeMemory

if TYPE_CHECKING:
    from typing import List

    from ciguard.run.platforms import base


class LinuxInstruments:
    """Those of one leg.

    Args:
        environ: the leg's own environment.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._gpus = Gpus(environ.get("PATH"))
        self._pressure = Pressure()

    def windows(self, tree: base.Tree) -> Optional[base.Windows]:
        """Of the processes that have this leg's pid as MARKED_BY."""
        return Windows(cast("TreeMemory", tree), str(os.getpid()))

    def look(self, now_s: float, trees: Sequence[base.Tree]) -> Mapping[str, Any]:
        """Ask for the memory of GPUs when it is due; an answer that came, as fields of a sample."""
        pids: List[int] = [pid for tree in trees for pid in cast("TreeMemory", tree).pids()]
        gpu_bytes = self._gpus.look(now_s, pids)
        return {"gpu_bytes": gpu_bytes} if gpu_bytes else {}

    def pressure(self) -> Mapping[str, float]:
        """Since the leg's start, as fields of a sample."""
        some_s, all_s = self._pressure.stalled_s()
        if some_s is None or all_s is None:
            return {}
        return {"stalled_s": some_s, "fully_stalled_s": all_s}

    def close(self) -> None:
        """Give descriptors back, and stop asking."""
        self._gpus.close()
        self._pressure.close()
