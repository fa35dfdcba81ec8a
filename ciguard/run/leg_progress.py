"""How far a leg is, in a line for who reads its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.run.output.view import describe_progress
from ciguard.text import unit_name

if TYPE_CHECKING:
    from typing import Optional, Tuple

    from ciguard.model import SampleLine
    from ciguard.run.policy.leg_verdict import Tally
    from ciguard.run.policy.state import State


def progress_line(
    tally: Tally,
    state: State,
    times_s: Tuple[float, Optional[float]],
    sample: Optional[SampleLine],
) -> str:
    """Counts of units with those of earlier legs, and what runs now.

    Args:
        times_s: as `describe_progress` takes them.
    """
    done = tally.results_by_unit.keys()
    open_units = {one for each in state.running.values() for one in each.open_units}
    return describe_progress(
        len(done),
        len(done | {unit.key for unit in state.own_units}),
        bad=tally.count_bad(),
        times_s=times_s,
        sample=sample,
        running=[unit_name(state.units[unit].key) for unit in sorted(open_units)],
    )
