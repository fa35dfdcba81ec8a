"""What Linux has besides: cgroups, marks that can be reset, pressure, shared pages, GPUs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, cast

assert sys.platform != "win32"

from ciguard.run.cgroups import SUDO, Groups, Hands
from ciguard.run.gpus import Gpus
from ciguard.run.marks import Windows
from ciguard.run.probes import Pressure, SharingNearPeak, TreeMemory

if TYPE_CHECKING:
    from typing import Dict, List

    from ciguard.run.platforms import base


class LinuxInstruments:
    """Those of one leg.

    Args:
        environ: the leg's own environment.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        # In Actions the machine is the job's, and who may be root there may use it; elsewhere a
        # program that asks for it unasked is a nuisance.
        in_actions = environ.get("GITHUB_ACTIONS") == "true"
        self._groups = Groups([Hands(), Hands(SUDO)] if in_actions else [Hands()])
        self._gpus = Gpus(environ.get("PATH"))
        self._pressure, self._sharing = Pressure(), SharingNearPeak()

    @property
    def lacks(self) -> str:
        """Why processes have no cgroup of their own."""
        return self._groups.lacks and f"a cgroup for each process ({self._groups.lacks})"

    def group(self, process: int) -> Optional[base.Group]:
        """A new cgroup, if one can be made."""
        return self._groups.make(process)

    def settled(self, group: Optional[base.Group]) -> Optional[base.Group]:
        """The group, if the process could be put into it."""
        return self._groups.settled(cast("Any", group))

    def windows(self, tree: base.Tree) -> Optional[base.Windows]:
        """Of the processes that have this leg's pid as MARKED_BY."""
        return Windows(cast("TreeMemory", tree), str(os.getpid()))

    def look(self, now_s: float, trees: Sequence[base.Tree], size: int) -> Mapping[str, Any]:
        """Ask in its time what is dear; what has just been answered, as fields of a sample."""
        pids: List[int] = [pid for tree in trees for pid in cast("TreeMemory", tree).pids()]
        found: Dict[str, Any] = {}
        sharing = self._sharing.look(now_s, size, pids)
        if sharing is not None:
            found["pss_ratio"] = sharing.pss_ratio
            found["tree_swap_bytes"] = sharing.swap_bytes
        gpu_bytes = self._gpus.look(now_s, pids)
        if gpu_bytes:
            found["gpu_bytes"] = gpu_bytes
        return found

    def pressure(self) -> Mapping[str, float]:
        """Since the leg's start, as fields of a sample."""
        some_s, all_s = self._pressure.stalled_s()
        if some_s is None or all_s is None:
            return {}
        return {"stalled_s": some_s, "fully_stalled_s": all_s}

    def close(self) -> None:
        """Remove what was made."""
        self._groups.close()
        self._gpus.close()
        self._pressure.close()
