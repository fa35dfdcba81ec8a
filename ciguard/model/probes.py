"""Extra tries ("probes") of the new failures of a leg: their lines and their answers. Pure.

They follow the end of the leg. No other reader of a record is given their lines, so that they
change no result. `run/policy/reruns.py` decides which units are tried, and how.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Mapping, Sequence

from ciguard.model.attempts import classify_result, resolve_attempts
from ciguard.model.record import ProcessLine, Record, Result, StartLine
from ciguard.model.types import SLOTS, CaseKey, UnitKey

PREFIX: Final = "probe_"  # of the reason of their processes, before the kind


@dataclass(frozen=True, **SLOTS)
class Probe:
    """One extra try of a unit in a fresh process.

    Attributes:
        kind: "alone"; "again", after the units that ran before it in its process; "after", directly
            after one of them, the `predecessor`.
        results: final results of the unit's cases.
    """

    kind: str
    results: tuple[Result, ...]
    predecessor: UnitKey | None = None

    def failed(self, case: CaseKey) -> bool | None:
        """Return whether a case failed; None without a verdict on it.

        A result of the unit as a whole counts for each case, and that of a case for the unit.
        """
        is_unit = case.case == case.unit
        results = (r for r in self.results if is_unit or r.key.case in (case.case, case.unit))
        statuses = set(map(classify_result, results))
        return "bad" in statuses if statuses & {"bad", "good"} else None


def split_probes(files: Sequence[list[Any]]) -> tuple[Sequence[list[Any]], list[Any]]:
    """Divide the lines of a leg's files into its own, by file, and those of its extra tries.

    These are the lines from the event `probing` on, and those of the processes that start there. An
    event `resumed` names the last process before it, and is a line of none.
    """
    own: list[list[Any]] = list(files)
    of_leg: list[Any] = []
    for number, lines in enumerate(files):
        if ProcessLine in map(type, lines):  # the others are written by processes
            kinds = [getattr(line, "kind", "") for line in lines]
            begin = kinds.index("probing") if "probing" in kinds else len(lines)
            own[number], of_leg = lines[:begin], of_leg + lines[begin:]
    processes = {line.process for line in of_leg if isinstance(line, ProcessLine)}

    if not processes:
        return own, of_leg

    def is_own(line: Any) -> bool:
        is_resumed = getattr(line, "kind", "") == "resumed"
        return is_resumed or getattr(line, "process", None) not in processes

    of_processes = [line for lines in own for line in lines if not is_own(line)]
    return [list(filter(is_own, lines)) for lines in own], of_processes + of_leg


def probes_of(record: Record) -> Mapping[UnitKey, Sequence[Probe]]:
    """Return the extra tries of each failed unit, in their order; a retry is none."""
    failed = {result.unit_key for result in record.results if result.is_failure}
    probes: dict[UnitKey, list[Probe]] = {}
    lines = [line for line in record.probes if isinstance(line, (StartLine, Result))]
    for process in (line for line in record.probes if isinstance(line, ProcessLine)):
        own = [line for line in lines if line.process == process.process]
        units = list(dict.fromkeys(line.unit_key for line in own))
        results = [line for line in own if isinstance(line, Result) and line.unit_key == units[-1]]
        kind = process.reason[len(PREFIX) :]
        is_step = kind == "after" and process.units > 2  # noqa: PLR2004  # of the halving
        # With fewer units it ended before the last one, which it was for.
        if results and len(units) == process.units and units[-1] in failed and not is_step:
            predecessor = units[0] if kind == "after" else None
            probe = Probe(kind, resolve_attempts(results).cases, predecessor)
            probes.setdefault(units[-1], []).append(probe)
    return probes
