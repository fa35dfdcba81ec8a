"""Log patterns of test frameworks and language runtimes: memory, time limits and crashes.

Sources: messages of the projects, as public issues quote them.
"""

from __future__ import annotations

from typing import Final

from ciguard.logs.pattern import LogPattern

_HMS: Final = r"(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?s"
_RUNNING: Final = "go.running"

PATTERNS: Final = (
    LogPattern(
        "dotnet.test_timeout",
        r"Test execution timed out after (?P<limit>\d+) milliseconds",
        ("Test execution timed out after",),
        kind="failure",
        fields={"limit": "ms"},
        ending="timeout",
    ),
    LogPattern(
        "dotnet.out_of_memory",
        r"System\.OutOfMemoryException(?: ?: (?P<message>.+))?\s*$",
        ("System.OutOfMemoryException",),
        kind="failure",
        ending="out_of_memory",
        inconclusive=True,  # a test may catch it
    ),
    LogPattern(
        "dotnet.mono_out_of_memory",
        r"(?:^|\s)OutOfMemoryException\s*$|Could not allocate (?P<requested_bytes>\d+) bytes",
        ("OutOfMemoryException", "Could not allocate "),
        kind="failure",
        fields={"requested_bytes": "B"},
        ending="out_of_memory",
        inconclusive=True,
    ),
    LogPattern(
        "dotnet.host_crash",
        r"The active test run was aborted\. Reason: (?P<reason>Test host process crashed"
        r"(?: : (?P<detail>.+?))?)\s*$",
        ("The active test run was aborted. Reason: ",),
        kind="failure",
        ending="crash",
    ),
    LogPattern(
        "tests.truncated",
        r"Only (?P<executed>\d+) of (?P<total>\d+) discovered tests executed -- "
        r"(?P<missing>\d+) never ran",
        ("discovered tests executed -- ",),
        kind="failure",
        fields={"missing": ""},
    ),
    LogPattern(
        "java.out_of_memory",
        r"java\.lang\.OutOfMemoryError: (?P<area>Java heap space|Metaspace"
        r"|GC overhead limit exceeded|unable to create (?:new )?native thread"
        r"|Direct buffer memory|Requested array size exceeds VM limit)",
        ("java.lang.OutOfMemoryError: ",),
        kind="failure",
        key=("area",),
        ending="out_of_memory",
    ),
    LogPattern(
        "gradle.heap_exhausted",
        r"Expiring Daemon because JVM heap space is exhausted",
        ("Expiring Daemon because JVM heap",),
        kind="failure",
        ending="out_of_memory",
    ),
    LogPattern(
        "gradle.killed",
        r"Process 'Gradle (?P<process>Test Executor|Worker Daemon) (?P<number>\d+)' finished with "
        r"non-zero exit value (?P<code>137|143)\b",
        ("finished with non-zero exit value 1",),
        kind="failure",
        key=("process", "code"),
        inconclusive=True,
    ),
    LogPattern(
        "surefire.fork_died",
        r"The forked VM terminated without (?:properly saying|saying properly) goodbye",
        ("The forked VM terminated without",),
        kind="failure",
        ending="crash",
    ),
    LogPattern(
        "node.out_of_memory",
        r"FATAL ERROR: (?P<reason>.*?) ?Allocation failed - JavaScript heap out of memory",
        ("JavaScript heap out of memory",),
        kind="failure",
        ending="out_of_memory",
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
    LogPattern(
        "jest.worker_killed",
        r"A jest worker process \(pid=(?P<pid>\w+)\) was terminated by another process: "
        r"signal=(?P<signal>SIGKILL), exitCode=(?P<code>\w+)",
        ("A jest worker process (",),
        kind="failure",
        key=("signal",),
        ending="out_of_memory",
        inconclusive=True,
    ),
    LogPattern(
        "jest.worker_crashed",
        r"A jest worker process \(pid=(?P<pid>\w+)\) was terminated by another process: "
        r"signal=(?P<signal>SIG(?:BUS|SEGV|ABRT|ILL|FPE|TERM|TRAP|SYS)), exitCode=(?P<code>\w+)",
        ("A jest worker process (",),
        kind="failure",
        key=("signal",),
        ending="crash",
    ),
    LogPattern(
        "jest.worker_out_of_memory",
        r"Jest worker ran out of memory and crashed",
        ("Jest worker ran out of memory",),
        kind="failure",
        ending="out_of_memory",
    ),
    LogPattern(
        "jest.timeout",
        r"Exceeded timeout of (?P<limit>\d+) ms for a (?P<part>test|hook)",
        ("Exceeded timeout of ",),
        kind="failure",
        fields={"limit": "ms"},
        key=("part",),
        ending="timeout",
    ),
    LogPattern(
        "python.timeout",
        r"Timeout (?:>(?P<old_limit>[\d.]+)s\b|\(>(?P<limit>[\d.]+)s\) from )",
        ("Timeout >", "Timeout (>"),
        kind="failure",
        fields={"limit": "s", "old_limit": "s"},
        ending="timeout",
    ),
    LogPattern(  # the process ends at once, without a summary
        "python.timeout_exit",
        r"^\++ Timeout \++\s*$",
        ("+ Timeout +",),
        kind="failure",
        ending="timeout",
    ),
    LogPattern(
        "python.worker_crash",
        r"\[(?P<lost_worker>gw\d+)\] node down: Not properly terminated"
        r"|[Ww]orker '?(?P<worker>gw\d+)'? crashed while running '?(?P<test>[^'\s]+)",
        ("node down: Not properly terminated", "crashed while running"),
        kind="failure",
        key=("test",),
        ending="crash",
    ),
    LogPattern(
        "python.memory_error",
        r"(?:^|[\s.])(?P<type>_ArrayMemoryError|MemoryError)(?:: Unable to allocate "
        r"(?P<requested>[\d.]+) (?P<requested_unit>[KMGTPE]?i?B) for an array with shape "
        r"(?P<shape>\([^)]*\)) and data type (?P<data_type>\w+)|: (?P<message>.+)|\s*$)",
        ("MemoryError",),
        kind="failure",
        fields={"requested": "B"},
        ending="out_of_memory",
        inconclusive=True,
    ),
    LogPattern(
        "cpp.bad_alloc",
        r"terminate called after throwing an instance of 'std::bad_alloc'"
        r"|what\(\):\s+std::bad_alloc",
        ("std::bad_alloc",),
        kind="failure",
        ending="out_of_memory",
    ),
    LogPattern(
        "go.timeout",
        rf"^\s*panic: test timed out after (?P<limit>{_HMS})",
        ("panic: test timed out after ",),
        kind="failure",
        fields={"limit": "hms"},
        ending="timeout",
    ),
    LogPattern(_RUNNING, r"^\s*running tests:\s*$", ("running tests:",), kind="context"),
    LogPattern(  # without the context, also the line of a test that has ended
        "go.running_test",
        rf"^\s+(?P<test>Test\w[\w/.-]*) \((?P<elapsed>{_HMS})\)\s*$",
        (),
        kind="failure",
        fields={"elapsed": "hms"},
        key=("test",),
        ending="timeout",
        context=_RUNNING,
        needs_context=True,
    ),
    LogPattern(
        "ctest.timeout",
        r"Test\s+#(?P<number>\d+): (?P<test>\S+) \.*\s*\*\*\*Timeout\s+(?P<elapsed>[\d.]+) sec",
        ("***Timeout",),
        kind="failure",
        fields={"elapsed": "s"},
        key=("test",),
        ending="timeout",
    ),
    LogPattern(
        "ctest.summary_timeout",
        r"^\s*(?:[\d:]+ )?\s*(?P<number>\d+) - (?P<test>\S+) \(Timeout\)\s*$",
        (" (Timeout)",),
        kind="failure",
        key=("test",),
        ending="timeout",
    ),
    LogPattern(
        "xctest.timeout",
        r"Test Case '(?P<test>[^']+)' exceeded execution time allowance of (?P<limit>\d+) "
        r"(?P<limit_unit>\w+)",
        ("exceeded execution time allowance of",),
        kind="failure",
        fields={"limit": "s"},
        key=("test",),
        ending="timeout",
    ),
)
