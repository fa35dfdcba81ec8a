"""What a history knows of the base: its newest runs, how many units they planned, what failed.

A pull request is held against it, so that nothing that it says of itself has to be believed. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.history.file import CODE_NAMES
from ciguard.model import BAD_OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ciguard.history.file import History
    from ciguard.history.runs import HistoryRun
    from ciguard.model import CaseKey, Outcome

_BAD: Final = tuple(CODE_NAMES["outcome"].index(outcome) for outcome in BAD_OUTCOMES)


@dataclass(frozen=True, slots=True)
class BaseQuery:
    """Who asks for its base; None is not known, and then holds nothing back.

    `branch` is the base's; `run_id` is the asker's own: what began behind it is not its base, even
    when it is run again much later.
    """

    branch: str | None = None
    workflow: str | None = None
    run_id: int | None = None


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A case that failed in the base's run too: how, and since which run, as far as is kept."""

    outcome: Outcome
    since_run: int
    run: int
    branch: str


def base_runs(history: History, query: BaseQuery) -> Iterator[int]:
    """Positions of the base's runs in the history, the newest first."""
    for position in range(len(history.runs) - 1, -1, -1):
        if _is_base(history.runs[position], query):
            yield position


def _is_base(run: HistoryRun, query: BaseQuery) -> bool:
    if run.is_unmerged:
        return False
    if query.branch and run.branch and run.branch != query.branch:
        return False
    if query.workflow and run.workflow and run.workflow != query.workflow:
        return False
    return query.run_id is None or run.run_id < query.run_id


@dataclass(frozen=True, slots=True)
class BaseUnitCount:
    """How many units a run of the base planned, and where in the history it is."""

    planned: int
    run: HistoryRun
    position: int

    @property
    def source(self) -> str:
        """What a person calls that run."""
        return f"run {self.run.run_id}" + (f" of {self.run.branch}" if self.run.branch else "")


def units_planned(history: History, query: BaseQuery) -> BaseUnitCount | None:
    """Of the base's newest run whose plan was known; None without one."""
    for position in base_runs(history, query):
        run = history.runs[position]
        planned = [leg.units_planned for leg in run.legs]
        known = [count for count in planned if count is not None]
        if known and len(known) == len(planned):
            return BaseUnitCount(sum(known), run, position)
    return None


def cases_of_run(history: History, position: int) -> Iterator[CaseKey]:
    """The cases of which a run has a value, sorted. O(values)."""
    for place in history.values.key[history.values.run == position].tolist():
        yield history.keys[place]


def known_failures(
    history: History, query: BaseQuery
) -> tuple[Mapping[CaseKey, KnownFailure], HistoryRun | None]:
    """Cases that failed in the base's newest run of which every leg ended by itself, and that run.

    A failure goes back as far as the case failed in each of the base's runs that has it.
    """
    runs = list(base_runs(history, query))
    newest = next((one for one in runs if history.runs[one].complete), None)
    if newest is None:
        return {}, None
    values, of_base = history.values, np.zeros(len(history.runs), np.bool_)
    of_base[runs] = True
    bad = np.isin(values.outcome, _BAD)
    found = {}
    for row in np.flatnonzero((values.run == newest) & bad).tolist():
        first = before = row
        while before >= 0 and values.key[before] == values.key[row]:
            if of_base[values.run[before]]:
                if not bad[before]:
                    break
                first = before
            before -= 1
        run = history.runs[newest]
        found[history.keys[values.key[row]]] = KnownFailure(
            outcome=BAD_OUTCOMES[_BAD.index(int(values.outcome[row]))],
            since_run=history.runs[values.run[first]].run_id,
            run=run.run_id,
            branch=run.branch or query.branch or "the base",
        )
    return found, history.runs[newest]
