"""What one leg is to do, where, and how: what a supervisor is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable, Mapping, Sequence

from ciguard.model import SLOTS
from ciguard.run.platforms.current import CURRENT
from ciguard.run.resume import NO_PRIOR_LEGS

if TYPE_CHECKING:
    from typing import Optional, Tuple

    from ciguard.model import EventLine, LegPolicy, PlannedUnit, Shard, ShardLine, Suite
    from ciguard.run.claim_client import ClaimClient
    from ciguard.run.frameworks.base import Framework
    from ciguard.run.platforms.base import Platform
    from ciguard.run.resume import PriorLegs


@dataclass(frozen=True, **SLOTS)
class LegSpec:
    """What one leg is to do, where, and how.

    Attributes:
        record_dir, scratch_dir: absolute; the second is the leg's own, with `inside` in it.
        environ: the leg's own environment.
        is_command: the process itself is the one unit, and its exit code the outcome.
        stdin: what the process reads, if anything: one of many must not take what others need.
        origin_s: the leg's start on the clock that cannot be set back; of one that goes on from
            others, so long before that its times follow theirs.
        for_s: how long units may be begun; None: until the deadline.
        predicted_s: wall time of the leg in all its parts; None: not known.
        initial_events: what is written before anything is decided.
        others_blocks, claim_client: of a leg that may get units of other shards.
        listing_lines: what is written of a listing, where the first process lists.
    """

    header: ShardLine
    shard: Shard
    suites: Mapping[str, Suite]
    policy: LegPolicy
    pool_env: Mapping[str, str]
    executor: Callable[[str], Framework]  # of a suite
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
    listing_lines: Callable[[bytes], Sequence[EventLine]] = lambda answer: ()  # noqa: ARG005
    platform: Platform = CURRENT
    others_blocks: Mapping[str, Tuple[PlannedUnit, ...]] = field(default_factory=dict)
    claim_client: Optional[ClaimClient] = None
