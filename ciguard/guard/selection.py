"""Which of the records that were found belong to this plan and this attempt. Pure.

A record's identity is its shard line: what is not of this plan, commit and repository is named
and never counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.guard.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ciguard.model import Plan, Record, ShardLine


@dataclass(frozen=True, slots=True)
class Selection:
    """`newest` is the record that counts for each shard, `earlier` those of older attempts."""

    newest: Mapping[str, Record]
    earlier: Mapping[str, tuple[Record, ...]]
    findings: tuple[Finding, ...]


def select(plan: Plan, records: Iterable[Record]) -> Selection:
    """Sort out the records.

    Of several runs the newest counts, of several attempts of a leg the newest that left a record:
    after "re-run failed jobs" the other legs have one of an earlier attempt only.
    """
    findings: list[Finding] = []
    ours: list[tuple[ShardLine, Record]] = []
    keys = {shard.key for shard in plan.shards}
    for record in records:
        stranger = _stranger(plan, keys, record)
        if stranger is not None:
            findings.append(stranger)
        elif record.header is not None:
            ours.append((record.header, record))
    newest_run = max((header.run_id or 0 for header, _ in ours), default=0)
    by_shard: dict[str, list[tuple[int, Record]]] = {}
    for header, record in ours:
        if (header.run_id or 0) != newest_run:
            what = f"{record.source} is of run {header.run_id or 'without id'}, not {newest_run}"
            findings.append(_not_counted("other_run", what, header.shard))
            continue
        by_shard.setdefault(header.shard, []).append((header.run_attempt or 0, record))
    for found in by_shard.values():
        found.sort(key=lambda pair: pair[0])
    return Selection(
        newest={shard: found[-1][1] for shard, found in by_shard.items()},
        earlier={
            shard: tuple(record for _, record in found[:-1]) for shard, found in by_shard.items()
        },
        findings=tuple(findings),
    )


def _not_counted(kind: str, what: str, shard: str = "") -> Finding:
    fix = "pass only the records of this run; they were not counted"
    return Finding("warning", kind, what, shard=shard, fix=fix)


def _stranger(plan: Plan, keys: set[str], record: Record) -> Finding | None:
    """Why a record is not of this plan; None if it is."""
    header = record.header
    if header is None:
        what = f"{record.source} has no shard line: nobody knows whose lines these are"
        fix = "the leg's own file of the record is missing or damaged: look at its upload"
        return Finding("incomplete", "no_shard_line", what, fix=fix)
    if header.plan_id != plan.id:
        what = f"{record.source} is of plan {header.plan_id or 'none'!r:.40}, not {plan.id}"
        return _not_counted("other_plan", what, header.shard)
    for name in ("repository", "head_sha"):
        theirs, mine = getattr(header, name), getattr(plan, name)
        if theirs and mine and theirs != mine:
            word = "commit" if name == "head_sha" else name
            what = f"{record.source} is of {word} {theirs:.60}, not {mine:.60}"
            return _not_counted(f"other_{word}", what, header.shard)
    if header.shard not in keys:
        what = f"{record.source} is of shard {header.shard!r:.40}, which is not in the plan"
        return _not_counted("unknown_shard", what, header.shard)
    return None
