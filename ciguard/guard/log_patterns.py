"""What GitHub, its runner and the system say of a job that did not end by itself. Pure.

Sources of the texts: actions/runner (Runner.Worker), annotations in public issues. A test can print
each of them too: they only explain a leg that is dead anyway, and never make a verdict better.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.guard.verdict import Evidence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ciguard.guard.verdict import Kind
    from ciguard.model import Ending


@dataclass(frozen=True, slots=True)
class LogPattern:
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
    cause: Kind | None = None


_KILLER: Final = re.compile(
    r"(?:Memory cgroup out of memory|Out of memory): Kill(?:ed)? process \d+"
    r"|oom-kill:constraint=CONSTRAINT_"
    r"|sending SIG(?:TERM|KILL) to process \d+.{0,80}badness"
)
_NO_SPACE: Final = re.compile(r"No space left on device")
# By the runner itself, which marks what it calls an error.
DISK_OF_RUNNER: Final = re.compile(rf"(?m)^.{{0,40}}##\[error\].{{0,400}}{_NO_SPACE.pattern}")

# The first that is said wins: a job that was superseded at its limit was superseded.
PATTERNS: Final = (
    LogPattern(
        "superseded",
        re.compile(r"Canceling since a higher priority waiting request"),
        run_wide=True,
    ),
    LogPattern(
        "timeout",
        # Since 2025 "The job has exceeded ... of 15m0s", before "The job running on runner X ...".
        re.compile(
            r"The job (?:running on runner .{1,200}? )?has exceeded the maximum execution time of"
        ),
        cause="job_limit",
    ),
    LogPattern("cancelled", re.compile(r"The run was canceled by "), run_wide=True),
    LogPattern(
        "cancelled",
        re.compile(r"The strategy configuration was canceled because "),
        run_wide=True,
        cause="cancelled_by_fail_fast",
    ),
    LogPattern(
        "lost_runner",
        re.compile(r"runner(?:: .{1,200}?)? lost communication with the server"),
    ),
    LogPattern(
        "timeout",
        re.compile(r"The action '.{1,300}?' has timed out after \d+ minutes"),
        in_log=True,
        cause="step_timeout",
    ),
    LogPattern("disk_full", _NO_SPACE, in_log=True, needs_corroboration=True),
    LogPattern("out_of_memory", _KILLER, in_log=True, needs_corroboration=True),
    LogPattern(
        "runner_shutdown",
        re.compile(r"The runner has received a shutdown signal"),
        in_log=True,
    ),
)

# What the runner says of a step's process; alone it proves nothing.
EXIT_CODE: Final = re.compile(
    r"Process completed with exit code (-?\d+)|failed with exit code (-?\d+)"
)
KILLED_CODES: Final = frozenset({137, 143})  # 128 + SIGKILL, 128 + SIGTERM
_MARKS: Final = re.compile(r"^\ufeff?(?:\d{4}-\d\d-\d\dT[\d:.]+Z )?(?:##\[error\])?")
_QUOTED_CHARS: Final = 500  # of a line; a message may have 64 KB


def first_match(
    annotations: Iterable[str],
    log: str = "",
    *,
    run_wide: bool = False,
    corroborated: Collection[Ending] | None = None,
) -> tuple[LogPattern, Evidence] | None:
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


def exit_code(annotations: Iterable[str], log: str = "") -> tuple[int, Evidence] | None:
    """The last exit code that the runner names, with its line."""
    annotated, logged = _lines(annotations, log)
    found = [
        (match, one) for one in annotated + logged if (match := EXIT_CODE.search(one.facts["text"]))
    ]
    if not found:
        return None
    match, evidence = found[-1]
    return int(match[1] or match[2]), evidence


def _lines(annotations: Iterable[str], log: str) -> tuple[list[Evidence], list[Evidence]]:
    """Line by line, without a log's times and marks of an error, none too long to be quoted."""
    annotated = [line for text in annotations for line in text.splitlines()]
    logged = [_MARKS.sub("", line) for line in log.splitlines()]
    return (
        [Evidence("annotation", {"text": line[:_QUOTED_CHARS]}) for line in annotated],
        [Evidence("log", {"text": line[:_QUOTED_CHARS]}) for line in logged],
    )
