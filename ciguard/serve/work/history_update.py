"""Adds a judged run of the base branch to its repository's history, as `ciguard history add` does.

Any number of workers may add, the same run any number of times, in any order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.history.ingest import history_of
from ciguard.history.run_metadata import check_is_merged
from ciguard.history.stores import update
from ciguard.serve.history_objects import ObjectHistory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ciguard.history.run_metadata import RunMetadata
    from ciguard.model import Plan, Record
    from ciguard.serve.objects import ObjectStore
    from ciguard.serve.state.database import Database
    from ciguard.serve.state.run_key import RunKey

WAIT_S: Final = 0.05  # before the second try, where another worker was faster


def update_history(
    database: Database,
    objects: ObjectStore,
    key: RunKey,
    *,
    plan: Plan | None,
    records: Iterable[Record],
    facts: RunMetadata,
    keep: Sequence[str] = (),
) -> bool:
    """Add a run; False, and nothing is written, where the history has it already.

    Args:
        plan: of the run; shards without a record, and tests of a job that died, are lost tests.
        records: of the newest attempt of each job. An attempt is theirs: after "Re-run failed
            jobs" they are of several.
        facts: what GitHub says of the run (`sha`, `branch`, `event`, `at`); its ids are the key's.
        keep: [metrics] keep of the base branch.

    Raises:
        InputError: the run is a pull request's or a merge group's, or a record contradicts GitHub,
            the plan, or what the history has of this run.
        DamagedObject: the stored history is not what was stored: `ObjectHistory.restart` first.
        RemoteError: the database or the store cannot be reached, or others were faster each time.
    """
    where = f"run {key.run_id} of repository {key.repository_id}"
    check_is_merged(facts.event, "it", where)
    facts = replace(facts, run_id=key.run_id, run_attempt=None)
    addition = history_of(records, facts, plan, keep)
    for run in addition.runs:
        check_is_merged(run.event, "a record of it", where)
    store = ObjectHistory(database, objects, key.repository_id)
    return update(store, addition, wait_s=WAIT_S).changed
