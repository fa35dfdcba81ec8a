"""The records that belong to this plan and this attempt, of all that arrived. Pure.

A record's identity is its shard line: what is not of this plan, commit and repository is named
and never counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ciguard.guard.diagnosis import is_from_result_files
from ciguard.guard.verdict import Finding
from ciguard.render.notes import Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ciguard.model import Plan, Record, ShardLine

OWN_FILE: Final = "/supervisor.jsonl"  # of a leg, beside those of its processes


@dataclass(frozen=True, slots=True)
class Selection:
    """`newest` is the record that counts for each shard, `earlier` those of older attempts.

    `rejected` says of shards without a record why one that was found in its place does not count.
    """

    newest: Mapping[str, Record]
    earlier: Mapping[str, tuple[Record, ...]]
    rejected: Mapping[str, Note]
    findings: tuple[Finding, ...]


class _Foreign(NamedTuple):
    """A record that does not count, by the shard that it is of, and why."""

    shard: str
    reason: Note


def select(
    plan: Plan,
    records: Iterable[Record],
    attempts: Mapping[str, int] | None = None,
    run_id: int | None = None,
    head_shas: AbstractSet[str] = frozenset(),
) -> Selection:
    """Sort out the records.

    After "re-run failed jobs" the legs that were not run again have a record of an earlier attempt
    only. Where the attempt in which a leg ran last is unknown, its newest record counts.

    Args:
        attempts: by shard, in which it ran last; only a record of that attempt counts, for one
            that ran again and left nothing is dead.
        run_id: that is judged; None for the newest of which there is a record.
        head_shas: commits of the run by GitHub; none where they are unknown.
    """
    foreign: list[_Foreign] = []
    matching: list[tuple[ShardLine, Record]] = []
    keys = {shard.key for shard in plan.shards}
    unnamed: list[Record] = []
    for record in records:
        if record.header is None:
            unnamed.append(record)
            continue
        mismatch = _mismatch(plan, keys, record, head_shas)
        if mismatch is not None:
            foreign.append(_Foreign(record.header.shard, mismatch))
        else:
            matching.append((record.header, record))
    newest_run = run_id or max((header.run_id or 0 for header, _ in matching), default=0)
    by_shard: dict[str, list[tuple[int, Record]]] = {}
    for header, record in matching:
        if is_undated(record):
            ran_last = (attempts or {}).get(header.shard, 0)
            by_shard.setdefault(header.shard, []).append((ran_last, record))
            continue
        if (header.run_id or 0) != newest_run and not is_from_result_files(record):
            mismatch = _not_of_ours("other_run", record, header.run_id, newest_run)
            foreign.append(_Foreign(header.shard, mismatch))
            continue
        by_shard.setdefault(header.shard, []).append((header.run_attempt or 0, record))
    for found in by_shard.values():
        found.sort(key=lambda pair: pair[0])
    older = _split_other_attempts(by_shard, attempts or {})
    foreign.extend(_Foreign(shard, reason) for shard, (reason, _) in older.items())
    counting = {shard: (plan.id, newest_run, found[-1][0]) for shard, found in by_shard.items()}
    rejected, findings = _split_foreign(keys - by_shard.keys(), foreign, any_of_ours=bool(matching))
    earlier = {
        shard: tuple(record for _, record in found[:-1]) for shard, found in by_shard.items()
    }
    return Selection(
        newest={shard: found[-1][1] for shard, found in by_shard.items()},
        earlier={**earlier, **{shard: records_ for shard, (_, records_) in older.items()}},
        rejected=rejected,
        findings=(*findings, *(_unnamed(one, counting, keys) for one in unnamed)),
    )


def is_undated(record: Record) -> bool:
    """Return whether it was made of result files, and nothing tells of which attempt they are.

    Result files are always those of the run that is judged, and these of the attempt in which the
    job ran last.
    """
    header = record.header
    return header is not None and header.run_attempt is None and is_from_result_files(record)


def _split_other_attempts(
    by_shard: dict[str, list[tuple[int, Record]]], attempts: Mapping[str, int]
) -> dict[str, tuple[Note, tuple[Record, ...]]]:
    """Take out the shards whose record of the attempt in which they ran last is missing."""
    taken: dict[str, tuple[Note, tuple[Record, ...]]] = {}
    for shard, ran_last in attempts.items():
        found = by_shard.get(shard, [])
        # One of a later attempt than its job had is no better than an older one.
        if found and found[-1][0] != ran_last:
            del by_shard[shard]
            facts = {"theirs": found[-1][0], "ours": ran_last}
            records = tuple(record for _, record in found)
            taken[shard] = (Note("other_attempt", facts), records)
    return taken


def _split_foreign(
    absent: AbstractSet[str], foreign: Sequence[_Foreign], *, any_of_ours: bool
) -> tuple[dict[str, Note], list[Finding]]:
    """Make a foreign record the cause of a shard without one, and a warning elsewhere.

    Where all are of another plan that is one cause, and nothing need be done for any one shard.
    """
    other_plans = [one for one in foreign if one.reason.kind == "other_plan"]
    if other_plans and not any_of_ours:
        facts = {**other_plans[0].reason.facts, "more": len(other_plans) - 1 or None}
        cause = Note("only_other_plans", facts)
        rest = [_warning(one) for one in foreign if one not in other_plans]
        first = Finding(cause.kind, facts=facts)
        return dict.fromkeys(absent, cause), [first, *rest]
    rejected = {one.shard: one for one in foreign if one.shard in absent}
    warnings = [_warning(one) for one in foreign if one not in rejected.values()]
    return {shard: one.reason for shard, one in rejected.items()}, warnings


def _warning(foreign: _Foreign) -> Finding:
    return Finding(foreign.reason.kind, foreign.shard, facts=foreign.reason.facts)


def _unnamed(
    record: Record, counting: Mapping[str, tuple[str, int, int]], keys: AbstractSet[str]
) -> Finding:
    """A record without its shard line might hold a failure, unless a later attempt's counts.

    Nor does a leg's own file without a byte, alone in its folder, hold any where each leg has one.

    Args:
        counting: by shard, of which plan, run and attempt the record is that counts.
    """
    claims = record.partial_header
    if claims is not None and claims.shard in counting:
        *run, attempt = counting[claims.shard]
        older = (claims.run_attempt or 0) < attempt
        if run == [claims.plan_id, claims.run_id or 0] and older:
            facts = {"source": record.source, "theirs": claims.run_attempt, "ours": attempt}
            return Finding("older_record_without_shard_line", claims.shard, facts=facts)
    if record.results or record.starts or record.processes or not record.damage:
        return Finding("no_shard_line", facts={"files": [record.source]})
    empty = record.empty_files
    is_harmless = all(one.endswith(OWN_FILE) for one in empty) and counting.keys() == keys
    if len(empty) == len(record.damage) and is_harmless:
        return Finding("empty_record_file", facts={"files": empty})
    return Finding("no_shard_line", facts={"files": record.damage})


def _has_other_head(header: ShardLine, head_shas: AbstractSet[str]) -> bool:
    """Return whether GitHub names another commit of the run than the record.

    A run of `pull_request_target` and the like is of the base branch, and its legs say the pull
    request's commit.
    """
    if not head_shas or header.head_sha is None or header.head_sha in head_shas:
        return False
    return not (header.event or "").startswith("pull_request_")


def _mismatch(
    plan: Plan, keys: set[str], record: Record, head_shas: AbstractSet[str]
) -> Note | None:
    """Return why a record is not of this plan; None if it is."""
    header = record.identity
    if header.plan_id != plan.id:
        return _not_of_ours("other_plan", record, header.plan_id or None, plan.id)
    if header.repository and plan.repository and header.repository != plan.repository:
        return _not_of_ours("other_repository", record, header.repository, plan.repository)
    if header.head_sha and plan.head_sha and header.head_sha != plan.head_sha:
        return _not_of_ours("other_commit", record, header.head_sha, plan.head_sha)
    if _has_other_head(header, head_shas) and not is_from_result_files(record):
        return _not_of_ours("other_commit", record, header.head_sha, sorted(head_shas))
    if header.shard not in keys:
        return Note("unknown_shard", {"source": record.source, "theirs": header.shard})
    return None


def _not_of_ours(kind: str, record: Record, theirs: Any, ours: Any) -> Note:
    return Note(kind, {"source": record.source, "theirs": theirs, "ours": ours})
