"""How a failed case ended, by the type and message of its failure: one table for all formats.

Only the whole type or the start of the message counts: a test that fails because of its own
request's timeout is an ordinary failure. The patterns use the syntax that `re` and RE2 share. The
patterns of `ciguard.logs` find the same failures anywhere in a log, and a test compares both
tables. Pure, Python 3.8+.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ciguard.model import Ending

MAX_CHARACTERS: Final = 1000  # characters of a message; its start says how the case ended

# By the last part of a type's name, in lower case.
_TYPES: Final[Mapping[str, Ending]] = {
    **dict.fromkeys(
        ("timeout", "testtimeout", "test timeout", "timedout", "testtimedoutexception"), "timeout"
    ),
    **dict.fromkeys(("testtimeoutexception", "threadtimeoutexception"), "timeout"),
    **dict.fromkeys(
        ("outofmemory", "outofmemoryerror", "outofmemoryexception", "out_of_memory"),
        "out_of_memory",
    ),
    **dict.fromkeys(
        ("insufficientmemoryexception", "memoryerror", "_arraymemoryerror"),  # numpy's
        "out_of_memory",
    ),
    **dict.fromkeys(("crash", "crashed", "sigsegv", "segfault"), "crash"),
}
_MESSAGES: Final[tuple[tuple[Ending, re.Pattern[str]], ...]] = (
    (
        "out_of_memory",
        re.compile(
            r"Exception of type '?System\.(OutOf|Insufficient)Memory"
            r"|(FATAL ERROR: )?.{0,80}JavaScript heap out of memory"
            r"|Java heap space|CUDA out of memory|RESOURCE_EXHAUSTED: Out of memory"
            r"|Out of memory|(E +)?MemoryError\s*$"
            r'|(C\+\+ exception with description ")?std::bad_alloc'  # GoogleTest
            r"|\[Errno 12\] Cannot allocate memory"
            r"|.{0,80}Test host process crashed ?: Out of memory"
            r"|Jest worker ran out of memory and crashed",
            re.I,
        ),
    ),
    (
        "timeout",
        re.compile(
            r"Timeout( \(?>|$)"
            r"|Test (timeout of|timed out (after|in)) "  # Playwright; JUnit 4, Vitest
            r"|Test execution timed out after"  # xUnit
            r"|Test exceeded (the )?(Timeout|CancelAfter) value"  # NUnit; MSTest
            r"|Test '?.{1,300}?'? (exceeded execution timeout|(execution )?timed out after)"
            r"|[\w.$]+\(.{0,200}\) timed out after \d"  # JUnit 5
            r"|Method \S+ didn't finish within the time-out"  # TestNG
            r"|Timeout of [\d,.]+ ?ms exceeded"  # Mocha
            r"|Exceeded timeout of [\d,.]+ ?ms for a"  # Jest
            r"|panic: test timed out after",  # Go
            re.I,
        ),
    ),
    (
        "crash",
        re.compile(
            r"worker '\w+' crashed while running"
            r"|.{0,80}Test host process (crashed|exited)"  # VSTest
            r"|The forked VM terminated without"  # Surefire
            r"|worker process exited unexpectedly"  # Playwright
            r"|A jest worker process .{0,80}was terminated|Jest worker encountered \d+ child"
            r"|Segmentation fault|SEGFAULT|(process|test) (crashed|abort(ed)? with)"
            r"|SIG(SEGV|ABRT|BUS|ILL|FPE|KILL)\b|signal:? \d+\b",
            re.I,
        ),
    ),
)
# First lines that runtimes print when they end a process without memory.
_FATAL_MEMORY: Final = re.compile(
    r"^(?:FATAL ERROR: .{0,120}(?:heap out of memory|Allocation failed)"  # V8
    r"|fatal error: (?:runtime: )?(?:out of memory|cannot allocate memory)"  # Go
    r"|.{0,200}java\.lang\.OutOfMemoryError\b|Terminating due to java\.lang\.OutOfMemoryError"
    r"|\[ERROR\] (?:Java heap space|GC overhead limit exceeded|Metaspace)$"  # Surefire's summary
    r"|\[FATAL\] failed to allocate memory|.{0,200}failed to allocate memory \(NoMemoryError\)"
    r"|memory allocation of \d+ bytes failed"  # Rust
    r"|.{0,200}(?:what\(\):  |')std::bad_alloc)"
    # PHP, after the progress that PHPUnit prints in a line.
    r"|(?:PHP )?Fatal error: +(?:Allowed memory size of \d+ bytes exhausted|Out of memory \()",
    re.M,
)
# Texts before the message: a type, a position in the code, or the words with which a runner quotes
# the message of another program.
_PREFIX: Final = re.compile(
    r"[^\n:]{1,300}:\d+:\s+|"
    r"(?:Test method \S+ threw exception:|failed on (?:setup|teardown) with|thrown:"
    r"|One or more errors occurred\.|-+)\s*[\"(]?\s*"
    r"|(?P<type>[\w.+$]*(?:Exception|Error|Failed|Failure|Timeout|OutOfMemory))\s?:\s+[\"]?"
)
_MAX_PREFIXES: Final = 4


def ending_of_failure(kind: str, message: str | None) -> Ending:
    """Return the ending of a failed case; "completed" if neither type nor message is in the table.

    Args:
        kind: the failure's type, such as `System.OutOfMemoryException`; "" if unknown.
        message: only its start is used.
    """
    known_ending = _ending_of_type(kind)
    text = (message or "")[:MAX_CHARACTERS].strip()
    for _ in range(_MAX_PREFIXES):
        if known_ending is not None:
            return known_ending
        for ending, pattern in _MESSAGES:
            if pattern.match(text):
                return ending
        prefix = _PREFIX.match(text)
        if prefix is None:
            break
        known_ending = _ending_of_type(prefix["type"] or "")
        text = text[prefix.end() :]
    return known_ending or "completed"


def memory_failure(output: str) -> str:
    """Return the line of the output in which a runtime reports its end because of memory, or ""."""
    match = _FATAL_MEMORY.search(output)
    return "" if match is None else output[match.start() :].splitlines()[0]


def _ending_of_type(kind: str) -> Ending | None:
    return _TYPES.get(re.split(r"[.$+]", kind.strip())[-1].lower()) if kind else None
