"""How long each suite and variant of the default branch has been green."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.model import BAD_OUTCOMES
from ciguard.serve.state import run_rows
from ciguard.serve.state.base_runs import newest_base_runs

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from ciguard.serve.state.run_key import RunKey
    from ciguard.serve.state.run_rows import RunRow, RunSuiteRow

LOOKED_AT: Final = 200  # runs in which the last green one is looked for


@dataclass(frozen=True, slots=True)
class LastGreen:
    """The last run of the default branch in which a suite and variant was complete and passed.

    `key`, `completed_at_ms` and `head_sha` are None where none of the last runs was green.
    """

    suite: str
    variant: str
    key: RunKey | None
    completed_at_ms: int | None
    head_sha: str | None


def is_green(suite: RunSuiteRow) -> bool:
    """Say whether every planned test has a result, and none of them is bad."""
    return suite.missing == 0 and not any(suite.counts.get(one) for one in BAD_OUTCOMES)


def last_greens(connection: Connection, repository_id: int) -> tuple[LastGreen, ...]:
    """Of each suite and variant of the last 200 runs of the default branch, by their names."""
    keys = newest_base_runs(connection, repository_id, LOOKED_AT)
    suites = run_rows.suites_of(connection, keys)
    found: dict[tuple[str, str], RunKey | None] = {}
    for key in keys:
        for one in suites[key]:
            place = one.suite, one.variant
            if found.setdefault(place, None) is None and is_green(one):
                found[place] = key
    runs = {key: run_rows.get(connection, key) for key in set(found.values()) if key}
    return tuple(
        _last_green(place, runs[key] if key else None) for place, key in sorted(found.items())
    )


def _last_green(place: tuple[str, str], run: RunRow | None) -> LastGreen:
    if run is None:
        return LastGreen(*place, None, None, None)
    return LastGreen(*place, run.key, run.completed_at_ms, run.head_sha)
