"""The grouping of failures by cause: exception and frame, or exception and message. Pure.

A record keeps the first 4,096 bytes of a message, so frames are often missing: then the text of the
message decides, without numbers, addresses, paths and ids, which differ between tests. The callers
of a shared frame tell what the tests have in common: an allocator fails for each of its users.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count, zip_longest
from typing import Final

from ciguard.document import Code, Span, first_line, join, plain
from ciguard.guard.verdict import Failure, FailureGroup, Hotspot
from ciguard.model import Ending, Result, Suite, UnitKey
from ciguard.render.variant_groups import fingerprint
from ciguard.run.frameworks.registry import FRAMEWORKS
from ciguard.text import count_of, one_line, whole_name

HEAD_CHARS: Final = 200  # of a message: its exception is within them
MIN_MESSAGE_CHARS: Final = 12  # a shorter part of a message is not shown
STACK_CHARS: Final = 2000  # of a message, which are searched for frames
MOST: Final = 0.9  # share of the failures of a cause that have a caller in common
MAX_CALLERS: Final = 2  # named where stacks divide; others are counted
# "tests/test_mail.py:12: ", with which `ciguard run` begins messages.
_CRASH: Final = re.compile(r"([^\s:][^\n:]{0,200}\.\w{1,8}):\d{1,7}: ")
_KIND: Final = re.compile(
    r"(?m)^\s*(?:E\s+)?(?:Unhandled exception\. |Exception in thread \S+ |Uncaught )?"
    r"((?:[\w$]+[.:]{1,2})*(?:[A-Z]\w*)?(?:Error|Exception|Failure|Failed|Timeout|Interrupt|Exit)"
    r"|(?:std::)?bad_alloc)"
    r"(?:\s*\[[^\]\n]*\])?\s*(?::\s*|\n|\Z)"
)
# at Namespace.Class.Method(...): .NET, Java, JavaScript.
_AT: Final = re.compile(r"(?m)^[ \t]*at (?:async |new )?([^\s(]+) ?\(([^)\n]*)")
_FILE: Final = re.compile(r'(?m)^[ \t]*File "([^"\n]+)", line \d+, in ([^\s(]+)')
_INSTALLED: Final = re.compile(
    r"<anonymous>|^internal/|node_modules[\\/]|node:|site-packages[\\/]|/lib/python\d|<frozen "
)
# Exceptions that wrap another one, whose name follows one of the texts in `_INNER`.
_WRAPPERS: Final = frozenset(
    {"AggregateException", "CompletionException", "ExecutionException"}
    | {"InvocationTargetException", "TargetInvocationException", "TypeInitializationException"}
    | {"ExceptionInInitializerError"}
)
_INNER: Final = re.compile(r"(?:Caused by: |-{3,}> ?|-{4,} )((?:[\w$]+\.)*[A-Z]\w+)\b")
# Functions that exceptions only pass through: those of runtimes, assertions and test runners.
_PASSED_THROUGH: Final = re.compile(
    r"(?:System|Microsoft|java(?:x|\.base)?|jdk|sun|kotlin|scala|Xunit|NUnit|Shouldly|FluentAssertions"
    r"|junit|org\.(?:junit|testng|hamcrest|assertj)|Object|Array|Promise|process|Module|node|async)"
    r"(?=[./:])"
)
# Of tests and their helpers, which the tests of a class or folder share anyway.
_TEST_CODE: Final = re.compile(r"(?i:(^|[./\\])(tests?|specs?)[./\\])|Tests?(Base)?\.|\.test\.")
_ASYNC: Final = re.compile(r"<(\w+)>[\w$|]*(?:\.MoveNext)?")  # .NET's name of an async method
_MEMORY: Final = re.compile(r"OutOfMemory|MemoryError|bad_alloc")
_PARAMETERS: Final = re.compile(r"(?<!/)[\[(]")  # a folder may be called "[id]" or "(shop)"


@dataclass(frozen=True, slots=True)
class _Signature:
    """The common part of failures of one cause; `message` is empty if the frame is a function."""

    kind: str
    frame: str
    message: str


def group_failures(failures: Sequence[Failure]) -> tuple[FailureGroup, ...]:
    """Group failures, the largest group first, ties by name. O(failures)."""
    grouped: dict[_Signature, list[Failure]] = defaultdict(list)
    stacks: dict[_Signature, list[tuple[str, ...]]] = defaultdict(list)
    for failure in failures:
        root, stack = _signature(failure.result)
        grouped[root].append(failure)
        stacks[root].append(stack)
    groups = [
        FailureGroup(
            *(root.kind, root.frame, _group_message(root, group), tuple(group)),
            *_find_callers(root.frame, stacks[root]),
        )
        for root, group in grouped.items()
    ]
    groups.sort(key=lambda group: (-len(group.failures), group.kind, group.frame, group.message))
    return tuple(groups)


def summary_line(cause: FailureGroup, width: int) -> str:
    """Return "950 x OutOfMemoryException in Tensor.Allocate (7 shards)", with callers that fit."""
    frame, *callers = map(plain, origin_spans(cause))
    tail = f" ({count_of(cause.shards, 'shard')})"
    head = one_line(f"{len(cause.failures):,} x {cause.kind}{frame}", width - len(tail))
    for caller in callers:
        head += caller if len(head + caller + tail) <= width else ""
    left = width - len(head) - len(tail) - len(": ")
    message = (
        f": {one_line(cause.message, left)}" if cause.message and left >= MIN_MESSAGE_CHARS else ""
    )
    return head + message + tail


def origin_spans(cause: FailureGroup) -> tuple[tuple[Span, ...], ...]:
    """Word the frame of a cause, the caller that most share, and the callers that divide them."""
    shared = f" ({cause.caller_failures:,} of {len(cause.failures):,})"
    dividing = [(Code(name), f" ({count:,})") for name, count in cause.dividing.items()]
    return (
        (" in ", Code(cause.frame)) if cause.frame else (),
        (", from ", Code(cause.caller), shared) if cause.caller else (),
        (", through ", *join(dividing, most=MAX_CALLERS)) if dividing else (),
    )


def _find_callers(
    frame: str, stacks: Sequence[tuple[str, ...]]
) -> tuple[str, int, Mapping[str, int]]:
    """Return the caller that most failures share, their number, and what divides them next.

    Most failures pass through one outermost class; the caller is the function of this class that is
    nearest to the frame. A stack that the record truncated has fewer callers.
    """
    least = max(2.0, MOST * len(stacks))
    depths: Counter[str] = Counter()
    for stack in stacks:
        depths.update(dict(zip(stack, count(1), strict=False)))
    counts = Counter(chain.from_iterable(stacks))
    common = [name for name in counts if counts[name] >= least and _class(name) != _class(frame)]
    common.sort(key=lambda name: (depths[name] / counts[name], name))
    caller = next((name for name in common if _class(name) == _class(common[-1])), "")
    columns = (Counter(sorted(filter(None, column))) for column in zip_longest(*stacks))
    dividing = next((each for each in columns if max(each.values()) < least), Counter[str]())
    is_division = len(dividing) > 1 < max(dividing.values())
    return caller, counts[caller], dict(dividing.most_common()) if is_division else {}


def _class(frame: str) -> str:
    return frame.rpartition(".")[0].rstrip(".") or frame


def find_hotspots(
    causes: Sequence[FailureGroup], suites: Mapping[str, Suite]
) -> tuple[Hotspot, ...]:
    """Count failures by class or file of their units, the largest count first, ties by name."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for cause in causes:
        memory = _MEMORY.search(cause.kind) is not None
        for failure in cause.failures:
            family = _family(failure.result.key.unit_key, suites)
            counts[family][_column(failure.result, memory=memory)] += 1
    hotspots = [Hotspot(name, **columns) for name, columns in counts.items()]
    return tuple(sorted(hotspots, key=lambda hotspot: (-sum(hotspot.counts), hotspot.name)))


def _family(key: UnitKey, suites: Mapping[str, Suite]) -> str:
    """Return the class of a unit, or its file; never only the unit without its parameters."""
    suite = suites.get(key.suite)
    adapter = FRAMEWORKS.get(suite.framework) if suite is not None else None
    own = _PARAMETERS.split(key.unit, maxsplit=1)[0]
    ancestors = adapter.ancestors(key.unit) if adapter is not None else ()
    name = next((ancestor for ancestor in ancestors if 0 < len(ancestor) < len(own)), own)
    return whole_name(key._replace(unit=name.rstrip(":.") or own))


def effective_ending(result: Result) -> Ending:
    """Return the ending of a result; an out-of-memory exception counts as `out_of_memory`."""
    if result.ending == "completed" and _MEMORY.search(result.message or ""):
        return "out_of_memory" if _MEMORY.search(_parse(result.message or "")[0]) else "completed"
    return result.ending


def _column(result: Result, *, memory: bool) -> str:
    if result.ending == "timeout":
        return "timeouts"
    if memory or result.ending in ("out_of_memory", "memory_guard"):
        return "out_of_memory"
    return "died" if result.outcome == "died" else "failures"


def _signature(result: Result) -> tuple[_Signature, tuple[str, ...]]:
    """Return what the failures of a cause share, and the callers of the frame up to the test."""
    kind, message, file, frames = _parse(result.message or "")
    if result.ending != "completed":
        kind = kind if _MEMORY.search(kind) else result.ending.replace("_", " ")
    kind, frame = kind or result.outcome, next(iter(frames), file)
    if _is_own(frame, result, is_function=bool(frames)):
        return _Signature(kind, "", message), ()
    own = re.split(r"\W+", result.unit) if len(frames) > 1 else ()
    test = next((n for n, name in enumerate(frames) if name.rpartition(".")[2] in own), None)
    return _Signature(kind, frame, "" if frames else message), frames[1:test]


def _group_message(root: _Signature, group: Sequence[Failure]) -> str:
    """Return the message of the failures if all are equal, otherwise their common part."""
    if len(group) > 1 and not root.message:
        return ""
    first = _message_of(group[0])
    return first if all(_message_of(failure) == first for failure in group[1:]) else root.message


def _message_of(failure: Failure) -> str:
    """Return the text of a failure after its exception, unchanged."""
    message = failure.result.message or ""
    crash = _CRASH.match(message)
    text = message[crash.end() if crash else 0 :][:HEAD_CHARS]
    exception = _KIND.match(text)
    return first_line(text[exception.end() if exception else 0 :])


@lru_cache(maxsize=4096)  # a broken fixture gives thousands of tests the same message
def _parse(message: str) -> tuple[str, str, str, tuple[str, ...]]:
    """Return exception, fingerprint of the message, file, and the stack without code of tests."""
    crash = _CRASH.match(message)
    text = message[crash.end() if crash else 0 :][:STACK_CHARS]
    # A traceback of Python ends with the exception.
    head = text[-HEAD_CHARS:] if text.startswith("Traceback (") else text[:HEAD_CHARS]
    exception = _KIND.search(head)
    kind = re.split(r"[.:]", exception[1])[-1] if exception else ""
    inner = _INNER.search(text) if kind in _WRAPPERS else None
    kind = inner[1].rpartition(".")[2] if inner else kind
    message_text = first_line(head[exception.end() :] if exception else head)
    if message_text.startswith(("at ", "File ")):
        message_text = ""
    return kind, fingerprint(message_text), crash[1] if crash else "", _stack(text)


def _stack(text: str) -> tuple[str, ...]:
    """Return the functions of a stack, the innermost first, each once, up to code of tests."""
    lines = _AT.findall(text) or [(name, file) for file, name in reversed(_FILE.findall(text))]
    frames: dict[str, None] = {}
    for name, is_test_code in (_function(*line) for line in lines):
        if frames and is_test_code:
            break
        if name:
            frames[name] = None
    return tuple(frames)


@lru_cache(maxsize=4096)
def _function(name: str, place: str) -> tuple[str, bool]:
    """Return `Class.method`, "" for one of a library, and whether it is code of tests."""
    name = _ASYNC.sub(r"\1", name) if "." in name else name
    if _PASSED_THROUGH.match(name) or _INSTALLED.search(place):
        return "", False
    parts = re.split(r"(?<!\.)[.+]", re.sub(r"`\d+|\[.*?\]", "", name))  # .NET: Class..ctor
    return ".".join(parts[-2:]), _TEST_CODE.search(f"{name} {place}") is not None


def _is_own(frame: str, result: Result, *, is_function: bool) -> bool:
    """Return whether a frame is the test itself or its file, and so is no common cause."""
    if is_function:
        return frame.rpartition(".")[2] in re.split(r"\W+", result.unit)
    return bool(frame) and (frame == result.file or result.unit.startswith(frame))
