"""One small process between the leg and a tested process: whatever happens, its whole tree dies.

`spawn.start_reaper` sends this very file to a `python -I -S` in a session of its own, so it
imports the standard library alone. Its standard input is a pipe from the leg: the first line is the
job (JSON: `argv`, `log`, `stdin`, `bare`), later lines are signal names for the tested
process group, and end-of-file means that the leg is gone. Its standard output is the status pipe to
the leg: JSON lines, `started`, then `exit_code`, or `error`. A parent-death signal alone would not
do: it spares grandchildren.

`stdin`: the descriptor that it reads from, handed down with ours; null for nothing to read.
`bare`: neither a subreaper nor /proc is to be looked for, as on macOS; `ps` then tells who is whose
child, and what left both its parent and its group before the leg said anything is out of reach.
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

assert sys.platform != "win32"  # there a job object does all this

TYPE_CHECKING = False  # typing would take a fifth of the time in which a reaper starts
if TYPE_CHECKING:
    from typing import Callable

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
OOM_SCORE_ADJ = b"1000"  # at 500, which the runner's agent gives steps, a small agent died first
KILL_S = 5.0  # a tree that forks faster than it is killed is given up after this
ORPHANS_S = 0.5  # the same in the leg's own loop, where limits and memory wait meanwhile
# Every column without a header, sizes in KiB: the same words on Linux, macOS and the BSDs.
PS = ("ps", "-A", "-o", "pid=,ppid=,rss=,stat=")
INIT = 1
PS_S = 5.0  # it takes 0.02 s; on a machine that hangs the reaper goes on without it
MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024  # the unit of ru_maxrss


def become_subreaper() -> bool:
    """Make daemonised grandchildren our children; False where the system or ctypes cannot."""
    try:
        import ctypes  # noqa: PLC0415  # not every Python has it

        return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError, TypeError):
        return False


def continue_on_parent_death() -> None:
    """Have the end of the leg go on with us where a test has stopped us: only then do we see it."""
    with contextlib.suppress(ImportError, OSError, AttributeError, TypeError):
        import ctypes  # noqa: PLC0415  # not every Python has it

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGCONT), 0, 0, 0)


def list_by_ps() -> dict[int, tuple[int, int]]:
    """pid -> (parent, resident bytes) of every process there is, for systems without /proc.

    Nothing where there is no `ps`, or no answer from it.
    """
    import subprocess  # noqa: PLC0415  # on Linux no reaper needs it, and it takes 10 ms

    quiet = subprocess.DEVNULL
    try:
        # The system's own, whatever the tested project has on its PATH.
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
        ps = subprocess.Popen(PS, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, env=env)
    except OSError:
        return {}
    with ps:
        try:
            found = parse_ps(ps.communicate(timeout=PS_S)[0])
        except subprocess.TimeoutExpired:
            ps.kill()
            return {}
    found.pop(ps.pid, None)  # it sees itself, as a child of ours
    return found


def parse_ps(printed: bytes) -> dict[int, tuple[int, int]]:
    """The columns of `PS`; zombies, which are dead, left out."""
    found = {}
    for line in printed.splitlines():
        words = line.split()
        numbers = [int(word) for word in words[:3] if word.isdigit()]
        if len(numbers) == 3 and not words[-1].startswith(b"Z"):  # noqa: PLR2004
            found[numbers[0]] = (numbers[1], numbers[2] << 10)
    return found


def parents(*, without_proc: bool = False) -> dict[int, tuple[int, int]]:
    """pid -> (parent, session) of every process there is; zombies, which are dead, left out.

    `bare`: from `ps`, which does not say sessions everywhere: they are then 0.
    """
    if without_proc or not os.path.isdir("/proc/self"):
        return {pid: (parent, 0) for pid, (parent, _) in list_by_ps().items()}
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stream:
                # The command's name stands in parentheses and may hold anything.
                state, parent, _, session = stream.read().rpartition(b")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X"):
            found[int(name)] = (int(parent), int(session))
    return found


def tree(root: int) -> set[int]:
    """Live descendants of a process, and what shares its session; itself left out."""
    return below(root, parents())


def below(root: int, table: dict[int, tuple[int, int]]) -> set[int]:
    """The same in a table as `parents` gives it."""
    found = {pid for pid, (_, session) in table.items() if session == root}
    size = -1
    while size != len(found):
        size = len(found)
        found |= {pid for pid, (parent, _) in table.items() if parent == root or parent in found}
    return found - {root}


def pids_to_kill(seen_pids: set[int] | None) -> set[int]:
    """All that is to be ended with a reaper.

    Args:
        seen_pids: what a bare reaper found in its tree so far; changed. Without a subreaper a child
            belongs to init as soon as its parent is dead; only then is it still the same process.
    """
    table = parents(without_proc=seen_pids is not None)
    found = below(os.getpid(), table)
    if seen_pids is not None:
        seen_pids |= found
        found |= {pid for pid in seen_pids if table.get(pid, (0, 0))[0] == INIT}
    return found


def kill_all(pid: int, seen_pids: set[int] | None) -> None:
    """End the tested group, every descendant, and the children that they leave us as they die."""
    known = set() if seen_pids is None else pids_to_kill(seen_pids)  # before their parents are dead
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
    """Our own live children."""
    return {pid for pid, (parent, _) in parents().items() if parent == os.getpid()}


def kill_orphans(spared: set[int]) -> None:
    """End the children that a dead reaper left to its own parent, us, but not those in `spared`."""
    end_s = time.monotonic() + ORPHANS_S
    while time.monotonic() < end_s:
        orphans = children() - spared
        if not orphans:
            return
        for pid in orphans:
            for each in (pid, *tree(pid)):
                signal_quietly(each, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.001)


def signal_quietly(pid: int, number: int) -> None:
    """Signal a process, or with a negative number a group; it may be gone, or not ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def collect(pid: int, kill_tree: Callable[[], None]) -> tuple[int, float, int] | None:
    """Collect ended children; once `pid` is among them, kill its tree.

    Until that is done `pid` stays a zombie: its number, which is its group's too, cannot become
    another program's. macOS before Python 3.13 has no `waitid`, and kills after.

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
    """What a child's largest resident size cannot be told below of: it inherits our mark."""
    import resource  # noqa: PLC0415  # not every Python has it

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_BYTES


def report(**facts: object) -> None:
    """Write one status line; the leg may be gone, and then the end of its pipe says so too."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(facts).encode("ascii") + b"\n")


def spawn(argv: list[str], log: str, stdin: int | None) -> int:
    """Start the tested process in a group of its own; raises OSError where it cannot be."""
    try:
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    except OSError:
        output = os.open(os.devnull, os.O_WRONLY)  # a full disk: better unheard than not run
    if stdin is None:
        stdin = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(stdin, False)  # handed down to us; the copy is enough
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
    """As subprocess has it: the signal that killed it is negative."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def forward_signals(pid: int, commands: bytes, seen_pids: set[int] | None) -> None:
    """Signal the tested process group; to kill means the whole tree. `watch` sees to the end."""
    for word in commands.split():
        known = set() if seen_pids is None else pids_to_kill(seen_pids)
        if word == b"SIGKILL":
            signal_quietly(-pid, signal.SIGKILL)
            for other in known or pids_to_kill(seen_pids):
                signal_quietly(other, signal.SIGKILL)
        else:
            signal_quietly(-pid, getattr(signal, word.decode("ascii")))


def watch(pid: int, wakeup: int, started_s: float, *, without_proc: bool) -> None:
    """Wait until the tested process or the leg is gone; then nothing of the tree is left."""
    met: set[int] | None = set() if without_proc else None
    while True:
        ready = select.select([0, wakeup], [], [])[0]
        if wakeup in ready:
            os.read(wakeup, 4096)
            wall_s = time.monotonic() - started_s
            found = collect(pid, lambda: kill_all(pid, met))
            if found is not None:
                status, cpu_s, peak_bytes = found
                known = peak_bytes if peak_bytes > own_peak_bytes() else None
                code = exit_code_of(status)
                report(exit_code=code, wall_s=wall_s, cpu_s=cpu_s, peak_bytes=known)
                return
        if 0 in ready:
            words = os.read(0, 4096)
            if not words:
                kill_all(pid, met)
                return
            forward_signals(pid, words, met)


def read_job() -> dict[str, object] | None:
    """The first line of standard input; None if the leg was gone before it."""
    content = b""
    while not content.endswith(b"\n"):
        piece = os.read(0, 1)  # bytewise: what follows is for `watch`
        if not piece:
            return None
        content += piece
    job: dict[str, object] = json.loads(content)
    return job


def main() -> int:
    """Run one tested process; 0 when its end was told."""
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
        continue_on_parent_death()
    argv = [str(word) for word in job["argv"]]  # type: ignore[attr-defined]
    stdin = job.get("stdin")
    started_s = time.monotonic()
    try:
        pid = spawn(argv, str(job["log"]), stdin if isinstance(stdin, int) else None)
    except OSError as error:
        # A path that is too long, a file that is no program: errno says it best.
        name = errno.errorcode.get(error.errno or 0, "")
        report(error=f"{argv[0]}: {error.strerror or error} {name}".strip())
        return 0
    report(started=pid, subreaper=subreaper)
    watch(pid, wakeup, started_s, without_proc=bare)
    return 0


if __name__ == "__main__":
    sys.exit(main())
