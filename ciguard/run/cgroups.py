"""A memory cgroup of its own for each tested process, where the leg may make one.

The kernel then counts the whole tree, children that live for a millisecond too; page cache and its
own memory for them count as well, so that the number is an upper bound. Whether it can be had is
found out by trying: by hand, then through `sudo -n`. Nothing is done to a group that was there.

v1: the group lies below ours, and the process in a second one below that: a program in it may reset
the inner counter (`memory.max_usage_in_bytes` has one for all readers), and the outer stays true.
v2: a group that has processes may not hand controllers on ("no internal processes"), so it lies
beside ours, whose parent does hand on `memory`; not where ours has a limit, which it would escape.
`memory.peak` can be reset for one descriptor (Linux 6.12); before, it is read as it is.
Sources: kernel, admin-guide/cgroup-v1/memory and admin-guide/cgroup-v2.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Sequence

assert sys.platform != "win32"

from ciguard.run.guardrail import memory_cgroups, read_number
from ciguard.run.keeper import send

if TYPE_CHECKING:
    from typing import List, Optional

SUDO: Final = ("sudo", "-n")
SUDO_S: Final = 5.0  # it takes 10 ms; one that asks a server that is away must not hold the tests
GONE_S: Final = 1.0  # until the processes of an ended tree have left its group
PEAK_FILES: Final = ("memory.peak", "memory.max_usage_in_bytes")
OOM_FILES: Final = ("memory.events", "memory.oom_control")
LIMITS: Final = ("memory.max", "memory.high", "memory.swap.max")

# What root does for us: make groups whose counters are ours to reset, move a process, remove.
_MAKE: Final = """
set -e; owner=$1; shift
for folder; do
    mkdir -- "$folder"
    for name in memory.peak memory.max_usage_in_bytes memory.oom.group; do
        test ! -e "$folder/$name" || chown -- "$owner" "$folder/$name"
    done
done
"""
_MOVE: Final = 'echo "$1" >"$2/cgroup.procs"'
_REMOVE: Final = 'rmdir -- "$@"'


class Place(NamedTuple):
    """Where groups may be made.

    Attributes:
        home: the leg's own group. parent: what they are to lie in.
        levels: one has its process, two of them the process in the second.
    """

    home: str
    parent: str
    levels: int


class Hands:
    """What makes, fills and removes groups: the leg itself, or root on its behalf.

    Args:
        command: what is put before a program that root is to run; () for the leg itself.
    """

    def __init__(self, command: Sequence[str] = ()) -> None:
        self._command = tuple(command)

    def _ask(self, script: str, *words: str) -> None:
        """Raises OSError with what the program said."""
        if shutil.which(self._command[0]) is None:
            raise PermissionError(f"no right to make a cgroup, and no {self._command[0]}")
        argv = [*self._command, "sh", "-c", script, "sh", *words]
        try:
            subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=SUDO_S
            )
        except subprocess.SubprocessError as error:
            said = (getattr(error, "stderr", None) or b"").decode("utf-8", "replace").strip()
            raise PermissionError(said.splitlines()[-1] if said else str(error)) from error

    def make(self, folders: Sequence[str]) -> None:
        """Make groups, an outer one before what lies in it."""
        if self._command:
            self._ask(_MAKE, str(os.getuid()), *folders)
            return
        for folder in folders:
            os.mkdir(folder)

    def move(self, pid: int, folder: str) -> None:
        """Put a process into a group; it takes no memory along."""
        if self._command:
            self._ask(_MOVE, str(pid), folder)
            return
        with open(f"{folder}/cgroup.procs", "wb", buffering=0) as stream:
            stream.write(b"%d" % pid)

    def remove(self, folders: Sequence[str]) -> None:
        """Remove empty groups, an inner one before what it lies in."""
        if self._command:
            self._ask(_REMOVE, *folders)
            return
        for folder in folders:
            os.rmdir(folder)


class Group:
    """The group of one tested process: `enter` before it is started, `remove` behind its end.

    Args:
        groups: who made it. hands: by which it was done.
        folders: the group, and what lies in it down to the process's own.
        home: the leg's own group.
    """

    def __init__(self, groups: Groups, hands: Hands, folders: Sequence[str], home: str) -> None:
        self._groups, self._hands = groups, hands
        self.folders, self._home = tuple(folders), home
        self.refused = ""  # why the process is not in it
        with contextlib.suppress(OSError), open(f"{folders[-1]}/memory.oom.group", "wb") as stream:
            stream.write(b"1")  # v2: the kernel then takes the whole process, children and all

    @property
    def peak_file(self) -> str:
        """The counter that the process itself may reset; "" where there is none."""
        files = (f"{self.folders[-1]}/{name}" for name in PEAK_FILES)
        return next(filter(os.path.exists, files), "")

    @property
    def oom_file(self) -> str:
        """Where the kernel counts what it has killed in it; "" where it does not."""
        files = (f"{self.folders[-1]}/{name}" for name in OOM_FILES)
        return next((file for file in files if read_number(file, b"oom_kill") is not None), "")

    def enter(self, keeper: int) -> None:
        """Take in the keeper, which hands its group on to what it starts."""
        try:
            self._hands.move(keeper, self.folders[-1])
        except OSError as error:
            self.refused = _why(error)

    def leave(self, keeper: int) -> None:
        """Let the keeper out: the end of the group must not be its own."""
        with contextlib.suppress(OSError):
            self._hands.move(keeper, self._home)

    def peak_bytes(self) -> int | None:
        """The most that the tree had, with page cache; None where the kernel does not say."""
        sizes = (read_number(f"{self.folders[0]}/{name}") for name in PEAK_FILES)
        return next((size for size in sizes if size is not None), None)

    def oom_kills(self) -> int:
        """How often the kernel has killed in it for memory; it had no other process before."""
        counts = [
            read_number(f"{folder}/{file}", b"oom_kill")
            for folder in self.folders
            for file in OOM_FILES
        ]
        return max((count for count in counts if count is not None), default=0)

    def kill(self) -> None:
        """End what is still in it, which can only be of the tested process."""
        for folder in self.folders:
            with contextlib.suppress(OSError), open(f"{folder}/cgroup.procs", "rb") as stream:
                for pid in stream.read().split():
                    send(int(pid), signal.SIGKILL)

    def give_back(self) -> None:
        """Its process has ended, or was never started."""
        self._groups.give_back(self)

    def remove(self) -> None:
        """Remove it. Raises OSError while a process in it is still on its way out."""
        self._hands.remove(self.folders[::-1])


class Groups:
    """Makes the groups of a leg's tested processes; gives up for good where one cannot be had.

    Args:
        hands: in the order in which they are tried.
        membership, root: see `guardrail.memory_cgroups`.
    """

    def __init__(
        self,
        hands: Sequence[Hands],
        membership: Optional[bytes] = None,
        root: str = "/sys/fs/cgroup",
    ) -> None:
        self._hands = list(hands)
        if membership is None:
            membership = b""
            with contextlib.suppress(OSError), open("/proc/self/cgroup", "rb") as stream:
                membership = stream.read()
        self._places = list(places(membership, root))
        # A leg that was killed leaves its groups, and the system its number to another.
        self._name = f"ciguard-{os.getpid()}-{os.urandom(3).hex()}"
        self._leaving: List[Group] = []
        self.lacks = ""  # why there are none

    def make(self, process: int) -> Group | None:
        """The group of the process with that number; None where none can be had."""
        self._sweep()
        while self._hands and self._places:
            place = self._places[0]
            name = f"{place.parent}/{self._name}-{process}"
            folders = (name, f"{name}/tests")[: place.levels]
            try:
                self._hands[0].make(folders)
            except OSError as error:
                self._drop(_why(error))
                continue
            group = Group(self, self._hands[0], folders, place.home)
            if group.peak_file:
                return group
            with contextlib.suppress(OSError):
                group.remove()
            del self._places[0]
        self.lacks = self.lacks or "no memory controller is handed on to groups of one's own"
        return None

    def _drop(self, why: str) -> None:
        """These hands cannot do it; the next ones are asked."""
        self.lacks = why
        del self._hands[:1]

    def settled(self, group: Group | None) -> Group | None:
        """The group, if its process is in it; else it is removed, and nobody tries again so."""
        if group is None or not group.refused:
            return group
        self._drop(group.refused)
        self.give_back(group)
        return None

    def give_back(self, group: Group) -> None:
        """Remove a group whose process has ended, now or as soon as its last process is gone."""
        group.kill()
        self._leaving.append(group)
        self._sweep()

    def _sweep(self) -> None:
        for group in tuple(self._leaving):
            try:
                group.remove()
            except FileNotFoundError:
                pass  # somebody tidies up: it is gone all the same
            except OSError:
                continue  # the kernel is not done with its processes
            self._leaving.remove(group)

    def close(self) -> None:
        """Wait a little for the last groups to be empty, and remove them."""
        end_s = time.monotonic() + GONE_S
        self._sweep()
        while self._leaving and time.monotonic() < end_s:
            time.sleep(0.01)
            self._sweep()


def _why(error: OSError) -> str:
    return f"{error.strerror}: {error.filename}" if error.strerror else str(error)


def places(membership: bytes, root: str) -> tuple[Place, ...]:
    """Where groups may be made, the better place first."""
    home = next(iter(memory_cgroups(membership, root)), "")
    # A folder that is not really ours (mounts may show a part of the tree only) is left alone.
    if str(os.getpid()) not in _words(f"{home}/cgroup.procs"):
        return ()
    if os.path.exists(f"{home}/memory.limit_in_bytes"):
        return (Place(home, home, 2),)
    parents = [home]  # the root alone may have processes and hand controllers on
    if not any(_words(f"{home}/{name}") not in ([], ["max"]) for name in LIMITS):
        parents.insert(0, os.path.dirname(home))
    return tuple(
        Place(home, parent, 1)
        for parent in parents
        if "memory" in _words(f"{parent}/cgroup.subtree_control")
    )


def _words(path: str) -> List[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read().split()
    except OSError:
        return []
