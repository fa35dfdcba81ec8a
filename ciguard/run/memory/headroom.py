"""Memory that is left before the kernel or the platform kills a process, and the kernel's kills.

headroom = min(MemAvailable + half of the free swap, limit - use of each cgroup above the leg). In a
container /proc/meminfo describes the node, so the cgroups count. Page cache that can be dropped
does not count as used. Sources: proc(5); kernel, admin-guide/cgroup-v2.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from ciguard.model import SLOTS
from ciguard.run.platforms.base import Headroom, MachineMemory

assert sys.platform != "win32"

MEMINFO = "/proc/meminfo"
UNLIMITED_BYTES = 1 << 60  # cgroup v1 writes a huge number where v2 writes "max"
READ_CACHE_BELOW_BYTES = 2 << 30  # above this headroom the droppable cache decides nothing


def parse_meminfo(content: bytes) -> MachineMemory:
    """Parse the four lines of /proc/meminfo that matter; all fifty would cost 0.05 ms."""
    swap, free = _meminfo_bytes(content, b"SwapTotal:"), _meminfo_bytes(content, b"SwapFree:")
    return MachineMemory(
        total_bytes=_meminfo_bytes(content, b"MemTotal:"),
        available_bytes=_meminfo_bytes(content, b"MemAvailable:"),
        swap_used_bytes=None if swap is None or free is None else swap - free,
        swap_free_bytes=free,
    )


def _meminfo_bytes(content: bytes, name: bytes) -> int | None:
    start = content.find(name)
    words = content[start + len(name) : start + len(name) + 24].split() if start >= 0 else ()
    return int(words[0]) << 10 if words and words[0].isdigit() else None  # the file says KiB


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError:
        return None


def read_number(path: str, key: bytes = b"") -> int | None:
    """Return the number in a file, or after `key` in one of its lines; None for no number."""
    for line in (_read(path) or b"").splitlines():
        words = line.split()
        if len(words) == 1 + bool(key) and words[:-1] == [key][: bool(key)]:
            return int(words[-1]) if words[-1].isdigit() else None
    return None


@dataclass(frozen=True, **SLOTS)
class MemoryLimit:
    """A memory cgroup with a limit; the file names are those of v1 or v2."""

    folder: str
    limit_bytes: int
    usage_file: str
    cache_key: bytes

    def headroom_bytes(self) -> int | None:
        """Return the limit minus the use, plus the droppable cache if that may decide."""
        usage = read_number(f"{self.folder}/{self.usage_file}")
        if usage is None:
            return None
        headroom = self.limit_bytes - usage
        if headroom < READ_CACHE_BELOW_BYTES:
            headroom += read_number(f"{self.folder}/memory.stat", self.cache_key) or 0
        return headroom


def memory_cgroups(membership: bytes, root: str = "/sys/fs/cgroup") -> tuple[str, ...]:
    """Return the folders of the leg's memory cgroup and of those above it, nearest first.

    Args:
        membership: content of /proc/self/cgroup.
        root: mount point of cgroups, with v1 controllers by name and hybrid v2 in `unified`.
    """
    folders: list[str] = []
    for line in membership.decode("utf-8", "replace").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        bases = (f"{root}/memory",) if controllers else (root, f"{root}/unified")
        for base in bases:
            parts = [part for part in path.split("/") if part]
            # In a container the path is the host's, and the mount shows only its end: the base
            # itself counts, too, and folders that do not exist are skipped.
            for depth in range(len(parts), -1, -1):
                folder = "/".join([base, *parts[:depth]])
                if os.path.isdir(folder) and folder not in folders:
                    folders.append(folder)
    return tuple(folders)


def memory_limits(folders: tuple[str, ...]) -> tuple[MemoryLimit, ...]:
    limits = []
    for folder in folders:
        for limit, usage, cache in (
            ("memory.max", "memory.current", b"inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file"),
        ):
            size = read_number(f"{folder}/{limit}")
            if size is not None and size < UNLIMITED_BYTES:
                limits.append(MemoryLimit(folder, size, usage, cache))
    return tuple(limits)


class LinuxHeadroom(Headroom):
    """The headroom on Linux, cheap enough to be read 50 times a second."""

    def __init__(self, meminfo: str | None = None) -> None:
        super().__init__(meminfo)
        self._meminfo = meminfo or MEMINFO
        self._folders = memory_cgroups(_read("/proc/self/cgroup") or b"")
        self._limits = memory_limits(self._folders)

    def machine(self) -> MachineMemory:
        """Return the machine's memory; on another Unix nothing is known, so nothing is guarded."""
        return parse_meminfo(_read(self._meminfo) or b"")

    def memory_bytes(self) -> int | None:
        """Return the machine's memory, or the limit of its tightest cgroup."""
        sizes = [limit.limit_bytes for limit in self._limits]
        total = self.machine().total_bytes
        sizes += [] if total is None else [total]
        return min(sizes) if sizes else None

    def headroom_bytes(self, machine: MachineMemory) -> int | None:
        """Return the smallest headroom of the machine and the cgroups; None if none is known."""
        headrooms = [limit.headroom_bytes() for limit in self._limits]
        if machine.available_bytes is not None:
            headrooms.append(machine.available_bytes + (machine.swap_free_bytes or 0) // 2)
        return min((size for size in headrooms if size is not None), default=None)

    def oom_file(self) -> str:
        """Return the file with the kernel's count of kills: of the cgroup, otherwise of the
        machine.
        """
        for folder in self._folders[:1]:
            for file in ("memory.events", "memory.oom_control"):
                if read_number(f"{folder}/{file}", b"oom_kill") is not None:
                    return f"{folder}/{file}"
        return "/proc/vmstat"

    def oom_kills(self) -> int:
        """Return the kernel's count of out-of-memory kills.

        Only a rise during the life of a tested process that was killed is evidence.
        """
        return read_number(self.oom_file(), b"oom_kill") or 0
