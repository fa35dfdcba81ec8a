"""All that a leg works on, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Mapping, Optional, Tuple

from ciguard.model import SLOTS
from ciguard.run.platforms.current import CURRENT
from ciguard.run.resume import NO_PRIOR_LEGS, PriorLegs

if TYPE_CHECKING:
    from ciguard.model import EventLine, LegPolicy, Shard, ShardLine, Suite
    from ciguard.run.frameworks.base import Executor
    from ciguard.run.platforms.base import Platform


@dataclass(frozen=True, **SLOTS)
class LegSpec:
    """What one leg is to do, where, and how.

    Attributes:
        folder, private: the record's, and one of the leg's own with `inside` in it; absolute.
        environ: the leg's own environment.
        whole: the process itself is the one unit, and its exit code the outcome.
        stdin: what the process reads, if anything: one of many must not take what others need.
        origin_s: the leg's start on the clock that cannot be set back; of one that goes on from
            others, so long before that its times follow theirs.
        for_s: how long units may be begun; None: until the deadline.
        predicted_s: wall time of the leg in all its parts; None: nobody knows.
        opening: what is to be said before anything is decided.
    """

    header: ShardLine
    shard: Shard
    suites: Mapping[str, Suite]
    policy: LegPolicy
    pool_env: Mapping[str, str]
    executor: Callable[[str], Executor]  # of a suite
    record_dir: str
    scratch_dir: str
    environ: Mapping[str, str]
    origin_s: float
    is_command: bool = False
    stdin: Optional[int] = None
    for_s: Optional[float] = None
    predicted_s: Optional[float] = None
    earlier: PriorLegs = NO_PRIOR_LEGS
    initial_events: Tuple[EventLine, ...] = ()
    platform: Platform = CURRENT
