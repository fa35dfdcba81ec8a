"""How much memory is left before the kernel or the platform kills, and whether the kernel has.

headroom = min(MemAvailable + half of the free swap, limit - use of each cgroup above us). In a
container /proc/meminfo is the node's, so the cgroups count; page cache that can be dropped does not
count as used. Sources: proc(5); kernel, admin-guide/cgroup-v2.
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
READ_CACHE_BELOW_BYTES = 2 << 30  # above, how much of a cgroup is droppable cache decides nothing


def parse_meminfo(content: bytes) -> MachineMemory:
    """Read the four lines of /proc/meminfo that matter; fifty cost 0.05 ms."""
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
    """The number in a file, or after `key` in one of its lines; None where there is none."""
    for line in (_read(path) or b"").splitlines():
        words = line.split()
        if len(words) == 1 + bool(key) and words[:-1] == [key][: bool(key)]:
            return int(words[-1]) if words[-1].isdigit() else None
    return None


@dataclass(frozen=True, **SLOTS)
class MemoryLimit:
    """A memory cgroup with a limit, v1 or v2 by its file names."""

    folder: str
    limit_bytes: int
    usage_file: str
    cache_key: bytes

    def headroom_bytes(self) -> int | None:
        """Limit - use, with the cache counted as free where it matters."""
        usage = read_number(f"{self.folder}/{self.usage_file}")
        if usage is None:
            return None
        left = self.limit_bytes - usage
        if left < READ_CACHE_BELOW_BYTES:
            left += read_number(f"{self.folder}/memory.stat", self.cache_key) or 0
        return left


def memory_cgroups(membership: bytes, root: str = "/sys/fs/cgroup") -> tuple[str, ...]:
    """Folders of our memory cgroup and those above it, nearest first.

    Args:
        membership: /proc/self/cgroup.
        root: where cgroups are mounted; v1 controllers below it by name, hybrid v2 in `unified`.
    """
    found: list[str] = []
    for line in membership.decode("utf-8", "replace").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        bases = (f"{root}/memory",) if controllers else (root, f"{root}/unified")
        for base in bases:
            parts = [part for part in path.split("/") if part]
            # In a container the path is the host's and the mount shows only its end: the base
            # itself is tried too, and folders that do not exist are left out.
            for depth in range(len(parts), -1, -1):
                folder = "/".join([base, *parts[:depth]])
                if os.path.isdir(folder) and folder not in found:
                    found.append(folder)
    return tuple(found)


def with_limits(folders: tuple[str, ...]) -> tuple[MemoryLimit, ...]:
    """Those of the cgroups that have a memory limit."""
    found = []
    for folder in folders:
        for limit, usage, cache in (
            ("memory.max", "memory.current", b"inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file"),
        ):
            size = read_number(f"{folder}/{limit}")
            if size is not None and size < UNLIMITED_BYTES:
                found.append(MemoryLimit(folder, size, usage, cache))
    return tuple(found)


class LinuxHeadroom(Headroom):
    """Reads what is left, 50 times a second."""

    def __init__(self, meminfo: str | None = None) -> None:
        super().__init__(meminfo)
        self._meminfo = meminfo or MEMINFO
        self._folders = memory_cgroups(_read("/proc/self/cgroup") or b"")
        self._limited = with_limits(self._folders)

    def machine(self) -> MachineMemory:
        """What the machine says now."""
        # Elsewhere than on Linux nothing is known, and nothing is guarded.
        return parse_meminfo(_read(self._meminfo) or b"")

    def memory_bytes(self) -> int | None:
        """What the leg may use at most: the machine's memory, or its tightest cgroup's limit."""
        sizes = [group.limit_bytes for group in self._limited]
        total = self.machine().total_bytes
        sizes += [] if total is None else [total]
        return min(sizes) if sizes else None

    def headroom_bytes(self, machine: MachineMemory) -> int | None:
        """What is left before something is killed; None where that is not known."""
        found = [group.headroom_bytes() for group in self._limited]
        if machine.available_bytes is not None:
            found.append(machine.available_bytes + (machine.swap_free_bytes or 0) // 2)
        known = [size for size in found if size is not None]
        return min(known) if known else None

    def oom_file(self) -> str:
        """Where the kernel counts its kills for memory: of our cgroup, else of the machine."""
        for folder in self._folders[:1]:
            for file in ("memory.events", "memory.oom_control"):
                if read_number(f"{folder}/{file}", b"oom_kill") is not None:
                    return f"{folder}/{file}"
        return "/proc/vmstat"

    def oom_kills(self) -> int:
        """How often the kernel has killed for memory.

        Only a rise while one of our processes died by a signal means something.
        """
        return read_number(self.oom_file(), b"oom_kill") or 0
