"""Selection of the records that count: those of this plan and run, one for each shard. Pure.

A record's identity is its shard line. A record of another plan, commit or repository never counts,
and a finding names it. Of the other records of a shard, that of the attempt in which its job ran
last counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from ciguard.guard.diagnosis import is_from_result_files
from ciguard.guard.verdict import Finding
from ciguard.model import Plan, Record, ShardLine
from ciguard.render.notes import Note

_Foreign = tuple[str, Note]  # shard of a record that does not count, and the reason

OWN_FILE: Final = "/supervisor.jsonl"  # the leg's own file, besides those of its processes


@dataclass(frozen=True, slots=True)
class Selection:
    """The records of a run by shard.

    Attributes:
        newest: the record that counts.
        earlier: the records of older attempts.
        rejected: for shards without a record, the reason why an uploaded record does not count.
    """

    newest: Mapping[str, Record]
    earlier: Mapping[str, tuple[Record, ...]]
    rejected: Mapping[str, Note]
    findings: tuple[Finding, ...]


def select(
    plan: Plan,
    records: Iterable[Record],
    attempts: Mapping[str, int] | None = None,
    run_id: int | None = None,
    head_shas: AbstractSet[str] = frozenset(),
) -> Selection:
    """Select the record of each shard that counts.

    After "Re-run failed jobs" a leg that did not run again has only a record of an earlier attempt.
    If the last attempt of a leg is unknown, its newest record counts.

    Args:
        attempts: by shard, the attempt in which its job ran last. Only a record of this attempt
            counts, because a leg that ran again and left no record died.
        run_id: id of the judged run; None: the newest run of the records.
        head_shas: commits of the run by GitHub; empty if unknown.
    """
    foreign: list[_Foreign] = []
    matching: list[tuple[ShardLine, Record]] = []
    keys = {shard.key for shard in plan.shards}
    without_header: list[Record] = []
    for record in records:
        if record.header is None:
            without_header.append(record)
            continue
        mismatch = _mismatch(plan, keys, record, head_shas)
        if mismatch is not None:
            foreign.append((record.header.shard, mismatch))
        else:
            matching.append((record.header, record))
    newest_run = run_id or max((header.run_id or 0 for header, _ in matching), default=0)
    by_shard: dict[str, list[tuple[int, Record]]] = {}
    for header, record in matching:
        attempt = header.run_attempt or 0
        if is_undated(record):
            attempt = (attempts or {}).get(header.shard, 0)
        elif (header.run_id or 0) != newest_run and not is_from_result_files(record):
            mismatch = _not_of_ours("other_run", record, header.run_id, newest_run)
            foreign.append((header.shard, mismatch))
            continue
        by_shard.setdefault(header.shard, []).append((attempt, record))
    for attempts_of_shard in by_shard.values():
        attempts_of_shard.sort(key=lambda pair: pair[0])
    older = _split_other_attempts(by_shard, attempts or {})
    foreign.extend((shard, reason) for shard, (reason, _) in older.items())
    counting = {shard: (plan.id, newest_run, pairs[-1][0]) for shard, pairs in by_shard.items()}
    rejected, findings = _split_foreign(keys - by_shard.keys(), foreign, any_of_ours=bool(matching))
    earlier = {
        shard: tuple(record for _, record in pairs[:-1]) for shard, pairs in by_shard.items()
    }
    return Selection(
        newest={shard: pairs[-1][1] for shard, pairs in by_shard.items()},
        earlier={**earlier, **{shard: records_ for shard, (_, records_) in older.items()}},
        rejected=rejected,
        findings=(
            *findings,
            *(_check_headless(record, counting, keys) for record in without_header),
        ),
    )


def is_undated(record: Record) -> bool:
    """Return whether a record was made of result files whose run attempt is unknown.

    Result files belong to the judged run; without an attempt, to the one in which their job ran
    last.
    """
    header = record.header
    return header is not None and header.run_attempt is None and is_from_result_files(record)


def _split_other_attempts(
    by_shard: dict[str, list[tuple[int, Record]]], attempts: Mapping[str, int]
) -> dict[str, tuple[Note, tuple[Record, ...]]]:
    """Remove and return the shards without a record of their job's last attempt."""
    removed: dict[str, tuple[Note, tuple[Record, ...]]] = {}
    for shard, ran_last in attempts.items():
        pairs = by_shard.get(shard, [])
        # A record of a later attempt than that of its job does not count either.
        if pairs and pairs[-1][0] != ran_last:
            del by_shard[shard]
            facts = {"theirs": pairs[-1][0], "ours": ran_last}
            removed[shard] = (Note("other_attempt", facts), tuple(record for _, record in pairs))
    return removed


def _split_foreign(
    absent: AbstractSet[str], foreign: Sequence[_Foreign], *, any_of_ours: bool
) -> tuple[dict[str, Note], list[Finding]]:
    """Return the reason for each shard with only a foreign record, and warnings on the others.

    If all records are of another plan, one finding has this cause for all shards.
    """
    other_plans = [reason for _, reason in foreign if reason.kind == "other_plan"]
    if other_plans and not any_of_ours:
        cause = Note(
            "only_other_plans", {**other_plans[0].facts, "more": len(other_plans) - 1 or None}
        )
        rest = [pair for pair in foreign if pair[1].kind != "other_plan"]
        rejected, warnings = dict.fromkeys(absent, cause), [("", cause), *rest]
    else:
        rejected = {shard: reason for shard, reason in foreign if shard in absent}
        warnings = [pair for pair in foreign if pair not in rejected.items()]
    return rejected, [Finding(why.kind, shard, facts=why.facts) for shard, why in warnings]


def _check_headless(
    record: Record, counting: Mapping[str, tuple[str, int, int]], keys: AbstractSet[str]
) -> Finding:
    """Judge a record without a shard line, which may contain a failure.

    It contains none if the record of a later attempt counts, or if it is only an empty file of a
    leg and each shard has a record.

    Args:
        counting: by shard, plan, run and attempt of the record that counts.
    """
    claims = record.partial_header
    if claims is not None and claims.shard in counting:
        *run, attempt = counting[claims.shard]
        if run == [claims.plan_id, claims.run_id or 0] and (claims.run_attempt or 0) < attempt:
            facts = {"source": record.source, "theirs": claims.run_attempt, "ours": attempt}
            return Finding("older_record_without_shard_line", claims.shard, facts=facts)
    if record.results or record.starts or record.processes or not record.damage:
        return Finding("no_shard_line", facts={"files": [record.source]})
    empty = record.empty_files
    is_harmless = all(name.endswith(OWN_FILE) for name in empty) and counting.keys() == keys
    if len(empty) == len(record.damage) and is_harmless:
        return Finding("empty_record_file", facts={"files": empty})
    return Finding("no_shard_line", facts={"files": record.damage})


def _mismatch(
    plan: Plan, keys: set[str], record: Record, head_shas: AbstractSet[str]
) -> Note | None:
    """Return the reason why a record is not of this plan; None if it is."""
    header = record.identity
    if header.plan_id != plan.id:
        return _not_of_ours("other_plan", record, header.plan_id or None, plan.id)
    if header.repository and plan.repository and header.repository != plan.repository:
        return _not_of_ours("other_repository", record, header.repository, plan.repository)
    if header.head_sha and plan.head_sha and header.head_sha != plan.head_sha:
        return _not_of_ours("other_commit", record, header.head_sha, plan.head_sha)
    is_known = bool(head_shas) and header.head_sha is not None  # "" is another commit
    is_other_head = is_known and header.head_sha not in head_shas
    # For events such as `pull_request_target`, GitHub gives a commit of the base branch, and the
    # records have that of the pull request: such a record is accepted.
    is_accepted = (header.event or "").startswith("pull_request_") or is_from_result_files(record)
    if is_other_head and not is_accepted:
        return _not_of_ours("other_commit", record, header.head_sha, sorted(head_shas))
    if header.shard not in keys:
        return Note("unknown_shard", {"source": record.source, "theirs": header.shard})
    return None


def _not_of_ours(kind: str, record: Record, theirs: Any, ours: Any) -> Note:
    return Note(kind, {"source": record.source, "theirs": theirs, "ours": ours})
