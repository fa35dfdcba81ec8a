"""Tests in no shard of a matrix written by hand: acknowledged, or one too many. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ciguard.guard.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.guard.verdict import Policy
    from ciguard.history.query import LastShard
    from ciguard.model import Orphan, UnitKey


def orphan_findings(orphans: Sequence[Orphan], policy: Policy) -> Iterator[Finding]:
    """More than the policy acknowledges make the run incomplete.

    Which of them are the new ones is not known by their number: those that ran last are named, with
    the shard in which they did. Without past runs all are examples.
    """
    count, accepted = len(orphans), policy.orphans
    if not count:
        return
    if count <= accepted:
        facts = {"count": count, "accepted": accepted, "fewer": count if count < accepted else None}
        yield Finding("orphans_accepted", facts=facts)
        return
    ran = _newest(policy.last_shards, count - accepted)
    keys = () if ran else tuple(one.key for one in orphans)
    facts = {"count": count, "accepted": accepted or None}
    yield Finding("orphans", units=keys, facts=facts)
    by_shard: dict[tuple[str, int], list[UnitKey]] = defaultdict(list)
    for key in sorted(ran):
        by_shard[ran[key].shard, ran[key].run_id].append(key)
    for (shard, run_id), units in sorted(by_shard.items()):
        names = {"run_id": run_id, "tests": tuple(key.unit for key in units)}
        yield Finding("orphans_lost", shard, tuple(units), names)


def _newest(last: Mapping[UnitKey, LastShard], count: int) -> Mapping[UnitKey, LastShard]:
    """So many of those that ran last; more where some of one run would be left out."""
    positions = sorted((one.position for one in last.values()), reverse=True)
    least = positions[:count][-1] if positions else 0
    return {key: one for key, one in last.items() if one.position >= least}
