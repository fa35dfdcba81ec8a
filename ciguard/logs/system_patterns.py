"""Log patterns of the kernel, earlyoom, shells, GNU time and compilers: memory and kills.

Sources: Linux mm/oom_kill.c, proc(5), rfjakob/earlyoom, GNU time and timeout, GCC's driver.
"""

from __future__ import annotations

from typing import Final

from ciguard.logs.pattern import LogPattern, failure, suspected_oom, timeout

# A command of the runner, a quotation mark or a frame before the text.
_START: Final = r"^(?:##\[\w+\])?[\s│|>]*"
_KERNEL_SIZES: Final = (
    r"total-vm:(?P<total_vm>\d+)kB, anon-rss:(?P<anon_rss>\d+)kB, file-rss:(?P<file_rss>\d+)kB"
)
_STATUS: Final = {
    "VmHWM": "peak_rss", "VmRSS": "rss", "VmPeak": "peak_virtual", "VmSwap": "swap"
}  # fmt: skip

PATTERNS: Final = (
    LogPattern(
        "process.peak_rss",
        _START + r"Maximum resident set size \(kbytes\): (?P<value>\d+)\s*$",
        fields={"value": "KiB"},
        better="lower",
    ),
    LogPattern(
        "process.elapsed",
        _START + r"Elapsed \(wall clock\) time \(h:mm:ss or m:ss\): "
        r"(?P<value>(?:\d+:)?\d+:\d+(?:\.\d+)?)\s*$",
        fields={"value": "clock"},
        better="lower",
    ),
    *(
        LogPattern(
            f"process.{name}",
            rf"{_START}{field}:\s+(?P<value>\d+) kB\s*$",
            fields={"value": "KiB"},
            better="lower",
        )
        for field, name in _STATUS.items()
    ),
    *(
        LogPattern(
            f"memory.{name}",
            rf"{_START}(?:\[[\w:. -]{{1,40}}\] )?{field}:\s+(?P<value>\d+) kB\s*$",
            fields={"value": "KiB"},
            better="higher",
        )
        for field, name in (("MemAvailable", "available"), ("SwapFree", "swap_free"))
    ),
    LogPattern(
        "earlyoom",
        r"mem avail:\s*(?P<available>\d+) of\s+(?P<total>\d+) MiB "
        r"\(\s*(?P<available_percent>[\d.]+)\s*%\), "
        r"swap free:\s*(?P<swap_free>\d+) of\s+(?P<swap_total>\d+) MiB",
        fields={
            **{"available": "MiB", "total": "MiB", "available_percent": "%"},
            **{"swap_free": "MiB", "swap_total": "MiB"},
        },
    ),
    suspected_oom(
        "earlyoom.kill",
        r"sending (?P<signal>SIG(?:TERM|KILL)) to process (?P<pid>\d+)(?: uid (?P<uid>\d+))? "
        r'"(?P<command>[^"]{1,80})": badness (?P<badness>\d+), VmRSS (?P<rss>\d+) MiB',
        ("sending SIGTERM to process", "sending SIGKILL to process"),
        fields={"rss": "MiB"},
        key=("command",),
    ),
    suspected_oom(
        "kernel.oom_kill",
        r"(?P<scope>Memory cgroup out of memory|Out of memory): Kill(?:ed)? process (?P<pid>\d+)"
        r"(?: \((?P<command>.+?)\)(?: score (?P<score>\d+) or sacrifice child"
        rf"|,? (?:UID \d+, )?{_KERNEL_SIZES}))?",
        ("ut of memory: Kill",),
        fields={"anon_rss": "KiB"},
        key=("command",),
    ),
    suspected_oom(
        "kernel.killed",
        r"kernel: (?:\[\s*[\d.]+\] )?Killed process (?P<pid>\d+) \((?P<command>.+?)\),?"
        rf"(?: UID \d+,)? {_KERNEL_SIZES}",
        fields={"anon_rss": "KiB"},
        key=("command",),
    ),
    suspected_oom(
        "kernel.oom_constraint",
        r"oom-kill:constraint=(?P<constraint>CONSTRAINT_\w+)(?:,.*?(?P<global>global_oom,)?"
        r"task_memcg=(?P<cgroup>[^,]+),task=(?P<command>[^,]+),pid=(?P<pid>\d+),uid=(?P<uid>\d+))?",
        key=("constraint", "command"),
    ),
    suspected_oom(  # killed by the kernel, `docker stop` or a test
        "shell.killed",
        r"(?:^|: )line (?P<line>\d+):\s+(?P<pid>\d+) Killed\s+(?P<command>\S.*?)\s*$",
        (" Killed ",),
        key=("command",),
    ),
    suspected_oom("shell.killed_bare", r"^(?:\d{4}-\d\d-\d\dT[\d:.]+Z )?(?:.*\]: )?Killed\s*$"),
    failure(
        "process.exit_code",
        r"(?:[Cc]ompleted with|failed with|[Pp]rocess exited \(|exit(?:ed)?(?: with)?)"
        r" ?exit code:? (?P<code>137|143)\b",
        ("exit code 137", "exit code 143", "exit code: 137", "exit code: 143"),
        key=("code",),
        inconclusive=True,
    ),
    timeout(
        "shell.timeout",
        r"timeout: sending signal (?P<signal>\w+) to command (?:‘|'|`)(?P<command>[^’']+)(?:’|')",
        key=("command",),
    ),
    suspected_oom(
        "compiler.killed",
        r"fatal error: Killed signal terminated program (?P<program>\w+)"
        r"|fatal error: (?P<linker>\w+) terminated with signal 9 \[Killed",
        ("fatal error: Killed signal", "terminated with signal 9 [Killed"),
        key=("program", "linker"),
    ),
    suspected_oom("compiler.sigkill", r"signal: 9, SIGKILL: kill"),
    failure(
        "disk.full",
        r"No space left on device(?: : '(?P<path>[^']+)')?",
        ending="disk_full",
        inconclusive=True,
    ),
)
