"""Why a unit has no result although its process ended by itself: from what the process said. Pure.

A program says it by events of its own file: `not_collected` (a unit that it did not find or take),
`collection_error` (a file or folder that it could not read, and why), `interrupted` (what ended it
in the midst of a unit).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Dict, Final, List, Tuple

from ciguard.model import EventLine, UnitKey
from ciguard.text import count_of, last_line

if TYPE_CHECKING:
    from typing import Iterator, Optional, Sequence

    from ciguard.model import EventKind

LISTED: Final = 100  # units by name behind an early end; the plan knows the others


@dataclass
class ProcessReport:
    """What one process said so far, besides starts and results.

    Attributes:
        vanished: with the program's own reason, "" where it simply did not find the unit.
        errors: (path or name of what could not be collected, last line of the error).
        interrupted: what ended the process while the unit ran.
        collecting: it reads test files, and has begun none of its units.
        stopped: why its framework began no more units, in its own words.
        finished: it came to the end of its session, where a framework shows what failed.
        unreadable: the first line of it that is none, and why; "" where all could be read.
    """

    vanished: Dict[UnitKey, str] = field(default_factory=dict)
    errors: List[Tuple[str, str]] = field(default_factory=list)
    interrupted: Dict[UnitKey, str] = field(default_factory=dict)
    collecting: bool = False
    stopped: str = ""
    finished: bool = False
    unreadable: str = ""

    def add(self, event: EventLine) -> None:
        """Take in an event of the process's own file."""
        key = UnitKey(event.suite, event.variant, event.unit or "")
        if event.kind == "not_collected":
            self.vanished[key] = event.detail
        elif event.kind == "collection_error":
            self.errors.append((key.unit, last_line(event.detail)))
        elif event.kind == "interrupted":
            self.interrupted[key] = event.detail
        elif event.kind in ("collection_start", "collection_end"):
            self.collecting = event.kind == "collection_start"
        elif event.kind == "session_stopped":
            self.stopped = event.detail
        elif event.kind == "session_end":
            self.finished = True

    def error_of(self, unit: str) -> Optional[str]:
        """The error of the file, class or folder that holds the unit."""
        for place, error in self.errors:
            inside = unit.startswith((f"{place}::", f"{place}/"))
            if inside or place in ("", ".", unit):
                return error
        return None


def not_run_events(
    missing: Sequence[UnitKey], planned: int, reason: str, now_s: float
) -> Iterator[EventLine]:
    """What a leg that was ended early leaves: how many units, and of them the first by name.

    Args:
        missing: units without a result, in the shard's order. planned: how many it has.
        reason: why the leg ended.
    """
    if not missing:
        return
    of = f"{len(missing)} of {count_of(planned, 'unit')} did not run"
    yield EventLine("not_run", now_s, detail=f"{of}: {reason}")
    for suite, variant, unit in missing[:LISTED]:
        detail = f"it was not started: {reason}"
        yield EventLine("not_run", now_s, None, suite, variant, unit, detail)


def missing_event(
    report: ProcessReport, key: UnitKey, *, framework: str, announces: bool, exit_code: int
) -> EventLine:
    """Name why a unit got no result in a process that ended by itself.

    Args:
        framework: its name in the plan. announces: it says every unit that it begins.

    Returns:
        An event without its moment and process; its `detail` reads behind "because".
    """
    kind: EventKind
    error = report.error_of(key.unit)
    if error is not None:
        kind, why = "not_imported", f"it could not be imported: {error}"
    elif report.vanished.get(key):
        kind, why = "deselected", f"it was {report.vanished[key]}"
    elif key in report.vanished:
        kind, why = "not_found", f"it was not found by {framework} in this checkout"
    elif announces:
        kind, why = "not_reached", f"its process ended with exit code {exit_code} before it started"
        why += f": {report.stopped}" if report.stopped else ""
    else:
        kind, why = "no_result", "the command wrote no result for it to $CIGUARD_RECORD_FILE"
        why += f" ({report.unreadable})" if report.unreadable else ""
    return EventLine(kind, suite=key.suite, variant=key.variant, unit=key.unit, detail=why)
