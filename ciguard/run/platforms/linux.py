"""Linux: everything is measured and guarded, from /proc and the cgroups."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, Mapping, Optional, Sequence, Tuple

assert sys.platform != "win32"

from ciguard.run.guardrail import MEMINFO, Guardrail
from ciguard.run.keeper import become_subreaper
from ciguard.run.platforms.linux_instruments import LinuxInstruments
from ciguard.run.platforms.posix import EXIT_OF, wait, wakeup
from ciguard.run.probes import TreeMemory
from ciguard.run.tested import TestedProcess

if TYPE_CHECKING:
    from ciguard.run.platforms.base import Headroom, Instruments, Tested, Tree

__all__ = ["EXIT_OF", "LACKS", "NAME", "adopt_orphans", "cpus", "headroom"]
__all__ += ["instruments", "start", "tree", "wait", "wakeup"]

NAME: Final = "linux"
LACKS: Final[Tuple[str, ...]] = ()


def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    log: str,
    *,
    stdin: Optional[int] = None,
) -> Tested:
    """Behind a keeper that is the subreaper of its tree."""
    return TestedProcess(argv, env, cwd, log, stdin=stdin)


def adopt_orphans() -> None:
    """Of a keeper that is itself killed."""
    become_subreaper()


def tree(process: Tested) -> Tree:
    """From kept `statm` descriptors."""
    return TreeMemory(process.root)


def instruments(environ: Mapping[str, str]) -> Instruments:
    """Windows, pressure, GPUs."""
    return LinuxInstruments(environ)


def headroom(meminfo: Optional[str]) -> Headroom:
    """/proc/meminfo and the cgroups above us."""
    return Guardrail(meminfo or MEMINFO)


def cpus() -> Optional[int]:
    """Fewer than there are in a container or under taskset."""
    if hasattr(os, "sched_getaffinity"):  # another Unix has not
        return len(os.sched_getaffinity(0))
    return os.cpu_count()
