"""The reaper: a small process between the leg and a tested process that ends its whole tree.

The tree also ends if the leg is killed; a parent-death signal alone would spare grandchildren.
`spawn.start_reaper` sends this file to a `python -I -S` in its own session, so it imports only the
standard library. Standard input is a pipe from the leg: the first line is the job (JSON: `argv`,
`log`, `stdin`, `bare`), later lines are signal names for the tested process group, and end-of-file
means that the leg is gone. Standard output is the status pipe to the leg: JSON lines, `started`,
then `exit_code`, or `error`.

`stdin`: inherited descriptor that the tested process reads from; null for empty input.
`bare`: use neither a subreaper nor /proc, as on macOS. `ps` then gives the parents; a process that
left both its parent and its group before a signal of the leg is not found.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import sys
import time

assert sys.platform != "win32"  # a job object does the same on Windows

TYPE_CHECKING = False  # typing would take a fifth of the start time of a reaper
if TYPE_CHECKING:
    from typing import Callable

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
OOM_SCORE_ADJ = b"1000"  # at 500, as the runner's agent sets it, a small agent was killed first
KILL_S = 5.0  # give up after this a tree that forks faster than it is killed
ORPHANS_S = 0.5  # the same in the leg's loop, which delays timeouts and memory samples
# All columns without a header, sizes in KiB: valid on Linux, macOS and the BSDs.
PS = ("ps", "-A", "-o", "pid=,ppid=,rss=,stat=")
INIT = 1
PS_S = 5.0  # `ps` takes 0.02 s; if the machine hangs, the reaper continues without it
MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024  # the unit of ru_maxrss


def _prctl(option: int, value: int) -> bool:
    """Call prctl(2); return False if the system or ctypes cannot."""
    try:
        import ctypes  # noqa: PLC0415  # not every Python has it

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError, TypeError):
        return False


def become_subreaper() -> bool:
    """Adopt daemonised descendants; return False if the system or ctypes cannot."""
    return _prctl(PR_SET_CHILD_SUBREAPER, 1)


def list_by_ps() -> dict[int, tuple[int, int]]:
    """Return pid -> (parent, resident bytes) of all processes, for systems without /proc.

    The result is empty without `ps`, or without an answer of it.
    """
    import subprocess  # noqa: PLC0415  # on Linux no reaper needs it, and it takes 10 ms

    quiet = subprocess.DEVNULL
    try:
        # The system's `ps`, not one on the PATH of the tested project.
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
        ps = subprocess.Popen(PS, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, env=env)
    except OSError:
        return {}
    with ps:
        try:
            listed = parse_ps(ps.communicate(timeout=PS_S)[0])
        except subprocess.TimeoutExpired:
            ps.kill()
            return {}
    listed.pop(ps.pid, None)  # `ps` lists itself, as a child of this process
    return listed


def parse_ps(printed: bytes) -> dict[int, tuple[int, int]]:
    """Parse the columns of `PS`, without zombies."""
    listed = {}
    for line in printed.splitlines():
        words = line.split()
        numbers = [int(word) for word in words[:3] if word.isdigit()]
        if len(numbers) == 3 and not words[-1].startswith(b"Z"):  # noqa: PLR2004
            listed[numbers[0]] = (numbers[1], numbers[2] << 10)
    return listed


def parents(*, without_proc: bool = False) -> dict[int, tuple[int, int]]:
    """Return pid -> (parent, session) of all processes, without zombies.

    `without_proc`: use `ps`, which does not give sessions on all systems: they are then 0.
    """
    if without_proc or not os.path.isdir("/proc/self"):
        return {pid: (parent, 0) for pid, (parent, _) in list_by_ps().items()}
    table = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stream:
                # The command's name is in parentheses, and may contain any character.
                state, parent, _, session = stream.read().rpartition(b")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X"):
            table[int(name)] = (int(parent), int(session))
    return table


def tree(root: int) -> set[int]:
    """Return the live descendants of a process and the processes of its session, without it."""
    return below(root, parents())


def below(root: int, table: dict[int, tuple[int, int]]) -> set[int]:
    """Return the same as `tree`, by a table of `parents`."""
    pids = {pid for pid, (_, session) in table.items() if session == root}
    size = -1
    while size != len(pids):
        size = len(pids)
        pids |= {pid for pid, (parent, _) in table.items() if parent == root or parent in pids}
    return pids - {root}


def pids_to_kill(seen_pids: set[int] | None) -> set[int]:
    """Return the processes of this reaper's tree.

    Args:
        seen_pids: processes that a bare reaper has found in its tree so far; changed. Without a
            subreaper, init adopts a child when its parent dies: a seen pid whose parent is not init
            may be another process by now.
    """
    table = parents(without_proc=seen_pids is not None)
    pids = below(os.getpid(), table)
    if seen_pids is not None:
        seen_pids |= pids
        pids |= {pid for pid in seen_pids if table.get(pid, (0, 0))[0] == INIT}
    return pids


def kill_all(pid: int, seen_pids: set[int] | None) -> None:
    """End the tested group, all descendants, and the orphans that this process adopts meanwhile."""
    known = set() if seen_pids is None else pids_to_kill(seen_pids)  # before their parents die
    signal_quietly(-pid, signal.SIGKILL)
    end_s = time.monotonic() + KILL_S
    while time.monotonic() < end_s:
        rest = known or pids_to_kill(seen_pids)
        if not rest:
            return
        for other in rest:
            signal_quietly(other, signal.SIGKILL)
        known = set()
        time.sleep(0.001)


def children() -> set[int]:
    """Return the live children of this process."""
    return {pid for pid, (parent, _) in parents().items() if parent == os.getpid()}


def kill_orphans(spared: set[int]) -> None:
    """End the children that this process adopted from a dead reaper: all except `spared`."""
    end_s = time.monotonic() + ORPHANS_S
    while time.monotonic() < end_s:
        orphans = children() - spared
        if not orphans:
            return
        for pid in orphans:
            for descendant in (pid, *tree(pid)):
                signal_quietly(descendant, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.001)


def signal_quietly(pid: int, number: int) -> None:
    """Signal a process, or with a negative number a group; ignore one that is gone or foreign."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def collect(pid: int, kill_tree: Callable[[], None]) -> tuple[int, float, int] | None:
    """Wait for ended children without blocking; once `pid` is among them, kill its tree.

    Until the tree is killed `pid` stays a zombie, so that no other program gets its number, which
    is also that of its group. macOS before Python 3.13 has no `waitid`, and kills the tree after.

    Returns:
        (wait status, CPU seconds, largest resident size in bytes) of `pid`; None while it runs.
    """
    while hasattr(os, "waitid"):
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        if ended.si_pid == pid:
            kill_tree()
            break
        os.waitpid(ended.si_pid, 0)
    number, status, usage = os.wait4(-1, os.WNOHANG)
    while number not in (0, pid):
        number, status, usage = os.wait4(-1, os.WNOHANG)
    if number == 0:
        return None
    if not hasattr(os, "waitid"):
        kill_tree()
    return status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * MAXRSS_BYTES


def own_peak_bytes() -> int:
    """Return this process's peak: a child inherits it, so smaller peaks of it are not known."""
    import resource  # noqa: PLC0415  # not every Python has it

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_BYTES


def report(**facts: object) -> None:
    """Write one status line; ignore a leg that is gone, which `watch` will see."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(facts).encode("ascii") + b"\n")


def spawn(argv: list[str], log: str, stdin: int | None) -> int:
    """Start the tested process in its own group. Raises OSError."""
    try:
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    except OSError:  # a full disk: to run without a log is better than not to run
        output = os.open(os.devnull, os.O_WRONLY)
    if stdin is None:
        stdin = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(stdin, False)  # inherited from the leg; the process gets a copy
    pid = os.posix_spawnp(
        argv[0],
        argv,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, stdin, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        ],
        setpgroup=0,
        setsigmask=[],
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ],
    )
    try:
        with open(f"/proc/{pid}/oom_score_adj", "wb") as stream:
            stream.write(OOM_SCORE_ADJ)
    except OSError:
        pass  # not Linux, or a container that forbids it
    return pid


def exit_code_of(status: int) -> int:
    """Return the exit code as `subprocess` has it: negative for a signal."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def forward_signals(pid: int, commands: bytes, seen_pids: set[int] | None) -> None:
    """Signal the tested process group, or with SIGKILL the whole tree; `watch` sees the end."""
    for word in commands.split():
        known = set() if seen_pids is None else pids_to_kill(seen_pids)
        if word == b"SIGKILL":
            signal_quietly(-pid, signal.SIGKILL)
            for other in known or pids_to_kill(seen_pids):
                signal_quietly(other, signal.SIGKILL)
        else:
            signal_quietly(-pid, getattr(signal, word.decode("ascii")))


def watch(pid: int, wakeup: int, started_s: float, *, without_proc: bool) -> None:
    """Wait until the tested process or the leg is gone, and kill the whole tree."""
    seen_pids: set[int] | None = set() if without_proc else None
    while True:
        ready = select.select([0, wakeup], [], [])[0]
        if wakeup in ready:
            os.read(wakeup, 4096)
            wall_s = time.monotonic() - started_s
            end = collect(pid, lambda: kill_all(pid, seen_pids))
            if end is not None:
                status, cpu_s, peak_bytes = end
                known = peak_bytes if peak_bytes > own_peak_bytes() else None
                code = exit_code_of(status)
                report(exit_code=code, wall_s=wall_s, cpu_s=cpu_s, peak_bytes=known)
                return
        if 0 in ready:
            words = os.read(0, 4096)
            if not words:
                kill_all(pid, seen_pids)
                return
            forward_signals(pid, words, seen_pids)


def read_job() -> dict[str, object] | None:
    """Read the first line of standard input; return None if the leg is gone before its end."""
    content = b""
    while not content.endswith(b"\n"):
        piece = os.read(0, 1)  # bytewise: `watch` reads the following lines
        if not piece:
            return None
        content += piece
    job: dict[str, object] = json.loads(content)
    return job


def main() -> int:
    """Run one tested process; return 0 after the report of its end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wakeup, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    job = read_job()
    if job is None:
        return 0
    bare = bool(job.get("bare"))
    subreaper = not bare and become_subreaper()
    if subreaper:
        # If a test has stopped this process (SIGSTOP), the death of the leg continues it.
        _prctl(PR_SET_PDEATHSIG, int(signal.SIGCONT))
    argv = [str(word) for word in job["argv"]]  # type: ignore[attr-defined]
    stdin = job.get("stdin")
    started_s = time.monotonic()
    try:
        pid = spawn(argv, str(job["log"]), stdin if isinstance(stdin, int) else None)
    except OSError as error:
        # The name of errno explains a path that is too long, or a file that is no program.
        name = errno.errorcode.get(error.errno or 0, "")
        report(error=f"{argv[0]}: {error.strerror or error} {name}".strip())
        return 0
    report(started=pid, subreaper=subreaper)
    watch(pid, wakeup, started_s, without_proc=bare)
    return 0


if __name__ == "__main__":
    sys.exit(main())
