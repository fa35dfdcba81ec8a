"""Log patterns of test frameworks and language runtimes: memory, time limits and crashes.

Sources: messages of the projects, as public issues quote them.
"""

from __future__ import annotations

from typing import Final

from ciguard.logs.pattern import LogPattern, crash, failure, out_of_memory, suspected_oom, timeout

_HMS: Final = r"(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?s"
_RUNNING: Final = "go.running"

PATTERNS: Final = (
    timeout(
        "dotnet.test_timeout",
        r"Test execution timed out after (?P<limit>\d+) milliseconds",
        fields={"limit": "ms"},
    ),
    suspected_oom(  # a test may catch it
        "dotnet.out_of_memory",
        r"System\.OutOfMemoryException(?: ?: (?P<message>.+))?\s*$",
    ),
    suspected_oom(
        "dotnet.mono_out_of_memory",
        r"(?:^|\s)OutOfMemoryException\s*$|Could not allocate (?P<requested_bytes>\d+) bytes",
        ("OutOfMemoryException", "Could not allocate "),
        fields={"requested_bytes": "B"},
    ),
    crash(
        "dotnet.host_crash",
        r"The active test run was aborted\. Reason: (?P<reason>Test host process crashed"
        r"(?: : (?P<detail>.+?))?)\s*$",
    ),
    failure(
        "tests.truncated",
        r"Only (?P<executed>\d+) of (?P<total>\d+) discovered tests executed -- "
        r"(?P<missing>\d+) never ran",
        fields={"missing": ""},
    ),
    out_of_memory(
        "java.out_of_memory",
        r"java\.lang\.OutOfMemoryError: (?P<area>Java heap space|Metaspace"
        r"|GC overhead limit exceeded|unable to create (?:new )?native thread"
        r"|Direct buffer memory|Requested array size exceeds VM limit)",
        key=("area",),
    ),
    out_of_memory("gradle.heap_exhausted", r"Expiring Daemon because JVM heap space is exhausted"),
    failure(
        "gradle.killed",
        r"Process 'Gradle (?P<process>Test Executor|Worker Daemon) (?P<number>\d+)' finished with "
        r"non-zero exit value (?P<code>137|143)\b",
        ("finished with non-zero exit value 1",),
        key=("process", "code"),
        inconclusive=True,
    ),
    crash(
        "surefire.fork_died",
        r"The forked VM terminated without (?:properly saying|saying properly) goodbye",
    ),
    out_of_memory(
        "node.out_of_memory",
        r"FATAL ERROR: (?P<reason>.*?) ?Allocation failed - JavaScript heap out of memory",
    ),
    LogPattern(
        "node.gc",
        r"\] +(?P<uptime>\d+) ms: (?P<collector>Mark-sweep|Mark-Compact|Scavenge)(?: \([^)]*\))? "
        r"(?P<used_before>[\d.]+) \((?P<committed_before>[\d.]+)\) -> "
        r"(?P<used_after>[\d.]+) \((?P<committed_after>[\d.]+)\) MB",
        (" ms: Mark-sweep", " ms: Mark-Compact", " ms: Scavenge"),
        fields={
            **{"used_before": "MiB", "committed_before": "MiB"},
            **{"used_after": "MiB", "committed_after": "MiB"},
        },
        key=("collector",),
    ),
    suspected_oom(
        "jest.worker_killed",
        r"A jest worker process \(pid=(?P<pid>\w+)\) was terminated by another process: "
        r"signal=(?P<signal>SIGKILL), exitCode=(?P<code>\w+)",
        key=("signal",),
    ),
    crash(
        "jest.worker_crashed",
        r"A jest worker process \(pid=(?P<pid>\w+)\) was terminated by another process: "
        r"signal=(?P<signal>SIG(?:BUS|SEGV|ABRT|ILL|FPE|TERM|TRAP|SYS)), exitCode=(?P<code>\w+)",
        key=("signal",),
    ),
    out_of_memory("jest.worker_out_of_memory", r"Jest worker ran out of memory and crashed"),
    timeout(
        "jest.timeout",
        r"Exceeded timeout of (?P<limit>\d+) ms for a (?P<part>test|hook)",
        fields={"limit": "ms"},
        key=("part",),
    ),
    timeout(
        "python.timeout",
        r"Timeout (?:>(?P<old_limit>[\d.]+)s\b|\(>(?P<limit>[\d.]+)s\) from )",
        ("Timeout >", "Timeout (>"),
        fields={"limit": "s", "old_limit": "s"},
    ),
    timeout(  # the process ends at once, without a summary
        "python.timeout_exit", r"^\++ Timeout \++\s*$", ("+ Timeout +",)
    ),
    crash(
        "python.worker_crash",
        r"\[(?P<lost_worker>gw\d+)\] node down: Not properly terminated"
        r"|[Ww]orker '?(?P<worker>gw\d+)'? crashed while running '?(?P<test>[^'\s]+)",
        ("node down: Not properly terminated", "crashed while running"),
        key=("test",),
    ),
    suspected_oom(
        "python.memory_error",
        r"(?:^|[\s.])(?P<type>_ArrayMemoryError|MemoryError)(?:: Unable to allocate "
        r"(?P<requested>[\d.]+) (?P<requested_unit>[KMGTPE]?i?B) for an array with shape "
        r"(?P<shape>\([^)]*\)) and data type (?P<data_type>\w+)|: (?P<message>.+)|\s*$)",
        ("MemoryError",),
        fields={"requested": "B"},
    ),
    out_of_memory(
        "cpp.bad_alloc",
        r"terminate called after throwing an instance of 'std::bad_alloc'"
        r"|what\(\):\s+std::bad_alloc",
        ("std::bad_alloc",),
    ),
    timeout(
        "go.timeout", rf"^\s*panic: test timed out after (?P<limit>{_HMS})", fields={"limit": "hms"}
    ),
    LogPattern(_RUNNING, r"^\s*running tests:\s*$", kind="context", lines=20),
    timeout(  # without the context, also the line of a test that has ended
        "go.running_test",
        rf"^\s+(?P<test>Test\w[\w/.-]*) \((?P<elapsed>{_HMS})\)\s*$",
        fields={"elapsed": "hms"},
        key=("test",),
        contexts=(_RUNNING,),
        needs_context=True,
    ),
    timeout(
        "ctest.timeout",
        r"Test\s+#(?P<number>\d+): (?P<test>\S+) \.*\s*\*\*\*Timeout\s+(?P<elapsed>[\d.]+) sec",
        ("***Timeout",),
        fields={"elapsed": "s"},
        key=("test",),
    ),
    timeout(
        "ctest.summary_timeout",
        r"^\s*(?:[\d:]+ )?\s*(?P<number>\d+) - (?P<test>\S+) \(Timeout\)\s*$",
        (" (Timeout)",),
        key=("test",),
    ),
    timeout(
        "xctest.timeout",
        r"Test Case '(?P<test>[^']+)' exceeded execution time allowance of (?P<limit>\d+) "
        r"(?P<limit_unit>\w+)",
        fields={"limit": "s"},
        key=("test",),
    ),
)
