"""How much of the machine's CPU time other programs use while one of ours runs.

The kernel counts the time of all processors, and what a hypervisor takes from them (proc(5),
/proc/stat). Less what we and our children had, this is the load of others. Only on Linux.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

STAT: Final = "/proc/stat"
# Fields of the first line: user nice system idle iowait irq softirq steal, then guests, whose time
# is in `user` already.
FIELDS: Final = 8
IDLE, IOWAIT = 3, 4


def parse_stat(content: bytes) -> tuple[int, int] | None:
    """Clock ticks in which processors worked, and all that they had; None if it says neither."""
    words = content.split(b"\n", 1)[0].split()[1 : FIELDS + 1]
    if not content.startswith(b"cpu ") or not all(word.isdigit() for word in words):
        return None
    ticks = [*map(int, words)]
    if len(ticks) < FIELDS:
        return None
    return sum(ticks) - ticks[IDLE] - ticks[IOWAIT], sum(ticks)


class LoadMeter:
    """Measures from its creation on."""

    def __init__(self, path: str = STAT) -> None:
        self._path = path
        self._began = self._read()

    def external_cpu_ratio(self) -> float | None:
        """Share of the machine's CPU time that others used; None where that is not known.

        Of children only those count as ours that were waited for.
        """
        began, now = self._began, self._read()
        if began is None or now is None or now[1] <= began[1]:
            return None
        busy, total, own = (after - before for before, after in zip(began, now, strict=True))
        return min(1.0, max(0.0, (busy - own) / total))

    def _read(self) -> tuple[float, float, float] | None:
        content = b""
        with contextlib.suppress(OSError), open(self._path, "rb") as stream:  # noqa: PTH123
            content = stream.read()
        found = parse_stat(content)
        if found is None:
            return None
        times = os.times()
        own_s = times.user + times.system + times.children_user + times.children_system
        return found[0], found[1], own_s * os.sysconf("SC_CLK_TCK")
