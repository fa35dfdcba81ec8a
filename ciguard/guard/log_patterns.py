"""Texts of GitHub, its runner, the system and allocators on a job or test that died. Pure.

The texts are rows of the one table of log patterns. A test can print each of them too: they only
explain a leg that is dead anyway, and never make a verdict better.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from ciguard.logs.pattern_table import PATTERNS as TABLE
from ciguard.logs.values import LogValue, Place
from ciguard.render.notes import Note

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ciguard.model import Ending, Result
ARTIFACT_NAME: Final = re.compile(
    next(row.pattern for row in TABLE if row.name == "actions.artifact_name")
)
ERROR_MARK: Final = "##[error]"  # of the runner, where a line of a log begins
# What the runner says of a step's process; alone it proves nothing.
EXIT_CODE: Final = re.compile(
    r"Process completed with exit code (-?\d+)|failed with exit code (-?\d+)"
)
KILLED_CODES: Final = frozenset({137, 143})  # 128 + SIGKILL, 128 + SIGTERM
_MARKS: Final = re.compile(r"^\ufeff?(?:\d{4}-\d\d-\d\dT[\d:.]+Z )?(?:##\[error\])?")
_MARK_CHARS: Final = 40 + len(ERROR_MARK)  # of a line, with its time
_QUOTED_CHARS: Final = 500  # of a line; a message may have 64 KB
_DEVICE_KEYS: Final = ("allocator", "gpu")
_ROWS: Final = tuple(
    row
    for row in TABLE
    if row.ending == "out_of_memory" and {"requested", "requested_bytes"} & row.fields.keys()
)


@dataclass(frozen=True, slots=True)
class EndingPattern:
    """A text that tells an ending.

    Attributes:
        in_log: it is looked for in a log too.
        needs_corroboration: in a log it is as likely a test's own print, and proves nothing alone.
        run_wide: it is said of one job and true of all that were cancelled with it.
        cause: what it says, where that is more than the ending.
    """

    ending: Ending
    pattern: re.Pattern[str]
    in_log: bool = False
    needs_corroboration: bool = False
    run_wide: bool = False
    cause: str | None = None


def _any_of(*names: str) -> str:
    """Join the patterns of the rows of these names in one, without named groups."""
    rows = [row.pattern for row in TABLE if row.name in names]
    return "|".join(re.sub(r"\(\?P<\w+>", "(?:", pattern) for pattern in rows)


def _ending(
    *names: str, in_log: bool = False, run_wide: bool = False, cause: str | None = None
) -> EndingPattern:
    (row, *_) = [row for row in TABLE if row.name in names]
    assert row.ending is not None
    pattern = re.compile(_any_of(*names))
    return EndingPattern(row.ending, pattern, in_log, in_log and row.inconclusive, run_wide, cause)


# By the runner itself, which marks what it calls an error.
DISK_OF_RUNNER: Final = re.compile(rf"(?m)^.{{0,40}}##\[error\].{{0,400}}{_any_of('disk.full')}")

# The first that is said wins: a job that was superseded at its limit was superseded.
PATTERNS: Final = (
    _ending("actions.superseded", run_wide=True),
    _ending("actions.job_timeout", cause="job_limit"),
    _ending("actions.run_cancelled", run_wide=True),
    _ending("actions.fail_fast", run_wide=True, cause="cancelled_by_fail_fast"),
    _ending("actions.lost_communication"),
    _ending("actions.step_timeout", in_log=True, cause="step_timeout"),
    _ending("disk.full", in_log=True),
    _ending("kernel.oom_kill", "kernel.oom_constraint", "earlyoom.kill", in_log=True),
    _ending("actions.shutdown_signal", in_log=True),
)


def first_match(
    annotations: Iterable[str],
    log: str = "",
    *,
    run_wide: bool = False,
    corroborated: Collection[Ending] | None = None,
) -> tuple[EndingPattern, Note] | None:
    """The text that decides, and its line.

    Args:
        run_wide: only those that are true of every job that was cancelled.
        corroborated: endings that something else shows too, of texts that prove nothing alone; None
            takes those without.
    """
    annotated, logged = _lines(annotations, log)
    for pattern in PATTERNS:
        if run_wide and not pattern.run_wide:
            continue
        alone = (
            pattern.needs_corroboration
            and corroborated is not None
            and pattern.ending not in corroborated
        )
        for evidence in [*annotated, *(reversed(logged) if pattern.in_log and not alone else ())]:
            if pattern.pattern.search(evidence.facts["text"]):
                return pattern, evidence
    return None


def exit_code(annotations: Iterable[str], log: str = "") -> tuple[int, Note] | None:
    """The last exit code that the runner names, with its line."""
    annotated, logged = _lines(annotations, log)
    found = [
        (match, one) for one in annotated + logged if (match := EXIT_CODE.search(one.facts["text"]))
    ]
    if not found:
        return None
    match, evidence = found[-1]
    return int(match[1] or match[2]), evidence


def refused_artifact(annotations: Iterable[str], log: str = "") -> tuple[str, Note] | None:
    """The name of an artifact that was not uploaded for it, and the line that says so.

    In a log only where the runner calls it an error: a test can print such a line, too.
    """
    errors = [line for line in log.splitlines() if ERROR_MARK in line[:_MARK_CHARS]]
    for evidence in chain(*_lines(annotations, "\n".join(errors))):
        if match := ARTIFACT_NAME.search(evidence.facts["text"]):
            return match["artifact"], evidence
    return None


def _lines(annotations: Iterable[str], log: str) -> tuple[list[Note], list[Note]]:
    """Line by line, without a log's times and marks of an error, none too long to be quoted."""
    annotated = [line for text in annotations for line in text.splitlines()]
    logged = [_MARKS.sub("", line) for line in log.splitlines()]
    return (
        [Note("annotation", {"text": line[:_QUOTED_CHARS]}) for line in annotated],
        [Note("log", {"text": line[:_QUOTED_CHARS]}) for line in logged],
    )


def failed_allocation(text: str) -> Note | None:
    """The first request that a text says has failed; None where it says no number.

    Allocators print it twice: once with the device, once as the exception's exact number.

    Returns:
        Its facts are `requested_bytes`, and `device`: `GPU_2_bfc` or `GPU 0`; "" of the machine's
        own memory, or where it is not said.
    """
    first: tuple[int, str] | None = None
    for found in _allocations(text):
        first = first or found
        if found[1] and found[0] == first[0]:
            first = found
            break
    if first is None:
        return None
    return Note("failed_allocation", {"requested_bytes": first[0], "device": first[1]})


def allocation_of(result: Result) -> Note | None:
    """Return the request of a test that ran out of memory; None where its message has none."""
    return failed_allocation(result.message or "") if result.ran_out_of_memory else None


def _allocations(text: str) -> Iterator[tuple[int, str]]:
    """Bytes and device of each request, in the order of the lines."""
    for line in text.splitlines():
        for row in _ROWS:
            if not any(trigger in line for trigger in row.triggers):
                continue
            match = _compiled(row.pattern).search(line)
            for one in row.values(match.groupdict(), Place()) if match else ():
                if isinstance(one, LogValue) and one.unit == "B":
                    yield round(one.value), _device(one)


def _device(value: LogValue) -> str:
    found = next(((one.name, one.value) for one in value.key if one.name in _DEVICE_KEYS), None)
    if found is None:
        return ""
    return f"GPU {found[1]}" if found[0] == "gpu" else found[1]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
