"""Many failures -> few causes: by exception and the frame it came from, else by its words. Pure.

A record keeps the first 4,096 bytes of a message, so frames may be missing, and often are: then
what is said decides, without the numbers, addresses, paths and ids that differ from test to test.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ciguard.document import first_line
from ciguard.guard.verdict import Failure, FailureGroup, Hotspot
from ciguard.render.variant_groups import fingerprint
from ciguard.run.frameworks.registry import FRAMEWORKS
from ciguard.text import count_of, one_line, whole_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.model import Ending, Result, Suite, UnitKey

HEAD_CHARS: Final = 200  # of a message, where its exception stands
LEAST_SAID: Final = 12  # characters of a message that say anything
STACK_CHARS: Final = 2000  # of a message, where a frame that says something is looked for
# "tests/test_mail.py:12: ", as a leg begins its messages.
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
_INSTALLED: Final = re.compile(r"node_modules[\\/]|node:|site-packages[\\/]|/lib/python\d|<frozen ")
# What is thrown instead of the exception that was: that one follows it, by one of these marks.
_WRAPPERS: Final = frozenset(
    {"AggregateException", "CompletionException", "ExecutionException"}
    | {"InvocationTargetException", "TargetInvocationException", "TypeInitializationException"}
    | {"ExceptionInInitializerError"}
)
_INNER: Final = re.compile(r"(?:Caused by: |-{3,}> ?|-{4,} )((?:[\w$]+\.)*[A-Z]\w+)\b")
# Where exceptions pass through: the runtime, and what runs tests.
_PASSED_THROUGH: Final = re.compile(
    r"(?:System|Microsoft|java(?:x|\.base)?|jdk|sun|kotlin|scala|Xunit|NUnit|Shouldly|FluentAssertions"
    r"|junit|org\.(?:junit|testng|hamcrest|assertj)|Object|Array|Promise|process|Module|node|async)"
    r"(?=[./:])"
)
_ASYNC: Final = re.compile(r"<(\w+)>[\w$|]*(?:\.MoveNext)?")  # .NET's name of an async method
_MEMORY: Final = re.compile(r"OutOfMemory|MemoryError|bad_alloc")
_PARAMETERS: Final = re.compile(r"[\[(]")


@dataclass(frozen=True, slots=True)
class _Signature:
    """The common part of failures of one cause; `message` is empty where the frame is enough."""

    kind: str
    frame: str
    message: str


def group_failures(failures: Sequence[Failure]) -> tuple[FailureGroup, ...]:
    """Group failures, the largest group first, ties by name. O(failures)."""
    grouped: dict[_Signature, list[Failure]] = defaultdict(list)
    for failure in failures:
        grouped[_signature(failure.result)].append(failure)
    found = [
        FailureGroup(root.kind, root.frame, _group_message(root, group), tuple(group))
        for root, group in grouped.items()
    ]
    return tuple(
        sorted(found, key=lambda one: (-len(one.failures), one.kind, one.frame, one.message))
    )


def summary_line(cause: FailureGroup, width: int) -> str:
    """ "950 x OutOfMemoryException in Tensor.Allocate (7 shards)"; the message is what is cut."""
    place = f" in {cause.frame}" if cause.frame else ""
    tail = f" ({count_of(cause.shards, 'shard')})"
    head = one_line(f"{len(cause.failures):,} x {cause.kind}{place}", width - len(tail))
    left = width - len(head) - len(tail) - len(": ")
    said = f": {one_line(cause.message, left)}" if cause.message and left >= LEAST_SAID else ""
    return head + said + tail


def find_hotspots(
    causes: Sequence[FailureGroup], suites: Mapping[str, Suite]
) -> tuple[Hotspot, ...]:
    """Count failures by what their units have in common, the worst first, ties by name."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for cause in causes:
        memory = _MEMORY.search(cause.kind) is not None
        for failure in cause.failures:
            family = _family(failure.result.key.unit_key, suites)
            counts[family][_column(failure.result, memory=memory)] += 1
    found = [Hotspot(name, **columns) for name, columns in counts.items()]
    return tuple(sorted(found, key=lambda one: (-one.total, one.name)))


def _family(key: UnitKey, suites: Mapping[str, Suite]) -> str:
    """The nearest group of a unit that is more than its own parameters: a class, else the file."""
    suite = suites.get(key.suite)
    adapter = FRAMEWORKS.get(suite.framework) if suite is not None else None
    own = _PARAMETERS.split(key.unit, maxsplit=1)[0]
    ancestors = adapter.ancestors(key.unit) if adapter is not None else ()
    name = next((ancestor for ancestor in ancestors if ancestor not in ("", own)), own)
    return whole_name(key._replace(unit=name.rstrip(":.") or own))


def effective_ending(result: Result) -> Ending:
    """Its ending; an exception that says that memory ran out is as good as the system's word."""
    if result.ending == "completed" and _MEMORY.search(result.message or ""):
        return "out_of_memory" if _MEMORY.search(_parse(result.message or "")[0]) else "completed"
    return result.ending


def _column(result: Result, *, memory: bool) -> str:
    if result.ending == "timeout":
        return "timeouts"
    if memory or result.ending in ("out_of_memory", "memory_guard"):
        return "out_of_memory"
    return "died" if result.outcome == "died" else "failures"


def _signature(result: Result) -> _Signature:
    kind, place, message, named = _parse(result.message or "")
    if result.ending != "completed":
        kind = kind if _MEMORY.search(kind) else result.ending.replace("_", " ")
    kind = kind or result.outcome
    if _is_own(place, result, is_function=named):
        return _Signature(kind, "", message)
    return _Signature(kind, place, "" if named else message)


def _group_message(root: _Signature, group: Sequence[Failure]) -> str:
    """Their own where all say the same, else what they have in common."""
    if len(group) > 1 and not root.message:
        return ""
    first = _message_of(group[0])
    return first if all(_message_of(one) == first for one in group[1:]) else root.message


def _message_of(failure: Failure) -> str:
    """Return the text of a failure after its exception, unchanged."""
    message = failure.result.message or ""
    crash = _CRASH.match(message)
    text = message[crash.end() if crash else 0 :][:HEAD_CHARS]
    found = _KIND.match(text)
    return first_line(text[found.end() if found else 0 :])


@lru_cache(maxsize=4096)  # a broken fixture says the same to thousands
def _parse(message: str) -> tuple[str, str, str, bool]:
    """Exception, place, skeleton of what is said; and whether the place is a function."""
    crash = _CRASH.match(message)
    text = message[crash.end() if crash else 0 :][:STACK_CHARS]
    # Python says first where it was, and last what happened.
    head = text[-HEAD_CHARS:] if text.startswith("Traceback (") else text[:HEAD_CHARS]
    found = _KIND.search(head)
    kind = re.split(r"[.:]", found[1])[-1] if found else ""
    inner = _INNER.search(text) if kind in _WRAPPERS else None
    kind = inner[1].rpartition(".")[2] if inner else kind
    rest = head[found.end() :] if found else head
    message_text = first_line(rest)
    if message_text.startswith(("at ", "File ")):
        message_text = ""
    frame = next(_frames(text), "")
    place = frame or (crash[1] if crash else "")
    return kind, place, fingerprint(message_text), bool(frame)


def _frames(text: str) -> Iterator[str]:
    """Functions that an exception came from, the nearest first, as `Class.method`."""
    for found in _AT.finditer(text):
        name = _ASYNC.sub(r"\1", found[1])
        if not _PASSED_THROUGH.match(name) and not _INSTALLED.search(found[2]):
            yield ".".join(re.split(r"[.+]", re.sub(r"`\d+|\[.*?\]", "", name))[-2:])
    python = [found[2] for found in _FILE.finditer(text) if not _INSTALLED.search(found[1])]
    yield from reversed(python)


def _is_own(frame: str, result: Result, *, is_function: bool) -> bool:
    """Return whether a place is the test itself, or its file: then it groups nothing."""
    if is_function:
        return frame.rpartition(".")[2] in re.split(r"\W+", result.unit)
    return bool(frame) and (frame == result.file or result.unit.startswith(frame))
