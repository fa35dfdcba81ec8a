"""Extra tries after the end of a leg: of its new failures, then of new and changed units. Pure.

They change no result. reruns.py and repeats.py decide which they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Sequence

from ciguard.run.policy.repeats import RepeatedUnit, next_repeated, select_repeated
from ciguard.run.policy.reruns import NewFailure, Rerun, with_time_for_probe

if TYPE_CHECKING:
    from ciguard.run.policy.process_state import ProcessState


@dataclass
class ExtraTries:
    """The extra tries of a leg.

    Attributes:
        probed: new failures that are tried again.
        repeatable: new and changed units that passed, by unit.
        repeated: those of them that are repeated; `current`: the one that runs now.
    """

    probed: Sequence[NewFailure] = ()
    repeatable: dict[int, RepeatedUnit] = field(default_factory=dict)
    repeated: Sequence[RepeatedUnit] = ()
    current: RepeatedUnit | None = None

    def timeout_s(self, unit: int, limit_s: float | None) -> float | None:
        """Return the time that a unit may take now; None for no limit.

        Args:
            limit_s: its limit in its own tries.
        """
        if self.current is None or self.current.unit != unit:
            return limit_s
        repeat_s = self.current.limit_s
        return repeat_s if limit_s is None else min(limit_s, repeat_s)

    def next_repeat(self, left_s: float) -> list[Rerun]:
        """Return the next repeat, if any fits into the time.

        Units get their least number of repeats before the first ones get more.
        """
        if not any(each.needs_more for each in self.repeated):
            chosen = {each.unit for each in self.repeated}
            rest = [each for unit, each in self.repeatable.items() if unit not in chosen]
            self.repeated = [*self.repeated, *select_repeated(rest, left_s)]
        self.current = next_repeated(self.repeated, left_s)
        return [self.current.next_rerun()] if self.current else []

    def observe_end(self, running: ProcessState, ended_s: float, left_s: float) -> list[Rerun]:
        """Take in the end of a process; return those that follow."""
        if self.repeated:
            if self.current is not None:
                self.current.observe_end(running, ended_s)
            return self.next_repeat(left_s)
        for failure in self.probed:
            failure.observe_end(running)
        return [failure.probe for failure in with_time_for_probe(self.probed, left_s)]
