"""Time limits of a shard's step, job and leg, and of a unit: listed, configured, or by past times.

A leg stops itself before the platform stops it: predictions are therefore compared with the leg's
deadline. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ciguard.history.file import History
from ciguard.model.jobs import whole_minutes
from ciguard.model.plan import deadline_within
from ciguard.plan.estimates import Observations
from ciguard.plan.inventory import Inventory

# Limits by past times are never shorter: a test that took 2 s eight times may need more on a busy
# machine.
MIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """The limit of every shard's step and job, in GitHub's whole minutes, and the leg's own."""

    step_minutes: int
    job_minutes: int
    deadline_s: float


def time_limits(limit_s: float, setup_s: float) -> TimeLimits:
    """Return the limits for the platform, and the time after which a leg stops itself.

    Args:
        limit_s: of the step, > 0. The leg keeps it to the second; the platform gets the next whole
            minute.
        setup_s: of the rest of the job, >= 0; rounded up.
    """
    step = whole_minutes(limit_s)
    job = step + whole_minutes(setup_s)
    return TimeLimits(step, job, deadline_within(limit_s))


@dataclass(frozen=True, slots=True)
class TimeoutRule:
    """Limits of a suite's units: `max_s` for all, `ratio` x the longest past time of a unit."""

    max_s: float | None = None
    ratio: float | None = None


def unit_timeouts(
    inventory: Inventory,
    observations: Observations,
    rules: Mapping[str, TimeoutRule],
    setup_s: Mapping[str, float],
) -> tuple[float | None, ...]:
    """Return the limit of each unit of the inventory, in seconds; empty if no unit has one.

    A limit of the listing replaces the rule of the suite.

    Args:
        rules: by suite.
        setup_s: by suite, the allowance for shared fixtures, which the first unit sets up.
    """
    has_rule = any(rule.max_s or rule.ratio for rule in rules.values())
    if not has_rule and not any(unit.timeout_ms for unit in inventory.units):
        return ()
    complete = ~observations.is_lower_bound & np.isfinite(observations.wall_s)
    longest_s = np.full(len(inventory.units), np.nan)
    np.fmax.at(longest_s, observations.unit[complete], observations.wall_s[complete])
    return tuple(
        unit.timeout_ms / 1000
        if unit.timeout_ms
        else _limit_s(rules.get(unit.suite, TimeoutRule()), taken_s, setup_s.get(unit.suite, 0.0))
        for unit, taken_s in zip(inventory.units, longest_s.tolist(), strict=True)
    )


def _limit_s(rule: TimeoutRule, longest_s: float, setup_s: float) -> float | None:
    if rule.ratio is None or np.isnan(longest_s):
        return rule.max_s
    own_s = round(max(MIN_S, rule.ratio * longest_s) + setup_s, 3)
    return own_s if rule.max_s is None else min(own_s, rule.max_s)


def max_fixture_s(history: History) -> dict[str, float]:
    """Return by suite the longest set-up of shared fixtures in one unit, in seconds. O(values)."""
    if not (history.values.setup_s > 0).any():
        return {}
    suites = sorted({key.suite for key in history.keys})
    index = {suite: number for number, suite in enumerate(suites)}
    suite_of_key = np.fromiter((index[key.suite] for key in history.keys), np.int64)
    longest_s = np.zeros(len(suites))
    values = history.values
    np.fmax.at(longest_s, suite_of_key[values.key], np.nan_to_num(values.setup_s))
    return dict(zip(suites, longest_s.tolist(), strict=True))
