"""Which of the records that were found belong to this plan and this attempt. Pure.

A record's identity is its shard line: what is not of this plan, commit and repository is named
and never counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ciguard.guard.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ciguard.model import Plan, Record, ShardLine

MAX_NAMED: Final = 5  # damaged files in a sentence; the rest is counted
EMPTY_LEG: Final = "/supervisor.jsonl: empty"  # as damage says of a leg that wrote nothing


@dataclass(frozen=True, slots=True)
class Selection:
    """`newest` is the record that counts for each shard, `earlier` those of older attempts.

    `instead` says of shards without a record which one was found in its place, and why it does not
    count; nothing where that is the same for all and a finding says it.
    """

    newest: Mapping[str, Record]
    earlier: Mapping[str, tuple[Record, ...]]
    rejected: Mapping[str, Finding]
    findings: tuple[Finding, ...]


def select(
    plan: Plan,
    records: Iterable[Record],
    attempts: Mapping[str, int] | None = None,
    run_id: int | None = None,
    head_shas: AbstractSet[str] = frozenset(),
) -> Selection:
    """Sort out the records.

    After "re-run failed jobs" the legs that were not run again have a record of an earlier attempt
    only. Where nobody says in which attempt a leg ran last, its newest record counts.

    Args:
        attempts: by shard, in which it ran last; only a record of that attempt counts, for one
            that ran again and left nothing is dead.
        run_id: that is judged; None for the newest of which there is a record.
        heads: commits that GitHub says it is of; none where nobody says.
    """
    foreign: list[Finding] = []
    matching: list[tuple[ShardLine, Record]] = []
    keys = {shard.key for shard in plan.shards}
    unnamed: list[Record] = []
    for record in records:
        if record.header is None:
            unnamed.append(record)
            continue
        mismatch = _foreign(plan, keys, record, head_shas)
        if mismatch is not None:
            foreign.append(mismatch)
        else:
            matching.append((record.header, record))
    newest_run = run_id or max((header.run_id or 0 for header, _ in matching), default=0)
    by_shard: dict[str, list[tuple[int, Record]]] = {}
    for header, record in matching:
        if (header.run_id or 0) != newest_run:
            what = f"{record.source} is of run {header.run_id or 'without id'}, not {newest_run}"
            foreign.append(_not_counted("other_run", what, header.shard))
            continue
        by_shard.setdefault(header.shard, []).append((header.run_attempt or 0, record))
    for found in by_shard.values():
        found.sort(key=lambda pair: pair[0])
    older = _split_other_attempts(by_shard, attempts or {})
    foreign.extend(one for one, _ in older.values())
    counting = {shard: (plan.id, newest_run, found[-1][0]) for shard, found in by_shard.items()}
    foreign.extend(_unnamed(one, counting, keys) for one in unnamed)
    rejected, findings = _split_foreign(keys - by_shard.keys(), foreign, any_of_ours=bool(matching))
    return Selection(
        newest={shard: found[-1][1] for shard, found in by_shard.items()},
        earlier={
            **{
                shard: tuple(record for _, record in found[:-1])
                for shard, found in by_shard.items()
            },
            **{shard: older_records for shard, (_, older_records) in older.items()},
        },
        rejected=rejected,
        findings=tuple(findings),
    )


def _split_other_attempts(
    by_shard: dict[str, list[tuple[int, Record]]], attempts: Mapping[str, int]
) -> dict[str, tuple[Finding, tuple[Record, ...]]]:
    """Take out the shards whose record of the attempt in which they ran last is missing."""
    taken: dict[str, tuple[Finding, tuple[Record, ...]]] = {}
    for shard, ran_last in attempts.items():
        found = by_shard.get(shard, [])
        # One of a later attempt than its job had is no better than an older one.
        if found and found[-1][0] != ran_last:
            del by_shard[shard]
            there = found[-1][0] or "without number"
            what = f"the newest is of attempt {there}, and its job ran last in attempt {ran_last}"
            fix = "look at the log of its job: did its upload fail? Run it again"
            finding = Finding("warning", "other_attempt", what, shard=shard, fix=fix)
            taken[shard] = (finding, tuple(record for _, record in found))
    return taken


def _split_foreign(
    absent: AbstractSet[str], foreign: Sequence[Finding], *, any_of_ours: bool
) -> tuple[dict[str, Finding], list[Finding]]:
    """Where a shard has no record, the stranger in its place is the cause and no warning beside it.

    Where all are of another plan that is one cause, and nothing need be done for any one shard.
    """
    other_plans = [one for one in foreign if one.kind == "other_plan"]
    if other_plans and not any_of_ours:
        rest = [one for one in foreign if one.kind != "other_plan"]
        more = f", and {len(other_plans) - 1:,} more like it" if len(other_plans) > 1 else ""
        what = f"no record is of this plan: {other_plans[0].message}{more}"
        fix = "pass the plan that these records were made with, or the records of this plan's run"
        cause = Finding("incomplete", "other_plan", what, fix=fix)
        return {shard: replace(cause, message="", fix="") for shard in absent}, [cause, *rest]
    rejected = {one.shard: one for one in foreign if one.shard in absent}
    warnings = [one for one in foreign if one not in rejected.values()]
    return rejected, warnings


def _not_counted(kind: str, what: str, shard: str = "") -> Finding:
    fix = "pass only the records of this run; they were not counted"
    return Finding("warning", kind, what, shard=shard, fix=fix)


def _unnamed(
    record: Record, counting: Mapping[str, tuple[str, int, int]], keys: AbstractSet[str]
) -> Finding:
    """A record without its shard line might hold a failure, unless a later attempt's counts.

    Nor does a leg's own file without a byte, alone in its folder, hold any where no leg lacks one.

    Args:
        counting: by shard, of which plan, run and attempt the record is that counts.
    """
    claims = record.partial_header
    fix = "the leg's own file of the record is missing or damaged: look at its upload"
    if claims is not None and claims.shard in counting:
        *run, attempt = counting[claims.shard]
        older = (claims.run_attempt or 0) < attempt
        if run == [claims.plan_id, claims.run_id or 0] and older:
            what = (
                f"shard {claims.shard}: of attempt {claims.run_attempt} there is a record without "
            )
            what += f"its shard line ({record.source}); that of attempt {attempt} counts"
            return Finding("warning", "no_shard_line", what, claims.shard)
    lines = record.results or record.starts or record.processes
    empty = bool(record.damage) and all(one.endswith(EMPTY_LEG) for one in record.damage)
    if empty and not lines and counting.keys() == keys:
        what = f"empty files, and each leg has a record: {', '.join(record.damage[:MAX_NAMED])}"
        return Finding("warning", "empty_record_file", what, fix="look at what the legs upload")
    return Finding("incomplete", "no_shard_line", _unidentified(record), fix=fix)


def _unidentified(record: Record) -> str:
    if record.results or record.starts or record.processes or not record.damage:
        return f"{record.source} has no shard line: nobody knows whose lines these are"
    if len(record.damage) == 1:
        return f"a file that belongs to no shard: {record.damage[0]}"
    shown = record.damage[:MAX_NAMED]
    more = len(record.damage) - len(shown)
    listed = ", ".join(shown) + (f" and {more:,} more" if more else "")
    return f"files that belong to no shard: {listed}"


def _has_other_head(header: ShardLine, head_shas: AbstractSet[str]) -> bool:
    """Say whether GitHub says another commit of the run than the record.

    A run of `pull_request_target` and the like is of the base branch, and its legs say the pull
    request's commit.
    """
    if not head_shas or header.head_sha is None or header.head_sha in head_shas:
        return False
    return not (header.event or "").startswith("pull_request_")


def _foreign(plan: Plan, keys: set[str], record: Record, heads: AbstractSet[str]) -> Finding | None:
    """Why a record is not of this plan; None if it is."""
    header = record.identity
    if header.plan_id != plan.id:
        whose = f"of plan {header.plan_id!r:.40}" if header.plan_id else "of a command without plan"
        what = f"{record.source} is {whose}, not {plan.id}"
        return _not_counted("other_plan", what, header.shard)
    for name in ("repository", "head_sha"):
        theirs, mine = getattr(header, name), getattr(plan, name)
        if theirs and mine and theirs != mine:
            word = "commit" if name == "head_sha" else name
            what = f"{record.source} is of {word} {theirs:.60}, not {mine:.60}"
            return _not_counted(f"other_{word}", what, header.shard)
    if _has_other_head(header, heads):
        mine = " or ".join(sorted(heads))
        what = f"{record.source} is of commit {header.head_sha:.60}, and this run of {mine:.200}"
        return _not_counted("other_commit", what, header.shard)
    if header.shard not in keys:
        what = f"{record.source} is of shard {header.shard!r:.40}, which is not in the plan"
        return _not_counted("unknown_shard", what, header.shard)
    return None
