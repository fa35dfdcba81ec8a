"""Time limits of a shard: of its step and job, and its own deadline; and when one is disregarded.

The leg stops itself before the platform does, so its deadline is what predictions are held against.
Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ciguard.model.plan import deadline_within

MINUTE_S: Final = 60


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """The limit of every shard's step and job, in GitHub's whole minutes, and the leg's own."""

    step_minutes: int
    job_minutes: int
    deadline_s: float


def time_limits(limit_s: float, setup_s: float) -> TimeLimits:
    """The limits given to the platform, and the time after which a leg stops itself.

    Args:
        limit_s: of the step, > 0. The leg keeps it to the second; the platform, which only takes
            whole minutes, gets the next one.
        setup_s: the rest of the job, >= 0; rounded up.
    """
    step = max(1, math.ceil(limit_s / MINUTE_S))
    job = step + max(1, math.ceil(setup_s / MINUTE_S))
    return TimeLimits(step, job, deadline_within(limit_s))


def is_enforced(infeasible: int, units: int) -> bool:
    """Whether shards are made so that they keep the deadline: not where most units cannot.

    Hundreds of shards of one unit each, all stopped, would be no answer to a wrong limit.

    Args:
        infeasible: units that exceed the deadline alone, of `units`.
    """
    return 2 * infeasible <= units
