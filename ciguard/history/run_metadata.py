"""What a person says of a run on the command line: fills what a record lacks. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from ciguard.errors import InputError
from ciguard.history.runs import UNDATED, UNMERGED_EVENTS, HistoryRun

if TYPE_CHECKING:
    from ciguard.model import Record, ShardLine

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """Options of `history add`; what is None was not said."""

    run_id: int | None = None
    run_attempt: int | None = None
    sha: str | None = None
    branch: str | None = None
    event: str | None = None
    at: datetime | None = None
    suite: str | None = None
    variant: str | None = None


NOTHING = RunMetadata()


def reconcile(option: str, recorded: T | None, given: T | None, where: str) -> T | None:
    """The recorded value, else the one said.

    Raises:
        InputError: both are there and differ.
    """
    if recorded and given is not None and recorded != given:
        raise InputError(
            f"the record says {recorded!r}, {option} says {given!r}",
            where=where,
            fix=f"leave {option} out, or name the record that was meant",
        )
    return recorded or given


def parse_time(text: str, where: str) -> datetime:
    """An RFC 3339 time as UTC; one without a zone is taken as UTC.

    Raises:
        InputError: it is none.
    """
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        fix = "write it as 2026-11-21T10:00:00Z"
        raise InputError(f"no time: {text!r:.60}", where=where, fix=fix) from None


def _commit(header: ShardLine, facts: RunMetadata, where: str) -> str | None:
    """The tested tree; --sha may also name the head that it was made of."""
    if facts.sha is not None and facts.sha in (header.tested_sha, header.head_sha):
        return header.tested_sha or header.head_sha
    return reconcile("--sha", header.tested_sha or header.head_sha, facts.sha, where)


def run_of(record: Record, facts: RunMetadata) -> HistoryRun:
    """The run that a record belongs to, without legs.

    Raises:
        InputError: nobody says which run it was, or the two sources say different things.
    """
    header, where = record.identity, record.source
    run_id = reconcile("--run-id", header.run_id, facts.run_id, where)
    if run_id is None:
        fix = "say which run it was: --run-id N (any number that no other run has)"
        raise InputError("no run id", where=where, fix=fix)
    # --at says when the run started, a record when its leg did: two facts, so no contradiction.
    started = parse_time(header.started_at, where) if header.started_at else None
    return HistoryRun(
        run_id=run_id,
        run_attempt=reconcile("--run-attempt", header.run_attempt, facts.run_attempt, where) or 1,
        at=facts.at or started or UNDATED,
        sha=_commit(header, facts, where),
        parents=header.tested_parents,
        branch=reconcile("--branch", header.branch, facts.branch, where),
        event=reconcile("--event", header.event, facts.event, where),
        repository=header.repository,
        workflow=header.workflow,
    )


def check_is_merged(event: str | None, subject: str, where: str) -> None:
    """Keep out what is only proposed: it would judge itself by the values that it adds.

    Args:
        event: of a run, as it says itself; or of the workflow run that is asking or that this one
            is about, as the platform says, for a job may say what it likes of the runs in it.
            None where it is not known.
        subject: the run.

    Raises:
        InputError: it is a pull request's or a merge group's.
    """
    if event in UNMERGED_EVENTS:
        what = f"{subject} is a run of {event}: what is only proposed enters no history"
        fix = "add runs of the base branch: if: github.event_name == 'push'"
        raise InputError(what, where=where, fix=fix)
