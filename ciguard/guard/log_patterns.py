"""Texts of GitHub, its runner, the system and allocators on a job or test that died. Pure.

The patterns are rows of `logs/pattern_table.py`. A test can print each of these texts: so a text
only explains a leg that died anyway, and never makes a verdict better.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final

from ciguard.logs.actions_patterns import TOOL_ERROR
from ciguard.logs.job_steps import find_steps
from ciguard.logs.log_reader import LogReader
from ciguard.logs.pattern_table import PATTERNS as TABLE
from ciguard.logs.pattern_table import endings
from ciguard.logs.values import UNPLACED, LogValue
from ciguard.model import MEMORY_ENDINGS, Ending, Result
from ciguard.model.jobs import LOG_TAIL_BYTES, Step
from ciguard.render.notes import Note
from ciguard.text import COLOURS

ARTIFACT_NAME: Final = re.compile(
    next(row.pattern for row in TABLE if row.name == "actions.artifact_name")
)
ERROR_MARK: Final = "##[error]"  # the runner begins an error line of a log with it
# The runner's text on the process of a step; the text alone decides no ending.
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
    """A text that names an ending.

    Attributes:
        in_log: the text is also searched in a log.
        needs_corroboration: in a log, the text needs a second witness: tests often print it.
        run_wide: the text on one job applies to all jobs that were cancelled with it.
        cause: kind of the cause, if the text names more than the ending.
    """

    ending: Ending
    pattern: re.Pattern[str]
    in_log: bool = False
    needs_corroboration: bool = False
    run_wide: bool = False
    cause: str | None = None


def _any_of(*names: str) -> str:
    """Join the patterns of the named rows, without named groups."""
    rows = [row.pattern for row in TABLE if row.name in names]
    return "|".join(re.sub(r"\(\?P<\w+>", "(?:", pattern) for pattern in rows)


def _ending(
    *names: str, in_log: bool = False, run_wide: bool = False, cause: str | None = None
) -> EndingPattern:
    (row, *_) = [row for row in TABLE if row.name in names]
    assert row.ending is not None
    pattern = re.compile(_any_of(*names))
    return EndingPattern(row.ending, pattern, in_log, in_log and row.inconclusive, run_wide, cause)


# Only in a line that the runner marks as an error.
DISK_OF_RUNNER: Final = re.compile(rf"(?m)^.{{0,40}}##\[error\].{{0,400}}{_any_of('disk.full')}")

# The first pattern with a match decides: a job that was superseded at its limit was superseded.
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
    """Return the pattern that decides, and the matching line.

    Args:
        run_wide: only texts that apply to all jobs that were cancelled with one.
        corroborated: endings that have a second witness; None: no text needs one.
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


def endings_note(log: str) -> Note | None:
    """Return how often a log reports timeouts and memory that ran out; None for never."""
    by_name, tail = endings(), log.encode()
    values = _failure_reader().read(io.BytesIO(tail)).values if log else ()
    found = Counter(by_name[value.name][0] for value in values)
    out_of_memory = sum(found[ending] for ending in MEMORY_ENDINGS)
    if not found["timeout"] and not out_of_memory:
        return None
    last_bytes = LOG_TAIL_BYTES if len(tail) >= LOG_TAIL_BYTES else None
    facts = {"timeouts": found["timeout"], "out_of_memory": out_of_memory}
    return Note("counted", {**facts, "last_bytes": last_bytes})


@lru_cache(maxsize=1)
def _failure_reader() -> LogReader:
    return LogReader([row for row in TABLE if row.kind == "failure"])


def exit_code(annotations: Iterable[str], log: str = "") -> tuple[int, Note] | None:
    """Return the last exit code that the runner names, with its line."""
    annotated, logged = _lines(annotations, log)
    matches = [
        (match, line)
        for line in annotated + logged
        if (match := EXIT_CODE.search(line.facts["text"]))
    ]
    if not matches:
        return None
    match, evidence = matches[-1]
    return int(match[1] or match[2]), evidence


def refused_artifact(annotations: Iterable[str], log: str = "") -> tuple[str, Note] | None:
    """Return the name of an artifact whose upload was refused for its name, with the line.

    Of a log only lines count that the runner marks as an error: a test can print the same text.
    """
    errors = [line for line in log.splitlines() if ERROR_MARK in line[:_MARK_CHARS]]
    for evidence in chain(*_lines(annotations, "\n".join(errors))):
        if match := ARTIFACT_NAME.search(evidence.facts["text"]):
            return match["artifact"], evidence
    return None


def step_error(log: str, steps: Sequence[Step], failed: Step) -> str | None:
    """Return the line of the end of a log with the error of a failed step; None without one.

    The last line that the runner marks as an error counts, but for exit codes; without one, the
    last in which a tool reports an error; without one, the last output before the exit code.
    """
    lines = [COLOURS.sub("", line) for line in log.splitlines()]
    starts = find_steps((line.encode() for line in lines), steps)
    marked, printed, output, end, step = None, None, "", "", None if starts else failed
    for number, line in enumerate(lines, 1):
        step, text = starts.get(number, step), _MARKS.sub("", line)
        if step != failed:
            continue
        if EXIT_CODE.search(text):
            end = output
        elif ERROR_MARK in line[:_MARK_CHARS]:
            marked = text
        elif TOOL_ERROR.match(text):
            printed = text
        elif text.strip():
            output = "" if text.startswith("##[") else text  # no command, which is in a group
    return (marked or printed or end)[:_QUOTED_CHARS] or None


def _lines(annotations: Iterable[str], log: str) -> tuple[list[Note], list[Note]]:
    """Return the lines as evidence, cut to a length, without the times and error marks of a log."""
    annotated = [line for text in annotations for line in text.splitlines()]
    logged = [_MARKS.sub("", line) for line in log.splitlines()]
    return (
        [Note("annotation", {"text": line[:_QUOTED_CHARS]}) for line in annotated],
        [Note("log", {"text": line[:_QUOTED_CHARS]}) for line in logged],
    )


def failed_allocation(text: str) -> Note | None:
    """Return the first failed request of memory in a text; None if the text has no number.

    Allocators print a request twice: with the device, and as the exact number of the exception.

    Returns:
        a note with `requested_bytes`, and `device`: `GPU_2_bfc` or `GPU 0`; "" for the memory of
        the machine, or if the text names no device.
    """
    requests = list(_allocations(text))
    if not requests:
        return None
    (size, first), *_ = requests
    device = next((device for other, device in requests if device and other == size), first)
    return Note("failed_allocation", {"requested_bytes": size, "device": device})


def allocation_of(result: Result) -> Note | None:
    """Return the failed request of a test that ran out of memory, by its message; None without."""
    return failed_allocation(result.message or "") if result.ran_out_of_memory else None


def _allocations(text: str) -> Iterator[tuple[int, str]]:
    """Yield bytes and device of each request, in the order of the lines."""
    for line in text.splitlines():
        for row in _ROWS:
            if not any(trigger in line for trigger in row.triggers):
                continue
            match = re.search(row.pattern, line)
            for value in row.values(match.groupdict(), UNPLACED) if match else ():
                if isinstance(value, LogValue) and value.unit == "B":
                    yield round(value.value), _device(value)


def _device(value: LogValue) -> str:
    device = next((part for part in value.key if part.name in _DEVICE_KEYS), None)
    if device is None:
        return ""
    return f"GPU {device.value}" if device.name == "gpu" else device.value
